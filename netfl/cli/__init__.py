"""The command line: reads what the user says, shows what happens, ends with 0 (done), 1 (failed) or 2 (bad input)."""

from __future__ import annotations

import typer

from netfl.cli import data, export, inspect, report, run, sweep
from netfl.cli.app import app
from netfl.cli.distribution import conflict

__all__ = ["app", "data", "export", "inspect", "main", "report", "run", "sweep"]


def main() -> None:
    """The console script.  The folder that it is called in is not on the path, until a scenario names a model in it."""
    if (problem := conflict()) is not None:
        typer.echo(problem, err=True)
    app()
