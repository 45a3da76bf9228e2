"""The file with the row of an outsider's rule: settings, versions, seeds and values, to hand in."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from netfl.errors import __version__, cannot_write
from netfl.results.atomic_write import write_text
from netfl.rule_table.rows import TableRow, shared_settings
from netfl.rule_table.suite import Cell, Rule, source_of

FILE = "row.json"
"""Name of the file in the folder of the runs."""


def write_row(folder: Path, rule: Rule, rows: Mapping[Cell, TableRow]) -> Path:
    """Write the row of a rule below *folder* and return the path of the file.

    Raises:
        MachineError: the file cannot be written.
    """
    path = folder / FILE
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_text(path, json.dumps(row_content(rule, rows), indent=1) + "\n")
    except OSError as error:
        raise cannot_write(error, path) from error
    return path


def row_content(rule: Rule, rows: Mapping[Cell, TableRow]) -> dict[str, Any]:
    """Return the content of the file: what the rule is, on what it ran, and its values cell by cell.

    The settings of a cell have its seed.
    """
    return {
        "rule": rule.name,
        "learner": dict(rule.learner),
        "ranges": dict(rule.ranges),
        "source": source_of(rule, next(iter(rows)).dataset) if rows else "",
        "netfl": __version__,
        "python": platform.python_version(),
        "cells": {
            cell.name: {"settings": shared_settings(cell.scenario(rule)), **row.plain()}
            for cell, row in rows.items()
            if not row.refused
        },
        "refused": {cell.name: row.refused for cell, row in rows.items() if row.refused},
    }
