"""Reception of packets without bit errors under one Gray-coded modulation."""

from __future__ import annotations

import math
from functools import cache
from typing import Annotated, Literal

import numpy as np
from numpy.typing import ArrayLike
from pydantic import Field, model_validator

from netfl.network.reception import FadedFrames, Reception
from netfl.streams import Streams
from netfl.types import Floats, Law
from netfl.units import Decibels, db_to_linear

_LEVELS_AND_DIMENSIONS = {"bpsk": (2, 1), "qpsk": (2, 2), "16qam": (4, 2), "64qam": (8, 2)}
_WEIGHTS = {2: (1,), 4: (3, 2, -1), 8: (7, 6, -1, 0, 1, 0, -1)}
"""Weights w_i of each number of levels L of k bits, times L k."""
_LAW_DB, _LAW_HZ = 6.0, 1e6


class Modulation(Reception):
    """A packet of n bits is received if no bit is wrong: with probability (1 - BER)ⁿ.

    BER is that of Gray-coded BPSK, QPSK, 16- or 64-QAM with coherent detection over white Gaussian noise, exact rather
    than by nearest neighbours: Σ w_i erfc((2i + 1) √(3 k γ / (L² - 1))) with L levels of k = log2 L bits in each
    dimension, such as (3 erfc(x) + 2 erfc(3x) - erfc(5x)) / 8 with x = √(2γ/5) for 16-QAM (K. Cho and D. Yoon, "On the
    general BER expression of one- and two-dimensional amplitude modulations", IEEE Trans. Commun. 50(7), 2002).

    The symbol rate is B / (1 + rolloff), and each symbol carries ``code_rate`` times its bits of information, which
    gives the rate R; γ = Eb/N0 = SNR · B / R.  A code is described by its rate and its gain: the reduction of energy
    per information bit at equal error rate.  Valid if bit errors are independent given the SINR.  If fading changes the
    SINR during a packet, each part i with n_i bits has its own BER, and the packet is received with probability
    Π (1 - BER_i)^n_i.

    Example::

        kind: modulation
        scheme: 16qam
        code_rate: 0.5
        coding_gain: 4 dB
    """

    scheme: Literal["bpsk", "qpsk", "16qam", "64qam"]
    """Modulation with 1, 2, 4 or 6 bits per symbol."""
    rolloff: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Excess bandwidth over the symbol rate, as of a raised-cosine filter."""
    code_rate: Annotated[float, Field(ge=0.001, le=1)] = 1.0
    """Information bits per transmitted bit; 1 is no code."""
    coding_gain: Annotated[Decibels, Field(ge=0, le=100)] = 0.0
    """Reduction of the required Eb/N0 by the code."""

    @model_validator(mode="after")
    def _check_coding_gain(self) -> Modulation:
        if self.coding_gain > 0 and self.code_rate == 1:
            raise ValueError("a coding_gain needs a code; give a code_rate below 1, or leave the gain out")
        return self

    def rate_bps(self, bandwidth_hz: float, mode: int = 0) -> float:
        levels, dimensions = _LEVELS_AND_DIMENSIONS[self.scheme]
        bits = dimensions * (levels.bit_length() - 1)
        return bandwidth_hz / (1.0 + self.rolloff) * bits * self.code_rate

    def mode_name(self, mode: int = 0) -> str:
        """Return the scheme and, with a code, its rate: ``qpsk``, ``16qam 0.75``."""
        return self.scheme if self.code_rate == 1 else f"{self.scheme} {self.code_rate:g}"

    def success(self, sinr_db: Floats, bandwidth_hz: float, bits: float, mode: int = 0) -> Floats:
        """Return (1 - BER)ⁿ, in a form that keeps small error rates."""
        return np.asarray(np.exp(bits * np.log1p(-self.bit_error_rate(sinr_db, bandwidth_hz))))

    def success_over(self, frames: FadedFrames) -> Floats:
        """Return Π (1 - BER_i)^n_i: bits fail independently, and are spread evenly over the airtime."""
        error_rates = self.bit_error_rate(frames.sinr_db, frames.bandwidth_hz)
        return np.asarray(np.exp(frames.bits * (np.log1p(-error_rates) @ frames.shares)))

    def bit_error_rate(self, sinr_db: Floats, bandwidth_hz: float) -> Floats:
        """Return the probability that a bit is wrong, ``[n]``."""
        levels, _ = _LEVELS_AND_DIMENSIONS[self.scheme]
        return bit_error_rate(levels, db_to_linear(sinr_db) * self._ebn0_per_snr(bandwidth_hz))

    def laws(self) -> tuple[Law, ...]:
        levels, _ = _LEVELS_AND_DIMENSIONS[self.scheme]
        snr = 10.0 ** (_LAW_DB / 10.0)
        faded = rayleigh_bit_error_rate(levels, snr * self._ebn0_per_snr(_LAW_HZ))

        def draw_bit_errors(streams: Streams, size: int) -> Floats:
            numbers = np.arange(size)
            snr_db = _LAW_DB + 10.0 * np.log10(streams.field("gain").exponential(numbers))
            return np.asarray(streams.field("noise").uniform(numbers) > self.success(snr_db, _LAW_HZ, 1.0), float)

        return (
            Law(
                "share of wrong bits in a symbol",
                f"mean BER(γ) (Cho and Yoon 2002); symbols sent without a code at γ = {_LAW_DB:g} dB, over noise",
                draw=lambda streams, size: measured_errors(levels, snr, streams, size),
                mean=float(bit_error_rate(levels, snr)),
            ),
            Law(
                "single bit received wrongly (0 or 1)",
                f"mean Σ w_i (1 - √(a_i γ̄ / (1 + a_i γ̄))) under Rayleigh fading of mean SNR {_LAW_DB:g} dB, "
                "which for BPSK is ½ (1 - √(γ̄ / (1 + γ̄)))",
                draw=draw_bit_errors,
                mean=faded,
                variance=faded * (1.0 - faded),
            ),
        )

    def _ebn0_per_snr(self, bandwidth_hz: float) -> float:
        """Return Eb/N0 over SNR, with the coding gain counted as additional energy."""
        return bandwidth_hz / self.rate_bps(bandwidth_hz) * math.pow(10.0, self.coding_gain / 10.0)


# The functions below treat one dimension with so many levels.  Dimensions are independent, so the bit error rate as a
# function of Eb/N0 is that of one dimension.


def bit_error_rate(levels: int, ebn0: ArrayLike) -> Floats:
    """Return the bit error probability over white Gaussian noise at a linear Eb/N0."""
    from scipy.special import erfc

    gamma = np.asarray(ebn0, float)
    return np.asarray(sum(w * erfc(np.sqrt(a * gamma)) for w, a in _terms(levels)))


def rayleigh_bit_error_rate(levels: int, ebn0: float) -> float:
    """Return the mean bit error rate under Rayleigh fading of mean *ebn0*: E[erfc(√(a γ))] = 1 - √(a γ̄ / (1 + a γ̄))."""
    return sum(w * (1.0 - math.sqrt(a * ebn0 / (1.0 + a * ebn0))) for w, a in _terms(levels))


def measured_errors(levels: int, ebn0: float, streams: Streams, size: int) -> Floats:
    """Send *size* symbols of one dimension over white Gaussian noise, and return the share of wrong bits in each.

    Levels are odd numbers from ``1 - levels`` to ``levels - 1`` with mean square (levels² - 1) / 3.  The noise has the
    variance N0/2, and the receiver decides for the nearest level.
    """
    bits = levels.bit_length() - 1
    sigma = math.sqrt((levels**2 - 1.0) / 3.0 / (2.0 * bits * ebn0))
    rng = streams.rng("symbols")
    sent = rng.integers(0, levels, size)
    received = 2.0 * sent + 1.0 - levels + sigma * rng.standard_normal(size)
    decided = np.clip(np.round((received + levels - 1.0) / 2.0), 0, levels - 1).astype(np.int64)
    wrong_bits = (sent ^ (sent >> 1)) ^ (decided ^ (decided >> 1))  # of the Gray codes of both levels
    return np.asarray(sum((wrong_bits >> bit) & 1 for bit in range(bits)) / bits, float)


@cache
def _terms(levels: int) -> tuple[tuple[float, float], ...]:
    """Return the pairs (w, a) of the bit error rate Σ w erfc(√(a γ)), γ = Eb/N0 (Cho and Yoon 2002)."""
    bits = levels.bit_length() - 1
    step = 3.0 * bits / (levels**2 - 1.0)
    return tuple((w / (levels * bits), (2 * i + 1) ** 2 * step) for i, w in enumerate(_WEIGHTS[levels]))
