"""A table of modulation and coding schemes, of which a sender takes the fastest that its channel bears."""

from __future__ import annotations

import math
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from netfl.network.reception import PACKET_BITS, Reception
from netfl.network.reception._search import minimum_snr_db
from netfl.registry import FamilyMember
from netfl.streams import Streams
from netfl.types import Law
from netfl.units import Bits, Decibels

# The modes of standards: rates per hertz, and the SNR from which each is received.


class _McsEntry(Reception):
    """One mode of a standard."""

    efficiency: float
    """Bits per second and hertz."""
    threshold: float
    """The least SNR that is received, in dB."""

    def rate_bps(self, bandwidth_hz: float, mode: int = 0) -> float:
        """In proportion to the bandwidth."""
        return self.efficiency * bandwidth_hz

    def success(
        self, sinr_db: NDArray[np.float64], bandwidth_hz: float, bits: float, mode: int = 0
    ) -> NDArray[np.float64]:
        """All or nothing."""
        return np.asarray(np.asarray(sinr_db) >= self.threshold, float)


def _wlan() -> tuple[_McsEntry, ...]:
    """OFDM of IEEE 802.11a: 6, 9, 12, 18, 24, 36, 48 and 54 Mb/s at 20 MHz, whose symbol lasts 80 samples.

    The thresholds are the sensitivities that the standard asks of a receiver (at most 10 % of packets of 1000 bytes
    lost) over the noise that it assumes: thermal noise in 20 MHz, a noise figure of 10 dB, and 5 dB for what else
    is imperfect in a receiver, which is for the scenario's noise figure to say.
    """
    bits_of_a_symbol = (24, 36, 48, 72, 96, 144, 192, 216)
    sensitivity_dbm = (-82, -81, -79, -77, -74, -70, -66, -65)
    noise_dbm = -174.0 + 10.0 * math.log10(20e6) + 10.0 + 5.0
    return tuple(
        _McsEntry(efficiency=bits / 80.0, threshold=least_dbm - noise_dbm)
        for bits, least_dbm in zip(bits_of_a_symbol, sensitivity_dbm, strict=True)
    )


def _lte() -> tuple[_McsEntry, ...]:
    """The 15 channel quality indicators of LTE: 168 symbols in each block of 180 kHz and 1 ms, all of them data.

    The thresholds are those SNR at which log2(1 + SNR / Γ), Γ = -ln(5 BER) / 1.5 at a bit error rate of 5·10⁻⁵, is the
    efficiency of the indicator.
    """
    qpsk, qam16, qam64 = (78, 120, 193, 308, 449, 602), (378, 490, 616), (466, 567, 666, 772, 873, 948)
    bits_of_a_symbol = [bits * rate / 1024.0 for bits, rates in ((2, qpsk), (4, qam16), (6, qam64)) for rate in rates]
    gap = -math.log(5.0 * 5e-5) / 1.5
    return tuple(
        _McsEntry(efficiency=168.0 / 180.0 * bits, threshold=10.0 * math.log10(gap * (2.0**bits - 1.0)))
        for bits in bits_of_a_symbol
    )


STANDARDS = {"802.11a": _wlan(), "lte": _lte()}
"""The modes of each standard, from the slowest to the fastest."""


_LAW_HZ = 20e6
_PACKET_ERROR = 0.1


class Mcs(Reception):
    """Rate adaptation: each sender takes the fastest mode that would do at the SNR that it expects, less a margin.

    A mode would do if at most ``packet_error`` of all packets of size ``packet`` would be lost; if none would do, the
    slowest is taken.  The modes are reception models themselves, such as ``snr_threshold`` (a rate and a threshold)
    and ``modulation``; or those of a standard, each received from its threshold on and not below:

    - ``802.11a``: the eight OFDM rates, 6 … 54 Mb/s at 20 MHz and in proportion at 5 and 10 MHz; thresholds 4 … 21 dB
      from the sensitivities of IEEE 802.11-2016, table 17-18, over the noise that clause 17.3.10.2 assumes.
    - ``lte``: the 15 indicators of 3GPP TS 36.213, table 7.2.3-1; SNR = Γ (2^efficiency - 1), Γ = 7.4 dB, after
      G. Piro, N. Baldo and M. Miozzo, "An LTE module for the ns-3 network simulator", WNS3 2011.  The bandwidth is
      that of the resource blocks, 180 kHz each, without guards; control channels and reference symbols cost nothing.

    Exactly one of ``standard`` and ``table`` is given.

    Example::

        kind: mcs
        margin: 3 dB
        table:
          - {kind: snr_threshold, threshold: 2 dB, rate: 1 Mbps}
          - {kind: snr_threshold, threshold: 7 dB, rate: 2 Mbps}
          - {kind: modulation, scheme: 16qam, code_rate: 0.75, coding_gain: 5 dB}
    """

    standard: Literal["802.11a", "lte"] | None = None
    """Whose modes."""
    table: Annotated[tuple[Annotated[Reception, FamilyMember()], ...], Field(min_length=1)] | None = None
    """The modes, in any order; models that have one mode each."""
    margin: Decibels = 0.0
    """How far below the expected SNR a mode must still do."""
    packet: Annotated[Bits, Field(gt=0)] = PACKET_BITS
    """Size of the packets that a choice is made for; those that are sent may have another."""
    packet_error: Annotated[float, Field(gt=0, lt=1)] = _PACKET_ERROR
    """Share of them that may be lost."""

    @model_validator(mode="after")
    def _one_table(self) -> Mcs:
        """One source of modes, each of which has no choice of its own."""
        if (self.standard is None) == (self.table is None):
            raise ValueError("give standard or table, exactly one of them")
        if any(row.modes != 1 for row in self.table or ()):
            raise ValueError("a row of the table has several modes; give rows of one mode, such as snr_threshold")
        if self.standard and (self.packet, self.packet_error) != (PACKET_BITS, _PACKET_ERROR):
            raise ValueError("packet and packet_error have no effect on the thresholds of a standard; leave them out")
        return self

    @property
    def rows(self) -> tuple[Reception, ...]:
        """The modes."""
        return self.table or STANDARDS[self.standard or ""]

    @property
    def modes(self) -> int:
        """As many as rows."""
        return len(self.rows)

    def rate_bps(self, bandwidth_hz: float, mode: int = 0) -> float:
        """That of the row."""
        return self.rows[mode].rate_bps(bandwidth_hz)

    def success(
        self, sinr_db: NDArray[np.float64], bandwidth_hz: float, bits: float, mode: int = 0
    ) -> NDArray[np.float64]:
        """That of the row."""
        return self.rows[mode].success(sinr_db, bandwidth_hz, bits)

    def follows_fading(self, mode: int = 0) -> bool:
        """Whether the row does."""
        return self.rows[mode].follows_fading()

    def success_over(
        self,
        sinr_db: NDArray[np.float64],
        shares: NDArray[np.float64],
        bandwidth_hz: float,
        bits: float,
        mode: int = 0,
    ) -> NDArray[np.float64]:
        """That of the row."""
        return self.rows[mode].success_over(sinr_db, shares, bandwidth_hz, bits)

    def choose(self, snr_db: NDArray[np.float64], bandwidth_hz: float) -> NDArray[np.int64]:
        """The fastest mode that would do; the slowest if none would."""
        least_db = np.asarray(snr_db) - self.margin
        rates = np.array([[row.rate_bps(bandwidth_hz)] for row in self.rows])
        would_do = [row.success(least_db, bandwidth_hz, self.packet) >= 1.0 - self.packet_error for row in self.rows]
        fastest = np.where(would_do, rates, 0.0).argmax(axis=0)
        return np.where(np.any(would_do, axis=0), fastest, rates.argmin())

    def threshold_db(self, bandwidth_hz: float, bits: float = PACKET_BITS) -> float:
        """That of the most robust row."""
        return min(row.threshold_db(bandwidth_hz, bits) for row in self.rows)

    def laws(self) -> tuple[Law, ...]:
        """The rates that are taken under Rayleigh fading."""
        rates = np.array([row.rate_bps(_LAW_HZ) for row in self.rows])
        from_db = np.array([self._from_db(row) for row in self.rows])
        mean_db = float(np.clip(np.median(from_db), -50.0, 50.0))
        # P(rate ≥ r) = P(the SNR is enough for any mode of at least this rate); the slowest is taken in any case
        least = np.array([from_db[rates >= rate].min() if rate > rates.min() else -math.inf for rate in rates])
        at_least = np.exp(-(10.0 ** ((least - mean_db) / 10.0)))

        def draw(streams: Streams, size: int) -> NDArray[np.float64]:
            snr_db = mean_db + 10.0 * np.log10(streams.field("gain").exponential(np.arange(size)))
            return rates[self.choose(snr_db, _LAW_HZ)]

        def cdf(rate: NDArray[np.float64]) -> NDArray[np.float64]:
            above = rates[None, :] > np.asarray(rate)[:, None]
            return np.asarray(1.0 - np.where(above, at_least, 0.0).max(axis=1))

        steps = np.unique(rates)
        chances = -np.diff(np.append([at_least[rates == step].max() for step in steps], 0.0))
        mean = float(steps @ chances)
        return (
            Law(
                "rate taken, bit/s",
                f"P(rate > r) = exp(-(least SNR for a mode faster than r) / s̄) under Rayleigh fading of mean "
                f"{mean_db:.4g} dB, which is known to the sender; at {_LAW_HZ / 1e6:g} MHz",
                draw=draw,
                mean=mean,
                variance=float((steps - mean) ** 2 @ chances),
                cdf=cdf,
            ),
        )

    def _from_db(self, row: Reception) -> float:
        """The expected SNR from which *row* would do."""
        wanted = 1.0 - self.packet_error
        return self.margin + minimum_snr_db(lambda snr_db: row.success(snr_db, _LAW_HZ, self.packet), wanted)
