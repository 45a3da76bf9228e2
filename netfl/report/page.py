"""HTML pages from Jinja2 templates: one file that needs no other, with inline SVG and no network access."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader
from markupsafe import Markup

from netfl.errors import Fault, ScenarioError
from netfl.plots import style
from netfl.results.run_writer import write_text

MARK = '<meta name="generator" content="netfl">'
"""Element by which pages of netfl are recognised."""


@dataclass(frozen=True, slots=True)
class Section:
    """One part of a page.

    Args:
        key: its anchor.
        title: its heading.
        parts: its content, from the functions of this module.
    """

    key: str
    title: str
    parts: tuple[Markup, ...]


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
        """Write the page to *path*.

        Raises:
            ScenarioError: *path* exists and is not a page of netfl.
        """
        check_target(path)
        write_text(path, self.html())
        return path


def check_target(path: Path) -> None:
    """Refuse to overwrite anything but a page of netfl.

    Raises:
        ScenarioError: *path* is something else.
    """
    if path.is_dir() or (path.exists() and MARK not in path.read_text(encoding="utf-8", errors="replace")[:4096]):
        problem = f"{path} is there already, and no report of netfl's"
        raise ScenarioError([Fault("--out", problem, None, "name another file, or remove it")])


def paragraph(sentences: Iterable[str], kind: str = "") -> Markup:
    """Return a paragraph."""
    return _macro("paragraph", list(sentences), kind)


def bullets(sentences: Iterable[str]) -> Markup:
    """Return a list of sentences."""
    return _macro("bullets", list(sentences))


def plot(paint: style.Paint, *, name: str, caption: str, size: tuple[float, float]) -> Markup:
    """Return a plot as inline SVG, with its caption, which screen readers read, too."""
    return _macro("plot", style.svg(paint, name=name, label=caption, size=size), caption)


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
    return _macro("table", head, list(rows), caption, best)


def links(label: str, files: Iterable[tuple[str, Path]], folder: Path) -> Markup:
    """Return a paragraph of links to *files*, by name, from a page in *folder*."""
    return _macro("links", label, [(name, _relative(path, folder)) for name, path in files])


def render(template: str, **values: object) -> str:
    """Return a template of this package with *values*."""
    return _environment().get_template(template).render(**values)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("netfl.report"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=_unbroken,
    )
    environment.globals["first_sentence"] = _first_sentence
    return environment


def _macro(name: str, *values: object) -> Markup:
    macro = getattr(_environment().get_template("parts.html").module, name)
    result: Markup = macro(*values)
    return result


def _unbroken(value: Any) -> Any:
    """Put a non-breaking space before a percent sign."""
    return value.replace(" %", "\u00a0%") if type(value) is str else value


def _first_sentence(caption: str) -> str:
    return caption.partition(". ")[0].removesuffix(".")


def _relative(file: Path, folder: Path) -> str:
    try:
        return Path(os.path.relpath(file.resolve(), folder.resolve())).as_posix()
    except ValueError:  # on another drive
        return file.resolve().as_posix()
