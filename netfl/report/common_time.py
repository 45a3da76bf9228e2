"""The simulated time at which the learners of several runs are compared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from netfl.errors import Fault, ScenarioError
from netfl.network.periods import after_rounding
from netfl.report.run_data import RunData
from netfl.results.formatting import clock, join_words
from netfl.units import QuantityError, to_si

_MAX_NAMED = 6
"""The largest number of runs whose ends are named one by one."""


@dataclass(frozen=True, slots=True)
class LearningEnds:
    """Ends of the replicas of a run, or of a point of a sweep, in which learners train.

    Args:
        ends_s: end of each replica: that of its last round, or the duration if this has ended it.
        rounds: number of rounds of each replica.
    """

    ends_s: pd.Series[float]
    rounds: pd.Series[int]

    @property
    def round_s(self) -> float:
        """Mean duration of a round."""
        return float((self.ends_s / self.rounds).mean())


@dataclass(frozen=True, slots=True)
class ComparisonTime:
    """Time of the final values that a comparison shows.

    Args:
        at_s: simulated time of the values; ``None`` for those at the end of each run.
        ends_s: end of each run by name, if they differ by more than one round; else empty.
        is_chosen: whether the user chose the time.
    """

    at_s: float | None = None
    ends_s: Mapping[str, float] = field(default_factory=dict)
    is_chosen: bool = False

    @property
    def scope(self) -> str:
        """Scope in which the values are comparable, in words: all, a time, or the number of rounds."""
        if self.at_s is not None:
            return f"at {clock(self.at_s)}"
        if self.ends_s:
            return "at equally many rounds"
        return "of all"

    @property
    def sentence(self) -> str:
        """A sentence on the time of the values; empty if the runs end alike and at the end."""
        if self.is_chosen:
            return f"Final values are those at {clock(self.at_s or 0.0)} of simulated time."
        if not self.ends_s:
            return ""
        if len(self.ends_s) > _MAX_NAMED:
            first_s = min(self.ends_s.values())
            last_s = max(self.ends_s.values())
            ends = f"between {clock(first_s)} and {clock(last_s)}"
        else:
            ends = join_words([f"{name} at {clock(end_s)}" for name, end_s in self.ends_s.items()])
        if self.at_s is None:
            return f"Final values are those after equally many rounds, which end at different times: {ends}."
        earliest = f"{clock(self.at_s)} of simulated time, the earliest end"
        return f"Final values are those at {earliest}, as the runs end at different times: {ends}."


def ends_of_runs(runs: Mapping[str, RunData]) -> dict[str, LearningEnds]:
    """Return the ends of those runs that have learners and rounds."""
    ends = {}
    for name, data in runs.items():
        if data.learners and len(data.run.rounds):
            ends[name] = LearningEnds(_ends_s(data), data.run.rounds.groupby("replica").size())
    return ends


def ends_of_points(finals: pd.DataFrame) -> dict[str, LearningEnds]:
    """Return the ends of those points of a sweep, given its final metrics, that are done and have learners."""
    with_learners = set(finals.loc[finals["learner"] != "", "point"])
    values = finals[(finals["learner"] == "") & finals["point"].isin(with_learners)]
    by_metric = values.pivot_table(index=["point", "replica"], columns="metric", values="value")
    lengths = by_metric.reindex(columns=["simulated_s", "rounds_per_hour"]).dropna()  # some rounds take no time
    ends = {}
    for point, of_point in lengths.groupby("point"):
        of_replica = of_point.droplevel("point")
        ends_s = of_replica["simulated_s"]
        rounds = (of_replica["rounds_per_hour"] * ends_s / 3600).round().astype(int)
        ends[f"point {point}"] = LearningEnds(ends_s, rounds)
    return ends


def choose_time(ends: Mapping[str, LearningEnds], at: float | str | None = None) -> ComparisonTime:
    """Return the time at which the learners of several runs are compared.

    Runs whose ends differ by more than one round are compared at the earliest end, unless all have equally many rounds.

    Args:
        ends: the ends of the runs by name.
        at: a time in seconds, or a quantity such as ``2 h``, that the user chose; ``None`` to decide.

    Raises:
        ScenarioError: *at* is no time, or a run ends before it.
    """
    if at is not None:
        return ComparisonTime(_chosen_s(at, ends), is_chosen=True)
    if len(ends) < 2:
        return ComparisonTime()
    mean_ends_s = {name: float(run.ends_s.mean()) for name, run in ends.items()}
    round_s = max(run.round_s for run in ends.values())  # of the run with the longest rounds
    if max(mean_ends_s.values()) - min(mean_ends_s.values()) <= round_s:
        return ComparisonTime()
    round_counts = {int(count) for run in ends.values() for count in run.rounds}
    if len(round_counts) == 1:
        return ComparisonTime(ends_s=mean_ends_s)
    earliest_s = float(min(run.ends_s.min() for run in ends.values()))
    return ComparisonTime(earliest_s, mean_ends_s)


def _ends_s(data: RunData) -> pd.Series[float]:
    """Return the end of each replica: that of its last round, or the duration if this has ended it."""
    ends_s = data.ends_s
    if data.run.stop_s is None:
        return ends_s
    limit = data.run.scenario.get("rounds") or np.inf
    is_limited = data.run.rounds.groupby("replica").size() >= limit
    return ends_s.where(is_limited, data.run.stop_s)


def _seconds(at: float | str) -> float:
    """Return a number of seconds, or a quantity such as ``2 h``, in seconds."""
    try:
        return float(at)
    except (TypeError, ValueError):
        return to_si(str(at), "s")


def _chosen_s(at: float | str, ends: Mapping[str, LearningEnds]) -> float:
    """Return the chosen time in seconds, which no run ends before."""
    try:
        at_s = _seconds(at)
    except QuantityError as error:
        raise ScenarioError([Fault("at", str(error), at, "write a time, such as '2 h'")]) from None
    for name, run in ends.items():
        end_s = float(run.ends_s.min())
        if at_s > after_rounding(end_s):
            remedy = f"choose at most {end_s:.6g} s, or extend the duration or the rounds of this run"
            raise ScenarioError([Fault("at", f"{name} ends before, at {clock(end_s)}", at, remedy)])
    return at_s
