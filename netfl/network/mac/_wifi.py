"""The timings of IEEE 802.11, in whole nanoseconds."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Literal

Standard = Literal["802.11a", "802.11b", "802.11g"]

ACK_BITS, RTS_BITS, CTS_BITS = 112, 160, 112
"""Control frames, IEEE 802.11-2020 §9.3.1."""


@dataclass(frozen=True)
class Phy:
    """One physical layer.

    Args:
        slot: a slot.
        sifs: the short inter-frame space.
        preamble: preamble and header before the first bit of a frame.
        symbol: what airtimes are rounded up to.
        extra_bits: bits that the physical layer adds to each frame.
        tail: silence that belongs to each frame.
        rates: the bit rates that it has, in Mb/s, the default first.
        control: the rate of ACK, RTS and CTS for each data rate, in Mb/s, the first for the default.
        slowest: the rate at which an ACK is assumed to be sent when nothing is known of it, in Mb/s.
        cw: the least and the greatest contention window.
        decodes: whether stations that overhear a collision take it for a frame in error.
    """

    slot: int
    sifs: int
    preamble: int
    symbol: int
    extra_bits: int
    tail: int
    rates: tuple[float, ...]
    control: tuple[float, ...]
    slowest: float
    cw: tuple[int, int]
    decodes: bool

    @property
    def difs(self) -> int:
        """SIFS and two slots."""
        return self.sifs + 2 * self.slot

    def airtime(self, bits: float, rate: float) -> int:
        """How long a frame of *bits*, MAC header included, is on the air at *rate* Mb/s."""
        per_symbol = rate * self.symbol / 1000.0
        return self.preamble + ceil((bits + self.extra_bits) / per_symbol - 1e-9) * self.symbol + self.tail

    def control_rate(self, rate: float) -> float:
        """The rate at which a data frame at *rate* is acknowledged: the highest control rate not above it."""
        return max((one for one in self.control if one <= rate), default=self.slowest)

    @property
    def timeout(self) -> int:
        """From the end of a frame to when its sender knows that no answer comes (§10.3.2.11)."""
        return self.sifs + self.slot + self.preamble

    @property
    def eifs(self) -> int:
        """The extended inter-frame space after a frame in error (§10.3.2.3.7)."""
        return self.sifs + self.airtime(ACK_BITS, self.slowest) + self.difs


_OFDM = (6.0, 9.0, 12.0, 18.0, 24.0, 36.0, 48.0, 54.0)

PHYS: dict[Standard, Phy] = {
    "802.11a": Phy(9_000, 16_000, 20_000, 4_000, 22, 0, _OFDM, (6.0, 12.0, 24.0), 6.0, (15, 1023), decodes=False),
    "802.11b": Phy(
        20_000,
        10_000,
        192_000,
        1_000,
        0,
        0,
        (11.0, 5.5, 2.0, 1.0),
        (11.0, 5.5, 2.0, 1.0),
        1.0,
        (31, 1023),
        decodes=True,
    ),
    "802.11g": Phy(
        9_000, 10_000, 20_000, 4_000, 22, 6_000, _OFDM[::-1], (24.0, 12.0, 6.0), 6.0, (15, 1023), decodes=False
    ),
}
"""802.11a: OFDM at 5 GHz (§17).  802.11b: DSSS and CCK with the long preamble (§16).  802.11g: ERP-OFDM alone, short
slots, with 6 µs of signal extension after each frame (§18)."""
