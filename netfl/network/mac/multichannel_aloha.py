"""Slotted ALOHA on several channels, with a random channel for each attempt."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Annotated, Any

import simpy
from pydantic import Field

from netfl.network.mac._slotted import Aloha
from netfl.network.mac._test_bench import BenchSetup, carried_load_law, slot_successes
from netfl.types import Law

if TYPE_CHECKING:
    from netfl.network.radio.cell import Cell

_LAW_USERS, _LAW_LOAD = 50, 0.3


class MultichannelAloha(Aloha):
    """Slotted ALOHA in which each attempt takes a random one of M channels; only frames on the same channel collide.

    With n saturated users that send with probability p, a channel has a success in a slot with probability
    n (p/M) (1 - p/M)^(n-1), and M channels have M times as many; two given channels both succeed with
    n (n-1) (p/M)² (1 - 2p/M)^(n-2).  The throughput of large populations is at most M/e per slot, at p = M/n.

    p is fixed or adaptive as in `slotted_aloha`, with M/n and M/v in place of 1/n and 1/v, and an estimate that adds
    up the feedback of all channels: for Poisson arrivals the channels are M slotted ALOHAs with 1/M of the load each
    (D. Shen and V. O. K. Li, "Performance analysis for a stabilized multi-channel slotted ALOHA algorithm", IEEE PIMRC
    2003).

    Example::

        kind: multichannel_aloha
        channels: 3
        probability: 0.1
    """

    channels: Annotated[int, Field(ge=1)]
    """M."""

    def max_frames_hz(self, airtime_s: float, max_airtime_s: float) -> float:
        """Return the bound of one channel, times M."""
        return self.channels * super().max_frames_hz(airtime_s, max_airtime_s)

    def serve(self, cell: Cell) -> Generator[simpy.Event, Any, None]:
        """Serve *cell* on M channels."""
        return self._serve(cell, self.channels)

    def laws(self) -> tuple[Law, ...]:
        """Claim the throughput of a saturated cell, or under Poisson arrivals."""
        m = self.channels
        if self.adaptive == "backoff":
            return (Law.none("how often k failures come in a row has no closed form, and grows without bounds with n"),)
        if self.adaptive == "pseudo_bayesian":
            return (carried_load_law(self, self.slot or 1.0, _LAW_USERS * m, _LAW_LOAD * m),)
        users = max(_LAW_USERS, 2 * m) if self.probability is None else min(round(m / self.probability), 100)
        p = min(1.0, m / users) if self.probability is None else self.probability
        mean = users * p * (1 - p / m) ** (users - 1)
        pairs = 0.0
        if m > 1 and users > 1:
            pairs = (m - 1) / m * users * (users - 1) * p**2 * (1 - 2 * p / m) ** (users - 2)
        return (
            Law(
                "successes per slot",
                f"n p (1 - p/M)^(n-1) with n = {users} users that always have something to send, M = {m} channels",
                lambda streams, size: slot_successes(BenchSetup(self, users, self.slot or 1.0, streams), size),
                mean=mean,
                variance=mean + pairs - mean**2,
            ),
        )
