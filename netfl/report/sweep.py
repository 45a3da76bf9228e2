"""The report of a sweep: the best points, metrics along and over the axes, all points, and missing runs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
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
from netfl.report.page import Page, Section, caption
from netfl.report.run_data import interval_cell
from netfl.report.sweep_data import (
    PointRanking,
    RankedPoint,
    SweepData,
    paired_lead,
    rank_points,
    ranking_entries,
)
from netfl.results import formatting
from netfl.results.metrics import metrics_in, with_reported
from netfl.results.statistics import ConfidenceInterval, interval, metric_of
from netfl.sweeps.index import SearchEntry
from netfl.sweeps.results import Sweep

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
MAX_TRIALS = 10
"""Maximum number of trials in the table of the best."""
_LONG_TITLE = 30
"""Titles with more characters are smaller."""


def write_sweep(sweep: Sweep, out: Path | None = None) -> Path:
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
    path = sweep.folder / "report.html" if out is None else page.page_path(out)
    page.check_target(path)
    data = SweepData(sweep)
    with style.theme(), with_reported(sweep.reported):
        return Page(
            title=data.name,
            status=f"sweep, {sweep.status}",
            is_done=sweep.status == "done",
            summary=summary_text.sweep_summary(data),
            sections=[*sections(data, path.parent)],
            scenarios={"The scenario, with its sweep": data.scenario_text},
            description=str(data.scenario.get("description") or ""),
            facts=summary_text.sweep_facts(data),
        ).write(path)


def sections(data: SweepData, folder: Path) -> Iterator[Section]:
    """Yield all sections, with links from *folder*."""
    if data.sweep.search is not None and data.sweep.search.ranked():
        yield Section("search", "Search", [*search_section(data, data.sweep.search)])
    for metric in data.shown_metrics:
        is_learned = formatting.is_learned(metric)
        ranking = rank_points(data, metric)
        point = 0
        if ranking.complete:  # plots show the other axes at the best point
            point = ranking.complete[0].points[0]
        parts = [*metric_plots(data, metric, point)]
        if metric in data.metrics:
            parts += best_points(ranking)
        label = formatting.learning_label(metric) if is_learned else formatting.metric_label(metric)
        if is_learned or data.summary_of(metric)["mean"].nunique() > 1:
            yield Section(metric, formatting.capitalized(label), parts)
    yield Section("curves", "Learning curves", [*learning_curves(data)])
    yield Section("points", "All points", [point_table(data), *map(page.note, data.sweep.billing_notes)])
    yield Section("tasks", "Runs", [*task_table(data, folder)])


def search_section(data: SweepData, search: SearchEntry) -> Iterator[Markup]:
    """Yield the values of the trials in their order, and the best trials."""
    trials = data.sweep.trials
    metric = metric_of(search.metric)
    figure = page.new_figure(7.2, 3.3)
    sweep_plots.search_progress(trials, metric, direction=search.direction, ax=figure.add_subplot())
    yield page.plot(figure, "search-progress", caption("search_progress", search))
    rows = []
    for number in search.ranked()[:MAX_TRIALS]:
        settings = [formatting.format_setting(value) for value in data.sweep.point_values(number).values()]
        rows.append([str(number), *settings, formatting.format_final(metric, search.entries[number].value)])
    label = formatting.learning_label(metric) if search.learner else formatting.metric_label(metric)
    head = ["Trial", *data.sweep.axes, formatting.capitalized(label)]
    yield page.table(head, rows, caption("search_best", search, len(rows)))


def best_points(ranking: PointRanking) -> Iterator[Markup]:
    """Yield the best setting of each learner."""
    if len(ranking.complete) < 2:
        return
    highest = ranking.complete[0]
    best_of: dict[str, RankedPoint] = {}
    for point in ranking.complete:  # the best first
        best_of.setdefault(point.learner, point)
    rows = []
    for learner, best in best_of.items():
        setting = "the same at all points"
        if best.name != learner:
            setting = best.name.removeprefix(f"{learner} at ")
        value = interval_cell(ranking.metric, best.mean, best.mean.replicas)
        difference = "–"
        if best is not highest:
            lead = interval(paired_lead(highest, best))
            difference = formatting.metric_cell(
                ranking.metric, -lead.mean, lead.half, lead.replicas, is_difference=True
            )
        rows.append([learner, setting, value, difference])
    head = ["Learner", "Highest at", "Final value", "Difference to the highest"]
    yield page.table(head, rows, caption("best_points", best.mean.replicas))


def learning_curves(data: SweepData) -> Iterator[Markup]:
    """Yield the learning curves of all results or, if there are many, of the best of each learner."""
    metrics = [metric for metric in data.metrics if metric in metrics_in("curves")]
    if not metrics:
        return
    results = ranking_entries(data, metrics[-1])
    is_one_figure = len(results) <= MAX_CURVES
    groups = {"": results}
    if not is_one_figure:
        groups = {name: [result for result in results if result.learner == name] for name in data.learners}
    has_curve = ds.field("metric").isin(metrics) & (ds.field("group") == "")
    table = data.sweep.table("metrics", ["round", "time_s", "metric", "group", "value"], has_curve)
    table = table.astype({"metric": str, "group": str})
    for number, (learner, group) in enumerate(groups.items()):
        if len(group) == 1 and not is_one_figure:  # a learner that the axes leave alone
            continue
        best = sorted(group, key=_descending)[:MAX_CURVES]
        shown = [result for result in group if result in best]
        names = [result.name for result in shown]
        if learner:  # the caption names it
            names = [name.removeprefix(f"{learner} at ") for name in names]
        curves = []
        for name, result in zip(names, shown, strict=True):
            is_of_result = (table["point"] == result.points[0]) & (table["learner"] == result.learner)
            curves.append(table[is_of_result].assign(learner=name))
        figure = page.new_figure(9.6, 2.9 + 0.1 * len(names))
        for metric, ax in zip(metrics, style.grid_axes(figure, len(metrics), len(metrics)), strict=True):
            style.without_legend(learning_plots.curves(pd.concat(curves), metric, learners=names, ax=ax))
        learning_plots.learner_legend(figure, names, ncols=2, fontsize=8)
        text = caption("point_curves", data, learner, len(group), len(shown))
        yield page.plot(figure, f"curves-{number}", text)


def _descending(result: RankedPoint) -> float:
    """Return a key that sorts results by their mean, the highest first, and those without any value last."""
    if not result.mean.replicas:
        return math.inf
    return -result.mean.mean


def point_table(data: SweepData) -> Markup:
    """Return all points with their values."""
    values = {metric: data.intervals(metric) for metric in data.shown_metrics}
    columns = []
    for metric in data.shown_metrics:
        with_values = {learner for _, learner in values[metric]}
        columns += [(learner, metric) for learner in ("", *data.learners) if learner in with_values]
    shown = columns[:MAX_COLUMNS]
    points = data.sweep.points.head(MAX_POINTS)
    heads = []
    cells = []
    for learner, metric in shown:
        head = formatting.metric_label(metric)
        if learner:  # a metric of the network has none
            head = f"{learner}: {formatting.metric_title(metric)}"
        heads.append(head)
        cells.append(_column([values[metric].get((point, learner)) for point in points["point"]], metric, data))
    axes = data.sweep.axes
    rows = []
    for point, *row in zip(points.to_dict("records"), *cells, strict=True):
        settings = [formatting.format_setting(point[axis]) for axis in axes]
        rows.append([str(point["point"]), *settings, str(point["status"]), *row])
    text = caption("points", data, len(rows), len(columns) - len(shown))
    return page.table(["Point", *axes, "Status", *heads], rows, text)


def _column(values: Sequence[ConfidenceInterval | None], metric: str, data: SweepData) -> list[str]:
    """Return the cells of a metric at points; ``None`` where a point has no value of it."""
    if formatting.is_learned(metric):
        return ["–" if value is None else interval_cell(metric, value, data.replicas) for value in values]
    return formatting.format_column(metric, [interval([]) if value is None else value for value in values])


def task_table(data: SweepData, folder: Path) -> Iterator[Markup]:
    """Yield the unfinished runs with their errors, and links from *folder* to reports of runs."""
    table = data.sweep.tasks
    unfinished = table[table["status"] != "done"]
    if len(unfinished):
        points_of = data.sweep.points.groupby("trace")["point"].apply(list).to_dict()
        rows = []
        for task in unfinished.head(MAX_TASKS).to_dict("records"):
            points = ", ".join(map(str, points_of.get(task["trace"], [])[:MAX_CURVES])) or "none"
            rows.append([task["task"], task["status"], points, task["error"] or "–"])
        text = caption("tasks", len(rows), len(unfinished))
        yield page.table(["Run", "Status", "Points", "Error"], rows, text)
    done = table.loc[table["status"] == "done", "task"]
    yield from page.report_links([(key, data.sweep.run(key).folder) for key in done], folder)


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
                settings = zip(self.panels_by, map(formatting.format_setting, values), strict=True)
                yield ", ".join(f"{axis} = {value}" for axis, value in settings), rows


@dataclass(frozen=True)
class MetricRows:
    """Rows of the summary with one metric; metrics of the network have one learner, without a name."""

    data: SweepData
    metric: str
    learners: list[str]
    rows: pd.DataFrame

    @property
    def label(self) -> str:
        """Label of the metric at the beginning of a sentence."""
        if any(self.learners):
            label = formatting.learning_label(self.metric)
        else:
            label = formatting.metric_label(self.metric)
        return formatting.capitalized(label)

    def add_legend(self, figure: Figure) -> None:
        """Add a legend of the learners, if there are any."""
        if any(self.learners):
            learning_plots.learner_legend(figure, self.learners)


def metric_plots(data: SweepData, metric: str, point: int) -> Iterator[Markup]:
    """Yield all plots of *metric*; axes without room for panels keep their values at *point*."""
    rows = data.summary_of(metric)
    with_values = {*rows["learner"]}
    learners = [name for name in data.learners if name in with_values]
    if not learners and "" in with_values:  # a metric of the network
        learners = [""]
    values = MetricRows(data, metric, learners, rows[rows["learner"].isin(learners)])
    if values.rows.empty or not data.varied:
        return
    if data.random_axes:
        yield scatter_plot(values)
    elif data.free:
        # numeric axes first, and of these the ones with the most values
        numeric = {axis for axis in data.free if sweep_plots.is_numeric(rows[axis])}
        sizes = rows[data.free].nunique()
        axes = sorted(data.free, key=lambda axis: (axis not in numeric, -int(sizes[axis])))
        yield line_plot(values, assign_axes(values, axes, point, MAX_PANELS))
        if len(axes) > 1 and rows[axes[1]].nunique() > 1:
            yield heat_plot(values, assign_axes(values, axes, point, 0), axes[1])


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
    kept = 0 if max_panels else 1  # of a heat map the second axis is vertical
    while len(panels_by) > kept and len(rows[panels_by].drop_duplicates()) > max_panels:
        axis = panels_by.pop()  # the least important
        fixed[axis] = values.data.sweep.points.loc[point, axis]
        rows = rows[rows[axis] == fixed[axis]]
    return AxisRoles(x, tuple(panels_by), fixed, rows)


def line_plot(values: MetricRows, roles: AxisRoles) -> Markup:
    """Return a line for each learner along one axis, a panel for each combination of others."""
    panels = [*roles.panels]
    columns = 2 if len(panels) == 4 else min(3, len(panels))
    figure = _grid_figure(len(panels), columns, panel_height=2.5)
    cells = style.grid_axes(figure, len(panels), columns, sharex=True, sharey=True)
    for (title, rows), ax in zip(panels, cells, strict=True):
        sweep_plots.axis_lines(rows, values.metric, roles.x, learners=values.learners, panels=roles.rows, ax=ax)
        ax.set_title(title, fontsize=8 if len(title) > _LONG_TITLE else None)
    cells[0].autoscale(axis="y")  # all panels share the limits of the first
    sweep_plots.format_value_axis(cells[0], roles.rows, values.metric)
    label = cells[0].get_ylabel()
    for index, ax in enumerate(cells):
        if index + columns < len(panels):
            ax.label_outer(remove_inner_ticks=False)
        else:
            ax.tick_params(labelbottom=True)  # the lowest panel of its column, perhaps above an empty cell
        is_leftmost = index % columns == 0
        ax.set_ylabel(label if is_leftmost else "")
    values.add_legend(figure)
    return page.plot(figure, f"{values.metric}-along", caption("along", values, roles))


def heat_plot(values: MetricRows, roles: AxisRoles, y: str) -> Markup:
    """Return a heat map for each learner over two axes."""
    learners = values.learners[:MAX_MAPS]
    rows = roles.rows[roles.rows["learner"].isin(learners)]
    columns = 2
    width = 9.6
    if len(learners) == 1:
        columns = 1
        width = 7.2
    map_height = 0.5 + 0.42 * max(3, rows[y].nunique())
    figure = page.new_figure(width, 0.5 + math.ceil(len(learners) / columns) * map_height)
    cells = style.grid_axes(figure, len(learners), columns)
    limits = sweep_plots.mean_limits(rows)  # one scale of colours for all maps
    for learner, ax in zip(learners, cells, strict=True):
        of_learner = rows[rows["learner"] == learner]
        sweep_plots.axis_heat(of_learner, values.metric, (roles.x, y), limits=limits, ax=ax).set_title(learner)
    _, label = sweep_plots.si_scale(rows, values.metric)
    figure.colorbar(cells[0].collections[0], ax=cells, label=label, pad=0.02)
    return page.plot(figure, f"{values.metric}-over", caption("over", values, roles, y, len(learners)))


def scatter_plot(values: MetricRows) -> Markup:
    """Return all points against each axis with random values."""
    axes = values.data.random_axes
    columns = min(3, len(axes))
    figure = _grid_figure(len(axes), columns, panel_height=2.6)
    cells = style.grid_axes(figure, len(axes), columns, sharey=True)
    for index, (axis, ax) in enumerate(zip(axes, cells, strict=True)):
        sweep_plots.axis_points(values.rows, values.metric, axis, learners=values.learners, ax=ax)
        if index % columns:  # it shares its y axis with the panel on its left
            ax.set_ylabel("")
    values.add_legend(figure)
    return page.plot(figure, f"{values.metric}-drawn", caption("drawn", values))


def _grid_figure(panels: int, columns: int, *, panel_height: float) -> Figure:
    """Return a figure for a grid of panels; a single one is narrower."""
    if panels < 2:
        return page.new_figure(7.2, 3.3)
    return page.new_figure(9.6, 0.6 + panel_height * math.ceil(panels / columns))
