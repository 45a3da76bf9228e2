"""TDMA: each user of the cell has one slot in every frame of the schedule."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any, ClassVar

import numpy as np
import simpy

from netfl.network.mac._bases import SlottedMac
from netfl.network.mac._slotted import NEVER
from netfl.network.periods import period_from, periods_from
from netfl.network.radio.bench import BenchSetup, waiting_times
from netfl.network.radio.cell import Cell
from netfl.network.radio.reserved_slot import ReservedSlot
from netfl.types import Ints, Law

_LAW_USERS = 5


class Tdma(SlottedMac):
    """Each user of the cell has one slot in every frame of the schedule, in the order of their numbers: no collisions.

    A frame of the schedule has one slot for each of the n users that are at the tower: what the i-th of them sends
    arrives in slots i, i + n, i + 2n, …  An update that becomes ready at an instant independent of the schedule waits
    for a time that is uniform on [0, n·slot) (Bertsekas and Gallager, Data Networks, 2nd ed., 1992, §3.5.1).

    When users come or leave, frames on the air keep their slots.  The schedule of those who are there then begins after
    these frames.

    **A slot holds one frame of its user, whatever the mode.**  By default it is as long as the largest frame in the
    slowest mode of the reception.  A user in a mode r times as fast uses 1/r of its slot, and the rest stays idle.  An
    update in packets takes a slot for each packet.

    **A frame that outlasts its slot continues in its user's next slots**, as the tower owns the air: frames of a cell
    never overlap.  Where sizes follow an exponential distribution, the default slot holds the mean size.  A frame with
    the airtime X then takes ⌈X / slot⌉ slots, of which the last is not filled; for slots of s times the mean airtime
    these are 1 / (1 - e^-s) in the mean, 1.58 for s = 1.  Such a frame is received if all of its parts are.

    Slots begin at the tower, which corrects the timing of its users: each begins to send its propagation delay before
    its slot, so that no slot needs room for delays.

    Idle time changes nothing: the schedule follows the clock, whether users send or not.

    Example::

        kind: tdma
        max_attempts: 20
    """

    has_fixed_order: ClassVar[bool] = True
    takes_whole_slots: ClassVar[bool] = True

    def warnings(self, fastest_s: float, slowest_s: float) -> Iterator[str]:
        slot_s = self.slot or slowest_s
        if fastest_s < slowest_s:
            yield (
                f"tdma: a slot lasts {slot_s:.3g} s and holds one frame, so that in the fastest mode "
                f"{100.0 * (1.0 - fastest_s / slot_s):.0f} % of it stay idle; round_robin serves the next user at once"
            )

    def max_frames_hz(self, airtime_s: float, longest_s: float, delay_s: float) -> float:
        """Return one frame in each slot, if no frame is given up."""
        return SlottedMac.max_frames_hz(self, airtime_s, longest_s, 0.0)

    def turn_s(self, users: int, slowest_s: float) -> float:
        return users * (self.slot or slowest_s)

    def late_frame_warnings(self, mean_s: float, longest_s: float, delay_s: float) -> Iterator[str]:
        """Yield none: no frame ends in the slot of another user."""
        yield from ()

    def serve(self, cell: Cell) -> Generator[simpy.Event, Any, None]:
        slot_s = self.slot or cell.airtime_s
        is_present = cell.is_present
        turn, turns = _turns_of_present(cell)
        first_of_schedule = 0  # first slot of the present schedule
        next_slot = np.full(cell.size, NEVER)
        send_s = np.full(cell.size, np.inf)  # the propagation delay before the next slot
        free_from = np.zeros(cell.size, np.int64)  # first slot after the last one in which each user began
        while True:
            # users with another frame, or after a failed attempt, wait for their next slot
            changed_users = cell.changes()
            if cell.is_present is not is_present:  # another schedule, after the frames that keep their slots
                is_present = cell.is_present
                turn, turns = _turns_of_present(cell)
                first_of_schedule = period_from(max(cell.clear_s, cell.env.now), slot_s)
                changed_users = np.flatnonzero(~cell.transmit_path.is_sending())
            if changed_users.size:
                send_s[changed_users] = np.inf
                users = changed_users[cell.ready_s[changed_users] < np.inf]
                delay_s = cell.delays_s(users)
                arrival_s = np.maximum(cell.ready_s[users], cell.env.now) + delay_s
                first_slot = np.maximum(periods_from(arrival_s, slot_s), free_from[users])
                first_slot = np.maximum(first_slot, first_of_schedule)
                next_slot[users] = first_slot + (turn[users] - first_slot) % turns
                send_s[users] = next_slot[users] * slot_s - delay_s

            # wait until the first of them begins, but look again after any change before that
            user = int(send_s.argmin())
            begin_s = float(send_s[user])
            if begin_s > cell.env.now:
                yield cell.wait_for_change(by_s=begin_s)
                continue

            # it begins to send, and has its slots to itself
            slot = int(next_slot[user])
            send_s[user] = np.inf
            free_from[user] = slot + 1
            reserved = ReservedSlot(slot * slot_s, slot_s, turns * slot_s)
            cell.attempt([user], limit=self.max_attempts, begin_s=begin_s, slot=reserved)

    def laws(self) -> tuple[Law, ...]:
        """Claim that an update that is ready at a random instant waits for a time uniform on the frame."""
        frame_s = _LAW_USERS * (self.slot or 1.0)
        return (
            Law(
                "wait for the user's slot, s",
                f"uniform on a frame of {_LAW_USERS} users, {frame_s:.6g} s (Bertsekas and Gallager 1992)",
                lambda streams, size: waiting_times(BenchSetup(self, _LAW_USERS, frame_s / _LAW_USERS, streams), size),
                mean=frame_s / 2,
                variance=frame_s**2 / 12,
                cdf=lambda wait_s: np.clip(np.asarray(wait_s) / frame_s, 0.0, 1.0),
            ),
        )


def _turns_of_present(cell: Cell) -> tuple[Ints, int]:
    """Return the turn of each user among those that are at the tower, ``[size]``, and the number of turns."""
    turn = np.cumsum(cell.is_present) - 1
    return turn, max(int(np.count_nonzero(cell.is_present)), 1)
