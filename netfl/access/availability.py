"""Users who are there when a file says so."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator, Field, field_validator

from netfl.access._direct import DirectAccess, parse_number, shuffled_users
from netfl.errors import Fault, ScenarioError
from netfl.network.outage._availability_file import (
    limit_faults,
    past_period_faults,
    read_availability,
    unknown_user_faults,
)
from netfl.network.outage._schedule import AvailabilitySchedule, UserSchedule
from netfl.network.periods import SLACK, STEPS
from netfl.streams import Streams
from netfl.types import AccessContext, Law, ScenarioFacts
from netfl.units import Seconds


class Availability(DirectAccess):
    """Users are there when a file says so; those who are there are heard, or the first few of them in random order.

    The file has one row for each user, in CSV ``user,start,times…`` or in JSON ``[{"user": 0, "start": "on", "times":
    [5, 9]}]``: whether it is there at time 0 (``on``, ``off``; ``true``, ``false``; 1, 0), and the rising times at
    which that changes.  A Parquet file has the columns ``user``, ``start`` and ``times``, lists, and is the quickest to
    read.  ``netfl export DIR --availability FILE`` writes one of any run.

    Round r is the time from ``(r - 1)`` to ``r`` round lengths, and a user is there in it if it is there at its end; a
    change at the very end counts from the next round on.  So a user who starts away and has the times 2 and 5, in
    rounds, is there in the rounds 3, 4 and 5.

    Example::

        kind: availability
        file: scenarios/files/availability.csv
        unit: rounds
        repeat: 20
    """

    file: Annotated[Path, AfterValidator(Path.absolute)]
    """The CSV, JSON or Parquet file; a relative path starts at the current directory."""
    unit: Literal["s", "rounds"] = "s"
    """What the times count: seconds on the clock, of which `round_length` make a round, or rounds."""
    repeat: Annotated[Seconds, Field(gt=0)] | None = None
    """After what time all begins anew, in that unit; by default each user stays as it is after its last change."""

    _count = field_validator("repeat", mode="before")(parse_number)

    def heard(self, setting: AccessContext, most: int | None = None) -> Iterator[NDArray[np.int64]]:
        """Those who are there, in random order.

        Raises:
            ScenarioError: what is wrong with the file.
        """
        rows, faults = self._read(setting.users)
        if faults:
            raise ScenarioError(faults)
        return shuffled_users(
            self._present(AvailabilitySchedule.from_rows(rows, setting.users), setting.rounds), setting
        )

    def rates(self, users: int, streams: Streams) -> NDArray[np.float64] | None:
        """The share of a repeated file in which each user is there; not known where nothing repeats."""
        rows, faults = self._read(users)
        if faults or self.repeat is None:
            return None
        share = np.zeros(users)
        for row in rows:
            ends = np.concatenate([[0.0], row.times, [self.repeat]])
            share[row.user] = np.diff(ends)[0 if row.start else 1 :: 2].sum() / self.repeat
        return share

    def heard_rates(
        self, users: int, streams: Streams, label_mix: NDArray[np.float64] | None = None
    ) -> NDArray[np.float64] | None:
        """The share of rounds at whose ends each user is there, where the file repeats after a number of rounds."""
        rows, faults = self._read(users)
        period = 0.5 if self.repeat is None else self.repeat / (1.0 if self.unit == "rounds" else self.round_length)
        if faults or abs(period - round(period)) > SLACK or not self.hears_all(users):
            return None
        share, after = np.zeros(users), float(round(period)) + 1.0
        for row in rows:
            times = row.times / (1.0 if self.unit == "rounds" else self.round_length)
            first = np.floor((times + SLACK) / (1.0 - STEPS)) + 1.0  # the round whose end is the first after each
            spans = np.diff(np.concatenate([[1.0], np.minimum(first, after), [after]]))
            share[row.user] = spans[0 if row.start else 1 :: 2].sum() / (after - 1.0)
        return share

    @property
    def coming(self) -> str | None:
        """Cyclic if it is repeated."""
        return None if self.repeat is None else "cyclic"

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        """What is wrong with the file, line by line; users that there are not, or who are not in it."""
        yield from DirectAccess.faults(self, facts)
        yield from self._read(facts.users)[1]

    def laws(self) -> tuple[Law, ...]:
        """Nothing is drawn but the order."""
        return (Law.none("all is written down: nothing is drawn but the order in which users are heard"),)

    @cached_property
    def _file(self) -> tuple[list[UserSchedule], list[Fault]]:
        """What the file says, read once."""
        return read_availability(self.file)

    def _read(self, users: int) -> tuple[list[UserSchedule], list[Fault]]:
        """The rows of the file, and what keeps it from serving so many *users*."""
        rows, faults = self._file
        faults = [*faults, *unknown_user_faults(rows, users)]
        faults += past_period_faults(rows, np.inf if self.repeat is None else self.repeat)
        missing = np.setdiff1d(np.arange(users), [row.user for row in rows])
        if missing.size and not faults:
            who = ", ".join(map(str, missing[:8])) + (" …" if missing.size > 8 else "")
            problem = f"{self.file.name} tells nothing of user {who}"
            faults.append(Fault("file", problem, None, f"give a row for each of the {users} users"))
        return rows, limit_faults(faults)

    def _present(self, told: AvailabilitySchedule, rounds: int) -> Iterator[NDArray[np.bool_]]:
        """Who is there at the end of each round: changes are taken in as they are passed, from each start on."""
        length = 1.0 if self.unit == "rounds" else self.round_length
        period = np.inf if self.repeat is None else self.repeat / length
        owner = np.repeat(np.arange(len(told.start)), np.diff(told.first))
        order = np.argsort(told.times, kind="stable")
        times, owner = told.times[order] / length, owner[order]
        there, passed, last = told.start.copy(), 0, np.inf
        for index in range(1, rounds + 1):
            slack = SLACK + STEPS * index
            now = index - slack if self.repeat is None else (index - slack) % period
            if now < last:
                there, passed = told.start.copy(), 0
            upto = int(np.searchsorted(times, now))
            there = there ^ (np.bincount(owner[passed:upto], minlength=len(there)) % 2 == 1)
            passed, last = upto, now
            yield there
