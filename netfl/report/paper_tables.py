"""Tables for papers: final values of learners and metrics of networks, with intervals and differences."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import pandas as pd

from netfl.errors import Fault, ScenarioError, suggest
from netfl.report.run_data import RunData, read_run_data
from netfl.report.run_set import shared_rounds, welch
from netfl.results.formatting import is_learned, is_share, metric_cell, metric_label, metric_title, unit_of
from netfl.results.metrics import find_metric, metrics_in
from netfl.results.payload import billing_kind
from netfl.results.run_reader import Run, is_sweep, open_run
from netfl.results.statistics import ConfidenceInterval, final_name, interval, metric_of
from netfl.sweeps import Sweep, open_sweep

Runs = Run | Sweep | str | Path
"""A run, a sweep, or the folder of one."""

_VALUES = ["metric", "mean", "half", "replicas", "difference", "difference_half", "paired"]


class ComparisonTable(pd.DataFrame):
    """A table of `compare`, which can be written in LaTeX.  What pandas makes of it is a plain DataFrame."""

    def to_latex(self, buf: Any = None, **options: Any) -> Any:
        r"""Return the table in LaTeX, or write it to a file.

        Rows are groups.  For each metric a column has mean ± half width, another the difference to the baseline;
        ``--`` stands for a missing value.  The header of a column has its unit; accuracies are in percent.  The
        preamble needs ``\usepackage{booktabs}``.

        Args:
            buf: the file; by default the text is returned.
            options: options of `pandas.io.formats.style.Styler.to_latex`, such as ``caption`` and ``label``.
        """
        keys = [name for name in self.columns if name not in _VALUES]
        has_differences = self["difference"].notna().any()
        largest = self["mean"].abs().groupby(self["metric"]).max()
        units = {str(metric): _unit(str(metric), value) for metric, value in largest.items()}
        columns: dict[str, dict[tuple[str, ...], str]] = {}
        groups: dict[tuple[str, ...], None] = {}
        for row in self.to_dict("records"):
            metric = row["metric"]
            group = tuple(str(row[key]) for key in keys)
            scale, unit = units[metric]
            label = _escape(f"{_label(metric)} ({unit})" if unit else _label(metric))
            groups[group] = None
            cell = metric_cell(metric, row["mean"] / scale, row["half"] / scale, row["replicas"], row["replicas"])
            columns.setdefault(label, {})[group] = _math(cell)
            if has_differences:
                gap = metric_cell(metric, row["difference"] / scale, row["difference_half"] / scale)
                columns.setdefault(f"difference, {label}", {})[group] = _math(gap, signed=True)
        table = pd.DataFrame(
            [[*map(_escape, group), *(cells.get(group, "--") for cells in columns.values())] for group in groups],
            columns=[*map(_escape, keys), *columns],
        )
        alignment = "l" * len(keys) + "r" * len(columns)
        settings: dict[str, Any] = {"hrules": True, "column_format": alignment} | options
        return table.style.hide(axis="index").to_latex(buf, **settings)


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
) -> ComparisonTable:
    """Compare final values over replicas: mean, 95 % interval, and the difference to a baseline.

    A final value is the mean of the last 10 % of rounds, as in all outputs of netfl; see
    `netfl.results.statistics.final_values`.  Rows with the same trace, such as the learners of one run, are compared by
    replica (Student's t of the differences), others by Welch's t.

    Args:
        runs: a run or a sweep, or several of them; or their folders.
        metric: metrics of learners, such as ``accuracy``, or of the network, such as ``delay_mean_s`` or ``jain``.
        by: what distinguishes the rows: ``run``, ``learner``, an axis of a sweep, or a key of the scenario such as
            ``access.mac.kind``.  Values that are equal in these are pooled, but never those of several learners:
            ``learner`` is then added.  Of pooled values with the same trace and replica the mean counts, as they are
            not independent.  By default run, axes and learner.
        baseline: the learner, run or value that differences are taken to; by default the first learner, or the first
            row if there is only one learner.

    Returns:
        A row for each group and metric.  ``half`` is half the width of the interval, ``replicas`` the number of values,
        ``difference`` the mean difference to the baseline, and ``paired`` states whether it is by replica.  Costs have
        a column ``billing`` if learners do not pay what they send: ``largest``, ``given`` or ``recorded``; see
        `netfl.results.payload.Billing`.

    Raises:
        ScenarioError: there is no such run, metric, key or baseline, or one of the runs does not have the metric.

    >>> netfl.compare("runs/first", metric=["accuracy", "rare_accuracy"])  # doctest: +SKIP
    """
    opened = [_open(run) for run in ([runs] if isinstance(runs, Runs) else runs)]
    rows = []
    for name in [metric] if isinstance(metric, str) else metric:
        samples = [*_samples(opened, name)]
        if not samples:
            known = sorted({metric for run in opened for metric in _metrics(run)})
            raise ScenarioError([Fault("metric", "no run has this metric", name, suggest(name, known))])
        samples = _pool(samples, [by] if isinstance(by, str) else by)
        for sample in samples:
            estimate = interval(sample.values)
            other = _baseline(samples, sample.keys, baseline)
            gap, is_paired = _difference(sample.values, other)
            found = (name, estimate.mean, estimate.half, estimate.replicas, gap.mean, gap.half, is_paired)
            billing = {}
            if sample.billing and find_metric(name).is_cost:
                billing = {"billing": " and ".join(sorted(sample.billing))}
            rows.append({**sample.keys, **billing, **dict(zip(_VALUES, found, strict=True))})
    table = pd.DataFrame(rows)
    keys = [column for column in table.columns if column not in _VALUES]
    return ComparisonTable(table[[*keys, *_VALUES]].fillna(dict.fromkeys(keys, "")))


def known_metrics(runs: Sequence[Runs]) -> list[str]:
    """Return the headline metrics that all *runs* have: those of learners, else those of the network.

    Raises:
        ScenarioError: there are none.
    """
    opened = [_open(run) for run in runs]
    known = [{*_known_metrics(run)} for run in opened]
    for run, metrics in zip(opened, known, strict=True):
        if not metrics:
            raise ScenarioError([Fault("", f"{run.folder} has no metrics yet", None, "finish the run")])
    common = known[0].intersection(*known)
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
    names = [f".{metric_of(name)}" for name in run.final_metrics["metric"].astype(str).unique()]
    data = None if isinstance(run, Sweep) else read_run_data(run)
    for metric in metrics_in("headline", is_learned=True):
        if (data is not None and data.has(metric)) or any(name.endswith(f".{metric}") for name in names):
            yield metric
    yield from (metric for metric in metrics_in("headline", is_learned=False) if f".{metric}" in names)


def _open(run: Runs) -> Run | Sweep:
    if isinstance(run, str | Path):
        return open_sweep(run) if is_sweep(Path(run)) else open_run(run)
    return run


def _samples(runs: Sequence[Run | Sweep], metric: str) -> Iterator[_Sample]:
    """Yield the values of *metric*, one sample for each run or point and learner.

    Raises:
        ScenarioError: some runs have the metric, and another does not.
    """
    read: list[RunData] = []
    lacking: list[str] = []
    for number, run in enumerate(runs):
        named = {"run": run.folder.name} if len(runs) > 1 else {}
        if isinstance(run, Sweep):
            of_points = [*_sweep_samples(run, metric, named, number)]
            lacking += [] if of_points else [str(run.folder)]
            yield from of_points
            continue
        data = read_run_data(run)
        same = (at for at, other in enumerate(read) if shared_rounds(data, other))
        trace = f"run {next(same, len(read))}"
        read.append(data)
        finals = data.final(metric) if data.has(metric) else {}
        if not finals:
            table = run.final_metrics[run.final_metrics["metric"] == metric]
            finals = {"": table.set_index("replica")["value"]} if len(table) else {}
        billing = frozenset(filter(None, [billing_kind(run.manifest)]))
        places = {name: place for place, name in enumerate(run.learners)}
        for learner in sorted(finals, key=lambda name: places.get(name, len(places))):
            keys = _Keys({**named, **({"learner": learner} if learner else {})})
            keys.read_scenario = partial(getattr, run, "scenario")
            yield _Sample(keys, _indexed(finals[learner].dropna(), trace), billing)
        lacking += [] if finals else [str(run.folder)]
    if 0 < len(lacking) < len(runs):
        problem = f"{', '.join(lacking)} has no such metric"
        remedy = "choose one that all runs have, or leave it out"
        raise ScenarioError([Fault("metric", problem, metric, remedy)])


def _sweep_samples(sweep: Sweep, metric: str, named: Mapping[str, str], number: int) -> Iterator[_Sample]:
    wanted = [metric, final_name(metric), final_name(metric, is_choice=True)]
    table = sweep.final_metrics
    table = table[table["metric"].isin(wanted)].merge(sweep.points[["point", "trace"]], on="point")
    scenario_at = cache(lambda point: sweep.scenario_at(point).plain())
    for _, rows in table.groupby(["point", "learner"], sort=False):
        first = rows.iloc[0]
        keys = _Keys({**named, **{axis: str(first[axis]) for axis in sweep.axes}})
        keys |= {"learner": first["learner"]} if first["learner"] else {}
        keys.read_scenario = partial(scenario_at, int(first["point"]))
        values = _indexed(rows.set_index("replica")["value"].dropna(), f"sweep {number} {first['trace']}")
        yield _Sample(keys, values, sweep.billing)


class _Keys(dict[str, str]):
    """Keys of a sample; keys of its scenario are found, but not listed."""

    read_scenario: Callable[[], Mapping[str, Any]]

    def __missing__(self, key: str) -> str:
        value: Any = self.read_scenario()
        for part in key.split("."):
            value = value[int(part)] if isinstance(value, list) else value[part]
        return str(value)


def _indexed(values: pd.Series[float], trace: str) -> pd.Series[float]:
    index = pd.MultiIndex.from_product([[trace], values.index], names=["trace", "replica"])
    return pd.Series(values.to_numpy(float), index)


def _pool(samples: Sequence[_Sample], by: Sequence[str] | None) -> list[_Sample]:
    """Pool the samples that are equal in the keys *by* and in the learner."""
    has_learners = len({sample.keys.get("learner") for sample in samples}) > 1
    if by is not None and has_learners and "learner" not in by:
        by = [*by, "learner"]
    pooled: dict[tuple[tuple[str, str], ...], list[_Sample]] = {}
    for sample in samples:
        keys = tuple((key, _value(sample.keys, key)) for key in (sample.keys if by is None else by))
        pooled.setdefault(keys, []).append(sample)
    # values with the same trace and replica are not independent: their mean counts as one
    return [
        _Sample(
            dict(keys),
            pd.concat([sample.values for sample in members]).groupby(level=[0, 1], sort=False).mean(),
            frozenset[str]().union(*(sample.billing for sample in members)),
        )
        for keys, members in pooled.items()
    ]


def _value(keys: Mapping[str, str], key: str) -> str:
    try:
        return keys[key]
    except (KeyError, IndexError, ValueError, TypeError):
        remedy = f"known: {', '.join(keys)}, and keys of the scenario"
        raise ScenarioError([Fault("by", "a run has no such key", key, remedy)]) from None


def _baseline(samples: Sequence[_Sample], keys: Mapping[str, str], baseline: str | None) -> pd.Series[float] | None:
    """Return the values that the sample with *keys* is compared with; ``None`` for the baseline itself."""
    first = samples[0].keys
    if baseline is None:
        has_learners = len({sample.keys.get("learner") for sample in samples}) > 1
        changed = {"learner": first["learner"]} if has_learners else dict(first)
    else:
        known = {value: key for sample in samples for key, value in sample.keys.items()}
        if baseline not in known:
            raise ScenarioError([Fault("baseline", "no row has this value", baseline, suggest(baseline, [*known]))])
        changed = {known[baseline]: baseline}
    wanted = {**keys, **changed}
    return None if wanted == keys else next((each.values for each in samples if each.keys == wanted), None)


def _difference(values: pd.Series[float], other: pd.Series[float] | None) -> tuple[ConfidenceInterval, bool]:
    """Return the difference of two samples, and whether it is paired."""
    if other is None:
        return interval([]), False
    common = values.index.intersection(other.index)
    if len(common) and len(common) == min(len(values), len(other)):
        return interval((values[common] - other[common]).to_numpy()), True
    return welch(values.to_numpy(), other.to_numpy()), False


def _label(metric: str) -> str:
    return (metric_title(metric) if is_learned(metric) else metric_label(metric)).lower()


def _unit(metric: str, largest: float) -> tuple[float, str]:
    """Return the size and the name of the unit of a column whose largest value is *largest*."""
    if is_share(metric):
        return 1.0, "%"  # `metric_cell` converts
    return (1.0, "") if math.isnan(largest) else unit_of(metric, largest)


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


def _math(cell: str, *, signed: bool = False) -> str:
    r"""Return a cell such as ``81.2 ± 2.1`` in LaTeX.

    >>> _math("81.2 ± 2.1"), _math("3.0", signed=True), _math("–")
    ('$81.2 \\pm 2.1$', '$+3.0$', '--')
    """
    if cell == "–":
        return "--"
    sign = "+" if signed and not cell.startswith("-") else ""
    return f"${sign}{cell}$".replace("±", r"\pm")
