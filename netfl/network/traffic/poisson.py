"""Poisson arrivals of packets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated

import numpy as np
from pydantic import Field, model_validator

from netfl.core.spec import check_one_of
from netfl.network.traffic import MAX_BLOCK, MAX_RATE_HZ, Traffic
from netfl.streams import Streams
from netfl.types import Floats, Law

_MIN_BLOCK = 64
"""Packets of the first block; each has twice as many as the one before."""


class Poisson(Traffic):
    """Poisson process of packets of each sender: the times between them are exponential and independent.

    Give either the ``rate`` in packets per second, or the ``load``: the share of the link that one sender's packets
    occupy; of a user, that of the air in the slowest mode of the reception.

    Example::

        kind: poisson
        rate: 2
        size: {distribution: exponential, mean: 1 kB}
    """

    rate: Annotated[float, Field(gt=0, le=MAX_RATE_HZ)] | None = None
    """Packets per second of each sender, at most 10^9."""
    load: Annotated[float, Field(gt=0)] | None = None
    """Load ρ: the rate times the mean time of a packet on the link; at most 10^9 packets per second."""

    @model_validator(mode="after")
    def _check_rate(self) -> Poisson:
        check_one_of(self, "rate", "load")
        return self

    def rate_hz(self, link_bps: float) -> float:
        if self.rate is not None:
            return self.rate
        return (self.load or 0.0) * link_bps / self.size.mean  # ρ μ

    def times_s(self, link_bps: float, rng: np.random.Generator) -> Iterator[Floats]:
        mean_s = 1.0 / self.rate_hz(link_bps)
        last_s = 0.0
        count = _MIN_BLOCK
        while True:
            gaps_s = rng.exponential(mean_s, count)
            gaps_s[0] += last_s
            times_s = np.cumsum(gaps_s)
            yield times_s
            last_s = float(times_s[-1])
            count = min(2 * count, MAX_BLOCK)

    def first_times_s(self, senders: Sequence[int], link_bps: float, streams: Streams) -> Floats:
        mean_s = 1.0 / self.rate_hz(link_bps)
        firsts_s = (rng.exponential(mean_s) for rng in streams.rngs("times", senders))
        return np.fromiter(firsts_s, float, len(senders))

    def laws(self) -> tuple[Law, ...]:
        from scipy import stats

        rate_hz = self.rate_hz(1e6)

        def gaps(streams: Streams, size: int) -> Floats:
            return np.diff(_first_times(self, streams, size + 1))

        def counts(streams: Streams, size: int) -> Floats:
            times_s = _first_times(self, streams, 4 * size + 100 + 20 * int(size**0.5))
            return np.diff(np.searchsorted(times_s, 4.0 / rate_hz * np.arange(size + 1))).astype(float)

        statement = "exponential with mean 1/λ, independent"
        return (
            Law("time between packets, s", statement, draw=gaps, distribution=stats.expon(scale=1.0 / rate_hz)),
            Law("packets in a time of 4/λ", "Poisson with mean 4", draw=counts, mean=4.0, variance=4.0),
        )


def _first_times(model: Traffic, streams: Streams, count: int) -> Floats:
    times_s: list[Floats] = []
    blocks = model.blocks(0, 1e6, streams)
    while sum(map(len, times_s)) < count:
        times_s.append(next(blocks)[0])
    return np.concatenate(times_s)[:count]
