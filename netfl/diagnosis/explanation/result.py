"""Result of an explanation, as sentences, a table and a flat JSON object."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
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
        words: words for causes in sentences, where they are not their names.
    """

    users: tuple[UserExplanation, ...]
    causes: tuple[str, ...]
    inactive: Mapping[str, str]
    fair: float
    notes: tuple[str, ...]
    words: Mapping[str, str] = field(default_factory=dict)

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
                row |= _gain_columns(user, cause)
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


def _gain_columns(user: UserExplanation, cause: str) -> dict[str, float]:
    """Return what *user* gains without *cause*, by column; missing values if the cause was not replayed."""
    gain = user.gains.get(cause)
    if gain is None:
        columns = ("without", "gain", "gain_low", "gain_high", "gain_s", "p", "share")
        return {f"{column}_{cause}": math.nan for column in columns}
    return {
        f"without_{cause}": gain.after,
        f"gain_{cause}": gain.deliveries,
        f"gain_low_{cause}": gain.low,
        f"gain_high_{cause}": gain.high,
        f"gain_s_{cause}": gain.seconds,
        f"p_{cause}": min(1.0, gain.p * user.tests),
        f"share_{cause}": user.share(cause),
    }


def _finite(value: Any) -> Any:
    """Return *value*, or ``None`` for a number that JSON does not know."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
