"""CVaR reach: the users that a learner with a conditional value at risk can take into account."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from netfl.errors import Fault, ScenarioError


@dataclass(frozen=True, slots=True)
class LossTail:
    """Largest content of the worst share α of the deliveries, if it consists of the rarest users (`objective/cvar`).

    Args:
        alpha: the share.
        whole: the number of the rarest users with deliveries that fit completely.
        part: the fraction of the next user's mass that also fits.
    """

    alpha: float
    whole: int
    part: float


@dataclass(frozen=True, slots=True)
class CvarReach:
    """The smallest α for each user, by rising participation; users without deliveries are beyond any α.

    Args:
        users: user numbers.
        alpha: the smallest α whose tail can hold the mass of this user and of all rarer ones: cumulative ρ.
        beyond: users without deliveries.
        tails: the content of the tails of given α.
    """

    users: NDArray[np.int64]
    alpha: NDArray[np.float64]
    beyond: tuple[int, ...]
    tails: tuple[LossTail, ...]

    @property
    def min_alpha(self) -> float:
        """The smallest α whose tail can hold the rarest user completely."""
        return float(self.alpha[0])


def cvar_reach(share: NDArray[np.float64], alphas: Iterable[float] = ()) -> CvarReach:
    """Compute the users that a tail can hold, from their *share* of deliveries.

    >>> reach = cvar_reach(np.array([0.6, 0.1, 0.3]), [0.25])
    >>> reach.users.tolist(), reach.alpha.round(2).tolist(), reach.tails[0].whole, round(reach.tails[0].part, 2)
    ([1, 2, 0], [0.1, 0.4, 1.0], 1, 0.5)
    """
    order = np.argsort(share, kind="stable")
    users = order[share[order] > 0]
    mass = np.cumsum(share[users])
    beyond = tuple(np.flatnonzero(share == 0).tolist())
    return CvarReach(users, mass, beyond, tuple(_tail(float(alpha), share[users], mass) for alpha in alphas))


def check_alpha(alpha: float, share: NDArray[np.float64]) -> None:
    """Raise a ScenarioError if *alpha* is not a share, or its tail is narrower than any user."""
    if not 0 < alpha <= 1:
        raise ScenarioError([Fault("--alpha", "not a share in (0, 1]", alpha, "write a number such as 0.1")])
    smallest = float(share[share > 0].min())
    if alpha < smallest * (1 - 1e-9):
        problem = f"below the reach of any user: the rarest that is heard has {smallest:.4g} of all deliveries"
        remedy = "the tail is narrower than a single user; give at least that share"
        raise ScenarioError([Fault("--alpha", problem, alpha, remedy)])


def _tail(alpha: float, share: NDArray[np.float64], mass: NDArray[np.float64]) -> LossTail:
    """Return the content of the tail *alpha*; *share* rises."""
    whole = int(np.searchsorted(mass, alpha * (1 + 1e-9), side="right"))
    if whole == len(mass):
        return LossTail(alpha, whole, 0.0)
    before = float(mass[whole - 1]) if whole else 0.0
    return LossTail(alpha, whole, (alpha - before) / float(share[whole]))
