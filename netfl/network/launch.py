"""How frames are put on the air: in flights of what is alike."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from netfl.network.flight import Flight
from netfl.network.load import Load, Users
from netfl.network.medium import Medium

How = tuple[ArrayLike | None, ArrayLike, ArrayLike | None]
"""Duration, channel and mode, each one for all or one for each; duration and mode may be left to the medium."""


def launch(  # noqa: PLR0913, PLR0917 - all that an attempt is made of
    load: Load,
    medium: Medium,
    tower: tuple[str, int],
    who: tuple[Users, Sequence[int]],
    how: How,
    limit: int | None,
    when_s: tuple[float, float],
) -> Sequence[Flight]:
    """Put the first frames of some users on the air: in one flight or, where they differ, the first to end first.

    Args:
        load: what they have to send.
        medium: what the air does.
        tower: name and node number of the tower.
        who: those who were asked to send, and the places among them of those who do.
        how: duration, channel and mode.
        limit: attempts that a frame has.
        when_s: when they begin, and from when on their airtimes count.
    """
    (asked, places), (duration_s, channel, mode), (now_s, _) = who, how, when_s
    users = asked if len(places) == len(asked) else asked[list(places)]
    ids = load.ids[users]
    delay_s = medium.delay_s(ids, now_s)
    if mode is None:
        mode = 0 if medium.modes == 1 else medium.choose(ids, tower, now_s)
    elif not isinstance(mode, int):
        mode = _of(mode, len(asked), places)
    if duration_s is None:
        duration_s = _airtimes_s(load, medium, users, mode)
    elif not isinstance(duration_s, float):
        duration_s = _of(duration_s, len(asked), places)
    if not isinstance(channel, int):
        channel = _of(channel, len(asked), places)
    if delay_s is None and isinstance(duration_s, float) and isinstance(channel, int) and isinstance(mode, int):
        return (_flight(load, medium, tower, (users, ids, places), (channel, mode, 0.0, duration_s), limit, when_s),)
    told = (channel, mode, 0.0 if delay_s is None else delay_s, duration_s)
    rows = np.column_stack([np.broadcast_to(np.asarray(each, float), len(users)) for each in told])
    kinds, which = np.unique(rows, axis=0, return_inverse=True)
    flights = []
    for kind in np.argsort(kinds[:, 2] + kinds[:, 3], kind="stable"):
        chosen = np.flatnonzero(which.ravel() == kind)
        alike = (int(kinds[kind, 0]), int(kinds[kind, 1]), float(kinds[kind, 2]), float(kinds[kind, 3]))
        some = users[chosen], ids[chosen], [places[one] for one in chosen.tolist()]
        flights.append(_flight(load, medium, tower, some, alike, limit, when_s))
    return flights


def _of(told: ArrayLike, count: int, places: Sequence[int]) -> ArrayLike:
    """What was said for each of *count*, for those in *places* only; one figure for all stays one."""
    return told if len(places) == count or np.ndim(told) == 0 else np.asarray(told)[list(places)]


def _airtimes_s(load: Load, medium: Medium, users: Users, mode: ArrayLike) -> float | NDArray[np.float64]:
    """The airtimes of the next frames."""
    bits = load.bits(users)
    if isinstance(bits, float) and isinstance(mode, int):
        return medium.airtime_s(bits, mode)
    rows = zip(np.broadcast_to(bits, len(users)).tolist(), np.broadcast_to(mode, len(users)).tolist(), strict=True)
    return np.array([medium.airtime_s(*row) for row in rows])


def _flight(  # noqa: PLR0913, PLR0917 - as `launch`
    load: Load,
    medium: Medium,
    tower: tuple[str, int],
    who: tuple[Users, Users, Sequence[int]],
    alike: tuple[int, int, float, float],
    limit: int | None,
    when_s: tuple[float, float],
) -> Flight:
    """Put some users on the air together: *who* are they in the cell, and in the network, and at which places."""
    (users, ids, places), (channel, mode, delay_s, duration_s), (now_s, from_s) = who, alike, when_s
    frames = load.launch(users, now_s)
    start_s, end_s, cut = now_s + delay_s, from_s + delay_s + duration_s, None
    if not medium.steady:
        medium.spend(ids, now_s, frames.bits)
        cut = medium.cut(ids, tower[1], now_s, from_s + duration_s, end_s)
    if medium.spending is not None:
        medium.spending.send(ids, duration_s)
    return Flight(frames, ids, places, tower, channel, start_s, end_s, mode, limit, cut)
