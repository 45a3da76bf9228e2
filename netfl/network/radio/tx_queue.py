"""What the users of one cell have to send: the contract between a cell and the updates or the traffic in it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import simpy
from numpy.typing import NDArray

from netfl.network.clock import call_at
from netfl.network.message import Message

Users = NDArray[np.int64]


class Frames:
    """What some users put on the air at one instant, a frame each.

    Args:
        users: who, by their numbers in the cell.
        bits: the size of each frame, or of all.
        told: what the load remembers of them.
    """

    __slots__ = ("bits", "told", "users")

    def __init__(self, users: Users, bits: float | NDArray[np.float64], told: Any) -> None:
        self.users, self.bits, self.told = users, bits, told


class TxQueue(ABC):
    """The frames of one cell's users, who are numbered from 0; of each user one frame is first, and goes next.

    Attributes:
        ids: the users' numbers in the whole network, ``[size]``.
        ready_s: from when on each user has something to send, which may lie ahead; infinity if nothing, ``[size]``.
        on_air: whether each user's first frame is on the air, ``[size]``.
        most_bits: the size of the largest frame; the mean where sizes are drawn from a law without a largest.
        quiet: whether nothing of this ever changes but by a user's own sending.
    """

    ids: Users
    ready_s: NDArray[np.float64]
    on_air: NDArray[np.bool_]
    most_bits: float
    quiet: bool = False

    @abstractmethod
    def bits(self, users: Users) -> float | NDArray[np.float64]:
        """The size of each user's first frame; one number where all are alike."""

    @abstractmethod
    def launch(self, users: Users, now_s: float) -> Frames:
        """The first frames of *users* go on the air."""

    @abstractmethod
    def still(self, frames: Frames) -> Users:
        """The users who are still at the frame that they sent."""

    @abstractmethod
    def end(
        self, frames: Frames, causes: Sequence[str], snr_db: NDArray[np.float64], limit: int | None, now_s: float
    ) -> list[Message]:
        """*frames* leave the air; those without a cause of failure were received, and are given back as messages.

        Args:
            frames: what was launched.
            causes: why each was not received, or an empty word.
            snr_db: what each was heard at, for the record.
            limit: attempts that a frame has; ``None`` for no limit.
            now_s: when.
        """

    @abstractmethod
    def defer(self, users: Users, until_s: NDArray[np.float64]) -> None:
        """*users*, who wait to send, are cut off *until_s*; infinity for good."""

    @abstractmethod
    def refresh(self, now_s: float) -> None:
        """Take note of what has come about by now without anybody looking."""

    @abstractmethod
    def finish(self, now_s: float, on_air: Sequence[Frames]) -> None:
        """The run ends: so does everything that is open, some of it *on_air*."""


# Updates and traffic of the same users: whichever of a user's frames was ready first goes first.


class _Halves(NamedTuple):
    """Frames of each load, and where they stand among all."""

    frames: tuple[Frames, Frames]
    places: tuple[NDArray[np.int64], NDArray[np.int64]]


class MergedTxQueue(TxQueue):
    """Two loads of the same users as one.

    Args:
        first: goes first where both have been ready for equally long.
        second: the other.
    """

    def __init__(self, first: TxQueue, second: TxQueue) -> None:
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


# What a MAC has not been told yet: the users whose frames have come, gone or failed, and a bell for when there are.


class ChangeNotifier:
    """The changes of one cell.

    Args:
        env: the clock.
        quiet: whether nothing ever changes while nobody sends, so that no bell need be watched.
    """

    def __init__(self, env: simpy.Environment, *, quiet: bool) -> None:
        self._env, self._quiet = env, quiet
        self._users: list[Users] = []
        self._bell = env.event()

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self._users)

    def add(self, users: Users) -> None:
        """The entries of *users* have changed."""
        if users.size:
            self._users.append(users)
            _ring(self._bell)

    def take(self) -> Users:
        """The users whose entries have changed since the last time; some perhaps twice."""
        users, self._users = self._users, []
        return users[0] if len(users) == 1 else np.concatenate([np.empty(0, np.int64), *users])

    def wait(self, by_s: float) -> simpy.Event:
        """An event that fires when there are any, and at *by_s* at the latest; at once if there are."""
        if self._users:
            return self._env.timeout(0)
        if self._quiet and by_s < np.inf:
            return self._env.timeout(max(0.0, by_s - self._env.now))
        bell = self._bell = self._env.event()
        if by_s < np.inf:
            call_at(self._env, by_s, lambda _: _ring(bell))
        return bell


def _ring(bell: simpy.Event) -> None:
    """Wake whoever waits for *bell*, once."""
    if not bell.triggered:
        bell.succeed()
