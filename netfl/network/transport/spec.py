"""How an update crosses the network: whole, or in packets that are repeated until they are acknowledged."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from netfl.errors import Fault
from netfl.registry import Spec
from netfl.units import Bits, Seconds

_MTU_BITS = 8.0 * 1500.0
"""The payload of an Ethernet frame (RFC 894)."""
_ROUNDING = 1e-9
"""By which share of a packet an update may exceed whole packets and still fit into them."""


class Arq(Spec):
    """Selective repeat between a user and the server.

    The user keeps a timer for each packet, which starts when its time on the air ends at the tower, heard or not (that
    of its last attempt, if the MAC makes several).  The server acknowledges each packet when it is there; the
    acknowledgement costs no air, is never lost, and is back after the delays of the links on the way and of the air,
    queues and rates apart.  If it is not back by ``timeout``, the packet is queued again, before those that have not
    been sent at all.  One that is acknowledged while it is queued again leaves the queue.  Packets that have arrived
    before are discarded.

    If each sending of a packet fails with probability p, independently, an update of n packets gets through with
    probability (1 - p^(r+1))^n, r the retries, and each packet is sent (1 - p^(r+1)) / (1 - p) times in the mean if the
    others do not end it (Bertsekas and Gallager, Data Networks, 2nd ed., 1992, §2.4.3 for the scheme).
    """

    timeout: Annotated[Seconds, Field(gt=0)]
    """How long a user waits for an acknowledgement."""
    retries: Annotated[int, Field(ge=0)] = 5
    """r, how often one packet is sent again; after that the update is given up."""
    window: Annotated[int, Field(ge=1)] | None = None
    """No packet is sent so many after the first that is not acknowledged, or later; ``null`` is no limit."""


@dataclass(frozen=True, slots=True)
class Segmentation:
    """An update as packets.

    Args:
        count: how many.
        bits: the size of each but the last, header included.
        last_bits: that of the last.
    """

    count: int
    bits: float
    last_bits: float

    @property
    def max_bits(self) -> float:
        """The size of the largest."""
        return self.bits if self.count > 1 else self.last_bits

    def packet_bits(self, part: int) -> float:
        """The size of one, by its number from 0."""
        return self.bits if part < self.count - 1 else self.last_bits


class Transport(Spec):
    """How large an update is on its way, and whether it travels whole or in packets.

    **Message grain.**  An update is one frame on the air and one message in every queue, however large.

    By default, and where ``grain`` is ``null``, an update is a message if a frame of the MAC can hold it (`csma_ca`:
    2296 bytes).  A larger one is sent in packets, each as large as such a frame.  Other MACs state no such limit.

    **Packet grain.**  An update of B bits is cut into n = ceil(B / (mtu - header)) packets of mtu bits each, header
    included; the last is as much smaller as it can be.  Each is a frame of its own on the air: a user sends one after
    the other as the MAC lets it, each for its own airtime, and the MAC's ``max_attempts`` are those of one packet.
    Each crosses the routers as a message of its own; a queue's capacity counts packets.  The server puts them in order,
    and the update has arrived with the last that was missing.  Without ``arq`` the first packet that is given up, lost
    or dropped ends the update in that way, and the rest is not sent; what is on its way still is of no avail.  A newer
    version ends an update of which anything has still to be sent.

    Traffic has packets of its own sizes, each of which is one frame; none of this changes them.  A broadcast stays one
    message without header.
    """

    grain: Literal["message", "packet"] | None = None
    """Whole, or in packets; ``null``: whole if a frame of the MAC can hold that."""
    mtu: Annotated[Bits, Field(gt=0)] | None = None
    """The largest packet, header included (a plain number is bits); ``null`` is 1500 B."""
    header: Annotated[Bits, Field(ge=0)] = 0.0
    """What each packet carries beside the update, or the whole message: 40 B for IPv4 and TCP (RFC 791, RFC 9293)."""
    arq: Arq | None = None
    """How packets are repeated; ``null``: they are not."""
    compression: Annotated[float, Field(ge=1)] = 1.0
    """By how much updates are compressed, whether their size is given or the model's; headers are not."""
    compression_down: Annotated[float, Field(ge=1)] = 1.0
    """By how much broadcasts are."""

    @model_validator(mode="after")
    def _own_keys(self) -> Self:
        """Keys that have an effect, and room for something beside the header."""
        if self.grain != "packet":
            for name in ("mtu", "arq"):
                if getattr(self, name) is not None:
                    raise ValueError(f"{name} has no effect without grain: packet; leave it out, or take that")
        elif self.header >= self._mtu_bits:
            raise ValueError(
                f"a header of {self.header:g} bit leaves nothing of an mtu of {self._mtu_bits:g} bit; give a larger mtu"
            )
        return self

    @property
    def _mtu_bits(self) -> float:
        """The largest packet."""
        return _MTU_BITS if self.mtu is None else self.mtu

    def misfits(self, frame_bits: float | None) -> Iterator[Fault]:
        """Packets that no frame of the MAC holds; keys relative to this transport.

        Args:
            frame_bits: the largest payload of a frame; ``None`` where there is no limit.
        """
        if frame_bits is None or self.grain == "message":
            return
        problem = f"a frame of the MAC holds {frame_bits / 8.0:g} B at most"
        if self.grain == "packet" and self._mtu_bits > frame_bits:
            yield Fault("mtu", problem, self._mtu_bits, f"give {frame_bits / 8.0:g} B or less")
        elif self.grain is None and self.header >= frame_bits:
            yield Fault("header", problem, self.header, "make it smaller")

    def settled(self, bits: float, frame_bits: float | None) -> Self:
        """This transport with a grain that is decided: packets only where no frame of the MAC holds an update.

        Args:
            bits: the size of an update, compressed.
            frame_bits: the largest payload of a frame; ``None`` where there is no limit.

        >>> Transport().settled(40_000, 18_368).cut(40_000)
        Segmentation(count=3, bits=18368.0, last_bits=3264.0)
        """
        if self.grain is not None:
            return self
        if frame_bits is None or bits + self.header <= frame_bits:
            return self.model_copy(update={"grain": "message"})
        return self.model_copy(update={"grain": "packet", "mtu": float(frame_bits)})

    def up_bits(self, bits: float) -> float:
        """The size of an update of *bits* when it is compressed."""
        return bits / self.compression

    def down_bits(self, bits: float) -> float:
        """The same for a broadcast."""
        return bits / self.compression_down

    def cut(self, bits: float) -> Segmentation:
        """What is sent for *bits* of an update.

        >>> Transport(grain="packet", mtu="100 B", header="20 B").cut(1000)
        Segmentation(count=2, bits=800.0, last_bits=520.0)
        """
        if self.grain != "packet":
            return Segmentation(1, bits + self.header, bits + self.header)
        room = self._mtu_bits - self.header
        count = max(1, math.ceil(bits / room - _ROUNDING))
        return Segmentation(count, self._mtu_bits, min(bits - (count - 1) * room, room) + self.header)
