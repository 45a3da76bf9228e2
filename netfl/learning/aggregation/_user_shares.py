"""Aggregations for the objective Σ_k α_k F_k, with a share α_k of each user."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal, Self

import numpy as np
from pydantic import Field

from netfl.core.spec import ByForm
from netfl.core.spec_errors import PerUser
from netfl.errors import Fault
from netfl.learning.aggregation import Aggregation
from netfl.types import Floats, Ints, ScenarioFacts

_Numbers = Annotated[tuple[Annotated[float, Field(gt=0, allow_inf_nan=False)], ...], Field(min_length=1)]


class UserShares(Aggregation):
    """An aggregation with shares ``α_k = n_k / Σ_j n_j`` of all users in the objective."""

    weights: Annotated[Literal["size", "equal"] | _Numbers, ByForm(), PerUser("size, or equal")] = "size"
    """``size``: n_k is the number of examples of user k; ``equal``: n_k = 1; or a list of all n_k."""

    def with_examples(self, examples: Ints) -> Self:
        if self.weights != "size":
            return self
        return self.model_copy(update={"weights": tuple(examples.astype(float).tolist())})

    def relative_shares(self, users: int) -> Floats:
        """Return ``N α_k`` of N users, ``[users]``: 1 for equal weights.

        Raises:
            ValueError: the numbers of examples are not known.
        """
        if self.weights == "size":
            problem = "the numbers of examples are not known: an outer aggregation must forward the call to"
            raise ValueError(f"{problem} 'with_examples'")
        if self.weights == "equal":
            return np.ones(users)
        numbers = np.array(self.weights)
        return np.asarray(users * numbers / numbers.sum())

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        if isinstance(self.weights, tuple) and len(self.weights) != facts.users:
            problem = f"{len(self.weights)} weights for {facts.users} users"
            yield Fault("weights", problem, remedy="give one for each user, or size, or equal")
