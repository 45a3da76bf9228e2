"""The command line of a campaign: runs that are started until a time is over, and a plan of them."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path

from netfl.errors import NetflError


def read_options(description: str | None, runs: Path) -> argparse.Namespace:
    """Return the options ``list``, ``hours`` and ``runs`` of the command line.

    Args:
        description: text of the help.
        runs: default folder of the run directories.
    """
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hours", type=float, help="wall-clock hours after which no run is started")
    parser.add_argument("--runs", type=Path, default=runs, help="the folder of the run directories")
    parser.add_argument("--list", action="store_true", help="print the plan")
    options = parser.parse_args()
    if not options.list and (options.hours is None or options.hours <= 0):
        parser.error("the time is missing. Give it with --hours, or print the plan with --list.")
    return options


def run_until(
    options: argparse.Namespace, run_all: Callable[[Path, Callable[[], bool], Callable[[str], None]], None]
) -> None:
    """Call *run_all* with the folder of the runs, whether to start another run, and a function that prints a line."""
    deadline = time.monotonic() + 3600 * options.hours
    try:
        run_all(
            options.runs,
            lambda: time.monotonic() < deadline,
            lambda line: print(time.strftime("%H:%M:%S"), line, flush=True),
        )
    except NetflError as error:
        sys.exit(str(error))
