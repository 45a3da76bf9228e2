"""Selections of a fixed number of users, and their draws without replacement."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from netfl.access.selection import RoundInfo, Selection, Selector, UserInfo
from netfl.errors import Fault, ScenarioError
from netfl.streams import RandomField
from netfl.types import Floats, ScenarioFacts, Users


class FixedSizeSelection(Selection):
    """A selection of m users."""

    can_observe: ClassVar[tuple[str, ...]] = ("check_in",)
    m: Annotated[int, Field(ge=1)]
    """Number of users selected in a round."""

    def max_selected(self, users: int) -> int:
        return min(self.m, users)

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        yield from facts.too_many_users("m", self.m)


def weighted_sample(clocks: RandomField, weights: Floats, round: int) -> Users:
    """Order all users of positive weight as successive draws in proportion to weight would.

    Each user runs an exponential clock whose rate is its weight; the earliest clock is drawn first.
    """
    candidates = np.flatnonzero(weights > 0)
    times = clocks.exponential(candidates, round) / weights[candidates]  # Exp(w_k)
    return candidates[np.argsort(times, kind="stable")]


def sample_counts(population: UserInfo) -> Floats:
    """Return the training examples of each user."""
    if population.sample_counts is None:
        problem = "depends on the users' amounts of data, but there are no data"
        raise ScenarioError([Fault("", problem, None, "add data and partition")])
    return population.sample_counts


def selected_rounds(
    selector: Selector, users: int, rounds: int, loss: Floats | None = None, **values: Floats
) -> Floats:
    """Simulate selections without any delivery, for tests of distributions: 1 or 0, ``[rounds, users]``."""
    if loss is None:
        loss = np.full(users, np.nan)
    is_selected = np.zeros((rounds, users))
    for index, row in enumerate(is_selected, start=1):
        moment = RoundInfo(users, {"age": np.full(users, index), "loss": loss, **values}, index)
        row[selector.choose(moment)] = 1.0
    return is_selected


def among_candidates(moment: RoundInfo, weights: Floats) -> Floats:
    """Return the *weights* of the users that may be selected, and 0 for the others."""
    is_candidate = np.zeros(moment.users, bool)
    is_candidate[moment.candidates] = True
    return np.where(is_candidate, weights, 0.0)
