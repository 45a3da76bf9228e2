"""Optima of two blocks of users in conflict, as FedAvg, importance weights and CVaR weigh them.

The majority of the users holds class 0, of which a coordinate is N(0, 1), and a rare user holds class 1, of which it is
N(d, 1); all other coordinates have one distribution in both classes, and the weight 0 at all optima.  The model is a
logistic regression.  Its minimiser for a weight of the rare block is found by numerical integration.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.polynomial.hermite_e import hermegauss
from scipy import stats
from scipy.optimize import brentq, minimize
from scipy.special import expit

from netfl.types import Floats

GAMMA = 0.1
"""Weight of the mean in the objective of all CVaR here."""


def largest_weight(share: float, alpha: float, gamma: float = GAMMA) -> float:
    """Return the largest weight ``(1 - γ) min(1, ρ/α) + γ ρ`` of a block with the *share* ρ of the deliveries.

    Source: the dual form of CVaR, with weights ``q_k ≤ ρ_k / α``.
    """
    return (1 - gamma) * min(1.0, share / alpha) + gamma * share


def smallest_weight(share: float, alpha: float, gamma: float = GAMMA) -> float:
    """Return the smallest weight of a block, whose complement has the `largest_weight`."""
    return 1 - largest_weight(1 - share, alpha, gamma)


def boundary(alpha: float, gamma: float = GAMMA) -> float:
    """Return the N ρ above which the `largest_weight` of the rare user exceeds 1/N: ``α / (1 - γ (1 - α))``.

    >>> round(boundary(0.1), 3)
    0.11
    """
    return alpha / (1 - gamma * (1 - alpha))


_NODES, _NODE_WEIGHTS = hermegauss(80)
_NODE_WEIGHTS = _NODE_WEIGHTS / _NODE_WEIGHTS.sum()


def block_losses(line: Floats, distance: float) -> tuple[float, float]:
    """Return the mean log losses of the majority and of the rare block, for a *line* ``[slope, bias]``."""
    slope, bias = line
    majority = _NODE_WEIGHTS @ np.logaddexp(0.0, slope * _NODES + bias)
    rare = _NODE_WEIGHTS @ np.logaddexp(0.0, -slope * (_NODES + distance) - bias)
    return float(majority), float(rare)


@cache
def best_line(weight: float, distance: float) -> tuple[float, float]:
    """Return slope and bias with the smallest mean loss if the rare block has *weight*, by numerical integration."""

    def value(line: Floats) -> tuple[float, Floats]:
        majority, rare = block_losses(line, distance)
        slope, bias = line
        ones = np.ones_like(_NODES)
        above = (1 - weight) * _NODE_WEIGHTS * expit(slope * _NODES + bias)
        below = weight * _NODE_WEIGHTS * expit(-slope * (_NODES + distance) - bias)
        gradient = np.array([_NODES, ones]) @ above - np.array([_NODES + distance, ones]) @ below
        return (1 - weight) * majority + weight * rare, gradient

    slope, bias = minimize(value, np.array([1.0, 0.0]), jac=True, method="BFGS", options={"gtol": 1e-10}).x
    return float(slope), float(bias)


def equal_weight(distance: float) -> float:
    """Return the weight of the rare block at which the losses of both blocks are equal at the optimum."""

    def difference(weight: float) -> float:
        majority, rare = block_losses(np.array(best_line(weight, distance)), distance)
        return rare - majority

    return float(brentq(difference, 0.01, 0.99, xtol=1e-10))


def optimal_accuracy(weight: float, distance: float) -> float:
    """Return the mean accuracy of both classes at the optimum for a *weight* of the rare block."""
    slope, bias = best_line(weight, distance)
    return float(stats.norm.cdf(-bias / slope) + stats.norm.cdf(distance + bias / slope)) / 2


def cvar_weight(share: float, alpha: float, distance: float) -> float:
    """Return the weight of the rare block at the optimum of CVaR: that of equal losses, within its limits."""
    return float(np.clip(equal_weight(distance), smallest_weight(share, alpha), largest_weight(share, alpha)))
