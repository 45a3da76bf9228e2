"""Observations of a selection: the keys of a scenario, and the values of one replica during a run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, Protocol

import numpy as np
from pydantic import Field

from netfl.core.spec import Spec
from netfl.types import OBSERVATIONS, ObservationAge, Users
from netfl.units import Seconds

ANSWERED = ("loss", "norm")
"""Values that the learners answer."""
_OF_SERVER = frozenset({*ANSWERED, "age", "samples", "duration_s"})
"""Values that do not come from the simulated users."""


class CheckIn(Spec):
    """Call of the server before each round.

    Users that are connected answer: in a network, those that are up and whose tower is up; in other accesses, those
    that are available in the round.  The users of a cell answer one after another, on a channel of their own, and cells
    at the same time.  Without a network there is one cell.  The round opens once all have answered.
    """

    airtime: Annotated[Seconds, Field(ge=0)] = 0.0
    """Time that each answer takes."""


class Observe(Spec):
    """Values that the server observes before it selects, each with its age.

    ``present`` is the value as the server calls the users, known for nothing.  ``check_in`` is the value in the user's
    last answer to the call, which needs ``check_in``.  ``last_delivery`` is the value as the user's last delivery
    arrived.  A value that no answer or delivery has brought is unknown.
    """

    check_in: CheckIn | None = None
    """The users that answer the call of the server."""
    user_up: ObservationAge | None = None
    """Presence of each user: up or down."""
    snr_db: ObservationAge | None = None
    """SNR at the user's tower, fading included and interference excluded."""
    rate_bps: ObservationAge | None = None
    """Bits of an update over its airtime in the whole band, in the mode that the user would choose."""
    battery_j: ObservationAge | None = None
    """Charge of the user's battery; infinite for a user without one."""
    energy_j: ObservationAge | None = None
    """Energy that the user has spent."""
    distance_m: ObservationAge | None = None
    """Distance to the user's tower."""
    age: Literal["present"] | None = None
    """Rounds since the user's last delivery, which the server knows."""
    loss: Literal["present", "last_delivery"] | None = None
    """Mean training loss of the newest version over the user's examples."""
    norm: Literal["present", "last_delivery"] | None = None
    """Norm of the update that the user would make from the newest version."""
    samples: Literal["present"] | None = None
    """Number of the user's training examples, which it states once."""
    speed: Literal["present"] | None = None
    """Training samples per second of the user, which it states once."""
    duration_s: Literal["present"] | None = None
    """Time from the opening of its round to the arrival of the user's last delivery, which the server knows."""
    backlog: ObservationAge | None = None
    """Frames that the user can send now, or is sending."""
    queues: Literal["present"] | None = None
    """Messages at each output port towards the server, by its link."""

    @property
    def ages(self) -> dict[str, ObservationAge]:
        """The age of each value that is named, by name."""
        ages: dict[str, ObservationAge] = {}
        for name in OBSERVATIONS:
            setting = getattr(self, name)
            if setting is not None:
                ages[name] = "present" if name == "check_in" else setting
        return ages

    @property
    def airtime_s(self) -> float:
        """Time of each answer to the call of the server."""
        if self.check_in is None:
            return 0.0
        return self.check_in.airtime


class ObservationSource(Protocol):
    """The simulated users, from which observed values come."""

    def observe(self, name: str, users: Users) -> Any:
        """Return the present value of *name* of each of *users*, ``[n]``; of ``queues`` the lengths by link."""

    def answer_time_s(self, users: Users, airtime_s: float) -> float:
        """Return how long the answers of *users* to a call take together."""


class Observer:
    """The observed values of the users in one replica, except those that the server or the learners know.

    Args:
        ages: the age of each value, by name.
        airtime_s: time of an answer to the call of the server.
        users: number of users.
        source: the simulated users.
    """

    def __init__(
        self, ages: Mapping[str, ObservationAge], airtime_s: float, users: int, source: ObservationSource | None
    ) -> None:
        self._ages = {name: age for name, age in ages.items() if name not in _OF_SERVER}
        self._airtime_s = airtime_s
        self._users = np.arange(users)
        self._source = source
        self._known = {name: np.full(users, np.nan) for name in self._ages if OBSERVATIONS[name].of_users}

    def call(self) -> tuple[Mapping[str, Any], float]:
        """Call the users; return the values that are known then, and how long the answers take."""
        if self._source is None or not self._ages:
            return {}, 0.0
        values: dict[str, Any] = dict(self._known)
        answer_s = 0.0
        if "check_in" in self._ages:
            has_answered = self._source.observe("check_in", self._users)
            values["check_in"] = has_answered
            answering = np.flatnonzero(has_answered)
            answer_s = self._source.answer_time_s(answering, self._airtime_s)
            for name in self._names("check_in"):
                self._note(name, answering)
        for name in self._names("present"):
            if name != "check_in":
                values[name] = self._source.observe(name, self._users)
        return {name: _copy(value) for name, value in values.items()}, answer_s

    def note_arrival(self, user: int) -> None:
        """Note the values that come with a delivery of *user*, which arrives now."""
        for name in self._names("last_delivery"):
            self._note(name, np.array([user]))

    def _note(self, name: str, users: Users) -> None:
        if self._source is not None and users.size:
            self._known[name][users] = self._source.observe(name, users)

    def _names(self, age: ObservationAge) -> Iterator[str]:
        return (name for name, each in self._ages.items() if each == age)


def _copy(value: Any) -> Any:
    """Return a copy, so that a policy can keep values of former rounds."""
    return value.copy() if isinstance(value, np.ndarray) else dict(value)
