"""Updates and traffic of the same users: whichever of a user's frames was ready first goes first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from netfl.network.load import Frames, Load, Users
from netfl.network.message import Message


class _Halves(NamedTuple):
    """Frames of each load, and where they stand among all."""

    frames: tuple[Frames, Frames]
    places: tuple[NDArray[np.int64], NDArray[np.int64]]


class Both(Load):
    """Two loads of the same users as one.

    Args:
        first: goes first where both have been ready for equally long.
        second: the other.
    """

    def __init__(self, first: Load, second: Load) -> None:
        self._loads = (first, second)
        self.ids, self.most_bits = first.ids, max(first.most_bits, second.most_bits)

    @property
    def ready_s(self) -> NDArray[np.float64]:  # type: ignore[override]
        """The earlier of the two."""
        return np.minimum(*(load.ready_s for load in self._loads))

    @property
    def on_air(self) -> NDArray[np.bool_]:  # type: ignore[override]
        """Whether either is."""
        return self._loads[0].on_air | self._loads[1].on_air

    def bits(self, users: Users) -> NDArray[np.float64]:
        """The size of the frame that goes next."""
        first, second = (np.broadcast_to(load.bits(users), len(users)) for load in self._loads)
        return np.where(self._later(users), second, first)

    def launch(self, users: Users, now_s: float) -> Frames:
        """Each user's earlier frame."""
        later = self._later(users)
        places = (np.flatnonzero(~later), np.flatnonzero(later))
        frames = tuple(load.launch(users[place], now_s) for load, place in zip(self._loads, places, strict=True))
        bits = np.empty(len(users))
        for each, place in zip(frames, places, strict=True):
            bits[place] = each.bits
        return Frames(users, bits, _Halves((frames[0], frames[1]), places))

    def still(self, frames: Frames) -> Users:
        """As each load says of its own."""
        return np.concatenate([load.still(half) for load, half in zip(self._loads, frames.told.frames, strict=True)])

    def end(
        self, frames: Frames, causes: Sequence[str], snr_db: NDArray[np.float64], limit: int | None, now_s: float
    ) -> list[Message]:
        """Each load ends its own."""
        messages: list[Message] = []
        for load, half, place in zip(self._loads, *frames.told, strict=True):
            if place.size:
                messages += load.end(half, [causes[index] for index in place], snr_db[place], limit, now_s)
        return messages

    def defer(self, users: Users, until_s: NDArray[np.float64]) -> None:
        """Those who wait, wait longer."""
        for load in self._loads:
            waiting = load.ready_s[users] < until_s
            load.defer(users[waiting], until_s[waiting])

    def refresh(self, now_s: float) -> None:
        """Both."""
        for load in self._loads:
            load.refresh(now_s)

    def finish(self, now_s: float, on_air: Sequence[Frames]) -> None:
        """Both."""
        for index, load in enumerate(self._loads):
            load.finish(now_s, [frames.told.frames[index] for frames in on_air])

    def _later(self, users: Users) -> NDArray[np.bool_]:
        """Whether the second load's frame goes first."""
        return np.asarray(self._loads[1].ready_s[users] < self._loads[0].ready_s[users])
