"""Reader of SUMO's floating car data: positions of vehicles or persons by time, in XML.

The file is the output of ``sumo --fcd-output``::

    <fcd-export>
        <timestep time="0.00">
            <vehicle id="bus.0" x="5.10" y="-1.65" speed="0.00" …/>
        </timestep>
    </fcd-export>

The reader takes ``time`` of each time step, and ``id``, ``x`` and ``y`` of each element of the chosen name; other
attributes and elements are ignored.  https://sumo.dlr.de/docs/Simulation/Output/FCDOutput.html
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Literal
from xml.parsers import expat

import numpy as np
import pyarrow as pa
from pydantic import AfterValidator, Field

from netfl import files
from netfl.errors import Fault, ScenarioError, prefix_faults, suggest
from netfl.files.schema import NAME, POSITION, TIME, FileColumn, FileSchema
from netfl.files.tables import UserTable
from netfl.network._tracks import Points
from netfl.registry import Spec
from netfl.types import Bools, Floats, Ints, ScenarioFacts
from netfl.units import Metres, Seconds

_GEO = re.compile(r"fcd-output\.geo\s+value=\"(true|1|yes|on)\"")
"""SUMO's option for coordinates in degrees, in the comment at the head of its files."""
_REMEDY = "name a file that sumo --fcd-output has written, without compression"
FCD_SCHEMA = FileSchema(
    "`sumo_fcd`",
    FileColumn("time", TIME),
    FileColumn("id", NAME),
    FileColumn("x", POSITION),
    FileColumn("y", POSITION),
    memory="its elements",
)
"""Attributes of a time step, and of an element in it."""
_NO_USER = -1
"""Number of a vehicle that is no user."""


class FcdFile(Spec):
    """Keys of models that read SUMO's floating car data."""

    file: Annotated[Path, AfterValidator(Path.absolute)]
    """The file of ``sumo --fcd-output``; a relative path starts at the current directory."""
    elements: Literal["vehicle", "person", "container"] = "vehicle"
    """Elements of the file that are users."""
    ids: Annotated[tuple[str, ...], Field(min_length=1)] | None = None
    """SUMO's ids of users 0, 1, …; by default all, in the order in which they enter, as many as there are users."""
    begin: Seconds = 0.0
    """Time in the file that is time 0 of the run."""
    offset: tuple[Metres, Metres] = (0.0, 0.0)
    """[x, y] that is added to the coordinates of the file."""

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        try:
            self.points(facts.users)
        except ScenarioError as error:
            yield from error.faults

    def points(self, users: int) -> Points:
        """Return the points of *users* users.

        Raises:
            ScenarioError: the file cannot be used, or has other users; keys are relative to the model.
        """
        rows = self.rows
        user_of = np.full(len(rows.ids), _NO_USER)  # by the number of a vehicle
        number_of = {name: number for number, name in enumerate(rows.ids)}
        user_of[[number_of[name] for name in self._user_ids(users)]] = np.arange(users)
        row_users = user_of[rows.numbers]
        is_used = row_users != _NO_USER
        times_s = rows.times_s[is_used] - self.begin
        xy_m = rows.xy_m[is_used] + np.array(self.offset)
        return Points(row_users[is_used], times_s, xy_m)

    def _user_ids(self, users: int) -> tuple[str, ...]:
        """Return the id of each of *users* users."""
        ids = self.rows.ids
        key = "file"
        if self.ids is not None:
            ids = self.ids
            key = "ids"
            self._check_ids(ids)
        if len(ids) != users:
            problem = f"{len(ids)} {self.elements}s for {users} users"
            remedy = f"set users: {len(ids)}"
            if len(ids) > users and self.ids is None:
                remedy += f", or choose {users} of them by ids"
            elif self.ids is not None:
                remedy += f", or give {users} ids"
            raise ScenarioError([Fault(key, problem, None, remedy)])
        return ids

    def _check_ids(self, ids: tuple[str, ...]) -> None:
        """Raise an error unless the file has each of *ids*, which are distinct."""
        known = {*self.rows.ids}
        for name in ids:
            if name not in known:
                problem = f"{self.file.name} has no {self.elements} of that id"
                raise ScenarioError([Fault("ids", problem, name, suggest(name, self.rows.ids))])
        for name, count in Counter(ids).items():
            if count > 1:
                raise ScenarioError([Fault("ids", "an id that occurs twice", name, "give each once")])

    @cached_property
    def rows(self) -> FcdRows:
        """The rows of the file.

        Raises:
            ScenarioError: it cannot be used; the key is ``file``.
        """
        with prefix_faults("file"):
            return read_fcd(self.file, self.elements)


@dataclass(frozen=True, slots=True, eq=False)
class FcdRows:
    """Positions in a file, in its order.

    Args:
        ids: ids of vehicles, in the order in which they enter.
        numbers: number of each row's vehicle, its place in *ids*, ``[rows]``.
        times_s: times, ``[rows]``.
        xy_m: positions, ``[rows, 2]``.
    """

    ids: tuple[str, ...]
    numbers: Ints
    times_s: Floats
    xy_m: Floats


def read_fcd(path: Path, element: str) -> FcdRows:
    """Read a file of SUMO.

    Args:
        path: the file.
        element: the name of the elements to read, such as ``vehicle``.

    Raises:
        ScenarioError: the file cannot be read, has coordinates in degrees, no such elements, a cell that is no number,
            or times that are not ascending; the keys are empty.
    """
    table = _read_elements(path, element)
    times_s = table.numbers(FCD_SCHEMA["time"])
    xy_m = np.column_stack([table.numbers(FCD_SCHEMA["x"]), table.numbers(FCD_SCHEMA["y"])])
    names = table.names(FCD_SCHEMA["id"])
    table.check()

    # the vehicles, numbered in the order in which they enter
    ids = tuple(dict.fromkeys(names.tolist()))
    number_of = {name: number for number, name in enumerate(ids)}
    numbers = np.array([number_of[name] for name in names.tolist()], np.int64)

    # the order of the times
    is_early = np.zeros(len(table), bool)
    is_early[1:] = np.diff(times_s) < 0.0
    remedy = "put the time steps in order"
    table.refuse_cells("time", is_early, lambda cell: Fault("", "a time before that of the last step", cell, remedy))
    is_repeated = _is_repeated(numbers, times_s)
    table.refuse(is_repeated, lambda row: Fault("", "occurs twice at one time", names[row], "leave one of them out"))
    table.check()
    return FcdRows(ids, numbers, times_s, xy_m)


def _read_elements(path: Path, element: str) -> UserTable:
    """Return the elements of this name, at least one, as a table with the columns ``time``, ``id``, ``x`` and ``y``."""
    parser = _FcdParser(element)
    try:
        with files.open_file(path, files.MAX_BYTES) as file:
            parser.parse(file.read())
    except (OSError, ValueError, LookupError, expat.ExpatError) as error:  # LookupError: an unknown encoding
        files.raise_unreadable(path, error, _REMEDY)
    if not parser.lines:
        problem = f"{path.name} has no element {element} in a time step"
        raise ScenarioError([Fault("", problem, None, _REMEDY)])
    columns = {name: pa.array(cells, pa.string()) for name, cells in parser.cells.items()}
    return UserTable(path, columns, np.array(parser.lines, np.int64))


def _is_repeated(numbers: Ints, times_s: Floats) -> Bools:
    """Return whether each row has the vehicle and the time of an earlier row, ``[rows]``."""
    order = np.lexsort((times_s, numbers))
    is_repeated = np.zeros(len(order), bool)
    is_repeated[order[1:]] = (np.diff(numbers[order]) == 0) & (np.diff(times_s[order]) == 0.0)
    return is_repeated


class _FcdParser:
    """Collects the attributes of elements in time steps, with their lines.

    Args:
        element: the name of the elements.

    Attributes:
        cells: attributes of each element, by column; ``None`` for one that is missing.
        lines: line of each element in the file.
    """

    def __init__(self, element: str) -> None:
        self._element = element
        self._time: str | None = None
        self.cells: dict[str, list[str | None]] = {"time": [], "id": [], "x": [], "y": []}
        self.lines: list[int] = []
        self._parser = expat.ParserCreate()
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CommentHandler = _refuse_degrees
        self._parser.StartDoctypeDeclHandler = _refuse_document_type

    def parse(self, content: bytes) -> None:
        """Parse a file.

        Raises:
            ValueError: the file is not supported.
            LookupError: its encoding is unknown.
            xml.parsers.expat.ExpatError: it is not XML.
        """
        self._parser.Parse(content, True)

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        if name == "timestep":
            self._time = attributes.get("time")
        elif name == self._element:
            self.lines.append(self._parser.CurrentLineNumber)
            self.cells["time"].append(self._time)
            for key in ("id", "x", "y"):
                self.cells[key].append(attributes.get(key))

    def _end(self, name: str) -> None:
        if name == "timestep":
            self._time = None


def _refuse_degrees(comment: str) -> None:
    if _GEO.search(comment):
        raise ValueError("its coordinates are degrees (fcd-output.geo); write it without that option")


def _refuse_document_type(*_: object) -> None:
    """Refuse a document type, whose entities can expand a small file without limit."""
    raise ValueError("it defines a document type or entity, which is not supported")
