"""Counters of packets, and the metrics that they give."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from netfl.network.periods import before_rounding
from netfl.types import Bools, Floats, Ints

_LOSSES = ("collided", "dropped", "faded", "given_up", "lost", "superseded")
"""Outcomes of packets that are not delivered."""

_ROUNDING = 1e-9
"""Relative excess of a busy time that is the rounding of a sum."""


def share_of_time(busy_s: float, span_s: float) -> float:
    """Return the share of a time that was busy, without the excess that the rounding of a sum gives; NaN of no time.

    >>> share_of_time(0.1 + 0.7 + 0.2000000000000001, 1.0), share_of_time(0.25, 1.0), share_of_time(1.5, 1.0)
    (1.0, 0.25, 1.5)
    """
    if not span_s:
        return math.nan
    if span_s < busy_s <= span_s * (1.0 + _ROUNDING):
        return 1.0
    return busy_s / span_s


@dataclass(frozen=True, slots=True)
class PacketArray:
    """Packets in the order of their arrival at a node, ``[n]`` each.

    Args:
        time_s: arrival times, or the times at which they end.
        born_s: arrival times at their senders.
        sender: node numbers of the senders.
        traffic: numbers of the classes of traffic.
    """

    time_s: Floats
    bits: Floats
    born_s: Floats
    sender: Ints
    traffic: Ints

    def __getitem__(self, chosen: slice | Bools | Ints) -> PacketArray:
        return PacketArray(
            self.time_s[chosen], self.bits[chosen], self.born_s[chosen], self.sender[chosen], self.traffic[chosen]
        )

    def __len__(self) -> int:
        return len(self.time_s)


class PacketCounter:
    """Counters of one replica's packets since `restart`.

    Args:
        senders: number of nodes that may send.

    Attributes:
        since_s: time of the last restart, from which rates are computed.
        counts_from_s: the earliest time that is the same instant: packets from then on count.
        offered: number of packets that senders had to send.
        offered_bits: bits of these packets.
        delivered: number of packets that were delivered.
        lost: number of packets that were not delivered, by outcome.
        delays_s: delay of each packet that was offered since then and delivered.
        backlog: number of packets that have arrived at their senders, whenever that was, and have not ended.
    """

    def __init__(self, senders: int) -> None:
        self._senders = senders
        self._sending = bytearray(senders)  # whether each has sent
        self.backlog = 0
        self.restart(0.0)

    def restart(self, now_s: float) -> None:
        """Start the count over; nodes that have sent before still count as senders."""
        self.since_s = now_s
        self.counts_from_s = before_rounding(now_s)
        self.offered = 0
        self.offered_bits = 0.0
        self.delivered = 0
        self.lost: dict[str, int] = {}
        self.delays_s = array("d")
        self._bits = [0.0] * self._senders  # delivered of each sender

    def offer(self, sender: int, bits: float, born_s: float) -> None:
        """Count a packet that *sender* has to send since *born_s*; before the last restart, only the sender counts."""
        self.backlog += 1
        if born_s >= self.counts_from_s:
            self.offered += 1
            self.offered_bits += bits
        self._sending[sender] = 1

    def offer_all(self, packets: PacketArray) -> None:
        """Count many packets of one sender."""
        self.backlog += len(packets)
        if len(packets):
            self.offered += len(packets)
            self.offered_bits += float(packets.bits.sum())
            self._sending[packets.sender[0]] = 1

    def deliver(self, sender: int, bits: float, born_s: float, now_s: float) -> None:
        """Count the delivery of a packet."""
        self.backlog -= 1
        self.delivered += 1
        self._bits[sender] += bits
        self._sending[sender] = 1
        if born_s >= self.counts_from_s:
            self.delays_s.append(now_s - born_s)

    def deliver_all(self, packets: PacketArray) -> None:
        """Count the delivery of many packets."""
        self.backlog -= len(packets)
        self.delivered += len(packets)
        sums = np.bincount(packets.sender, packets.bits, self._senders)
        for sender in np.unique(packets.sender).tolist():
            self._bits[sender] += float(sums[sender])
            self._sending[sender] = 1
        delay_s = packets.time_s - packets.born_s
        self.delays_s.frombytes(delay_s[packets.born_s >= self.counts_from_s].tobytes())

    def end_all(self, packets: PacketArray, outcome: str) -> None:
        """Count the end of many packets with one outcome."""
        if outcome == "delivered":
            self.deliver_all(packets)
            return
        senders, counts = np.unique(packets.sender, return_counts=True)
        for sender, count in zip(senders.tolist(), counts.tolist(), strict=True):
            self.lose(sender, outcome, count)

    def lose(self, sender: int, outcome: str, count: int = 1, ended_s: float = math.inf) -> None:
        """Count packets that were not delivered; before the last restart, they only leave the backlog.

        Raises:
            ValueError: *outcome* is no loss that the metrics count.
        """
        if outcome not in _LOSSES:
            raise ValueError(f"no loss of packets ('{outcome}'); name one of {', '.join(_LOSSES)}")
        self.backlog -= count
        if ended_s < self.counts_from_s:
            return
        self.lost[outcome] = self.lost.get(outcome, 0) + count
        self._sending[sender] = 1

    def metrics(self, now_s: float) -> Mapping[str, float]:
        """Return the metrics at *now_s*; none without traffic, and rates of NaN after no time."""
        if not self._senders:
            return {}
        span_s = (now_s - self.since_s) or math.nan
        is_sending = np.frombuffer(self._sending, np.uint8) > 0
        bits = np.array(self._bits)[is_sending]
        lost = sum(self.lost.values())
        metrics = {
            "offered_bps": self.offered_bits / span_s,
            "throughput_bps": float(bits.sum()) / span_s,
            "delivered": float(self.delivered),
        }
        metrics |= {f"lost.{outcome}": float(self.lost.get(outcome, 0)) for outcome in _LOSSES}
        metrics["loss_ratio"] = lost / max(lost + self.delivered, 1)
        metrics["backlog"] = float(self.backlog)
        metrics |= delays(np.frombuffer(self.delays_s))
        metrics["jain"] = jain(bits)
        return metrics


class TrafficCounters:
    """Counters of the packets of all traffic together and, where there are several classes, of each class.

    Args:
        senders: number of nodes that may send.
        classes: names of the classes of traffic.

    Attributes:
        total: counter of all packets.
        of: by class, the counters in which a packet counts.
    """

    def __init__(self, senders: int, classes: Sequence[str]) -> None:
        self.total = PacketCounter(senders)
        self._by_class: dict[str, PacketCounter] = {}
        if len(classes) > 1:
            self._by_class = {name: PacketCounter(senders) for name in classes}
        self.of: Mapping[str, Sequence[PacketCounter]] = {
            name: [self.total, *([self._by_class[name]] if self._by_class else [])] for name in classes
        }

    def split(self, packets: PacketArray) -> Iterator[tuple[str, PacketArray]]:
        """Yield the classes that *packets* are of, and the packets of each."""
        for number, name in enumerate(self.of):
            of_class = packets
            if self._by_class:
                of_class = packets[packets.traffic == number]
            if len(of_class):
                yield name, of_class

    def restart(self, now_s: float) -> None:
        """Start all counts over; see `PacketCounter.restart`."""
        for counter in (self.total, *self._by_class.values()):
            counter.restart(now_s)

    def metrics(self, now_s: float) -> dict[str, float]:
        """Return the metrics of all packets and, with the name of the class at the end, those of each class."""
        metrics = dict(self.total.metrics(now_s))
        for name, counter in self._by_class.items():
            metrics |= {f"{metric}.{name}": value for metric, value in counter.metrics(now_s).items()}
        return metrics


def jain(values: ArrayLike) -> float:
    """Return Jain's index ``(Σ x)² / (n Σ x²)``: 1 for equal values, 1/n if only one is not 0; NaN without values.

    R. Jain, D. Chiu, W. Hawe, "A quantitative measure of fairness", DEC-TR-301, 1984.

    >>> jain([2, 2]), jain([3, 0, 0, 0])
    (1.0, 0.25)
    """
    x = np.asarray(values, float)
    squares = x.size * float((x**2).sum())
    if not squares:
        return math.nan
    return float(x.sum()) ** 2 / squares


def delays(values: ArrayLike) -> dict[str, float]:
    """Return mean and quantiles of delays, by name; NaN without delays.

    >>> delays([1.0, 2.0, 3.0])["delay_p50_s"]
    2.0
    """
    delays_s = np.asarray(values, float)
    statistics = [math.nan] * 4
    if delays_s.size:
        statistics = [delays_s.mean(), *np.quantile(delays_s, (0.5, 0.95, 0.99))]
    names = ("delay_mean_s", "delay_p50_s", "delay_p95_s", "delay_p99_s")
    return {name: float(value) for name, value in zip(names, statistics, strict=True)}
