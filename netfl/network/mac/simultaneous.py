"""Simultaneous: all users that have an update send it at once, in one slot."""

from __future__ import annotations

from collections.abc import Generator
from typing import Annotated, Any

import numpy as np
import simpy
from pydantic import Field

from netfl.network.mac import Mac
from netfl.network.radio.cell import Cell
from netfl.types import Floats, Ints, Law
from netfl.units import Seconds


class Simultaneous(Mac):
    """Users send at once, in one slot, which begins when all that train have their frames.

    It does not wait for users that are disconnected.  With ``wait``, the slot begins so long after the first user has
    its frame; the others then send in the next slot, together with those whose frames failed.  With ``interference:
    over_the_air`` there is one slot for each version: what it did not sum ends as ``not_summed``.  Without sums the
    frames of a slot interfere, and with ``sic`` or ``sinr`` several of them can be received; users whose rates follow
    the SNR know of each other, as in ``noma``.  Idle time changes nothing.

    Example::

        kind: simultaneous
        wait: 100 ms
    """

    makes_sums = True
    sends_groups = True

    wait: Annotated[Seconds, Field(ge=0)] | None = None
    """Time from the first frame to the slot; by default it begins when no user that is connected trains any more."""

    @property
    def repeats_alike(self) -> bool:
        return True

    def usual_groups(self, mean_snr_db: Floats) -> list[Ints]:
        return [np.arange(len(mean_snr_db))]

    def serve(self, cell: Cell) -> Generator[simpy.Event, Any, None]:
        summed = -1
        while True:
            yield cell.wait_for_backlog()
            if self.wait is None:
                yield from _all_ready(cell)
            else:
                yield cell.wait_until(float(cell.env.now) + self.wait)
            if cell.sums:
                summed = yield from _send_sum(cell, summed)
            elif cell.backlog().size:
                yield cell.attempt(cell.backlog(), is_group=True)

    def laws(self) -> tuple[Law, ...]:
        return (Law.none("all send at once, and nothing is drawn"),)


def _send_sum(cell: Cell, summed: int) -> Generator[simpy.Event, Any, int]:
    """Let all users that have an update of a new version send it, and end the others.

    Args:
        cell: the cell.
        summed: the newest version of whose updates a sum was made.

    Returns:
        The same after this slot.
    """
    cell.end_unsummed(summed)
    users = cell.backlog()
    if not users.size:
        return summed
    version = int(cell.versions(users).max())
    end = cell.attempt(users, limit=1)
    cell.end_unsummed(version)
    yield end
    return version


def _all_ready(cell: Cell) -> Generator[simpy.Event, Any, None]:
    """Wait until every user that trains, and is connected, has its frame."""
    while (ready_s := cell.all_ready_s()) > cell.env.now:
        cell.changes()
        yield cell.wait_for_change(ready_s)
