"""What the slotted MACs share: time in slots, and a loop that wakes up for the slots in which somebody sends."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import simpy
from numpy.typing import NDArray

from netfl.errors import Fault

if TYPE_CHECKING:
    from netfl.network.cell import Cell

Slots = NDArray[np.int64]
_NEVER = np.iinfo(np.int64).max
_ROUNDING = 1e-9
"""By how many slots a boundary may be missed and still count as met."""


def serve_slots(
    cell: Cell, slot_s: float, choose: Callable[[Slots, Slots], Slots], limit: int | None
) -> Generator[simpy.Event, Any, None]:
    """Own *cell*: slot k begins at k·slot_s, and in it send all who chose it.

    Args:
        cell: the cell.
        slot_s: length of a slot, one airtime at least.
        choose: ``choose(users, first)`` gives the slot in which each user sends next, not before its *first*.
        limit: attempts that an update has.
    """
    chosen = np.full(cell.size, _NEVER)
    free = 0  # the first slot that has not been served
    while True:
        users = cell.changes()
        if users.size:
            chosen[users] = _NEVER
            users = users[np.isfinite(cell.ready_s[users])]
            first = np.ceil(cell.ready_s[users] / slot_s - _ROUNDING).astype(np.int64)
            chosen[users] = choose(users, np.maximum(first, free))
        slot = int(chosen.min())
        start_s = slot * slot_s if slot < _NEVER else np.inf
        if start_s > cell.env.now:
            yield cell.change(by_s=start_s)
        else:
            free = slot + 1
            yield cell.attempt(np.flatnonzero(chosen == slot), limit=limit)


def too_short(slot_s: float | None, airtime_s: float) -> Iterator[Fault]:
    """The fault of a slot in which an update does not fit."""
    if slot_s is not None and slot_s < airtime_s:
        yield Fault("slot", f"an update takes {airtime_s:.6g} s on the air", slot_s, "make it longer, or leave it out")
