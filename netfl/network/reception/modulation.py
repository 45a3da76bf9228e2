"""Reception of one modulation, bit for bit."""

from __future__ import annotations

import math
from functools import cache
from typing import Annotated, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import Field, model_validator
from scipy.special import erfc

from netfl.network.reception import Reception
from netfl.streams import Streams
from netfl.types import Law
from netfl.units import Decibels, db_to_linear

# Gray-coded amplitude modulation: exact bit error rates, and a channel to measure them on.
#
# Everything is in terms of one dimension: BPSK has one and two levels in it, QPSK two dimensions of two levels, 16- and
# 64-QAM two of four and of eight.  Dimensions do not disturb each other, so that the bit error rate as a function of
# the
# energy per bit is that of one.


Terms = tuple[tuple[float, float], ...]


@cache
def _terms(levels: int) -> Terms:
    """The pairs (w, a) of the bit error rate Σ w erfc(√(a γ)), γ = Eb/N0, of *levels* levels (Cho and Yoon 2002)."""
    bits = levels.bit_length() - 1
    step = 3.0 * bits / (levels**2 - 1.0)
    return tuple(
        (sum(_weight(levels, bit, i) for bit in range(1, bits + 1)) / (levels * bits), (2 * i + 1) ** 2 * step)
        for i in range(levels - 1)
    )


def _weight(levels: int, bit: int, i: int) -> int:
    """The weight of the i-th term in the error rate of the *bit*-th bit, counted from 1, times *levels*."""
    if i >= levels - (levels >> bit):
        return 0
    half = 1 << (bit - 1)
    sign = -1 if i * half // levels % 2 else 1
    return sign * (half - (2 * i * half + levels) // (2 * levels))


def bit_error_rate(levels: int, ebn0: ArrayLike) -> NDArray[np.float64]:
    """The probability that a bit is decided wrongly over white Gaussian noise, at this Eb/N0 (linear)."""
    return np.asarray(sum(weight * erfc(np.sqrt(a * np.asarray(ebn0, float))) for weight, a in _terms(levels)))


def rayleigh_bit_error_rate(levels: int, ebn0: float) -> float:
    """Its mean under Rayleigh fading of mean *ebn0*: E[erfc(√(a γ))] = 1 - √(a γ̄ / (1 + a γ̄))."""
    return sum(weight * (1.0 - math.sqrt(a * ebn0 / (1.0 + a * ebn0))) for weight, a in _terms(levels))


def measured_errors(levels: int, ebn0: float, streams: Streams, size: int) -> NDArray[np.float64]:
    """The share of wrong bits in each of *size* symbols of one dimension, sent over white Gaussian noise and decided.

    Levels are odd numbers from ``1 - levels`` to ``levels - 1``, whose mean square is (levels² - 1) / 3; noise of
    variance N0/2 is added and the nearest level decided for.
    """
    bits = levels.bit_length() - 1
    sigma = math.sqrt((levels**2 - 1.0) / 3.0 / (2.0 * bits * ebn0))
    rng = streams.rng("symbols")
    sent = rng.integers(0, levels, size)
    heard = 2.0 * sent + 1.0 - levels + sigma * rng.standard_normal(size)
    decided = np.clip(np.round((heard + levels - 1.0) / 2.0), 0, levels - 1).astype(np.int64)
    wrong = (sent ^ (sent >> 1)) ^ (decided ^ (decided >> 1))
    return np.asarray(sum((wrong >> bit) & 1 for bit in range(bits)) / bits, float)


_SHAPES = {"bpsk": (2, 1), "qpsk": (2, 2), "16qam": (4, 2), "64qam": (8, 2)}
"""Levels in a dimension, and dimensions."""
_LAW_DB, _LAW_HZ = 6.0, 1e6


class Modulation(Reception):
    """A packet of n bits is received when none of them is wrong: with probability (1 - BER)ⁿ.

    BER is that of Gray-coded BPSK, QPSK, 16- or 64-QAM, decided coherently over white Gaussian noise, exactly and not
    by nearest neighbours alone: Σ w_i erfc((2i + 1) √(3 k γ / (L² - 1))) with L levels of k = log2 L bits in each
    dimension, such as (3 erfc(x) + 2 erfc(3x) - erfc(5x)) / 8 with x = √(2γ/5) for 16-QAM (K. Cho and D. Yoon, "On the
    general BER expression of one- and two-dimensional amplitude modulations", IEEE Trans. Commun. 50(7), 2002).

    Symbols follow each other at B / (1 + rolloff), each with ``code_rate`` times its bits of information, which makes
    the rate R; γ = Eb/N0 = SNR · B / R.  A code is its rate and its gain: by how much less energy per bit of
    information does as well as without it.  Valid for bit errors that are independent given the SINR.  Where fading
    changes that during a packet, each part i of it has a BER of its own, and with n_i bits in each the packet is
    received with probability Π (1 - BER_i)^n_i.

    Example::

        kind: modulation
        scheme: 16qam
        code_rate: 0.5
        coding_gain: 4 dB
    """

    scheme: Literal["bpsk", "qpsk", "16qam", "64qam"]
    """1, 2, 4 or 6 bits in each symbol."""
    rolloff: Annotated[float, Field(ge=0, le=1)] = 0.0
    """By what share of the symbol rate the bandwidth exceeds it, as of a raised-cosine filter."""
    code_rate: Annotated[float, Field(ge=0.001, le=1)] = 1.0
    """Bits of information in each bit that is sent; 1 is no code."""
    coding_gain: Annotated[Decibels, Field(ge=0, le=100)] = 0.0
    """What the code saves in Eb/N0."""

    @model_validator(mode="after")
    def _gain_of_a_code(self) -> Modulation:
        """No gain without redundancy."""
        if self.coding_gain > 0 and self.code_rate == 1:
            raise ValueError("a coding_gain needs a code: give a code_rate below 1, or leave the gain out")
        return self

    def rate_bps(self, bandwidth_hz: float, mode: int = 0) -> float:
        """Symbol rate times information in a symbol."""
        levels, dimensions = _SHAPES[self.scheme]
        bits = dimensions * (levels.bit_length() - 1)
        return bandwidth_hz / (1.0 + self.rolloff) * bits * self.code_rate

    def success(
        self, sinr_db: NDArray[np.float64], bandwidth_hz: float, bits: float, mode: int = 0
    ) -> NDArray[np.float64]:
        """(1 - BER)ⁿ, in a form that loses no small error rate."""
        return np.asarray(np.exp(bits * np.log1p(-self.bit_error_rate(sinr_db, bandwidth_hz))))

    def follows_fading(self, mode: int = 0) -> bool:
        """It does."""
        return True

    def success_over(
        self,
        sinr_db: NDArray[np.float64],
        shares: NDArray[np.float64],
        bandwidth_hz: float,
        bits: float,
        mode: int = 0,
    ) -> NDArray[np.float64]:
        """Π (1 - BER_i)^n_i: bits fail independently, and are spread evenly over the time."""
        return np.asarray(np.exp(bits * (np.log1p(-self.bit_error_rate(sinr_db, bandwidth_hz)) @ shares)))

    def bit_error_rate(self, sinr_db: NDArray[np.float64], bandwidth_hz: float) -> NDArray[np.float64]:
        """The probability that a bit is wrong, ``[n]``."""
        return bit_error_rate(_SHAPES[self.scheme][0], db_to_linear(sinr_db) * self._gain(bandwidth_hz))

    def laws(self) -> tuple[Law, ...]:
        """Errors of symbols that are sent and decided, and error rates under fading."""
        levels, snr = _SHAPES[self.scheme][0], 10.0 ** (_LAW_DB / 10.0)
        faded = rayleigh_bit_error_rate(levels, snr * self._gain(_LAW_HZ))

        def single_bits(streams: Streams, size: int) -> NDArray[np.float64]:
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
                draw=single_bits,
                mean=faded,
                variance=faded * (1.0 - faded),
            ),
        )

    def _gain(self, bandwidth_hz: float) -> float:
        """The Eb/N0 at which an uncoded bit is as often wrong, over the SNR."""
        return bandwidth_hz / self.rate_bps(bandwidth_hz) * math.pow(10.0, self.coding_gain / 10.0)
