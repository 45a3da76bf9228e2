"""Packets at even distances."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from netfl.network.traffic import Traffic
from netfl.streams import Streams
from netfl.types import Law
from netfl.units import Seconds

_BLOCK = 1024


class Constant(Traffic):
    """Constant rate: one packet of each sender every so often, from a first instant that is the sender's own.

    The first instant is uniform on [0, ``every``), so that senders do not come in step unless they are made to.

    Example::

        kind: constant
        every: 20 ms
        size: {law: fixed, mean: 160 B}
    """

    every: Annotated[Seconds, Field(gt=0)]
    """Time from one packet to the next."""
    in_step: bool = False
    """Whether all senders start at time 0 together."""

    def rate_hz(self, link_bps: float) -> float:
        """One over the time between."""
        return 1.0 / self.every

    def times_s(self, mean_bits: float, link_bps: float, rng: np.random.Generator) -> Iterator[NDArray[np.float64]]:
        """Each instant from its number alone, so that nothing adds up."""
        first_s = 0.0 if self.in_step else self.every * rng.random()
        for start in count(0, _BLOCK):
            yield np.asarray(first_s + self.every * np.arange(start, start + _BLOCK), np.float64)

    def laws(self) -> tuple[Law, ...]:
        """The first instants."""
        if self.in_step:
            return (Law.none("nothing is drawn: all senders start at 0"),)

        def first(streams: Streams, size: int) -> NDArray[np.float64]:
            return np.array([next(self.blocks(sender, 1e6, streams))[0][0] for sender in range(size)])

        return (
            Law(
                "first instant of a sender, s",
                "uniform on [0, every)",
                draw=first,
                mean=self.every / 2,
                variance=self.every**2 / 12,
                cdf=lambda x: np.clip(np.asarray(x) / self.every, 0.0, 1.0),
            ),
        )
