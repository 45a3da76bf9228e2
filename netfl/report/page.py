"""HTML pages from Jinja2 templates: one file that needs no other, with inline SVG and no network access."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from matplotlib.figure import Figure

from netfl.core.remedies import argument
from netfl.errors import Fault, ScenarioError
from netfl.plots import style
from netfl.results import formatting, statistics
from netfl.results.atomic_write import write_text
from netfl.results.metrics import find_metric

MARK = '<meta name="generator" content="netfl">'
"""Element by which pages of netfl are recognised."""

_INTERVAL = re.compile(r" (?=± |\[[-+\d][^\]]*\].* \(n = |\(n = )")
"""Space before the interval of a value, and before its number of replicas."""

_COUNT = re.compile(r"\bn = (?=\d)")

MAX_LINKS = 100
"""Maximum number of links to reports of runs."""


@dataclass(frozen=True, slots=True)
class Section:
    """One part of a page: its anchor, its heading, and its content from the functions of this module.

    Pages leave out sections without content.
    """

    key: str
    title: str
    parts: Sequence[Markup]


@dataclass(frozen=True, slots=True)
class Page:
    """A report.

    Args:
        title: the heading.
        status: state of the run in a word or two.
        is_done: nothing is missing.
        summary: the sentences at the top.
        sections: the content.
        scenarios: texts that fold open at the end, by title.
        description: the description in the scenario.
        facts: the run in one line.
        style: style sheet in addition to that of all pages.
        script_policy: sources of scripts in the content security policy.
    """

    title: str
    status: str
    is_done: bool
    summary: Sequence[str]
    sections: Sequence[Section]
    scenarios: Mapping[str, str]
    description: str = ""
    facts: str = ""
    style: str = ""
    script_policy: str = "'none'"

    def html(self) -> str:
        """Return the page as HTML."""
        return render("page.html", page=self, bullets=bullets)

    def write(self, path: Path) -> Path:
        """Write the page to *path*; see `check_target`."""
        write_text(path, self.html())
        return path


def page_path(path: Path) -> Path:
    """Return the file of a page: *path*, with the ending ``.html`` if it has none, so that browsers open it.

    >>> page_path(Path("cmp")).name, page_path(Path("cmp.htm")).name
    ('cmp.html', 'cmp.htm')
    """
    if path.suffix or path.is_dir():  # a folder is refused by `check_target`
        return path
    return path.with_name(f"{path.name}.html")


def check_target(path: Path) -> None:
    """Refuse to overwrite anything but a page of netfl.

    Raises:
        ScenarioError: *path* is something else.
    """
    is_page = path.is_file() and MARK in path.read_text(encoding="utf-8", errors="replace")[:4096]
    if path.exists() and not is_page:
        problem = f"{path} already exists and is not a report of netfl"
        raise ScenarioError([Fault(argument("out"), problem, None, "use another file, or remove it")])


def note(text: str) -> Markup:
    """Return a paragraph in small print."""
    return _macro("note", text)


def bullets(sentences: Iterable[str]) -> Markup:
    """Return a list of sentences."""
    return _macro("bullets", list(sentences))


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure of a size in inches, for `plot`."""
    return Figure(figsize=(width, height), facecolor="none")


def plot(figure: Figure, name: str, caption: str) -> Markup:
    """Return a figure as inline SVG, with its caption, which screen readers read, too.

    Args:
        figure: from `new_figure`.
        name: prefix of every id in the element; unique in its page.
        caption: the caption.
    """
    return _macro("plot", style.svg(figure, name=name, label=caption), caption)


def table(
    head: Sequence[str],
    rows: Iterable[Sequence[str]],
    caption: str = "",
    best: frozenset[tuple[int, int]] = frozenset(),
) -> Markup:
    """Return a table whose first column names its rows.

    Args:
        head: names of the columns.
        rows: the cells.
        caption: the caption.
        best: (row, column) of cells in bold.
    """
    return _macro("table", head, [[_cell_lines(cell) for cell in row] for row in rows], caption, best)


def _cell_lines(cell: str) -> list[str]:
    """Return the lines of a cell: an interval and its number of replicas are in lines of their own, below the value.

    >>> _cell_lines("81.2 ± 2.1 (n = 3)"), _cell_lines("35.1 [0.0*, 88.3] (n = 3)"), _cell_lines("A [b]")
    (['81.2', '± 2.1', '(n = 3)'], ['35.1', '[0.0*, 88.3]', '(n = 3)'], ['A [b]'])
    """
    return _INTERVAL.sub("\n", cell).split("\n")


def best_cells(means: dict[tuple[int, int], float], metrics: Sequence[str]) -> frozenset[tuple[int, int]]:
    """Return the cells (row, column) with the best mean of each column; columns count from 1."""
    best: set[tuple[int, int]] = set()
    for column, metric in enumerate(metrics, 1):
        low_is_good = find_metric(metric).low_is_good
        if low_is_good is None:
            continue  # each learner has its own
        sign = -1.0 if low_is_good else 1.0
        values = {cell: sign * mean for cell, mean in means.items() if cell[1] == column}
        if len(values) > 1:
            highest = max(values.values())
            best |= {cell for cell, value in values.items() if value >= highest - 1e-9}  # and those as good
    return frozenset(best)


def report_links(runs: Iterable[tuple[str, Path]], folder: Path) -> Iterator[Markup]:
    """Yield links from a page in *folder* to the reports of *runs*, names and run directories, if any has one."""
    files = [(name, Path(os.path.realpath(path / "report.html"))) for name, path in runs]
    targets = [(name, os.path.relpath(file, os.path.realpath(folder))) for name, file in files if file.is_file()]
    if targets:
        yield _macro("report_links", targets[:MAX_LINKS])


def render(template: str, **values: object) -> str:
    """Return a template of this package with *values*."""
    return _environment().get_template(template).render(**values)


def caption(name: str, *values: object) -> str:
    """Return the caption *name* of ``captions.txt``, in one line."""
    return _one_line(_macro(name, *values, template="captions.txt"))


def sentences(name: str, *values: object) -> list[str]:
    """Return the list *name* of ``summary.txt``, whose items begin with a dash."""
    items = re.split("^- ", _macro(name, *values, template="summary.txt"), flags=re.MULTILINE)
    return [_one_line(item) for item in items if item.strip()]


@cache
def _environment() -> Environment:
    return Environment(
        loader=PackageLoader("netfl.report"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=lambda value: _unbroken(value) if type(value) is str else value,
        undefined=StrictUndefined,
    )


def _unbroken(text: str) -> str:
    """Return *text* with spaces at which no line ends: before a percent sign, behind ±, and within ``n = 3``."""
    return _COUNT.sub("n\u00a0=\u00a0", text.replace(" %", "\u00a0%").replace("± ", "±\u00a0"))


@cache
def _text_environment() -> Environment:
    """Return the environment of plain text, which pages escape."""
    environment = _environment().overlay(autoescape=False, trim_blocks=False, finalize=lambda value: value)
    functions = (
        formatting.clock,
        formatting.format_lead,
        formatting.format_points,
        formatting.format_count,
        formatting.format_setting,
        formatting.format_signed,
        formatting.capitalized,
        formatting.percent,
        formatting.counted,
        formatting.class_names,
        formatting.user_names,
        statistics.mean_sentence,
        statistics.name_spread,
        repr,
    )
    environment.globals |= {function.__name__: function for function in functions}
    environment.globals |= {
        "join": formatting.join_words,
        "last_tenth": statistics.FINAL[statistics.LAST_TENTH],
        "last_round": statistics.FINAL[statistics.LAST_ROUND],
        "chance": statistics.CHANCE,
        "min_replicas": statistics.MIN_REPLICAS,
    }
    return environment


def _one_line(text: str) -> str:
    return re.sub("[ \n]+", " ", text).strip()


def _macro(name: str, *values: object, template: str = "parts.html") -> Markup:
    """Return a macro with *values*: markup or, from a template of text, plain text."""
    environment = _environment() if template.endswith(".html") else _text_environment()
    result: Markup = getattr(environment.get_template(template).module, name)(*values)
    return result
