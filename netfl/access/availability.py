"""Users that are available at the times in a file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

import numpy as np
from pydantic import Field, field_validator, model_validator

from netfl.access._direct import DirectAccess, parse_number, shuffled_users
from netfl.errors import Fault, ScenarioError
from netfl.files.cells import TimeScale
from netfl.files.tables import limit_faults
from netfl.network.outage._availability_file import AvailabilityFile, changes_within, schedule_faults
from netfl.network.outage._schedule import AvailabilitySchedule, UserSchedule
from netfl.network.periods import SLACK, STEPS
from netfl.streams import Streams
from netfl.types import AccessContext, Bools, Floats, Ints, Law, ScenarioFacts
from netfl.units import Seconds


class Availability(AvailabilityFile, DirectAccess):
    """Users are available at the times in a file; they are delivered in random order, all or the first few.

    The file has one row for each user, in CSV ``user,start,times…`` or in JSON ``[{"user": 0, "start": "on", "times":
    [5, 9]}]``: the state at time 0 (``on``, ``off``; ``true``, ``false``; 1, 0), and the ascending times at
    which it changes.  A Parquet file has the columns ``user``, ``start`` and ``times``, lists, and is the fastest to
    read.  ``netfl export DIR --availability FILE`` writes one of any run.

    Or the file has one row for each interval [start, end) in which a user is available, ``user,start,end``, with
    numbers, quantities such as ``2 h`` or, with ``origin``, dates.  An empty end is never; a row with neither start nor
    end is a user that is never available.

    Round r is the time from ``(r - 1)`` to ``r`` round lengths, and a user is available in it if it is at its end; a
    change at the very end counts from the next round on.  So a user that starts away and has the times 2 and 5, in
    rounds, is available in the rounds 3, 4 and 5.

    Example::

        kind: availability
        file: scenarios/files/availability.csv
        unit: rounds
        repeat: 20
    """

    unit: Literal["s", "rounds"] = "s"
    """Unit of the times: seconds, of which `round_length` make a round, or rounds."""
    repeat: Annotated[Seconds, Field(gt=0)] | None = None
    """Period after which the file repeats, in that unit; by default each user stays as it is after its last change."""

    _check_unit = field_validator("repeat", mode="before")(parse_number)

    @model_validator(mode="after")
    def _check_origin(self) -> Availability:
        if self.origin is not None and self.unit == "rounds":
            raise ValueError("origin has no effect, as the unit is rounds; set unit: s, or leave origin out")
        return self

    def candidates(self, context: AccessContext, limit: int | None = None) -> Iterator[Ints]:
        rows, faults = self._read(context.users)
        if faults:
            raise ScenarioError(faults)
        schedule = AvailabilitySchedule.from_rows(rows, context.users)
        return shuffled_users(self._availability(schedule, context.rounds), context)

    def rates(self, users: int, streams: Streams) -> Floats | None:
        """Return the share of the period in which each user is available."""
        rows, faults = self._read(users)
        if faults or self.repeat is None:
            return None
        share = np.zeros(users)
        for row in rows:
            ends = np.concatenate([[0.0], row.times, [self.repeat]])
            share[row.user] = _available_spans(np.diff(ends), row.start).sum() / self.repeat
        return share

    def participation_rates(self, users: int, streams: Streams, label_mix: Floats | None = None) -> Floats | None:
        """Return the share of rounds at whose ends each user is available, if the period is a number of rounds."""
        rows, faults = self._read(users)
        if faults or self.repeat is None or not self.has_exact_rates(users):
            return None
        period = self.repeat / self._round_length
        if abs(period - round(period)) > SLACK:
            return None
        share = np.zeros(users)
        after = float(round(period)) + 1.0  # the first round of the next period
        for row in rows:
            times = row.times / self._round_length
            first = np.floor((times + SLACK) / (1.0 - STEPS)) + 1.0  # the first round that ends after each change
            spans = np.diff(np.concatenate([[1.0], np.minimum(first, after), [after]]))
            share[row.user] = _available_spans(spans, row.start).sum() / (after - 1.0)
        return share

    @property
    def candidate_process(self) -> str | None:
        if self.repeat is None:
            return None
        return "cyclic"

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        yield from super().faults(facts)
        _, faults = self._read(facts.users)
        yield from faults

    def warnings(self, context: AccessContext) -> Iterator[str]:
        yield from super().warnings(context)
        yield from (f"access.file: {note}" for note in self.name_notes())
        rows, _ = self._read(context.users)
        end = context.rounds * self._round_length
        if not changes_within(rows, end):
            yield (
                f"access.file: no change in {self.file.name} falls into the run, which ends at {end:g} {self.unit}; "
                "check the unit of its times"
            )

    def laws(self) -> tuple[Law, ...]:
        return (Law.none("the times are given: only the order of the deliveries is drawn"),)

    @property
    def _round_length(self) -> float:
        """The length of a round, in `unit`."""
        if self.unit == "rounds":
            return 1.0
        return self.round_length

    @property
    def scale(self) -> TimeScale:
        return TimeScale(self.origin, self.unit)

    @property
    def period(self) -> float:
        return np.inf if self.repeat is None else self.repeat

    def _read(self, users: int) -> tuple[list[UserSchedule], list[Fault]]:
        """Return the rows of the file, and the errors of a scenario with that many *users*."""
        rows, faults, names = self.content
        faults = faults or limit_faults([*schedule_faults(rows, users, self.period, names)])
        missing = np.setdiff1d(np.arange(users), [row.user for row in rows])
        if missing.size and not faults:
            problem = f"{self.file.name} has no rows for some users"
            faults = [Fault("file", problem, missing.tolist(), f"give a row for each of the {users} users")]
        return rows, faults

    def _availability(self, schedule: AvailabilitySchedule, rounds: int) -> Iterator[Bools]:
        """Yield whether each user is available at the end of each round, by the changes up to that time."""
        # all changes in the order of time, in rounds
        order = np.argsort(schedule.times, kind="stable")
        times = schedule.times[order] / self._round_length
        users = np.repeat(np.arange(len(schedule.start)), np.diff(schedule.first))[order]
        is_available = schedule.start.copy()
        passed = 0
        last = np.inf
        for index in range(1, rounds + 1):
            now = index - (SLACK + STEPS * index)  # a change at the very end counts from the next round on
            if self.repeat is not None:
                now %= self.repeat / self._round_length
            if now < last:  # the next period begins
                is_available = schedule.start.copy()
                passed = 0
            end = int(np.searchsorted(times, now))
            changes = np.bincount(users[passed:end], minlength=len(is_available))
            is_available = is_available ^ (changes % 2 == 1)
            passed = end
            last = now
            yield is_available


def _available_spans(spans: Floats, starts_available: bool) -> Floats:
    """Return every other of the times between changes: those in which a user is available."""
    if starts_available:
        return spans[::2]
    return spans[1::2]
