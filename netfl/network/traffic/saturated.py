"""Saturated senders, which always have another packet."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

import numpy as np

from netfl.network.traffic import Block, Traffic
from netfl.streams import Streams
from netfl.types import Floats, Law

_BLOCK = 256
"""Packets of a block."""


class Saturated(Traffic):
    """Every user always has a packet to send: the next one arrives when the last one ends.

    The throughput of a MAC under this traffic is its saturation throughput, the maximum that it sustains (Bianchi, IEEE
    J-SAC 18(3), 2000, §IV).  The delay of a packet counts from the instant at which it is the user's first.

    Example::

        kind: saturated
        size: {distribution: fixed, mean: 1500 B}
        destination: tower
    """

    source: Literal["users"] = "users"
    """Users only, as saturated ports would leave no room for other packets."""
    buffer: None = None
    """No buffer, as there is always exactly one packet."""

    @property
    def is_saturated(self) -> bool:
        return True

    def times_s(self, link_bps: float, rng: np.random.Generator) -> Iterator[Floats]:
        """Yield zeros; the sender takes the packets one by one."""
        while True:
            yield np.zeros(_BLOCK)

    def first_times_s(self, senders: Sequence[int], link_bps: float, streams: Streams) -> Floats:
        return np.zeros(len(senders))

    def blocks(self, sender: int, link_bps: float, streams: Streams) -> Iterator[Block]:
        """Yield one block again and again for packets of one size, without two generators for each user."""
        if self.size.is_drawn:
            yield from super().blocks(sender, link_bps, streams)
        block: Block = (np.zeros(_BLOCK), np.full(_BLOCK, self.size.mean))
        while True:
            yield block

    def laws(self) -> tuple[Law, ...]:
        return (Law.none("there is always a packet: the throughput follows from the MAC"),)
