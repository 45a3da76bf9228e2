"""The meter: what a network has carried, counted as it goes, and the figures that come of it."""

from __future__ import annotations

from array import array
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from netfl.statistics import delays, jain

_LOSSES = ("collided", "dropped", "faded", "given_up", "lost", "superseded")


class Meter:
    """Counts of one replica's packets since `restart`.

    Args:
        senders: the number of nodes that may send.

    Attributes:
        since_s: from when on is counted.
        offered: packets that came.
        offered_bits: their sizes.
        lost: packets that ended otherwise than delivered, by how.
        delays_s: from its coming to its arrival, for each packet delivered that came since then.
    """

    def __init__(self, senders: int) -> None:
        self._senders, self._sending = senders, bytearray(senders)
        self.restart(0.0)

    def restart(self, now_s: float) -> None:
        """Count from now on; those who have sent before are senders still."""
        self.since_s = now_s
        self.offered, self.offered_bits, self.delivered = 0, 0.0, 0
        self.lost: dict[str, int] = {}
        self.delays_s = array("d")
        self._bits = [0.0] * self._senders

    def offer(self, sender: int, count: int, bits: float) -> None:
        """*count* packets of *bits* in all have come to *sender*."""
        self.offered += count
        self.offered_bits += bits
        self._sending[sender] = 1

    def deliver(self, sender: int, bits: float, born_s: float, now_s: float) -> None:
        """A packet has arrived."""
        self.delivered += 1
        self._bits[sender] += bits
        self._sending[sender] = 1
        if born_s >= self.since_s:
            self.delays_s.append(now_s - born_s)

    def deliver_all(
        self,
        senders: NDArray[np.int64],
        bits: NDArray[np.float64],
        born_s: NDArray[np.float64],
        times_s: NDArray[np.float64],
    ) -> None:
        """Many packets have arrived."""
        self.delivered += len(senders)
        sums = np.bincount(senders, bits, self._senders)
        for sender in np.unique(senders).tolist():
            self._bits[sender] += float(sums[sender])
            self._sending[sender] = 1
        self.delays_s.frombytes((times_s - born_s)[born_s >= self.since_s].tobytes())

    def lose(self, sender: int, fate: str, count: int = 1) -> None:
        """Packets have ended on the way."""
        self.lost[fate] = self.lost.get(fate, 0) + count
        self._sending[sender] = 1

    def figures(self, now_s: float) -> Mapping[str, float]:
        """The figures by now; none where there is no traffic."""
        if not self._senders:
            return {}
        span_s = now_s - self.since_s
        bits = np.array(self._bits)[np.frombuffer(self._sending, np.uint8) > 0]
        lost = sum(self.lost.values())
        told = {
            "offered_bps": self.offered_bits / span_s,
            "throughput_bps": float(bits.sum()) / span_s,
            "delivered": float(self.delivered),
        }
        told |= {f"lost.{fate}": float(self.lost.get(fate, 0)) for fate in _LOSSES}
        told["loss_ratio"] = lost / max(lost + self.delivered, 1)
        told |= delays(np.frombuffer(self.delays_s))
        told["jain"] = jain(bits)
        return told
