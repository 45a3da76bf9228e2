"""The report of a run: one page that needs nothing but itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from string import Template

from netfl.errors import Fault, ScenarioError
from netfl.report import animation, chapters_access, chapters_learning, markup, words
from netfl.report.markup import Chapter
from netfl.report.view import read_view
from netfl.results.run_reader import Run
from netfl.results.run_writer import write_text

MARK = '<meta name="generator" content="netfl">'
"""By which a page of netfl's is known."""


def write(run: Run, out: Path | None = None) -> Path:
    """Write the report of *run*, finished or not.

    Args:
        run: from `netfl.open_run`.
        out: the file to write; by default ``report.html`` in the run directory.

    Returns:
        The file written.

    Raises:
        ScenarioError: there is something else than a page of netfl's in its place.
    """
    path = run.folder / "report.html" if out is None else out
    check_target(path)
    write_text(path, page(run))
    return path


def check_target(path: Path) -> None:
    """Refuse to write a page over anything but a page.

    Raises:
        ScenarioError: there is something else.
    """
    if path.is_dir() or (path.exists() and MARK not in path.read_text(encoding="utf-8", errors="replace")[:4096]):
        problem = f"{path} is there already, and no report of netfl's"
        raise ScenarioError([Fault("--out", problem, None, "name another file, or remove it")])


def page(run: Run) -> str:
    """The report as HTML: pictures are inline SVG, nothing is fetched, and nothing is run but the replay."""
    view = read_view(run)
    run, played = view.run, animation.animation_chapter(view)
    chapters = [*chapters_learning.chapters(view), *chapters_access.chapters(view), *([played] if played else [])]
    return render_page(
        title=view.name,
        status=run.status,
        state="done" if run.status == "done" else "open",
        summary=words.summary(view),
        chapters=chapters,
        scenarios={"The scenario, as resolved": scenario(run)},
        description=str(run.scenario.get("description") or ""),
        facts=words.run_facts(view),
        more_style=animation.animation_style() if played else "",
        scripts=animation.script_policy() if played else "'none'",
    )


def render_page(
    *,
    title: str,
    status: str,
    state: str,
    summary: Sequence[str],
    chapters: Sequence[Chapter],
    scenarios: Mapping[str, str],
    description: str = "",
    facts: str = "",
    more_style: str = "",
    scripts: str = "'none'",
) -> str:
    """A page as HTML.

    Args:
        title: its heading.
        status: how far what it shows is, in a word or two.
        state: ``done``, or ``open`` where something is to come.
        summary: the sentences at the top.
        chapters: what follows them.
        scenarios: text that folds open at the end, by its titles.
        description: the scenario's own words.
        facts: the run in one line.
        more_style: style sheets besides the page's own.
        scripts: which scripts may run, as a content security policy says it.
    """
    return Template(_read("page.html")).substitute(
        style=_read("page.css") + more_style,
        scripts=scripts,
        title=markup.text(title),
        status=markup.text(status),
        state=state,
        description=markup.paragraph([description], "lead"),
        facts=markup.text(facts),
        summary=markup.bullets(summary, "summary"),
        contents="".join(f'<a href="#{one.key}">{markup.text(one.title)}</a>' for one in chapters),
        chapters="\n".join(map(str, chapters)),
        scenario="\n".join(markup.details_block(name, content) for name, content in scenarios.items()),
    )


def scenario(run: Run) -> str:
    """The scenario file's text."""
    path = run.folder / "scenario.yaml"
    return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""


def _read(name: str) -> str:
    """A file of this package."""
    return (files("netfl.report") / name).read_text(encoding="utf-8")
