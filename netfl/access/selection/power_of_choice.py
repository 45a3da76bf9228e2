"""Of a few candidates those whose loss is highest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import comb
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from netfl.access.selection import RoundInfo, Selector, UserInfo, Users
from netfl.access.selection._base import FixedSizeSelection, sample_counts, selected_rounds, weighted_sample
from netfl.errors import Fault
from netfl.streams import Streams
from netfl.types import Law, ScenarioFacts, StatisticClaim


class PowerOfChoice(FixedSizeSelection):
    """d candidates are drawn in proportion to their data, and of these the m of the highest loss may try.

    Candidates are drawn as in `by_size`, without replacement.  d = m leaves no choice; the larger d is, the faster and
    the more biased towards high losses the learning (Y. J. Cho, J. Wang and G. Joshi, "Client selection in federated
    learning: convergence analysis and power-of-choice selection strategies", 2020; AISTATS 2022).

    The losses are ``fresh``: before each round all candidates are asked for their loss under the version that is about
    to be sent (π_pow-d), which costs them a pass over their data and an answer, neither of which takes simulated time.
    Or they are the ``last`` ones known, for which nobody has to be asked: each user's loss under the version that was
    made of its last update; that of a user who was never heard counts as infinite (after π_rpow-d, in which the user
    itself takes the mean of its loss as it trains).  Candidates whose losses are equal or unknown, as all are in round
    1, come in the order in which they were drawn.

    Where all hold equally much, the user whose loss is the r-th highest of K may try with the probability that fewer
    than m of the other candidates are above it: ``Σ_{i<m} C(r-1, i) C(K-r, d-1-i) / C(K, d)``.

    Example::

        kind: power_of_choice
        d: 4
        m: 2
        losses: fresh
    """

    d: Annotated[int, Field(ge=1)]
    """How many candidates there are in a round."""
    losses: Literal["fresh", "last"] = "fresh"
    """Which losses decide: ``fresh`` ones, asked of the candidates, or the ``last`` ones known."""

    def open(self, population: UserInfo) -> Selector:
        """At work."""
        return (_Fresh if self.losses == "fresh" else _Last)(self, population)

    @property
    def asking(self) -> bool:
        """The losses are the learner's."""
        return True

    @property
    def wants_held(self) -> bool:
        """Candidates are drawn by how many examples they hold."""
        return True

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        """Fewer candidates than may try, or more than there are."""
        yield from FixedSizeSelection.faults(self, facts)
        if self.d < self.m:
            yield Fault("d", f"fewer candidates than the {self.m} who may try", self.d, "draw at least m")
        if self.d > facts.users:
            yield Fault("d", f"more than the {facts.users} users", self.d, "draw at most the number of users")

    def laws(self) -> tuple[Law, ...]:
        """How often the user of each rank is chosen, where all hold the same."""
        users, d, m = self.d + 2, self.d, self.m
        ways = [sum(comb(r, i) * comb(users - 1 - r, d - 1 - i) for i in range(min(m, d))) for r in range(users)]
        means = [way / comb(users, d) for way in ways]

        def draw(streams: Streams, size: int) -> NDArray[np.float64]:
            selector = self.open(UserInfo(users, streams, np.full(users, 7.0)))
            return selected_rounds(selector, users, size, -np.arange(users, dtype=np.float64))

        statement = f"Σ C(r-1, i) C(K-r, d-1-i) / C(K, d), i < m, for the r-th highest loss of K = {users} equal sizes"
        figure = StatisticClaim("inclusion", statement, draw, means, [f"rank {rank + 1}" for rank in range(users)])
        return (Law("who may try", statement, figures=(figure,)),)


class _Choice(Selector):
    """At work."""

    def __init__(self, said: PowerOfChoice, population: UserInfo) -> None:
        self._m, self._d, self._held = said.m, said.d, sample_counts(population)
        self._clocks = population.streams.field("candidates")
        self._loss = np.full(population.size, np.inf)

    def choose(self, moment: RoundInfo) -> Users:
        """The candidates of the highest losses, unknown ones before all others."""
        known = ~np.isnan(moment.loss)
        self._loss[known] = moment.loss[known]
        candidates = self._candidates(moment.round)
        return np.sort(candidates[np.argsort(-self._loss[candidates], kind="stable")[: self._m]])

    def _candidates(self, round: int) -> Users:
        """In the order in which they are drawn."""
        return weighted_sample(self._clocks, self._held, round)[: self._d]


class _Fresh(_Choice):
    """By losses that are asked for."""

    def choose(self, moment: RoundInfo) -> Users:
        """What was told before is forgotten."""
        self._loss[:] = np.inf
        return _Choice.choose(self, moment)

    def asks(self, round: int, heard: Users) -> Mapping[str, Users]:
        """The losses of the candidates."""
        return {"loss": np.sort(self._candidates(round))}


class _Last(_Choice):
    """By the losses that are known."""

    def asks(self, round: int, heard: Users) -> Mapping[str, Users]:
        """The losses of those who have just been heard."""
        return {"loss": heard}
