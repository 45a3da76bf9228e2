"""Result of an explanation, as sentences, a table and a flat JSON object."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import pandas as pd

from netfl.diagnosis.explanation.user import UserExplanation


@dataclass(frozen=True)
class Explanation:
    """Causes of missing deliveries of several users.

    Args:
        users: one explanation for each user, in the order of the request, by default the rarest first.
        causes: the causes that can cost users of this network their deliveries.
        inactive: the other causes, and the reasons for which they cost nothing.
        fair: the fair share: the deliveries of all users, divided by the number of users.
        notes: limits of the result, in sentences.
    """

    users: tuple[UserExplanation, ...]
    causes: tuple[str, ...]
    inactive: Mapping[str, str]
    fair: float
    notes: tuple[str, ...]

    @property
    def table(self) -> pd.DataFrame:
        """One row for each user: its deliveries, what it gains without each cause, and the causes that explain it.

        The columns of a cause are missing values for a user whose causes were not replayed.
        """
        rows = []
        for user in self.users:
            row: dict[str, Any] = {
                "user": user.user,
                "deliveries": user.deliveries,
                "fair": user.fair,
                "standing": user.standing.name.lower(),
                "p": user.p,
                "main": user.main,
                "causes": ", ".join(user.named),
            }
            for cause in self.causes:
                gain = user.gains.get(cause)
                row[f"without_{cause}"] = None if gain is None else gain.after
                row[f"gain_{cause}"] = None if gain is None else gain.deliveries
                row[f"gain_low_{cause}"] = None if gain is None else gain.low
                row[f"gain_high_{cause}"] = None if gain is None else gain.high
                row[f"gain_s_{cause}"] = None if gain is None else gain.seconds
                row[f"p_{cause}"] = None if gain is None else min(1.0, gain.p * user.tests)
                row[f"share_{cause}"] = None if gain is None else user.share(cause)
            row["without_all"] = None if user.together is None else user.together.after
            if user.least_time is not None:
                row |= asdict(user.least_time)
            rows.append(row)
        return pd.DataFrame(rows)

    def to_json(self) -> dict[str, Any]:
        """Return a flat object: for each metric a list over the users."""
        flat: dict[str, Any] = {
            f"explain.{name}": [_finite(value) for value in column.tolist()] for name, column in self.table.items()
        }
        flat["explain.outcomes"] = [dict(user.outcomes) for user in self.users]
        flat["explain.failed"] = [dict(user.failed) for user in self.users]
        flat["explain.sentences"] = [user.sentence for user in self.users]
        return flat | {"explain.inactive": dict(self.inactive), "explain.notes": list(self.notes)}


def _finite(value: Any) -> Any:
    """Return *value*, or ``None`` for a number that JSON does not know."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
