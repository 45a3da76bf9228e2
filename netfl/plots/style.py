"""Style, colours and legends of all plots, and figures as inline SVG or PNG files, without pyplot."""

from __future__ import annotations

import io
import math
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import wraps
from html import escape
from pathlib import Path
from typing import Any, Literal, ParamSpec

import matplotlib.style
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colorbar import Colorbar
from matplotlib.colors import Normalize
from matplotlib.figure import Figure, FigureBase
from matplotlib.legend import Legend
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from matplotlib.text import Text
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator
from numpy.typing import ArrayLike

from netfl.results.atomic_write import atomic_write

Draw = ParamSpec("Draw")

INK = "#010203"
"""Colour of text and axes; an HTML page replaces it with its text colour, light or dark."""

PAPER = "#fefdfc"
"""Background colour; an HTML page replaces it with its own."""

_DARKER = {"#ece133": "#a89500", "#fbafe4": "#8c6bb1"}
"""Substitutes for the yellow and the rose of the palette, which are invisible as lines on a white page."""

PALETTE: tuple[str, ...] = tuple(_DARKER.get(hue, hue) for hue in sns.color_palette("colorblind").as_hex())
"""Seaborn's palette for colour-blind readers, with a darker yellow, and violet in place of rose."""

BLUE, ORANGE, GREEN, RED, PINK, BROWN, VIOLET, GREY, YELLOW, SKY = PALETTE
"""The palette by name; an HTML page replaces blue with its own, brighter on dark pages."""

_DARK = "#262626"
"""Dark colour of text on a coloured cell."""

_EQUAL_CONTRAST = 0.22
"""Luminance of a cell on which white text has the same contrast as dark text."""

_HUES = (BLUE, ORANGE, GREEN, PINK, SKY, GREY, RED, YELLOW, BROWN, VIOLET)
"""Colours of learners."""

_DASHES = ("-", (0, (5, 2)), (0, (1, 1.4)), (0, (6, 2, 1, 2)), (0, (9, 3)), (0, (3, 1.5, 1, 1.5, 1, 1.5)), (0, (2, 2)))
"""Dashes of learners.  The numbers of colours and of dashes share no factor: combinations do not repeat early."""

_STYLE = {
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titlepad": 8,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.8,
    "grid.linewidth": 0.6,
    "grid.alpha": 0.14,
    "legend.frameon": False,
    "lines.linewidth": 1.7,
    "lines.solid_capstyle": "round",
    "figure.constrained_layout.use": True,
    "figure.constrained_layout.h_pad": 0.06,
    "figure.constrained_layout.w_pad": 0.06,
    "image.interpolation": "nearest",
    "text.parse_math": False,
    "svg.fonttype": "none",
    **dict.fromkeys(
        ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color", "grid.color"), INK
    ),
}


@contextmanager
def theme() -> Iterator[None]:
    """Use netfl's style whatever the user's settings are, without warnings of letters that the font lacks."""
    with matplotlib.style.context(["default", _STYLE]), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font", UserWarning)
        yield


def svg(figure: Figure, *, name: str, label: str) -> str:
    """Return a figure as an ``<svg>`` element for an HTML page; the same drawing gives the same text.

    Args:
        figure: drawn and rendered within `theme`.
        name: prefix of every id in the element; unique in its page.
        label: text for screen readers.
    """
    out = io.StringIO()
    with matplotlib.rc_context({"svg.hashsalt": name}):
        no_metadata = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        figure.savefig(out, format="svg", dpi=180, transparent=True, metadata=no_metadata)
    text = out.getvalue()
    text = re.sub(r"<metadata>.*?</metadata>\s*", "", text[text.index("<svg") :], flags=re.DOTALL)
    text = re.sub(r"<[^<>]+>", lambda tag: _themed(tag[0], name), text)
    root, _, rest = text.partition(">")
    root = re.sub(r' (?:width|height)="[^"]*"', "", root).removeprefix("<svg")
    width = f"{figure.get_figwidth():g}in"
    return f'<svg role="img" aria-label="{escape(label)}" style="width: {width}"{root}>{rest}'


def png(paint: Callable[[Figure], object], path: Path, *, size: tuple[float, float]) -> Path:
    """Write a drawing as a PNG file with white background."""
    with theme():
        figure = Figure(figsize=size, facecolor="white")
        paint(figure)
        with atomic_write(path) as part:
            figure.savefig(part, format="png", dpi=150, metadata={"Software": None})
    return path


class PlotFigure(Figure):
    """A figure that a notebook shows by itself, without pyplot."""

    def _repr_png_(self) -> bytes:
        content = io.BytesIO()
        with theme():
            self.savefig(content, format="png", dpi=110)
        return content.getvalue()


def as_figure(draw: Callable[Draw, Axes]) -> Callable[Draw, FigureBase]:
    """Return a plot function that returns the figure in place of the axes."""

    @wraps(draw)
    def draw_figure(*args: Draw.args, **options: Draw.kwargs) -> FigureBase:
        with theme():
            return draw(*args, **options).figure

    draw_figure.__annotations__ = {**draw.__annotations__, "return": "Figure"}
    return draw_figure


def new_axes(ax: Axes | None) -> Axes:
    """Return *ax*, or the axes of a new figure that is not registered with pyplot."""
    if ax is None:
        return PlotFigure(layout="constrained").add_subplot()
    return ax


def grid_axes(figure: Figure, number: int, columns: int = 3, **options: Any) -> list[Axes]:
    """Return *number* axes of a grid; the rest of the grid stays empty."""
    cells = list(figure.subplots(-(-number // columns), columns, squeeze=False, **options).flat)
    for ax in cells[number:]:
        ax.set_axis_off()
    return cells[:number]


class LogTicks(LogLocator):
    """Ticks at 1, 2 and 5, at more multiples on an axis of less than two decades, and at powers of 10 on a long one."""

    def tick_values(self, vmin: float, vmax: float) -> Sequence[float]:
        ratio = vmax / vmin if vmin > 0.0 else math.inf
        multiples: tuple[float, ...] = (1.0, 2.0, 5.0)
        if ratio < 1e2:
            multiples = (1.0, 1.5, 2.0, 3.0, 5.0, 7.0)
        elif ratio > 1e4:
            multiples = (1.0,)
        self.set_params(subs=multiples)
        return super().tick_values(vmin, vmax)


def set_logarithmic(ax: Axes, which: Literal["x", "y"]) -> None:
    """Make an axis logarithmic, with the ticks of `LogTicks` in plain numbers."""
    ax.set(**{f"{which}scale": "log"})
    axis = ax.xaxis if which == "x" else ax.yaxis
    axis.set_major_locator(LogTicks(numticks=10))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_locator(NullLocator())


def line_styles(names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return colour, dashes and z-order for each name; lines that coincide show in each other's gaps."""
    styles = {}
    for index, name in enumerate(names):
        hue = _HUES[index % len(_HUES)]
        level = index % len(_DASHES)
        styles[name] = {"color": hue, "linestyle": _DASHES[level], "zorder": 2.0 + 0.01 * level}
    return styles


def mean_curve(ax: Axes, rows: pd.DataFrame, line: Mapping[str, Any], curves: int) -> None:
    """Draw mean over at, and a band from low to high, which is fainter the more *curves* there are.

    Where the columns ``low_cut`` and ``high_cut`` of *rows* state that the band is cut, its edge is thick; a curve
    whose points have markers has a triangle there.
    """
    band = min(0.18, 0.6 / max(1, curves))
    ax.fill_between(rows["at"], rows["low"], rows["high"], color=line["color"], alpha=band, lw=0)
    if "marker" in line:
        _mark_cut_ends(ax, rows, line["color"])
    else:
        _draw_cut_edges(ax, rows, line["color"])
    ax.plot(rows["at"], rows["mean"], **line)


def error_bars(ax: Axes, rows: pd.DataFrame, line: Mapping[str, Any]) -> None:
    """Draw mean over at with bars from low to high; a triangle marks an end that is cut, see `mean_curve`."""
    reach = [rows["mean"] - rows["low"], rows["high"] - rows["mean"]]
    ax.errorbar(rows["at"], rows["mean"], reach, **line)
    _mark_cut_ends(ax, rows, line["color"])


def _draw_cut_edges(ax: Axes, rows: pd.DataFrame, color: str) -> None:
    """Draw a thick edge where a band is cut."""
    for end in ("low", "high"):
        edge = rows[end].where(rows[f"{end}_cut"])
        if edge.notna().any():
            thick: dict[str, Any] = {"linestyle": "-", "linewidth": 1.8, "marker": "_", "markersize": 4}
            ax.plot(rows["at"], edge, color=color, clip_on=False, **thick)


def _mark_cut_ends(ax: Axes, rows: pd.DataFrame, color: str) -> None:
    """Draw a triangle at each end of an interval that is cut."""
    for end, marker in (("low", "v"), ("high", "^")):
        cut = rows[rows[f"{end}_cut"]]
        if len(cut):
            mark: dict[str, Any] = {"linestyle": "none", "marker": marker, "markersize": 5, "clip_on": False}
            ax.plot(cut["at"], cut[end], color=color, **mark)


def final_dot(ax: Axes, at: float, value: float, color: str) -> None:
    """Draw a dot at a final value."""
    edge: dict[str, Any] = {"markeredgecolor": PAPER, "markeredgewidth": 0.8}
    ax.plot(at, value, "o", color=color, markersize=6, clip_on=False, zorder=4, **edge)


class TopNorm(Normalize):
    """Colours that differ most near the highest value, c = 1 - √((high - v) / (high - low)), between values shown.

    Accuracies are often close to 100 % but for a few classes or users; on an even scale all of these look alike.
    """

    def __call__(self, value: Any, clip: bool | None = None) -> Any:
        values, _ = self.process_value(value)
        low, high = self._limits
        return np.ma.asarray(1.0 - np.sqrt(np.ma.clip((high - values) / (high - low), 0.0, 1.0)))

    def inverse(self, value: Any) -> Any:
        """Return the values of colours."""
        low, high = self._limits
        return high - (high - low) * (1.0 - np.asarray(value)) ** 2

    @property
    def _limits(self) -> tuple[float, float]:
        """The values at both ends, which are never equal."""
        low = float(self.vmin or 0.0)
        high = float(self.vmax or 0.0)
        if high > low:
            return low, high
        return low - 1.0, low


def percent_norm(values: ArrayLike) -> TopNorm:
    """Return the scale of colours of shares in percent: over all *values* that are shown, NaN left out."""
    shown = np.asarray(values, float)
    shown = shown[np.isfinite(shown)]
    if not shown.size:
        return TopNorm(0.0, 100.0)
    return TopNorm(shown.min(), shown.max())


def percent_bar(ax: Axes, mappable: ScalarMappable, label: str, **options: Any) -> Colorbar:
    """Add a bar of the colours of `percent_norm`, whose label says that they cover the values shown."""
    bar = ax.figure.colorbar(mappable, ax=ax, label=f"{label} (%)\ncolours: values shown", **options)
    norm: Any = mappable.norm  # matplotlib types it as one without an inverse
    ticks = norm.inverse(np.linspace(0.0, 1.0, 5))
    bar.set_ticks(ticks, labels=[f"{tick:.3g}" for tick in ticks])
    bar.minorticks_off()
    return bar


def heat_map(table: pd.DataFrame, *, ax: Axes, max_cells: int, **options: Any) -> None:
    """Draw a table as a heat map, with its numbers in up to *max_cells* cells."""
    has_numbers = table.size <= max_cells
    gap = 1.5 if has_numbers else 0.0  # many small cells have no room for gaps
    sns.heatmap(table, ax=ax, annot=has_numbers, cmap="cividis", linewidths=gap, linecolor=PAPER, **options)
    if has_numbers:
        _set_number_colors(ax)
    ax.grid(visible=False)
    ax.tick_params(length=0)


def _set_number_colors(ax: Axes) -> None:
    """Write each number in black or white, whichever has more contrast to its cell; seaborn writes white too often."""
    mesh: Any = ax.collections[0]
    mesh.update_scalarmappable()
    colors = mesh.get_facecolor()[~np.ma.getmaskarray(mesh.get_array()).ravel()]  # masked cells have no number
    for text, color in zip(ax.texts, colors, strict=True):
        is_bright = sns.utils.relative_luminance(color) > _EQUAL_CONTRAST
        text.set_color(_DARK if is_bright else "white")


def mark_rare(labels: Iterable[Text], is_rare: Iterable[bool]) -> None:
    """Make the labels of rare classes, or of users that hold one, bold and coloured."""
    for text, rare in zip(labels, is_rare, strict=False):
        if rare:
            text.set(color=RED, fontweight="bold")


def add_legend(
    parent: Axes | FigureBase, handles: Sequence[Artist], names: Sequence[str], **options: Any
) -> Legend | None:
    """Add a legend that shows *names* literally, whatever characters they begin with."""
    if not handles:
        return None
    # matplotlib drops labels that start with an underscore, so the texts are set afterwards
    legend: Legend = parent.legend(list(handles), [f"{index}" for index in range(len(handles))], **options)
    for text, name in zip(legend.get_texts(), names, strict=True):
        text.set_text(name)
    return legend


def line_legend(parent: Axes | FigureBase, styles: Mapping[str, Mapping[str, Any]], **options: Any) -> None:
    """Add a legend of lines, from `line_styles`."""
    lines = [Line2D([], [], **{"linewidth": 2.2, **style}) for style in styles.values()]
    add_legend(parent, lines, list(styles), **{"handlelength": 3.0, **options})


def box_legend(ax: Axes, colours: Mapping[str, str], **options: Any) -> None:
    """Add a legend of colours by name."""
    boxes = [Rectangle((0, 0), 1, 1, color=hue) for hue in colours.values()]
    add_legend(ax, boxes, list(colours), **options)


def without_legend(ax: Axes) -> Axes:
    """Return *ax* without its legend."""
    legend = ax.get_legend()
    if legend is not None:
        legend.remove()
    return ax


def _themed(tag: str, name: str) -> str:
    """Return an SVG tag with the colours of the page, and with ids that begin with *name*."""
    tag = tag.replace(INK, "currentColor").replace(PAPER, "var(--card)").replace(BLUE, "var(--blue)")
    return re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{name}-", tag)
