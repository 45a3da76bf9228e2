"""What is on the air: flights, and the ether in which they meet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from netfl.network.periods import SLACK, STEPS

if TYPE_CHECKING:
    from netfl.network.radio.tx_queue import Frames


class Transmission:
    """Frames that are on the air of one channel from one instant to another.

    Args:
        frames: what is sent.
        ids: who sends, by their numbers in the whole network.
        places: where each stands among those who were asked to send.
        tower: name and node number of the tower that it is meant for.
        channel: on which channel.
        start_s: when it begins to arrive there.
        end_s: when it has arrived.
        mode: the mode of the reception in which it is sent.
        limit: attempts that a frame has.
        cut: which of the senders are cut off before it has ended; ``None`` for nobody.

    Attributes:
        rivals: other flights that meet it.
    """

    __slots__ = ("channel", "cut", "end_s", "frames", "ids", "limit", "mode", "places", "rivals", "start_s", "tower")

    def __init__(
        self,
        frames: Frames,
        ids: NDArray[np.int64],
        places: Sequence[int],
        tower: tuple[str, int],
        channel: int,
        start_s: float,
        end_s: float,
        mode: int,
        limit: int | None,
        cut: Sequence[bool] | None,
    ) -> None:
        self.frames, self.ids, self.places, self.tower = frames, ids, places, tower
        self.channel, self.start_s, self.end_s, self.mode = channel, start_s, end_s, mode
        self.limit, self.cut = limit, cut
        self.rivals: list[Transmission] = []


def touch_tolerance_s(flight: Transmission) -> float:
    """By how much others may reach into *flight*, or it into them, by rounding, and still merely touch it."""
    return SLACK * (flight.end_s - flight.start_s) + STEPS * flight.end_s


class SharedChannel:
    """The air in which flights meet: that of one cell, or of all that share their channels."""

    def __init__(self) -> None:
        self._there: dict[int, list[Transmission]] = {}

    def enter(self, flight: Transmission) -> None:
        """*flight* begins: whoever is there at the same time on the same channel is its rival, and it theirs."""
        there = self._there.get(flight.channel)
        if there is None:
            there = self._there[flight.channel] = []
        if there:
            slack_s = touch_tolerance_s(flight)
            for other in there:
                if other.end_s > flight.start_s + slack_s and flight.end_s > other.start_s + slack_s:
                    other.rivals.append(flight)
                    flight.rivals.append(other)
        there.append(flight)

    def leave(self, flight: Transmission) -> None:
        """*flight* has ended."""
        self._there[flight.channel].remove(flight)
