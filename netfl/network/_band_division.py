"""Divisions of a band among users that send at the same time, for MACs and for allocations."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from netfl.types import Floats, Ints
from netfl.units import db_to_linear

_LIMITS_DB = (-100.0, 300.0)
"""SNRs beyond which a division does not distinguish users."""
_MAX_STEPS = 100
_PRECISION = 1e-13


@dataclass(frozen=True, slots=True)
class BandRequest:
    """Frames that wait for a share of the band.

    Args:
        snr_db: SNR of each user in the whole band, ``[n]``, in dB, less the gap of the reception.
        bits: size of the frame of each user, ``[n]``.
        limits: largest share that the radio of each user can use, ``[n]``; ``None`` for 1.
    """

    snr_db: Floats
    bits: Floats
    limits: Floats | None = None

    @property
    def snr(self) -> Floats:
        """SNR as a ratio of powers, ``[n]``."""
        return db_to_linear(np.clip(self.snr_db, *_LIMITS_DB))


def divide_within(limits: Floats, divide: Callable[[Ints, float], Floats]) -> Floats:
    """Return shares that add up to 1, or to the sum of their *limits* if that is less, ``[n]``.

    A user whose share would exceed its limit has the limit.  What is left over is divided among the others, whose
    shares increase by it, so that more of them may reach their limits, and so on.

    Args:
        limits: largest share of each user, ``[n]``.
        divide: ``divide(users, part)`` returns the shares of these users, by their places, which add up to *part* of
            the band; the smaller the part, the smaller is each share.
    """
    shares = limits.copy()
    users = np.arange(len(limits))
    part = 1.0
    while users.size:
        divided = divide(users, part)
        is_limited = divided > limits[users]
        if not is_limited.any():
            shares[users] = divided
            break
        part -= float(limits[users[is_limited]].sum())
        users = users[~is_limited]
    return shares


def divide_in_proportion(weights: Floats, limits: Floats) -> Floats:
    """Return shares in proportion to positive *weights* w_i, up to *limits* l_i: min(l_i, λ w_i), ``[n]``."""
    return divide_within(limits, lambda users, part: np.asarray(part * weights[users] / weights[users].sum()))


def fill_water(request: BandRequest) -> Floats:
    """Return the shares with the largest sum of rates, s_i = snr_i / Σ snr_j, or min(limit_i, snr_i / μ) with limits.

    User i has the power P_i and the gain g_i.  In s_i of a band B its power density at the tower is P_i g_i / (s_i B).
    The sum Σ s_i B log2(1 + snr_i / s_i) is concave in the shares.  It is largest where all densities reach one level,
    as those of water do, and is then the capacity of the multiple-access channel, B log2(1 + Σ snr_i)
    (R. S. Cheng and S. Verdú, IEEE Trans. Inf. Theory 39(3), 1993; Tse and Viswanath, "Fundamentals of Wireless
    Communication", §6.1.3).  With limits, the density of a user at its limit is above the level μ: the condition of
    Karush, Kuhn and Tucker for the same sum.
    """
    if request.limits is None:
        snr = request.snr
        return np.asarray(snr / snr.sum())
    return divide_in_proportion(request.snr, request.limits)


def finish_together(request: BandRequest) -> Floats:
    """Return the shares with which all frames end at the same time, as early as possible.

    With limits, a frame at its limit may end later; the others have what it leaves, and end together.
    """
    if request.limits is None:
        return _finish_together(request)

    def divide(users: Ints, part: float) -> Floats:
        # in a part of the band, the SNR is that in the whole band over the part
        snr_db = request.snr_db[users] - 10.0 * math.log10(part)
        return np.asarray(part * _finish_together(BandRequest(snr_db, request.bits[users])))

    return divide_within(request.limits, divide)


def _finish_together(request: BandRequest) -> Floats:
    """Return the shares of `finish_together` without limits.

    The time T is the least one for which Σ s_i = 1, where bits_i = T s_i B log2(1 + snr_i / s_i).  With x = 1 / T, the
    sum of the shares increases with x and is convex, so that Newton's steps from above approach the root from above.
    B cancels, and is 1 here.
    """
    snr = request.snr
    if len(snr) == 1:
        return np.ones(1)
    nats_per_snr = request.bits * math.log(2.0) / snr
    fastest = snr / np.log1p(snr) * nats_per_snr  # T of each user if it had the whole band
    x = 1.0 / float(fastest.max())
    for _ in range(_MAX_STEPS):
        densities = snr_in_share(nats_per_snr * x)
        shares = snr / densities
        excess = float(shares.sum()) - 1.0
        if excess <= _PRECISION:
            break
        slopes = -snr / np.square(densities) * nats_per_snr / _slope(densities)
        x -= excess / float(slopes.sum())
    return np.asarray(shares / shares.sum())


def snr_in_share(ratio: Floats) -> Floats:
    """Return the SNR in the share, y with ln(1 + y) / y = *ratio*, ``[n]``; ratios lie between 0 and 1.

    As ln(1 + y) ≥ 2 y / (2 + y), the root is at least 2 / ratio - 2.  The left side decreases and is convex, so that
    Newton's steps from there approach the root from below.
    """
    y = np.maximum(2.0 / ratio - 2.0, 1e-12)
    for _ in range(_MAX_STEPS):
        step = (ratio - np.log1p(y) / y) / _slope(y)
        y = y + np.maximum(step, 0.0)
        if (step <= _PRECISION * y).all():
            break
    return y


def _slope(y: Floats) -> Floats:
    """Return the derivative of ln(1 + y) / y, ``[n]``; -1/2 at 0."""
    is_small = y < 1e-4
    large = np.where(is_small, 1.0, y)  # 1 where the series holds
    exact = (large / (1.0 + large) - np.log1p(large)) / np.square(large)
    series = -0.5 + y * (2.0 / 3.0)
    return np.where(is_small, series, exact)
