"""Transmit queue of updates that are sent whole."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from netfl.network.event_log import EventLog, Outcome
from netfl.network.message import Message
from netfl.network.radio.tx_queue import Frames, TxQueue, Users
from netfl.network.transport.spec import Segmentation
from netfl.types import Bools, Floats, Ints

if TYPE_CHECKING:
    from netfl.network.users import UserPopulation


class _SentUpdates(NamedTuple):
    """Updates as they were sent, ``[n]`` each."""

    base: Ints
    sent_s: Floats
    attempts: Ints


class UpdateQueue(TxQueue):
    """The newest update of each user, sent whole; a `netfl.network.users.UserPopulation` puts updates in.

    Args:
        ids: Numbers of the users in the network.
        bits: Size of an update as sent, or of its largest frame.

    Attributes:
        source: The users; must be set before the queue is used.
        base: Version from which the update was trained; -1 before the first.
        is_open: Whether the update has neither ended nor been received over the air.
        is_lost: Whether the user was disconnected for good with the update in the queue.
        ready_s: Time at which the update joins the backlog; infinity if there is none.
        sent_s: Start of the first attempt; NaN before.
        on_air: Whether the update is on the air.
    """

    source: UserPopulation

    def __init__(self, ids: Users, bits: float, tower: str, log: EventLog) -> None:
        self.ids, self.max_bits, self.tower, self.log = ids, bits, tower, log
        size = len(ids)
        self.base = np.full(size, -1, np.int64)
        self.is_open, self.is_lost = np.zeros(size, np.bool_), np.zeros(size, np.bool_)
        self.ready_s, self.sent_s = np.full(size, np.inf), np.full(size, np.nan)
        self.attempts = np.zeros(size, np.int64)
        self.on_air = np.zeros(size, np.bool_)
        self._sizes: Floats | None = None  # of the updates in the queue; None while all have the largest size
        self._next_sizes = np.full(size, bits)

    def set_cuts(self, cuts: Sequence[Segmentation]) -> None:
        """Set the frames of the updates that each user begins from now on, ``[size]``."""
        self._next_sizes = np.array([cut.max_bits for cut in cuts])
        if self._sizes is None:
            self._sizes = np.full(len(self.ids), self.max_bits)

    def put(self, users: Users, base: Ints, ready_s: Floats) -> None:
        """Begin an update of each user from *base*, which can be sent from *ready_s* on."""
        self.base[users] = base
        self.is_open[users], self.on_air[users], self.is_lost[users] = True, False, False
        self.attempts[users], self.sent_s[users] = 0, np.nan
        self.ready_s[users] = ready_s
        if self._sizes is not None:
            self._sizes[users] = self._next_sizes[users]

    def supersede(self, users: Users, at_s: Floats) -> None:
        """End the updates of *users* that are not on the air, as newer ones follow; `put` or `clear` comes next."""
        waiting = self.is_open[users] & ~self.on_air[users]
        self._end_superseded(users[waiting], at_s[waiting])

    def clear(self, users: Users) -> None:
        """Leave *users* without an update."""
        self.is_open[users] = self.on_air[users] = False
        self.ready_s[users] = np.inf

    def bits(self, users: Users) -> float | Floats:
        if self._sizes is None or not len(users):
            return self.max_bits
        sizes = self._sizes[users]
        return float(sizes[0]) if (sizes == sizes[0]).all() else sizes

    def lengths(self, now_s: float) -> Ints:
        return (self.is_open & (self.on_air | (self.ready_s <= now_s))).astype(np.int64)

    def launch(self, users: Users, now_s: float) -> Frames:
        self.on_air[users] = True
        self.attempts[users] += 1
        self.sent_s[users] = np.fmin(self.sent_s[users], now_s)
        bits = self.bits(users)
        self.log.uplink_bits += bits * len(users) if isinstance(bits, float) else float(bits.sum())
        self.log.event("sent", now_s, user=self.ids[users], node=self.tower, value=bits)
        return Frames(users, bits, _SentUpdates(self.base[users], self.sent_s[users], self.attempts[users]))

    def end(
        self, frames: Frames, causes: Sequence[str], snr_db: Floats, limit: int | None, now_s: float
    ) -> list[Message]:
        self.refresh(now_s)
        current, done = self._is_current(frames), []
        self.on_air[frames.users[current]] = False
        for cause in dict.fromkeys(causes):
            chosen = np.array([each == cause for each in causes])
            over = chosen & current & (not cause or frames.handle.attempts >= (limit or np.inf))
            users = frames.users[over]
            self.is_open[users] = self.on_air[users] = False
            self.ready_s[users] = self.source.next_ready_s(users)
            done.append(users)
            if cause:
                self._end(frames, over, Outcome.of_failure(cause, limit, self.tower), now_s)
                self._end(frames, chosen & ~current, Outcome("superseded", self.tower), now_s)
                self._record_failures(frames, chosen & current & ~over, cause, snr_db, now_s)
        messages = [self._message(frames, place) for place, cause in enumerate(causes) if not cause]
        self.log.in_flight.update(dict.fromkeys(messages))
        self.source.start_next(np.concatenate(done), now_s)
        return messages

    def defer(self, users: Users, until_s: Floats) -> None:
        self.ready_s[users] = until_s
        lost = users[np.isinf(until_s)]
        self.is_lost[lost] = True
        self.source.cancel(lost)

    def refresh(self, now_s: float) -> None:
        self.source.refresh(now_s)

    def check_power(self, users: Users, now_s: float) -> None:
        self.source.check_power(users, now_s)

    def abort(self, users: Users, outcome: Outcome, now_s: float) -> None:
        """End the updates of *users*, whose trainings ended early, with *outcome*."""
        self.is_open[users] = False
        self.ready_s[users] = self.source.next_ready_s(users)
        self.log.end_updates(outcome, now_s, self.ids[users], self.base[users])

    def finish(self, now_s: float, on_air: Sequence[Frames]) -> None:
        for frames in on_air:
            self._end(frames, ~self._is_current(frames), Outcome("unfinished", self.tower), now_s)
        users = np.flatnonzero(self.is_open)
        self.log.end_updates(Outcome("unfinished"), now_s, self.ids[users], self.base[users])

    def _is_current(self, frames: Frames) -> Bools:
        users = frames.users
        return np.asarray(self.on_air[users] & (self.base[users] == frames.handle.base))

    def _message(self, frames: Frames, place: int) -> Message:
        user, sent = int(self.ids[frames.users[place]]), frames.handle
        sent_s, attempts = float(sent.sent_s[place]), int(sent.attempts[place])
        bits = frames.bits if isinstance(frames.bits, float) else float(frames.bits[place])
        return Message(user, int(sent.base[place]), bits, sent_s, attempts, flow=user)

    def _end(self, frames: Frames, chosen: Bools, outcome: Outcome, now_s: float) -> None:
        self.log.end_updates(outcome, now_s, self.ids[frames.users[chosen]], frames.handle.base[chosen])

    def _record_failures(self, frames: Frames, chosen: Bools, cause: str, snr_db: Floats, now_s: float) -> None:
        self.log.count_failures(int(np.count_nonzero(chosen)), now_s)
        if chosen.any() and self.log.wants("failed"):
            ids = self.ids[frames.users[chosen]]
            self.log.event("failed", now_s, user=ids, node=self.tower, value=snr_db[chosen], detail=cause)

    def _end_superseded(self, users: Users, at_s: Floats) -> None:
        self.log.end_updates(Outcome("superseded"), at_s, self.ids[users], self.base[users])
