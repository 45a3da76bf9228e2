"""The users with enough data."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import Field

from netfl.access.selection import RoundInfo, Selection, Selector, UserInfo, Users
from netfl.access.selection._base import sample_counts
from netfl.errors import Fault, ScenarioError
from netfl.types import Law


class Threshold(Selection):
    """The users with at least τ examples, the same in every round.

    The set is ``{k : n_k ≥ τ}``.  After D. Mitra and A. Khisti, "User selection in federated learning" (University of
    Toronto), who bound the resulting drift of the model from that of a central server; what only users below τ hold is
    never learned.

    Example::

        kind: threshold
        tau: 20
    """

    tau: Annotated[int, Field(ge=1)]
    """τ, the smallest number of training examples of a selected user."""

    def open(self, population: UserInfo) -> Selector:
        """Return the selector.

        Raises:
            ScenarioError: no user has τ examples.
        """
        counts = sample_counts(population)
        selected = np.flatnonzero(counts >= self.tau)
        if not selected.size:
            problem = f"no user has so many examples: the maximum is {counts.max():g}"
            raise ScenarioError([Fault("tau", problem, self.tau, "lower it, or take fewer users")])
        return _Threshold(selected)

    @property
    def needs_sample_counts(self) -> bool:
        """The selector reads sample counts."""
        return True

    def laws(self) -> tuple[Law, ...]:
        """Return the laws that a test checks."""
        return (Law.none("the same users always: nothing is drawn"),)


class _Threshold(Selector):
    def __init__(self, selected: Users) -> None:
        self._selected = selected

    def choose(self, moment: RoundInfo) -> Users:
        return self._selected
