"""Figures without pyplot: their style, their colours, and how they become inline SVG or a PNG file."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path
from typing import Any, Literal

import matplotlib.style
import seaborn as sns
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure, FigureBase
from matplotlib.legend import Legend
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from netfl.results.atomic_write import atomic_write

INK = "#010203"
"""The colour of text and axes; on the page it becomes the page's own text colour, light or dark."""

PAPER = "#fefdfc"
"""The colour behind a figure; on the page it becomes the page's own."""

PALETTE: tuple[str, ...] = tuple(sns.color_palette("colorblind").as_hex())
"""Seaborn's colours for colour-blind readers."""

BLUE, ORANGE, GREEN, RED, PINK, BROWN, ROSE, GREY, YELLOW, SKY = PALETTE

"""The palette by name; on the page blue becomes the page's own, which dark pages have brighter."""

_HUES = (BLUE, ORANGE, GREEN, PINK, SKY, GREY, RED, YELLOW, BROWN, ROSE)
_DASHES = ("-", (0, (5, 2)), (0, (1, 1.4)), (0, (6, 2, 1, 2)), (0, (9, 3)), (0, (3, 1.5, 1, 1.5, 1, 1.5)), (0, (2, 2)))
"""The strokes of learners: the first so many colours are the farthest apart; as many styles as share no factor."""

Paint = Callable[[Figure], object]
"""Draws on an empty figure."""

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


def svg(paint: Paint, *, name: str, label: str, size: tuple[float, float]) -> str:
    """What *paint* draws, as an ``<svg>`` element to set into a page.

    The same drawing gives the same text.

    Args:
        paint: draws on the figure that it is given.
        name: prefix of every id in the element; unique in its page.
        label: what a screen reader says.
        size: width and height in inches.
    """
    out = io.StringIO()
    nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    with _style({"svg.hashsalt": name}), _quiet():
        figure = Figure(figsize=size, facecolor="none")
        paint(figure)
        figure.savefig(out, format="svg", dpi=180, transparent=True, metadata=nothing)
    text = out.getvalue()
    text = re.sub(r"<metadata>.*?</metadata>\s*", "", text[text.index("<svg") :], flags=re.DOTALL)
    text = re.sub(r"<[^<>]+>", lambda tag: _themed(tag[0], name), text)
    root, _, rest = text.partition(">")
    root = re.sub(r' (?:width|height)="[^"]*"', "", root).removeprefix("<svg")
    return f'<svg role="img" aria-label="{_attribute(label)}" style="width: {size[0]:g}in"{root}>{rest}'


def png(paint: Paint, path: Path, *, size: tuple[float, float], dpi: int = 150) -> Path:
    """Write what *paint* draws as a PNG file on white."""
    with _style({}), _quiet():
        figure = Figure(figsize=size, facecolor="white")
        paint(figure)
        with atomic_write(path) as part:
            figure.savefig(part, format="png", dpi=dpi, metadata={"Software": None})
    return path


def axes(ax: Axes | None) -> Axes:
    """*ax*, or the axes of a new figure that no registry holds."""
    return Figure(layout="constrained").add_subplot() if ax is None else ax


def logarithmic(ax: Axes, which: Literal["x", "y"]) -> None:
    """Make an axis logarithmic, with ticks at 1, 2 and 5 that read as plain numbers."""
    ax.set(**{f"{which}scale": "log"})
    axis = ax.xaxis if which == "x" else ax.yaxis
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0), numticks=10))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_locator(NullLocator())


def line_styles(names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Colour, line style and level for each name, in order: gaps of a line show those that it lies on."""
    styles = cycle(enumerate(_DASHES))
    return {
        name: {"color": hue, "linestyle": dashes, "zorder": 2.0 + 0.01 * level}
        for name, hue, (level, dashes) in zip(names, cycle(_HUES), styles)
    }


def colours(names: Sequence[str]) -> dict[str, str]:
    """The colour alone of each name."""
    return {name: stroke["color"] for name, stroke in line_styles(names).items()}


def legend(place: Axes | FigureBase, handles: Sequence[Artist], names: Sequence[str], **where: Any) -> Legend | None:
    """A legend that shows *names* as they are, whatever characters they begin with."""
    if not handles:
        return None
    # matplotlib drops labels that start with an underscore, so the texts are set afterwards
    made: Legend = place.legend(list(handles), [f"{index}" for index in range(len(handles))], **where)
    for text, name in zip(made.get_texts(), names, strict=True):
        text.set_text(name)
    return made


def without_legend(ax: Axes) -> Axes:
    """*ax* without its legend, where a neighbour shows it."""
    shown = ax.get_legend()
    if shown is not None:
        shown.remove()
    return ax


@contextmanager
def _style(more: dict[str, object]) -> Iterator[None]:
    """Matplotlib's defaults and our style, whatever the user's own settings are."""
    with matplotlib.style.context(["default", {**_STYLE, **more}]):
        yield


@contextmanager
def _quiet() -> Iterator[None]:
    """Without warnings of letters that the font does not have: a reader's browser has them."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font", UserWarning)
        yield


def _themed(tag: str, name: str) -> str:
    """An SVG tag with the page's colours and with ids of its own."""
    tag = tag.replace(INK, "currentColor").replace(PAPER, "var(--card)").replace(BLUE, "var(--blue)")
    return re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{name}-", tag)


def _attribute(text: str) -> str:
    """*text* for use between double quotes."""
    return text.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;").replace(">", "&gt;")
