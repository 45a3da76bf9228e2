"""Rate adaptation over a table of modulation and coding schemes."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cached_property
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, model_validator

from netfl.core.family_members import FamilyMember
from netfl.core.spec import OnlyWith, check_one_of
from netfl.network.reception import PACKET_BITS, FadedFrames, Reception, minimum_snr_db
from netfl.streams import Streams
from netfl.types import Floats, Ints, Law
from netfl.units import Decibels, PacketSize

_LAW_HZ = 20e6
_PACKET_ERROR = 0.1


class Mcs(Reception):
    """Rate adaptation: each sender picks the fastest mode that its expected SNR, less a margin, allows.

    A mode is allowed if at most ``packet_error`` of the packets of size ``packet`` would be lost.  Of equally fast
    modes the sender picks the one that needs the lowest SNR; if none is allowed, it picks the one that needs the lowest
    of all.  The modes are reception models of one mode, such as ``snr_threshold`` (a rate and a threshold) and
    ``modulation``; or those of a standard, each received from its threshold:

    - ``802.11a``: the eight OFDM rates, 6 … 54 Mb/s at 20 MHz and in proportion at 5 and 10 MHz; thresholds 4 … 21 dB
      from the sensitivities of IEEE 802.11-2016, table 17-18, over the noise that clause 17.3.10.2 assumes.
    - ``lte``: the 15 indicators of 3GPP TS 36.213, table 7.2.3-1; SNR = Γ (2^efficiency - 1), Γ = 7.4 dB, after
      G. Piro, N. Baldo and M. Miozzo, "An LTE module for the ns-3 network simulator", WNS3 2011.  The bandwidth is
      that of the resource blocks, 180 kHz each, without guards; control channels and reference symbols cost nothing.

    Give exactly one of ``standard`` and ``table``.

    Example::

        kind: mcs
        margin: 3 dB
        table:
          - {kind: snr_threshold, threshold: 2 dB, rate: 1 Mbps}
          - {kind: snr_threshold, threshold: 7 dB, rate: 2 Mbps}
          - {kind: modulation, scheme: 16qam, code_rate: 0.75, coding_gain: 5 dB}
    """

    standard: Literal["802.11a", "lte"] | None = None
    """Standard that defines the modes."""
    table: Annotated[tuple[Annotated[Reception, FamilyMember()], ...], Field(min_length=1)] | None = None
    """Modes, in any order: models with one mode each."""
    margin: Decibels = 0.0
    """Margin between the expected SNR and the SNR at which a mode must still be received."""
    packet: Annotated[PacketSize, Field(gt=0), OnlyWith("table")] = PACKET_BITS
    """Packet size for which a sender picks its mode; sent packets may have another size."""
    packet_error: Annotated[float, Field(gt=0, lt=1), OnlyWith("table")] = _PACKET_ERROR
    """Maximum share of lost packets."""

    @model_validator(mode="after")
    def _check_table(self) -> Mcs:
        check_one_of(self, "standard", "table")
        if any(row.modes != 1 for row in self.table or ()):
            raise ValueError("a row of the table has several modes; give rows of one mode, such as snr_threshold")
        if any(row.follows_snr for row in self.table or ()):
            raise ValueError("a row of the table has no rate; give it, or take shannon in place of the table")
        return self

    @property
    def rows(self) -> tuple[Reception, ...]:
        """Reception model of each mode."""
        return self.table or _STANDARDS[self.standard or ""]

    @property
    def modes(self) -> int:
        return len(self.rows)

    def rate_bps(self, bandwidth_hz: float, mode: int = 0) -> float:
        return self.rows[mode].rate_bps(bandwidth_hz)

    def mode_name(self, mode: int = 0) -> str:
        return self.rows[mode].mode_name()

    def success(self, sinr_db: Floats, bandwidth_hz: float, bits: float, mode: int = 0) -> Floats:
        return self.rows[mode].success(sinr_db, bandwidth_hz, bits)

    def can_follow_fading(self, mode: int = 0) -> bool:
        return self.rows[mode].can_follow_fading()

    def success_over(self, frames: FadedFrames) -> Floats:
        return self.rows[frames.mode].success_over(replace(frames, mode=0))

    def choose(self, snr_db: Floats, bandwidth_hz: float) -> Ints:
        reduced_db = np.asarray(snr_db) - self.margin
        order, most_robust = self._preference(bandwidth_hz)
        rows = [self.rows[mode] for mode in order]
        min_success = 1.0 - self.packet_error
        is_allowed = [row.success(reduced_db, bandwidth_hz, self.packet) >= min_success for row in rows]  # [modes, n]
        best_allowed = order[np.argmax(is_allowed, axis=0)]
        return np.where(np.any(is_allowed, axis=0), best_allowed, most_robust)

    def _preference(self, bandwidth_hz: float) -> tuple[Ints, int]:
        """Return the modes, the best first, and the one for signals that are too weak for all."""
        settings = (bandwidth_hz, self.rows, self.packet, self.packet_error)
        if self._preferences[0] != settings:  # a copy of the model with other settings shares the list
            needed_db = [self._min_expected_snr_db(row, bandwidth_hz) for row in self.rows]
            rates = [row.rate_bps(bandwidth_hz) for row in self.rows]
            order = sorted(range(self.modes), key=lambda mode: (-rates[mode], needed_db[mode]))
            most_robust = min(range(self.modes), key=lambda mode: (needed_db[mode], -rates[mode]))
            self._preferences[:] = settings, (np.array(order), most_robust)
        order, most_robust = self._preferences[1]
        return order, most_robust

    @cached_property
    def _preferences(self) -> list[Any]:
        """Settings and result of the last call of `_preference`."""
        return [None, None]

    def threshold_db(self, bandwidth_hz: float, bits: float = PACKET_BITS) -> float:
        return min(row.threshold_db(bandwidth_hz, bits) for row in self.rows)

    def laws(self) -> tuple[Law, ...]:
        """Claim the distribution of the rate under Rayleigh fading of mean SNR s̄: P(SNR ≥ s) = exp(-s / s̄)."""
        rates = np.array([row.rate_bps(_LAW_HZ) for row in self.rows])
        min_db = np.array([self._min_expected_snr_db(row, _LAW_HZ) for row in self.rows])
        mean_db = float(np.clip(np.median(min_db), -50.0, 50.0))
        # P(rate ≥ r) = P(the SNR allows some mode of at least this rate); the mode without need for an SNR, and slower
        # ones, are certain
        _, most_robust = self._preference(_LAW_HZ)
        certain_rate = rates[most_robust]
        min_snr_db = np.array([min_db[rates >= rate].min() if rate > certain_rate else -math.inf for rate in rates])
        at_least = np.exp(-(10.0 ** ((min_snr_db - mean_db) / 10.0)))

        def draw(streams: Streams, size: int) -> Floats:
            snr_db = mean_db + 10.0 * np.log10(streams.field("gain").exponential(np.arange(size)))
            return rates[self.choose(snr_db, _LAW_HZ)]

        def cdf(rate: Floats) -> Floats:
            above = rates[None, :] > np.asarray(rate)[:, None]
            return np.asarray(1.0 - np.where(above, at_least, 0.0).max(axis=1))

        steps = np.unique(rates)
        probabilities = -np.diff(np.append([at_least[rates == step].max() for step in steps], 0.0))
        mean = float(steps @ probabilities)
        return (
            Law(
                "rate taken, bit/s",
                f"P(rate > r) = exp(-(least SNR for a mode faster than r) / s̄) under Rayleigh fading of mean "
                f"{mean_db:.4g} dB, which is known to the sender; at {_LAW_HZ / 1e6:g} MHz",
                draw=draw,
                mean=mean,
                variance=float((steps - mean) ** 2 @ probabilities),
                cdf=cdf,
            ),
        )

    def _min_expected_snr_db(self, row: Reception, bandwidth_hz: float) -> float:
        wanted = 1.0 - self.packet_error
        return self.margin + minimum_snr_db(lambda snr_db: row.success(snr_db, bandwidth_hz, self.packet), wanted)


class _StandardMode(Reception):
    """Mode of a standard, received from its threshold."""

    name: str
    """Name of the mode."""
    efficiency: float
    """Bits per second and hertz."""
    threshold: float
    """Minimum SNR in dB."""

    def rate_bps(self, bandwidth_hz: float, mode: int = 0) -> float:
        return self.efficiency * bandwidth_hz

    def mode_name(self, mode: int = 0) -> str:
        return self.name

    def success(self, sinr_db: Floats, bandwidth_hz: float, bits: float, mode: int = 0) -> Floats:
        return np.asarray(np.asarray(sinr_db) >= self.threshold, float)


def _wlan_modes() -> tuple[Reception, ...]:
    """Return OFDM of IEEE 802.11a: 6, 9, 12, 18, 24, 36, 48 and 54 Mb/s at 20 MHz, with symbols of 80 samples.

    The thresholds are the receiver sensitivities of the standard (at most 10 % of packets of 1000 bytes lost) over the
    noise that it assumes: thermal noise in 20 MHz, a noise figure of 10 dB, and 5 dB of implementation loss.  Put the
    losses of a real receiver into the scenario's noise figure.
    """
    names = ("BPSK 1/2", "BPSK 3/4", "QPSK 1/2", "QPSK 3/4", "16-QAM 1/2", "16-QAM 3/4", "64-QAM 2/3", "64-QAM 3/4")
    bits_per_symbol = (24, 36, 48, 72, 96, 144, 192, 216)
    sensitivity_dbm = (-82, -81, -79, -77, -74, -70, -66, -65)
    noise_dbm = -174.0 + 10.0 * math.log10(20e6) + 10.0 + 5.0
    return tuple(
        _StandardMode(name=name, efficiency=bits / 80.0, threshold=min_dbm - noise_dbm)
        for name, bits, min_dbm in zip(names, bits_per_symbol, sensitivity_dbm, strict=True)
    )


def _lte_modes() -> tuple[Reception, ...]:
    """Return the 15 channel quality indicators of LTE: 168 data symbols in each block of 180 kHz and 1 ms.

    The thresholds are the SNR at which log2(1 + SNR / Γ), Γ = -ln(5 BER) / 1.5 at a bit error rate of 5·10⁻⁵, is the
    efficiency of the indicator.
    """
    code_rates = {2: (78, 120, 193, 308, 449, 602), 4: (378, 490, 616), 6: (466, 567, 666, 772, 873, 948)}
    # bits of a symbol of QPSK, 16- and 64-QAM, with code rates in 1/1024
    bits_per_symbol = [bits * rate / 1024.0 for bits, rates in code_rates.items() for rate in rates]
    gap = -math.log(5.0 * 5e-5) / 1.5  # Γ
    return tuple(
        _StandardMode(
            name=f"CQI {indicator}",
            efficiency=168.0 / 180.0 * bits,
            threshold=10.0 * math.log10(gap * (2.0**bits - 1.0)),
        )
        for indicator, bits in enumerate(bits_per_symbol, start=1)
    )


_STANDARDS = {"802.11a": _wlan_modes(), "lte": _lte_modes()}
"""Modes of each standard, from the slowest to the fastest."""
