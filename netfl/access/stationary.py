"""The papers' RAM: the same few users' worth of room in every round, given out in proportion to fixed rates."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from netfl.access._direct import DirectAccess, earliest, make_world, uniform_rows
from netfl.access._rates import Rho, normalized_rates
from netfl.errors import Fault
from netfl.streams import Streams
from netfl.types import AccessContext, Law, ScenarioFacts

_BLOCK = 1 << 14
"""Rounds that are drawn at a time."""


class Stationary(DirectAccess):
    """A few distinct users are heard in each round, drawn one after another in proportion to fixed rates.

    With one user per round, ``P(user i is heard) = rho_i``, independently from round to round: the RAM of Kalogerias
    and co-authors' FED-CVaR-AVG.  With more, each next one is drawn from those left, in proportion to their rates.

    Example::

        kind: stationary
        rho: [0.5, 0.4, 0.1]
        first: 1
    """

    rho: Rho
    """The rates: a list with one for each user, which sums to 1 (within 0.001, then made to); ``{zipf: s}``, which is
    ``rho_i`` in proportion to ``(i + 1) ** -s``; or ``random_simplex``, evenly drawn numbers on (0, 1), made to
    sum to 1 and sorted in falling order, drawn once for each replica."""
    first: Annotated[int, Field(ge=1)] = 1
    """How many users are heard in a round; users of rate 0 never are."""

    def heard(self, setting: AccessContext, most: int | None = None) -> Iterator[NDArray[np.int64]]:
        """One user by inverting the distribution, several by a race of exponential clocks."""
        at_once = self.heard_at_once(setting, most)
        if at_once is not None:
            for block in at_once:
                yield from block
            return
        rho, draws = normalized_rates(self.rho, setting.users, setting.streams), setting.streams.field("heard")
        able = np.flatnonzero(rho)
        for clocks in uniform_rows(draws, able, setting.rounds):
            yield able[earliest(-np.log(clocks) / rho[able], most)]

    @property
    def at_once(self) -> bool:
        """With one user in each round."""
        return self.first == 1

    def heard_at_once(self, setting: AccessContext, most: int | None = None) -> Iterator[NDArray[np.int64]] | None:
        """One user in each round."""
        return self._drawn(setting) if most == 1 else None

    def _drawn(self, setting: AccessContext) -> Iterator[NDArray[np.int64]]:
        """One user for each round, ``[rounds, 1]``, by inverting the distribution."""
        upto = np.cumsum(normalized_rates(self.rho, setting.users, setting.streams))
        upto /= upto[-1]
        draws = setting.streams.field("heard")
        for start in range(1, setting.rounds + 1, _BLOCK):
            block = draws.uniform(0, np.arange(start, min(start + _BLOCK, setting.rounds + 1)))
            yield np.searchsorted(upto, block, side="right")[:, None]

    def rates(self, users: int, streams: Streams) -> NDArray[np.float64]:
        """The stated rates, made to sum to 1; with more than one user in a round they keep the order of being heard."""
        return normalized_rates(self.rho, users, streams)

    def heard_rates(
        self, users: int, streams: Streams, label_mix: NDArray[np.float64] | None = None
    ) -> NDArray[np.float64] | None:
        """The stated rates, with one user in a round and no selection."""
        return self.rates(users, streams) if self._everybody and self.first == 1 else None

    @property
    def coming(self) -> str:
        """Rounds are independent and alike."""
        return "stationary"

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        """A list for another number of users, and what any direct access may have."""
        if isinstance(self.rho, tuple) and len(self.rho) != facts.users:
            problem = f"{len(self.rho)} rates for {facts.users} users"
            yield Fault("rho", problem, remedy="give one for each user, or {zipf: 1.0}, or random_simplex")
        yield from DirectAccess.faults(self, facts)

    def laws(self) -> tuple[Law, ...]:
        """How often the users of the highest and the lowest rate are the first to be heard."""
        if self.rho == "random_simplex":
            return (Law.none("the rates are themselves drawn, once; given them, the law is that of a list"),)
        users = len(self.rho) if isinstance(self.rho, tuple) else 5
        rho = normalized_rates(self.rho, users, Streams(0))
        return tuple(self._law(users, int(user), float(rho[user])) for user in (rho.argmax(), rho.argmin()))

    def _law(self, users: int, user: int, rate: float) -> Law:
        """How often *user* is the first to be heard."""

        def draw(streams: Streams, size: int) -> NDArray[np.float64]:
            return np.array([heard[0] == user for heard in self.heard(make_world(users, size, streams), 1)], float)

        return Law(f"user {user} heard first", "Bernoulli(rho_i), independent", draw, rate, rate * (1 - rate))
