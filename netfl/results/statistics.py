"""Metrics of replicas, with means and confidence intervals over replicas.

A metric of one replica is a number with a name, such as ``delay_mean_s``.  Over replicas it has a mean and a 95 %
confidence interval by Student's t, which assumes independent replicas and does not cover bias within a replica.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from netfl.network.counters import delays, jain
from netfl.types import OUTCOMES, LearnerReport, Round, RoundBatch

HALF = ".ci95"
"""End of the name of a metric's half interval in a summary."""

LAST_TENTH = ".last_tenth"
LAST_ROUND = ".last_round"
"""Ends of the names of a learner's final values, which state the statistic."""

MIN_REPLICAS = 3
"""Replicas from which on values are shown with an interval, and ranked.  That of two is 12.7 standard errors wide."""

FINAL = {LAST_TENTH: "mean of the last 10 % of rounds", LAST_ROUND: "last round"}
"""The statistics in words: learners have the mean, choices among them the last value; see `final_values`."""


_CUT_ENDS = "where it leaves the possible values both ends are given, and * marks an end that is cut there"

CHANCE = {1: "one replica: may be chance", 2: "two replicas: may be chance"}
"""Remark on values of fewer than `MIN_REPLICAS`, which are not ranked."""


@dataclass(frozen=True, slots=True)
class ConfidenceInterval:
    """A mean over replicas with the half width of its 95 % t interval, NaN for a single replica."""

    mean: float
    half: float
    replicas: int

    @property
    def is_shown(self) -> bool:
        """There are enough replicas to show the interval, and to rank by it."""
        return self.replicas >= MIN_REPLICAS and math.isfinite(self.half)

    @property
    def clear(self) -> bool | None:
        """``True`` if zero lies outside the interval; ``None`` for fewer than `MIN_REPLICAS`."""
        if not self.is_shown:
            return None
        return abs(self.mean) > self.half


def interval(values: ArrayLike) -> ConfidenceInterval:
    """Return the mean of *values*, one for each replica, and its 95 % t interval; NaN values are omitted.

    >>> found = interval([1.0, 2.0, 3.0])
    >>> found.mean, round(found.half, 3), found.clear
    (2.0, 2.484, False)
    """
    finite = np.asarray(values, float)
    finite = finite[np.isfinite(finite)]
    if not finite.size:
        return ConfidenceInterval(math.nan, math.nan, 0)
    half = math.nan
    with np.errstate(over="ignore", invalid="ignore"):  # of learners that diverge; it is infinite, or NaN
        mean = float(finite.mean())
        if finite.size > 1:
            half = t_factor(finite.size) * float(finite.std(ddof=1))
    return ConfidenceInterval(mean, half, int(finite.size))


@dataclass(frozen=True, slots=True)
class FinalWindow:
    """The rounds at the end of a run that final values are the mean of: the one window of all outputs.

    Attributes:
        evaluations: number of evaluations in the window.
        first: round of the first of them.
        last: round of the last of them.
        is_common: all replicas end in the same round; else the window is that of the longest.
    """

    evaluations: int
    first: int
    last: int
    is_common: bool = True

    def __str__(self) -> str:
        """Return the rounds in words.

        >>> str(FinalWindow(21, 1800, 2000)), str(FinalWindow(1, 40, 40)), str(FinalWindow(9, 80, 97, is_common=False))
        ('rounds 1800-2000', 'round 40', 'the last 10 % of the rounds of each replica')
        """
        if not self.is_common:
            return "the last 10 % of the rounds of each replica"
        if self.first == self.last:
            return f"round {self.last}"
        return f"rounds {self.first}-{self.last}"


def final_window(rounds: ArrayLike, *, is_common: bool = True) -> FinalWindow:
    """Return the window of the final values of a run that was evaluated in *rounds*.

    >>> final_window([0, 80, 90, 95, 100])
    FinalWindow(evaluations=3, first=90, last=100, is_common=True)
    """
    at = np.unique(np.asarray(rounds, int))
    if not at.size:
        return FinalWindow(0, 0, 0)
    shown = at[is_final(at)]
    return FinalWindow(int(shown.size), int(shown[0]), int(shown[-1]), is_common)


def is_final(rounds: ArrayLike) -> NDArray[np.bool_]:
    """Select the evaluated *rounds* that a final value is the mean of: the last 10 % of the run.

    >>> is_final([80, 90, 95, 100])
    array([False,  True,  True,  True])
    """
    at = np.asarray(rounds, float)
    return np.asarray(at >= 0.9 * at.max(initial=0.0))


def final_values(
    rounds: ArrayLike, values: ArrayLike, is_choice: ArrayLike = False, last: ArrayLike = math.inf
) -> NDArray[np.float64]:
    """Return the final value of each lane: the mean of the last 10 % of rounds, the one statistic of all outputs.

    With few deliveries in a round, the value of a single round depends on the users of the last update.  A choice may
    have kept another learner before its last evaluation, so its final value is that of the last round.

    Args:
        rounds: the round of each evaluation, ascending; at least one.
        values: a row for each evaluation, a column for each lane.
        is_choice: for each lane, whether it is a choice among learners.
        last: the last round of each lane, whose replica may end before others; by default all have all evaluations.

    The value is NaN where one of the values that it depends on is missing, as training diverged.

    >>> final_values([50, 90, 100], [[0.0, 0.0], [1.0, 1.0], [3.0, 3.0]], [False, True])
    array([2., 3.])
    >>> final_values([0, 10, 20], [[0.0, 0.0], [1.0, 1.0], [3.0, math.nan]], last=[20, 13])
    array([3., 1.])
    """
    table = np.asarray(values, float)
    at = np.asarray(rounds)
    lanes = table.shape[1:]
    last_rounds = np.broadcast_to(last, lanes)
    finals = np.empty(lanes)
    for last_round in np.unique(last_rounds):  # mostly one
        is_before = at <= last_round
        evaluated = table[is_before]
        means = evaluated[is_final(at[is_before])].mean(axis=0)
        of_all = np.where(is_choice, evaluated[-1], means)  # as if all lanes ended in this round
        ends_here = last_rounds == last_round
        finals[ends_here] = of_all[ends_here]
    return finals


def final_name(metric: str, *, is_choice: bool = False) -> str:
    """Return the name of a learner's final value of *metric* among the metrics of a run.

    >>> final_name("accuracy"), final_name("accuracy", is_choice=True)
    ('accuracy.last_tenth', 'accuracy.last_round')
    """
    statistic = LAST_ROUND if is_choice else LAST_TENTH
    return f"{metric}{statistic}"


def metric_of(name: str) -> str:
    """Return the metric of a final value, by its *name*; all other names are returned as they are.

    >>> metric_of("accuracy.last_tenth"), metric_of("jain")
    ('accuracy', 'jain')
    """
    return name.removesuffix(LAST_TENTH).removesuffix(LAST_ROUND)


def name_spread(replicas: int) -> str:
    """Return the meaning of ± in all outputs, as the end of a sentence.

    >>> name_spread(2), name_spread(1)
    ('two replicas are too few for an interval', 'one replica has no interval')
    """
    if replicas < 2:
        return "one replica has no interval"
    if replicas < MIN_REPLICAS:
        return "two replicas are too few for an interval"
    return f"± is the half width of the 95 % t interval over n replicas; {_CUT_ENDS}"


def mean_sentence(replicas: int) -> str:
    """Return the sentence below a table of means over *replicas*.

    >>> mean_sentence(1), mean_sentence(2)
    ('One replica: there is no confidence interval.', 'Means over 2 replicas, which are too few for an interval.')
    """
    if replicas < 2:
        return "One replica: there is no confidence interval."
    if replicas < MIN_REPLICAS:
        return f"Means over {replicas} replicas, which are too few for an interval."
    return f"Means over {replicas} replicas; ± is the half width of the 95 % t interval; {_CUT_ENDS}."


def t_factor(size: int) -> float:
    """Return the half width of the 95 % t interval of the mean of *size* draws, in their standard deviations."""
    from scipy.special import stdtrit

    return float(stdtrit(size - 1, 0.975)) / math.sqrt(size)


class RoundStatistics:
    """Statistics of the rounds of one replica.

    Memory grows by 8 bytes for each delivery, as the percentiles of delays are exact, and with *has_costs* by 32 bytes
    for each round.

    Args:
        users: the number of users.
        has_delays: whether the times of arrivals are those of the updates, so that there are delays.
        has_costs: whether `until` is called, as the cost to reach a target is that of learners.

    Attributes:
        rounds: number of rounds.
        simulated_s: simulated time in seconds.
    """

    def __init__(self, users: int, *, has_delays: bool = True, has_costs: bool = True) -> None:
        self._has_delays = has_delays
        self._has_costs = has_costs
        self._delivered = np.zeros(users, np.int64)
        self._delays = array("d")
        self._attempts = 0
        self.rounds = 0
        self.simulated_s = 0.0
        self._uplink_bits = 0.0
        self._downlink_bits = 0.0
        self._lost_shares = 0.0
        self._totals = array("d")

    def extend(self, batch: RoundBatch) -> None:
        """Count the next rounds."""
        rounds = batch.rounds
        deliveries = batch.deliveries
        np.add.at(self._delivered, batch.user, 1)
        self._attempts += int(deliveries["attempts"].sum())
        opened_s = np.repeat(rounds["opened_s"], batch.delivered)
        delays_s = np.maximum(deliveries["arrived_s"] - opened_s, 0.0)  # 0 for updates that waited for the round
        self._delays.frombytes(delays_s.tobytes())
        self.rounds = int(batch.index[-1])
        self.simulated_s = float(batch.closed_s[-1])
        # the sums begin with the bits of the rounds before, so that they do not depend on the sizes of batches
        uplink_bits = np.cumsum([self._uplink_bits, *rounds["uplink_bits"]])[1:]
        downlink_bits = np.cumsum([self._downlink_bits, *rounds["downlink_bits"]])[1:]
        self._uplink_bits = float(uplink_bits[-1])
        self._downlink_bits = float(downlink_bits[-1])
        if not self._has_costs:
            return
        totals = np.stack([batch.closed_s, uplink_bits, downlink_bits, rounds["energy_J"]], axis=1)
        self._totals.frombytes(totals.tobytes())

    def count_lost_parts(self, rounds: Sequence[Round]) -> None:
        """Count the parts that deliveries of *rounds* lack, of accesses that erase parts."""
        for round_ in rounds:
            for delivery in round_.all_deliveries():
                if delivery.received is not None:
                    self._lost_shares += delivery.received.count(False) / len(delivery.received)

    @property
    def parts_lost_share(self) -> float:
        """Mean share of its parts that a delivered update lacks; NaN without deliveries."""
        return _ratio(self._lost_shares, len(self._delays))

    def until(self, index: int) -> dict[str, float]:
        """Return the cost until the end of round *index*: time, bits on uplink and downlink, and joules if counted."""
        names = ("time_s", "uplink_bits", "downlink_bits", "energy_J")
        totals: Sequence[float] = [0.0] * len(names)  # before the first round
        if index:
            start = len(names) * (index - 1)
            totals = self._totals[start : start + len(names)]
        costs = dict(zip(names, totals, strict=True))
        has_energy = self.rounds > 0 and not math.isnan(self._totals[-1])
        if not has_energy:
            del costs["energy_J"]
        return costs

    def final_metrics(self, outcomes: Mapping[str, int], possible: Sequence[str] = OUTCOMES) -> dict[str, float]:
        """Return the metrics of the replica, with the number of updates in *outcomes* for each of the *possible* ones.

        A delay runs from the opening of the round, when its broadcast begins, to the arrival of the update.
        """
        delivered = len(self._delays)
        updates = sum(outcomes[outcome] for outcome in possible)
        delay_metrics = {}
        if self._has_delays:
            delay_metrics = delays(np.frombuffer(self._delays))
        return {
            "simulated_s": self.simulated_s,
            "rounds_per_hour": _ratio(3600.0 * self.rounds, self.simulated_s),
            "delivered_per_round": _ratio(delivered, self.rounds),
            **delay_metrics,
            "attempts_mean": _ratio(self._attempts, delivered),
            "jain": jain(self._delivered),
            "uplink_bits": self._uplink_bits,
            "downlink_bits": self._downlink_bits,
            **{f"outcome.{outcome}": float(outcomes[outcome]) for outcome in possible},
            **{f"share.{outcome}": _ratio(outcomes[outcome], updates) for outcome in possible},
        }


def learning_summary(
    lanes: Sequence[tuple[str, int]],
    reports: Sequence[LearnerReport],
    choices: Collection[str] = (),
    last_rounds: Mapping[int, int] | None = None,
) -> dict[int, dict[str, float]]:
    """Return the final values of learning, by replica: ``<learner>.<metric>.last_tenth``, of choices ``.last_round``.

    See `final_values`.  A metric that a lane never had is omitted; one that it no longer has is NaN.  A lane is a
    learner and a replica; *choices* are names of choices among learners, *last_rounds* the last of each replica; by
    default all replicas have all evaluations.
    """
    by_replica: dict[int, dict[str, float]] = {replica: {} for _, replica in lanes}
    last = [math.inf] * len(lanes)
    if last_rounds is not None:
        last = [last_rounds[replica] for _, replica in lanes]
    is_choice = [learner in choices for learner, _ in lanes]
    for metric in dict.fromkeys(name for report in reports for name in report.metrics):
        if "/user:" in metric or "/layer:" in metric:  # there may be thousands
            continue
        evaluated = [report for report in reports if metric in report.metrics]
        values = np.array([report.metrics[metric] for report in evaluated])  # [evaluations, lanes]
        finals = final_values([report.round for report in evaluated], values, is_choice, last)
        has_value = ~np.isnan(values).all(axis=0)
        for lane, (learner, replica) in enumerate(lanes):
            if has_value[lane]:
                name = final_name(metric, is_choice=is_choice[lane])
                by_replica[replica][f"{learner}.{name}"] = float(finals[lane])
    return by_replica


def cost_to_target(
    lanes: Sequence[tuple[str, int]],
    reports: Sequence[LearnerReport],
    statistics: Mapping[int, RoundStatistics],
    targets: Sequence[float],
) -> dict[int, dict[str, float]]:
    """Return the cost of reaching test accuracies, by replica: ``<learner>.target:<accuracy>.rounds``, ``.time_s``, ….

    A target is reached at the first evaluation with at least that accuracy.  A learner that does not reach it has NaN
    rounds and no other cost.  A lane is a learner and a replica.
    """
    by_replica: dict[int, dict[str, float]] = {replica: {} for _, replica in lanes}
    for lane, (learner, replica) in enumerate(lanes):
        for target in targets:
            reached = (report.round for report in reports if report.metrics["accuracy"][lane] >= target)
            first = next(reached, None)
            costs = {"rounds": math.nan}
            if first is not None:
                costs = {"rounds": float(first), **statistics[replica].until(first)}
            for name, cost in costs.items():
                by_replica[replica][f"{learner}.target:{target:g}.{name}"] = cost
    return by_replica


def summary(replicas: Sequence[Mapping[str, float]]) -> dict[str, Any]:
    """Return the metrics of replicas over all replicas by name: sums for ``outcome.<outcome>``, else means.

    With two or more replicas, ``<name>.ci95`` is the half width of the 95 % t interval.  A metric that is missing or
    not finite in a replica, such as the loss of a learner that diverged or the delay without deliveries, is ``None``.
    """
    values_by_name: dict[str, Any] = {}
    for name in dict.fromkeys(name for replica in replicas for name in replica):
        values = np.array([replica.get(name, math.nan) for replica in replicas])
        if name.startswith("outcome."):
            values_by_name[name] = int(values.sum())
            continue
        mean = None
        half = None
        if np.isfinite(values).all():
            estimate = interval(values)
            mean = estimate.mean
            half = estimate.half
        values_by_name[name] = mean
        if len(replicas) > 1:
            values_by_name[name + HALF] = half
    return values_by_name


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else math.nan
