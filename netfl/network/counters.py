"""The meter: what a network has carried, counted as it goes, and the figures that come of it."""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping
from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import ArrayLike

if TYPE_CHECKING:
    from netfl.network.backhaul.batch_port import PacketArray

_LOSSES = ("collided", "dropped", "faded", "given_up", "lost", "superseded")


class PacketCounter:
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

    def deliver_all(self, packets: PacketArray) -> None:
        """Count the delivery of many packets."""
        self.delivered += len(packets)
        sums = np.bincount(packets.sender, packets.bits, self._senders)
        for sender in np.unique(packets.sender).tolist():
            self._bits[sender] += float(sums[sender])
            self._sending[sender] = 1
        self.delays_s.frombytes((packets.time_s - packets.born_s)[packets.born_s >= self.since_s].tobytes())

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


# What a link has carried: counts that grow with time, so that two of them tell of the time between.


@dataclass(frozen=True, slots=True)
class LinkUsage:
    """What the port at one end of a link has done since the beginning.

    Over a time T: utilisation is ``busy_s`` / T, throughput ``bits`` / T, the mean number of waiting messages
    ``waiting_s`` / T, each of the difference of two usages.

    >>> LinkUsage(busy_s=3.0, messages=2) - LinkUsage(busy_s=1.0)
    LinkUsage(busy_s=2.0, bits=0.0, messages=2, dropped=0, lost=0, superseded=0, waiting_s=0.0)

    Args:
        busy_s: time during which something was put on the link.
        bits: bits of the messages that were put on it whole.
        messages: their number.
        dropped: messages that a full or cautious queue turned away.
        lost: messages that the outage of the node or of the link took: waiting, half sent, coming to it, on the wire.
        superseded: messages that newer ones of their flow pushed out.
        waiting_s: the number of waiting messages, integrated over time.
    """

    busy_s: float = 0.0
    bits: float = 0.0
    messages: int = 0
    dropped: int = 0
    lost: int = 0
    superseded: int = 0
    waiting_s: float = 0.0

    def __sub__(self, earlier: Self) -> LinkUsage:
        return LinkUsage(*(now - then for now, then in zip(astuple(self), astuple(earlier), strict=True)))


def jain(values: ArrayLike) -> float:
    """Jain's index ``(Σ x)² / (n Σ x²)``: 1 where all have the same, 1/n where one has it all; NaN for nothing at all.

    R. Jain, D. Chiu, W. Hawe, "A quantitative measure of fairness", DEC-TR-301, 1984.

    >>> jain([2, 2]), jain([3, 0, 0, 0])
    (1.0, 0.25)
    """
    shares = np.asarray(values, float)
    squares = shares.size * float((shares**2).sum())
    return float(shares.sum()) ** 2 / squares if squares else math.nan


def delays(values: ArrayLike) -> dict[str, float]:
    """Mean and quantiles of delays, by name; NaN where there are none.

    >>> delays([1.0, 2.0, 3.0])["delay_p50_s"]
    2.0
    """
    known = np.asarray(values, float)
    quantiles = np.quantile(known, (0.5, 0.95, 0.99)) if known.size else np.full(3, math.nan)
    found = (known.mean() if known.size else math.nan, *quantiles)
    names = ("delay_mean_s", "delay_p50_s", "delay_p95_s", "delay_p99_s")
    return {name: float(value) for name, value in zip(names, found, strict=True)}
