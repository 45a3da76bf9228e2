"""Users that are down when an availability file lists them as absent."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import numpy as np
from pydantic import Field

from netfl.errors import Fault
from netfl.files.tables import limit_faults
from netfl.network.layout import Layout
from netfl.network.outage import NodeAvailability, Outage
from netfl.network.outage._availability_file import AvailabilityFile, changes_within, schedule_faults
from netfl.network.outage._schedule import AvailabilitySchedule, ScheduledAvailability
from netfl.streams import Streams
from netfl.types import Law, ScenarioFacts
from netfl.units import Seconds


class Availability(AvailabilityFile, Outage):
    """Users are down while a file lists them as absent; users that are not in it, and all other nodes, are always up.

    The file has the format of the access `availability`, with times in seconds: in CSV ``user,start,times…`` or in JSON
    ``[{"user": 0, "start": "on", "times": [3600, 7200]}]``, or intervals of presence, ``user,start,end``.  ``netfl
    export DIR --availability FILE`` writes one of the users' outages of any run, whatever their kinds.

    Example::

        kind: availability
        file: scenarios/files/availability.json
        repeat: 1 day
    """

    repeat: Annotated[Seconds, Field(gt=0)] | None = None
    """Period after which the file repeats; by default each user keeps its state after its last change."""

    @property
    def period(self) -> float:
        return np.inf if self.repeat is None else self.repeat

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        rows, faults, names = self.content
        yield from faults or limit_faults([*schedule_faults(rows, facts.users, self.period, names)])

    def open(self, layout: Layout, streams: Streams) -> NodeAvailability:
        rows = self.content.rows
        return ScheduledAvailability(AvailabilitySchedule.from_rows(rows, layout.nodes), self.period)

    def has_times_within(self, end_s: float) -> bool:
        rows = self.content.rows
        return changes_within(rows, end_s)

    def laws(self) -> tuple[Law, ...]:
        return (Law.none("the times are given: nothing is drawn"),)
