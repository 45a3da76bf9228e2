"""Writer of the Trace Event Format, which Perfetto and Chrome's own viewer read.

A *group* (the format's process) holds tracks (its threads).  Slices of one track may not overlap: one that would goes
on a further track of the same name.  Times are counted in whole nanoseconds, and written in microseconds.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from operator import itemgetter
from typing import NamedTuple, TextIO

GROUPS = ("server", "cells", "links", "users", "outages")
"""Groups in the order in which they are shown."""
NS_PER_S = 1_000_000_000
LATEST_S = 2**63 / NS_PER_S
"""Latest time of a trace: Perfetto counts nanoseconds in 64 bits, which is 292 years."""
_LANES = 1000


class Track(NamedTuple):
    """A row of the display: its group, one of `GROUPS`, and its name."""

    group: str
    name: str


Mark = tuple[int, int, int]
"""End of an arrow: the beginning of a slice in nanoseconds, and the numbers of its group and track."""


def nanoseconds(time_s: float) -> int:
    """Return a simulated time in whole nanoseconds.

    >>> nanoseconds(1e7 + 0.25)
    10000000250000000
    """
    whole = int(time_s)
    return whole * NS_PER_S + round((time_s - whole) * NS_PER_S)


def _us(time_ns: int) -> str:
    """Return nanoseconds as microseconds, exactly."""
    return f"{time_ns // 1000}.{time_ns % 1000:03d}"


@lru_cache(1 << 16)
def _text(text: str) -> str:
    return json.dumps(text)


class TraceEvents:
    """Writer of slices, arrows and counters, which may come in any order of time; *facts* are about the whole trace.

    Attributes:
        slices: number of slices so far.
    """

    def __init__(self, file: TextIO, facts: Mapping[str, object]) -> None:
        self._file = file
        self._arrows = 0
        self.slices = 0
        self._lanes: dict[Track, list[list[int]]] = {}  # number and end of each track of one name
        self._count = 0
        file.write(f'{{"displayTimeUnit":"ms","otherData":{json.dumps(facts)},"traceEvents":[')
        names = []
        order = []
        for group, name in enumerate(GROUPS, 1):
            names.append(_metadata("process_name", group, 0, f'"name":"{name}"'))
            order.append(_metadata("process_sort_index", group, 0, f'"sort_index":{group}'))
        file.write("\n" + ",\n".join(names + order))

    def slice(self, track: Track, name: str, begin_s: float, end_s: float, details: str = "") -> Mark:
        """Write a slice, and return its mark for arrows.

        It ends at its beginning if *end_s* is earlier.  The *details* are further facts: the inside of a JSON object.
        """
        begin = nanoseconds(begin_s)
        end = max(begin, nanoseconds(end_s))
        group = GROUPS.index(track.group) + 1
        number = self._lane(track, begin, end)
        self._write(
            f'{{"ph":"X","name":{_text(name)},"cat":"{track.group}","pid":{group},"tid":{number},'
            f'"ts":{_us(begin)},"dur":{_us(end - begin)},"args":{{{details}}}}}'
        )
        self.slices += 1
        return begin, group, number

    def arrows(self, name: str, marks: Sequence[Mark]) -> None:
        """Connect slices in the order in which they begin."""
        self._arrows += 1
        last = len(marks) - 1
        for step, (begin, group, number) in enumerate(sorted(marks, key=itemgetter(0))):
            if step == last:
                phase = '"f","bp":"e"'  # finish, at the slice that encloses its time
            elif step:
                phase = '"t"'
            else:
                phase = '"s"'
            self._write(
                f'{{"ph":{phase},"name":"{name}","cat":"update","id":{self._arrows},"pid":{group},'
                f'"tid":{number},"ts":{_us(begin)}}}'
            )

    def counter(self, name: str, time_s: float, value: float) -> None:
        """Write a value of a counter of the server."""
        at = _us(nanoseconds(time_s))
        self._write(f'{{"ph":"C","name":{_text(name)},"pid":1,"tid":0,"ts":{at},"args":{{"value":{value:.9g}}}}}')

    def close(self) -> None:
        """Write the end of the file."""
        self._file.write("\n]}\n")

    def _lane(self, track: Track, begin: int, end: int) -> int:
        """Return the number of the first track of that name that is free from *begin* on, and occupy it until *end*."""
        lanes = self._lanes.setdefault(track, [])
        for lane in lanes:
            if lane[1] <= begin:
                lane[1] = end
                return lane[0]
        self._count += 1
        lanes.append([self._count, end])
        group = GROUPS.index(track.group) + 1
        name = track.name
        if len(lanes) > 1:
            name = f"{name} ({len(lanes)})"
        self._write(_metadata("thread_name", group, self._count, f'"name":{json.dumps(name)}'))
        rank = _number_in(track.name) * _LANES + min(len(lanes), _LANES) - 1
        self._write(_metadata("thread_sort_index", group, self._count, f'"sort_index":{rank}'))
        return self._count

    def _write(self, line: str) -> None:
        self._file.write(f",\n{line}")


def _number_in(name: str) -> int:
    """Return the first number in the name of a track, by which the tracks of a group are sorted; 0 without one."""
    number = re.search("[0-9]+", name)
    if number is None:
        return 0
    return min(int(number[0]), 1_000_000)


def _metadata(kind: str, group: int, number: int, details: str) -> str:
    return f'{{"ph":"M","name":"{kind}","pid":{group},"tid":{number},"args":{{{details}}}}}'
