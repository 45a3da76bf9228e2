"""TDMA: each user of the cell has one slot in every frame of the schedule."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any, ClassVar

import numpy as np
import simpy

from netfl.network.mac._bases import SlottedMac
from netfl.network.mac._slotted import SlottedCell
from netfl.network.radio.bench import BenchSetup, waiting_times
from netfl.network.radio.cell import Cell
from netfl.types import Ints, Law

_LAW_USERS = 5


class Tdma(SlottedMac):
    """Each user of the cell has one slot in every frame of the schedule, in the order of their numbers: no collisions.

    A frame of the schedule has one slot for each of the cell's n users: user i may begin to send at slots i, i + n,
    i + 2n, …  An update that becomes ready at an instant independent of the schedule waits for a time that is uniform
    on [0, n·slot) (Bertsekas and Gallager, Data Networks, 2nd ed., 1992, §3.5.1).

    **A slot holds one frame of its user, whatever the mode.**  By default it is as long as the largest frame in the
    slowest mode of the reception.  A user in a mode r times as fast uses 1/r of its slot, and the rest stays idle.  An
    update in packets takes a slot for each packet.  A frame that ends after its slot, by propagation delay or by its
    size, delays no other user; the medium decides whether it collides with the next one.

    Idle time changes nothing: the schedule follows the clock, whether users send or not.

    Example::

        kind: tdma
        max_attempts: 20
    """

    has_fixed_order: ClassVar[bool] = True

    def warnings(self, fastest_s: float, slowest_s: float) -> Iterator[str]:
        slot_s = self.slot or slowest_s
        if fastest_s < slowest_s:
            yield (
                f"tdma: a slot lasts {slot_s:.3g} s and holds one frame, so that in the fastest mode "
                f"{100.0 * (1.0 - fastest_s / slot_s):.0f} % of it stay idle; round_robin serves the next user at once"
            )

    def serve(self, cell: Cell) -> Generator[simpy.Event, Any, None]:
        def choose(users: Ints, first: Ints) -> Ints:
            return np.asarray(first + (users - first) % cell.size)

        return SlottedCell(cell, self.slot or cell.airtime_s, self.max_attempts).serve(choose)

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
