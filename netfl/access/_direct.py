"""What all accesses that are given directly share: a clock of even rounds, and a fate for every update."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Generator, Iterator
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from netfl import streams
from netfl.access import Access
from netfl.types import Delivery, Report, Round, Setting
from netfl.units import Seconds

_BLOCK = 1 << 16
"""Numbers that are drawn at a time."""


class Direct(Access):
    """An access that is told, round by round, who is heard; every user starts each round from its newest version."""

    round_length: Annotated[Seconds, Field(gt=0)] = 1.0
    """How long a round takes; round ``r`` closes at ``r`` times this."""

    @abstractmethod
    def heard(self, setting: Setting) -> Iterator[NDArray[np.int64]]:
        """The users heard in each of the wanted rounds, in the order in which they are heard."""

    def rounds(self, setting: Setting) -> Generator[Round, Report | None, None]:
        """Put what `heard` says on the clock: the updates of a round arrive evenly spaced, the last as it closes."""
        for index, users in enumerate(self.heard(setting), start=1):
            opened_s, closed_s = (index - 1) * self.round_length, index * self.round_length
            arrived_s = np.linspace(opened_s, closed_s, len(users) + 1)[1:]
            _record(setting, index, users, arrived_s, (opened_s, closed_s))
            yield Round(
                index,
                opened_s,
                closed_s,
                tuple(
                    Delivery(user, index - 1, opened_s, time_s)
                    for user, time_s in zip(users.tolist(), arrived_s.tolist(), strict=True)
                ),
                oldest=index,
                uplink_bits=len(users) * setting.uplink_bits,
                downlink_bits=setting.downlink_bits,
            )


def uniforms(field: streams.Field, users: NDArray[np.int64], rounds: int) -> Iterator[NDArray[np.float64]]:
    """A uniform number for each of *users*, for each round from 1 on; drawn in blocks, the same in any block."""
    size = max(1, _BLOCK // len(users))
    for start in range(1, rounds + 1, size):
        yield from field.uniform(users, np.arange(start, min(start + size, rounds + 1))[:, None])


def _record(
    setting: Setting,
    index: int,
    users: NDArray[np.int64],
    arrived_s: NDArray[np.float64],
    span_s: tuple[float, float],
) -> None:
    """Record the broadcast, and the one fate of every user's update: those not heard are overtaken by the next."""
    opened_s, closed_s = span_s
    recorder = setting.recorder
    if recorder.wants("broadcast"):
        recorder.event("broadcast", opened_s, round=index, node="server", value=setting.downlink_bits)
    recorder.event("delivered", arrived_s, round=index, user=users, node="server")
    unheard = np.ones(setting.users, bool)
    unheard[users] = False
    fate = "superseded" if index < setting.rounds else "unfinished"
    recorder.event(fate, closed_s, round=index, user=np.flatnonzero(unheard))
