"""The command line: reads what the user says, shows what happens, ends with 0 (done), 1 (failed) or 2 (bad input)."""

from __future__ import annotations

import typer

from netfl.cli import data, exporting, looking, running, studying, sweeping
from netfl.cli.app import app
from netfl.distribution import conflict

__all__ = ["app", "data", "exporting", "looking", "main", "running", "studying", "sweeping"]


def main() -> None:
    """The console script.  The folder that it is called in is not on the path, until a scenario names a model in it."""
    if (problem := conflict()) is not None:
        typer.echo(problem, err=True)
    app()
