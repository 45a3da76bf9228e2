"""Groups of users who are cut off together, such as those of one tower."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator, Field, TypeAdapter

from netfl.access._direct import IntermittentAccess, uniform_rows
from netfl.access._rates import LabelCorrelated
from netfl.access.bernoulli import Bernoulli
from netfl.access.markov import Markov
from netfl.errors import Fault
from netfl.network.rates import chances_of
from netfl.streams import Streams
from netfl.types import Law, ScenarioFacts, StatisticClaim

_LISTS: TypeAdapter[tuple[tuple[int, ...], ...]] = TypeAdapter(
    Annotated[tuple[Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(min_length=1)], ...], Field(min_length=1)]
)
_NUMBER: TypeAdapter[int] = TypeAdapter(Annotated[int, Field(ge=1)])
_LATE = 20
"""The round that the laws look at."""


def _read_groups(value: object) -> object:
    """Choose by what is written, so that a fault names the very entry."""
    return (_LISTS if isinstance(value, list | tuple) else _NUMBER).validate_python(value)


class Correlated(IntermittentAccess):
    """Each user is there if its group is up and its own coin says so, so that users of a group fail together.

    A group is up with probability ``g``, and user n of it is then there with probability ``c_n = p_n / g``, so that
    ``P(user n is there) = p_n``.  With the odds ``o_n = p_n / (1 - p_n)``, ``o`` the largest in the group and
    ``p`` its probability, ``g = p / (p + r (1 - p))``; two users i and j of the group are then correlated by
    ``r sqrt(o_i o_j) / o``, which is ``r`` where all are alike.  Users of two groups are independent.  (The common
    shock of A. W. Marshall and I. Olkin, "A multivariate exponential distribution", Journal of the American Statistical
    Association 62, 1967, with coins for exponential times.)

    Groups are up or not anew in each round or, with `switch_on`, for a while: a Markov chain as of `markov`.  Users'
    own coins are thrown anew in each round.

    Example::

        kind: correlated
        probability: 0.4
        groups: 2
        correlation: 0.6
    """

    groups: Annotated[int | tuple[tuple[int, ...], ...], BeforeValidator(_read_groups)]
    """How many groups, of neighbouring numbers and as even as can be; or a list of lists of users, where users who are
    not named are on their own."""
    correlation: Annotated[float, Field(gt=0, le=1)]
    """The correlation r of two users of a group who are there as often as the one of them that is there most."""
    switch_on: Annotated[float, Field(gt=0, le=1)] | None = None
    """The probability that a group which is down is up in the next round, as of `markov`; by default groups have no
    memory."""

    def present(self, chances: NDArray[np.float64], rounds: int, streams: Streams) -> Iterator[NDArray[np.bool_]]:
        """Whose group is up, and whose coin says so."""
        return self._there(self.members(len(chances)), chances, rounds, streams)

    def members(self, users: int) -> NDArray[np.int64]:
        """The number of each user's group, ``[users]``."""
        if isinstance(self.groups, int):
            return np.repeat(
                np.arange(self.groups), [len(part) for part in np.array_split(np.arange(users), self.groups)]
            )
        member = np.full(users, -1)
        for number, group in enumerate(self.groups):
            member[list(group)] = number
        alone = np.flatnonzero(member < 0)
        member[alone] = len(self.groups) + np.arange(len(alone))
        return member

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        """Users that there are not, or who are in two groups; groups of one; users who are always there."""
        yield from IntermittentAccess.faults(self, facts)
        if isinstance(self.groups, int):
            if self.groups >= facts.users:
                problem = f"no two of the {facts.users} users would share a group"
                yield Fault("groups", problem, self.groups, "name fewer groups, or take bernoulli or markov")
                return
        else:
            yield from self._misnamed(facts)
        if self.probability == 1.0:
            yield Fault("probability", "users who are always there have no correlation", 1.0, "make it less than 1")
        elif not isinstance(self.probability, float | LabelCorrelated):
            sure = np.flatnonzero(chances_of(self.probability, facts.users) == 1.0).tolist()
            if sure:
                problem = "users who are always there keep their groups up for ever"
                yield Fault("probability", problem, sure, "make these less than 1")

    @property
    def coming(self) -> str:
        """Correlated; Markovian, which says more, where groups have a memory."""
        return "emergent-correlated" if self.switch_on is None else "Markovian"

    def laws(self) -> tuple[Law, ...]:
        """For users like the first, two to a group: how often there; how correlated in a group, across, and in time."""
        p = self.typical

        def pairs(streams: Streams, size: int) -> NDArray[np.float64]:
            there = self._there(np.repeat(np.arange(size), 2), np.full(2 * size, p), _LATE, streams)
            return np.array([*there], float).reshape(_LATE, size, 2)

        def late(streams: Streams, size: int) -> NDArray[np.float64]:
            return pairs(streams, size)[-1, :, 0]

        def products(streams: Streams, size: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
            off = pairs(streams, size) - p
            one, other = off[-1].T
            drawn = np.stack([one * other, one * np.roll(other, 1), off[-2, :, 0] * one], axis=1)
            return drawn, np.full_like(drawn, p * (1.0 - p))

        there = Law(f"user there in round {_LATE}", "Bernoulli(p)", late, p, p * (1.0 - p))
        if p == 1.0:
            return (there,)
        formula, at = "r; 0; r (1 - on - off) of the groups' chain", ("a group", "two groups", "a user's next round")
        claims = (self.correlation, 0.0, self.correlation * self._memory(p))
        figure = StatisticClaim("correlation", formula, products, claims, at)
        return (there, Law("users there together", "by a group that is up with probability g", figures=(figure,)))

    def _there(
        self, member: NDArray[np.int64], chances: NDArray[np.float64], rounds: int, streams: Streams
    ) -> Iterator[NDArray[np.bool_]]:
        """Who is there, round after round, where user n belongs to the group ``member[n]``."""
        highest = np.zeros(member.max() + 1)
        np.maximum.at(highest, member, chances)
        up = self._up(highest)
        groups = self._chain.present(up, rounds, streams.at("groups"))
        coins = uniform_rows(streams.field("present"), np.arange(len(chances)), rounds)
        share = chances / up[member]
        for on, draws in zip(groups, coins, strict=True):
            yield on[member] & (draws < share)

    def _up(self, highest: NDArray[np.float64]) -> NDArray[np.float64]:
        """How likely groups are to be up whose users are there with at most these probabilities."""
        return highest / (highest + self.correlation * (1.0 - highest))

    @property
    def _chain(self) -> IntermittentAccess:
        """The process of a group; its probability is said elsewhere."""
        return (
            Bernoulli(probability=1.0) if self.switch_on is None else Markov(probability=1.0, switch_on=self.switch_on)
        )

    def _memory(self, highest: float) -> float:
        """The correlation of a group with itself a round later."""
        if not isinstance(self._chain, Markov):
            return 0.0
        on, off = self._chain.switches(self._up(np.array([highest])))
        return float(1.0 - on[0] - off[0])

    def _misnamed(self, facts: ScenarioFacts) -> Iterator[Fault]:
        """What is wrong with groups that are listed."""
        named = [user for group in self.groups for user in group] if isinstance(self.groups, tuple) else []
        yield from facts.strangers("groups", named)
        numbers, counts = np.unique(np.array(named, np.int64), return_counts=True)
        twice = numbers[counts > 1].tolist()
        if twice:
            yield Fault("groups", "users who are named twice", twice, "name each once, in one group")
        if isinstance(self.groups, tuple) and max(map(len, self.groups)) == 1:
            yield Fault("groups", "no two users share a group", None, "name two in one, or take bernoulli or markov")
