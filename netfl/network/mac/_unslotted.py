"""The loop of MACs whose users send independently, at any time.

Next on the way of a frame: `netfl.network.radio.cell.Cell.attempt`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Any

import numpy as np
import simpy

from netfl.network.periods import after_rounding
from netfl.network.radio.cell import Cell
from netfl.network.radio.transmission import Frames
from netfl.types import Bools, Floats, Ints, Users

_NOT_PLANNED = math.nan
"""Time of an attempt that is to be planned where its user goes."""
_NO_USERS = np.empty(0, np.int64)


@dataclass(slots=True, eq=False)
class UnslottedCell:
    """A cell whose users send at any time; the MAC does not wait for the ends of their attempts.

    Users mostly send one by one, so all state is that of single users, and a heap gives the next of them.  All of it is
    that of devices, and moves with them (`netfl.network.radio.device_state.DeviceState`).

    Attributes:
        failures: failed attempts of the current frame, ``[size]``.
        has_failed: whether each user's last attempt, also of an earlier frame, has failed, ``[size]``.
        over_s: end of each user's last attempt, ``[size]``.
    """

    cell: Cell
    failures: Ints = field(init=False)
    has_failed: Bools = field(init=False)
    over_s: Floats = field(init=False)
    send_again: Callable[[int], None] | None = None
    """Called with each user that is due without a frame, to repeat one that was received; ``None`` for no repeats."""
    _replanned: set[int] = field(init=False, default_factory=set)
    """Users that are planned again, although nothing of their frames has changed."""
    _planned_ready_s: list[float] = field(init=False)
    """Time at which the frame was ready for which each user was planned last; NaN before the first, ``[size]``."""
    _results: dict[int, tuple[Bools, int]] = field(init=False, default_factory=dict)
    """Outcomes of the attempt in which each user sends, and the place of the user among them."""
    _next_s: list[float] = field(init=False)
    """Time of the next attempt of each user; infinity for none, ``[size]``."""
    _planned: list[tuple[float, int]] = field(init=False, default_factory=list)
    """Heap of (time, user) of attempts; an entry is valid if it agrees with `_next_s`."""

    def __post_init__(self) -> None:
        size = self.cell.size
        self._next_s = [math.inf] * size
        self.failures = np.zeros(size, np.int64)
        self.has_failed = np.zeros(size, np.bool_)
        self.over_s = np.full(size, -math.inf)
        self._planned_ready_s = [math.nan] * size

    def serve(
        self, plan: Callable[[Users], Sequence[float] | Floats], send: Callable[[Users], None]
    ) -> Generator[simpy.Event, Any, None]:
        """Let each user send at its planned time, independently of the others.

        Users that are due at the same time send together, in the order of their numbers.

        Args:
            plan: ``plan(users)`` returns the time of the next attempt of each; infinity for none.
            send: ``send(users)`` starts their attempts with `send`.
        """
        cell = self.cell
        next_s = self._next_s
        planned = self._planned
        while True:
            # plan users with another frame, or after a failed attempt
            users = self._users_to_plan()
            if users.size:
                for user, attempt_s in zip(users.tolist(), map(float, plan(users)), strict=True):
                    next_s[user] = attempt_s
                    if attempt_s < math.inf:
                        heappush(planned, (attempt_s, user))

            # wait for the first planned attempt, but look again after any change before it
            while planned and planned[0][0] != next_s[planned[0][1]]:
                heappop(planned)
            start_s = planned[0][0] if planned else math.inf
            if start_s > cell.env.now:
                yield cell.wait_for_change(by_s=start_s)
                continue

            # all users that are due now begin to send, except those that are cut off
            due_users = []
            while planned and planned[0][0] <= cell.env.now:
                attempt_s, user = heappop(planned)
                if attempt_s == next_s[user]:
                    next_s[user] = math.inf
                    due_users.append(user)
            if self.send_again is not None:
                due_users = self._repeat_frames(due_users, self.send_again)
            senders = cell.drop_silent(sorted(due_users))
            if senders:
                send(np.array(senders))

    def _repeat_frames(self, due_users: Sequence[int], send_again: Callable[[int], None]) -> list[int]:
        """Let those of *due_users* that have no frame repeat their last; return the others."""
        is_ready = self.cell.ready_s <= after_rounding(self.cell.env.now)
        for user in sorted(due_users):
            if not is_ready[user]:
                send_again(user)
        return [user for user in due_users if is_ready[user]]

    def repeat(self, user: int, frame: Frames, duration_s: float, *, channel: int, mode: int) -> simpy.Event:
        """Let a user send a *frame* again that was received; as `Cell.repeat`."""
        end = self.cell.repeat(user, frame, duration_s, channel=channel, mode=mode)
        self.over_s[user] = self.cell.env.now + duration_s
        self._results[user] = np.asarray(end.value), 0
        return end

    def replan(self, user: int) -> None:
        """Plan a user again, although nothing of its frames has changed."""
        self._replanned.add(user)
        self.cell.wake(np.array([user]))

    def send(
        self, users: Users, limit: int | None, duration_s: Sequence[float] | Floats, **options: Sequence[int] | Ints
    ) -> simpy.Event:
        """Let *users* send for *duration_s* each; *options* are the channel and the mode of each.

        Returns:
            An event that fires with whether each was received, when all have ended.
        """
        self.over_s[users] = self.cell.env.now + np.asarray(duration_s)
        collapsed = {key: collapse_if_equal(values) for key, values in options.items()}
        end = self.cell.attempt(users, limit=limit, duration_s=collapse_if_equal(duration_s), **collapsed)
        received = np.asarray(end.value)  # filled in as the attempts end
        for place, user in enumerate(users.tolist()):
            self._results[user] = received, place
        return end

    def _users_to_plan(self) -> Users:
        """Return the users with another frame, or after a failed attempt; count the failures of their frames."""
        if not self.cell.changed:
            return _NO_USERS
        changed = self.cell.changes()
        ready_s = self.cell.ready_s
        users_to_plan = []
        for user in changed.tolist() if len(changed) == 1 else np.unique(changed).tolist():
            has_changed = self._note_frame(user, float(ready_s[user]))
            if has_changed or user in self._replanned:
                self._replanned.discard(user)
                users_to_plan.append(user)
        return np.array(users_to_plan, np.int64)

    def _note_frame(self, user: int, ready_s: float) -> bool:
        """Note when a user has a frame, and how its last attempt has ended; return whether anything has changed."""
        has_new_frame = ready_s != self._planned_ready_s[user]
        result = self._results.pop(user, None)
        if result is not None:
            received, place = result
            self.has_failed[user] = not received[place]
            has_new_frame = has_new_frame or not self.has_failed[user]
        if has_new_frame:
            self.failures[user] = 0
        elif result is not None:
            self.failures[user] += 1
        self._planned_ready_s[user] = ready_s
        return has_new_frame or result is not None

    def take(self, users: Users) -> Mapping[str, Any]:
        """Take what is known of users who leave, as `DeviceState.take`."""
        ready_s = self.cell.ready_s[users].tolist()
        until_s = after_rounding(self.cell.env.now)
        next_s = []
        for user, user_ready_s in zip(users.tolist(), ready_s, strict=True):
            has_changed = self._note_frame(user, user_ready_s)
            if has_changed or user in self._replanned or user_ready_s > until_s:
                next_s.append(_NOT_PLANNED)
            else:  # it waits for its next attempt, at whatever tower
                next_s.append(self._next_s[user])
            self._replanned.discard(user)
            self._planned_ready_s[user] = math.nan
            self._next_s[user] = math.inf
        row = {
            "failures": self.failures[users],
            "has_failed": self.has_failed[users],
            "over_s": self.over_s[users],
            "next_s": np.array(next_s),
        }
        self.failures[users] = 0
        self.has_failed[users] = False
        self.over_s[users] = -math.inf
        return row

    def put(self, users: Users, row: Mapping[str, Any]) -> None:
        """Put back what is known of users who come, as `DeviceState.put`."""
        self.failures[users] = row["failures"]
        self.has_failed[users] = row["has_failed"]
        self.over_s[users] = row["over_s"]
        ready_s = self.cell.ready_s[users].tolist()
        for user, user_ready_s, next_s in zip(users.tolist(), ready_s, row["next_s"].tolist(), strict=True):
            self._planned_ready_s[user] = user_ready_s  # the frame is the same, although it is ready here from now on
            if math.isnan(next_s):
                self._replanned.add(user)
                continue
            self._next_s[user] = next_s
            if next_s < math.inf:
                heappush(self._planned, (next_s, user))


def collapse_if_equal(values: Any) -> Any:
    """Return one value if all are equal, because the cell is faster with it; else *values* as an array."""
    if len(values) == 1:
        return values[0] if isinstance(values, list) else values[0].item()
    values = np.asarray(values)
    return values[0].item() if (values == values[0]).all() else values
