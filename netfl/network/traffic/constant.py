"""Packets at a constant interval."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count
from typing import Annotated

import numpy as np
from pydantic import Field

from netfl.network.traffic import MAX_RATE_HZ, Traffic
from netfl.streams import Streams
from netfl.types import Floats, Law
from netfl.units import Seconds

_BLOCK = 1024
"""Packets of a block."""


class Constant(Traffic):
    """Constant rate: one packet of each sender at a constant interval.

    The first arrival of each sender is uniform on [0, ``every``), so that senders are not synchronous by default.

    Example::

        kind: constant
        every: 20 ms
        size: {distribution: fixed, mean: 160 B}
    """

    every: Annotated[Seconds, Field(ge=1.0 / MAX_RATE_HZ)]
    """Time between packets, at least 1 ns."""
    synchronous: bool = False
    """Let all senders start together at time 0."""

    def rate_hz(self, link_bps: float) -> float:
        return 1.0 / self.every

    def times_s(self, link_bps: float, rng: np.random.Generator) -> Iterator[Floats]:
        """Yield each time from its number alone, without accumulated rounding."""
        first_s = self._first_s(rng)
        for start in count(0, _BLOCK):
            yield np.asarray(first_s + self.every * np.arange(start, start + _BLOCK), np.float64)

    def first_times_s(self, senders: Sequence[int], link_bps: float, streams: Streams) -> Floats:
        return np.fromiter(map(self._first_s, streams.rngs("times", senders)), float, len(senders))

    def _first_s(self, rng: np.random.Generator) -> float:
        if self.synchronous:
            return 0.0
        return self.every * rng.random()

    def laws(self) -> tuple[Law, ...]:
        from scipy import stats

        if self.synchronous:
            return (Law.none("nothing is drawn: all senders start at 0"),)

        def draw(streams: Streams, size: int) -> Floats:
            return np.array([next(self.blocks(sender, 1e6, streams))[0][0] for sender in range(size)])

        distribution = stats.uniform(0.0, self.every)
        return (Law("first instant of a sender, s", "uniform on [0, every)", draw=draw, distribution=distribution),)
