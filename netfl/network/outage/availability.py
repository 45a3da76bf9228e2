"""Users that are down when an availability file lists them as absent."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Annotated

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import AfterValidator, Field

from netfl.errors import Fault, ScenarioError
from netfl.network.layout import Layout
from netfl.network.outage import NodeAvailability, Outage
from netfl.network.outage._availability_file import (
    AvailabilitySchedule,
    UserSchedule,
    limit_faults,
    past_period_faults,
    read_availability,
    unknown_user_faults,
)
from netfl.network.outage._daily import surrounding_instants
from netfl.streams import Streams
from netfl.types import Law, ScenarioFacts
from netfl.units import Seconds


class Availability(Outage):
    """Users are down while a file lists them as absent; users that are not in it, and all other nodes, are always up.

    The file has the format of the access `availability`, with times in seconds: in CSV ``user,start,times…`` or in JSON
    ``[{"user": 0, "start": "on", "times": [3600, 7200]}]``.  ``netfl export DIR --availability FILE`` writes one of the
    users' outages of any run, whatever their kinds.

    Example::

        kind: availability
        file: scenarios/files/availability.json
        repeat: 1 day
    """

    file: Annotated[Path, AfterValidator(Path.absolute)]
    """The CSV, JSON or Parquet file; a relative path starts at the current directory."""
    repeat: Annotated[Seconds, Field(gt=0)] | None = None
    """Period after which the file repeats; by default each user keeps its state after its last change."""

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        """Yield the errors of the file, line by line, and unknown users."""
        yield from self._read(facts.users)[1]

    def open(self, layout: Layout, streams: Streams) -> NodeAvailability:
        """Read the file.

        Raises:
            ScenarioError: the file has errors.
        """
        rows, faults = self._read(layout.users)
        if faults:
            raise ScenarioError(faults)
        return ScheduledAvailability(AvailabilitySchedule.from_rows(rows, layout.nodes), self._period_s)

    def laws(self) -> tuple[Law, ...]:
        """Claim that nothing is drawn."""
        return (Law.none("all is written down: nothing is drawn"),)

    @property
    def _period_s(self) -> float:
        return np.inf if self.repeat is None else self.repeat

    @cached_property
    def _file(self) -> tuple[list[UserSchedule], list[Fault]]:
        return read_availability(self.file)

    def _read(self, users: int) -> tuple[list[UserSchedule], list[Fault]]:
        """Return the rows of the file, and its errors."""
        rows, faults = self._file
        faults = [*faults, *unknown_user_faults(rows, users), *past_period_faults(rows, self._period_s)]
        return rows, limit_faults(faults)


class ScheduledAvailability(NodeAvailability):
    """States that follow a schedule, once or in every period.

    Args:
        schedule: the schedule of all nodes in one period.
        period_s: length of a period; infinity without repetition.
    """

    def __init__(self, schedule: AvailabilitySchedule, period_s: float) -> None:
        self._schedule, self._period_s = schedule, period_s
        self._count = np.diff(schedule.first)
        self._times_s = np.append(schedule.times, np.inf)

    def up(self, nodes: NDArray[np.int64], time_s: ArrayLike) -> NDArray[np.bool_]:
        """Return the state at the start, inverted after an odd number of changes."""
        passed = self._passed(nodes, self._surrounding_periods_s(nodes, time_s)[0], time_s)
        return np.asarray(self._schedule.start[nodes] ^ (passed % 2 == 1))

    def next_change(self, nodes: NDArray[np.int64], time_s: ArrayLike) -> NDArray[np.float64]:
        """Return the next change: in this period, at its end, or in the next one."""
        began_s, next_s = self._surrounding_periods_s(nodes, time_s)
        passed, count, first = self._passed(nodes, began_s, time_s), self._count[nodes], self._schedule.first[nodes]
        is_within = passed < count
        in_period_s = began_s + self._times_s[np.where(is_within, first + passed, -1)]
        in_next_s = next_s + np.where(count % 2 == 1, 0.0, self._times_s[np.where(count > 0, first, -1)])
        return np.where(is_within, in_period_s, in_next_s)

    def _surrounding_periods_s(
        self, nodes: NDArray[np.int64], time_s: ArrayLike
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the begins of the period of *time_s* and of the next, ``[n]``."""
        time = np.broadcast_to(np.asarray(time_s, float), np.shape(nodes))
        if np.isinf(self._period_s):
            return np.zeros(time.shape), np.full(time.shape, np.inf)
        return surrounding_instants(np.zeros(time.shape), self._period_s, time)

    def _passed(self, nodes: NDArray[np.int64], began_s: NDArray[np.float64], time_s: ArrayLike) -> NDArray[np.int64]:
        """Return the number of each node's changes in this period up to *time_s*, by bisection."""
        low, high = np.zeros(np.shape(nodes), np.int64), self._count[nodes]
        first = self._schedule.first[nodes]
        while (low < high).any():
            middle = (low + high) // 2
            is_past = (low < high) & (began_s + self._times_s[first + middle] <= time_s)
            low, high = np.where(is_past, middle + 1, low), np.where(is_past | (low >= high), high, middle)
        return low
