"""Energy of users that train and send by a deadline, by the share of the band that they have.

A user trains for c s at full frequency, which costs e joules, and then sends b bits in the share s of a band B at full
power w, where its SNR in the whole band is γ.  With the fraction φ of its frequency it trains for c / φ and spends
e φ².  With the fraction ρ of its power it sends at s B log2(1 + ρ γ / s) and spends ρ w t in the time t.  By the
deadline T, both are given by t:

    φ = c / (T - t),    ρ = (2^(b / (t s B)) - 1) s / γ,
    E(t, s) = e c² / (T - t)² + w t s (2^(b / (t s B)) - 1) / γ,    with φ ≤ 1 and ρ ≤ 1.

E is convex in t, and its minimum over t is decreasing and convex in s: with t = exp(x) and s = exp(y), all terms are
sums of products of powers with positive coefficients (a geometric program).  The model is that of Z. Yang, M. Chen,
W. Saad, C. S. Hong and M. Shikh-Bahaei, "Energy efficient federated learning over wireless communication networks",
IEEE Trans. Wireless Commun. 20(3), 2021, for one round and a fixed local accuracy.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import optimize

from netfl.network._band_division import snr_in_share
from netfl.network.allocation import MIN_FREQUENCY, AllocationRequest, Decision
from netfl.types import Floats

_HALVINGS = 60
"""Steps of the bisection for an upload time."""
_GRID = 65
"""Shares of each user in a table of slopes."""
_REFINEMENTS = 5
"""Tables that are made, each around the solution of the one before."""
_GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0
"""The golden ratio, less 1."""
_GOLDEN_STEPS = 45
_MAX_DOUBLINGS = 60
_MAX_EXPONENT = 700.0
"""Bits per second and hertz up to which powers of 2 are finite."""
_MIN_S = 1e-60
"""Time that a training has at least, so that its energy is finite."""
LEAST_GIVEN_POWER = 1e-12
"""Smallest fraction of power that a model of netfl gives, above the bound `MIN_POWER` of all decisions."""


@dataclass(frozen=True, slots=True)
class Tradeoff:
    """The users of a request with the deadline T in s, from the start of their trainings."""

    request: AllocationRequest
    deadline_s: float

    @property
    def longest_upload_s(self) -> Floats:
        """Time that remains for the upload after a training at full frequency, ``[n]``; negative if there is none."""
        return self.deadline_s - self.request.train_s

    def least_shares(self) -> Floats:
        """Return the smallest share with which each user meets the deadline, ``[n]``; infinity if none does."""
        return shares_for(self.request, self.longest_upload_s, np.ones(self.request.users))

    def upload_s(self, share: Floats) -> Floats:
        """Return the upload time of least energy at these shares, ``[n, grid]`` or ``[n]``, by bisection of dE/dt."""
        request = self.request
        low_s = fastest_upload_s(request, share)
        high_s = np.maximum(low_s, _columns(self.longest_upload_s, share))
        for _ in range(_HALVINGS):
            middle_s = 0.5 * (low_s + high_s)
            is_rising = self._slope_by_time(middle_s, share) > 0.0
            high_s = np.where(is_rising, middle_s, high_s)
            low_s = np.where(is_rising, low_s, middle_s)
        return np.asarray(0.5 * (low_s + high_s))

    def slope(self, share: Floats) -> Floats:
        """Return dE/ds at the best upload times of these shares, ``[n, grid]``; negative."""
        request = self.request
        transmit_w = _columns(request.transmit_w, share)
        snr = _columns(request.snr, share)
        fastest_s = fastest_upload_s(request, share)
        upload_s = self.upload_s(share)

        # the time is free: only the energy of sending depends on the share
        exponent = self._exponent(upload_s, share)
        free = transmit_w * upload_s / snr * _power_slope(exponent)

        # full power, so that a larger share makes the upload shorter
        density = snr / share
        shrinking_s = -fastest_s / share * (1.0 - density / ((1.0 + density) * np.log1p(density)))
        bound = (self._training_slope(fastest_s, share) + transmit_w) * shrinking_s
        has_full_power = self._slope_by_time(fastest_s, share) >= 0.0
        return np.where(has_full_power, bound, free)

    def decide(self, share: Floats) -> Decision:
        """Return the powers and frequencies of least energy at these shares, ``[n]``."""
        request = self.request
        upload_s = self.upload_s(share)
        exponent = self._exponent(upload_s, share)
        power = np.expm1(exponent * math.log(2.0)) * share / request.snr
        frequency = np.ones(len(share))
        trains = request.train_s > 0.0
        train_s = request.train_s[trains]
        frequency[trains] = train_s / np.maximum((self.deadline_s - upload_s)[trains], train_s)
        # below the least frequency, a training costs less than a millionth of that at full frequency
        return Decision(share, np.clip(power, LEAST_GIVEN_POWER, 1.0), np.maximum(frequency, MIN_FREQUENCY))

    def _exponent(self, upload_s: Floats, share: Floats) -> Floats:
        """Return b / (t s B), the bits per second and hertz in the share."""
        bits = _columns(self.request.bits, share)
        return np.minimum(bits / (upload_s * share * self.request.bandwidth_hz), _MAX_EXPONENT)

    def _training_slope(self, upload_s: Floats, share: Floats) -> Floats:
        """Return the derivative of e c² / (T - t)²."""
        energy = _columns(self.request.train_j * np.square(self.request.train_s), share)
        remaining_s = np.maximum(self.deadline_s - upload_s, _MIN_S)
        return np.where(energy > 0.0, 2.0 * energy / remaining_s**3, 0.0)

    def _slope_by_time(self, upload_s: Floats, share: Floats) -> Floats:
        """Return dE/dt."""
        request = self.request
        sending = _columns(request.transmit_w / request.snr, share) * share
        return self._training_slope(upload_s, share) + sending * _power_slope(self._exponent(upload_s, share))


def fastest_upload_s(request: AllocationRequest, share: Floats) -> Floats:
    """Return the upload time of each user at full power, ``[n, grid]`` or ``[n]``."""
    density = _columns(request.snr, share) / share
    rate_bps = share * request.bandwidth_hz * np.log1p(density) / math.log(2.0)
    return np.asarray(_columns(request.bits, share) / rate_bps)


def shares_for(request: AllocationRequest, upload_s: Floats, power: Floats) -> Floats:
    """Return the share in which each user sends in this time with this fraction of its power; infinity without one.

    s B t log2(1 + ρ γ / s) = b.  With y = ρ γ / s it is ln(1 + y) / y = b ln 2 / (B t ρ γ).
    """
    snr = power * request.snr
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = request.bits * math.log(2.0) / (request.bandwidth_hz * np.maximum(upload_s, 0.0) * snr)
    is_possible = (ratio < 1.0) & (upload_s > 0.0)
    share = np.full(len(snr), np.inf)
    share[is_possible] = snr[is_possible] / snr_in_share(ratio[is_possible])
    return share


def least_energy_shares(tradeoff: Tradeoff, needed_shares: Floats) -> Floats:
    """Return the shares with the least sum of energies, ``[n]``; *needed_shares* are those that each user needs.

    With the multiplier μ of Σ s = 1, each user has the share at which -dE/ds = μ, or the largest that its radio can
    use.  -dE/ds decreases with the share, so that a table of it gives the share for any μ, and Σ s decreases with μ.
    The tables are made again around the solution until they are narrow.
    """
    limits = tradeoff.request.limits
    low = needed_shares.copy()
    high = limits
    users = np.arange(len(low))
    fractions = np.linspace(0.0, 1.0, _GRID)
    share = low
    for _ in range(_REFINEMENTS):
        grid = low[:, None] * (high / low)[:, None] ** fractions
        log_slope = np.log(np.maximum(-tradeoff.slope(grid), 1e-300))
        log_slope = np.minimum.accumulate(log_slope, axis=1)  # rounding
        share = _solve_table(np.log(grid), log_slope)
        place = np.array([np.searchsorted(row, value) for row, value in zip(grid, share, strict=True)])
        low = grid[users, np.maximum(place - 2, 0)]
        high = grid[users, np.minimum(place + 1, _GRID - 1)]
    total = min(1.0, float(limits.sum()))
    return np.asarray(np.minimum(share / (share.sum() / total), limits))


def _solve_table(log_share: Floats, log_slope: Floats) -> Floats:
    """Return the shares that add up to 1 and have one slope, -dE/ds = μ, ``[n]``, by interpolation.

    Args:
        log_share: ln s in the table of each user, ascending, ``[n, grid]``.
        log_slope: ln(-dE/ds) at these shares, descending, ``[n, grid]``.
    """

    def shares_at(log_multiplier: float) -> Floats:
        tables = zip(log_slope, log_share, strict=True)
        return np.exp([np.interp(-log_multiplier, -slopes, shares) for slopes, shares in tables])

    def excess(log_multiplier: float) -> float:
        return float(shares_at(log_multiplier).sum()) - 1.0

    low = float(log_slope.min())
    high = float(log_slope.max())
    if excess(low) <= 0.0:
        return shares_at(low)
    if excess(high) >= 0.0:
        return shares_at(high)
    return shares_at(float(optimize.brentq(excess, low, high, xtol=1e-13)))


def shares_within_budget(request: AllocationRequest, deadline_s: float, budget_j: Floats) -> Floats:
    """Return the smallest share with which each user meets the deadline and its budget, ``[n]``; infinity without one.

    In the upload time t, the training leaves budget - e c² / (T - t)² joules, which give the power.  The share that is
    then needed has one minimum over log t.  There is none where the upload is so long that the training takes too much
    of the energy.
    """

    def needed(log_upload_s: Floats) -> Floats:
        upload_s = np.exp(log_upload_s)
        remaining_s = np.maximum(deadline_s - upload_s, _MIN_S)
        train_j = request.train_j * np.square(request.train_s / remaining_s)
        power = np.clip((budget_j - train_j) / (request.transmit_w * upload_s), 0.0, 1.0)
        return shares_for(request, upload_s, power)

    longest_s = deadline_s - request.train_s
    can_train = longest_s > 0.0
    high = np.log(np.where(can_train, longest_s, 1.0))
    low = np.log(np.minimum(fastest_upload_s(request, np.ones(request.users)), np.exp(high)))
    share_at_end = needed(high)  # the least one where the training costs nothing
    share = np.minimum(share_at_end, _least_value(needed, low, high))
    return np.where(can_train, share, np.inf)


def _least_value(compute: Callable[[Floats], Floats], low: Floats, high: Floats) -> Floats:
    """Return the least value of *compute* inside of the interval of each user, ``[n]``, by golden section.

    Each has one minimum in its interval.  Infinite values are on the right of it.
    """
    minimum = np.full(len(low), np.inf)
    left = high - _GOLDEN * (high - low)
    right = low + _GOLDEN * (high - low)
    left_value = compute(left)
    right_value = compute(right)
    for _ in range(_GOLDEN_STEPS):
        minimum = np.minimum(minimum, np.minimum(left_value, right_value))
        is_left = (left_value < right_value) | (np.isinf(left_value) & np.isinf(right_value))
        high = np.where(is_left, right, high)
        low = np.where(is_left, low, left)

        # one of the inner points stays, as the other one of the smaller interval
        new = np.where(is_left, high - _GOLDEN * (high - low), low + _GOLDEN * (high - low))
        new_value = compute(new)
        former_left = left
        former_left_value = left_value
        left = np.where(is_left, new, right)
        left_value = np.where(is_left, new_value, right_value)
        right = np.where(is_left, former_left, new)
        right_value = np.where(is_left, former_left_value, new_value)
    return minimum


def least_deadline_s(request: AllocationRequest, budget_j: Floats) -> float:
    """Return the least deadline that all users meet within their budgets; *budget_j* must suffice for some deadline."""
    limits = request.limits

    def excess(log_deadline_s: float) -> float:
        needed = shares_within_budget(request, math.exp(log_deadline_s), budget_j)
        demand = max(float(needed.sum()), float((needed / limits).max()))
        return min(demand, 2.0) - 1.0

    fastest_s = request.train_s + fastest_upload_s(request, limits)
    low = math.log(float(fastest_s.max()))
    high = low
    for _ in range(_MAX_DOUBLINGS):
        if excess(high) <= 0.0:
            break
        low = high
        high += math.log(2.0)
    if high == low:
        return math.exp(high)
    return math.exp(float(optimize.brentq(excess, low, high, xtol=1e-11)))


def least_energy_of_sending_j(request: AllocationRequest) -> Floats:
    """Return the energy below which no upload in the whole band is possible, in any time, w b ln 2 / (B γ), ``[n]``."""
    return np.asarray(request.transmit_w * request.bits * math.log(2.0) / (request.bandwidth_hz * request.snr))


def _power_slope(exponent: Floats) -> Floats:
    """Return the derivative of t (2^(a / t) - 1) by t, 2^x (1 - x ln 2) - 1 with x = a / t; at most 0."""
    nats = exponent * math.log(2.0)
    return np.expm1(nats) - nats * np.exp(nats)


def _columns(values: Floats, like: Floats) -> Floats:
    """Return values of users, ``[n]``, in the shape of a grid ``[n, grid]``."""
    if like.ndim == 1:
        return values
    return values[:, None]
