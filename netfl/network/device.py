"""Classes of devices: which users have which, and how fast each is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from netfl.registry import Spec
from netfl.streams import Streams


class Device(Spec):
    """One class of devices: how many users have it, and how fast it computes.

    A ``share`` is a probability: each user draws its class once, independently of all others and of how many there
    are, so that the numbers of a class differ from replica to replica, as samples of a population do.  ``users`` is
    exact: so many of them, whichever they are, or those that are listed.
    """

    share: Annotated[float, Field(gt=0, le=1)] | None = None
    """The probability that a user has it; over all classes they come to 1."""
    users: Annotated[int, Field(ge=0)] | tuple[Annotated[int, Field(ge=0)], ...] | None = None
    """In its place: exactly how many users have it, drawn once; or the numbers of those that have it."""
    speed: Annotated[float, Field(gt=0)]
    """Training samples per second; with a spread: the median of the class."""
    spread: Annotated[float, Field(ge=0, le=10)] = 0.0
    """Standard deviation of the natural logarithm of the speeds within the class."""

    @model_validator(mode="after")
    def _one_way(self) -> Device:
        """A share, or users."""
        if (self.share is None) == (self.users is None):
            raise ValueError("say how many have it: give share or users, one of them")
        return self

    @property
    def listed(self) -> tuple[int, ...]:
        """The users who are named."""
        return self.users if isinstance(self.users, tuple) else ()

    @property
    def count(self) -> int:
        """How many users have it; 0 where that is drawn."""
        return len(self.listed) if self.users is None or isinstance(self.users, tuple) else self.users


def allot(devices: Mapping[str, Device], users: int, streams: Streams) -> NDArray[np.int64]:
    """The class that each user has, by its place among *devices*, ``[users]``.

    Args:
        devices: all by share, or all by users.
        users: how many there are.
        streams: where the classes are drawn.
    """
    luck = streams.field("device").uniform(np.arange(users))
    shares = [device.share for device in devices.values() if device.share is not None]
    if shares:
        return np.searchsorted(np.cumsum(shares[:-1]), luck, side="right")
    has = np.full(users, -1)
    for place, device in enumerate(devices.values()):
        has[[*device.listed]] = place
    drawn = [0 if device.listed else device.count for device in devices.values()]
    free = np.flatnonzero(has < 0)
    has[free[np.argsort(luck[free], kind="stable")]] = np.repeat(np.arange(len(devices)), drawn)
    return has
