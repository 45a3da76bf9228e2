"""Packets in bursts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated

import numpy as np
from pydantic import Field

from netfl.network.traffic import MAX_BLOCK, MAX_RATE_HZ, Traffic
from netfl.streams import Streams
from netfl.types import Floats, Ints, Law
from netfl.units import Seconds

_BURSTS = 64
"""Bursts that are drawn together."""
_MAX_PACKETS = 2.0**52
"""Packets of a burst at most, which no run sees the end of: 64 times as many are a whole number of 64 bits."""


class OnOff(Traffic):
    """Each sender alternates between bursts and silence, both exponential; a burst has packets at a constant interval.

    The k-th packet of a burst arrives (k - 1) ``every`` after its start, so that a burst of length L has
    floor(L / every) + 1 packets, in the mean 1 / (1 - exp(-every / E[on])); a sender starts in a burst with
    probability E[on] / (E[on] + E[off]).  The two-state source of Brady's model of speech (BSTJ 48, 1969).

    Example::

        kind: on_off
        every: 20 ms
        on: 352 ms
        off: 650 ms
        size: {distribution: fixed, mean: 160 B}
    """

    every: Annotated[Seconds, Field(ge=1.0 / MAX_RATE_HZ)]
    """Time between the packets of a burst, at least 1 ns."""
    on: Annotated[Seconds, Field(gt=0)]
    """Mean length of a burst."""
    off: Annotated[Seconds, Field(gt=0)]
    """Mean length of a silence."""

    def rate_hz(self, link_bps: float) -> float:
        return float(-1.0 / np.expm1(-self.every / self.on) / (self.on + self.off))

    def times_s(self, link_bps: float, rng: np.random.Generator) -> Iterator[Floats]:
        for starts_s, packets in self._bursts(rng):
            before = np.cumsum(packets) - packets  # packets of the bursts before
            for begin in range(0, int(packets.sum()), MAX_BLOCK):
                packet = np.arange(begin, min(begin + MAX_BLOCK, packets.sum()))
                burst = np.searchsorted(before, packet, side="right") - 1
                number = packet - before[burst]  # within its burst, from 0
                yield starts_s[burst] + self.every * number

    def first_times_s(self, senders: Sequence[int], link_bps: float, streams: Streams) -> Floats:
        return np.fromiter(map(self._first_s, streams.rngs("times", senders)), float, len(senders))

    def _first_s(self, rng: np.random.Generator) -> float:
        is_in_burst = rng.random() < self.on / (self.on + self.off)
        if is_in_burst:
            return 0.0
        return rng.exponential(self.off)

    def _bursts(self, rng: np.random.Generator) -> Iterator[tuple[Floats, Ints]]:
        """Yield the starts of bursts and their packets; the first sojourn is as any other, as they are memoryless."""
        now_s = self._first_s(rng)
        while True:
            lengths_s = rng.exponential(self.on, _BURSTS)
            silences_s = rng.exponential(self.off, _BURSTS)
            ends_s = now_s + np.cumsum(lengths_s + silences_s)
            starts_s = np.concatenate([[now_s], ends_s[:-1]])
            bounded_s = np.minimum(lengths_s, _MAX_PACKETS * self.every)
            yield starts_s, (bounded_s / self.every).astype(np.int64) + 1
            now_s = float(ends_s[-1])

    def laws(self) -> tuple[Law, ...]:
        more = float(np.exp(-self.every / self.on))  # P(another packet)

        def draw(streams: Streams, size: int) -> Floats:
            blocks = self._bursts(streams.rng("bursts"))
            packets = [next(blocks)[1] for _ in range(size // _BURSTS + 1)]
            return np.concatenate(packets).astype(float)

        return (
            Law(
                "packets of a burst",
                "geometric: P(more than k) = exp(-k every / E[on])",
                draw=draw,
                mean=1.0 / (1.0 - more),
                variance=more / (1.0 - more) ** 2,
            ),
        )
