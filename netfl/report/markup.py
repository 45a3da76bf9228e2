"""The parts of a page: paragraphs, tables, figures and chapters, with all text escaped."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from urllib.parse import quote

from netfl.report import canvas


@dataclass(frozen=True, slots=True)
class Chapter:
    """One part of the report.

    Args:
        key: its anchor.
        title: its heading, plain text.
        parts: what it holds, as HTML.
    """

    key: str
    title: str
    parts: tuple[str, ...]

    def __str__(self) -> str:
        return f'<section id="{self.key}">\n<h2>{text(self.title)}</h2>\n' + "\n".join(self.parts) + "\n</section>"


def text(value: object) -> str:
    """*value* as text of a page, harmless whatever it says; a percent sign stays with its figure.

    >>> text("<script>")
    '&lt;script&gt;'
    """
    return html.escape(str(value), quote=True).replace(" %", "\u00a0%")


def paragraph(sentences: Iterable[str], kind: str = "") -> str:
    """A paragraph of plain text."""
    return f"<p{_class(kind)}>{text(' '.join(sentences))}</p>"


def bullets(sentences: Iterable[str], kind: str = "") -> str:
    """A list of plain sentences."""
    return f"<ul{_class(kind)}>" + "".join(f"<li>{text(one)}</li>" for one in sentences) + "</ul>"


def figure(paint: canvas.Paint, *, name: str, caption: str, size: tuple[float, float]) -> str:
    """A picture with its caption, which is also what a screen reader says."""
    drawn = canvas.svg(paint, name=name, label=caption, size=size)
    area = _scrolled(drawn, "drawing", f"Plot: {_first_sentence(caption)}")
    return f"<figure>{area}<figcaption>{text(caption)}</figcaption></figure>"


def table(
    head: Sequence[str],
    rows: Iterable[Sequence[str]],
    caption: str = "",
    best: frozenset[tuple[int, int]] = frozenset(),
) -> str:
    """A table whose first column names its rows.

    Args:
        head: names of the columns.
        rows: the cells, plain text.
        caption: what it shows.
        best: (row, column) of the cells to set in bold.
    """
    top = "".join(f'<th scope="col">{text(cell)}</th>' for cell in head)
    body = ""
    for y, (name, *cells) in enumerate(rows):
        told = "".join(_cell(cell, "best" if (y, x) in best else "") for x, cell in enumerate(cells, 1))
        body += f'<tr><th scope="row">{text(name)}</th>{told}</tr>\n'
    said = f"<figcaption>{text(caption)}</figcaption>" if caption else ""
    whole = f"<table><thead><tr>{top}</tr></thead>\n<tbody>{body}</tbody></table>"
    area = _scrolled(whole, "scroll", f"Table: {_first_sentence(caption) or ', '.join(head)}")
    return f"<figure>{area}{said}</figure>"


def _cell(cell: str, kind: str) -> str:
    """A cell, with a figure's interval, or further lines, below the figure."""
    figure, *more = cell.replace(" ± ", "\n± ").split("\n")
    below = "".join(f"<small>{text(line)}</small>" for line in more)
    return f"<td{_class(kind)}>{text(figure)}{below}</td>"


def links(said: str, targets: Iterable[tuple[str, str]]) -> str:
    """A paragraph of links to files.

    Args:
        said: what they are.
        targets: the name of each, and its path relative to the page.
    """
    told = ", ".join(f'<a href="{text(quote(path))}">{text(name)}</a>' for name, path in targets)
    return f"<p>{text(said)} {told}</p>"


def details_block(title: str, content: str) -> str:
    """Preformatted text that opens on a click."""
    area = f'<pre tabindex="0" role="region" aria-label="{text(title)}">{text(content)}</pre>'
    return f"<details><summary>{text(title)}</summary>{area}</details>"


def _scrolled(content: str, kind: str, label: str) -> str:
    """An area that scrolls sideways on narrow screens; as it can have the focus, keys scroll it, too."""
    return f'<div class="{kind}" tabindex="0" role="region" aria-label="{text(label)}">{content}</div>'


def _first_sentence(caption: str) -> str:
    """The first sentence of a caption, without its full stop."""
    return caption.partition(". ")[0].removesuffix(".")


def _class(kind: str) -> str:
    """A class attribute, where there is one."""
    return f' class="{kind}"' if kind else ""
