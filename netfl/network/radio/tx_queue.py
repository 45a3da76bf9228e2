"""Transmit queues: the frames that the users of a cell have to send.

`TxQueue` is the contract between a cell and what its users send.  Three queues hold frames: `UpdateQueue` (updates
sent whole), `SegmentedUpdateQueue` (updates sent in packets) and `PacketQueue` (traffic).  Two views hold none:
`MergedTxQueue` combines two queues of the same users, and `TxQueueSubset` serves some users of a queue.  A queue does
not know its cell, so that a user's frames stay when another cell serves it.
"""

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
    """Frames that some users put on the air at one instant, one each.

    Args:
        users: Numbers of the users in the queue.
        bits: Size of each frame, or of all.
        handle: Data of the queue about these frames.
    """

    __slots__ = ("bits", "handle", "users")

    def __init__(self, users: Users, bits: float | NDArray[np.float64], handle: Any) -> None:
        self.users, self.bits, self.handle = users, bits, handle


class TxQueue(ABC):
    """The frames of a group of users, numbered from 0; each user sends its first frame next.

    Attributes:
        ids: Numbers of the users in the network, ``[size]``.
        ready_s: Time from which each user has a frame to send, which may lie ahead; infinity without one, ``[size]``.
        on_air: Whether each user's first frame is on the air, ``[size]``.
        max_bits: Size of the largest frame; the mean where sizes follow a distribution without a largest value.
        quiet: Whether the queue changes only by what its users send.
    """

    ids: Users
    ready_s: NDArray[np.float64]
    on_air: NDArray[np.bool_]
    max_bits: float
    quiet: bool = False

    @abstractmethod
    def bits(self, users: Users) -> float | NDArray[np.float64]:
        """Return the size of each user's first frame; one number where all are equal."""

    @abstractmethod
    def launch(self, users: Users, now_s: float) -> Frames:
        """Put the first frames of *users* on the air."""

    @abstractmethod
    def retrying(self, frames: Frames) -> Users:
        """Return the users whose first frame is still the one in *frames*."""

    @abstractmethod
    def end(
        self, frames: Frames, causes: Sequence[str], snr_db: NDArray[np.float64], limit: int | None, now_s: float
    ) -> list[Message]:
        """Take *frames* off the air, and return those that were received as messages.

        Args:
            frames: Result of `launch`.
            causes: Cause of failure of each frame; an empty string if it was received.
            snr_db: SNR of each frame, for the record.
            limit: Number of attempts that a frame has; ``None`` for no limit.
            now_s: Present time.
        """

    @abstractmethod
    def defer(self, users: Users, until_s: NDArray[np.float64]) -> None:
        """Postpone the frames of *users*, who wait to send and are disconnected *until_s*; infinity for good."""

    @abstractmethod
    def refresh(self, now_s: float) -> None:
        """Apply changes up to now that have no event of their own."""

    @abstractmethod
    def finish(self, now_s: float, on_air: Sequence[Frames]) -> None:
        """End all frames at the end of the run; *on_air* are those on the air."""


class _MergedHandle(NamedTuple):
    """Frames of each queue, and their places among all frames."""

    frames: tuple[Frames, Frames]
    places: tuple[NDArray[np.int64], NDArray[np.int64]]


class MergedTxQueue(TxQueue):
    """Two queues of the same users as one: a user first sends the frame that was ready first.

    Args:
        first: Queue that has precedence where both frames were ready at the same time.
        second: The other queue.
    """

    def __init__(self, first: TxQueue, second: TxQueue) -> None:
        self._queues = (first, second)
        self.ids, self.max_bits = first.ids, max(first.max_bits, second.max_bits)

    @property
    def ready_s(self) -> NDArray[np.float64]:  # type: ignore[override]
        """Earlier time of the two queues."""
        return np.minimum(*(queue.ready_s for queue in self._queues))

    @property
    def on_air(self) -> NDArray[np.bool_]:  # type: ignore[override]
        """True for each user with a frame of either queue on the air."""
        return self._queues[0].on_air | self._queues[1].on_air

    def bits(self, users: Users) -> NDArray[np.float64]:
        """Return the size of each first frame."""
        first, second = (np.broadcast_to(queue.bits(users), len(users)) for queue in self._queues)
        return np.where(self._second_is_next(users), second, first)

    def launch(self, users: Users, now_s: float) -> Frames:
        """Put the first frames of *users* on the air."""
        second = self._second_is_next(users)
        places = (np.flatnonzero(~second), np.flatnonzero(second))
        frames = tuple(queue.launch(users[place], now_s) for queue, place in zip(self._queues, places, strict=True))
        bits = np.empty(len(users))
        for part, place in zip(frames, places, strict=True):
            bits[place] = part.bits
        return Frames(users, bits, _MergedHandle((frames[0], frames[1]), places))

    def retrying(self, frames: Frames) -> Users:
        """Return the users whose first frame is still the one in *frames*."""
        parts = zip(self._queues, frames.handle.frames, strict=True)
        return np.concatenate([queue.retrying(part) for queue, part in parts])

    def end(
        self, frames: Frames, causes: Sequence[str], snr_db: NDArray[np.float64], limit: int | None, now_s: float
    ) -> list[Message]:
        """Take *frames* off the air."""
        messages: list[Message] = []
        for queue, part, place in zip(self._queues, *frames.handle, strict=True):
            if place.size:
                messages += queue.end(part, [causes[index] for index in place], snr_db[place], limit, now_s)
        return messages

    def defer(self, users: Users, until_s: NDArray[np.float64]) -> None:
        """Postpone the frames of *users*."""
        for queue in self._queues:
            waiting = queue.ready_s[users] < until_s
            queue.defer(users[waiting], until_s[waiting])

    def refresh(self, now_s: float) -> None:
        """Apply changes up to now."""
        for queue in self._queues:
            queue.refresh(now_s)

    def finish(self, now_s: float, on_air: Sequence[Frames]) -> None:
        """End all frames at the end of the run."""
        for index, queue in enumerate(self._queues):
            queue.finish(now_s, [frames.handle.frames[index] for frames in on_air])

    def _second_is_next(self, users: Users) -> NDArray[np.bool_]:
        return np.asarray(self._queues[1].ready_s[users] < self._queues[0].ready_s[users])


class TxQueueSubset(TxQueue):
    """Some users of a queue, for one of several cells that serve it; the queue keeps all frames.

    Args:
        queue: Queue of all users.
        users: Their numbers in *queue*, in rising order, ``[size]``.
        hidden: Numbers here of users whom another cell serves: they have no frames here, but keep their numbers.
    """

    def __init__(self, queue: TxQueue, users: Users, hidden: Sequence[int] = ()) -> None:
        self._queue, self._users, self._hidden = queue, users, list(hidden)
        self.ids, self.max_bits = queue.ids[users], queue.max_bits

    @property
    def ready_s(self) -> NDArray[np.float64]:  # type: ignore[override]
        """Times of these users; infinity for hidden ones."""
        ready_s = self._queue.ready_s[self._users]
        ready_s[self._hidden] = np.inf
        return ready_s

    @property
    def on_air(self) -> NDArray[np.bool_]:  # type: ignore[override]
        """True for each user on the air, but never for hidden ones."""
        on_air = self._queue.on_air[self._users]
        on_air[self._hidden] = False
        return on_air

    def bits(self, users: Users) -> float | NDArray[np.float64]:
        """Return the size of each first frame."""
        return self._queue.bits(self._users[users])

    def launch(self, users: Users, now_s: float) -> Frames:
        """Put the first frames of *users* on the air."""
        return self._queue.launch(self._users[users], now_s)

    def retrying(self, frames: Frames) -> Users:
        """Return the users whose first frame is still the one in *frames*."""
        return np.searchsorted(self._users, self._queue.retrying(frames))

    def end(
        self, frames: Frames, causes: Sequence[str], snr_db: NDArray[np.float64], limit: int | None, now_s: float
    ) -> list[Message]:
        """Take *frames* off the air."""
        return self._queue.end(frames, causes, snr_db, limit, now_s)

    def defer(self, users: Users, until_s: NDArray[np.float64]) -> None:
        """Postpone the frames of *users*."""
        self._queue.defer(self._users[users], until_s)

    def refresh(self, now_s: float) -> None:
        """Apply changes up to now."""
        self._queue.refresh(now_s)

    def finish(self, now_s: float, on_air: Sequence[Frames]) -> None:
        """End all frames of the whole queue; *on_air* are those of all cells that serve it."""
        self._queue.finish(now_s, on_air)


class ChangeNotifier:
    """Users of one cell whose frames have changed since its MAC last asked, with an event for waiting.

    Args:
        env: SimPy environment.
        quiet: Whether nothing changes while nobody sends, so that no event is needed.
    """

    def __init__(self, env: simpy.Environment, *, quiet: bool) -> None:
        self._env, self._quiet = env, quiet
        self._users: list[Users] = []
        self._event = env.event()

    def __bool__(self) -> bool:
        return bool(self._users)

    def add(self, users: Users) -> None:
        """Note that the frames of *users* have changed."""
        if users.size:
            self._users.append(users)
            _trigger(self._event)

    def take(self) -> Users:
        """Return and forget the users whose frames have changed; some may occur twice."""
        users, self._users = self._users, []
        return users[0] if len(users) == 1 else np.concatenate([np.empty(0, np.int64), *users])

    def wait(self, by_s: float) -> simpy.Event:
        """Return an event that fires when there are changes, at once if there are any, at *by_s* at the latest."""
        if self._users:
            return self._env.timeout(0)
        if self._quiet and by_s < np.inf:
            return self._env.timeout(max(0.0, by_s - self._env.now))
        event = self._event = self._env.event()
        if by_s < np.inf:
            call_at(self._env, by_s, lambda _: _trigger(event))
        return event


def _trigger(event: simpy.Event) -> None:
    if not event.triggered:
        event.succeed()
