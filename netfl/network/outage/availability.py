"""Users who are down when an availability file says that they are away."""

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
    Row,
    limit_faults,
    past_period_faults,
    read_availability,
    unknown_user_faults,
)
from netfl.network.outage._diurnal_clock import surrounding_instants
from netfl.streams import Streams
from netfl.types import Law, ScenarioFacts
from netfl.units import Seconds


class Availability(Outage):
    """Users are down when a file says that they are away; users who are not in it, and all other nodes, are always up.

    The file is one that the access `availability` reads, with times in seconds: in CSV ``user,start,times…`` or in JSON
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
    """After what time all begins anew; by default each user stays as it is after its last change."""

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        """What is wrong with the file, line by line; users that there are not."""
        yield from self._read(facts.users)[1]

    def open(self, sites: Layout, streams: Streams) -> NodeAvailability:
        """The file at work.

        Raises:
            ScenarioError: what is wrong with the file.
        """
        rows, faults = self._read(sites.users)
        if faults:
            raise ScenarioError(faults)
        return AvailabilityRow(
            AvailabilitySchedule.of(rows, sites.nodes), np.inf if self.repeat is None else self.repeat
        )

    def laws(self) -> tuple[Law, ...]:
        """There are none."""
        return (Law.none("all is written down: nothing is drawn"),)

    @cached_property
    def _file(self) -> tuple[list[Row], list[Fault]]:
        """What the file says, read once."""
        return read_availability(self.file)

    def _read(self, users: int) -> tuple[list[Row], list[Fault]]:
        """The rows of the file, and what is wrong with it."""
        rows, faults = self._file
        faults = [*faults, *unknown_user_faults(rows, users)]
        faults += past_period_faults(rows, np.inf if self.repeat is None else self.repeat)
        return rows, limit_faults(faults)


class AvailabilityRow(NodeAvailability):
    """A timeline that is written down, once or for every period.

    Args:
        told: the presence of all nodes in one period.
        period_s: when it begins anew; infinity if never.
    """

    def __init__(self, told: AvailabilitySchedule, period_s: float) -> None:
        self._told, self._period_s = told, period_s
        self._count = np.diff(told.first)
        self._times_s = np.append(told.times, np.inf)

    def up(self, nodes: NDArray[np.int64], time_s: ArrayLike) -> NDArray[np.bool_]:
        """Whether the start is turned round as often as not."""
        passed = self._passed(nodes, self._began(nodes, time_s)[0], time_s)
        return np.asarray(self._told.start[nodes] ^ (passed % 2 == 1))

    def next_change(self, nodes: NDArray[np.int64], time_s: ArrayLike) -> NDArray[np.float64]:
        """The first change that is not past: of this period, at its end, or of the next."""
        began_s, next_s = self._began(nodes, time_s)
        passed, count, first = self._passed(nodes, began_s, time_s), self._count[nodes], self._told.first[nodes]
        within = passed < count
        here_s = began_s + self._times_s[np.where(within, first + passed, -1)]
        anew_s = next_s + np.where(count % 2 == 1, 0.0, self._times_s[np.where(count > 0, first, -1)])
        return np.where(within, here_s, anew_s)

    def _began(self, nodes: NDArray[np.int64], time_s: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """When the period began that *time_s* lies in, and when the next one does, ``[n]``."""
        time = np.broadcast_to(np.asarray(time_s, float), np.shape(nodes))
        if np.isinf(self._period_s):
            return np.zeros(time.shape), np.full(time.shape, np.inf)
        return surrounding_instants(np.zeros(time.shape), self._period_s, time)

    def _passed(self, nodes: NDArray[np.int64], began_s: NDArray[np.float64], time_s: ArrayLike) -> NDArray[np.int64]:
        """How many of each node's changes in a period are past, found by halving."""
        low, high = np.zeros(np.shape(nodes), np.int64), self._count[nodes]
        first = self._told.first[nodes]
        while (low < high).any():
            middle = (low + high) // 2
            past = (low < high) & (began_s + self._times_s[first + middle] <= time_s)
            low, high = np.where(past, middle + 1, low), np.where(past | (low >= high), high, middle)
        return low
