"""The loop of MACs whose users send independently, in slots.

Next on the way of a frame: `netfl.network.radio.cell.Cell.attempt`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import simpy

from netfl.network.mac._unslotted import collapse_if_equal
from netfl.network.periods import period_from, periods_from
from netfl.network.radio.cell import Cell
from netfl.types import Bools, Ints, Users

NEVER = np.iinfo(np.int64).max
"""Number of a slot that never comes."""
_NO_USERS = np.empty(0, np.int64)


@dataclass(slots=True, eq=False)
class SlottedCell:
    """A cell whose users begin to send at the beginning of a slot: slot k begins at k · slot_s.

    Senders are independent: a frame that lasts longer than its slot, or arrives later, delays no other user, and the
    medium decides what it overlaps with.  A user has one frame on the air at a time: its next slot begins when the last
    frame has ended at the tower, or later.

    Args:
        slot_s: length of a slot, which should hold a frame and its propagation delay.
        max_attempts: attempts that an update has; ``None`` is no limit.
        pick_channel: ``pick_channel(users)`` returns the channel of each sender; ``None`` if there is one channel only.
    """

    cell: Cell
    slot_s: float
    max_attempts: int | None = None
    pick_channel: Callable[[Users], Users] | None = None
    _free_from: Ints = field(init=False)
    """First slot after the last one in which each user began to send, ``[size]``."""
    end_slot: Callable[[Users, Bools], None] | None = None
    """``end_slot(users, received)`` is called as soon as frames of *users* have ended, before they choose again."""
    _results: dict[int, tuple[Bools, int]] = field(init=False, default_factory=dict)
    """Outcomes of the attempt in which each user sends, and the place of the user among them."""

    def __post_init__(self) -> None:
        self._free_from = np.zeros(self.cell.size, np.int64)

    def channels(self, users: Users) -> Users:
        """Return the channel on which each of *users* sends now."""
        if self.pick_channel is None:
            return np.zeros(len(users), np.int64)
        return self.pick_channel(users)

    def start_s(self, slot: int) -> float:
        """Return the start of a slot; infinity for ``NEVER``."""
        return slot * self.slot_s if slot < NEVER else np.inf

    def joining_slots(self, users: Users) -> tuple[Users, Users]:
        """Return those of *users* that have a frame, now or later, and the first slot in which each may begin."""
        if len(users) == 1:  # the usual case, for which arrays cost more than the rest
            user = int(users[0])
            from_s = max(float(self.cell.ready_s[user]), self.cell.env.now)
            if from_s == math.inf:
                return _NO_USERS, _NO_USERS
            first_slot = max(period_from(from_s, self.slot_s), int(self._free_from[user]))
            return users, np.array([first_slot])
        ready_s = self.cell.ready_s[users]
        has_frame = ready_s < np.inf
        if not has_frame.all():
            users = users[has_frame]
            ready_s = ready_s[has_frame]
        first_slots = periods_from(np.maximum(ready_s, self.cell.env.now), self.slot_s)
        return users, np.maximum(first_slots, self._free_from[users])

    def send(self, users: Users, slot: int, channel: Users | int) -> simpy.Event:
        """Let *users* begin to send in *slot*, which begins now; return the event of `Cell.attempt`."""
        self._free_from[users] = slot + 1
        if not isinstance(channel, int):
            channel = collapse_if_equal(channel)
        return self.cell.attempt(users, limit=self.max_attempts, channel=channel, begin_s=self.start_s(slot))

    def is_clear_after(self, slot: int) -> bool:
        """Return whether frames are on the air, and all of them end by the end of *slot*: nobody sends before that."""
        clear_s = self.cell.clear_s
        return clear_s > self.cell.env.now and period_from(clear_s, self.slot_s) <= slot + 1

    def serve(self, choose: Callable[[Users, Ints], Ints]) -> Generator[simpy.Event, Any, None]:
        """Let each user send in the slots that it chooses.

        Args:
            choose: ``choose(users, first)`` returns the next slot of each user, not before its *first*.
        """
        cell = self.cell
        has_channels = self.pick_channel is not None
        chosen_slots = np.full(cell.size, NEVER)
        while True:
            # users with another frame, or after a failed attempt, choose their next slot
            changed_users = cell.changes()
            if changed_users.size:
                self.report_results(changed_users)
                chosen_slots[changed_users] = NEVER
                choosing_users, first_slots = self.joining_slots(changed_users)
                chosen_slots[choosing_users] = choose(choosing_users, first_slots)

            # wait for the first chosen slot, but look again after any change before it
            slot = int(chosen_slots.min())
            start_s = self.start_s(slot)
            if start_s > cell.env.now:
                yield cell.wait_for_change(by_s=start_s)
                continue

            # all users that chose this slot begin to send
            senders = np.flatnonzero(chosen_slots == slot)
            chosen_slots[senders] = NEVER
            end = self.send(senders, slot, self.channels(senders) if has_channels else 0)
            if self.end_slot is not None:
                received = np.asarray(end.value)  # filled in as the frames end
                self._results.update((user, (received, place)) for place, user in enumerate(senders.tolist()))
            if self.is_clear_after(slot):  # one event in place of several
                yield end

    def report_results(self, users: Users) -> None:
        """Report the outcomes of those of *users* whose frames have ended, if that is not done."""
        if self.end_slot is None:
            return
        senders = [user for user in dict.fromkeys(users.tolist()) if user in self._results]
        if senders:
            outcomes = [self._results.pop(user) for user in senders]
            self.end_slot(np.array(senders), np.array([received[place] for received, place in outcomes]))
