"""Reader of SUMO's floating car data: positions of vehicles or persons by time, in XML, CSV or Parquet.

The file is the output of ``sumo --fcd-output``::

    <fcd-export>
        <timestep time="0.00">
            <vehicle id="bus.0" x="5.10" y="-1.65" speed="0.00" …/>
        </timestep>
    </fcd-export>

or, since SUMO 1.24, of ``sumo --fcd-output fcd.csv`` and ``fcd.parquet``::

    timestep_time;vehicle_id;vehicle_x;vehicle_y;vehicle_speed
    0.00;bus.0;5.10;-1.65;0.00

The reader takes ``time`` of each time step, and ``id``, ``x``, ``y`` and, if it is there, ``speed`` of each element of
the chosen name; other attributes, columns and elements are ignored.  Columns may also have the names of the attributes
alone, as with ``--output.column-header plain``.  A row of a table in which the columns of the element are empty is one
of another element.  A file has time steps (`netfl.network._tracks`), in XML those without elements, too; in a table,
where these have no row, a gap of more than one and a half usual time steps has at least one.

The speeds that SUMO states are compared with the positions, so that coordinates in degrees and teleports are found.
https://sumo.dlr.de/docs/Simulation/Output/FCDOutput.html and https://sumo.dlr.de/docs/TabularOutputs.html
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Literal
from xml.parsers import expat

import numpy as np
import pyarrow as pa
from pyarrow.compute import match_substring_regex
from pydantic import AfterValidator, Field

from netfl import files
from netfl.core.spec import Spec
from netfl.errors import Fault, ScenarioError, prefix_faults, suggest
from netfl.files.cells import as_text, is_empty, parse_numbers
from netfl.files.schema import NAME, POSITION, SPEED, TIME, FileColumn, FileSchema
from netfl.files.tables import UserTable, read_csv, read_table
from netfl.network._tracks import MAX_DEGREES, Points, Stretches, find_trips
from netfl.types import Bools, Floats, Ints, ScenarioFacts
from netfl.units import Metres, Seconds

_GEO = re.compile(r"fcd-output\.geo\s+value=\"(true|1|yes|on)\"")
"""SUMO's option for coordinates in degrees, in the comment at the head of its files."""
_REMEDY = (
    "name a file that sumo --fcd-output has written, without compression: XML, or CSV or Parquet with the suffix .csv "
    "or .parquet"
)
_CLOCK = r"^([0-9]+:)?[0-9]+:[0-9]{2}:[0-9]{2}"
_GEO_REMEDY = "let SUMO write it without --fcd-output.geo"
_SLOW_M_S = 0.01
"""A speed that is none of a vehicle or person; a hundredth of a degree is about a kilometre."""
_DRIVING_M_S = 1.0
"""Stated speed from which motion is compared with it; below, positions are rounded too coarsely."""
_MAX_SLOWNESS = 100.0
"""Factor by which motion may be slower than stated, as on the way round a block within one time step."""
_MAX_EXCESS = 2.0
"""Factor by which motion may be faster than stated, as if a vehicle is slow at both ends of a time step."""
_LANE_CHANGE_M = 10.0
"""Distance that positions may jump when SUMO moves a vehicle to another lane, or a person over a crossing."""
_FCD_POSITION = replace(
    POSITION,
    remedy="check its unit; -1073741824 is what SUMO writes where there is no position: leave such elements out, so "
    "that their vehicle is absent there",
)
_FCD_SPEED = replace(SPEED, remedy="check its unit, or let SUMO write the file without the attribute speed")


def fcd_schema(element: str) -> FileSchema:
    """Return the columns of a table for elements of this name; in XML an element has the second names."""
    return FileSchema(
        f"`sumo_fcd`, {element}s",
        FileColumn("timestep_time", TIME, other_names=("time",)),
        FileColumn(f"{element}_id", NAME, other_names=("id",)),
        FileColumn(f"{element}_x", _FCD_POSITION, other_names=("x",)),
        FileColumn(f"{element}_y", _FCD_POSITION, other_names=("y",)),
        FileColumn(f"{element}_speed", _FCD_SPEED, is_needed=False, other_names=("speed",)),
        memory="its elements",
    )


VEHICLE_SCHEMA = fcd_schema("vehicle")
"""The columns of vehicles, for the documentation."""
_MIN_STEPS = 4
"""Time steps of a table from which on the usual length of one is known: two of three lengths are alike."""
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
        user_of[[number_of[name] for name in self.user_ids(users)]] = np.arange(users)
        row_users = user_of[rows.numbers]
        is_used = row_users != _NO_USER
        return Points(
            users=row_users[is_used],
            times_s=rows.times_s[is_used] - self.begin,
            xy_m=rows.xy_m[is_used] + np.array(self.offset),
            begins_trip=rows.begins_trip[is_used],
            is_jump=rows.is_jump[is_used],
            lines=rows.lines[is_used],
        )

    def user_ids(self, users: int) -> tuple[str, ...]:
        """Return the id of each of *users* users.

        Raises:
            ScenarioError: the file has other users; keys are relative to the model.
        """
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
        lines: lines in the file, ``[rows]``; of Parquet the numbers of the rows.
        steps_s: the time steps of the file, ascending, each once.
        begins_trip: whether the vehicle was not in the time step before, ``[rows]``.
        is_jump: whether the vehicle cannot have driven from its row before, by the speeds that SUMO states, ``[rows]``.
    """

    ids: tuple[str, ...]
    numbers: Ints
    times_s: Floats
    xy_m: Floats
    lines: Ints
    steps_s: Floats
    begins_trip: Bools
    is_jump: Bools


def read_fcd(path: Path, element: str) -> FcdRows:
    """Read a file of SUMO.

    Args:
        path: the file: CSV or Parquet by its suffix, all else as XML.
        element: the name of the elements to read, such as ``vehicle``.

    Raises:
        ScenarioError: the file cannot be read, has coordinates in degrees, no such elements, a cell that is no number,
            or times that are not ascending; the keys are empty.
    """
    if path.suffix.lower() in {".csv", ".parquet", ".pq"}:
        table, steps_s = _read_columns(path, element)
    else:
        table, steps_s = _read_elements(path, element)
    schema = fcd_schema(element)
    time = table.heading(schema["timestep_time"])
    is_clock = np.asarray(match_substring_regex(as_text(table.columns[time]), _CLOCK))
    remedy = "let SUMO write it without --human-readable-time"
    table.refuse_cells(time, is_clock, lambda cell: Fault("", "a time of day instead of seconds", cell, remedy))
    times_s = table.numbers(schema["timestep_time"])
    xy_m = np.column_stack([table.numbers(schema[f"{element}_x"]), table.numbers(schema[f"{element}_y"])])
    speed_m_s = None
    if table.has(schema[f"{element}_speed"]):
        speed_m_s = table.numbers(schema[f"{element}_speed"])
    names = [str(name) for name in table.names(schema[f"{element}_id"]).tolist()]
    table.check()

    # the vehicles, numbered in the order in which they enter
    ids = tuple(dict.fromkeys(names))
    number_of = {name: number for number, name in enumerate(ids)}
    numbers = np.array([number_of[name] for name in names], np.int64)

    # the order of the times
    is_early = np.zeros(len(table), bool)
    is_early[1:] = np.diff(times_s) < 0.0
    remedy = "put the time steps in order"
    table.refuse_cells(time, is_early, lambda cell: Fault("", "a time before that of the last step", cell, remedy))
    is_repeated = _is_repeated(numbers, times_s)
    table.refuse(is_repeated, lambda row: Fault("", "occurs twice at one time", names[row], "leave one of them out"))
    table.check()

    # absences, and motion that the stated speeds contradict
    stretches = Stretches.of(numbers, times_s, xy_m)
    begins_trip = find_trips(stretches, times_s, steps_s)
    stretches = stretches.where(~begins_trip[stretches.ends])
    _refuse_slow(path, stretches, xy_m)
    is_jump = np.zeros(len(table), bool)
    if speed_m_s is not None:
        _refuse_other_scale(path, stretches, speed_m_s)
        is_jump[stretches.ends] = _find_jumps(stretches, speed_m_s)
    return FcdRows(ids, numbers, times_s, xy_m, table.lines, steps_s, begins_trip, is_jump)


def _refuse_slow(path: Path, stretches: Stretches, xy_m: Floats) -> None:
    """Refuse coordinates that could be degrees, if nobody moves faster than a hundredth of one each second.

    Raises:
        ScenarioError: they are so.
    """
    fastest_m_s = float(stretches.speed_m_s.max(initial=0.0))
    in_degrees = bool((np.abs(xy_m) <= MAX_DEGREES).all())
    if in_degrees and 0.0 < fastest_m_s < _SLOW_M_S:
        problem = (
            f"{path.name}: its coordinates look like degrees: all are within ±180 and ±90, and nobody moves faster "
            f"than {fastest_m_s:.2g} a second"
        )
        raise ScenarioError([Fault("", problem, None, _GEO_REMEDY)])


def _refuse_other_scale(path: Path, stretches: Stretches, speed_m_s: Floats) -> None:
    """Refuse positions that are not in metres: most vehicles move much slower or faster than their speeds state.

    Raises:
        ScenarioError: they are so.
    """
    stated_m_s = (speed_m_s[stretches.starts] + speed_m_s[stretches.ends]) / 2.0
    is_driving = stated_m_s > _DRIVING_M_S
    if not is_driving.any():
        return
    ratio = float(np.median(stretches.speed_m_s[is_driving] / stated_m_s[is_driving]))
    if 1.0 / _MAX_SLOWNESS <= ratio <= _MAX_EXCESS:
        return
    problem = (
        f"{path.name}: its positions are not in metres, or its times not in seconds: they change {ratio:.2g} times as "
        "fast as the attribute speed states (median)"
    )
    remedy = "write the file with x and y in metres, time in s and speed in m/s"
    raise ScenarioError([Fault("", problem, None, f"{remedy}; {_GEO_REMEDY}")])


def _find_jumps(stretches: Stretches, speed_m_s: Floats) -> Bools:
    """Return on which stretches a vehicle is teleported: it gets much farther than the fastest stated speed takes it.

    The fastest speed of all vehicles counts, as a vehicle may be faster between two time steps than at either.
    """
    fastest_m_s = float(speed_m_s.max(initial=0.0))
    reach_m = np.maximum(_MAX_EXCESS * fastest_m_s * stretches.span_s, _LANE_CHANGE_M)
    return np.asarray(stretches.length_m > reach_m)


def _read_columns(path: Path, element: str) -> tuple[UserTable, Floats]:
    """Return the rows of these elements in a CSV or Parquet file, and the time steps of the file."""
    if path.suffix.lower() == ".csv":
        table = read_csv(path, separators=";,\t")
    else:
        table = read_table(path)
    schema = fcd_schema(element)
    table.check_headings(schema)
    table.check()

    # rows of other elements have no value in these columns
    is_other = np.ones(len(table), bool)
    for key in ("id", "x", "y"):
        is_other &= is_empty(table.columns[table.heading(schema[f"{element}_{key}"])])
    if is_other.all():
        remedy = f"set elements to what it has: vehicle, person or container; or {_REMEDY}"
        raise ScenarioError([Fault("", f"{path.name} has no {element} in its rows", None, remedy)])
    times_s = parse_numbers(table.columns[table.heading(schema["timestep_time"])])
    return table.take(~is_other), _with_empty_steps(np.unique(times_s[np.isfinite(times_s)]))


def _with_empty_steps(steps_s: Floats) -> Floats:
    """Return the time steps of a table with the first one of each gap, ``[steps]``.

    A table has no row for a time step in which nobody is there.  SUMO's time steps are equally long, so one that is
    longer than the others by more than a half is a gap.

    Args:
        steps_s: the time steps that have rows, ascending, each once.
    """
    if len(steps_s) < _MIN_STEPS:
        return steps_s
    lengths_s = np.diff(steps_s)
    usual_s = np.median(lengths_s)
    is_gap = lengths_s > 1.5 * usual_s
    return np.sort(np.concatenate([steps_s, steps_s[:-1][is_gap] + usual_s]))


def _read_elements(path: Path, element: str) -> tuple[UserTable, Floats]:
    """Return the elements of this name, at least one, as a table by attribute, and the time steps of the file."""
    parser = _FcdParser(element)
    try:
        with files.open_file(path, files.MAX_BYTES) as file:
            parser.parse(file.read())
    except (OSError, ValueError, LookupError, expat.ExpatError) as error:  # LookupError: an unknown encoding
        files.raise_unreadable(path, error, _REMEDY)
    if not parser.lines:
        problem = f"{path.name} has no element {element} in a time step"
        remedy = f"set elements to what it has: vehicle, person or container; or {_REMEDY}"
        raise ScenarioError([Fault("", problem, None, remedy)])
    for key in ("x", "y"):
        if not any(parser.cells[key]):
            problem = f"{path.name}: no element {element} has the attribute {key}"
            raise ScenarioError([Fault("", problem, None, "let SUMO write it with --fcd-output.attributes x,y,speed")])
    columns = {name: pa.array(cells, pa.string()) for name, cells in parser.cells.items()}
    if not any(parser.cells["speed"]):
        del columns["speed"]
    steps_s = parse_numbers(pa.array(parser.steps, pa.string()))
    return UserTable(path, columns, np.array(parser.lines, np.int64)), np.unique(steps_s[np.isfinite(steps_s)])


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
        steps: time of each time step, with or without elements.
        lines: line of each element in the file.
    """

    def __init__(self, element: str) -> None:
        self._element = element
        self._time: str | None = None
        self.cells: dict[str, list[str | None]] = {"time": [], "id": [], "x": [], "y": [], "speed": []}
        self.steps: list[str | None] = []
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
            self.steps.append(self._time)
        elif name == self._element:
            self.lines.append(self._parser.CurrentLineNumber)
            self.cells["time"].append(self._time)
            for key in ("id", "x", "y", "speed"):
                self.cells[key].append(attributes.get(key))

    def _end(self, name: str) -> None:
        if name == "timestep":
            self._time = None


def _refuse_degrees(comment: str) -> None:
    if _GEO.search(comment):
        raise ValueError("its coordinates are degrees (fcd-output.geo)")


def _refuse_document_type(*_: object) -> None:
    """Refuse a document type, whose entities can expand a small file without limit."""
    raise ValueError("it defines a document type or entity, which is not supported")
