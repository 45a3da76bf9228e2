"""Allocation of rows to users, and the number of examples of each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from netfl.core.spec import OnlyWith, Spec
from netfl.errors import Fault, ScenarioError
from netfl.streams import Streams
from netfl.types import Floats, Ints, Law


def whole_portions(total: int, shares: Floats) -> Ints:
    """Divide *total* into whole numbers, each within one of its share; *shares* need not sum to 1.

    >>> whole_portions(10, np.array([1.0, 1.0, 1.0])).tolist()
    [3, 4, 3]
    """
    ends = np.cumsum(shares)
    whole_ends = np.rint(total * (ends / ends[-1]))
    return np.asarray(np.diff(whole_ends, prepend=0), np.int64)


class RowDealer:
    """The rows that each user holds so far; *rng* shuffles rows before they are distributed."""

    def __init__(self, users: int, rng: np.random.Generator) -> None:
        self._held: list[list[Ints]] = [[] for _ in range(users)]
        self._rng = rng

    def deal(self, rows: Ints, users: Sequence[int] | Ints, counts: Ints | None = None) -> None:
        """Shuffle *rows* and distribute them to *users*: *counts* of them to each, or equal shares up to one row."""
        shuffled = self._rng.permutation(rows)
        if counts is None:
            parts = np.array_split(shuffled, len(users))
        else:
            parts = np.array_split(shuffled, np.cumsum(counts)[:-1])
        for user, part in zip(users, parts, strict=True):
            self.give(part, user)

    def give(self, rows: Ints, user: int) -> None:
        """Give *rows* to one user."""
        self._held[user].append(rows)

    def rows(self) -> list[Ints]:
        """Return the rows of each user; raise a ScenarioError if a user holds none."""
        no_rows = np.zeros(0, np.int64)
        held = [np.concatenate([no_rows, *parts]) for parts in self._held]
        empty = [user for user, rows in enumerate(held) if not len(rows)]
        if empty:
            shown = ", ".join(map(str, empty[:10]))
            if len(empty) > 10:
                shown += ", …"
            problem = f"no training example is left for {len(empty)} of {len(held)} users: {shown}"
            raise ScenarioError([Fault("", problem, remedy="use fewer users, or more data")])
        return held


class Sizes(Spec):
    """The number of examples of each user: ``min_samples``, and a share of the rest in proportion to a random weight W.

    ``power_law``: Pareto weights, P(W > w) = w^-exponent for w >= 1.  ``lognormal``: ln W is normal with standard
    deviation ``sigma``.
    """

    distribution: Literal["power_law", "lognormal"]
    """The distribution of the weights."""
    exponent: Annotated[
        Annotated[float, Field(ge=0.1, le=100)] | None, OnlyWith("distribution", "power_law", needed=True)
    ] = None
    """The exponent of ``power_law``; the smaller, the more uneven."""
    sigma: Annotated[Annotated[float, Field(gt=0, le=5)] | None, OnlyWith("distribution", "lognormal", needed=True)] = (
        None
    )
    """The standard deviation of ``lognormal``; the larger, the more uneven."""
    min_samples: Annotated[int, Field(ge=1)] = 1
    """Fewest examples of a user."""

    def draw_weights(self, streams: Streams, users: int) -> Floats:
        """Draw the weight of each user."""
        field = streams.field("size")
        user_ids = np.arange(users)
        if self.exponent is not None:
            return np.asarray(field.uniform(user_ids) ** (-1.0 / self.exponent))
        return np.asarray(np.exp((self.sigma or 0.0) * field.normal(user_ids)))

    def draw_counts(self, streams: Streams, users: int, examples: int) -> Ints:
        """Draw the number of each user's examples, *examples* in all."""
        shared_examples = examples - self.min_samples * users
        if shared_examples < 0:
            problem = f"{users} users cannot hold this many of {examples} examples each"
            raise ScenarioError(
                [Fault("sizes.min_samples", problem, self.min_samples, "use fewer users, or more data")]
            )
        return self.min_samples + whole_portions(shared_examples, self.draw_weights(streams, users))

    def weight_law(self) -> Law:
        """State the distribution of the weights."""
        from scipy import stats

        distribution: Any
        if self.exponent is not None:
            distribution = stats.pareto(self.exponent)
        else:
            distribution = stats.lognorm(self.sigma)
        statement = "the stated distribution, in closed form"
        return Law("weight of a user's size", statement, self.draw_weights, cdf=distribution.cdf)
