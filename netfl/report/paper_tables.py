"""Tables for papers: final values of learners and metrics of networks, with intervals and differences."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from html import escape
from pathlib import Path
from typing import Any

import pandas as pd

from netfl.core.remedies import call
from netfl.errors import Fault, ScenarioError, suggest
from netfl.learning.performance import split_group
from netfl.network.periods import after_rounding
from netfl.report.common_time import LearningEnds, choose_time, ends_of_points, ends_of_runs
from netfl.report.run_data import RunData, read_run_data
from netfl.report.run_set import shared_rounds, welch
from netfl.results import aggregates
from netfl.results.chosen_settings import join_chosen, learner_settings
from netfl.results.comparison import UNFINISHED, has_order, joint_state
from netfl.results.formatting import (
    CUT,
    MetricText,
    counted,
    format_parts,
    format_setting,
    is_learned,
    is_share,
    is_variance,
    learned_text,
    metric_head,
    metric_label,
    unit_of,
)
from netfl.results.metrics import find_metric, metrics_in, reported_metrics, with_reported
from netfl.results.payload import billing_kind
from netfl.results.run_reader import Run, open_run
from netfl.results.statistics import ConfidenceInterval, final_name, interval, metric_of
from netfl.scenario.path_errors import is_sweep
from netfl.sweeps import Sweep, open_sweep

Runs = Run | Sweep | str | Path
"""A run, a sweep, or the folder of one."""

_VALUES = ["metric", "mean", "half", "replicas", "difference", "difference_half", "difference_replicas", "paired"]
_TIME = "at_s"
"""Column of the time at which runs are compared, if it is not their end."""


class ComparisonTable(pd.DataFrame):
    """A table of `compare`, printed with units and intervals, which can be written in LaTeX.

    What pandas makes of it is a plain DataFrame.
    """

    @property
    def note(self) -> str:
        """A sentence on the simulated time of the values; empty if all runs end alike and are compared at the end."""
        return str(self.attrs.get("note", ""))

    @property
    def comparison(self) -> str:
        """The state of the comparison of the learners, such as ``equal settings``; empty for fewer than two."""
        return str(self.attrs.get("comparison", ""))

    def __repr__(self) -> str:
        if not {*_VALUES} <= {*self.columns}:
            return super().__repr__()
        shown = self._shown()
        text = shown.to_string(index=False, max_rows=pd.get_option("display.max_rows"))
        return "\n".join([text, *self._remarks(shown)])

    def _repr_html_(self) -> str | None:
        if not {*_VALUES} <= {*self.columns}:
            html: str | None = super()._repr_html_()  # type: ignore[misc]  # the stubs of pandas leave it out
            return html
        shown = self._shown()
        table = shown.to_html(index=False, border=0, max_rows=pd.get_option("display.max_rows"))
        return "".join([table, *(f"<p>{escape(remark)}</p>" for remark in self._remarks(shown))])

    def _remarks(self, shown: pd.DataFrame) -> list[str]:
        """Return the lines below the printed table."""
        remarks = []
        with_intervals = shown[shown.columns.intersection(["mean", "difference"])]
        if any(CUT in cell for cell in with_intervals.to_numpy().ravel()):
            remarks.append(f"{CUT} marks an end of an interval that is cut at the possible values")
        if self.comparison:
            remarks.append(f"comparison: {self.comparison}")
        if self.attrs.get("unordered"):
            remarks.append(self.attrs["unordered"])
        return remarks

    def _shown(self) -> pd.DataFrame:
        """Return the table as it is printed, with units and intervals."""
        with with_reported(reported_metrics(self.attrs.get("reported", ()))):
            return self._written()

    def _written(self) -> pd.DataFrame:
        units = self._units()
        rows = []
        for row in self.to_dict("records"):
            metric = row["metric"]
            like, unit = units[metric]
            rows.append(
                {
                    "metric": _label_with_unit(metric, unit),
                    "mean": _in_row(_mean_text(row, like)),
                    "n": str(row["replicas"]),
                    "difference": _in_row(_difference_text(row, like)),
                    "compared": _compared(row),
                }
            )
        keys = self[self._keys()].map(_key_text).reset_index(drop=True)
        shown = pd.concat([keys, pd.DataFrame(rows)], axis="columns")
        if self["difference"].isna().all():
            shown = shown.drop(columns=["difference", "compared"])
        return shown

    def _keys(self) -> list[str]:
        """Return the columns that distinguish the groups."""
        return [name for name in self.columns if name not in {*_VALUES, _TIME}]

    def _units(self) -> dict[str, tuple[float, str]]:
        """Return the largest value and the name of the unit of each metric, which all its rows share."""
        largest = self["mean"].abs().groupby(self["metric"]).max()
        return {str(metric): _unit(str(metric), value) for metric, value in largest.items()}

    def to_latex(self, buf: Any = None, *, differences: bool = True, **options: Any) -> Any:
        r"""Return the table in LaTeX, or write it to a file.

        Rows are groups.  For each metric a column has mean ± half width, from three replicas on and with their number
        n, another the difference to the baseline; ``--`` stands for a missing value.  Where an interval leaves the
        possible values, both ends stand in place of ±, and a star marks the end that is cut.  The header of a column
        has its unit; accuracies are in percent.  The preamble needs ``\usepackage{booktabs}``.  A `note` and the state
        of the `comparison` are comments in the first lines.

        Args:
            buf: the file; by default the text is returned.
            differences: whether each metric has a column with the difference to the baseline.
            options: options of `pandas.io.formats.style.Styler.to_latex`, such as ``caption`` and ``label``.
        """
        with with_reported(reported_metrics(self.attrs.get("reported", ()))):
            return self._write_latex(buf, differences=differences, **options)

    def _write_latex(self, buf: Any, *, differences: bool, **options: Any) -> Any:
        table = self._latex_cells(differences=differences)
        keys = self._keys()
        alignment = "l" * len(keys) + "r" * (len(table.columns) - len(keys))
        settings: dict[str, Any] = {"hrules": True, "column_format": alignment} | options
        text = table.style.hide(axis="index").to_latex(**settings)
        remarks = [f"% {remark}\n" for remark in (self.note, self.comparison) if remark]
        text = "".join([*remarks, text])
        if buf is None:
            return text
        if hasattr(buf, "write"):
            buf.write(text)
        else:
            Path(buf).write_text(text, encoding="utf-8")
        return None

    def _latex_cells(self, *, differences: bool) -> pd.DataFrame:
        """Return groups × metrics as LaTeX, the keys of the groups first."""
        keys = self._keys()
        units = self._units()
        has_differences = differences and self["difference"].notna().any()
        columns: dict[str, dict[tuple[str, ...], str]] = {}
        groups: list[tuple[str, ...]] = []
        for row in self.to_dict("records"):
            group = tuple(str(row[key]) for key in keys)
            groups.append(group)
            metric = row["metric"]
            like, unit = units[metric]
            label = _escape(_label_with_unit(metric, unit))
            columns.setdefault(label, {})[group] = _math(str(_mean_text(row, like)))
            if has_differences:
                columns.setdefault(f"difference, {label}", {})[group] = _math(str(_difference_text(row, like)))
        rows = []
        for group in dict.fromkeys(groups):  # a group has a row for each metric
            values = [cells.get(group, "--") for cells in columns.values()]
            rows.append([*(_escape(_key_text(key)) for key in group), *values])
        return pd.DataFrame(rows, columns=[*map(_escape, keys), *columns])


@dataclass(frozen=True)
class _Sample:
    """Values of one learner, or of one network, by trace and replica.

    Args:
        keys: what distinguishes the sample from others.
        values: by trace and replica.
        billing: kinds of billing in its runs, where learners do not pay what they send; see `Billing`.
    """

    keys: Mapping[str, str]
    values: pd.Series[float]
    billing: frozenset[str] = frozenset()


def compare(
    runs: Runs | Sequence[Runs],
    metric: str | Sequence[str] = "accuracy",
    by: str | Sequence[str] | None = None,
    baseline: str | None = None,
    at: float | str | None = None,
) -> ComparisonTable:
    """Compare final values over replicas: mean, 95 % interval, and the difference to a baseline.

    A final value is the mean of the last 10 % of rounds, as in all outputs of netfl; see
    `netfl.results.statistics.final_values`.  Learners of runs that end at different times are compared at the earliest
    end, unless all runs have equally many rounds; `ComparisonTable.note` states it.  Rows with the same trace, such as
    the learners of one run, are compared by replica (Student's t of the differences), others by Welch's t.

    Args:
        runs: a run or a sweep, or several of them; or their folders.
        metric: metrics of learners, such as ``accuracy``, or of a group, such as ``accuracy/block:remote`` or
            ``accuracy/class:9``, or of the network, such as ``delay_mean_s`` or ``jain``.
        by: what distinguishes the rows: ``run``, ``learner``, an axis of a sweep, or a key of the scenario such as
            ``access.mac.kind``.  A key of a learner that was tuned has its chosen value, and where each replica was
            tuned by itself the median and the range, as in ``0.2 (0.1 to 0.4)``.  Values that are equal in
            these are pooled, but never those of several learners: ``learner`` is then added.  Pooled values with the
            same trace and replica depend on each other and count as one value, their mean.  By default run, axes and
            learner.
        baseline: the learner, run or value that differences are taken to; by default the first learner, or the first
            row if there is only one learner.
        at: simulated time of the values of learners, in seconds or as a quantity such as ``2 h``: a final value is then
            the mean of the last 10 % of the rounds until this time.

    Returns:
        A row for each group and metric.  ``half`` is half the width of the interval, ``replicas`` the number of values,
        ``difference`` the mean difference to the baseline (none where learners are compared whose tuning has failed),
        ``difference_replicas`` the number of pairs or the smaller
        number of values, and ``paired`` states whether it is by replica.  Costs have
        a column ``billing`` if learners do not pay what they send: ``largest``, ``given`` or ``recorded``; see
        `netfl.results.payload.Billing`.  Values at a common or chosen time have a column ``at_s``.

    Raises:
        ScenarioError: there is no such run, metric, key or baseline, one of the runs does not have the metric or ends
            before *at*, or *at* is given for a metric of the network.

    >>> netfl.compare("runs/first", metric=["accuracy", "rare_accuracy"])  # doctest: +SKIP
    """
    _check_names({"metric": metric, "by": by}, baseline)
    opened = _open_all(runs)
    reported = [entry for run in opened for entry in run.reported_entries]
    with with_reported(*(run.reported for run in opened)):
        compared = _compare_runs(opened, metric, by, baseline, at)
    compared.attrs["reported"] = reported
    return compared


def _compare_runs(
    opened: Sequence[Run | Sweep],
    metric: str | Sequence[str],
    by: str | Sequence[str] | None,
    baseline: str | None,
    at: float | str | None,
) -> ComparisonTable:
    """Return the table of `compare` for runs that are open."""
    data_of = {str(run.folder): read_run_data(run) for run in opened if isinstance(run, Run)}
    time = choose_time(_ends(opened, data_of), at)
    if time.at_s is not None:
        data_of = {folder: replace(data, until_s=time.at_s) for folder, data in data_of.items()}
    rows: list[dict[str, Any]] = []
    for name in [metric] if isinstance(metric, str) else metric:
        samples = [*_samples(opened, data_of, time.at_s, name)]
        if not samples:
            raise _missing_metric(opened, name)
        if at is not None and not is_learned(name):
            problem = "values of the network are those of whole runs"
            raise ScenarioError([Fault("at", problem, name, "give metrics of learners, or leave it out")])
        samples = _pool(samples, [by] if isinstance(by, str) else by)
        rows += _rows(samples, name, baseline, time.at_s)
    table = pd.DataFrame(rows)
    keys = [column for column in table.columns if column not in {*_VALUES, _TIME}]
    values = [*_VALUES]
    if _TIME in table:
        values.append(_TIME)
    compared = ComparisonTable(table[[*keys, *values]].fillna(dict.fromkeys(keys, "")))
    compared.attrs["note"] = time.sentence
    if "learner" in keys:
        states = _states(opened, data_of)
        compared.attrs["comparison"] = joint_state(states)
        if not all(map(has_order, states.values())):
            compared[["difference", "difference_half"]] = math.nan
            compared["difference_replicas"] = 0
            compared.attrs["unordered"] = "no differences, as the learners are not tuned"
    return compared


def _ends(runs: Sequence[Run | Sweep], data_of: Mapping[str, RunData]) -> dict[str, LearningEnds]:
    """Return the ends of the runs and of the points of sweeps, by a name for sentences."""
    ends = ends_of_runs({Path(folder).name: data for folder, data in data_of.items()})
    for run in runs:
        if isinstance(run, Sweep):
            for point, of_point in ends_of_points(run.final_metrics).items():
                ends[f"{point} of {run.folder.name}"] = of_point
    return ends


def _missing_metric(runs: Sequence[Run | Sweep], metric: str) -> ScenarioError:
    """Return the error that no run has *metric*: perhaps as one is not finished."""
    for run in runs:
        if isinstance(run, Run) and run.comparison == UNFINISHED:
            remedy = f"continue it with: {call('resume', run.folder)}"
            return ScenarioError([Fault("metric", f"{run.folder} has none yet: {UNFINISHED}", metric, remedy)])
    known = sorted({name for run in runs for name in _metrics(run)})
    return ScenarioError([Fault("metric", "no run has this metric", metric, suggest(metric, known))])


def _rows(
    samples: Sequence[_Sample], metric: str, baseline: str | None, at_s: float | None
) -> Iterator[dict[str, Any]]:
    """Yield the row of each sample: its keys, its mean, and its difference to the baseline."""
    for sample in samples:
        row: dict[str, Any] = {**sample.keys}
        if sample.billing and find_metric(metric).is_cost:
            row["billing"] = " and ".join(sorted(sample.billing))
        estimate = interval(sample.values)
        gap, is_paired = _difference(sample.values, _baseline(samples, sample.keys, baseline))
        row["metric"] = metric
        row["mean"] = estimate.mean
        row["half"] = estimate.half
        row["replicas"] = estimate.replicas
        row["difference"] = gap.mean
        row["difference_half"] = gap.half
        row["difference_replicas"] = gap.replicas
        row["paired"] = is_paired
        if at_s is not None and is_learned(metric):  # values of the network are those of whole runs
            row[_TIME] = at_s
        yield row


def _states(runs: Sequence[Run | Sweep], data_of: Mapping[str, RunData]) -> dict[str, str]:
    """Return the state of the comparison of the learners of each run, by its name or, of equal names, its folder."""
    names = [run.folder.name for run in runs]
    states = {}
    for run in runs:
        name = run.folder.name
        if names.count(name) > 1:
            name = str(run.folder)
        if isinstance(run, Sweep):
            states[name] = run.comparison
        else:
            states[name] = data_of[str(run.folder)].run.comparison
    return states


def known_metrics(runs: Sequence[Runs]) -> list[str]:
    """Return the headline metrics that all *runs* have: those of learners, else those of the network.

    Raises:
        ScenarioError: there are none.
    """
    opened = [_open(run) for run in runs]
    metrics_of = [{*_known_metrics(run)} for run in opened]
    for run, metrics in zip(opened, metrics_of, strict=True):
        if not metrics:
            raise ScenarioError([Fault("", f"{run.folder} has no metrics yet", None, "finish the run")])
    common = metrics_of[0].intersection(*metrics_of)
    if not common:
        folders = ", ".join(str(run.folder) for run in opened)
        raise ScenarioError([Fault("", f"no headline metric is in all of {folders}", None, "compare fewer of them")])
    of_learners = [metric for metric in metrics_in("headline", is_learned=True) if metric in common]
    return of_learners or [metric for metric in metrics_in("headline", is_learned=False) if metric in common]


def _metrics(run: Run | Sweep) -> Iterator[str]:
    """Yield the names of the metrics of learners and of the network that *run* has, without those of groups."""
    learners = [] if isinstance(run, Sweep) else run.learners
    for text in run.final_metrics["metric"].astype(str).unique():
        learner = next((name for name in learners if text.startswith(f"{name}.")), "")
        metric, _, group = metric_of(text.removeprefix(f"{learner}.")).partition("/")
        if not group:
            yield metric


def _known_metrics(run: Run | Sweep) -> Iterator[str]:
    """Yield the headline metrics of learners and of the network that *run* has."""
    names = [metric_of(name) for name in run.final_metrics["metric"].astype(str).unique()]
    data = None if isinstance(run, Sweep) else read_run_data(run)
    for metric in metrics_in("headline", is_learned=True):
        is_final = any(name == metric or name.endswith(f".{metric}") for name in names)  # learners are prefixes
        if is_final or (data is not None and data.has(metric)):
            yield metric
    for metric in metrics_in("headline", is_learned=False):
        if metric in names:
            yield metric


def _check_names(names: Mapping[str, object], baseline: object) -> None:
    """Refuse arguments of `compare` that are no names."""
    faults = []
    for argument, value in names.items():
        if value is None and argument == "by":
            continue
        listed = [value] if isinstance(value, str) else value
        if not isinstance(listed, Sequence) or not listed or not all(isinstance(name, str) for name in listed):
            faults.append(Fault(argument, "neither a name nor a list of names", value, "write a name, or ['NAME', …]"))
    if not isinstance(baseline, str | None):
        faults.append(Fault("baseline", "not the name of a row", baseline, "write a name, or leave it out"))
    if faults:
        raise ScenarioError(faults)


def _open_all(runs: object) -> list[Run | Sweep]:
    """Open the runs and sweeps that `compare` is given."""
    listed = [runs] if isinstance(runs, Runs) else runs
    remedy = "give a run or a sweep, its folder, or a list of these"
    if not isinstance(listed, Iterable) or isinstance(listed, bytes):
        raise ScenarioError([Fault("runs", f"not runs but {type(runs).__name__}", None, remedy)])
    opened = [_open(run) for run in listed]
    if not opened:
        raise ScenarioError([Fault("runs", "there is no run", None, remedy)])
    return opened


def _open(run: Runs) -> Run | Sweep:
    if isinstance(run, str | Path):
        return open_sweep(run) if is_sweep(Path(run)) else open_run(run)
    if not isinstance(run, Run | Sweep):
        problem = f"not a run but {type(run).__name__}"
        raise ScenarioError([Fault("runs", problem, None, "give runs, sweeps or their folders")])
    return run


def _samples(
    runs: Sequence[Run | Sweep], data_of: Mapping[str, RunData], at_s: float | None, metric: str
) -> Iterator[_Sample]:
    """Yield the values of *metric*, one sample for each run or point and learner.

    Args:
        runs: the runs and sweeps.
        data_of: the runs by folder.
        at_s: time of the values; ``None`` for the end.
        metric: name of the metric.

    Raises:
        ScenarioError: some runs have the metric, and another does not.
    """
    earlier: list[RunData] = []
    lacking: list[str] = []
    for number, run in enumerate(runs):
        named = {"run": run.folder.name} if len(runs) > 1 else {}
        if isinstance(run, Sweep):
            samples = [*_sweep_samples(run, metric, named, number, at_s)]
        else:
            data = data_of[str(run.folder)]
            trace = f"run {_number_of_trace(data, earlier)}"
            earlier.append(data)
            samples = [*_run_samples(run, data, metric, named, trace)]
        if not samples:
            lacking.append(str(run.folder))
        yield from samples
    if 0 < len(lacking) < len(runs):
        problem = f"{', '.join(lacking)} has no such metric"
        remedy = "choose one that all runs have, or leave it out"
        raise ScenarioError([Fault("metric", problem, metric, remedy)])


def _number_of_trace(data: RunData, earlier: Sequence[RunData]) -> int:
    """Return the number of the first of the *earlier* runs with the same trace; a new number without one."""
    for number, other in enumerate(earlier):
        if shared_rounds(data, other):
            return number
    return len(earlier)


def _run_samples(run: Run, data: RunData, metric: str, named: Mapping[str, str], trace: str) -> Iterator[_Sample]:
    """Yield the values of *metric* of each learner of a run; of a metric of the network one sample without a learner.

    Args:
        run: the run.
        data: its data until the time of the values.
        metric: name of the metric.
        named: keys that distinguish the run from others.
        trace: name of its trace.
    """
    finals: dict[str, pd.Series[float]] = {}
    if data.has(metric):
        finals = data.final(metric)
    if not finals:
        of_network = run.final_metrics[run.final_metrics["metric"] == metric]
        if len(of_network):
            finals = {"": of_network.set_index("replica")["value"]}
    billing = frozenset(filter(None, [billing_kind(run.manifest)]))
    ranks = {name: rank for rank, name in enumerate(run.learners)}
    for learner in sorted(finals, key=lambda name: ranks.get(name, len(ranks))):
        keys = _Keys(named)
        if learner:
            keys["learner"] = learner
        keys.read_scenario = partial(_settings_of, run.scenario, [run])
        yield _Sample(keys, _indexed(finals[learner].dropna(), trace), billing)


def _sweep_samples(
    sweep: Sweep, metric: str, named: Mapping[str, str], number: int, at_s: float | None
) -> Iterator[_Sample]:
    """Yield the values of *metric* of each learner at each point of a sweep; *number* is that of the sweep."""
    if at_s is None:
        table = sweep.final_metrics
        table = table[table["metric"].isin([metric, final_name(metric), final_name(metric, is_choice=True)])]
    else:
        table = _values_at(sweep, metric, at_s)
    axes = [axis for axis in sweep.axes if axis not in table]
    table = table.merge(sweep.points[["point", "trace", *axes]], on="point")
    tasks = sweep.lanes.groupby("point")["task"].unique()

    @cache
    def scenario_at(point: int) -> Mapping[str, Any]:
        return _settings_of(sweep.scenario_at(point).plain(), [sweep.run(task) for task in tasks[point]])

    for _, rows in table.groupby(["point", "learner"], sort=False):
        first = rows.iloc[0]
        keys = _Keys(named)
        keys.update({axis: str(first[axis]) for axis in sweep.axes})
        if first["learner"]:
            keys["learner"] = first["learner"]
        keys.read_scenario = partial(scenario_at, int(first["point"]))
        values = _indexed(rows.set_index("replica")["value"].dropna(), f"sweep {number} {first['trace']}")
        yield _Sample(keys, values, sweep.billing)


def _values_at(sweep: Sweep, metric: str, at_s: float) -> pd.DataFrame:
    """Return the final values of all points at a time: columns point, learner, replica, value.

    Raises:
        ScenarioError: a replica ends before.
    """
    until_s = after_rounding(at_s)
    ends_s = sweep.rounds.groupby(["trace", "replica"])["closed_s"].max()
    longest_s = (sweep.rounds["closed_s"] - sweep.rounds["opened_s"]).max()
    if (ends_s + longest_s < at_s).any():
        problem = f"a point of {sweep.folder} ends before, at {ends_s.min():.6g} s"
        raise ScenarioError([Fault("at", problem, at_s, "choose an earlier time")])
    rounds = sweep.rounds[sweep.rounds["closed_s"] <= until_s]
    metrics = sweep.metrics[sweep.metrics["time_s"] <= until_s]
    parts = []
    name, group = split_group(metric)
    for point, trace in sweep.points[["point", "trace"]].itertuples(index=False):
        of_point = metrics[metrics["point"] == point]
        values = aggregates.final(of_point, name, group, rounds=rounds[rounds["trace"] == trace])
        parts.append(values.rename("value").reset_index().assign(point=point))
    return pd.concat(parts)


def _settings_of(scenario: Mapping[str, Any], runs: Sequence[Run]) -> Mapping[str, Any]:
    """Return a scenario as plain data, with the settings of its learners that tuning has chosen.

    Args:
        scenario: the scenario as stated.
        runs: the run of all replicas, or those of some replicas each, in their order.
    """
    tunings = [run.manifest["tuning"] for run in runs if run.manifest.get("tuning")]
    tuning: Mapping[str, Any] = {}
    if tunings:
        tuning = tunings[0]
    if len(tunings) > 1 and tuning.get("per") == "replica":
        tuning = {**tuning, "chosen": join_chosen(tunings)}
    return {**scenario, "learners": learner_settings(scenario.get("learners") or {}, tuning)}


class _Keys(dict[str, str]):
    """Keys of a sample; keys of its scenario are found, but not listed."""

    read_scenario: Callable[[], Mapping[str, Any]]

    def __missing__(self, key: str) -> str:
        value: Any = self.read_scenario()
        for part in key.split("."):
            if isinstance(value, list):
                value = value[int(part)]
            else:
                value = value[part]
        return str(value)


def _indexed(values: pd.Series[float], trace: str) -> pd.Series[float]:
    index = pd.MultiIndex.from_product([[trace], values.index], names=["trace", "replica"])
    return pd.Series(values.to_numpy(float), index)


def _pool(samples: Sequence[_Sample], by: Sequence[str] | None) -> list[_Sample]:
    """Pool the samples that are equal in the keys *by* and in the learner."""
    if by is not None and _has_learners(samples) and "learner" not in by:
        by = [*by, "learner"]  # values of several learners are never pooled
    groups: dict[tuple[tuple[str, str], ...], list[_Sample]] = {}
    for sample in samples:
        names = sample.keys if by is None else by
        keys = tuple((name, _value(sample.keys, name)) for name in names)
        groups.setdefault(keys, []).append(sample)
    pooled = []
    for keys, members in groups.items():
        values = pd.concat([sample.values for sample in members])
        # values with the same trace and replica are not independent: their mean counts as one
        values = values.groupby(level=[0, 1], sort=False).mean()
        billing = frozenset[str]().union(*(sample.billing for sample in members))
        pooled.append(_Sample(dict(keys), values, billing))
    return pooled


def _has_learners(samples: Sequence[_Sample]) -> bool:
    """Return whether the samples are those of several learners."""
    return len({sample.keys.get("learner") for sample in samples}) > 1


def _value(keys: Mapping[str, str], key: str) -> str:
    try:
        return keys[key]
    except (KeyError, IndexError, ValueError, TypeError):
        remedy = "known: keys of the scenario"
        if keys:
            remedy = f"known: {', '.join(keys)}, and keys of the scenario"
        raise ScenarioError([Fault("by", "a run has no such key", key, remedy)]) from None


def _baseline(samples: Sequence[_Sample], keys: Mapping[str, str], baseline: str | None) -> pd.Series[float] | None:
    """Return the values that the sample with *keys* is compared with; ``None`` for the baseline itself."""
    first = samples[0].keys
    if baseline is not None:
        key_of = {value: key for sample in samples for key, value in sample.keys.items()}
        if baseline not in key_of:
            raise ScenarioError([Fault("baseline", "no row has this value", baseline, suggest(baseline, [*key_of]))])
        changed = {key_of[baseline]: baseline}
    elif _has_learners(samples):  # the first learner, all else being equal
        changed = {"learner": first["learner"]}
    else:
        changed = dict(first)
    wanted = {**keys, **changed}
    if wanted == keys:
        return None
    return next((sample.values for sample in samples if sample.keys == wanted), None)


def _difference(values: pd.Series[float], other: pd.Series[float] | None) -> tuple[ConfidenceInterval, bool]:
    """Return the difference of two samples, and whether it is paired."""
    if other is None:
        return interval([]), False
    common = values.index.intersection(other.index)
    if len(common) and len(common) == min(len(values), len(other)):  # the smaller sample is paired as a whole
        return interval((values[common] - other[common]).to_numpy()), True
    return welch(values.to_numpy(), other.to_numpy()), False


def _key_text(value: str) -> str:
    """Return the value of a key for a printed table, without the digits of a number that nobody reads.

    >>> _key_text("0.9797958971132715"), _key_text("1.10"), _key_text("FedAvg")
    ('0.9798', '1.10', 'FedAvg')
    """
    if _LONG_NUMBER.fullmatch(value):
        return format_setting(float(value))
    return value


_LONG_NUMBER = re.compile(r"-?\d+\.\d{5,}(e[-+]?\d+)?")


def _label_with_unit(metric: str, unit: str) -> str:
    label = metric_head(metric) if is_learned(metric) else metric_label(metric)
    if unit:
        return f"{label} ({unit})"
    return label


def _unit(metric: str, largest: float) -> tuple[float, str]:
    """Return the value that the unit of a column is chosen for, its *largest*, and the name of the unit."""
    if is_share(metric):
        return largest, "%"
    if is_variance(metric):
        return largest, "%²"
    if math.isnan(largest) or is_learned(metric):
        return largest, ""
    return largest, unit_of(metric, largest)[1]


def _mean_text(row: Mapping[Any, Any], like: float) -> MetricText:
    """Return the mean of a row with its interval, in the unit that *like* has, without the unit."""
    return _text(row["metric"], ConfidenceInterval(row["mean"], row["half"], row["replicas"]), like)


def _difference_text(row: Mapping[Any, Any], like: float) -> MetricText:
    """Return the difference of a row with its interval, in the unit that *like* has, without the unit."""
    difference = ConfidenceInterval(row["difference"], row["difference_half"], row["difference_replicas"])
    return _text(row["metric"], difference, like, is_difference=True)


def _text(metric: str, value: ConfidenceInterval, like: float, *, is_difference: bool = False) -> MetricText:
    if is_learned(metric):
        text = learned_text(metric, value, is_difference=is_difference)
    else:
        text = format_parts(metric, value.mean, value.half, like, value.replicas, is_difference=is_difference)
        if is_difference and value.mean > 0.0:
            text = replace(text, number=f"+{text.number}")
    return replace(text, unit="")


def _compared(row: Mapping[Any, Any]) -> str:
    """Return the number of replicas behind a difference: pairs, or the smaller number of two unpaired samples."""
    if not row["difference_replicas"]:
        return "–"
    if row["paired"]:
        return counted(row["difference_replicas"], "pair")
    return f"{row['difference_replicas']} unpaired"


def _in_row(text: MetricText) -> str:
    """Return a value with its interval, for a table whose next column has the number of replicas."""
    return str(replace(text, count=""))


_LATEX = {
    **{character: f"\\{character}" for character in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
}
"""LaTeX of its special characters."""


def _escape(text: str) -> str:
    r"""Return *text* in LaTeX.

    >>> _escape("a_1 ~ 10^2 %")
    'a\\_1 \\textasciitilde{} 10\\textasciicircum{}2 \\%'
    """
    return "".join(_LATEX.get(character, character) for character in text)


def _math(cell: str) -> str:
    r"""Return a cell such as ``81.2 ± 2.1 (n = 5)`` in LaTeX.

    >>> _math("81.2 ± 2.1 (n = 5)"), _math("+3.0"), _math("–"), _math("35.1 [0.0*, 88.3] (n = 3)")
    ('$81.2 \\pm 2.1$ ($n = 5$)', '$+3.0$', '--', '$35.1\\ [0.0^{*}, 88.3]$ ($n = 3$)')
    """
    if cell == "–":
        return "--"
    value, _, count = cell.partition(" (n = ")
    formula = value.replace("±", r"\pm").replace(" [", r"\ [").replace(CUT, "^{*}")
    if not count:
        return f"${formula}$"
    return f"${formula}$ ($n = {count.removesuffix(')')}$)"
