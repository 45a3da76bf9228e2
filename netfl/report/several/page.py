"""The page of several runs, and where it is written."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from netfl.errors import Fault, ScenarioError
from netfl.report import page
from netfl.report.several import chapters_access, chapters_runs, words
from netfl.report.several.cast import RunSet, gather_runs
from netfl.report.several.differences import differing_keys
from netfl.results.run_writer import write_text


def write(folders: Sequence[Path], out: Path) -> Path:
    """Write the page of the runs in *folders*.

    Args:
        folders: run directories, finished or not; those that hold no run are named in the page.
        out: the file to write.

    Returns:
        The file written.

    Raises:
        ScenarioError: none of the folders holds a run, or *out* is something else than a page of netfl's.
    """
    for folder in folders:
        if (folder / "report.html").resolve() == out.resolve():
            problem = f"{out} is the place of the report of that run alone"
            raise ScenarioError([Fault("--out", problem, None, "name another file")])
    page.check_target(out)
    write_text(out, text(gather_runs(folders), out.parent))
    return out


def text(cast: RunSet, at: Path) -> str:
    """The page as HTML, in which links lead from the folder *at*."""
    views = [one.view for one in cast.members]
    keys = differing_keys([view.run.scenario for view in views])
    chapters = [
        chapters_runs.runs(cast, at),
        *chapters_runs.differences(cast, keys),
        *chapters_runs.learning(cast),
        *chapters_access.chapters(cast),
    ]
    names = list(dict.fromkeys(view.name for view in views))
    title = f"{len(views)} runs: {', '.join(names)}"
    done = all(view.run.status == "done" for view in views) and not cast.refused
    return page.render_page(
        title=title if len(title) <= 120 else f"{title[:119]}…",
        status="all done" if done else "not all done",
        state="done" if done else "open",
        summary=words.summary(cast, list(keys)),
        chapters=chapters,
        scenarios={f"The scenario of {one.letter}, as resolved": page.scenario(one.view.run) for one in cast.members},
    )
