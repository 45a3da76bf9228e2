"""The causes of users' missing deliveries: as numbers, as a table, and in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import pandas as pd

from netfl.figures import clock

LEVEL = 0.05
"""The probability that any cause is named that costs nobody anything."""
ALL = "all"
"""The name of all causes together."""


@dataclass(frozen=True, slots=True)
class Training:
    """The trainings of one user, beside the rounds that they have to fit into.

    Args:
        train_s: how long the user trains for one update, on average, in seconds.
        round_s: how long rounds are open, the median, in seconds.
        begun: trainings that the user began.
        finished: those that came to an end before a newer version replaced them.
    """

    train_s: float
    round_s: float
    begun: int
    finished: int

    @property
    def is_too_long(self) -> bool:
        """Whether the user never sends anything, because rounds close before it has trained."""
        return self.begun > 0 and self.finished == 0 and self.train_s > self.round_s


@dataclass(frozen=True, slots=True)
class Story:
    """One user: its deliveries, and those that it would have had without each cause.

    The plays differ from the one as it was in this user alone, so that a story does not depend on which other users
    are explained beside it.

    Args:
        user: its number.
        heard: its deliveries.
        rounds: in how many rounds.
        fair: the deliveries of all users, divided by their number.
        fates: what its updates came to, of `netfl.types.FATES`.
        failed: attempts over the air that failed and left it to another, or to giving up, by why.
        without: its deliveries without each cause.
        together: its deliveries without all of them.
        p: how likely chance alone brings such a gain to any user by any cause, by cause, and by `ALL` of them: the
            p-value of `netfl.diagnosis.gain` times how many gains there are, at most 1.
        training: its trainings; ``None`` where users do not train.
    """

    user: int
    heard: int
    rounds: int
    fair: float
    fates: Mapping[str, int]
    failed: Mapping[str, int]
    without: Mapping[str, int]
    together: int
    p: Mapping[str, float]
    training: Training | None = None

    @property
    def never_sends(self) -> bool:
        """Whether training alone keeps the user from ever sending; a fact of the run, whatever chance does."""
        return "compute" in self.without and self.training is not None and self.training.is_too_long

    @property
    def gains(self) -> dict[str, int]:
        """By how many deliveries it has more without each cause; below 0 where it has fewer."""
        return {cause: count - self.heard for cause, count in self.without.items()}

    @property
    def named(self) -> tuple[str, ...]:
        """Compute where it `never_sends`, then the causes whose gains are beyond chance, the largest first."""
        gains = self.gains
        clear = [cause for cause in self.without if gains[cause] > 0 and self.p[cause] <= LEVEL]
        first = ["compute"] if self.never_sends else []
        return (*dict.fromkeys(first + sorted(clear, key=lambda cause: -gains[cause])),)

    @property
    def shares(self) -> dict[str, float]:
        """The gain of each cause that is `named` as a part of the gains of all these; 0 of the others."""
        gains = {cause: max(0, self.gains[cause]) for cause in self.named}
        whole = sum(gains.values()) or 1
        return {cause: gains.get(cause, 0) / whole for cause in self.without}

    @property
    def is_combined(self) -> bool:
        """Whether all causes together cost more deliveries than those `named` do, one by one, beyond chance."""
        gains = self.gains
        return self.p[ALL] <= LEVEL and self.together - self.heard > sum(gains[cause] for cause in self.named)

    @property
    def main(self) -> str | None:
        """The first of the causes that are `named`."""
        return next(iter(self.named), None)

    @property
    def sentence(self) -> str:
        """All that in words."""
        head = f"user {self.user} delivered {_updates(self.heard)} in {self.rounds} rounds (fair share {self.fair:.3g})"
        together = f"without all of them, it would have delivered {_updates(self.together)}"
        if not self.named:
            alone = "no cause alone costs it more deliveries than chance explains"
            return f"{head}: {alone}; {together}" if self.is_combined else f"{head}: {alone.replace(' alone', '')}"
        first, without = self.named[0], self.without[self.named[0]]
        combined = f"; {together}" if self.is_combined else ""
        return f"{head}: {self._verdict}; without {first}, it would have delivered {_updates(without)}{combined}"

    @property
    def _verdict(self) -> str:
        """The causes that are `named`."""
        shares, (first, *others) = self.shares, self.named
        if self.never_sends and self.training is not None:
            train, close = clock(self.training.train_s), clock(self.training.round_s)
            return f"compute: it never sends, because it trains for {train} and rounds close after {close} (median)"
        more = ", then " + " and ".join(f"{cause} ({_percent(shares[cause])})" for cause in others) if others else ""
        return f"{'mostly ' if 0.5 <= shares[first] < 1 else ''}{first} ({_percent(shares[first])}){more}"


@dataclass(frozen=True)
class Explanation:
    """The causes of missing deliveries, for several users.

    Args:
        stories: one for each user, in the order in which they were asked for, by default the rarest first.
        causes: those that are at work.
        idle: the others, and why they cost nobody anything.
        notes: what else is to be said.
    """

    stories: tuple[Story, ...]
    causes: tuple[str, ...]
    idle: Mapping[str, str]
    notes: tuple[str, ...]

    @property
    def table(self) -> pd.DataFrame:
        """One row per user: user, heard, fair; for each cause its deliveries without it, gain, share and p-value.

        Where users train, the columns of `Training` follow.
        """
        rows = []
        for one in self.stories:
            row: dict[str, Any] = {"user": one.user, "heard": one.heard, "fair": one.fair}
            for cause in self.causes:
                row[f"without_{cause}"], row[f"gain_{cause}"] = one.without[cause], one.gains[cause]
                row[f"share_{cause}"], row[f"p_{cause}"] = one.shares[cause], one.p[cause]
            row |= {"without_all": one.together, "p_all": one.p[ALL], "main": one.main}
            rows.append(row if one.training is None else row | asdict(one.training))
        return pd.DataFrame(rows)

    def to_json(self) -> dict[str, Any]:
        """All of it, flat: for each figure a list over the users."""
        told: dict[str, Any] = {f"explain.{name}": column.tolist() for name, column in self.table.items()}
        for name in ("fates", "failed"):
            told[f"explain.{name}"] = [dict(getattr(one, name)) for one in self.stories]
        told["explain.sentences"] = [one.sentence for one in self.stories]
        return told | {"explain.idle": dict(self.idle), "explain.notes": list(self.notes)}


def _updates(count: int) -> str:
    """A number of updates."""
    return {0: "no update", 1: "1 update"}.get(count, f"{count} updates")


def _percent(share: float) -> str:
    """A share."""
    return f"{100 * share:.0f} %"
