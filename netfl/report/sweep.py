"""The report of a sweep: the best points, metrics along and over the axes, all points, and missing runs."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.dataset as ds
from markupsafe import Markup
from matplotlib.figure import Figure

from netfl.plots import learning as learning_plots
from netfl.plots import style
from netfl.plots import sweeps as sweep_plots
from netfl.report import page, summary_text
from netfl.report.page import Page, Section
from netfl.report.run_data import interval_cell
from netfl.report.sections import LEARNER_LEGEND
from netfl.report.sweep_data import (
    METRICS,
    PointRanking,
    RankedPoint,
    SweepData,
    SweepTables,
    paired_lead,
    rank_points,
    ranking_entries,
)
from netfl.results import formatting
from netfl.results.statistics import FINAL, LAST_TENTH, ConfidenceInterval, interval, mean_sentence, name_spread

MAX_POINTS = 300
"""Maximum number of points in the table."""
MAX_COLUMNS = 12
"""Maximum number of metrics in the table."""
MAX_CURVES = 8
"""Maximum number of curves in a panel."""
MAX_TASKS = 100
"""Maximum number of runs in a table."""
MAX_PANELS = 9
"""Maximum number of panels; the remaining axes keep the values of the best point."""
MAX_MAPS = 6
"""Maximum number of learners with a heat map."""
_LONG_TITLE = 30
"""Titles with more characters are smaller."""


def write_sweep(sweep: SweepTables, out: Path | None = None) -> Path:
    """Write the report of *sweep*, done or not.

    Args:
        sweep: from `netfl.open_sweep`.
        out: the file to write; by default ``report.html`` in the folder of the sweep.

    Returns:
        The file written.

    Raises:
        ScenarioError: *out* exists and is not a page of netfl.
        MachineError: a table is damaged.
    """
    path = sweep.folder / "report.html" if out is None else out
    page.check_target(path)
    return sweep_page(SweepData(sweep), path.parent).write(path)


def sweep_page(data: SweepData, folder: Path) -> Page:
    """Return the report of a sweep, with links from *folder*."""
    return Page(
        title=data.name,
        status=f"sweep, {data.sweep.status}",
        is_done=data.sweep.status == "done",
        summary=summary_text.sweep_summary(data),
        sections=[*sections(data, folder)],
        scenarios={"The scenario, with its sweep": data.scenario_text},
        description=str(data.scenario.get("description") or ""),
        facts=summary_text.sweep_facts(data),
    )


def sections(data: SweepData, folder: Path) -> Iterator[Section]:
    """Yield all sections for which the sweep has tables, with links from *folder*."""
    for figure in data.metrics or data.network_metrics:
        ranking = rank_points(data, figure)
        point = ranking.complete[0].points[0] if ranking.complete else 0
        parts = (*metric_plots(data, figure, point), *(best_points(ranking) if data.metrics else ()))
        label = formatting.learning_label(figure) if data.metrics else formatting.metric_label(figure)
        if parts and (data.metrics or data.summary_of(figure)["mean"].nunique() > 1):
            yield Section(figure, formatting.capitalized(label), parts)
    curves = tuple(learning_curves(data))
    if curves:
        yield Section("curves", "Learning curves", curves)
    yield Section("points", "All points", (point_table(data),))
    runs = tuple(task_table(data, folder))
    if runs:
        yield Section("tasks", "Runs", runs)


def best_points(ranking: PointRanking) -> Iterator[Markup]:
    """Yield the best setting of each learner."""
    if len(ranking.complete) < 2:
        return
    best, rows = ranking.complete[0], []
    for learner in dict.fromkeys(entry.learner for entry in ranking.complete):
        entry = ranking.entries_of(learner)[0]
        gap = interval(paired_lead(best, entry))
        behind = f"{100 * gap.mean:.1f}" + ("" if gap.clear is None else f" ± {100 * gap.half:.1f}")
        setting = entry.name.removeprefix(f"{learner} at ") if entry.name != learner else "the same everywhere"
        value = interval_cell("accuracy", entry.mean, entry.mean.replicas)
        rows.append([learner, setting, value, "–" if entry is best else behind])
    caption = (
        "The setting at which each learner ends highest, in percent, and how far that is below the highest of all, in "
        f"points, by replica. Each value is the {FINAL[LAST_TENTH]}; {name_spread(best.mean.replicas)}."
    )
    yield page.table(["Learner", "Best setting", "Ends at", "Below the highest"], rows, caption)


def learning_curves(data: SweepData) -> Iterator[Markup]:
    """Yield the learning curves of all results or, if there are many, of the best of each learner."""
    metrics = [metric for metric in data.metrics if metric != "accuracy_users_worst10"]
    if not metrics:
        return
    entries = ranking_entries(data, metrics[-1])
    few = len(entries) <= MAX_CURVES
    groups = {"": entries}
    if not few:
        groups = {name: [entry for entry in entries if entry.learner == name] for name in data.learners}
    table = _evaluations(data, metrics)
    for number, (learner, group) in enumerate(groups.items()):
        if len(group) == 1 and not few:
            continue
        best = sorted(group, key=lambda entry: -entry.mean.mean if entry.mean.replicas else math.inf)[:MAX_CURVES]
        shown = [entry for entry in group if entry in best]
        more = f" Of {len(group)} settings the {MAX_CURVES} that end highest." if len(group) > MAX_CURVES else ""
        bands = "; bands: their 95 % t-intervals" if data.replicas > 1 else ""
        caption = (
            f"{f'{learner}.{more} ' if learner else ''}Means over replicas against rounds{bands}. "
            "Points that are the same to a learner are one line."
        )
        names = [entry.name.removeprefix(f"{learner} at ") if learner else entry.name for entry in shown]
        size = (9.6, 2.9 + 0.1 * len(names))
        yield page.plot(
            _curve_painter(table, metrics, dict(zip(names, shown, strict=True))),
            name=f"curves-{number}",
            caption=caption,
            size=size,
        )


def _curve_painter(table: pd.DataFrame, metrics: list[str], entries: dict[str, RankedPoint]) -> style.Paint:
    """Return a function that draws the curves of *entries*, by name."""
    rows = pd.concat(
        [
            table[(table["point"] == entry.points[0]) & (table["learner"] == entry.learner)].assign(learner=name)
            for name, entry in entries.items()
        ]
    )

    def paint(figure: Figure) -> None:
        for metric, ax in zip(metrics, style.grid_axes(figure, len(metrics), len(metrics)), strict=True):
            style.without_legend(learning_plots.curves(rows, metric, learners=list(entries), ax=ax))
        learning_plots.learner_legend(figure, list(entries), loc="outside upper left", ncols=2, fontsize=8)

    return paint


def _evaluations(data: SweepData, metrics: list[str]) -> pd.DataFrame:
    """Read all evaluations of *metrics* over all data."""
    wanted = ds.field("metric").isin(metrics) & (ds.field("group") == "")
    table = data.sweep.table("metrics", ["round", "time_s", "metric", "group", "value"], wanted)
    return table.astype({"metric": str, "group": str})


def point_table(data: SweepData) -> Markup:
    """Return all points with their values."""
    figures = data.metrics or data.network_metrics
    learners = data.learners if data.metrics else [""]
    values = {figure: data.intervals(figure) for figure in figures}
    known = {(name, figure) for figure in figures for _, name in values[figure]}
    columns = [(name, figure) for figure in figures for name in learners if (name, figure) in known]
    shown, axes = columns[:MAX_COLUMNS], data.sweep.axes
    rows = []
    for point in data.sweep.points.head(MAX_POINTS).to_dict("records"):
        cells = [_cell(values[figure].get((point["point"], name)), figure, data) for name, figure in shown]
        settings = [formatting.format_setting(point[axis]) for axis in axes]
        rows.append([str(point["point"]), *settings, str(point["status"]), *cells])
    heads = [
        f"{name}: {formatting.METRICS[figure]}" if name else formatting.metric_label(figure) for name, figure in shown
    ]
    number = len(data.sweep.points)
    more = f" The first {MAX_POINTS} of {formatting.format_count(number)}." if number > MAX_POINTS else ""
    few = f" {len(columns) - MAX_COLUMNS} more figures are left out." if len(columns) > MAX_COLUMNS else ""
    rest = f" netfl.open_sweep({str(data.sweep.folder)!r}).summary has all." if more or few else ""
    what = f"Each value is the {FINAL[LAST_TENTH]}, accuracies in percent. " if data.metrics else ""
    caption = f"{what}{mean_sentence(data.replicas)}{more}{few}{rest}"
    return page.table(["Point", *axes, "Status", *heads], rows, caption)


def _cell(value: ConfidenceInterval | None, figure: str, data: SweepData) -> str:
    if value is None:
        return "–"
    if figure in METRICS:
        return interval_cell(figure, value, data.replicas)
    return formatting.format_metric(figure, value.mean, value.half)


def task_table(data: SweepData, folder: Path) -> Iterator[Markup]:
    """Yield the unfinished runs with their errors, and links from *folder* to reports of runs."""
    table = data.sweep.tasks
    unfinished = table[table["status"] != "done"]
    if len(unfinished):
        points_of = data.sweep.points.groupby("trace")["point"].apply(list).to_dict()
        rows = []
        for task in unfinished.head(MAX_TASKS).to_dict("records"):
            points = ", ".join(map(str, points_of.get(task["trace"], [])[:MAX_CURVES])) or "none that is asked for"
            rows.append([task["task"], task["status"], points, task["error"] or "–"])
        more = f" The first {MAX_TASKS} of {len(unfinished)}." if len(unfinished) > MAX_TASKS else ""
        caption = f"Runs that are not done, and the points that they belong to.{more}"
        yield page.table(["Run", "Status", "Points", "Error"], rows, caption)
    keys = table.loc[table["status"] == "done", "task"]
    files = [(key, data.sweep.run(key).folder / "report.html") for key in keys]
    files = [(key, file) for key, file in files if file.is_file()][:MAX_TASKS]
    if files:
        yield page.links("Reports of their own:", files, folder)


@dataclass(frozen=True)
class AxisRoles:
    """Roles of the axes of a sweep in the plots of one metric.

    Args:
        x: the horizontal axis.
        panels_by: the axes with a panel for each combination of values.
        fixed: the axes that keep one value.
        rows: rows of the summary with the values of *fixed*.
    """

    x: str
    panels_by: tuple[str, ...]
    fixed: dict[str, Any]
    rows: pd.DataFrame

    @property
    def panels(self) -> Iterator[tuple[str, pd.DataFrame]]:
        """Title and rows of each panel."""
        for values in product(*(sweep_plots.sorted_values(self.rows[axis]) for axis in self.panels_by)):
            rows = self.rows
            for axis, value in zip(self.panels_by, values, strict=True):
                rows = rows[rows[axis] == value]
            if len(rows):
                yield axis_title(dict(zip(self.panels_by, values, strict=True))), rows

    @property
    def fixed_sentence(self) -> str:
        """A sentence, after a space, on the axes that keep one value; empty without any."""
        return f" With {axis_title(self.fixed)}, as at the best point." if self.fixed else ""


@dataclass(frozen=True)
class MetricRows:
    """Values of one metric for the plots of a sweep.

    Args:
        data: the sweep.
        figure: name of the metric.
        learners: learners with values; one empty name for metrics of the network.
        rows: rows of the summary.
    """

    data: SweepData
    figure: str
    learners: list[str]
    rows: pd.DataFrame

    @property
    def label(self) -> str:
        """Label of the metric at the beginning of a sentence."""
        label = formatting.learning_label if any(self.learners) else formatting.metric_label
        return formatting.capitalized(label(self.figure))

    @property
    def spread_sentence(self) -> str:
        """A sentence on lines and bands."""
        if self.data.replicas == 1:
            return "One replica each: nothing is known of chance."
        return "Means over replicas; bands and bars: their 95 % t-intervals."

    def add_legend(self, figure: Figure) -> None:
        """Add a legend of the learners, if there are any."""
        if any(self.learners):
            learning_plots.learner_legend(figure, self.learners, **LEARNER_LEGEND)


def metric_plots(data: SweepData, figure: str, point: int) -> Iterator[Markup]:
    """Yield all plots of *figure*; axes without room for panels keep their values at *point*."""
    rows = data.summary_of(figure)
    known = {*rows["learner"]}
    learners = [name for name in data.learners if name in known] or [name for name in ("",) if name in known]
    values = MetricRows(data, figure, learners, rows[rows["learner"].isin(learners)])
    if values.rows.empty or not data.varied:
        return
    if data.random_axes:
        yield scatter_plot(values)
    elif data.free:
        axes = sorted(data.free, key=lambda axis: _priority(rows, axis))
        yield line_plot(values, assign_axes(values, axes, point, MAX_PANELS))
        if len(axes) > 1 and rows[axes[1]].nunique() > 1:
            yield heat_plot(values, assign_axes(values, axes, point, 0), axes[1])


def _priority(rows: pd.DataFrame, axis: str) -> tuple[bool, int]:
    """Return a sort key: numeric axes first, and of these the ones with the most values."""
    return not sweep_plots.is_numeric(rows[axis]), -int(rows[axis].nunique())


def assign_axes(values: MetricRows, axes: list[str], point: int, max_panels: int) -> AxisRoles:
    """Assign roles to *axes*: the first is horizontal, others have panels, the last ones are fixed.

    Args:
        values: the values.
        axes: axes that vary independently, in the order of importance.
        point: number of the point whose values fixed axes keep.
        max_panels: maximum number of panels; with 0 all but the first two axes are fixed.
    """
    x, *panels_by = axes
    rows = values.rows
    fixed: dict[str, Any] = {}
    while panels_by and len(rows[panels_by].drop_duplicates()) > max_panels and (max_panels or len(panels_by) > 1):
        axis = panels_by.pop()
        fixed[axis] = values.data.sweep.points.loc[point, axis]
        rows = rows[rows[axis] == fixed[axis]]
    return AxisRoles(x, tuple(panels_by), fixed, rows)


def line_plot(values: MetricRows, roles: AxisRoles) -> Markup:
    """Return a line for each learner along one axis, a panel for each combination of others."""
    panels = [*roles.panels]
    columns = 2 if len(panels) == 4 else min(3, len(panels))

    def paint(figure: Figure) -> None:
        cells = style.grid_axes(figure, len(panels), columns, sharex=True, sharey=True)
        for (title, rows), ax in zip(panels, cells, strict=True):
            sweep_plots.axis_lines(rows, values.figure, roles.x, learners=values.learners, ax=ax)
            ax.set_title(title, fontsize=8 if len(title) > _LONG_TITLE else None)
        cells[0].autoscale(axis="y")
        sweep_plots.format_figure_axis(cells[0], roles.rows, values.figure)
        for index, ax in enumerate(cells):
            if index + columns < len(panels):
                ax.label_outer(remove_inner_ticks=False)
            else:
                ax.tick_params(labelbottom=True)
            ax.set_ylabel("" if index % columns else cells[0].get_ylabel())
        values.add_legend(figure)

    panel_axes = f" A panel for each {formatting.join_words(roles.panels_by)}." if roles.panels_by else ""
    caption = f"{values.label} along {roles.x}.{panel_axes}{roles.fixed_sentence} {values.spread_sentence}"
    size = (9.6, 0.6 + 2.5 * -(-len(panels) // columns)) if len(panels) > 1 else (7.2, 3.3)
    return page.plot(paint, name=f"{values.figure}-along", caption=caption, size=size)


def heat_plot(values: MetricRows, roles: AxisRoles, y: str) -> Markup:
    """Return a heat map for each learner over two axes."""
    learners = values.learners[:MAX_MAPS]
    columns = 1 if len(learners) == 1 else 2
    rows = roles.rows[roles.rows["learner"].isin(learners)]
    limits = sweep_plots.mean_limits(rows)

    def paint(figure: Figure) -> None:
        cells = style.grid_axes(figure, len(learners), columns)
        for learner, ax in zip(learners, cells, strict=True):
            own_rows = rows[rows["learner"] == learner]
            sweep_plots.axis_heat(own_rows, values.figure, (roles.x, y), limits=limits, ax=ax).set_title(learner)
        label = sweep_plots.si_scale(rows, values.figure)[1]
        figure.colorbar(cells[0].collections[0], ax=cells, label=label, pad=0.02)

    number = len(values.learners)
    more = f" Of {number} learners the first {MAX_MAPS} are shown." if number > MAX_MAPS else ""
    caption = f"{values.label} over {roles.x} and {y}, means over replicas.{more}{roles.fixed_sentence}"
    height = 0.5 + 0.42 * max(3, rows[y].nunique())
    size = (9.6 if columns > 1 else 7.2, 0.5 + -(-len(learners) // columns) * height)
    return page.plot(paint, name=f"{values.figure}-over", caption=caption, size=size)


def scatter_plot(values: MetricRows) -> Markup:
    """Return all points against each axis with random values."""
    axes = values.data.random_axes
    columns = min(3, len(axes))

    def paint(figure: Figure) -> None:
        cells = style.grid_axes(figure, len(axes), columns, sharey=True)
        for index, (axis, ax) in enumerate(zip(axes, cells, strict=True)):
            sweep_plots.axis_lines(values.rows, values.figure, axis, learners=values.learners, joined=False, ax=ax)
            ax.set_ylabel("" if index % columns else ax.get_ylabel())
        values.add_legend(figure)

    caption = f"{values.label} at all points, against each axis that is drawn; others vary with it. "
    size = (9.6, 0.6 + 2.6 * -(-len(axes) // columns)) if len(axes) > 1 else (7.2, 3.3)
    return page.plot(paint, name=f"{values.figure}-drawn", caption=caption + values.spread_sentence, size=size)


def axis_title(values: dict[str, Any]) -> str:
    """Return values of axes as a title."""
    return ", ".join(f"{axis} = {formatting.format_setting(value)}" for axis, value in values.items())
