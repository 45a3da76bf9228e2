"""Slotted access in which each user has its own probability of sending, which may change from slot to slot."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any

import numpy as np
import simpy
from numpy.typing import NDArray

from netfl.network.mac._draws import Draws
from netfl.network.mac._slots import NEVER, Slots, after, alike, slot_at, slots_from

if TYPE_CHECKING:
    from netfl.network.cell import Cell

Floats = NDArray[np.float64]


def filled(weights: Floats, total: float, least: float) -> Floats:
    """Probabilities ``p_k = min(1, max(f, c w_k))`` whose sum is *total*, or 1 for all if they are fewer than that.

    The floor f is *least* of what each had if all had the same.  The sum is a piecewise linear function of c, and is
    solved for it exactly.  Users of weight 0 have the floor; where all others have 1 already, they share what is left.

    >>> filled(np.array([1.0, 2.0, 5.0]), 1.0, 0.0).tolist()
    [0.125, 0.25, 0.625]
    >>> filled(np.array([0.0, 1.0, 30.0]), 1.5, 0.5).tolist()
    [0.25, 0.25, 1.0]

    Args:
        weights: the weights, none negative.
        total: what they are to sum to, above 0.
        least: the floor in relation to the even probability, 0 to 1.
    """
    users, most = len(weights), float(weights.max())
    total = min(total, float(users))
    floor = least * total / users
    shares = weights / most if most > 0 else weights
    p = np.full(users, floor)
    above = shares > 0
    w = shares[above]
    zeros = users - len(w)
    if len(w) + zeros * floor <= total:
        p[above], p[~above] = 1.0, (total - len(w)) / max(zeros, 1)
    else:
        p[above] = np.clip(_factor(w, floor, total - zeros * floor) * w, floor, 1.0)
    return p


def _factor(w: Floats, floor: float, total: float) -> float:
    """The c at which the sum of min(1, max(floor, c w)) is *total*, which it is somewhere.

    Each user leaves the floor at floor/w and reaches 1 at 1/w; between two such bends the sum is linear.
    """
    bends = np.sort(np.concatenate([floor / w, 1.0 / w]))
    place = bisect_right(range(len(bends)), total, key=lambda bend: np.clip(bends[bend] * w, floor, 1.0).sum()) - 1
    last = float(bends[max(place, 0)])
    full, low = 1.0 / w <= last, floor / w > last
    free = ~(full | low)
    if not free.any():
        return last
    return float((total - np.count_nonzero(full) - floor * np.count_nonzero(low)) / w[free].sum())


def serve_weighted(
    cell: Cell,
    slot_s: float,
    chances: Callable[[Slots], Floats],
    limit: int | None,
    channel: Callable[[Slots], Slots],
) -> Generator[simpy.Event, Any, None]:
    """Own *cell*: in each slot user k of the backlog sends with a probability p_k, independently of all others.

    Each draws an exponential number when it joins, and sends in the first slot at whose end Σ -log(1 - p_k) since then
    is that or more.  As long as nobody joins or leaves, the p_k stay, and idle slots are passed over in one step.

    Args:
        cell: the cell.
        slot_s: length of a slot, one airtime at least.
        chances: ``chances(users)`` gives the p_k of the users of the backlog; asked whenever that may have changed.
        limit: attempts that an update has.
        channel: ``channel(users)`` gives the channel that each who sends now takes.
    """
    thresholds = Draws(cell.streams.field("hazard").exponential, cell.ids)
    joins, left = np.full(cell.size, NEVER), np.full(cell.size, np.inf)
    hazard = np.zeros(cell.size)
    slot = 0  # the next that has not been served or passed over
    while True:
        until = max(slot, slot_at(cell.env.now, slot_s))
        left -= (until - slot) * hazard
        slot, users = until, cell.changes()
        if users.size:
            joins[users], left[users] = NEVER, np.inf
            users = users[np.isfinite(cell.ready_s[users])]
            joins[users] = slots_from(cell.ready_s[users], slot_s)
        new = np.flatnonzero(joins <= slot)
        left[new], joins[new] = thresholds.next(new), NEVER
        there = np.flatnonzero(left < np.inf)
        hazard[:] = 0.0
        if there.size:
            hazard[there] = _hazards(chances(there))
        then = min(slot + _idle(left[there], hazard[there]), int(joins.min()))
        start_s = then * slot_s if then < NEVER else np.inf
        if start_s > cell.env.now:
            yield cell.change(by_s=start_s)
            continue
        due = there[left[there] <= hazard[there]]
        left -= hazard
        left[due] = np.inf
        yield cell.attempt(due, limit=limit, channel=alike(channel(due)), begin_s=start_s)
        slot = after(slot, cell.env.now, slot_s)


def _hazards(p: Floats) -> Floats:
    """-log(1 - p), and for p = 1 more than any threshold."""
    with np.errstate(divide="ignore"):
        return np.minimum(-np.log1p(-p), _SURE)


_SURE = 1e3
"""A hazard that no exponential number exceeds."""


def _idle(left: Floats, hazard: Floats) -> int:
    """How many slots pass before the one in which the first of them sends."""
    slots = np.divide(left, hazard, out=np.full(len(left), np.inf), where=hazard > 0)
    first = float(np.min(np.ceil(slots), initial=np.inf))
    return max(int(first) - 1, 0) if first < NEVER else NEVER
