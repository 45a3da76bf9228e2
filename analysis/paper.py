"""The papers beside our runs: tables, pictures, and the page docs/reproduction.md.

Runs are looked for below the folder of --runs: a run belongs to an experiment if its scenario is that experiment's.
What they give is kept in analysis/results, and the page is written from there.

    python analysis/paper.py --all                 every experiment, from the runs below runs/
    python analysis/paper.py fig3 table1 --runs D  some of them, with runs elsewhere
    python analysis/paper.py --page                the page alone, from what is kept
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import afl
import beyond
import divergence
import fedau
import fig2
import fig3
import fig4
import page
import qffl
import table1
from kept import keep, read
from reproduction import ROOT, Experiment

import netfl
from netfl.errors import NetflError
from netfl.results.run_reader import Run

EXPERIMENTS: dict[str, Experiment] = {
    one.name: one
    for module in (fig2, fig3, fig4, table1, fedau, qffl, afl, divergence, beyond)
    for one in module.EXPERIMENTS
}
RESULTS = ROOT / "analysis/results"
DOCS = ROOT / "docs"


def runs_below(folder: Path) -> list[Run]:
    """The finished runs with learners below *folder*, the newest first; damaged ones are left out, and named."""
    done = []
    for path in sorted(folder.rglob("manifest.json")):
        run = netfl.open_run(path.parent)
        try:
            if run.status == "done" and run.learners and run.scenario:
                done.append(run)
        except NetflError as error:
            print(f"left out: {error}", file=sys.stderr)
    return sorted(done, key=lambda run: str(run.manifest.get("started")), reverse=True)


def sorted_out(experiment: Experiment, runs: Sequence[Run]) -> dict[str, Run]:
    """The newest run of each part, by the part's name, in the order of the parts."""
    found: dict[str, Run] = {}
    for run in runs:
        name = experiment.part_of(run)
        if name is not None:
            found.setdefault(name, run)
    return {name: found[name] for name in experiment.parts if name in found}


def write_page() -> Path:
    """The page, from what is kept."""
    results = {one.name: read(one, RESULTS) for one in EXPERIMENTS.values()}
    path = DOCS / "reproduction.md"
    path.write_text(page.text([*EXPERIMENTS.values()], results, DOCS / "reproduction"), encoding="utf-8")
    return path


def main() -> None:
    """Read the command line; keep, draw and write what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("experiments", nargs="*", metavar="EXPERIMENT", help=f"of {', '.join(EXPERIMENTS)}")
    parser.add_argument("--all", action="store_true", help="all experiments")
    parser.add_argument("--page", action="store_true", help="only write the page, from what is kept")
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="where the run directories are")
    said = parser.parse_args()
    unknown = [name for name in said.experiments if name not in EXPERIMENTS]
    if unknown:
        parser.error(f"there is no experiment {unknown[0]!r}; there are {', '.join(EXPERIMENTS)}")
    if not (said.all or said.page or said.experiments):
        parser.error("name an experiment, or say --all or --page")
    if not said.page and not said.runs.is_dir():
        parser.error(f"there is no folder {said.runs}; name that of your runs with --runs")
    names = [] if said.page else [*EXPERIMENTS] if said.all else said.experiments
    try:
        put_beside(names, said.runs)
    except NetflError as error:
        parser.error(str(error))
    print(write_page())


def put_beside(names: Sequence[str], folder: Path) -> None:
    """Keep, tell and draw what the runs below *folder* gave for the experiments of these names.

    Raises:
        NetflError: a run's tables cannot be read.
    """
    runs = runs_below(folder) if names else []
    for experiment in (EXPERIMENTS[name] for name in names):
        found = sorted_out(experiment, runs)
        if not found:
            print(f"{experiment.name}: no finished run below {folder} is one of it", file=sys.stderr)
            continue
        keep(experiment, found, RESULTS)
        print("\n".join(page.section(experiment, read(experiment, RESULTS))), end="\n\n")
        for picture in experiment.drawn(found, DOCS / "reproduction"):
            print(picture)


if __name__ == "__main__":
    main()
