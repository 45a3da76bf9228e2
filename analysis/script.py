"""The command line of one figure's or table's script: run directories in, its tables and its picture out."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import page
from kept import told
from reproduction import Experiment, Result

import netfl
from netfl.errors import NetflError
from netfl.results.run_reader import Run


def script(experiments: Sequence[Experiment], about: str | None) -> None:
    """Read the command line, print the tables beside what was published, and draw.

    Args:
        experiments: those of the script.
        about: what it says of itself.
    """
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path, help="run directories")
    parser.add_argument("--out", type=Path, default=Path(), help="the folder for pictures")
    said = parser.parse_args()
    try:
        tell(experiments, [netfl.open_run(folder) for folder in said.runs], said.out)
    except (NetflError, ValueError) as error:
        parser.error(str(error))


def tell(experiments: Sequence[Experiment], runs: Sequence[Run], out: Path) -> None:
    """Print the tables of *runs*, and draw them into the folder *out*.

    Raises:
        ValueError: a run is not done, or none of the experiments'.
        NetflError: its files cannot be read.
    """
    for run in runs:
        if run.status != "done":
            raise ValueError(f"{run.folder} is not the folder of a run that is done ({run.status})")
        if not any(one.part_of(run) for one in experiments):
            name, keys = min(
                ((name, part.differences(run)) for one in experiments for name, part in one.parts.items()),
                key=lambda pair: len(pair[1]),
            )
            raise ValueError(f"{run.folder} is none of its runs; it is nearest to {name!r}, but for {', '.join(keys)}")
    for one in experiments:
        known = {one.part_of(run): run for run in runs}
        found = {part: known[part] for part in one.parts if part in known}
        if not found:
            continue
        print("\n".join(page.section(one, {part: Result(told(one, part, run)) for part, run in found.items()})))
        for picture in one.drawn(found, out):
            print(picture)
