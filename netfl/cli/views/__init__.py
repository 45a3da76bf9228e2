"""Terminal views: tables of runs, sweeps, selection processes and models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table

_PADDING = 3
"""Characters between two columns of a table."""


def new_table(*columns: str, keys: int = 1, fold: bool = False, **options: Any) -> Table:
    """Return a table without rows; its first columns, *keys* of them, are aligned left, the others right.

    Args:
        columns: headings.
        keys: number of columns that name the rows.
        fold: break the cells of these columns over several lines where the terminal is too narrow.
        options: of the table.
    """
    table = Table(box=box.SIMPLE_HEAD, **options)
    overflow: Literal["fold", "ellipsis"] = "fold" if fold else "ellipsis"
    for name in columns[:keys]:
        table.add_column(name, justify="left", no_wrap=not fold, overflow=overflow)
    for name in columns[keys:]:
        table.add_column(name, justify="right", no_wrap=True, overflow=overflow)
    return table


def print_columns(console: Console, keys: Mapping[str, Sequence[str]], columns: Mapping[str, Sequence[str]]) -> None:
    """Print columns of cells by heading, in as many tables as the width requires.

    Args:
        console: the terminal.
        keys: the columns that name the rows; each table begins with them.  On a narrow terminal their cells are broken
            over several lines, so that no other column is cut.
        columns: the other columns; each table has at least one.
    """
    widths = {head: _width(head, cells) for head, cells in (*keys.items(), *columns.items())}
    room = console.width - 1 - sum(widths[head] for head in keys)
    parts: list[dict[str, Sequence[str]]] = [{}]
    for head, cells in columns.items():
        used = sum(widths[shown] for shown in parts[-1])
        if parts[-1] and used + widths[head] > room:
            parts.append({})
        parts[-1][head] = cells
    for part in parts:
        is_narrow = sum(widths[head] for head in part) > room
        table = new_table(*keys, *part, keys=len(keys), fold=is_narrow)
        for row in zip(*keys.values(), *part.values(), strict=True):
            table.add_row(*row)
        console.print(table)


def _width(head: str, cells: Sequence[str]) -> int:
    """Return the characters that a column takes with its distance to the next one."""
    lines = [line for text in (head, *cells) for line in text.split("\n")]
    return _PADDING + max(cell_len(line) for line in lines)
