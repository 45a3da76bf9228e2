"""Weights that users have in the optimum of a learner: bounds of the CVaR, and the mean weights of aggregations.

A learner minimises ``Σ_k w_k f_k(θ)``, with the mean loss f_k of user k.  Its aggregation gives user k the share ρ_k of
the mean change of the model, to first order in the step size: local steps of finite size add client drift.  Over these
shares the objective ``cvar`` may choose weights within bounds.  docs/background/cvar.md explains when this changes the
optimum.  This module does not import torch.

>>> import numpy as np
>>> level = CvarLevel(alpha=0.1, gamma=0.1)
>>> level.highest(np.array([0.02, 0.2])).round(3).tolist()
[0.182, 0.92]
>>> level.can_lift(np.array([0.02, 0.005]), users=10).tolist()
[True, False]
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from netfl.core.remedies import argument
from netfl.errors import Fault, ScenarioError
from netfl.types import Bools, Floats

_TOLERANCE = 1e-10
"""Absolute error of each weight that is an integral."""


@dataclass(frozen=True, slots=True)
class CvarLevel:
    """The level of the objective ``G(θ) = (1-γ) CVaR_α[f_I] + γ E[f_I]`` of FED-CVaR-AVG, with I drawn by shares ρ.

    In its dual form, ``CVaR_α[f_I]`` is the largest ``Σ_k q_k f_k`` with ``0 <= q_k <= ρ_k/α`` and ``Σ_k q_k = 1``
    (Rockafellar and Uryasev, "Optimization of conditional value-at-risk", 2000).  So ``w_k = (1-γ) q_k + γ ρ_k`` lies
    between `lowest` and `highest`.  A group of users whose losses are equal has the bounds of its total share.

    Args:
        alpha: share α of the worst losses, in (0, 1].
        gamma: weight γ of the mean loss, in [0, 1].

    Raises:
        ScenarioError: a value is outside of its range.
    """

    alpha: float
    gamma: float = 0.0

    def __post_init__(self) -> None:
        faults = []
        if not 0 < self.alpha <= 1:
            remedy = "write a number in (0, 1], such as 0.1"
            faults.append(Fault(argument("alpha", "--cvar"), "α is not a share of losses", self.alpha, remedy))
        if not 0 <= self.gamma <= 1:
            remedy = "write a number in [0, 1], such as 0.1"
            faults.append(Fault(argument("gamma", "--cvar"), "γ is not a weight of the mean loss", self.gamma, remedy))
        if faults:
            raise ScenarioError(faults)

    def highest(self, shares: Floats) -> Floats:
        """Return the largest weights ``B = (1-γ) min(1, ρ/α) + γ ρ`` of users or groups with *shares* ρ."""
        in_tail = np.minimum(1.0, shares / self.alpha)
        return (1 - self.gamma) * in_tail + self.gamma * shares

    def lowest(self, shares: Floats) -> Floats:
        """Return the smallest weights ``(1-γ) max(0, 1 - (1-ρ)/α) + γ ρ`` of users or groups with *shares* ρ.

        The others can fill the tail unless their total share is below α.
        """
        in_tail = np.maximum(0.0, 1 - (1 - shares) / self.alpha)
        return (1 - self.gamma) * in_tail + self.gamma * shares

    def can_lift(self, shares: Floats, users: int, members: int = 1) -> Bools:
        """Return whether the largest weights exceed those of importance weighting, ``members / users``.

        This is necessary, not sufficient, for a larger weight: the losses must also be among the worst.

        Args:
            shares: shares ρ of users, or the total share of each group.
            users: number N of users.
            members: number m of users in each group.
        """
        return self.highest(shares) > members / users

    def two_block_weight(self, share: float, equalising: float) -> float:
        """Return the weight of a rare block against one of all others, at the optimum.

        The losses within a block are equal, and its loss falls as its weight rises.  The tail takes the rare block
        until both losses are equal, or until the weight is the largest: ``clip(w_eq, lowest, highest)``.  So its loss
        is below that of importance weighting if and only if `highest` and w_eq exceed ``members / users``.

        Args:
            share: total share of the rare block.
            equalising: the weight w_eq of the rare block with which both losses are equal.
        """
        block = np.array([share])
        return float(np.clip(equalising, self.lowest(block)[0], self.highest(block)[0]))


def critical_alpha(shares: Floats, users: int, gamma: float, members: int = 1) -> Floats:
    """Return the α below which CVaR can weigh users or groups more than importance weighting does.

    ``α_c = ν (1-γ) / (1 - γ ν)`` with ``ν = N ρ / m``, at most 1; 0 without deliveries.  For ν >= 1 the share alone is
    the weight m/N or more, and any α < 1 can raise it, so that α_c is 1.  With γ = 0, α_c is ν.  With γ = 1, α has no
    effect: α_c is 0, or 1 for ν > 1.

    Args:
        shares: shares ρ of users, or the total share of each group.
        users: number N of users.
        gamma: weight γ of the mean loss.
        members: number m of users in each group.
    """
    relative = users * shares / members  # ν, which is 1 for a user with its fair share
    if gamma == 1:  # no α has an effect
        return np.where(relative > 1, 1.0, 0.0)
    capped = np.minimum(1.0, relative)
    return np.asarray(capped * (1 - gamma) / (1 - gamma * capped))


def merge_shares(delivered: Bools, weights: Floats) -> Floats:
    """Return the mean share of each user in the merges of rounds: ``mean_r 1{k in S_r} n_k / Σ_{j in S_r} n_j``.

    With one delivery in a round it is the share of the deliveries.  Rounds without deliveries have no merge.

    Args:
        delivered: whether user k is delivered in round r, ``[rounds, users]``.
        weights: n_k, weight of each user in a merge, ``[users]``.

    Returns:
        Shares ρ_k with sum 1, ``[users]``; zeros without any delivery.
    """
    totals = delivered @ weights  # of the users delivered in each round
    has_merge = totals > 0
    if not has_merge.any():
        return np.zeros(len(weights))
    per_weight = 1 / totals[has_merge]
    return np.asarray(weights * (per_weight @ delivered[has_merge]) / len(per_weight))


def independent_merge_shares(probability: Floats, weights: Floats) -> Floats:
    """Return the expected share of each user in a merge, if users take part independently with *probability* p_k.

    From ``1/s = ∫_0^∞ exp(-s x) dx``, with the weight n_k of user k,

        E[1{k in S} n_k / Σ_{j in S} n_j] = p_k n_k ∫_0^∞ exp(-n_k x) Π_{j≠k} (1 - p_j + p_j exp(-n_j x)) dx

    given that any user takes part.  This is not ``p_k / Σ p``: a frequent user shares its merges with others more
    rarely.  A limit of m deliveries to the first of the users, in random order, leaves it with equal weights.

    Args:
        probability: p_k of each user, ``[users]``.
        weights: n_k, weight of each user in a merge, ``[users]``; only their ratios matter.

    Returns:
        Shares ρ_k with sum 1, ``[users]``.
    """
    from scipy import integrate  # not for the scenarios that read this module only for a level

    if not (probability * weights).any():
        return np.zeros(len(weights))
    size = weights / (probability @ weights)  # the mean total is 1, so that x is about 1

    def integrand(x: float) -> Floats:
        delivered = probability * np.exp(-size * x)
        factors = 1 - probability + delivered
        ratio = np.divide(delivered, factors, out=np.zeros_like(size), where=factors > 0)  # both underflow for p = 1
        return np.asarray(size * ratio * factors.prod())

    expected, _ = integrate.quad_vec(integrand, 0.0, np.inf, epsabs=_TOLERANCE)
    return np.asarray(expected / expected.sum())


def fedau_weights(probability: Floats, cutoff: int | None = None) -> Floats:
    """Return the mean weights of FedAU, if users take part in each round independently with *probability* p_k.

    ``(1 - (1-p_k)^K) / N`` with the cutoff K, and 1/N without: the mean interval ``(1 - (1-p)^K) / p`` times p, over N
    (Wang and Ji, "A lightweight method for tackling unknown participation statistics in federated averaging", ICLR
    2024).  The sum of the weights is below 1 with a cutoff: the model also moves more slowly.

    Args:
        probability: p_k of each user, ``[users]``.
        cutoff: maximum length K of an interval, in rounds.
    """
    users = len(probability)
    if cutoff is None:
        return np.where(probability > 0, 1 / users, 0.0)
    return np.asarray((1 - (1 - probability) ** cutoff) / users)


def equal_weights(participates: Bools) -> Floats:
    """Return the mean weights of known participation, and of MIFA once all users were delivered: 1/N.

    MIFA remembers a change of each user, which is stale, but without the noise of large weights.  Users that never
    participate have the weight 0.

    Args:
        participates: whether each user ever participates, ``[users]``.
    """
    return np.asarray(participates / len(participates))
