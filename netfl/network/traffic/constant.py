"""Packets at a constant interval."""

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
    """Constant rate: one packet of each sender at a constant interval.

    The first arrival of each sender is uniform on [0, ``every``), so that senders are not synchronous by default.

    Example::

        kind: constant
        every: 20 ms
        size: {law: fixed, mean: 160 B}
    """

    every: Annotated[Seconds, Field(gt=0)]
    """Time between packets."""
    in_step: bool = False
    """Let all senders start together at time 0."""

    def rate_hz(self, link_bps: float) -> float:
        """Return 1 / every."""
        return 1.0 / self.every

    def times_s(self, mean_bits: float, link_bps: float, rng: np.random.Generator) -> Iterator[NDArray[np.float64]]:
        """Yield each time from its number alone, without accumulated rounding."""
        first_s = 0.0 if self.in_step else self.every * rng.random()
        for start in count(0, _BLOCK):
            yield np.asarray(first_s + self.every * np.arange(start, start + _BLOCK), np.float64)

    def laws(self) -> tuple[Law, ...]:
        """Claim the distribution of the first arrival."""
        if self.in_step:
            return (Law.none("nothing is drawn: all senders start at 0"),)

        def draw(streams: Streams, size: int) -> NDArray[np.float64]:
            return np.array([next(self.blocks(sender, 1e6, streams))[0][0] for sender in range(size)])

        return (
            Law(
                "first instant of a sender, s",
                "uniform on [0, every)",
                draw=draw,
                mean=self.every / 2,
                variance=self.every**2 / 12,
                cdf=lambda x: np.clip(np.asarray(x) / self.every, 0.0, 1.0),
            ),
        )
