"""Declared columns of files: what each column holds, in which range, and what an empty cell means.

A reader of a file declares a `FileSchema`, and passes its columns to the methods of `netfl.files.tables.UserTable`::

    SCHEMA = FileSchema(
        "channel trace",
        FileColumn("user", USER),
        FileColumn("time_s", TIME),
        FileColumn("gain_db", PATH_GAIN, is_needed=False),
    )
    table.check_headings(SCHEMA)
    gains_db = table.numbers(SCHEMA["gain_db"], missing=self.missing)

Ranges are physical: a value outside is refused with its row, whatever the scenario.  The table of columns in
docs/files.md is generated from these declarations.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from netfl.errors import Fault
from netfl.types import Bools, Floats

Form = Literal["number", "whole number", "time", "user", "name", "state", "list of times"]
_LIGHT_M_S = 3e8
"""Speed of light in vacuum, rounded up."""


@dataclass(frozen=True, slots=True)
class Quantity:
    """Content of a column: a physical quantity with its range, a name, or a number.

    Args:
        name: its name with an article, such as ``a path gain``.
        unit: its unit; empty without one.
        lowest: lowest possible value.
        highest: highest possible value.
        excludes_highest: whether the highest value itself is impossible.
        remedy: advice for a value outside of this range.
        form: how a cell is written.
        takes_durations: whether typed durations are read, as seconds.
    """

    name: str
    unit: str = ""
    lowest: float = -np.inf
    highest: float = np.inf
    excludes_highest: bool = False
    remedy: str = "check its unit"
    form: Form = "number"
    takes_durations: bool = False

    def is_outside(self, values: Floats) -> Bools:
        """Return which *values* are impossible, ``[n]``; NaN, which stands for another error, is not."""
        is_above = values > self.highest
        if self.excludes_highest:
            is_above = values >= self.highest
        return np.asarray((values < self.lowest) | is_above)

    @property
    def range(self) -> str:
        """The range in words, such as ``from -300 to below 0 dB``; empty without limits."""
        low = f"{self.lowest:.6g}".replace("e+0", "e").replace("e+", "e")
        high = f"{self.highest:.6g}".replace("e+0", "e").replace("e+", "e")
        if self.excludes_highest:
            high = f"below {high}"
        limits = ""
        if np.isfinite(self.lowest) and np.isfinite(self.highest):
            limits = f"from {low} to {high}"
        elif np.isfinite(self.lowest):
            limits = f"from {low} on"
        elif np.isfinite(self.highest):
            limits = f"up to {high}"
        if not limits:
            return ""
        return f"{limits} {self.unit}".strip()

    def limited_to(self, highest: float, remedy: str) -> Quantity:
        """Return the same quantity with a lower highest value, which other keys of the scenario give."""
        return replace(self, highest=min(self.highest, highest), remedy=remedy)


def _plain(value: float) -> str:
    """Return all digits of a number, so that a copy of them in a scenario is equal to it."""
    return repr(float(value)).removesuffix(".0")


NUMBER = Quantity("a number", takes_durations=True)
"""A number of the user's own, such as a feature of an example."""
TIME = Quantity("a time", "s", -1e13, 1e13, form="time", takes_durations=True, remedy="check its unit")
"""A time; the range holds milliseconds since 1970, and the year 9999 from any origin."""
SPAN = replace(TIME, name="a duration", lowest=0.0, form="number", remedy="check its unit")
DELAY = Quantity("a delay", "s", 0.0, 3600.0, form="number", takes_durations=True, remedy="check its unit")
"""A propagation delay; light takes 20 minutes to Mars."""
POSITION = Quantity("a coordinate", "m", -1e9, 1e9)
"""A coordinate; the Moon is at 3.8e8 m."""
SPEED = Quantity("a speed", "m/s", 0.0, _LIGHT_M_S)
PATH_GAIN = Quantity(
    "a path gain", "dB", -300.0, 0.0, excludes_highest=True, remedy="a loss is a negative gain: check the sign"
)
"""Ratio of received to sent power with the gains of both antennas; a passive link has a loss."""
SNR = Quantity("an SNR", "dB", -100.0, 150.0, remedy="check that it is in dB")
"""150 dB is 1 kW without any loss in the noise of 1 Hz at -90 dBm."""
RECEIVED_POWER = Quantity("a received power", "dBm", -300.0, 60.0, remedy="check that it is in dBm")
RATE = Quantity("a bit rate", "bit/s", 0.0, 1e13)
ENERGY = Quantity("an energy", "J", 0.0, 1e12)
DATA = Quantity("an amount of data", "bit", 0.0, 1e20)
LEVEL = Quantity("a level", "dB", -1000.0, 1000.0, remedy="check that it is in dB")
"""A level that netfl has computed: with fading it may be above what was sent."""
COUNT = Quantity("a whole number", "", 0.0, form="whole number", remedy="write a whole number from 0 on")
USER = Quantity("the number of a user", "", 0.0, form="user", remedy="users are numbered 0, 1, 2, …")
NAME = Quantity("a name", form="name")
STATE = Quantity("on or off", form="state")
CHANGES = replace(TIME, name="times", form="list of times")


@dataclass(frozen=True, slots=True)
class FileColumn:
    """One column of a file.

    Args:
        name: its heading; a key of JSON, or an attribute of XML.
        quantity: what it holds.
        is_needed: whether each file has it.
        empty: what an empty cell means; where this is empty, such a cell is an error.
        takes_infinity: whether ``-inf`` and ``nan`` mean the same as an empty cell.
        other_names: headings that mean the same.
        missing_key: key of the model that lists values which are no measurement; empty without one.
        fix_empty: what to do with an empty cell that is an error.
    """

    name: str
    quantity: Quantity
    is_needed: bool = True
    empty: str = ""
    takes_infinity: bool = False
    other_names: tuple[str, ...] = ()
    missing_key: str = ""
    fix_empty: str = "fill it in, or remove its row"

    def named(self, heading: str) -> FileColumn:
        """Return the same column under a *heading* that the user has chosen."""
        return replace(self, name=heading)

    def outside_fault(self, value: float, cell: object) -> Fault:
        """Return the error of a *value* outside of the range, which is written as *cell*."""
        remedy = self.quantity.remedy
        if self.empty:
            remedy += f", or leave the cell empty ({self.empty})"
        if self.missing_key:
            remedy += f"; or, if it stands for no measurement, set {self.missing_key}: [{_plain(value)}]"
        return Fault("", f"not {self.quantity.name} {self.quantity.range}", cell, remedy)


class FileSchema:
    """The columns of one form of a file.

    Args:
        reader: the models that read it, such as ``channel trace``.
        columns: its columns.
        others: what happens to other columns.
        fix_others: what to do with another column that is refused; by default a likely heading is suggested.
        memory: what memory and time are proportional to.
    """

    def __init__(
        self,
        reader: str,
        *columns: FileColumn,
        others: Literal["ignored", "refused"] = "ignored",
        fix_others: str = "",
        memory: str = "its rows",
    ) -> None:
        self.reader = reader
        self.columns = columns
        self.others = others
        self.fix_others = fix_others
        self.memory = memory
        self._by_name = {column.name: column for column in columns}

    def __getitem__(self, name: str) -> FileColumn:
        return self._by_name[name]

    def __iter__(self) -> Iterator[FileColumn]:
        return iter(self.columns)

    @property
    def names(self) -> tuple[str, ...]:
        """Headings that are read."""
        return tuple(name for column in self.columns for name in (column.name, *column.other_names))


_USUAL_SENTINELS = frozenset({0, -1, 1, 99, 127, -127, 128, -128, 255, -255, 999, -999, 9999, -9999, 32767, -32768})
"""Numbers that programs write where they have no measurement."""
_MIN_OTHER_VALUES = 3
"""Different other values of a file from which on their span tells an isolated value."""


def sentinels(values: Floats) -> list[float]:
    """Return values that probably stand for no measurement, in ascending order.

    Such a value is the lowest or the highest of a file, repeats exactly, and is farther from its neighbour than the
    span of all other values; for numbers that programs usually write, such as 0, 99 and 255, than half of it.  A file
    with fewer than three other values is judged by these numbers alone.

    Args:
        values: the values of a column, ``[rows]``.

    >>> sentinels(np.array([0.0, -81.0, -82.0, 0.0, -83.5])), sentinels(np.array([-81.0, -81.0, -82.0, -83.0]))
    ([0.0], [])
    """
    different, counts = np.unique(values[np.isfinite(values)], return_counts=True)
    first = 0
    end = len(different)
    while end - first >= 2:  # without the values found so far, the others may show another
        if _is_sentinel(different[first], counts[first], different[first + 1 : end]):
            first += 1
        elif _is_sentinel(different[end - 1], counts[end - 1], different[first : end - 1]):
            end -= 1
        else:
            break
    return [*different[:first].tolist(), *different[end:].tolist()]


def _is_sentinel(value: float, count: int, others: Floats) -> bool:
    """Return whether a *value* at the edge of a file, which occurs *count* times, is isolated from all *others*."""
    is_usual = value in _USUAL_SENTINELS
    if count < 2 or (len(others) < _MIN_OTHER_VALUES and not is_usual):
        return False
    gap = float(np.abs(others - value).min())
    span = float(np.ptp(others))
    if is_usual:
        return gap > span / 2.0
    return gap > span


def value_doubts(column: FileColumn, values: Floats, missing: Sequence[float] | None) -> Iterator[str]:
    """Yield doubts about measured *values*, ``[rows]``; none if the user has listed what is *missing*, if only nothing.

    A list states that all other values are measurements.
    """
    if missing is not None or not column.missing_key:
        return
    for value in sentinels(values):
        rows = int((values == value).sum())
        shown = _plain(value)
        yield (
            f"{column.name} is {shown} in {rows} rows, far from all other values: if it stands for no measurement, set "
            f"{column.missing_key}: [{shown}]; if it is one, set {column.missing_key}: []"
        )
