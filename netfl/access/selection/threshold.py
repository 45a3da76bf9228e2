"""The users who hold enough data."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import Field

from netfl.access.selection import RoundInfo, Selection, Selector, UserInfo, Users
from netfl.access.selection._base import sample_counts
from netfl.errors import Fault, ScenarioError
from netfl.types import Law


class Threshold(Selection):
    """All users who hold at least τ examples, always the same.

    Those are ``{k : n_k ≥ τ}``.  After D. Mitra and A. Khisti, "User selection in federated learning" (University of
    Toronto), who bound how far the model then drifts from that of a central server; the price is that what only users
    below τ hold is never learned.

    Example::

        kind: threshold
        tau: 20
    """

    tau: Annotated[int, Field(ge=1)]
    """τ, the fewest training examples of a user who may try."""

    def open(self, population: UserInfo) -> Selector:
        """At work.

        Raises:
            ScenarioError: nobody holds so many.
        """
        held = sample_counts(population)
        chosen = np.flatnonzero(held >= self.tau)
        if not chosen.size:
            problem = f"nobody holds so many examples: the most is {held.max():g}"
            raise ScenarioError([Fault("tau", problem, self.tau, "lower it, or take fewer users")])
        return _Threshold(chosen)

    @property
    def wants_held(self) -> bool:
        """How many examples users hold decides."""
        return True

    def laws(self) -> tuple[Law, ...]:
        """Nothing is drawn."""
        return (Law.none("the same users always: nothing is drawn"),)


class _Threshold(Selector):
    """At work."""

    def __init__(self, chosen: Users) -> None:
        self._chosen = chosen

    def choose(self, moment: RoundInfo) -> Users:
        """The same always."""
        return self._chosen
