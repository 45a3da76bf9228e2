"""The rows of a calendar of outages, as a CSV file has them."""

from __future__ import annotations

import csv
import io
import math
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from netfl import inputs
from netfl.errors import Fault, suggest
from netfl.units import to_si

_NEVER = math.inf


@dataclass(frozen=True, slots=True)
class Row:
    """One span of one node; *line* of *file* says so."""

    file: str
    line: int
    node: str
    start_s: float
    end_s: float

    def fault(self, problem: str, value: object, remedy: str) -> Fault:
        """What is wrong with it."""
        return _fault(self.file, self.line, problem, value, remedy)


def read(path: Path, origin: datetime | None) -> tuple[list[Row], list[Fault]]:
    """The good rows of a file, and what is wrong with the others, or with the file."""
    try:
        with io.StringIO(inputs.text(path), newline="") as file:
            lines = csv.DictReader(file, strict=True, skipinitialspace=True)
            columns = [name.strip() for name in lines.fieldnames or ()]
            lines.fieldnames = columns
            faults = _missing(path.name, columns)
            if faults:
                return [], faults
            return _rows(path.name, [(lines.line_num, line) for line in lines], origin)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        told = error.strerror if isinstance(error, OSError) else str(error)
        return [], [Fault("file", f"cannot be read: {told}", str(path), "name a CSV file")]


def _missing(file: str, columns: list[str]) -> list[Fault]:
    """Columns that a calendar needs and that are not there, or are there twice."""
    faults = []
    for wanted in (("node",), ("start_s", "start"), ("end_s", "end")):
        found = [name for name in wanted if name in columns]
        if len(found) > 1:
            faults.append(_fault(file, 1, f"two columns for one time: {' and '.join(found)}", None, "keep one"))
        if not found:
            hints = [suggest(name, columns) for name in wanted]
            near = next((hint for hint in hints if hint.startswith("did you")), f"columns: {', '.join(columns)}")
            faults.append(_fault(file, 1, f"no column {' or '.join(wanted)}", None, near))
    return faults


def _rows(file: str, lines: list[tuple[int, dict[str, str]]], origin: datetime | None) -> tuple[list[Row], list[Fault]]:
    """The rows of the lines, and what is wrong with the others."""
    rows, faults = [], []
    for number, line in lines:
        if None in line or None in line.values():
            remedy = "put a text that holds commas in quotes"
            faults.append(_fault(file, number, "not as many entries as there are columns", None, remedy))
            continue
        try:
            start_s, end_s = (_time_s(line, name, origin) for name in ("start", "end"))
        except ValueError as error:
            problem, value, remedy = error.args
            faults.append(_fault(file, number, problem, value, remedy))
            continue
        row = Row(file, number, line["node"].strip(), start_s, end_s)
        if end_s <= start_s:
            faults.append(row.fault("it ends before it starts", f"{start_s:g} s to {end_s:g} s", "turn them round"))
        else:
            rows.append(row)
    return rows, faults


def _time_s(line: dict[str, str], name: str, origin: datetime | None) -> float:
    """The start or the end of a line's span.

    Raises:
        ValueError: there is none; holds the problem, the value and the remedy.
    """
    text = line.get(f"{name}_s", line.get(name, "")).strip()
    if not text and name == "end":
        return _NEVER
    try:
        time_s = float(text)
    except ValueError:
        if f"{name}_s" in line:
            raise ValueError(f"{name}_s is no number", text, f"write seconds, or call the column {name}") from None
        time_s = _quantity_s(text, name, origin)
    if not math.isfinite(time_s):
        raise ValueError(f"{name} is no finite time", text, "leave an end that never comes empty")
    return time_s


def _quantity_s(text: str, name: str, origin: datetime | None) -> float:
    """A time with a unit, or a date."""
    remedy = "write seconds, a quantity such as '90 min', or a date such as 2024-03-01T08:00"
    try:
        date = datetime.fromisoformat(text)
    except ValueError:
        try:
            return to_si(text, "s")
        except ValueError as error:
            raise ValueError(f"{name} is no time: {error}", text, remedy) from None
    if origin is None:
        raise ValueError(f"{name} is a date, and the calendar has no origin", text, "give origin, the date of time 0")
    try:
        return (date - origin).total_seconds()
    except TypeError:
        raise ValueError(f"{name} or origin has a time zone, and the other none", text, "give both one") from None


def _fault(file: str, line: int, problem: str, value: object, remedy: str) -> Fault:
    """A fault with its place."""
    return Fault("file", f"{file}:{line}: {problem}", value, remedy)
