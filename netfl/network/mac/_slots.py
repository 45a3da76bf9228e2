"""What the slotted MACs share: time in slots, and a loop that wakes up for the slots in which somebody sends."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import simpy
from numpy.typing import NDArray

from netfl.errors import Fault, ModelError
from netfl.network.periods import MOST, period_from, periods_from

if TYPE_CHECKING:
    from netfl.network.cell import Cell

Slots = NDArray[np.int64]
NEVER = np.iinfo(np.int64).max


def serve_slots(  # noqa: PLR0913 - two of them are for some MACs only
    cell: Cell,
    slot_s: float,
    choose: Callable[[Slots, Slots], Slots],
    limit: int | None,
    *,
    channel: Callable[[Slots], Slots] | None = None,
    ended: Callable[[Slots, NDArray[np.bool_]], None] | None = None,
) -> Generator[simpy.Event, Any, None]:
    """Own *cell*: slot k begins at k·slot_s, and in it send all who chose it.

    Slots in which the tower still hears the last attempt, as sound takes time to arrive, are passed over: whoever had
    chosen one of them chooses again.

    Args:
        cell: the cell.
        slot_s: length of a slot, one airtime at least.
        choose: ``choose(users, first)`` gives the slot in which each user sends next, not before its *first*.
        limit: attempts that an update has.
        channel: ``channel(users)`` gives the channel that each who sends now takes; one for all if not given.
        ended: ``ended(users, heard)`` is told at the end who of those who sent was received.
    """
    chosen = np.full(cell.size, NEVER)
    free = 0  # the first slot that has not been served
    while True:
        users = cell.changes()
        if users.size:
            chosen[users] = NEVER
            users = users[np.isfinite(cell.ready_s[users])]
            chosen[users] = choose(users, np.maximum(slots_from(cell.ready_s[users], slot_s), free))
        slot = int(chosen.min())
        start_s = slot * slot_s if slot < NEVER else np.inf
        if start_s > cell.env.now:
            yield cell.change(by_s=start_s)
            continue
        users = np.flatnonzero(chosen == slot)
        on = 0 if channel is None else alike(channel(users))
        heard = yield cell.attempt(users, limit=limit, channel=on, begin_s=start_s)
        if ended is not None:
            ended(users, heard)
        free = after(slot, cell.env.now, slot_s)
        if free > slot + 1:
            users = np.flatnonzero((chosen > slot) & (chosen < free))
            chosen[users] = choose(users, np.full(len(users), free))


def alike(each: NDArray[Any]) -> Any:
    """One figure for all where all are the same, with which it is quicker to send."""
    return each[0].item() if (each == each[0]).all() else each


def slots_from(time_s: NDArray[np.float64], slot_s: float) -> Slots:
    """The first slot that begins at or after each time.

    Raises:
        ModelError: one is too far to be counted.
    """
    if time_s.size:
        _check(time_s[time_s.argmax()], slot_s)  # a third of the time of max
    return periods_from(time_s, slot_s)


def slot_at(time_s: float, slot_s: float) -> int:
    """The same for one time."""
    _check(time_s, slot_s)
    return period_from(time_s, slot_s)


def _check(time_s: float, slot_s: float) -> None:
    """Refuse to count so many slots."""
    if time_s > MOST * slot_s:
        problem = f"somebody sends after more than {MOST:.2g} slots of {slot_s:.3g} s, which is more than are counted"
        raise ModelError("mac", f"{problem}; make slots longer, or training shorter (compute)")


def after(slot: int, now_s: float, slot_s: float) -> int:
    """The first slot after *slot* that has not begun by *now_s*, when all that was sent in *slot* has been heard."""
    return max(slot + 1, slot_at(now_s, slot_s))


def slots_hz(slot_s: float, limit: int | None) -> float:
    """The most frames that leave a channel each second: one in each slot, unless several can be given up in one."""
    return 1.0 / slot_s if limit is None else np.inf


def too_short(slot_s: float | None, airtime_s: float) -> Iterator[Fault]:
    """The fault of a slot in which an update does not fit."""
    if slot_s is not None and slot_s < airtime_s:
        yield Fault("slot", f"an update takes {airtime_s:.6g} s on the air", slot_s, "make it longer, or leave it out")
