"""Why one user delivers so little: its causes, from its replays, and the sentence that states them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

from netfl.diagnosis.explanation.gains import LEVEL, Gain
from netfl.diagnosis.explanation.rarity import Standing
from netfl.results.formatting import clock, counted, format_count, join_words

LEAST_SHARE = 0.2
"""Least share of a user's shortfall that a cause explains if it is named."""
_MOST = 0.5
"""Share of a shortfall that counts as most of it."""
_LEAST_CHANCE = 1e-4
"""Probability from which a sentence states that chance may explain the deliveries."""

Rule = Literal["deadline", "superseded"]
"""What ends updates that take longer than a round: the server takes them no more, or their users abandon them."""
RULES: tuple[str, ...] = get_args(Rule)
_AGAINST = {"deadline": "the deadline", "superseded": "newer versions (superseded)"}


@dataclass(frozen=True, slots=True)
class LeastTime:
    """Least time for an update of a user, compared with the rounds: a bound that needs no replay.

    Args:
        train_s: mean training time, in seconds.
        frames: number of frames of an update.
        frame_s: time from the start of a frame to that of the next one, in seconds: its mean airtime and what the MAC
            adds to it, such as the silence of a duty cycle.
        airtime_s: mean airtime of a frame, in seconds.
        round_s: the longest round, in seconds.
        trainings: number of trainings that the user began.
        finished: number of trainings that ended before a newer version replaced them.
        rule: what ends an update that takes longer than a round.
    """

    train_s: float
    frames: int
    frame_s: float
    airtime_s: float
    round_s: float
    trainings: int
    finished: int
    rule: Rule = "deadline"

    @property
    def send_s(self) -> float:
        """Least time for all frames of an update."""
        return self.frames * self.frame_s

    @property
    def causes(self) -> tuple[str, ...]:
        """The causes for which no update of the user can end before the round does; empty if one can."""
        if self.train_s > self.round_s:
            return ("compute",)
        if self.send_s > self.round_s:
            return ("airtime",)
        if self.train_s + self.send_s > self.round_s:
            return ("compute", "airtime")
        return ()

    @property
    def reason(self) -> str:
        """The bound in words."""
        end = "rounds close" if self.rule == "deadline" else "it abandons it for a newer version"
        rounds = f"{end} after at most {clock(self.round_s)}"
        training = f"it trains for {clock(self.train_s)}"
        silence = ""
        if self.frame_s > self.airtime_s:
            silence = f" ({clock(self.airtime_s)} on the air, the rest silence)"
        if self.frames > 1:
            sending = f"{self.frames} packets × {clock(self.frame_s)}{silence} = {clock(self.send_s)}"
        else:
            sending = f"a frame takes {clock(self.frame_s)}{silence}"
        if self.causes == ("compute",):
            return f"{training}, and {rounds}"
        if self.causes == ("airtime",):
            return f"{sending}, and {rounds}"
        return f"{training}, then {sending}, and {rounds}"


@dataclass(frozen=True, slots=True)
class UserExplanation:
    """Deliveries of one user, and without each cause of missing ones.

    The replays differ from the original in this user alone, so that the result does not depend on the other users that
    are explained.

    Args:
        user: user number.
        standing: how its deliveries compare with the fair share.
        deliveries: the number of its deliveries.
        rounds: the number of rounds.
        empty_rounds: the number of rounds without any delivery.
        fair: the fair share.
        p: probability that some of equal users has so few deliveries.
        ties: the number of other users with as many deliveries.
        outcomes: outcomes of its updates, of `netfl.types.OUTCOMES`.
        failed: failed attempts over the air, by reason.
        least_time: the bound on its updates; ``None`` where older updates count, or nobody trains.
        gains: its gain without each cause that can concern it.
        together: its gain without all of these causes; ``None`` if it was not replayed.
        typical: deliveries of a typical user without each cause, over those with it.
        sufficient: causes that must be removed together, as each suffices to keep the user from delivering, or as they
            add up.
        without_sufficient: the gain without all of these.
        words: words for causes in sentences, where they are not their names.
    """

    user: int
    standing: Standing
    deliveries: int
    rounds: int
    empty_rounds: int
    fair: float
    p: float
    ties: int = 0
    outcomes: Mapping[str, int] = field(default_factory=dict)
    failed: Mapping[str, int] = field(default_factory=dict)
    least_time: LeastTime | None = None
    gains: Mapping[str, Gain] = field(default_factory=dict)
    together: Gain | None = None
    typical: Mapping[str, float] = field(default_factory=dict)
    sufficient: tuple[str, ...] = ()
    without_sufficient: Gain | None = None
    words: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_starving(self) -> bool:
        """True if it delivers too little, so that its causes matter."""
        return self.standing in {Standing.RARE, Standing.STARVED}

    @property
    def bound_causes(self) -> tuple[str, ...]:
        """The causes for which none of its updates can end in time, the rule that ends them last."""
        least_time = self.least_time
        if self.deliveries or least_time is None or not least_time.causes:
            return ()
        return (*least_time.causes, least_time.rule)

    @property
    def tests(self) -> int:
        """Number of tests for which the p-values of gains are corrected: one for each cause, one for all together."""
        return len(self.gains) + 1

    def is_significant(self, gain: Gain | None) -> bool:
        """Return whether chance does not explain *gain*, corrected by Bonferroni for the number of `tests`."""
        return gain is not None and gain.deliveries > 0 and gain.p * self.tests <= LEVEL

    def share(self, cause: str) -> float:
        """Return the share of the user's shortfall that is gone without *cause*, from 0 to 1.

        With D deliveries of a fair share F the shortfall is 1 - D / F.  Without the cause it is 1 - D' / F', where F'
        is what a typical user delivers without the cause: what costs everybody as much explains nothing.  In a network
        that hardly delivers the gain of the user is compared with its deliveries without all causes instead.
        """
        return self.share_of(self.gains[cause], [cause])

    def share_of(self, gain: Gain, causes: Sequence[str]) -> float:
        """Return the share of the shortfall that is gone with the *gain* without these *causes*, as `share` states it.

        What a typical user gains without several causes is taken as the product of what it gains without each.
        """
        if self.standing is Standing.STARVED:
            whole = gain if self.together is None else self.together
            if whole.deliveries <= 0:
                return 0.0
            return _clipped(gain.deliveries / whole.deliveries)
        if not self.fair or self.deliveries >= self.fair:
            return 0.0
        typical = math.prod(self.typical.get(cause, 1.0) for cause in causes)
        fair_after = self.fair * typical  # F'
        shortfall_before = 1 - self.deliveries / self.fair
        shortfall_after = 1 - gain.after / fair_after
        return _clipped(1 - shortfall_after / shortfall_before)

    @property
    def named(self) -> tuple[str, ...]:
        """The causes that explain its shortfall, the largest share first and `RULES` last; empty if none does."""
        if self.sufficient:
            return self.sufficient
        if self.bound_causes:
            return self.bound_causes
        return self.single_causes

    @property
    def single_causes(self) -> tuple[str, ...]:
        """The causes that explain its shortfall by themselves, that with the largest share first, `RULES` last.

        Beside that with the largest share, one is named that explains half as much, or something of what the other
        leaves.  A rule is met because of what takes the time, so that it comes after it.
        """
        shares = {cause: self.share(cause) for cause, gain in self.gains.items() if self.is_significant(gain)}
        main_share = max(shares.values(), default=0.0)
        named = []
        for cause, share in shares.items():
            explains_half = share >= main_share / 2
            explains_what_is_left = main_share + share <= 1.0
            if share >= LEAST_SHARE and (explains_half or explains_what_is_left):
                named.append(cause)
        return tuple(sorted(named, key=lambda cause: (cause in RULES, -shares[cause])))

    @property
    def is_mostly_explained(self) -> bool:
        """True if its single causes explain most of its shortfall."""
        return sum(self.share(cause) for cause in self.single_causes) >= _MOST

    def is_mostly_gone(self, gain: Gain, causes: Sequence[str]) -> bool:
        """Return whether the *gain* without these *causes* is most of the shortfall."""
        return self.share_of(gain, causes) >= _MOST

    @property
    def main(self) -> str | None:
        """The first `named` cause."""
        return next(iter(self.named), None)

    @property
    def sentence(self) -> str:
        """The explanation in words."""
        updates = counted(self.deliveries, "update") if self.deliveries else "no update"
        head = f"user {self.user} delivered {updates} in {counted(self.rounds, 'round')}"
        if self.standing is Standing.ABOVE:
            return f"{head}, more than its fair share of {self.fair:.3g}"
        if self.deliveries == self.fair and self.deliveries:
            return f"{head}, exactly its fair share"
        if self.standing is Standing.WITHIN_CHANCE:
            return f"{head}, which may be chance (p = {self.p:.2g}): its fair share is {self.fair:.3g}"
        if self.standing is Standing.DOUBTFUL:
            return (
                f"{head}, fewer than its fair share of {self.fair:.3g}, as chance makes some user of a network of "
                f"equal users in {self._chance}: run more rounds before you look for a cause"
            )
        if self.standing is Standing.STARVED:
            head = f"{head} ({self.empty_rounds} rounds delivered nothing at all)"
        elif self.p >= _LEAST_CHANCE and not self.bound_causes:
            head = f"{head} (fair share {self.fair:.3g}; by chance, some of equal users is as rare in {self._chance})"
        else:
            head = f"{head} (fair share {self.fair:.3g})"
        if self.ties and not self.deliveries:
            others = "another user" if self.ties == 1 else f"{self.ties} other users"
            head = f"{head}, like {others}"
        return f"{head}: {self._explanation}"

    @property
    def _chance(self) -> str:
        """Share of runs of equal users in which chance alone makes some user as rare, in words."""
        return f"1 of {format_count(round(1.0 / self.p))} such runs"

    def _word(self, cause: str) -> str:
        return self.words.get(cause, cause)

    def _join(self, causes: Sequence[str]) -> str:
        return join_words([self._word(cause) for cause in causes])

    @property
    def _explanation(self) -> str:
        if self.without_sufficient is not None:
            return self._jointly_removed(self.without_sufficient)
        if self.bound_causes and self.least_time is not None:
            return self._bound(self.least_time)
        if self.named:
            return "; ".join(self._named_parts())
        if self.is_significant(self.together) and self.together is not None:
            return f"no single cause explains it; without all of them, {_effect(self.together)}"
        return "no cause costs it more deliveries than chance explains"

    def _jointly_removed(self, gain: Gain) -> str:
        causes = self._join(self.sufficient)
        effect = _effect(gain)
        if len(self.sufficient) == 1:
            return f"{causes}; without it, {effect}"
        if any(self.share(cause) >= LEAST_SHARE for cause in self.sufficient):
            return f"{causes}, which add up; without all of them, {effect}"
        if len(self.sufficient) == 2:
            return f"{causes}, of which either suffices; without both, {effect}"
        return f"{causes}, of which each suffices; without all of them, {effect}"

    def _bound(self, least_time: LeastTime) -> str:
        *causes, rule = self.bound_causes
        return f"{self._join(causes)} against {_AGAINST[rule]}: {least_time.reason}"

    def _named_parts(self) -> Iterator[str]:
        """Yield the causes, and what the user would deliver without each."""
        first = self.named[0]
        rules = [cause for cause in self.named if cause in RULES]
        causes = [cause for cause in self.named if cause not in RULES] or rules
        overlap = sum(self.share(cause) for cause in causes) > 1 + LEAST_SHARE
        if len(causes) == 1:
            named = self._word(first)
        elif overlap:
            without = "either" if len(causes) == 2 else "any one of them"
            named = f"{self._join(causes)} together, as it delivers without {without}"
        else:
            named = f"mostly {self._word(first)}, then {self._join(causes[1:])}"
        if rules and rules != causes:
            named = f"{named}, against {join_words([_AGAINST[rule] for rule in rules])}"
        yield named
        for cause in self.named:
            yield f"without {self._word(cause)}, {_effect(self.gains[cause])}"
        if self.standing is Standing.RARE and first in self.typical:
            change = self.fair * (self.typical[first] - 1)
            yield f"a typical user would deliver {change:+.3g} without {self._word(first)}"


def _effect(gain: Gain) -> str:
    """Return what a user would have delivered, in words."""
    updates = f"it would have delivered {counted(gain.after, 'update')}"
    if math.isinf(gain.after_s):
        return updates
    interval = ""
    if not math.isinf(gain.high):
        interval = f" ({max(0.0, gain.before + gain.low):.0f} to {gain.before + gain.high:.0f})"
    return f"{updates}{interval}, one in {clock(gain.after_s)}"


def _clipped(share: float) -> float:
    return min(1.0, max(0.0, share))
