"""The command line: reads what the user says, shows what happens, ends with 0 (done), 1 (failed) or 2 (bad input)."""

from __future__ import annotations

from netfl.cli import data, exporting, looking, running, studying, sweeping
from netfl.cli.app import app

__all__ = ["app", "data", "exporting", "looking", "main", "running", "studying", "sweeping"]


def main() -> None:
    """The console script.  The folder that it is called in is not on the path, until a scenario names a model in it."""
    app()
