"""Transmit queue of updates that are sent whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike

from netfl.network.event_log import Ending, EventLog
from netfl.network.message import Message
from netfl.network.radio.transmission import Frames
from netfl.network.radio.tx_queue import TxQueue
from netfl.network.transport.spec import Segmentation
from netfl.network.updates import OutstandingUpdates, Update, UpdateState, ends_on_newer_version, keeps_user_busy
from netfl.types import Bools, Floats, Ints, Users

# plain numbers, which NumPy stores faster than members of an enumeration
_IN_TRAINING = int(UpdateState.IN_TRAINING)
_WAITING = int(UpdateState.WAITING)
_ON_AIR = int(UpdateState.ON_AIR)
_RECEIVED = int(UpdateState.RECEIVED)
_ENDED = int(UpdateState.ENDED)
_ROW = ("base", "state", "sent_s", "attempts")
"""Arrays of a queue that move with a user."""


class UpdateSource(Protocol):
    """The users of an `UpdateQueue`, which put their updates into it: `netfl.network.users.UserPopulation`.

    Attributes:
        version: newest version that each user has; -1 before the first.
    """

    version: Ints

    def on_change(self, users: Users) -> None:
        """Report that the frames of *users* have changed otherwise than by a request of the cell."""

    def refresh(self, now_s: float) -> None:
        """Apply changes up to now that have no event of their own."""

    def next_ready_s(self, users: Users | int) -> Floats:
        """Return the time at which each user's next update is ready; infinity if none is known, ``[n]``."""

    def start_next(self, users: Users, now_s: float) -> None:
        """Let *users*, whose updates left the queue, begin from a newer version that they have received."""

    def cancel(self, users: Users, base: int | None = None) -> None:
        """Expect no update of *users* from *base*, by default their newest version."""

    def withdraw(self, users: Users, ending: Ending, now_s: float) -> None:
        """End the updates of *users*, in training or not, which are not sent."""

    def check_power(self, users: Users, now_s: float) -> None:
        """Find out again when the batteries of *users* end their trainings."""


class _SentUpdates(NamedTuple):
    """Updates as they were sent, ``[n]`` each."""

    base: Ints
    sent_s: Floats
    attempts: Ints


class UpdateQueue(TxQueue):
    """The newest update of each user, sent whole; a `netfl.network.users.UserPopulation` puts updates in.

    Args:
        ids: numbers of the users in the network.
        bits: size of an update as sent, or of its largest frame.
        outstanding: updates that the server expects.

    Attributes:
        source: the users; must be set before the queue is used.
        base: version from which the update was trained; -1 before the first.
        state: state of the update, a `netfl.network.updates.UpdateState`, ``[size]``.
        is_lost: whether the user was disconnected for good with the update in the queue.
        ready_s: time at which the update joins the backlog; infinity if there is none.
        sent_s: start of the first attempt; NaN before.
        on_air: whether the update is on the air.
    """

    source: UpdateSource

    def __init__(self, ids: Users, bits: float, tower: str, log: EventLog, outstanding: OutstandingUpdates) -> None:
        self.ids = ids
        self.max_bits = bits
        self.tower = tower
        self.log = log
        self.outstanding = outstanding
        size = len(ids)
        self.base = np.full(size, -1, np.int64)
        self.state = np.full(size, _ENDED, np.int64)
        self.is_lost = np.zeros(size, np.bool_)
        self.ready_s = np.full(size, np.inf)
        self.sent_s = np.full(size, np.nan)
        self.attempts = np.zeros(size, np.int64)
        self.on_air = np.zeros(size, np.bool_)
        self._sizes: Floats | None = None  # of the updates in the queue; None while all have the largest size
        self._next_sizes = np.full(size, bits)

    def set_cuts(self, cuts: Sequence[Segmentation]) -> None:
        """Set the frames of the updates that each user begins from now on, ``[size]``."""
        self._next_sizes = np.array([cut.max_bits for cut in cuts])
        if self._sizes is None:
            self._sizes = np.full(len(self.ids), self.max_bits)

    @property
    def next_bits(self) -> Floats:
        """Size of the whole update that each user begins from now on, ``[size]``."""
        return self._next_sizes

    def put(self, users: Users, base: Ints, ready_s: Floats) -> None:
        """Begin an update of each user from *base*, which can be sent from *ready_s* on."""
        self.base[users] = base
        self.state[users] = _IN_TRAINING
        self.on_air[users] = False
        self.is_lost[users] = False
        self.attempts[users] = 0
        self.sent_s[users] = np.nan
        self.ready_s[users] = ready_s
        if self._sizes is not None:
            self._sizes[users] = self._next_sizes[users]
        if self.log.links is not None:
            self.log.links.begin(self.ids[users])

    def supersede(self, users: Users, at_s: Floats) -> None:
        """End those updates of *users* that newer ones end at once; `put` or `clear` comes next."""
        states = self.state[users]
        ends = ends_on_newer_version(states)
        self._end_superseded(users[ends], at_s[ends])
        on_air = users[states == _ON_AIR]
        self.outstanding.leave_behind(self.ids[on_air], self.base[on_air])

    def clear(self, users: Users) -> None:
        """Leave *users* without an update."""
        self.state[users] = _ENDED
        self.on_air[users] = False
        self.ready_s[users] = np.inf

    def is_busy(self, users: Users) -> Bools:
        """Return whether each of *users* is busy with an update, ``[n]``."""
        return keeps_user_busy(self.state[users])

    def bits(self, users: Users) -> float | Floats:
        if self._sizes is None or not len(users):
            return self.max_bits
        sizes = self._sizes[users]
        if (sizes == sizes[0]).all():
            return float(sizes[0])
        return sizes

    def lengths(self, now_s: float) -> Ints:
        can_be_sent = self.on_air | (self.ready_s <= now_s)
        return (keeps_user_busy(self.state) & can_be_sent).astype(np.int64)

    def launch(self, users: Users, now_s: float) -> Frames:
        self.on_air[users] = True
        self.state[users] = _ON_AIR
        self.attempts[users] += 1
        self.sent_s[users] = np.fmin(self.sent_s[users], now_s)
        bits = 0.0 if self.log.is_analogue else self.bits(users)
        if isinstance(bits, float):  # one size for all
            self.log.uplink_bits += bits * len(users)
        else:
            self.log.uplink_bits += float(bits.sum())
        sent = _SentUpdates(self.base[users], self.sent_s[users], self.attempts[users])
        return Frames(users, bits, sent, sent.base)

    def end(self, frames: Frames, causes: Sequence[str], limit: int | None, now_s: float) -> list[Message]:
        self.refresh(now_s)
        updates = [self._update(frames, place) for place, cause in enumerate(causes) if not cause]
        self.outstanding.in_flight.update(dict.fromkeys(updates))
        is_current = self._is_current(frames)
        self._catch_up(frames, ~is_current)
        senders = frames.users[is_current]
        self.on_air[senders] = False
        self.state[senders] = _WAITING  # until the frame turns out to be received, or the last
        leaving_users = []
        for cause in dict.fromkeys(causes):
            has_cause = np.array([frame_cause == cause for frame_cause in causes])
            leaves_queue = has_cause & is_current
            if cause:  # a frame that failed leaves with its last attempt
                leaves_queue &= frames.handle.attempts >= (limit or np.inf)
            users = frames.users[leaves_queue]
            self.state[users] = _ENDED if cause else _RECEIVED
            self.ready_s[users] = self.source.next_ready_s(users)
            leaving_users.append(users)
            if cause:
                self._end(frames, leaves_queue, Ending.of_failure(cause, limit, self.tower), now_s)
                self._end(frames, has_cause & ~is_current, Ending("superseded", self.tower), now_s)
                is_repeated = has_cause & is_current & ~leaves_queue
                self.log.count_failures(int(np.count_nonzero(is_repeated)), now_s)
        self.source.start_next(np.concatenate(leaving_users), now_s)
        return [*updates]

    def defer(self, users: Users, until_s: Floats) -> None:
        self.ready_s[users] = until_s
        lost_users = users[np.isinf(until_s)]
        self.is_lost[lost_users] = True
        self.source.cancel(lost_users)

    def versions(self, users: Users) -> Ints:
        return self.base[users]

    def withdraw(self, users: Users, ending: Ending, now_s: float) -> None:
        self.source.withdraw(users, ending, now_s)

    def refresh(self, now_s: float) -> None:
        self.source.refresh(now_s)

    def take_row(self, users: Users) -> dict[str, Any]:
        """Take the rows of *users*, who leave and do not send, out of the queue: `netfl.network.membership.Row`.

        The time from which an update can be sent does not move: it may be the end of an outage of this tower.
        """
        row = {name: getattr(self, name)[users].copy() for name in _ROW}
        if self._sizes is not None:
            row["sizes"] = self._sizes[users].copy()
        self.base[users] = -1
        self.clear(users)
        return row

    def put_row(self, users: Users, row: Mapping[str, Any]) -> None:
        """Put the rows of users that come from another tower into the slots *users*."""
        for name in _ROW:
            getattr(self, name)[users] = row[name]
        self.is_lost[users] = False
        if self._sizes is not None:
            self._sizes[users] = row["sizes"]

    def has_begun(self, users: Users) -> Bools:
        """Return whether a part of the update of each of *users* has been sent, so that it stays here, ``[n]``.

        A whole update has no parts.
        """
        return np.zeros(len(users), np.bool_)

    def check_power(self, users: Users, now_s: float) -> None:
        self.source.check_power(users, now_s)

    def abort(self, users: Users, ending: Ending, now_s: float) -> None:
        """End the updates of *users*, whose trainings ended early."""
        self.state[users] = _ENDED
        self.ready_s[users] = self.source.next_ready_s(users)
        self.end_updates(ending, now_s, users, self.base[users])

    def finish(self, now_s: float, on_air: Sequence[Frames]) -> None:
        for frames in on_air:
            is_superseded = ~self._is_current(frames)
            self._catch_up(frames, is_superseded)
            self._end(frames, is_superseded, Ending("unfinished", self.tower), now_s)
        users = np.flatnonzero(keeps_user_busy(self.state))
        self.end_updates(Ending("unfinished"), now_s, users, self.base[users])

    def end_updates(
        self, ending: Ending, time_s: ArrayLike, users: Users, base: ArrayLike, *, is_expected: bool = True
    ) -> None:
        """End updates of *users* from *base*; see `OutstandingUpdates.end`."""
        self.outstanding.end(self.log, ending, time_s, self.ids[users], base, is_expected=is_expected)

    def _is_current(self, frames: Frames) -> Bools:
        """Return whether the update of each frame is still the newest of its user, ``[n]``."""
        users = frames.users
        return np.asarray(self.on_air[users] & (self.base[users] == frames.handle.base))

    def _update(self, frames: Frames, place: int) -> Update:
        """Return the update of the frame at *place*, which a tower has received."""
        user = int(self.ids[frames.users[place]])
        bits = frames.bits
        if not isinstance(bits, float):
            bits = float(bits[place])
        sent: _SentUpdates = frames.handle
        return Update(
            user,
            bits,
            user,
            base=int(sent.base[place]),
            sent_s=float(sent.sent_s[place]),
            attempts=int(sent.attempts[place]),
            outstanding=self.outstanding,
            tower=self.tower,
        )

    def _catch_up(self, frames: Frames, is_superseded: Bools) -> None:
        """Note that the frames of superseded updates have left the air."""
        if is_superseded.any():
            self.outstanding.catch_up(self.ids[frames.users[is_superseded]], frames.handle.base[is_superseded])

    def _end(self, frames: Frames, chosen: Bools, ending: Ending, now_s: float) -> None:
        self.end_updates(ending, now_s, frames.users[chosen], frames.handle.base[chosen])

    def _end_superseded(self, users: Users, at_s: Floats) -> None:
        self.end_updates(Ending("superseded"), at_s, users, self.base[users])
