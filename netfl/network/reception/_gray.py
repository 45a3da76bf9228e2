"""Gray-coded amplitude modulation: exact bit error rates, and a channel to measure them on.

Everything is in terms of one dimension: BPSK has one and two levels in it, QPSK two dimensions of two levels, 16- and
64-QAM two of four and of eight.  Dimensions do not disturb each other, so that the bit error rate as a function of the
energy per bit is that of one.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import erfc

from netfl.streams import Streams

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
