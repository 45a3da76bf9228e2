"""The page of a sweep, which needs nothing but itself."""

from __future__ import annotations

from pathlib import Path

from netfl.report import page
from netfl.report.sweeps import words
from netfl.report.sweeps.chapters import chapters
from netfl.report.sweeps.view import AxisValues, SweepData
from netfl.results.run_writer import write_text


def write(sweep: AxisValues, out: Path | None = None) -> Path:
    """Write the report of *sweep*, done or not.

    Args:
        sweep: from `netfl.open_sweep`.
        out: the file to write; by default ``report.html`` in the sweep's folder.

    Returns:
        The file written.

    Raises:
        ScenarioError: there is something else than a page of netfl's in its place.
        MachineError: a table is damaged.
    """
    path = sweep.folder / "report.html" if out is None else out
    page.check_target(path)
    write_text(path, html(sweep, path.parent))
    return path


def html(sweep: AxisValues, at: Path) -> str:
    """The report as HTML: pictures are inline SVG, nothing is fetched and nothing is run.

    Args:
        sweep: done or not.
        at: the folder in which it will be.
    """
    view = SweepData(sweep)
    return page.render_page(
        title=view.name,
        status=f"sweep, {sweep.status}",
        state="done" if sweep.status == "done" else "open",
        summary=words.summary(view),
        chapters=[*chapters(view, at)],
        scenarios={"The scenario, with its sweep": view.text},
        description=str(view.said.get("description") or ""),
        facts=words.sweep_facts(view),
    )
