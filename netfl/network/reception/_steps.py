"""The modes of standards: rates per hertz, and the SNR from which each is received."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from netfl.network.reception import Reception


class Step(Reception):
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


def _wlan() -> tuple[Step, ...]:
    """OFDM of IEEE 802.11a: 6, 9, 12, 18, 24, 36, 48 and 54 Mb/s at 20 MHz, whose symbol lasts 80 samples.

    The thresholds are the sensitivities that the standard asks of a receiver (at most 10 % of packets of 1000 bytes
    lost) over the noise that it assumes: thermal noise in 20 MHz, a noise figure of 10 dB, and 5 dB for what else
    is imperfect in a receiver, which is for the scenario's noise figure to say.
    """
    bits_of_a_symbol = (24, 36, 48, 72, 96, 144, 192, 216)
    sensitivity_dbm = (-82, -81, -79, -77, -74, -70, -66, -65)
    noise_dbm = -174.0 + 10.0 * math.log10(20e6) + 10.0 + 5.0
    return tuple(
        Step(efficiency=bits / 80.0, threshold=least_dbm - noise_dbm)
        for bits, least_dbm in zip(bits_of_a_symbol, sensitivity_dbm, strict=True)
    )


def _lte() -> tuple[Step, ...]:
    """The 15 channel quality indicators of LTE: 168 symbols in each block of 180 kHz and 1 ms, all of them data.

    The thresholds are those SNR at which log2(1 + SNR / Γ), Γ = -ln(5 BER) / 1.5 at a bit error rate of 5·10⁻⁵, is the
    efficiency of the indicator.
    """
    qpsk, qam16, qam64 = (78, 120, 193, 308, 449, 602), (378, 490, 616), (466, 567, 666, 772, 873, 948)
    bits_of_a_symbol = [bits * rate / 1024.0 for bits, rates in ((2, qpsk), (4, qam16), (6, qam64)) for rate in rates]
    gap = -math.log(5.0 * 5e-5) / 1.5
    return tuple(
        Step(efficiency=168.0 / 180.0 * bits, threshold=10.0 * math.log10(gap * (2.0**bits - 1.0)))
        for bits in bits_of_a_symbol
    )


STANDARDS = {"802.11a": _wlan(), "lte": _lte()}
"""The modes of each standard, from the slowest to the fastest."""
