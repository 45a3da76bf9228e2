"""The pictures of one figure over the axes of a sweep."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from netfl.report import markup, phrases, plots_learning
from netfl.report.sweeps import plots
from netfl.report.sweeps.view import SweepData
from netfl.results import formatting

PANELS = 9
"""So many panels are side by side; of more, other axes keep the values of the best point."""
MAPS = 6
"""So many learners have heat maps."""
_LONG = 30
"""A title of more letters is smaller."""


@dataclass(frozen=True)
class SeriesStyle:
    """How the axes of a sweep are cast for the pictures of one figure.

    Args:
        x: the axis across.
        shown: those that panels stand for.
        fixed: the values of those that keep one.
        rows: of the summary, without what *fixed* leaves out.
    """

    x: str
    shown: tuple[str, ...]
    fixed: dict[str, Any]
    rows: pd.DataFrame

    @property
    def panels(self) -> Iterator[tuple[str, pd.DataFrame]]:
        """What each panel is called, and its rows."""
        for values in product(*(plots.sorted_values(self.rows[axis]) for axis in self.shown)):
            rows = self.rows
            for axis, value in zip(self.shown, values, strict=True):
                rows = rows[rows[axis] == value]
            if len(rows):
                yield axis_title(dict(zip(self.shown, values, strict=True))), rows


def metric_figures(view: SweepData, figure: str, point: int) -> Iterator[str]:
    """All pictures of *figure*.

    Args:
        view: the sweep.
        figure: which figure.
        point: where axes stay for which there is no room.
    """
    rows = view.settled(figure)
    learners = [name for name in (*view.learners, "") if name in {*rows["learner"]}]
    learners = learners[:-1] if len(learners) > 1 and not learners[-1] else learners
    rows = rows[rows["learner"].isin(learners)]
    if rows.empty or not view.varied:
        return
    if view.drawn:
        yield scatter_figure(view, rows, figure, learners)
    if view.free and not view.drawn:
        by_size = sorted(view.free, key=lambda axis: _to_show(rows, axis))
        yield line_figure(view, arrange_axes(rows, by_size, view, point, PANELS), figure, learners)
        if len(by_size) > 1 and rows[by_size[1]].nunique() > 1:
            yield heatmap_figure(view, arrange_axes(rows, by_size, view, point, 0), by_size[1], figure, learners)


def arrange_axes(rows: pd.DataFrame, axes: list[str], view: SweepData, point: int, most: int) -> SeriesStyle:
    """The first of *axes* across, and as many others shown as *most* panels allow; with none, but the first two stay.

    Args:
        rows: of the summary, on one figure.
        axes: that vary by themselves, the one with the most to show first.
        view: the sweep.
        point: whose values the others keep.
        most: how many panels there is room for.
    """
    x, *shown = axes
    fixed: dict[str, Any] = {}
    while shown and _size(rows, shown) > most and not (most == 0 and len(shown) == 1):
        axis = shown.pop()
        fixed[axis] = view.sweep.points.loc[point, axis]
        rows = rows[rows[axis] == fixed[axis]]
    return SeriesStyle(x, tuple(shown), fixed, rows)


def line_figure(view: SweepData, own: SeriesStyle, figure: str, learners: list[str]) -> str:
    """A line for each learner along one axis, a panel for each combination of others."""
    panels = [*own.panels]
    across = 2 if len(panels) == 4 else min(3, len(panels))
    deep = -(-len(panels) // across)

    def paint(canvas: Figure) -> None:
        cells = list(canvas.subplots(deep, across, squeeze=False, sharex=True, sharey=True).flat)
        for ax in cells[len(panels) :]:
            ax.set_axis_off()
        for (title, rows), ax in zip(panels, cells, strict=False):
            plots.lines(rows, figure, own.x, learners=learners, ax=ax)
            ax.set_title(title, fontsize=8 if len(title) > _LONG else None)
        cells[0].autoscale(axis="y")
        plots.format_metric_axis(cells[0], own.rows, figure)
        for index, ax in enumerate(cells[: len(panels)]):
            ax.label_outer(remove_inner_ticks=False) if index + across < len(panels) else None
            ax.set_ylabel("" if index % across else cells[0].get_ylabel())
            if index + across >= len(panels):
                ax.tick_params(labelbottom=True)
        if any(learners):
            plots_learning.learner_legend(canvas, learners, loc="outside upper left", ncols=5)

    shown = f" A panel for each {phrases.join_words(own.shown)}." if own.shown else ""
    caption = f"{_what(figure, learners)} along {own.x}.{shown}{_kept(own)} {_spread(view)}"
    size = (9.6, 0.6 + 2.5 * deep) if len(panels) > 1 else (7.2, 3.3)
    return markup.figure(paint, name=f"{figure}-along", caption=caption, size=size)


def heatmap_figure(view: SweepData, own: SeriesStyle, y: str, figure: str, learners: list[str]) -> str:
    """A heat map for each learner over two axes."""
    maps = learners[:MAPS]
    across = 1 if len(maps) == 1 else 2
    deep = -(-len(maps) // across)
    rows = own.rows[own.rows["learner"].isin(maps)]
    height = 0.5 + 0.42 * max(3, rows[y].nunique())

    def paint(canvas: Figure) -> None:
        cells = list(canvas.subplots(deep, across, squeeze=False).flat)
        for ax in cells[len(maps) :]:
            ax.set_axis_off()
        for learner, ax in zip(maps, cells, strict=False):
            own_rows = rows[rows["learner"] == learner]
            plots.plot_heatmap(own_rows, figure, own.x, y, span=plots.value_range(rows), bar=False, ax=ax)
            ax.set_title(learner)
        label = plots.si_scale(rows, figure)[1]
        canvas.colorbar(cells[0].collections[0], ax=cells[: len(maps)], label=label, pad=0.02)

    more = f" Of {len(learners)} learners the first {MAPS} are shown." if len(learners) > MAPS else ""
    caption = f"{_what(figure, learners)} over {own.x} and {y}, means over replicas.{more}{_kept(own)}"
    size = (9.6 if across > 1 else 7.2, 0.5 + deep * height)
    return markup.figure(paint, name=f"{figure}-over", caption=caption, size=size)


def scatter_figure(view: SweepData, rows: pd.DataFrame, figure: str, learners: list[str]) -> str:
    """All points against each axis whose values are drawn at random."""
    axes = view.drawn
    across = min(3, len(axes))
    deep = -(-len(axes) // across)

    def paint(canvas: Figure) -> None:
        cells = list(canvas.subplots(deep, across, squeeze=False, sharey=True).flat)
        for ax in cells[len(axes) :]:
            ax.set_axis_off()
        for index, (axis, ax) in enumerate(zip(axes, cells, strict=False)):
            plots.lines(rows, figure, axis, learners=learners, joined=False, ax=ax)
            ax.set_ylabel("" if index % across else ax.get_ylabel())
        if any(learners):
            plots_learning.learner_legend(canvas, learners, loc="outside upper left", ncols=5)

    caption = f"{_what(figure, learners)} at all points, against each axis that is drawn; others vary with it. "
    size = (9.6, 0.6 + 2.6 * deep) if len(axes) > 1 else (7.2, 3.3)
    return markup.figure(paint, name=f"{figure}-drawn", caption=caption + _spread(view), size=size)


def axis_title(values: dict[str, Any]) -> str:
    """Values of axes as a title."""
    return ", ".join(f"{axis} = {formatting.format_setting(value)}" for axis, value in values.items())


def _to_show(rows: pd.DataFrame, axis: str) -> tuple[bool, int]:
    """Orders axes: numbers first, and of them the ones with the most values."""
    return not plots.numeric(rows[axis]), -int(rows[axis].nunique())


def _size(rows: pd.DataFrame, axes: list[str]) -> int:
    """How many panels *axes* take."""
    return int(rows[axes].drop_duplicates().shape[0])


def _kept(own: SeriesStyle) -> str:
    """Which axes keep one value."""
    return f" With {axis_title(own.fixed)}, as at the best point." if own.fixed else ""


def _what(figure: str, learners: list[str]) -> str:
    """What is drawn."""
    name = plots_learning.label(figure) if any(learners) else formatting.metric_label(figure)
    return f"{name[0].upper()}{name[1:]}"


def _spread(view: SweepData) -> str:
    """What lines and bands are."""
    if view.replicas == 1:
        return "One replica each: nothing is known of chance."
    return "Means over replicas; bands and bars: their 95 % t-intervals."
