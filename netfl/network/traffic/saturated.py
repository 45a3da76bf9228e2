"""Senders that always have another packet."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from netfl.network.traffic import Block, Traffic
from netfl.streams import Streams
from netfl.types import Law


class Saturated(Traffic):
    """Every user always has a packet to send: the next is there at the instant at which the last has gone.

    The saturation throughput of a MAC is what it carries under this traffic, the most that it can be counted on for
    (Bianchi, IEEE J-SAC 18(3), 2000, §IV).  A packet's delay counts from the instant at which it is the user's first.

    Example::

        kind: saturated
        size: {law: fixed, mean: 1500 B}
        leaves: tower
    """

    enters: Literal["users"] = "users"
    """Users only: at a port without end there would be no room for anything else."""
    buffer: None = None
    """No buffer: there is always exactly one packet."""

    @property
    def saturated(self) -> bool:
        """It is."""
        return True

    def times_s(self, mean_bits: float, link_bps: float, rng: np.random.Generator) -> Iterator[NDArray[np.float64]]:
        """All at the start; the sender takes them one by one."""
        while True:
            yield np.zeros(_BLOCK)

    def blocks(self, sender: int, link_bps: float, streams: Streams) -> Iterator[Block]:
        """Sizes alone matter; where all are alike, one block serves for ever."""
        if self.size.law != "fixed":
            yield from super().blocks(sender, link_bps, streams)
        block = np.zeros(_BLOCK), np.full(_BLOCK, self.size.mean)
        while True:
            yield block

    def laws(self) -> tuple[Law, ...]:
        """No instants are drawn."""
        return (Law.none("there is always a packet; what is carried is the MAC's law"),)


_BLOCK = 256
