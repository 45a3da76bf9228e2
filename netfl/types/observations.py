"""Observations: the values that a policy may declare, and the object from which it reads those that it has declared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from netfl.errors import Fault, ScenarioError
from netfl.types.arrays import Users

ObservationAge = Literal["present", "check_in", "last_delivery"]
"""Age of an observed value.

``present``: as the round opens, for nothing.  ``check_in``: as of the user's last answer to the call of the server.
``last_delivery``: as of the arrival of the user's last delivery.
"""


@dataclass(frozen=True, slots=True)
class ObservationInfo:
    """Properties of a value that a policy can observe.

    Args:
        meaning: the value, with its unit.
        is_known: the server knows it by itself, or the user states it once: it costs nothing.
        of_users: there is one value for each user, ``[users]``.
    """

    meaning: str
    is_known: bool = False
    of_users: bool = True


OBSERVATIONS: Mapping[str, ObservationInfo] = {
    "check_in": ObservationInfo("whether each user has answered the call of the server before the round"),
    "user_up": ObservationInfo("whether each user is up"),
    "snr_db": ObservationInfo("SNR at the user's tower, fading included and interference excluded, in dB"),
    "rate_bps": ObservationInfo("bits of an update over its airtime, in the mode that the user would choose"),
    "battery_j": ObservationInfo("charge of the user's battery, in joules; infinite for a user without one"),
    "energy_j": ObservationInfo("energy that the user has spent, in joules"),
    "distance_m": ObservationInfo("distance to the user's tower, in metres"),
    "age": ObservationInfo("rounds since the user's last delivery; the number of the round if it never had one", True),
    "loss": ObservationInfo("mean training loss of the newest version over the user's examples"),
    "norm": ObservationInfo("Euclidean norm of the update that the user would make from the newest version"),
    "samples": ObservationInfo("number of the user's training examples", True),
    "speed": ObservationInfo("training samples per second", True),
    "duration_s": ObservationInfo("time from the opening of its round to the arrival of the last delivery", True),
    "backlog": ObservationInfo("frames that the user can send now, or is sending"),
    "queues": ObservationInfo("messages at each output port towards the server, by its link", of_users=False),
}
"""Values that a policy can observe, by name: those of `netfl.SimulationState`, and what the server knows."""


@dataclass(frozen=True)
class Observed:
    """Values that a policy has declared, read as attributes by the names of `OBSERVATIONS`: ``observed.battery_j``.

    An unknown value is NaN: a user that has not checked in, or has not been delivered yet.

    Args:
        users: number of users.
        values: declared values by name, ``[users]`` each; ``queues`` is a mapping.
    """

    users: int
    values: Mapping[str, Any]

    def __getattr__(self, name: str) -> NDArray[Any]:
        """Return a declared value.

        Raises:
            ScenarioError: the policy has not declared it; the key is relative to the policy.
        """
        if name not in OBSERVATIONS:
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        values = self.__dict__.get("values", {})
        if name not in values:
            declared = ", ".join(values) or "nothing"
            problem = f"the policy reads {name}, but declares {declared}"
            remedy = f"add {name} to `observes` of the selection, or to observe=… of the simulation"
            raise ScenarioError([Fault(f"observe.{name}", problem, None, remedy)])
        value: NDArray[Any] = values[name]
        return value

    @property
    def candidates(self) -> Users:
        """The users that have checked in, or all users if the policy does not observe ``check_in``; ascending."""
        if "check_in" not in self.values:
            return np.arange(self.users)
        return np.flatnonzero(self.values["check_in"])
