"""The command line: reads what the user says, shows what happens, ends with 0 (done), 1 (failed) or 2 (bad input)."""

from __future__ import annotations

import sys

from netfl.cli import data, exporting, looking, running, studying, sweeping
from netfl.cli.app import app

__all__ = ["app", "data", "exporting", "looking", "main", "running", "studying", "sweeping"]


def main() -> None:
    """The console script; models of the user's own may lie in the folder that it is called in."""
    sys.path.append("")
    app()
