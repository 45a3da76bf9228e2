"""Transmit queues: the frames that the users of a cell have to send.

`TxQueue` is the contract between a cell and what its users send.  Three queues hold frames: `UpdateQueue` (updates
sent whole), `SegmentedUpdateQueue` (updates sent in packets) and `PacketQueue` (traffic).  Two views hold none:
`MergedTxQueue` combines two queues of the same users, and `TxQueueSubset` serves some users of a queue.  A queue does
not know its cell, so that a user's frames stay when another cell serves it.  A user that moves to another tower has
another queue there, to which its row goes: `UpdateQueue.take_row`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from netfl.network.event_log import Ending, EventLog
from netfl.network.message import Message
from netfl.network.periods import after_rounding
from netfl.network.radio.transmission import Frames
from netfl.types import Bools, Floats, Ints, Users


class TxQueue(ABC):
    """The frames of a group of users, numbered from 0; each user sends its first frame next.

    Attributes:
        ids: numbers of the users in the network, ``[size]``.
        ready_s: time from which each user has a frame to send, which may lie ahead; infinity without one, ``[size]``.
        on_air: whether each user's first frame is on the air, ``[size]``.
        max_bits: size of the largest frame; the mean where sizes follow a distribution without a largest value.
        quiet: whether the queue changes only by what its users send.
        log: record of what becomes of the frames.
    """

    ids: Users
    ready_s: Floats
    on_air: Bools
    max_bits: float
    quiet: bool = False
    log: EventLog

    @abstractmethod
    def bits(self, users: Users) -> float | Floats:
        """Return the size of each user's first frame; one number where all are equal."""

    @abstractmethod
    def lengths(self, now_s: float) -> Ints:
        """Return the number of frames that each user can send now, or is sending, ``[size]``."""

    @abstractmethod
    def launch(self, users: Users, now_s: float) -> Frames:
        """Put the first frames of *users* on the air."""

    @abstractmethod
    def end(self, frames: Frames, causes: Sequence[str], limit: int | None, now_s: float) -> list[Message]:
        """Take *frames* off the air, and return those that were received as messages.

        Args:
            frames: result of `launch`.
            causes: cause of failure of each frame; an empty string if it was received.
            limit: number of attempts that a frame has; ``None`` for no limit.
            now_s: present time.
        """

    @abstractmethod
    def defer(self, users: Users, until_s: Floats) -> None:
        """Postpone the frames of *users*, which wait to send and are disconnected *until_s*; infinity for good."""

    def versions(self, users: Users) -> Ints:
        """Return the version from which the update of each of *users* started, ``[n]``; of a queue of whole updates."""
        raise NotImplementedError(f"{type(self).__name__} has frames that are no updates")

    def withdraw(self, users: Users, ending: Ending, now_s: float) -> None:
        """End the updates of *users*, in training or not, which are not sent; only of a queue of whole updates."""
        raise NotImplementedError(f"{type(self).__name__} has frames that cannot be withdrawn")

    @abstractmethod
    def refresh(self, now_s: float) -> None:
        """Apply changes up to now that have no event of their own."""

    @abstractmethod
    def finish(self, now_s: float, on_air: Sequence[Frames]) -> None:
        """End all frames at the end of the run; *on_air* are those on the air."""

    def check_power(self, users: Users, now_s: float) -> None:  # noqa: B027
        """Note that the batteries of *users* have paid for a transmission, which may switch them off sooner."""


class _MergedHandle(NamedTuple):
    """Frames of each queue, and their places among all frames."""

    frames: tuple[Frames, Frames]
    places: tuple[Ints, Ints]


class MergedTxQueue(TxQueue):
    """Two queues of the same users as one: a user first sends the frame that was ready first.

    Args:
        first: queue that has precedence where both frames were ready at the same time.
    """

    def __init__(self, first: TxQueue, second: TxQueue) -> None:
        self._queues = (first, second)
        self.ids = first.ids
        self.max_bits = max(first.max_bits, second.max_bits)
        self.log = first.log

    @property
    def ready_s(self) -> Floats:  # type: ignore[override]
        """Earlier time of the two queues."""
        return np.minimum(*(queue.ready_s for queue in self._queues))

    @property
    def on_air(self) -> Bools:  # type: ignore[override]
        """True for each user with a frame of either queue on the air."""
        return self._queues[0].on_air | self._queues[1].on_air

    def bits(self, users: Users) -> Floats:
        first, second = (np.broadcast_to(queue.bits(users), len(users)) for queue in self._queues)
        return np.where(self._second_is_next(users), second, first)

    def lengths(self, now_s: float) -> Ints:
        first, second = (queue.lengths(now_s) for queue in self._queues)
        return first + second

    def launch(self, users: Users, now_s: float) -> Frames:
        first_queue, second_queue = self._queues
        second_is_next = self._second_is_next(users)
        first_places = np.flatnonzero(~second_is_next)
        second_places = np.flatnonzero(second_is_next)
        first_frames = first_queue.launch(users[first_places], now_s)
        second_frames = second_queue.launch(users[second_places], now_s)
        bits = np.empty(len(users))
        base = np.empty(len(users), np.int64)
        traffic = np.empty(len(users), object)
        for frames, places in ((first_frames, first_places), (second_frames, second_places)):
            bits[places] = frames.bits
            base[places] = frames.base
            traffic[places] = frames.traffic
        handle = _MergedHandle((first_frames, second_frames), (first_places, second_places))
        return Frames(users, bits, handle, base, traffic.tolist())

    def end(self, frames: Frames, causes: Sequence[str], limit: int | None, now_s: float) -> list[Message]:
        messages: list[Message] = []
        for queue, queue_frames, places in zip(self._queues, *frames.handle, strict=True):
            if places.size:
                queue_causes = [causes[place] for place in places]
                messages += queue.end(queue_frames, queue_causes, limit, now_s)
        return messages

    def defer(self, users: Users, until_s: Floats) -> None:
        for queue in self._queues:
            is_postponed = queue.ready_s[users] < until_s  # a frame that is ready later stays
            queue.defer(users[is_postponed], until_s[is_postponed])

    def refresh(self, now_s: float) -> None:
        for queue in self._queues:
            queue.refresh(now_s)

    def finish(self, now_s: float, on_air: Sequence[Frames]) -> None:
        for index, queue in enumerate(self._queues):
            queue.finish(now_s, [frames.handle.frames[index] for frames in on_air])

    def check_power(self, users: Users, now_s: float) -> None:
        for queue in self._queues:
            queue.check_power(users, now_s)

    def _second_is_next(self, users: Users) -> Bools:
        """Return whether each of *users* sends a frame of the second queue next, ``[n]``."""
        first_s, second_s = (queue.ready_s[users] for queue in self._queues)
        return np.asarray(after_rounding(second_s) < first_s)


class TxQueueSubset(TxQueue):
    """Some users of a queue, for one of several cells that serve it; the queue keeps all frames.

    Args:
        users: their numbers in *queue*, in rising order, ``[size]``.
        hidden: numbers here of users whom another cell serves: they have no frames here, but keep their numbers.
    """

    def __init__(self, queue: TxQueue, users: Users, hidden: Sequence[int] = ()) -> None:
        self._queue = queue
        self._users = users
        self._hidden = list(hidden)
        self.ids = queue.ids[users]
        self.max_bits = queue.max_bits
        self.log = queue.log

    @property
    def ready_s(self) -> Floats:  # type: ignore[override]
        """Times of these users; infinity for hidden ones."""
        ready_s = self._queue.ready_s[self._users]
        ready_s[self._hidden] = np.inf
        return ready_s

    @property
    def on_air(self) -> Bools:  # type: ignore[override]
        """True for each user on the air, but never for hidden ones."""
        on_air = self._queue.on_air[self._users]
        on_air[self._hidden] = False
        return on_air

    def bits(self, users: Users) -> float | Floats:
        return self._queue.bits(self._users[users])

    def lengths(self, now_s: float) -> Ints:
        lengths = self._queue.lengths(now_s)[self._users]
        lengths[self._hidden] = 0
        return lengths

    def launch(self, users: Users, now_s: float) -> Frames:
        return self._queue.launch(self._users[users], now_s)

    def end(self, frames: Frames, causes: Sequence[str], limit: int | None, now_s: float) -> list[Message]:
        return self._queue.end(frames, causes, limit, now_s)

    def defer(self, users: Users, until_s: Floats) -> None:
        self._queue.defer(self._users[users], until_s)

    def refresh(self, now_s: float) -> None:
        self._queue.refresh(now_s)

    def finish(self, now_s: float, on_air: Sequence[Frames]) -> None:
        """End all frames of the whole queue; *on_air* are those of all cells that serve it."""
        self._queue.finish(now_s, on_air)

    def check_power(self, users: Users, now_s: float) -> None:
        self._queue.check_power(self._users[users], now_s)
