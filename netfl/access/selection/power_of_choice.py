"""The candidates with the highest losses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import comb
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from netfl.access.selection import RoundInfo, Selector, UserInfo
from netfl.access.selection._base import (
    FixedSizeSelection,
    among_candidates,
    sample_counts,
    selected_rounds,
    weighted_sample,
)
from netfl.core.spec import no_effect
from netfl.errors import Fault
from netfl.streams import Streams
from netfl.types import Floats, Law, ObservationAge, ScenarioFacts, StatisticClaim, Users


class PowerOfChoice(FixedSizeSelection):
    """d candidates are drawn in proportion to their data; the m candidates of the highest loss are selected.

    Candidates are drawn as in `by_size`, without replacement.  d = m leaves no choice; the larger d is, the faster and
    the more biased towards high losses the learning (Y. J. Cho, J. Wang and G. Joshi, "Client selection in federated
    learning: convergence analysis and power-of-choice selection strategies", 2020; AISTATS 2022).

    With ``fresh`` losses, all candidates are asked before each round for their loss under the version that is about to
    be sent (π_pow-d), which costs them a pass over their data and an answer, neither of which takes simulated time.
    With the ``last`` known losses no candidate is asked: each user's loss is that under the version made of its last
    update, and infinite for a user that was never delivered (after π_rpow-d, in which the user itself averages its loss
    as it trains).  Candidates of equal or unknown loss, as all are in round 1, come in the order in which they were
    drawn.

    If all users have equally many examples, the user of the r-th highest loss of K is selected with the probability
    that fewer than m of the other candidates are above it: ``Σ_{i<m} C(r-1, i) C(K-r, d-1-i) / C(K, d)``.

    Example::

        kind: power_of_choice
        d: 4
        m: 2
        losses: fresh
    """

    observes: ClassVar[tuple[str, ...]] = ("loss",)
    needs_sample_counts: ClassVar[bool] = True
    d: Annotated[int, Field(ge=1)]
    """Number of candidates in a round."""
    losses: Literal["fresh", "last"] = "fresh"
    """Losses that decide: ``fresh`` ones, asked of the candidates, or the ``last`` ones known."""

    @property
    def ages(self) -> dict[str, ObservationAge]:
        ages = super().ages
        if self.losses == "last":
            ages["loss"] = "last_delivery"
        return ages

    def open(self, population: UserInfo) -> Selector:
        return _Choice(self, population)

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        yield from super().faults(facts)
        if self.d < self.m:
            yield Fault("d", f"fewer candidates than the {self.m} selected users", self.d, "draw at least m")
        yield from facts.too_many_users("d", self.d)
        yield from no_effect(self.observe, ["loss"], "here: losses decides", "set losses", "observe.")

    def laws(self) -> tuple[Law, ...]:
        d = self.d
        users = d + 2
        places = min(self.m, d)

        def inclusion(rank: int) -> float:
            """Return Σ_{i<m} C(r-1, i) C(K-r, d-1-i) / C(K, d) for r - 1 = *rank*."""
            ways = sum(comb(rank, i) * comb(users - 1 - rank, d - 1 - i) for i in range(places))
            return ways / comb(users, d)

        means = [inclusion(rank) for rank in range(users)]

        def draw(streams: Streams, size: int) -> Floats:
            selector = self.open(UserInfo(users, streams, np.full(users, 7.0)))
            return selected_rounds(selector, users, size, -np.arange(users, dtype=np.float64))

        statement = f"Σ C(r-1, i) C(K-r, d-1-i) / C(K, d), i < m, for the r-th highest loss of K = {users} equal sizes"
        claim = StatisticClaim("inclusion", statement, draw, means, [f"rank {rank + 1}" for rank in range(users)])
        return (Law("selected users", statement, statistics=(claim,)),)


class _Choice(Selector):
    def __init__(self, spec: PowerOfChoice, population: UserInfo) -> None:
        self._m = spec.m
        self._d = spec.d
        self._counts = sample_counts(population)
        self._is_fresh = spec.losses == "fresh"
        self._draws_among_all = "check_in" not in spec.ages
        self._clocks = population.streams.field("candidates")
        self._loss = np.full(population.size, np.inf)

    def choose(self, moment: RoundInfo) -> Users:
        if self._is_fresh:  # losses of former rounds do not count
            self._loss[:] = np.inf
        is_known = ~np.isnan(moment.loss)
        self._loss[is_known] = moment.loss[is_known]
        candidates = self._candidates(among_candidates(moment, self._counts), moment.round)
        by_loss = np.argsort(-self._loss[candidates], kind="stable")
        return np.sort(candidates[by_loss[: self._m]])

    def _candidates(self, weights: Floats, round: int) -> Users:
        return weighted_sample(self._clocks, weights, round)[: self._d]

    def queries(self, round: int, delivered: Users) -> Mapping[str, Users] | None:
        if not self._is_fresh:
            return {"loss": delivered}
        if self._draws_among_all:
            return {"loss": np.sort(self._candidates(self._counts, round))}
        return None  # the users that will check in are not known yet; only losses of candidates are used
