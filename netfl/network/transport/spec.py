"""Transport of updates: whole, or in packets with or without repetition."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from netfl.core.spec import OnlyWith, Spec
from netfl.errors import Fault
from netfl.units import Bits, PacketSize, Seconds

_MTU_BITS = 8.0 * 1500.0
"""The payload of an Ethernet frame (RFC 894)."""
_ROUNDING = 1e-9
"""Share of a packet by which an update may exceed whole packets and still fit into them."""


class Arq(Spec):
    """Selective repeat between a user and the server.

    The user has a timer for each packet, which starts at the end of its airtime (that of its last attempt, if the MAC
    makes several), whether the tower received it or not.  The server acknowledges each packet.  The acknowledgement
    takes no airtime, is never lost, and arrives after the delays of the links and of the air, without queues.  If it
    has not arrived by ``timeout``, the packet is queued again, before packets that have not been sent yet.  A packet
    that is acknowledged while it is queued again leaves the queue.  The server discards duplicates.

    If each sending of a packet fails with probability p, independently, an update of n packets is delivered with
    probability (1 - p^(r+1))^n, r the retries, and each packet is sent (1 - p^(r+1)) / (1 - p) times in the mean if the
    others do not end it (Bertsekas and Gallager, Data Networks, 2nd ed., 1992, §2.4.3 for the scheme).
    """

    timeout: Annotated[Seconds, Field(gt=0)]
    """Time that a user waits for an acknowledgement."""
    retries: Annotated[int, Field(ge=0)] = 5
    """r, the number of repetitions of a packet, after which the update is given up."""
    window: Annotated[int, Field(ge=1)] | None = None
    """Number of packets that may be sent from the first unacknowledged one on; ``null`` is no limit."""


class Fec(Spec):
    """Forward error correction of packets: blocks of k packets of data with n - k packets of parity.

    The code is maximum distance separable, such as Reed and Solomon's: any k packets of a block give its data.  The
    parity of a block follows its data.  The last block of an update may have fewer packets of data, with as many
    packets of parity.  A block of which fewer packets arrive gives the packets of data that did arrive.

    If each packet is lost with probability p, independently, a block is received whole with the probability that at
    most n - k of n packets are lost, ``Σ_(i ≤ n-k) binom(n, i) pⁱ (1 - p)^(n-i)`` (Rizzo, "Effective erasure codes for
    reliable computer communication protocols", ACM CCR 1997).
    """

    data: Annotated[int, Field(ge=1)]
    """k, packets of data of a block."""
    total: Annotated[int, Field(ge=2)]
    """n, all packets of a block."""

    @model_validator(mode="after")
    def _check_parity(self) -> Self:
        if self.total <= self.data:
            raise ValueError(f"{self.total} packets hold no parity for {self.data} packets of data; increase total")
        return self

    @property
    def parity(self) -> int:
        """Packets of parity of a block, n - k."""
        return self.total - self.data

    def count(self, data: int) -> int:
        """Return the number of packets for so many packets of *data*.

        >>> Fec(data=4, total=6).count(9)
        15
        """
        return data + -(-data // self.data) * self.parity

    def decode(self, arrived: Sequence[bool]) -> tuple[bool, ...]:
        """Return which packets of data the server has, given which of all packets have arrived.

        >>> Fec(data=2, total=3).decode([False, True, True, True, False, False])
        (True, True, True, False)
        """
        known: list[bool] = []
        for start in range(0, len(arrived), self.total):
            block = arrived[start : start + self.total]
            data = block[: len(block) - self.parity]
            if sum(block) >= len(data):
                data = [True] * len(data)
            known += data
        return tuple(known)


@dataclass(frozen=True, slots=True)
class LossRule:
    """Rule for updates of which packets are lost: they wait for the end of all their packets.

    Args:
        erases: an update without some parts is delivered.
        fec: forward error correction, if any.
    """

    erases: bool
    fec: Fec | None

    def parts(self, arrived: Sequence[bool]) -> tuple[bool, ...] | None:
        """Return which parts the server has, given which packets have arrived; ``None`` if the update is lost.

        >>> LossRule(erases=True, fec=None).parts([True, False])
        (True, False)
        >>> LossRule(erases=False, fec=None).parts([True, False])
        """
        known = tuple(arrived)
        if self.fec is not None and len(arrived) > 1:  # else the user is exempt from airtime, and sends no parity
            known = self.fec.decode(arrived)
        if all(known) or (self.erases and any(known)):
            return known
        return None


@dataclass(frozen=True, slots=True)
class Segmentation:
    """Packets of an update.

    Args:
        bits: size of each but the last, with header.
        last_bits: size of the last.
    """

    count: int
    bits: float
    last_bits: float

    @property
    def max_bits(self) -> float:
        """Size of the largest packet, which is the first."""
        return self.packet_bits(0)

    @property
    def total_bits(self) -> float:
        """Size of all packets together."""
        return (self.count - 1) * self.bits + self.last_bits

    def packet_bits(self, part: int) -> float:
        """Return the size of packet *part*, counted from 0."""
        return self.bits if part < self.count - 1 else self.last_bits


class Transport(Spec):
    """Size of updates as sent, whole or in packets.

    **Message grain.**  An update is one frame on the air and one message in every queue, whatever its size.

    By default, and where ``grain`` is ``null``, an update is a message if a frame of the MAC can hold it (`csma_ca`:
    2296 bytes).  A larger one is sent in packets, each of which fills one frame.  Other MACs have no such limit.

    **Packet grain.**  An update of B bits is divided into n = ceil(B / (mtu - header)) packets of mtu bits each, header
    included; the last is smaller where possible.  Each packet is a frame of its own: a user sends one after the other
    as the MAC permits, each for its own airtime, and ``max_attempts`` of the MAC is per packet.  Each crosses the
    routers as a message of its own; a queue's capacity counts packets.  The server puts them in order; the update has
    arrived with the last missing packet.  Without ``arq`` the first packet that is given up, lost or dropped ends the
    update with that outcome: the rest is not sent, and packets on their way do not count.  A newer version ends an
    update with packets that have not been sent.

    **Lost packets.**  With ``loss: erase``, or with ``fec``, a lost packet does not end the update: the user sends the
    others, and the update ends when the last of its packets has arrived or is lost, of which the server learns at that
    instant.  With ``fec``, the packets of parity may replace lost ones.  Then ``loss: drop`` loses an update without
    some of its parts, and ``loss: erase`` delivers it with those that arrived, at least one: learners read what they
    hold, and nothing of the others (``Delivery.received``).  All packets of an update then have the same size, so that
    each holds the same share of its bits.  With ``arq``, a packet is lost when it is given up.

    Packets of traffic have their own sizes, and each is one frame.  A broadcast is one message without header.
    """

    grain: Literal["message", "packet"] | None = None
    """Whole or in packets; ``null`` is whole if a frame of the MAC can hold an update."""
    mtu: Annotated[Annotated[PacketSize, Field(gt=0)] | None, OnlyWith("grain", "packet")] = None
    """Largest packet, header included (a plain number is bits); ``null`` is 1500 B."""
    header: Annotated[Bits, Field(ge=0)] = 0.0
    """Header of each packet, or of the whole message: 40 B for IPv4 and TCP (RFC 791, RFC 9293)."""
    arq: Annotated[Arq | None, OnlyWith("grain", "packet")] = None
    """Repetition of packets; ``null`` is none."""
    loss: Annotated[Literal["drop", "erase"], OnlyWith("grain", "packet")] = "drop"
    """A lost packet loses its update, or only its part of the update."""
    fec: Annotated[Fec | None, OnlyWith("grain", "packet")] = None
    """Forward error correction; ``null`` is none."""
    assumed_compression: Annotated[float, Field(ge=1)] = 1.0
    """Factor by which updates are assumed to be smaller, without headers, whether their size is given or that of the
    model.  It changes nothing in learning; a ``codec`` of the scenario compresses updates and loses what it drops."""
    assumed_compression_down: Annotated[float, Field(ge=1)] = 1.0
    """Factor by which broadcasts are assumed to be smaller."""

    @model_validator(mode="after")
    def _check_header(self) -> Self:
        if self.grain == "packet" and self.header >= self._mtu_bits:
            raise ValueError(
                f"a header of {self.header:g} bit leaves no payload in an mtu of {self._mtu_bits:g} bit; "
                "give a larger mtu"
            )
        return self

    @property
    def loss_rule(self) -> LossRule | None:
        """The rule for updates of which packets are lost; ``None`` if the first lost packet ends an update."""
        if self.loss == "drop" and self.fec is None:
            return None
        return LossRule(self.loss == "erase", self.fec)

    @property
    def _mtu_bits(self) -> float:
        if self.mtu is None:
            return _MTU_BITS
        return self.mtu

    def misfits(self, frame_bits: float | None) -> Iterator[Fault]:
        """Report packets that do not fit into a frame of *frame_bits*; keys are relative to this transport."""
        if frame_bits is None or self.grain == "message":
            return
        problem = f"a frame of the MAC carries at most {frame_bits / 8.0:g} B"
        if self.grain == "packet" and self._mtu_bits > frame_bits:
            yield Fault("mtu", problem, self._mtu_bits, f"give {frame_bits / 8.0:g} B or less")
        elif self.grain is None and self.header >= frame_bits:
            yield Fault("header", problem, self.header, "make it smaller")

    def settled(self, bits: float, frame_bits: float | None) -> Self:
        """Return this transport with a definite grain: packets only where *frame_bits* cannot hold a compressed update.

        >>> Transport().settled(40_000, 18_368).cut(40_000)
        Segmentation(count=3, bits=18368.0, last_bits=3264.0)
        """
        if self.grain is not None:
            return self
        if frame_bits is None or bits + self.header <= frame_bits:
            return self.model_copy(update={"grain": "message"})
        return self.model_copy(update={"grain": "packet", "mtu": float(frame_bits)})

    def cut(self, bits: float) -> Segmentation:
        """Return the packets, or the single message, of an update of *bits*.

        >>> Transport(grain="packet", mtu="100 B", header="20 B").cut(1000)
        Segmentation(count=2, bits=800.0, last_bits=520.0)
        """
        if self.grain != "packet":
            return Segmentation(1, bits + self.header, bits + self.header)
        payload_bits = self._mtu_bits - self.header
        count = max(1, math.ceil(bits / payload_bits - _ROUNDING))
        if self.loss_rule is not None:
            packet_bits = bits / count + self.header
            if self.fec is not None:
                count = self.fec.count(count)
            return Segmentation(count, packet_bits, packet_bits)
        last_payload_bits = min(bits - (count - 1) * payload_bits, payload_bits)
        return Segmentation(count, self._mtu_bits, last_payload_bits + self.header)
