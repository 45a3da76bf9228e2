"""What a selection means for a learner that minimises a conditional value at risk."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from netfl.errors import Fault, ScenarioError


@dataclass(frozen=True, slots=True)
class LossTail:
    """What the worst share α of what is heard can hold, if that is the rarest users' (see `objective/cvar`).

    Args:
        alpha: the share.
        whole: how many of the rarest users that are heard at all it holds whole.
        part: the share of the next one's mass that it holds besides.
    """

    alpha: float
    whole: int
    part: float


@dataclass(frozen=True, slots=True)
class CvarReach:
    """The least α for the rarest users, the rarest first; users that are never heard are beyond any.

    Args:
        users: who they are.
        alpha: the least α whose tail can hold the whole mass of this user and of all that are rarer: cumulative ρ.
        beyond: users that were never heard.
        tails: what given values of α reach.
    """

    users: NDArray[np.int64]
    alpha: NDArray[np.float64]
    beyond: tuple[int, ...]
    tails: tuple[LossTail, ...]

    @property
    def least(self) -> float:
        """The reach of the rarest user: a tail that is narrower cannot hold any user whole."""
        return float(self.alpha[0])


def cvar_reach(share: NDArray[np.float64], alphas: Iterable[float] = ()) -> CvarReach:
    """Which users the tail can hold, by their *share* of deliveries.

    >>> found = cvar_reach(np.array([0.6, 0.1, 0.3]), [0.25])
    >>> found.users.tolist(), found.alpha.round(2).tolist(), found.tails[0].whole, round(found.tails[0].part, 2)
    ([1, 2, 0], [0.1, 0.4, 1.0], 1, 0.5)
    """
    order = np.argsort(share, kind="stable")
    heard = order[share[order] > 0]
    mass = np.cumsum(share[heard])
    beyond = tuple(np.flatnonzero(share == 0).tolist())
    return CvarReach(heard, mass, beyond, tuple(_tail(float(alpha), share[heard], mass) for alpha in alphas))


def check_alpha(alpha: float, share: NDArray[np.float64]) -> None:
    """Refuse an α that is none, or whose tail is narrower than any user.

    Raises:
        ScenarioError: it is so.
    """
    if not 0 < alpha <= 1:
        raise ScenarioError([Fault("--alpha", "not a share in (0, 1]", alpha, "write a number such as 0.1")])
    least = float(share[share > 0].min())
    if alpha < least * (1 - 1e-9):
        problem = f"below the reach of any user: the rarest that is heard has {least:.4g} of all deliveries"
        remedy = "the tail is narrower than a single user; give at least that share"
        raise ScenarioError([Fault("--alpha", problem, alpha, remedy)])


def _tail(alpha: float, share: NDArray[np.float64], mass: NDArray[np.float64]) -> LossTail:
    """What the tail of share *alpha* holds of users whose *share* rises."""
    whole = int(np.searchsorted(mass, alpha * (1 + 1e-9), side="right"))
    if whole == len(mass):
        return LossTail(alpha, whole, 0.0)
    before = float(mass[whole - 1]) if whole else 0.0
    return LossTail(alpha, whole, (alpha - before) / float(share[whole]))
