"""Command line of the script of one figure or table: it reads run directories and writes tables and plots."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import page
from reproduction import Experiment, Result
from run_results import extract_result

import netfl
from netfl.errors import NetflError
from netfl.results.run_reader import Run


def run_script(experiments: Sequence[Experiment], description: str | None) -> None:
    """Read the command line, print the tables with our values and the published ones, and draw the plots.

    Args:
        experiments: the experiments of the script.
        description: the first text of its help.
    """
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path, help="run directories")
    parser.add_argument("--out", type=Path, default=Path(), help="the folder for plots")
    options = parser.parse_args()
    try:
        print_and_draw(experiments, [netfl.open_run(folder) for folder in options.runs], options.out)
    except (NetflError, ValueError) as error:
        parser.error(str(error))


def print_and_draw(experiments: Sequence[Experiment], runs: Sequence[Run], out: Path) -> None:
    """Print the tables of *runs*, and draw their plots into the folder *out*.

    Raises:
        ValueError: a run is unfinished, or belongs to none of the experiments.
        NetflError: its files cannot be read.
    """
    for run in runs:
        if run.status != "done":
            raise ValueError(f"{run.folder} is not a finished run ({run.status}). Continue it with `netfl resume`.")
        if not any(experiment.find_part(run) for experiment in experiments):
            name, keys = min(
                (
                    (name, part.differences(run))
                    for experiment in experiments
                    for name, part in experiment.parts.items()
                ),
                key=lambda pair: len(pair[1]),
            )
            raise ValueError(
                f"{run.folder} is not a run of these experiments. The nearest is {name!r}; these keys differ: "
                f"{', '.join(keys)}."
            )
    for experiment in experiments:
        by_part = {experiment.find_part(run): run for run in runs}
        found = {part: by_part[part] for part in experiment.parts if part in by_part}
        if not found:
            continue
        results = {part: Result(extract_result(experiment, part, run)) for part, run in found.items()}
        print("\n".join(page.section(experiment, results)))
        for path in experiment.draw_plots(found, out):
            print(path)
