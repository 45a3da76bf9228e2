"""Tables and plots that compare the papers with our runs, and the pages of docs/reproduction.

The script searches the folder of --runs. A run belongs to an experiment if it has the scenario of that experiment. Its
replicas are added to the results in analysis/results, and the pages are written from there. `campaign.py` makes the
runs.

    python analysis/paper.py --all                 every experiment, from the runs below runs/
    python analysis/paper.py fig3 table1 --runs D  some experiments, from the runs below D
    python analysis/paper.py --page                only the pages and the counts in README.md, from stored results
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
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
from reproduction import ROOT, Experiment, Result, StoredRun
from run_results import read_results, write_results

import netfl
from netfl.errors import NetflError
from netfl.results.run_reader import Run

EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for module in (fig2, fig3, fig4, table1, fedau, qffl, afl, divergence, beyond)
    for experiment in module.EXPERIMENTS
}
RESULTS = ROOT / "analysis/results"
DOCS = ROOT / "docs"
README = ROOT / "README.md"


def find_runs(folder: Path) -> list[Run]:
    """Return the finished runs with learners below *folder*, newest first; damaged runs are reported and skipped."""
    done = []
    for path in sorted(folder.rglob("manifest.json")):
        run = netfl.open_run(path.parent)
        try:
            if run.status == "done" and run.learners and run.scenario:
                done.append(run)
        except NetflError as error:
            print(f"skipped: {error}", file=sys.stderr)
    return sorted(done, key=lambda run: str(run.manifest.get("started")), reverse=True)


def runs_of_each_part(experiment: Experiment, runs: Sequence[Run]) -> dict[str, list[Run]]:
    """Return the runs of each part, the oldest first, in the order of the parts; *runs* are newest first."""
    found: dict[str, list[Run]] = {name: [] for name in experiment.parts}
    for run in reversed(runs):
        name = experiment.find_part(run)
        if name is not None:
            found[name].append(run)
    return {name: runs_of_part for name, runs_of_part in found.items() if runs_of_part}


def read_all_results() -> dict[str, dict[str, Result]]:
    """Return the stored results of all experiments, by experiment and part."""
    return {experiment.name: read_results(experiment, RESULTS) for experiment in EXPERIMENTS.values()}


def write_page() -> Path:
    """Write the pages and the sentences in README.md from the stored results, and return the index of the pages."""
    results, experiments = read_all_results(), [*EXPERIMENTS.values()]
    folder = DOCS / "reproduction"
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in page.files(experiments, results, folder).items():
        (folder / name).write_text(text, encoding="utf-8")
    page.write_between_marks(README, page.readme_text(experiments, results))
    return folder / "index.md"


def main() -> None:
    """Read the command line; store, draw and write what it names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("experiments", nargs="*", metavar="EXPERIMENT", help=f"of {', '.join(EXPERIMENTS)}")
    parser.add_argument("--all", action="store_true", help="all experiments")
    parser.add_argument("--page", action="store_true", help="only write the pages, from stored results")
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="the folder of the run directories")
    options = parser.parse_args()
    unknown = [name for name in options.experiments if name not in EXPERIMENTS]
    if unknown:
        parser.error(f"there is no experiment {unknown[0]!r}. Choose from {', '.join(EXPERIMENTS)}.")
    if not (options.all or options.page or options.experiments):
        parser.error("no experiment is named. Name one, or use --all or --page.")
    if not options.page and not options.runs.is_dir():
        parser.error(f"there is no folder {options.runs}. Name the folder of your runs with --runs.")
    names = [] if options.page else [*EXPERIMENTS] if options.all else options.experiments
    try:
        compare_with_papers(names, options.runs)
    except NetflError as error:
        parser.error(str(error))
    print(write_page())


def compare_with_papers(names: Sequence[str], folder: Path) -> None:
    """Store, print and draw the results of the runs below *folder* for the experiments of these names.

    Raises:
        NetflError: the tables of a run cannot be read.
    """
    runs = find_runs(folder) if names else []
    for experiment in (EXPERIMENTS[name] for name in names):
        found = runs_of_each_part(experiment, runs)
        if not found:
            print(f"{experiment.name}: no finished run below {folder} belongs to it", file=sys.stderr)
            continue
        write_results(experiment, found, RESULTS)
        print("\n".join(page.section(experiment, read_results(experiment, RESULTS))), end="\n\n")
        newest = {name: runs_of_part[-1] for name, runs_of_part in found.items()}
        for path in draw_plots(experiment, newest if experiment.draws_tables else {}):
            print(path)


def draw_plots(experiment: Experiment, runs: Mapping[str, Run]) -> list[Path]:
    """Draw the plots of an experiment, and return their files.

    Args:
        experiment: the experiment.
        runs: run directories by part, for an experiment that draws their tables; others draw stored curves. A plot
            that shows a result without curves stays as it is.
    """
    folder = DOCS / "reproduction"
    if experiment.draws_tables:
        return experiment.draw_plots(runs, folder) if runs else []
    stored = {name: StoredRun(result) for name, result in read_results(experiment, RESULTS).items()}
    complete = {
        name: run
        for name, run in stored.items()
        if run.is_complete
        and all(run.result.has(number, experiment.needed_metrics(name)) for number in run.result.replicas)
    }
    needed = {name for name in stored if name in (experiment.shown or stored)}
    if experiment.separate_plots or needed <= complete.keys():
        return experiment.draw_plots(complete, folder) if complete else []
    return []


if __name__ == "__main__":
    main()
