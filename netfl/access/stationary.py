"""The papers' RAM: a fixed number of users in each round, drawn in proportion to fixed rates."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from netfl.access._direct import DirectAccess, earliest, make_context, uniform_rows
from netfl.access._rates import Rho, normalized_rates
from netfl.errors import Fault
from netfl.streams import Streams
from netfl.types import AccessContext, Law, ScenarioFacts

_BLOCK = 1 << 14
"""Rounds drawn at a time."""


class Stationary(DirectAccess):
    """A few distinct users are delivered in each round, drawn successively in proportion to fixed rates.

    With one user per round, ``P(user i is delivered) = rho_i``, independently from round to round: the RAM of
    Kalogerias and co-authors' FED-CVaR-AVG.  With more, each next user is drawn from the remaining ones, in proportion
    to their rates.

    Example::

        kind: stationary
        rho: [0.5, 0.4, 0.1]
        first: 1
    """

    rho: Rho
    """The rates: a list with one for each user, which sums to 1 (within 0.001, then normalized); ``{zipf: s}``, which
    is ``rho_i`` in proportion to ``(i + 1) ** -s``; or ``random_simplex``, uniform numbers on (0, 1), normalized to
    sum to 1 and sorted in descending order, drawn once for each replica."""
    first: Annotated[int, Field(ge=1)] = 1
    """Number of users delivered in a round; users of rate 0 never are."""

    def candidates(self, context: AccessContext, limit: int | None = None) -> Iterator[NDArray[np.int64]]:
        """Yield one user by inverting the distribution, or several by a race of exponential clocks."""
        batches = self.candidate_batches(context, limit)
        if batches is not None:
            for batch in batches:
                yield from batch
            return
        rho, draws = normalized_rates(self.rho, context.users, context.streams), context.streams.field("heard")
        able = np.flatnonzero(rho)
        for clocks in uniform_rows(draws, able, context.rounds):
            yield able[earliest(-np.log(clocks) / rho[able], limit)]

    @property
    def has_candidate_batches(self) -> bool:
        """Candidates are drawn in batches."""
        return self.first == 1

    def candidate_batches(self, context: AccessContext, limit: int | None = None) -> Iterator[NDArray[np.int64]] | None:
        """Yield candidates of many rounds at a time."""
        return self._draw_batches(context) if limit == 1 else None

    def _draw_batches(self, context: AccessContext) -> Iterator[NDArray[np.int64]]:
        upper = np.cumsum(normalized_rates(self.rho, context.users, context.streams))
        upper /= upper[-1]
        draws = context.streams.field("heard")
        for start in range(1, context.rounds + 1, _BLOCK):
            block = draws.uniform(0, np.arange(start, min(start + _BLOCK, context.rounds + 1)))
            yield np.searchsorted(upper, block, side="right")[:, None]

    def rates(self, users: int, streams: Streams) -> NDArray[np.float64]:
        """Return the normalized rates; with several users per round they only order the users."""
        return normalized_rates(self.rho, users, streams)

    def participation_rates(
        self, users: int, streams: Streams, label_mix: NDArray[np.float64] | None = None
    ) -> NDArray[np.float64] | None:
        """Return the share of rounds in which each user is delivered, if exact."""
        return self.rates(users, streams) if self.selects_all and self.first == 1 else None

    @property
    def candidate_process(self) -> str:
        """Kind of process of the candidates."""
        return "stationary"

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        """Yield errors of the configuration."""
        if isinstance(self.rho, tuple) and len(self.rho) != facts.users:
            problem = f"{len(self.rho)} rates for {facts.users} users"
            yield Fault("rho", problem, remedy="give one for each user, or {zipf: 1.0}, or random_simplex")
        yield from super().faults(facts)

    def laws(self) -> tuple[Law, ...]:
        """Return the laws that a test checks."""
        if self.rho == "random_simplex":
            return (Law.none("the rates are themselves drawn, once; given them, the law is that of a list"),)
        users = len(self.rho) if isinstance(self.rho, tuple) else 5
        rho = normalized_rates(self.rho, users, Streams(0))
        return tuple(self._law(users, int(user), float(rho[user])) for user in (rho.argmax(), rho.argmin()))

    def _law(self, users: int, user: int, rate: float) -> Law:
        def draw(streams: Streams, size: int) -> NDArray[np.float64]:
            rounds = self.candidates(make_context(users, size, streams), 1)
            return np.array([candidates[0] == user for candidates in rounds], float)

        return Law(f"user {user} heard first", "Bernoulli(rho_i), independent", draw, rate, rate * (1 - rate))
