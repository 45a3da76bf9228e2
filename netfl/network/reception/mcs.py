"""A table of modulation and coding schemes, of which a sender takes the fastest that its channel bears."""

from __future__ import annotations

import math
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from netfl.network.reception import PACKET_BITS, Reception
from netfl.network.reception._search import least_db
from netfl.network.reception._steps import STANDARDS
from netfl.registry import Member
from netfl.streams import Streams
from netfl.types import Law
from netfl.units import Bits, Decibels

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
    table: Annotated[tuple[Annotated[Reception, Member()], ...], Field(min_length=1)] | None = None
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
        return self.margin + least_db(lambda snr_db: row.success(snr_db, _LAW_HZ, self.packet), wanted)
