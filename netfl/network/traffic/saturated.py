"""Saturated senders, which always have another packet."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from netfl.network.traffic import Block, Traffic
from netfl.streams import Streams
from netfl.types import Law

_BLOCK = 256


class Saturated(Traffic):
    """Every user always has a packet to send: the next one arrives when the last one ends.

    The throughput of a MAC under this traffic is its saturation throughput, the maximum that it sustains (Bianchi, IEEE
    J-SAC 18(3), 2000, §IV).  The delay of a packet counts from the instant at which it is the user's first.

    Example::

        kind: saturated
        size: {law: fixed, mean: 1500 B}
        leaves: tower
    """

    enters: Literal["users"] = "users"
    """Users only, as saturated ports would leave no room for other packets."""
    buffer: None = None
    """No buffer, as there is always exactly one packet."""

    @property
    def is_saturated(self) -> bool:
        """``True``."""
        return True

    def times_s(self, mean_bits: float, link_bps: float, rng: np.random.Generator) -> Iterator[NDArray[np.float64]]:
        """Yield zeros; the sender takes the packets one by one."""
        while True:
            yield np.zeros(_BLOCK)

    def blocks(self, sender: int, link_bps: float, streams: Streams) -> Iterator[Block]:
        """Yield blocks in which only the sizes matter; one block is enough for a fixed size."""
        if self.size.law != "fixed":
            yield from super().blocks(sender, link_bps, streams)
        block = np.zeros(_BLOCK), np.full(_BLOCK, self.size.mean)
        while True:
            yield block

    def laws(self) -> tuple[Law, ...]:
        """Claim that no times are drawn."""
        return (Law.none("there is always a packet: the throughput follows from the MAC"),)
