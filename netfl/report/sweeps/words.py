"""What a sweep shows, in sentences: plain text, and no more certain than the replicas allow."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from netfl.report.phrases import format_count, format_points, format_signed, join_words, percent, replicas
from netfl.report.sweeps.contest import ALIKE, PointRanking, rank_learners
from netfl.report.sweeps.plots import numeric, sorted_values
from netfl.report.sweeps.view import METRICS, SweepData
from netfl.results import formatting
from netfl.results.formatting import metric_cell
from netfl.results.statistics import FINAL, LAST_TENTH, metric_of, name_spread

_VALUES = 6
"""So many values of an axis are named; of more, the first and the last."""


def summary(view: SweepData) -> list[str]:
    """The sentences at the top of the page."""
    told = [*varied_axes(view), *missing(view), *diverged(view)]
    for metric in view.metrics[1::-1]:  # the rare classes first, as they are what selection harms
        told += verdict(rank_learners(view, metric), metric)
    return told if view.metrics else [*told, *network(view)]


def sweep_facts(view: SweepData) -> str:
    """The sweep in one line."""
    number, tasks = len(view.sweep.points), len(view.sweep.tasks)
    parts = [f"{format_count(number)} point{'s' * (number != 1)}", replicas(view.replicas) + " each"]
    seed = view.said.get("seed")
    done = [] if seed is None or "seed" in view.varied else [f"seed {seed}"]
    return " · ".join([*parts, f"{format_count(tasks)} run{'s' * (tasks != 1)}", *done])


def varied_axes(view: SweepData) -> Iterator[str]:
    """What varies."""
    if not view.varied:
        yield "Nothing varies: there is one value of each axis."
        return
    told = [_axis(view, axis) for axis in (*view.free, *view.drawn)]
    how = "every combination that is not left out" if len(view.free) > 1 and not view.drawn else ""
    drawn = f"{join_words(view.drawn)} {'is' if len(view.drawn) == 1 else 'are'} drawn at random" if view.drawn else ""
    yield "; ".join([f"What varies: {', '.join(told)}", *filter(None, [how, drawn])]) + "."


def _axis(view: SweepData, axis: str) -> str:
    """An axis with its values."""
    values = sorted_values(view.sweep.points[axis])
    named = [formatting.format_setting(value) for value in values]
    if len(named) > _VALUES:
        ends = f"from {named[0]} to {named[-1]}" if numeric(view.sweep.points[axis]) else f"{named[0]} and others"
        told = f"{len(named)} values {ends}"
    else:
        told = join_words(named)
    beside = f", and with it {join_words(view.bound[axis])}" if axis in view.bound else ""
    return f"{axis} ({told}{beside})"


def missing(view: SweepData) -> Iterator[str]:
    """What is not there, and why."""
    states = view.sweep.points["status"].value_counts()
    whole, number = int(states.get("done", 0)), len(view.sweep.points)
    if whole == number:
        yield "All points are done." if number > 1 else "The point is done."
    else:
        parts = [f"{format_count(int(states[name]))} {name}" for name in ("partial", "missing") if name in states]
        yield (
            f"Not all points are done: {format_count(whole)} of {format_count(number)}, {join_words(parts)}. "
            "The netfl sweep command that began it goes on with what is missing."
        )
    failed = view.sweep.tasks[view.sweep.tasks["status"] == "failed"]
    if len(failed):
        errors = failed["error"].drop_duplicates()
        more = f" (and {len(errors) - 1} other errors, below)" if len(errors) > 1 else ""
        which = "1 run" if len(failed) == 1 else f"{format_count(len(failed))} runs"
        yield f"{which} failed and will be tried again: {errors.iloc[0].splitlines()[0]}{more}"


def diverged(view: SweepData) -> Iterator[str]:
    """Where training ended in no figures."""
    values = view.sweep.figures
    lost = values[values["figure"].map(metric_of).isin(view.metrics) & ~np.isfinite(values["value"])]
    told = []
    for learner, rows in lost.groupby("learner", sort=False):
        number = rows["point"].nunique()
        told.append(f"{learner} at {format_count(number)} point{'s' * (number != 1)}")
    if told:
        yield (
            f"Training diverged in some replicas of {join_words(told)}: their means are over the other replicas, and "
            "they are not ranked."
        )


def verdict(found: PointRanking, metric: str) -> Iterator[str]:
    """Who ended best on one metric, where, and whether that is beyond chance."""
    if not found.whole:
        return
    best, *rest = found.whole
    mean, what = best.mean, METRICS[metric]
    value = metric_cell("accuracy", mean.mean, mean.half)
    spread = "" if mean.clear is None else f"; {name_spread(mean.replicas)}"
    yield (
        f"{what[0].upper()}{what[1:]}: {best.name} ends highest, at {value} % ({FINAL[LAST_TENTH]}{spread})."
        f"{_gap(found) if rest else ''}"
    )
    if len(rest) > 1 and best.mean.replicas > 1:
        flatters = " As the highest of many means, it is likely to flatter a little." if found.gap.mean else ""
        yield (
            f"Of the other {len(rest)} results on {what}, {found.behind or 'none'} "
            f"{'is' if found.behind == 1 else 'are'} below that beyond chance (paired replicas, 95 % for all "
            f"comparisons together).{flatters}"
        )
    if found.others:
        number = len(found.others)
        told = "1 result is" if number == 1 else f"{number} results are"
        yield f"{told} not ranked on {what}: replicas are missing or diverged."


def _gap(found: PointRanking) -> str:
    """How far the best is ahead of the next."""
    best, second, *_ = found.whole
    gap = found.gap
    if gap.mean == 0.0:
        ties = sum(one.mean.mean == best.mean.mean for one in found.whole) - 1
        more = f" and {ties - 1} more" if ties > 1 else ""
        return f" So does {second.name}{more}."
    ahead = f" Next is {second.name} with {percent(second.mean.mean)}, {format_points(gap.mean)} below"
    if gap.clear is None:
        return f"{ahead}; a single replica cannot tell how much of that is chance."
    if gap.half < ALIKE:
        return f"{ahead} in each of {gap.replicas} replicas, which are too few and too alike to tell of chance."
    low, high = max(-100.0, 100 * (gap.mean - gap.half)), min(100.0, 100 * (gap.mean + gap.half))
    bounds = f"95 % interval {format_signed(low)} to {format_signed(high)} over {gap.replicas} paired replicas"
    return f"{ahead}, beyond chance ({bounds})." if gap.clear else f"{ahead}, which is within the noise ({bounds})."


def network(view: SweepData) -> Iterator[str]:
    """Between what the network's figures lie, where nobody learns."""
    if view.sweep.summary.empty:
        yield "There are no figures yet."
        return
    yield "Nothing was learned in this sweep: it traces who is heard."
    axes = [*view.free, *view.drawn]
    for figure in view.network:
        rows = view.settled(figure)
        low, high = rows.iloc[int(rows["mean"].argmin())], rows.iloc[int(rows["mean"].argmax())]
        name = formatting.metric_label(figure)
        title = f"{name[0].upper()}{name[1:]}"
        if low["mean"] == high["mean"] or len(rows) < 2:
            yield f"{title}: {formatting.format_metric(figure, high['mean'])} at every point."
            continue
        ends = [
            f"{formatting.format_metric(figure, one['mean'], one['half'])} at {view.place(axes, one['point'])}"
            for one in (low, high)
        ]
        yield f"{title}: from {ends[0]} to {ends[1]}."
