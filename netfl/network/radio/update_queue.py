"""Transmit queue of updates that are sent whole."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from netfl.network.event_log import EventLog, Outcome
from netfl.network.message import Message
from netfl.network.radio.tx_queue import Frames, TxQueue, Users


class UpdateSource(Protocol):
    """The users who train updates for a queue: see `netfl.network.users.UserPopulation`."""

    version: NDArray[np.int64]
    on_change: Callable[[Users], None]

    def refresh(self, now_s: float) -> None:
        """Let users who were disconnected have the versions that they missed."""

    def next_ready_s(self, users: Users | int) -> NDArray[np.float64]:
        """Return the time at which each user's next update is ready; infinity if none is known, ``[n]``."""

    def start_next(self, users: Users, now_s: float) -> None:
        """Let *users*, whose updates left the queue, begin from a newer version that they have received."""

    def cancel(self, users: Users, base: int | None = None) -> None:
        """Expect no update of *users* from *base*, by default their newest version, as they are cut off for good."""


class _SentUpdates(NamedTuple):
    """Updates as they were sent, ``[n]`` each."""

    base: NDArray[np.int64]
    sent_s: NDArray[np.float64]
    attempts: NDArray[np.int64]


class UpdateQueue(TxQueue):
    """The newest update of each user, sent whole; a `UpdateSource` puts updates in.

    Args:
        ids: Numbers of the users in the network.
        bits: Size of an update as sent, or of its largest frame.
        tower: Name of the tower, for the record.
        log: Event log.

    Attributes:
        source: The users; must be set before the queue is used.
        base: Version from which the update was trained; -1 before the first.
        is_open: Whether the update has neither ended nor been received over the air.
        is_lost: Whether the user was disconnected for good with the update in the queue.
        ready_s: Time at which the update joins the backlog; infinity if there is none.
        sent_s: Start of the first attempt; NaN before.
        attempts: Number of attempts.
        on_air: Whether the update is on the air.
    """

    source: UpdateSource

    def __init__(self, ids: Users, bits: float, tower: str, log: EventLog) -> None:
        self.ids, self.max_bits, self.tower, self.log = ids, bits, tower, log
        size = len(ids)
        self.base = np.full(size, -1, np.int64)
        self.is_open, self.is_lost = np.zeros(size, np.bool_), np.zeros(size, np.bool_)
        self.ready_s, self.sent_s = np.full(size, np.inf), np.full(size, np.nan)
        self.attempts = np.zeros(size, np.int64)
        self.on_air = np.zeros(size, np.bool_)

    def put(self, users: Users, base: NDArray[np.int64], ready_s: NDArray[np.float64]) -> None:
        """Begin an update of each user from *base*, which can be sent from *ready_s* on."""
        self.base[users] = base
        self.is_open[users], self.on_air[users], self.is_lost[users] = True, False, False
        self.attempts[users], self.sent_s[users] = 0, np.nan
        self.ready_s[users] = ready_s

    def abandon(self, users: Users) -> NDArray[np.int64]:
        """Abandon the updates of *users*; return the places of those that end with this: all but those on the air."""
        return np.flatnonzero(self.is_open[users] & ~self.on_air[users])

    def clear(self, users: Users) -> None:
        """Leave *users* without an update."""
        self.is_open[users] = self.on_air[users] = False
        self.ready_s[users] = np.inf

    def bits(self, users: Users) -> float | NDArray[np.float64]:
        """Return the size of each first frame."""
        return self.max_bits

    def launch(self, users: Users, now_s: float) -> Frames:
        """Put the first frames of *users* on the air."""
        self.on_air[users] = True
        self.attempts[users] += 1
        self.sent_s[users] = np.fmin(self.sent_s[users], now_s)
        self.log.uplink_bits += self.max_bits * len(users)
        self.log.event("sent", now_s, user=self.ids[users], node=self.tower, value=self.max_bits)
        return Frames(users, self.max_bits, _SentUpdates(self.base[users], self.sent_s[users], self.attempts[users]))

    def retrying(self, frames: Frames) -> Users:
        """Return the users whose first frame is still the one in *frames*."""
        return frames.users[self._is_current(frames)]

    def end(
        self, frames: Frames, causes: Sequence[str], snr_db: NDArray[np.float64], limit: int | None, now_s: float
    ) -> list[Message]:
        """Take *frames* off the air."""
        self.refresh(now_s)
        current, done = self._is_current(frames), []
        self.on_air[frames.users[current]] = False
        for cause in dict.fromkeys(causes):
            chosen = np.array([each == cause for each in causes])
            over = chosen & current & (not cause or frames.handle.attempts >= (limit or np.inf))
            self._close(frames.users[over])
            done.append(frames.users[over])
            if cause:
                self._end(frames, over, Outcome.of_failure(cause, limit, self.tower), now_s)
                self._end(frames, chosen & ~current, Outcome("superseded", self.tower), now_s)
                self._record_failures(frames, chosen & current & ~over, cause, snr_db, now_s)
        messages = [self._message(frames, place) for place, cause in enumerate(causes) if not cause]
        self.log.in_flight.update(dict.fromkeys(messages))
        self.source.start_next(np.concatenate(done), now_s)
        return messages

    def defer(self, users: Users, until_s: NDArray[np.float64]) -> None:
        """Postpone the frames of *users*."""
        self.ready_s[users] = until_s
        lost = users[np.isinf(until_s)]
        self.is_lost[lost] = True
        self.source.cancel(lost)

    def refresh(self, now_s: float) -> None:
        """Apply changes up to now."""
        self.source.refresh(now_s)

    def finish(self, now_s: float, on_air: Sequence[Frames]) -> None:
        """End all frames at the end of the run."""
        for frames in on_air:
            self._end(frames, ~self._is_current(frames), Outcome("unfinished", self.tower), now_s)
        self._end_open(now_s)

    def _is_current(self, frames: Frames) -> NDArray[np.bool_]:
        """Return whether each update in *frames* is still its user's newest, ``[n]``."""
        users = frames.users
        return np.asarray(self.on_air[users] & (self.base[users] == frames.handle.base))

    def _close(self, users: Users) -> None:
        """Remove the updates of *users*, which have ended or were received."""
        self.is_open[users] = self.on_air[users] = False
        self.ready_s[users] = self.source.next_ready_s(users)

    def _message(self, frames: Frames, place: int) -> Message:
        user, sent = int(self.ids[frames.users[place]]), frames.handle
        sent_s, attempts = float(sent.sent_s[place]), int(sent.attempts[place])
        return Message(user, int(sent.base[place]), self.max_bits, sent_s, attempts, flow=user)

    def _end(self, frames: Frames, chosen: NDArray[np.bool_], outcome: Outcome, now_s: float) -> None:
        self.log.end_updates(outcome, now_s, self.ids[frames.users[chosen]], frames.handle.base[chosen])

    def _record_failures(
        self, frames: Frames, chosen: NDArray[np.bool_], cause: str, snr_db: NDArray[np.float64], now_s: float
    ) -> None:
        self.log.count_failures(int(np.count_nonzero(chosen)), now_s)
        if chosen.any() and self.log.wants("failed"):
            ids = self.ids[frames.users[chosen]]
            self.log.event("failed", now_s, user=ids, node=self.tower, value=snr_db[chosen], detail=cause)

    def _end_open(self, now_s: float) -> None:
        users = np.flatnonzero(self.is_open)
        self.log.end_updates(Outcome("unfinished"), now_s, self.ids[users], self.base[users])
