"""Slotted ALOHA on several channels, one of which is picked at random for each attempt."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Annotated, Any

import simpy
from pydantic import Field

from netfl.network.mac._slotted import Aloha
from netfl.network.mac._test_bench import carried_load_law, slot_successes
from netfl.types import Law

if TYPE_CHECKING:
    from netfl.network.radio.cell import Cell

_LAW_USERS, _LAW_LOAD = 50, 0.3


class MultichannelAloha(Aloha):
    """Slotted ALOHA in which each attempt is made on one of M channels, picked at random; only those on one meet.

    With n users that always have something to send and do so with probability p, a channel brings a success in a slot
    with probability n (p/M) (1 - p/M)^(n-1), and M channels M times as many; two given channels both do with
    n (n-1) (p/M)² (1 - 2p/M)^(n-2).  At most M/e in a slot are carried by large populations, at p = M/n.

    p is fixed or adaptive as in `slotted_aloha`, with M/n and M/v in place of 1/n and 1/v, and an estimate that adds
    up what is heard on each channel: to Poisson arrivals the channels are as many slotted ALOHAs of an M-th of the load
    (D. Shen and V. O. K. Li, "Performance analysis for a stabilized multi-channel slotted ALOHA algorithm", IEEE PIMRC
    2003).

    Example::

        kind: multichannel_aloha
        channels: 3
        probability: 0.1
    """

    channels: Annotated[int, Field(ge=1)]
    """M."""

    def most_hz(self, airtime_s: float, longest_s: float) -> float:
        """As much on each channel."""
        return self.channels * super().most_hz(airtime_s, longest_s)

    def serve(self, cell: Cell) -> Generator[simpy.Event, Any, None]:
        """Each on the channel that it picks."""
        return self._serve(cell, self.channels)

    def laws(self) -> tuple[Law, ...]:
        """The throughput of a saturated cell, or under Poisson arrivals."""
        many = self.channels
        if self.adaptive == "backoff":
            return (Law.none("how often k failures come in a row has no closed form, and grows without bounds with n"),)
        if self.adaptive == "pseudo_bayesian":
            return (carried_load_law(self, self.slot or 1.0, _LAW_USERS * many, _LAW_LOAD * many),)
        users = max(_LAW_USERS, 2 * many) if self.probability is None else min(round(many / self.probability), 100)
        p = min(1.0, many / users) if self.probability is None else self.probability
        mean = users * p * (1 - p / many) ** (users - 1)
        pairs = 0.0
        if many > 1 and users > 1:
            pairs = (many - 1) / many * users * (users - 1) * p**2 * (1 - 2 * p / many) ** (users - 2)
        return (
            Law(
                "successes per slot",
                f"n p (1 - p/M)^(n-1) with n = {users} users that always have something to send, M = {many} channels",
                lambda streams, size: slot_successes(self, users, self.slot or 1.0, streams, size),
                mean=mean,
                variance=mean + pairs - mean**2,
            ),
        )
