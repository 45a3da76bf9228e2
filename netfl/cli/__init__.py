"""The command line.  Exit codes: 0 (done), 1 (failed), 2 (bad input), 130 (interrupted).

The commands that run a scenario are in `netfl.cli.run`.
"""

from __future__ import annotations

import signal
import sys
from io import TextIOWrapper

from netfl.cli import export, flower, imports, inspect, orbits, report, run, table, timeout
from netfl.cli.app import app, echo
from netfl.cli.distribution import conflict

__all__ = ["app", "export", "flower", "imports", "inspect", "main", "orbits", "report", "run", "table", "timeout"]


def main() -> None:
    """Run the command line.  The working folder joins the import path only when a scenario names a model in it."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # print ? for characters that its encoding lacks
            stream.reconfigure(errors="replace")
    if (problem := conflict()) is not None:
        echo(problem, err=True)
    try:
        app()
    finally:  # all is said, and Ctrl-C would only interrupt the end of Python
        signal.signal(signal.SIGINT, signal.SIG_IGN)
