"""A MAC whose settings the caller of a simulation gives for each user."""

from __future__ import annotations

from collections.abc import Generator
from typing import Annotated, Any

import numpy as np
import simpy
from pydantic import Field

from netfl.network.mac import BufferedDraws
from netfl.network.mac._bases import SlottedMac, channel_picker
from netfl.network.mac._slotted import NEVER, SlottedCell
from netfl.network.radio.bench import BenchSetup, slot_successes
from netfl.network.radio.cell import Cell
from netfl.types import Ints, Law

_LAW_USERS = 20


class Controlled(SlottedMac):
    """Slotted ALOHA on M channels, with a probability and a channel of each user that `netfl.Simulation.step` sets.

    In each slot, user i of the backlog sends with probability p_i on its channel c_i; only frames on the same channel
    collide.  ``step(controls={"probability": p, "channel": c})`` sets them for the rounds that follow, ``[users]``
    each: p_i from 0 (never) to 1, c_i from 0 to M - 1.  Before that, or in a run without a caller, every user has
    ``probability`` and takes a random channel for each attempt.  A user with p_i = 1 and a channel of its own has
    scheduled access.

    With n saturated users of equal p and random channels, M channels have n p (1 - p/M)^(n-1) successes per slot
    (Abramson, AFIPS 1970).  Idle time changes nothing.

    Example::

        kind: controlled
        probability: 0.05
        channels: 2
    """

    probability: Annotated[float, Field(gt=0, le=1)] = 0.1
    """Probability of users for whom the caller has set none."""
    channels: Annotated[int, Field(ge=1)] = 1
    """M."""

    @property
    def channel_count(self) -> int:
        return self.channels

    @property
    def control_ranges(self) -> dict[str, tuple[float, float]]:
        channel = {"channel": (0.0, self.channels - 1.0)} if self.channels > 1 else {}
        return {"probability": (0.0, 1.0), **channel}

    def serve(self, cell: Cell) -> Generator[simpy.Event, Any, None]:
        pick_any = channel_picker(cell, self.channels)

        def pick(users: Ints) -> Ints:
            channel = cell.controls.get("channel")
            if channel is None:  # the caller has set none
                return pick_any(users)
            return channel[users].astype(np.int64)

        slotted = SlottedCell(cell, self.slot or cell.airtime_s, self.max_attempts, pick if self.channels > 1 else None)
        uniforms = BufferedDraws(cell.streams.field("gap").uniform, cell.ids)
        next_slot = np.full(cell.size, -1)
        drawn_with = np.full(cell.size, np.nan)  # probability with which each user's gap was drawn

        def choose(users: Ints, first: Ints) -> Ints:
            """Return the slot at the end of each user's gap, of k slots with probability p (1-p)^(k-1)."""
            p = np.full(len(users), self.probability)
            if "probability" in cell.controls:
                p = cell.controls["probability"][users]
            # an unfinished gap is memoryless, and is used again unless its probability has changed
            is_over = (next_slot[users] < first) | (drawn_with[users] != p)
            drawing_users = users[is_over]
            drawn_with[drawing_users] = p[is_over]
            with np.errstate(divide="ignore"):
                trials = np.ceil(np.log(uniforms.next(drawing_users)) / np.log1p(-p[is_over]))
            slots = first[is_over] - 1 + np.maximum(trials, 1.0)
            next_slot[drawing_users] = np.minimum(slots, NEVER // 2).astype(np.int64)
            return np.where(p > 0.0, next_slot[users], NEVER)

        return slotted.serve(choose)

    def laws(self) -> tuple[Law, ...]:
        """Claim the successes S per slot, with n users, M channels and the probability p.

        E[S] = n p (1 - p/M)^(n-1), E[S (S-1)] = (M-1)/M n (n-1) p² (1 - 2p/M)^(n-2), Var S = E[S] + E[S (S-1)] - E[S]².
        """
        n = _LAW_USERS
        m = self.channels
        p = self.probability
        mean = n * p * (1 - p / m) ** (n - 1)
        pairs = (m - 1) / m * n * (n - 1) * p**2 * (1 - 2 * p / m) ** (n - 2) if m > 1 else 0.0
        return (
            Law(
                "successes per slot",
                f"n p (1 - p/M)^(n-1) with n = {n} users that always have something to send, M = {m} channels",
                lambda streams, size: slot_successes(BenchSetup(self, n, self.slot or 1.0, streams), size),
                mean=mean,
                variance=mean + pairs - mean**2,
            ),
        )
