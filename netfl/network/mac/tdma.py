"""TDMA: each user of the cell has one slot in every frame of the schedule."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import simpy
from pydantic import Field

from netfl.errors import Fault
from netfl.network.mac import Ints, Mac
from netfl.network.mac._slotted import SlottedCell, serve_slots, slot_faults
from netfl.network.mac._test_bench import BenchSetup, waiting_times
from netfl.types import Law
from netfl.units import Seconds

if TYPE_CHECKING:
    from netfl.network.radio.cell import Cell

_LAW_USERS = 5


class Tdma(Mac):
    """Each user of the cell has one slot in every frame of the schedule, in the order of their numbers: no collisions.

    A frame of the schedule has one slot for each of the cell's n users: user i may begin to send at slots i, i + n,
    i + 2n, …  An update that becomes ready at an instant independent of the schedule waits for a time that is uniform
    on [0, n·slot) (Bertsekas and Gallager, Data Networks, 2nd ed., 1992, §3.5.1).

    **A slot holds one frame of its user, whatever the mode.**  By default it is as long as the largest frame in the
    slowest mode of the reception.  A user in a mode r times as fast uses 1/r of its slot, and the rest stays idle.  An
    update in packets takes a slot for each packet.

    Example::

        kind: tdma
        max_attempts: 20
    """

    max_attempts: Annotated[int, Field(ge=1)] | None = None
    """Attempts after which an update is given up; ``null`` is no limit."""
    slot: Annotated[Seconds, Field(gt=0)] | None = None
    """Length of a slot; ``null`` takes the airtime of the largest frame in the slowest mode."""

    def max_frames_hz(self, airtime_s: float, max_airtime_s: float) -> float:
        """Return one frame per slot."""
        return 1.0 / (self.slot or max_airtime_s)

    def airtime_faults(self, airtime_s: float) -> Iterator[Fault]:
        """Yield an error if the slot is too short."""
        yield from slot_faults(self.slot, airtime_s)

    def warnings(self, fastest_s: float, slowest_s: float) -> Iterator[str]:
        """Warn about slots that users in the fastest mode leave idle."""
        slot_s = self.slot or slowest_s
        if fastest_s < slowest_s:
            yield (
                f"tdma: a slot lasts {slot_s:.3g} s and holds one frame, so that in the fastest mode "
                f"{100.0 * (1.0 - fastest_s / slot_s):.0f} % of it stay idle; round_robin serves the next user at once"
            )

    def serve(self, cell: Cell) -> Generator[simpy.Event, Any, None]:
        """Let each user wait for its slot."""

        def choose(users: Ints, first: Ints) -> Ints:
            return np.asarray(first + (users - first) % cell.size)

        return serve_slots(SlottedCell(cell, self.slot or cell.airtime_s, self.max_attempts), choose)

    def laws(self) -> tuple[Law, ...]:
        """Claim the distribution of the wait for the slot."""
        frame_s = _LAW_USERS * (self.slot or 1.0)
        return (
            Law(
                "wait for the own slot, s",
                f"uniform on a frame of {_LAW_USERS} users, {frame_s:.6g} s (Bertsekas and Gallager 1992)",
                lambda streams, size: waiting_times(BenchSetup(self, _LAW_USERS, frame_s / _LAW_USERS, streams), size),
                mean=frame_s / 2,
                variance=frame_s**2 / 12,
                cdf=lambda wait_s: np.clip(np.asarray(wait_s) / frame_s, 0.0, 1.0),
            ),
        )
