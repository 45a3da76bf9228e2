"""Several runs for one report: letters and names, differing keys of their scenarios, and differences of values."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import numpy as np

from netfl.errors import Fault, ScenarioError
from netfl.report.common_time import ComparisonTime, choose_time, ends_of_runs
from netfl.report.run_data import RunData, read_run_data
from netfl.results.formatting import shortened
from netfl.results.run_reader import open_run
from netfl.results.statistics import ConfidenceInterval, interval
from netfl.results.tables import TABLES

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_MAX_LABEL = 28
"""Maximum length of a name in plots and heads of columns."""

_TRACE_COLUMNS = [column.name for column in TABLES["deliveries"] if column.default is None]
"""Columns of deliveries that are equal in runs with the same trace: those that every recording has."""


@dataclass(frozen=True)
class NamedRun:
    """One of several runs.

    Args:
        letter: short name in plots and tables.
        name: name of the scenario, with that of the folder if several have this name.
        data: the run.
    """

    letter: str
    name: str
    data: RunData

    @property
    def label(self) -> str:
        """The letter and the beginning of the name."""
        return f"{self.letter} · {shortened(self.name, _MAX_LABEL)}"


@dataclass(frozen=True)
class RunSet:
    """Runs of one page, the problem of each folder that is not readable, and the time of the final values."""

    members: tuple[NamedRun, ...]
    refused: tuple[str, ...] = ()
    time: ComparisonTime = field(default_factory=ComparisonTime)

    @property
    def letters(self) -> list[str]:
        """Letters of the runs."""
        return [run.letter for run in self.members]

    @property
    def replica_counts(self) -> dict[str, int]:
        """Number of replicas of each run, by letter."""
        return {run.letter: len(run.data.replicas) for run in self.members}

    @property
    def learners(self) -> list[str]:
        """Learners of any run, without repetition."""
        return list(dict.fromkeys(name for run in self.members for name in run.data.learners))

    @property
    def described(self) -> list[NamedRun]:
        """Return the runs whose scenario is readable."""
        return [run for run in self.members if not run.data.lacks("scenario")]

    def having(self, metric: str) -> list[NamedRun]:
        """Return the runs that evaluated *metric* over all data."""
        return [run for run in self.members if run.data.has(metric)]


def gather_runs(folders: Sequence[Path], at: str | None = None) -> RunSet:
    """Read the runs in *folders*, in that order.

    Args:
        folders: run directories.
        at: time of the final values, such as ``2 h``; by default see `choose_time`.

    Raises:
        ScenarioError: there are more than 26, none holds a run, or one ends before *at*.
    """
    if len(folders) > len(LETTERS):
        problem = f"{len(folders)} runs are too many for one page"
        raise ScenarioError([Fault("", problem, None, f"give at most {len(LETTERS)}")])
    runs = []
    refused = []
    for folder in folders:
        try:
            runs.append(read_run_data(open_run(folder)))
        except ScenarioError as error:
            refused.append(error.faults[0].problem)
    if not runs:
        problem = f"none of these folders can be read as a run: {'; '.join(refused)}"
        raise ScenarioError([Fault("", problem, None, "give folders that netfl wrote")])
    time = choose_time(ends_of_runs(dict(zip(LETTERS, runs, strict=False))), at)
    if time.at_s is not None:
        runs = [replace(data, until_s=time.at_s) for data in runs]
    counts = Counter(data.name for data in runs)
    members = []
    for letter, data in zip(LETTERS, runs, strict=False):
        name = data.name
        if counts[name] > 1:
            name = f"{name} ({data.run.folder.absolute().name})"
        members.append(NamedRun(letter, name, data))
    return RunSet(tuple(members), tuple(refused), time)


def shared_rounds(first: RunData, second: RunData) -> int:
    """Return the number of rounds in which two runs have the same trace; 0 unless seed and deliveries are equal.

    Replicas and rounds that only one of them has do not count.
    """
    if first.run.manifest.get("seed") != second.run.manifest.get("seed"):
        return 0
    replicas = set(first.replicas) & set(second.replicas)
    rounds = min(first.rounds, second.rounds)
    first_trace = _trace(first, replicas, rounds)
    second_trace = _trace(second, replicas, rounds)
    if len(first_trace) and np.array_equal(first_trace, second_trace):
        return rounds
    return 0


def _trace(data: RunData, replicas: set[int], rounds: int) -> np.ndarray:
    """Return the deliveries of some replicas in the first *rounds*, sorted, ``[deliveries, columns]``."""
    table = data.run.deliveries
    rows = table[table["replica"].isin(replicas) & (table["round"] <= rounds)]
    return rows[_TRACE_COLUMNS].sort_values(_TRACE_COLUMNS).to_numpy(float)


def relate_traces(first: RunData, second: RunData) -> Literal["same", "other", "other_seed", "unknown"]:
    """Return whether two runs share a trace; ``other`` is another trace with the same seed."""
    if any(data.lacks("manifest", "rounds", "deliveries") for data in (first, second)):
        return "unknown"
    if first.run.manifest.get("seed") != second.run.manifest.get("seed"):
        return "other_seed"
    return "same" if shared_rounds(first, second) else "other"


def final_difference(first: RunData, second: RunData, metric: str, learner: str, *, paired: bool) -> ConfidenceInterval:
    """Return a learner's final value in *first* minus that in *second*, with its 95 % interval.

    Args:
        first: the first run.
        second: the second run.
        metric: name of the metric.
        learner: name of the learner.
        paired: compare replicas of the same number: Student's t of their differences, else Welch's t.
    """
    if not all(data.has(metric) and learner in data.final(metric) for data in (first, second)):
        return interval([])
    first_values = first.final(metric)[learner].dropna()
    second_values = second.final(metric)[learner].dropna()
    if paired:
        return interval((first_values - second_values).to_numpy())
    return welch(first_values.to_numpy(), second_values.to_numpy())


def welch(first: np.ndarray, second: np.ndarray) -> ConfidenceInterval:
    """Return the difference of two means with its 95 % interval by B. L. Welch (1947); NaN for single values.

    With e²ᵢ = s²ᵢ / nᵢ, the squared standard error of the mean i, and ν = (Σᵢ e²ᵢ)² / Σᵢ (e⁴ᵢ / (nᵢ - 1)), the half
    width is the 97.5 % quantile of Student's t with ν degrees of freedom times √(Σᵢ e²ᵢ).

    >>> gap = welch(np.array([3.0, 5.0]), np.array([1.0, 2.0, 3.0]))
    >>> gap.mean, round(gap.half, 2)
    (2.0, 5.98)
    """
    from scipy.special import stdtrit

    size = min(first.size, second.size)
    if not size:
        return ConfidenceInterval(math.nan, math.nan, 0)
    gap = float(first.mean() - second.mean())
    if size < 2:  # a single value has no variance
        return ConfidenceInterval(gap, math.nan, size)
    squared_errors = np.array([values.var(ddof=1) / values.size for values in (first, second)])
    if not squared_errors.any():
        return ConfidenceInterval(gap, 0.0, size)
    shares = squared_errors / squared_errors.sum()
    freedom = 1.0 / (shares**2 / [first.size - 1, second.size - 1]).sum()
    half = float(stdtrit(freedom, 0.975) * math.sqrt(squared_errors.sum()))
    return ConfidenceInterval(gap, half, size)
