"""Deadline and quorum of rounds that minimise the expected time to a target.

**Progress.**  A round that aggregates m of its n users' updates makes the progress

    g(m) = ((m / (m + c)) / (n / (n + c)))^p,

so that a round with all updates, a *full round*, makes 1, and one without updates 0.  Updates are noisy estimates of
the direction of all users.  With a step that suits m of them, the progress of a step is in proportion to 1 / (1 + c/m),
where c is the variance between updates over the squared length of their mean: the noise scale of McCandlish et al.,
"An empirical model of large-batch training", 2018, equation 2.10, with users in place of examples.  From about c users
on, more of them help little (Charles et al., "On large-cohort training for federated learning", NeurIPS 2021).  c is
called the critical number here.  With c = 0 each round counts the same, and with c → ∞ each update.  The exponent p
is 1 if users are in time by turns.  If fewer updates mean fewer users, always the same ones, rounds see less of the
data, too, and a second factor of this form makes p up to 2.

**Time.**  Under the deadline D and the quorum q a round lasts

    τ = min(D, arrival of update ⌈q·n⌉, time at which the server knows that no further update comes) + overhead,

and aggregates the updates until then.  A target of G full rounds takes R rounds with Σ g(mᵣ) ≥ G, so that by the
renewal-reward theorem the time to the target is

    T = G · E[τ] / E[g(m)].

Both means are taken over the rounds of a log, or of a simulation.  What happens in a round until D does not depend on
what would happen later in it.  So arrivals of rounds that waited for all users give τ and m of any D and q, as far as
rounds open in the same state: users that a deadline leaves behind must be able to take part in the next round.

**Assumption.**  Updates count alike, whoever sends them: T says nothing about users that are never in time, so that a
rule must include a share of the users.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd

from netfl.core.remedies import argument
from netfl.diagnosis.timeout.arrivals import Arrivals
from netfl.errors import Fault, ScenarioError
from netfl.network.round.quorum import Quorum
from netfl.streams import Streams
from netfl.types import Bools, Floats, Ints

CRITICAL = 10.0
"""Critical number of updates, where it is not given and no learner is measured."""
FULL_ROUNDS = 100.0
"""Target, in full rounds."""
INCLUDE = 0.9
"""Share of the users that must be in time in some round."""
OTHER_CRITICAL = 4.0
"""Factor between the critical number and others, with which the advice is compared."""
_RESAMPLES = 1000
"""Bootstrap samples of the rounds."""
_MAX_BLOCKS = 1000
"""Largest number of blocks of which a sample consists."""
_CELLS = 500_000
"""Rounds times deadlines that are computed at once."""
_MIN_DEADLINES = 100
_QUORUMS = 40
"""Largest number of quorums that are compared."""
_CURVE = 40
"""Deadlines of the curve, beside the recommended one."""
_FEW_ROUNDS = 30
_INSTANT_S = 1e-3
"""Deadline of rounds in which all updates arrive as they open."""
_TINY = 1e-300
"""In place of 0 updates, of which a share is 0 then."""
_COVERED = 0.99
"""Share of the updates in time that a limit of attempts must not cost."""


@dataclass(frozen=True, slots=True)
class TimeoutOptions:
    """Target and conditions of a rule.

    Args:
        critical: the critical number of updates c.
        exponent: the exponent p.
        full_rounds: the target: progress in rounds with the updates of all users.
        quorum: the quorum; by default the best.
        include: share of the users, of those that deliver at all, that must be in time in some round.
        overhead_s: time between the close of a round and the opening of the next, in which the server aggregates.
        seed: seed of the bootstrap.
    """

    critical: float = CRITICAL
    exponent: float = 1.0
    full_rounds: float = FULL_ROUNDS
    quorum: float | None = None
    include: float = INCLUDE
    overhead_s: float = 0.0
    seed: int = 0

    def check(self) -> None:
        """Check the ranges.

        Raises:
            ScenarioError: an option is out of range.
        """
        faults = []
        if not 0.0 <= self.critical < math.inf:
            faults.append(Fault(argument("critical"), "not a number of updates", self.critical, "give 0 or more"))
        if not 0.0 < self.exponent < math.inf:
            faults.append(Fault(argument("exponent"), "not above 0", self.exponent, "give for example 1"))
        if not 0.0 < self.full_rounds < math.inf:
            faults.append(Fault(argument("full_rounds"), "not above 0", self.full_rounds, "give for example 100"))
        if self.quorum is not None and not 0.0 < self.quorum <= 1.0:
            faults.append(Fault(argument("quorum"), "not a share above 0", self.quorum, "give one such as 0.8"))
        if not 0.0 <= self.include <= 1.0:
            faults.append(Fault(argument("include"), "not a share", self.include, "give one from 0 to 1"))
        if not 0.0 <= self.overhead_s < math.inf:
            faults.append(Fault(argument("overhead_s"), "not a duration", self.overhead_s, "give 0 or more"))
        if faults:
            raise ScenarioError(faults)


@dataclass(frozen=True, slots=True)
class TimeoutRule:
    """Deadline and quorum of rounds.

    Args:
        deadline_s: time from the opening of a round to its close at the latest.
        quorum: share of the users with whose updates a round closes.
    """

    deadline_s: float
    quorum: float = 1.0

    def wanted(self, sizes: Ints) -> Ints:
        """Return the number of updates with which rounds of *sizes* users close, ``[rounds]``."""
        policy = Quorum(quorum=self.quorum, deadline=self.deadline_s)
        distinct, place = np.unique(sizes, return_inverse=True)
        return np.array([policy.max_updates(int(size)) for size in distinct])[place]


@dataclass(frozen=True, slots=True)
class Expectation:
    """Rounds under one rule.

    Args:
        rule: the rule.
        time_s: expected time to the target.
        low_s: lower end of its 95 % interval.
        high_s: upper end.
        rounds: expected number of rounds to the target.
        round_s: mean duration of a round.
        updates: mean number of updates of a round.
        never: names of users that are in time in no round, but would be without deadline and quorum.
    """

    rule: TimeoutRule
    time_s: float
    low_s: float
    high_s: float
    rounds: float
    round_s: float
    updates: float
    never: Sequence[str]


@dataclass(frozen=True, slots=True)
class Advice:
    """Recommended rule, and what it is compared with.

    Args:
        best: the recommended rule.
        deadlines_s: 95 % interval of its deadline, with its quorum.
        alone: the best deadline with a quorum of 1; ``None`` if the quorum is given.
        everyone: the best rule under which all users are in time in some round; ``None`` if *best* is one, or if the
            given quorum allows none.
        others: the best rules with smaller and larger critical numbers, by that number.
        max_attempts: number of attempts that nearly all updates in time need at most; ``None`` if unknown.
        curve: time to the target over the deadline, with the recommended quorum: ``deadline_s``, ``time_s``, ``low_s``,
            ``high_s``, ``round_s``, ``updates``, ``never``, the share of users that are never in time.
        options: target and conditions of the rule.
        rounds: rounds that the advice is based on.
        users: users in them.
        notes: remarks on the log.
    """

    best: Expectation
    deadlines_s: tuple[float, float]
    alone: Expectation | None
    everyone: Expectation | None
    others: Mapping[float, TimeoutRule]
    max_attempts: int | None
    curve: pd.DataFrame
    options: TimeoutOptions
    rounds: int
    users: int
    notes: Sequence[str] = field(default=())


def progress(updates: Ints, sizes: Ints, critical: float, exponent: float = 1.0) -> Floats:
    """Return the progress g of rounds with so many *updates* of *sizes* users; 1 with all, 0 without any.

    >>> progress(np.array([0, 5, 10]), np.array([10, 10, 10]), 10.0).round(3).tolist()
    [0.0, 0.667, 1.0]
    """
    full = sizes / (sizes + critical)
    return np.asarray((updates / np.maximum(updates + critical, _TINY) / full) ** exponent)


def advise(arrivals: Arrivals, options: TimeoutOptions | None = None, rule: TimeoutRule | None = None) -> Advice:
    """Find the deadline and the quorum that minimise the time to a target.

    Args:
        arrivals: arrivals in rounds that no deadline has cut.
        options: target and conditions of the rule.
        rule: the rule to recommend, if it is known from elsewhere.

    Raises:
        ScenarioError: an option is out of range, no round has two users, no update arrives, or no deadline includes
            enough users.
    """
    options = options or TimeoutOptions()
    options.check()
    _check(arrivals)
    search = RuleSearch(arrivals, options)
    rule = rule or search.best()
    if rule is None:
        problem = f"with the quorum {options.quorum}, so many users are in time at no deadline"
        remedy = f"lower it, or raise {argument('quorum')}"
        raise ScenarioError([Fault(argument("include"), problem, options.include, remedy)])
    best = search.expect(rule)

    def best_with(**changes: Any) -> Expectation | None:
        other = replace(options, **changes)
        other_rule = RuleSearch(arrivals, other).best()
        return None if other_rule is None else search.expect(other_rule)

    others = {}
    for critical in (options.critical / OTHER_CRITICAL, options.critical * OTHER_CRITICAL or 1.0):
        other = best_with(critical=critical)
        if other is not None:
            others[critical] = other.rule
    return Advice(
        best=best,
        deadlines_s=search.deadline_interval_s(rule.quorum),
        alone=best_with(quorum=1.0) if options.quorum is None else None,
        everyone=best_with(include=1.0) if best.never else None,
        others=others,
        max_attempts=_max_attempts(arrivals, rule),
        curve=search.curve(rule),
        options=options,
        rounds=arrivals.rounds,
        users=len(arrivals.names),
        notes=[*_notes(arrivals, rule)],
    )


def _check(arrivals: Arrivals) -> None:
    """Check that there are rounds in which a deadline has an effect.

    Raises:
        ScenarioError: there are none.
    """
    problem = ""
    if arrivals.sizes.max(initial=0) < 2:
        problem = "no round has two users, so that no deadline can leave one of them behind"
        remedy = "give a row for each user that takes part in a round"
    elif not len(arrivals.arrived_s):
        problem = "no update arrives, so that no target can be reached"
        remedy = "give rounds in which updates arrive"
    if problem:
        raise ScenarioError([Fault("", problem, None, remedy)])


def _quorums(size: int) -> list[float]:
    """Return shares of *size* users, each with decimals that give the same number of updates when they are written."""
    counts = np.unique(np.ceil(np.linspace(1, size, _QUORUMS)))
    scale = 10.0 ** (len(str(size)) + 1)
    return [float(share) for share in np.floor(counts / size * scale) / scale]


def _rounded_up(deadline_s: float) -> float:
    """Return a deadline with three digits that is not shorter.

    >>> _rounded_up(3.2101), _rounded_up(1200.0)
    (3.22, 1200.0)
    """
    scale = 10.0 ** (math.floor(math.log10(deadline_s)) - 2)
    return float(f"{math.ceil(round(deadline_s / scale, 6)) * scale:.6g}")


@dataclass(frozen=True, slots=True)
class _Rounds:
    """Durations and progress of rounds under one quorum, ``[rounds, deadlines]`` each."""

    duration_s: Floats
    progress: Floats
    updates: Ints

    def times_s(self, full_rounds: float) -> Floats:
        """Return the time to *full_rounds* for each deadline."""
        return full_rounds * _ratio(self.duration_s.sum(axis=0), self.progress.sum(axis=0))

    def resampled_s(self, full_rounds: float, streams: Streams) -> Floats:
        """Return bootstrap samples of `times_s`, ``[samples, deadlines]``.

        Blocks of consecutive rounds are drawn, of length rounds^(1/3) or more, as rounds depend on those before
        (Carlstein, "The use of subseries values for estimating the variance of a general statistic from a stationary
        sequence", 1986).
        """
        rounds = len(self.duration_s)
        length = math.ceil(max(rounds ** (1 / 3), rounds / _MAX_BLOCKS))
        starts = np.arange(0, rounds, length)
        blocks = len(starts)
        rng = streams.rng("timeout", "bootstrap")
        drawn = rng.multinomial(blocks, np.full(blocks, 1.0 / blocks), _RESAMPLES).astype(float)
        duration_s = drawn @ np.add.reduceat(self.duration_s, starts, axis=0)
        progress = drawn @ np.add.reduceat(self.progress, starts, axis=0)
        return full_rounds * _ratio(duration_s, progress)


def _ratio(durations_s: Floats, progress: Floats) -> Floats:
    """Return the time for a unit of progress; infinite without progress."""
    with np.errstate(divide="ignore"):
        return np.where(progress > 0.0, durations_s / progress, np.inf)


class RuleSearch:
    """Search for the best rule over the arrivals of a log.

    Args:
        arrivals: arrivals in rounds that no deadline has cut.
        options: target and conditions of the rule.
    """

    def __init__(self, arrivals: Arrivals, options: TimeoutOptions) -> None:
        self._arrivals = arrivals
        self._options = options
        # between two arrivals, a longer deadline only makes rounds longer
        times_s = np.unique(arrivals.arrived_s[arrivals.arrived_s > 0.0])
        limit = max(_MIN_DEADLINES, _CELLS // arrivals.rounds)
        if len(times_s) > limit:
            times_s = np.unique(np.quantile(times_s, np.linspace(0.0, 1.0, limit), method="higher"))
        if not len(times_s):  # all arrive as the round opens
            times_s = np.array([_INSTANT_S])
        self._deadlines_s = times_s
        self._counts = arrivals.counts(times_s)

    def rounds(self, quorum: float, deadlines_s: Floats, counts: Ints) -> _Rounds:
        """Return the rounds under a quorum and each of the deadlines, with the *counts* of updates until then."""
        wanted = TimeoutRule(1.0, quorum).wanted(self._arrivals.sizes)
        duration_s = np.minimum(deadlines_s, self._arrivals.closes_s(wanted)[:, None])
        duration_s += self._options.overhead_s
        updates = np.minimum(counts, wanted[:, None])
        options = self._options
        made = progress(updates, self._arrivals.sizes[:, None], options.critical, options.exponent)
        return _Rounds(duration_s, made, updates)

    def best(self) -> TimeoutRule | None:
        """Return the rule with the least expected time; ``None`` if none includes enough users.

        Of equally good deadlines it has the shortest.
        """
        if self._options.quorum is None:
            quorums = _quorums(int(self._arrivals.sizes.max()))
        else:
            quorums = [self._options.quorum]
        least_s = math.inf
        best = None
        for quorum in quorums:
            rounds = self.rounds(quorum, self._deadlines_s, self._counts)
            times_s = np.where(self._includes(quorum), rounds.times_s(self._options.full_rounds), np.inf)
            place = int(np.argmin(times_s))
            if times_s[place] < least_s * (1.0 - 1e-9):  # not by rounding
                least_s = float(times_s[place])
                best = TimeoutRule(_rounded_up(float(self._deadlines_s[place])), quorum)
        return best

    def _includes(self, quorum: float) -> Bools:
        """Return which deadlines include enough users."""
        arrivals = self._arrivals
        least_s = np.sort(arrivals.least_deadlines_s(TimeoutRule(1.0, quorum).wanted(arrivals.sizes)))
        needed = math.ceil(round(self._options.include * len(np.unique(arrivals.user)), 9))
        if not needed:
            return np.ones(len(self._deadlines_s), bool)
        return np.asarray(self._deadlines_s >= least_s[needed - 1])

    def expect(self, rule: TimeoutRule) -> Expectation:
        """Return what is expected under a rule."""
        row = self._table(rule.quorum, np.array([rule.deadline_s])).iloc[0]
        return Expectation(
            rule=rule,
            time_s=float(row["time_s"]),
            low_s=float(row["low_s"]),
            high_s=float(row["high_s"]),
            rounds=float(row["time_s"] / row["round_s"]),
            round_s=float(row["round_s"]),
            updates=float(row["updates"]),
            never=[self._arrivals.names[user] for user in self._never(rule)],
        )

    def curve(self, rule: TimeoutRule) -> pd.DataFrame:
        """Return the expectations over the deadline, with the quorum of *rule*, whose deadline is one of them."""
        counted = self._counts.sum(axis=0) > 0
        ends_s = self._deadlines_s[counted]
        deadlines_s = np.geomspace(ends_s[0], ends_s[-1], _CURVE)
        return self._table(rule.quorum, np.unique([*deadlines_s, rule.deadline_s]))

    def _table(self, quorum: float, deadlines_s: Floats) -> pd.DataFrame:
        rounds = self.rounds(quorum, deadlines_s, self._arrivals.counts(deadlines_s))
        low_s, high_s = _interval(self._resampled_s(rounds))
        never = [len(self._never(TimeoutRule(float(each), quorum))) for each in deadlines_s]
        return pd.DataFrame(
            {
                "deadline_s": deadlines_s,
                "time_s": rounds.times_s(self._options.full_rounds),
                "low_s": low_s,
                "high_s": high_s,
                "round_s": rounds.duration_s.mean(axis=0),
                "updates": rounds.updates.mean(axis=0),
                "never": np.array(never) / len(self._arrivals.names),
            }
        )

    def _never(self, rule: TimeoutRule) -> Ints:
        """Return the users that deliver, but never in time."""
        return self._arrivals.never_in_time(rule.deadline_s, rule.wanted(self._arrivals.sizes))

    def deadline_interval_s(self, quorum: float) -> tuple[float, float]:
        """Return the 95 % interval of the best deadline with a quorum."""
        rounds = self.rounds(quorum, self._deadlines_s, self._counts)
        times_s = self._resampled_s(rounds)
        times_s = np.where(self._includes(quorum), times_s, np.inf)
        low_s, high_s = _interval(self._deadlines_s[np.argmin(times_s, axis=1)])
        return float(low_s), float(high_s)

    def _resampled_s(self, rounds: _Rounds) -> Floats:
        """Return bootstrap samples of the time to the target, ``[samples, deadlines]``."""
        return rounds.resampled_s(self._options.full_rounds, Streams(self._options.seed))


def _interval(samples: Floats) -> Floats:
    """Return the ends of the 95 % interval of bootstrap *samples*, along the first axis."""
    with np.errstate(invalid="ignore"):  # between two infinite ones
        return np.asarray(np.quantile(samples, [0.025, 0.975], axis=0, method="nearest"))


def _max_attempts(arrivals: Arrivals, rule: TimeoutRule) -> int | None:
    """Return the number of attempts that nearly all updates in time under a rule need at most."""
    if arrivals.attempts is None:
        return None
    is_in_time = arrivals.in_time(rule.deadline_s, rule.wanted(arrivals.sizes))
    return int(np.quantile(arrivals.attempts[is_in_time], _COVERED, method="higher"))


def _notes(arrivals: Arrivals, rule: TimeoutRule) -> Iterator[str]:
    """Yield remarks on arrivals from which a rule was chosen."""
    if arrivals.rounds < _FEW_ROUNDS:
        yield f"{arrivals.rounds} rounds are few: the interval may be too narrow."
    has_missing = len(arrivals.round) < arrivals.sizes.sum()
    if has_missing and rule.deadline_s >= arrivals.arrived_s.max():
        yield "The best deadline is the latest arrival, and updates are missing: a longer one may be better."
