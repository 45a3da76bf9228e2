"""Counters of packets and links, and the metrics that they give."""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping
from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import ArrayLike

if TYPE_CHECKING:
    from netfl.network.backhaul.fast_path import PacketArray

_LOSSES = ("collided", "dropped", "faded", "given_up", "lost", "superseded")


class PacketCounter:
    """Counters of one replica's packets since `restart`.

    Args:
        senders: Number of nodes that may send.

    Attributes:
        since_s: Start of the count.
        offered: Number of packets that senders had to send.
        offered_bits: Sum of their sizes.
        delivered: Number of packets that were delivered.
        lost: Number of packets that were not delivered, by outcome.
        delays_s: Delay of each packet that was offered since then and delivered.
    """

    def __init__(self, senders: int) -> None:
        self._senders, self._sending = senders, bytearray(senders)
        self.restart(0.0)

    def restart(self, now_s: float) -> None:
        """Start the count over; nodes that have sent before still count as senders."""
        self.since_s = now_s
        self.offered, self.offered_bits, self.delivered = 0, 0.0, 0
        self.lost: dict[str, int] = {}
        self.delays_s = array("d")
        self._bits = [0.0] * self._senders

    def offer(self, sender: int, count: int, bits: float) -> None:
        """Count *count* packets of *bits* in all that *sender* has to send."""
        self.offered += count
        self.offered_bits += bits
        self._sending[sender] = 1

    def deliver(self, sender: int, bits: float, born_s: float, now_s: float) -> None:
        """Count the delivery of a packet."""
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

    def lose(self, sender: int, outcome: str, count: int = 1) -> None:
        """Count packets that were not delivered."""
        self.lost[outcome] = self.lost.get(outcome, 0) + count
        self._sending[sender] = 1

    def metrics(self, now_s: float) -> Mapping[str, float]:
        """Return the metrics at *now_s*; none without traffic."""
        if not self._senders:
            return {}
        span_s = now_s - self.since_s
        bits = np.array(self._bits)[np.frombuffer(self._sending, np.uint8) > 0]
        lost = sum(self.lost.values())
        metrics = {
            "offered_bps": self.offered_bits / span_s,
            "throughput_bps": float(bits.sum()) / span_s,
            "delivered": float(self.delivered),
        }
        metrics |= {f"lost.{outcome}": float(self.lost.get(outcome, 0)) for outcome in _LOSSES}
        metrics["loss_ratio"] = lost / max(lost + self.delivered, 1)
        metrics |= delays(np.frombuffer(self.delays_s))
        metrics["jain"] = jain(bits)
        return metrics


@dataclass(frozen=True, slots=True)
class LinkUsage:
    """Counters of the port at one end of a link, since the start of the run.

    The difference of two usages gives the metrics of the time T between them: utilisation ``busy_s`` / T, throughput
    ``bits`` / T, and mean number of waiting messages ``waiting_s`` / T.

    >>> LinkUsage(busy_s=3.0, messages=2) - LinkUsage(busy_s=1.0)
    LinkUsage(busy_s=2.0, bits=0.0, messages=2, dropped=0, lost=0, superseded=0, waiting_s=0.0)

    Args:
        busy_s: Time during which a message was being sent.
        bits: Bits of the messages that were sent.
        messages: Number of messages that were sent.
        dropped: Messages that the queue dropped.
        lost: Messages that an outage of the node or the link ended: waiting, half sent, entering, or on the link.
        superseded: Messages that newer ones of their flow replaced.
        waiting_s: Number of waiting messages, integrated over time.
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
    """Return Jain's index ``(Σ x)² / (n Σ x²)``: 1 for equal values, 1/n if only one is not 0; NaN without values.

    R. Jain, D. Chiu, W. Hawe, "A quantitative measure of fairness", DEC-TR-301, 1984.

    >>> jain([2, 2]), jain([3, 0, 0, 0])
    (1.0, 0.25)
    """
    shares = np.asarray(values, float)
    squares = shares.size * float((shares**2).sum())
    return float(shares.sum()) ** 2 / squares if squares else math.nan


def delays(values: ArrayLike) -> dict[str, float]:
    """Return mean and quantiles of delays, by name; NaN without delays.

    >>> delays([1.0, 2.0, 3.0])["delay_p50_s"]
    2.0
    """
    known = np.asarray(values, float)
    quantiles = np.quantile(known, (0.5, 0.95, 0.99)) if known.size else np.full(3, math.nan)
    statistics = (known.mean() if known.size else math.nan, *quantiles)
    names = ("delay_mean_s", "delay_p50_s", "delay_p95_s", "delay_p99_s")
    return {name: float(value) for name, value in zip(names, statistics, strict=True)}
