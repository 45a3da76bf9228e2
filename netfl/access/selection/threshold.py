"""The users with enough data."""

from __future__ import annotations

from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from netfl.access.selection import Selection, Selector, UserInfo
from netfl.access.selection._base import sample_counts
from netfl.access.selection.all import SameUsers
from netfl.errors import Fault, ScenarioError
from netfl.types import Law


class Threshold(Selection):
    """The users with at least τ examples, the same in every round.

    The set is ``{k : n_k ≥ τ}``.  After D. Mitra and A. Khisti, "User selection in federated learning" (University of
    Toronto), which bounds the resulting drift of the model from that of a central server; examples that only users
    below τ hold are never learned.

    Example::

        kind: threshold
        tau: 20
    """

    needs_sample_counts: ClassVar[bool] = True
    can_observe: ClassVar[tuple[str, ...]] = ("check_in",)
    tau: Annotated[int, Field(ge=1)]
    """τ, the smallest number of training examples of a selected user."""

    def open(self, population: UserInfo) -> Selector:
        counts = sample_counts(population)
        selected = np.flatnonzero(counts >= self.tau)
        if not selected.size:
            problem = f"no user has this many examples: the maximum is {counts.max():g}"
            raise ScenarioError([Fault("tau", problem, self.tau, "lower it, or use fewer users")])
        return SameUsers(selected)

    def laws(self) -> tuple[Law, ...]:
        return (Law.none("selects the same users in each round: nothing is drawn"),)
