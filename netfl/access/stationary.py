"""The papers' RAM: a fixed number of users in each round, drawn in proportion to fixed rates."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from netfl.access._direct import DirectAccess, earliest, uniform_rows
from netfl.access._rates import Rho, normalized_rates
from netfl.errors import Fault
from netfl.streams import Streams
from netfl.types import AccessContext, Floats, Ints, Law, ScenarioFacts

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
        deliveries: 1
    """

    candidate_process: ClassVar[str] = "stationary"
    rho: Rho
    """The rates: a list with one for each user, which sums to 1 (within 0.001, then normalized); ``{zipf: s}``, which
    is ``rho_i`` in proportion to ``(i + 1) ** -s``; or ``random_simplex``, uniform numbers on (0, 1), normalized to
    sum to 1 and sorted in descending order, drawn once for each replica."""
    deliveries: Annotated[int, Field(ge=1)] = 1
    """Number of users delivered in a round; users of rate 0 never are."""

    @property
    def has_absent_users(self) -> bool:
        return False

    def candidates(self, context: AccessContext, limit: int | None = None) -> Iterator[Ints]:
        """Yield one user by inverting the distribution, or several by a race of exponential clocks."""
        batches = self.candidate_batches(context, limit)
        if batches is not None:
            for batch in batches:
                yield from batch
            return
        rho = normalized_rates(self.rho, context.users, context.streams)
        able = np.flatnonzero(rho)
        for clocks in uniform_rows(context.streams.field("heard"), able, context.rounds):
            yield able[earliest(-np.log(clocks) / rho[able], limit)]

    def candidate_batches(self, context: AccessContext, limit: int | None = None) -> Iterator[Ints] | None:
        if limit != 1:
            return None
        return self._draw_batches(context.users, context.rounds, context.streams)

    def _draw_batches(self, users: int, rounds: int, streams: Streams) -> Iterator[Ints]:
        upper = np.cumsum(normalized_rates(self.rho, users, streams))
        upper /= upper[-1]
        draws = streams.field("heard")
        for start in range(1, rounds + 1, _BLOCK):
            block = draws.uniform(0, np.arange(start, min(start + _BLOCK, rounds + 1)))
            yield np.searchsorted(upper, block, side="right")[:, None]

    def rates(self, users: int, streams: Streams) -> Floats:
        """Return the normalized rates; with several users per round they only order the users."""
        return normalized_rates(self.rho, users, streams)

    def has_exact_rates(self, users: int) -> bool:
        return self.selects_all and self.deliveries == 1

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        if isinstance(self.rho, tuple) and len(self.rho) != facts.users:
            problem = f"{len(self.rho)} rates for {facts.users} users"
            yield Fault("rho", problem, remedy="give one for each user, or {zipf: 1.0}, or random_simplex")
        yield from super().faults(facts)

    def laws(self) -> tuple[Law, ...]:
        if self.rho == "random_simplex":
            return (Law.none("the rates are drawn once; given the rates, the distribution is that of a list"),)
        users = 5
        if isinstance(self.rho, tuple):
            users = len(self.rho)
        rho = normalized_rates(self.rho, users, Streams(0))
        return tuple(self._law(users, int(user), float(rho[user])) for user in (rho.argmax(), rho.argmin()))

    def _law(self, users: int, user: int, rate: float) -> Law:
        def draw(streams: Streams, size: int) -> Floats:
            drawn = np.concatenate([*self._draw_batches(users, size, streams)])
            return np.asarray(drawn[:, 0] == user, float)

        return Law(f"user {user} delivered first", "Bernoulli(rho_i), independent", draw, rate, rate * (1 - rate))
