"""Users that are down when an availability file lists them as absent."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import AfterValidator, Field

from netfl.errors import Fault
from netfl.network.layout import Layout
from netfl.network.outage import NodeAvailability, Outage
from netfl.network.outage._availability_file import (
    AvailabilitySchedule,
    ScheduledAvailability,
    UserSchedule,
    limit_faults,
    read_availability,
    schedule_faults,
)
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
        rows, faults = self._file
        yield from limit_faults([*faults, *schedule_faults(rows, facts.users, self._period_s)])

    def open(self, layout: Layout, streams: Streams) -> NodeAvailability:
        rows, _ = self._file
        return ScheduledAvailability(AvailabilitySchedule.from_rows(rows, layout.nodes), self._period_s)

    def laws(self) -> tuple[Law, ...]:
        return (Law.none("the times are given: nothing is drawn"),)

    @property
    def _period_s(self) -> float:
        return np.inf if self.repeat is None else self.repeat

    @cached_property
    def _file(self) -> tuple[list[UserSchedule], list[Fault]]:
        return read_availability(self.file)
