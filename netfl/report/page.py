"""The report of a run: one page that needs nothing but itself."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from string import Template

from netfl.reading import Run
from netfl.recording import write_text
from netfl.report import chapters_access, chapters_learning, markup, replay, words
from netfl.report.view import View


def write(run: Run, out: Path | None = None) -> Path:
    """Write the report of *run*, finished or not.

    Args:
        run: from `netfl.open_run`.
        out: the file to write; by default ``report.html`` in the run directory.

    Returns:
        The file written.
    """
    path = run.folder / "report.html" if out is None else out
    write_text(path, page(run))
    return path


def page(run: Run) -> str:
    """The report as HTML: pictures are inline SVG, nothing is fetched, and nothing is run but the replay."""
    view = View(run)
    played = replay.chapter(view)
    chapters = [*chapters_learning.chapters(view), *chapters_access.chapters(view), *([played] if played else [])]
    status = run.status
    return Template(_read("page.html")).substitute(
        style=_read("page.css") + (replay.style() if played else ""),
        scripts=replay.policy() if played else "'none'",
        title=markup.text(view.name),
        status=markup.text(status),
        state="done" if status == "done" else "open",
        description=markup.paragraph([str(run.scenario.get("description") or "")], "lead"),
        facts=markup.text(words.facts(view)),
        summary=markup.bullets(words.summary(view), "summary"),
        contents="".join(f'<a href="#{one.key}">{markup.text(one.title)}</a>' for one in chapters),
        chapters="\n".join(map(str, chapters)),
        scenario=markup.folded("The scenario, as resolved", _scenario(run)),
    )


def _scenario(run: Run) -> str:
    """The scenario file's text."""
    path = run.folder / "scenario.yaml"
    return path.read_text(encoding="utf-8") if path.exists() else ""


def _read(name: str) -> str:
    """A file of this package."""
    return (files("netfl.report") / name).read_text(encoding="utf-8")
