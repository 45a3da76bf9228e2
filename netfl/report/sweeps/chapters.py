"""The chapters of a sweep's page."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pyarrow.dataset as ds
from matplotlib.figure import Figure

from netfl.report import chapters_learning, markup, phrases, plots_learning
from netfl.report.markup import Chapter
from netfl.report.sweeps import pictures
from netfl.report.sweeps.contest import PointRanking, RankedPoint, paired_lead, rank_learners, ranking_entries
from netfl.report.sweeps.view import METRICS, SweepData
from netfl.results import formatting
from netfl.results.statistics import FINAL, LAST_TENTH, ConfidenceInterval, interval, mean_sentence, name_spread

POINTS = 300
"""More points than this are not all in the table."""
COLUMNS = 12
"""More figures than this are not all in the table."""
LINES = 8
"""So many curves share a panel."""
TASKS = 100
"""More runs than this are not all named."""


def chapters(view: SweepData, at: Path) -> Iterator[Chapter]:
    """All chapters that the sweep has tables for.

    Args:
        view: the sweep.
        at: the folder in which the page will be.
    """
    for figure in view.metrics or view.network:
        found = rank_learners(view, figure)
        point = found.whole[0].points[0] if found.whole else 0
        parts = (*pictures.metric_figures(view, figure, point), *(best_points(found) if view.metrics else ()))
        name = plots_learning.label(figure) if view.metrics else formatting.metric_label(figure)
        if parts and (view.metrics or view.settled(figure)["mean"].nunique() > 1):
            yield Chapter(figure, f"{name[0].upper()}{name[1:]}", parts)
    drawn = tuple(curves(view))
    if drawn:
        yield Chapter("curves", "Learning curves", drawn)
    yield Chapter("points", "All points", (points(view),))
    done = tuple(tasks(view, at))
    if done:
        yield Chapter("tasks", "Runs", done)


def best_points(found: PointRanking) -> Iterator[str]:
    """Where each learner ends best."""
    learners = list(dict.fromkeys(one.learner for one in found.whole))
    if len(found.whole) < 2:
        return
    rows = []
    for learner in learners:
        one = found.of(learner)[0]
        behind = "–" if one is found.whole[0] else _points(interval(paired_lead(found.whole[0], one)))
        where = one.name.removeprefix(f"{learner} at ") if one.name != learner else "the same everywhere"
        rows.append([learner, where, chapters_learning.cell(one.mean, "accuracy", one.mean.replicas), behind])
    caption = (
        "The setting at which each learner ends highest, in percent, and how far that is below the highest of all, in "
        f"points, by replica. Each value is the {FINAL[LAST_TENTH]}; {name_spread(found.whole[0].mean.replicas)}."
    )
    yield markup.table(["Learner", "Best setting", "Ends at", "Below the highest"], rows, caption)


def curves(view: SweepData) -> Iterator[str]:
    """The learning curves of all results, where they are few, else of each learner's highest."""
    metrics = [metric for metric in view.metrics if metric != "accuracy_users_worst10"]
    if not metrics:
        return
    every = ranking_entries(view, metrics[-1])
    few = len(every) <= LINES
    groups = {"": every} if few else {name: [one for one in every if one.learner == name] for name in view.learners}
    table = _evaluations(view, metrics)
    for number, (learner, own) in enumerate(groups.items()):
        shown = sorted(own, key=lambda one: -one.mean.mean if one.mean.replicas else math.inf)[:LINES]
        shown = [one for one in own if one in shown]
        if len(own) == 1 and not few:
            continue
        more = f" Of {len(own)} settings the {LINES} that end highest." if len(own) > LINES else ""
        yield _courses(table, metrics, shown, f"curves-{number}", f"{learner}.{more} " if learner else "", view)


def _courses(
    table: pd.DataFrame, metrics: list[str], shown: list[RankedPoint], name: str, head: str, view: SweepData
) -> str:
    """The curves of some results."""
    own = [table[(table["point"] == one.points[0]) & (table["learner"] == one.learner)] for one in shown]
    names = [one.name.removeprefix(f"{one.learner} at ") if head else one.name for one in shown]
    rows = pd.concat([part.assign(learner=told) for part, told in zip(own, names, strict=True)])

    def paint(figure: Figure) -> None:
        cells = figure.subplots(1, len(metrics), squeeze=False)[0]
        for metric, ax in zip(metrics, cells, strict=True):
            plots_learning.curves(rows, metric, learners=names, ax=ax)
        plots_learning.learner_legend(figure, names, loc="outside upper left", ncols=2, fontsize=8)

    bands = "; bands: their 95 % t-intervals" if view.replicas > 1 else ""
    caption = f"{head}Means over replicas against rounds{bands}. Points that are the same to a learner are one line."
    return markup.figure(paint, name=name, caption=caption, size=(9.6, 2.9 + 0.1 * len(names)))


def _evaluations(view: SweepData, metrics: list[str]) -> pd.DataFrame:
    """All evaluations of *metrics*, of which only what is drawn is read."""
    wanted = ds.field("metric") == metrics[0]
    for metric in metrics[1:]:
        wanted |= ds.field("metric") == metric
    columns = ["round", "time_s", "metric", "group", "value"]
    table = view.sweep.table("metrics", columns, wanted & (ds.field("group") == ""))
    return table.astype({"metric": str, "group": str})


def points(view: SweepData) -> str:
    """All points with their figures."""
    table, axes = view.sweep.points.head(POINTS), view.sweep.axes
    names = view.learners if view.metrics else [""]
    wanted = [(name, figure) for figure in view.metrics or view.network for name in names]
    shown = {figure: view.ends(figure) for figure in view.metrics or view.network}
    wanted = [(name, figure) for name, figure in wanted if any(who == name for _, who in shown[figure])]
    rows = []
    for number, point in zip(table["point"].tolist(), table.to_dict("records"), strict=True):
        cells = [_cell(shown[figure].get((number, name)), figure, view) for name, figure in wanted[:COLUMNS]]
        rows.append(
            [str(number), *(formatting.format_setting(point[axis]) for axis in axes), str(point["status"]), *cells]
        )
    heads = [f"{who}: {formatting.METRICS[one]}" if who else formatting.metric_label(one) for who, one in wanted]
    more = (
        f" The first {POINTS} of {phrases.format_count(len(view.sweep.points))}."
        if len(view.sweep.points) > POINTS
        else ""
    )
    few = f" {len(wanted) - COLUMNS} more figures are left out." if len(wanted) > COLUMNS else ""
    rest = f" netfl.open_sweep({str(view.sweep.folder)!r}).summary has all." if more or few else ""
    what = f"Each value is the {FINAL[LAST_TENTH]}, accuracies in percent. " if view.metrics else ""
    caption = f"{what}{mean_sentence(view.replicas)}{more}{few}{rest}"
    return markup.table(["Point", *axes, "Status", *heads[:COLUMNS]], rows, caption)


def tasks(view: SweepData, at: Path) -> Iterator[str]:
    """The runs that are not done, and why, and the reports of those that have one."""
    table = view.sweep.tasks
    open_ = table[table["status"] != "done"]
    if len(open_):
        at_points = view.sweep.points.groupby("trace")["point"].apply(list).to_dict()
        rows = []
        for task in open_.head(TASKS).to_dict("records"):
            where = ", ".join(map(str, at_points.get(task["trace"], [])[:LINES])) or "none that is asked for"
            rows.append([task["task"], task["status"], where, task["error"] or "–"])
        more = f" The first {TASKS} of {len(open_)}." if len(open_) > TASKS else ""
        caption = f"Runs that are not done, and the points that they belong to.{more}"
        yield markup.table(["Run", "Status", "Points", "Error"], rows, caption)
    links: list[tuple[str, str]] = []
    for key in table.loc[table["status"] == "done", "task"]:
        page = view.sweep.run(key).folder / "report.html"
        if page.is_file() and len(links) < TASKS:
            links.append((key, Path(os.path.relpath(page.resolve(), at.resolve())).as_posix()))
    if links:
        yield markup.links("Reports of their own:", links)


def _cell(found: ConfidenceInterval | None, figure: str, view: SweepData) -> str:
    """A figure of a point with its interval."""
    if found is None:
        return "–"
    if figure in METRICS:
        return chapters_learning.cell(found, figure, view.replicas)
    return formatting.format_metric(figure, found.mean, found.half)


def _points(gap: ConfidenceInterval) -> str:
    """A difference in percentage points."""
    return f"{100 * gap.mean:.1f}" + ("" if gap.clear is None else f" ± {100 * gap.half:.1f}")
