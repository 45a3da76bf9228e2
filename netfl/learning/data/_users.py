"""Data that have users of their own: what is said of their splits, and who is chosen among them."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from netfl.errors import Fault, ScenarioError
from netfl.learning.data import Data

Share = Annotated[float, Field(ge=0, lt=1)]
"""A share of each user's examples."""


class OfUsers(Data):
    """Data whose examples belong to users, each of whom keeps some for testing and for validation."""

    test_share: Annotated[float, Field(gt=0, lt=1)] = 0.1
    """The share of each user's examples that is kept for testing, rounded down."""
    validation_share: Share = 0.1
    """The share of each user's examples that is kept for validation, rounded down."""
    seed: Annotated[int, Field(ge=0)] = 0
    """Decides all that is drawn for the set, whatever the seed of the run."""

    @model_validator(mode="after")
    def _leaves_some(self) -> OfUsers:
        """Refuse shares that leave nothing to train on."""
        if self.test_share + self.validation_share >= 1:
            raise ValueError(f"shares of {self.test_share} and {self.validation_share} leave nothing to train on")
        return self


def chosen(sizes: NDArray[np.int64], least: int, users: int | None, rng: np.random.Generator) -> NDArray[np.int64]:
    """Which users are taken of those who have *sizes* examples, in rising order.

    Args:
        sizes: of all users.
        least: users with fewer examples are left out.
        users: how many of the others to choose at random; ``None`` for all.
        rng: chooses.

    Raises:
        ScenarioError: there are not so many.
    """
    able = np.flatnonzero(sizes >= least)
    if len(able) < (users or 1):
        problem = f"{len(able)} users have {least} examples or more"
        raise ScenarioError([Fault("users", problem, users, "ask for fewer, or for fewer examples each")])
    return able if users is None else np.sort(rng.choice(able, users, replace=False))
