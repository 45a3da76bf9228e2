"""Small CSV files of numbers, whose faults are told by line."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from netfl import inputs
from netfl.errors import Fault, ScenarioError, suggest

_NAMED = 5
"""How many faults of one kind are told."""


@dataclass(frozen=True, slots=True)
class Rows:
    """A CSV file as it was read.

    Args:
        path: the file.
        columns: the wanted columns by name.
        lines: the line number of each row.
    """

    path: Path
    columns: Mapping[str, NDArray[np.float64]]
    lines: NDArray[np.int64]

    @property
    def users(self) -> NDArray[np.int64]:
        """The column ``user``."""
        return self.columns["user"].astype(np.int64)

    def fault(self, row: int, problem: str, remedy: str) -> Fault:
        """A fault of one row."""
        return Fault("file", f"line {self.lines[row]}: {problem}", str(self.path), remedy)

    def repeated(self, key: Sequence[str]) -> Iterator[Fault]:
        """A fault for each row, up to a few, that repeats the *key* columns of an earlier one."""
        values = np.column_stack([self.columns[name] for name in key])
        _, first, group = np.unique(values, axis=0, return_index=True, return_inverse=True)
        earlier = first[group.ravel()]
        for row in np.flatnonzero(earlier != np.arange(len(values)))[:_NAMED]:
            said = ", ".join(f"{name} {value:g}" for name, value in zip(key, values[row], strict=True))
            yield self.fault(int(row), f"{said} again, as on line {self.lines[earlier[row]]}", "leave one of them out")


def read_rows(path: Path, columns: Sequence[str], *, optional: Sequence[str] = ()) -> Rows:
    """The *columns* of a CSV file with a header, and the *optional* ones that it has; columns beside are passed over.

    Raises:
        ScenarioError: it cannot be read, lacks a column, or holds what is no finite number; up to a few faults.
    """
    try:
        with io.StringIO(inputs.text(path), newline="") as file:
            reader = csv.reader(file)
            header = [name.strip() for name in next(reader, [])]
            _see_header(path, header, columns)
            places = [(name, header.index(name)) for name in (*columns, *optional) if name in header]
            values, lines, faults = _numbers(reader, places, path)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        told = getattr(error, "strerror", None) or str(error)
        remedy = f"name a CSV file with the columns {', '.join(columns)}"
        raise ScenarioError([Fault("file", f"cannot be read: {told}", str(path), remedy)]) from error
    if faults:
        raise ScenarioError(faults)
    table = np.asarray(values, float).reshape(-1, len(places))
    return Rows(path, {name: table[:, at] for at, (name, _) in enumerate(places)}, np.asarray(lines, np.int64))


def user_faults(rows: Rows, users: int) -> Iterator[Fault]:
    """Entries of the column ``user`` that are no user of the scenario, up to a few."""
    user = rows.columns["user"]
    for row in np.flatnonzero((user != np.floor(user)) | (user < 0) | (user >= users))[:_NAMED]:
        yield rows.fault(int(row), f"there is no user {user[row]:g}", f"users are numbered 0 to {users - 1}")


def _see_header(path: Path, header: Sequence[str], columns: Sequence[str]) -> None:
    """Stop if a column is missing."""
    missing = [name for name in columns if name not in header]
    if missing:
        raise ScenarioError(
            [Fault("file", f"line 1: no column '{name}'", str(path), suggest(name, header)) for name in missing]
        )


def _numbers(
    reader: Iterator[list[str]], places: Sequence[tuple[str, int]], path: Path
) -> tuple[list[list[float]], list[int], list[Fault]]:
    """The rows as numbers, their lines, and what is wrong with them."""
    values: list[list[float]] = []
    lines: list[int] = []
    faults: list[Fault] = []
    for line, row in enumerate(reader, start=2):
        if not any(cell.strip() for cell in row):
            continue
        try:
            numbers = [float(row[at]) for _, at in places]
        except (ValueError, IndexError):
            numbers = [math.nan]
        if not all(map(math.isfinite, numbers)):
            wanted = ", ".join(name for name, _ in places)
            faults.append(Fault("file", f"line {line}: not a finite number for each of {wanted}", str(path)))
            if len(faults) == _NAMED:
                break
        values.append(numbers)
        lines.append(line)
    return values, lines, faults
