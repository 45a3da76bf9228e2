"""Groups of users that are cut off together, such as the users of one tower."""

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
_LAW_ROUND = 20


def _read_groups(value: object) -> object:
    # by the form in which groups are written, so that an error names the wrong entry
    return (_LISTS if isinstance(value, list | tuple) else _NUMBER).validate_python(value)


class Correlated(IntermittentAccess):
    """Each user is available if its group is up and its own coin allows it, so that users of a group fail together.

    A group is up with probability ``g``, and user n of it is then available with probability ``c_n = p_n / g``, so that
    ``P(user n is available) = p_n``.  With the odds ``o_n = p_n / (1 - p_n)``, ``o`` the largest in the group and
    ``p`` its probability, ``g = p / (p + r (1 - p))``; two users i and j of the group are then correlated by
    ``r sqrt(o_i o_j) / o``, which is ``r`` for equal users.  Users of two groups are independent.  (The common
    shock of A. W. Marshall and I. Olkin, "A multivariate exponential distribution", Journal of the American Statistical
    Association 62, 1967, with coins for exponential times.)

    Groups are independent from round to round or, with `switch_on`, Markov chains as in `markov`.  Users' own coins are
    independent from round to round.

    Example::

        kind: correlated
        probability: 0.4
        groups: 2
        correlation: 0.6
    """

    groups: Annotated[int | tuple[tuple[int, ...], ...], BeforeValidator(_read_groups)]
    """Number of groups, of neighbouring user numbers and as equal in size as possible; or a list of lists of users, in
    which each user that is not listed is a group of its own."""
    correlation: Annotated[float, Field(gt=0, le=1)]
    """The correlation r of two users of a group that have the group's largest probability."""
    switch_on: Annotated[float, Field(gt=0, le=1)] | None = None
    """Probability that a group that is down is up in the next round, as in `markov`; by default groups have no
    memory."""

    def availability(self, chances: NDArray[np.float64], rounds: int, streams: Streams) -> Iterator[NDArray[np.bool_]]:
        """Yield whether each user is available in each round."""
        return self._grouped_availability(self.members(len(chances)), chances, rounds, streams)

    def members(self, users: int) -> NDArray[np.int64]:
        """Return the number of each user's group, ``[users]``."""
        if isinstance(self.groups, int):
            sizes = [len(part) for part in np.array_split(np.arange(users), self.groups)]
            return np.repeat(np.arange(self.groups), sizes)
        member = np.full(users, -1)
        for number, group in enumerate(self.groups):
            member[list(group)] = number
        alone = np.flatnonzero(member < 0)
        member[alone] = len(self.groups) + np.arange(len(alone))
        return member

    def _grouped_availability(
        self, member: NDArray[np.int64], chances: NDArray[np.float64], rounds: int, streams: Streams
    ) -> Iterator[NDArray[np.bool_]]:
        """Yield whether each user is available in each round, user n belonging to the group ``member[n]``."""
        highest = np.zeros(member.max() + 1)
        np.maximum.at(highest, member, chances)
        up = self._group_chances(highest)
        groups = self._chain.availability(up, rounds, streams.at("groups"))
        coins = uniform_rows(streams.field("present"), np.arange(len(chances)), rounds)
        share = chances / up[member]
        for is_up, draws in zip(groups, coins, strict=True):
            yield is_up[member] & (draws < share)

    def _group_chances(self, highest: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the probability g of groups, from the largest probability of their users."""
        return highest / (highest + self.correlation * (1.0 - highest))

    @property
    def _chain(self) -> IntermittentAccess:
        """The process of groups, whose probabilities are arguments."""
        if self.switch_on is None:
            return Bernoulli(probability=1.0)
        return Markov(probability=1.0, switch_on=self.switch_on)

    def _memory(self, highest: float) -> float:
        """Return the correlation of a group with itself one round later."""
        if not isinstance(self._chain, Markov):
            return 0.0
        on, off = self._chain.switches(self._group_chances(np.array([highest])))
        return float(1.0 - on[0] - off[0])

    @property
    def candidate_process(self) -> str:
        """Kind of process of the candidates."""
        return "emergent-correlated" if self.switch_on is None else "Markovian"

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        """Yield errors of the configuration."""
        yield from super().faults(facts)
        if isinstance(self.groups, int):
            if self.groups >= facts.users:
                problem = f"no two of the {facts.users} users would share a group"
                yield Fault("groups", problem, self.groups, "name fewer groups, or take bernoulli or markov")
                return
        else:
            yield from self._list_faults(self.groups, facts)
        if self.probability == 1.0:
            yield Fault(
                "probability", "users that are always available have no correlation", 1.0, "make it less than 1"
            )
        elif not isinstance(self.probability, float | LabelCorrelated):
            certain = np.flatnonzero(chances_of(self.probability, facts.users) == 1.0).tolist()
            if certain:
                problem = "users that are always available keep their groups up for ever"
                yield Fault("probability", problem, certain, "make these less than 1")

    def _list_faults(self, groups: tuple[tuple[int, ...], ...], facts: ScenarioFacts) -> Iterator[Fault]:
        listed = [user for group in groups for user in group]
        yield from facts.strangers("groups", listed)
        numbers, counts = np.unique(np.array(listed, np.int64), return_counts=True)
        twice = numbers[counts > 1].tolist()
        if twice:
            yield Fault("groups", "users that are named twice", twice, "name each once, in one group")
        if max(map(len, groups)) == 1:
            yield Fault("groups", "no two users share a group", None, "name two in one, or take bernoulli or markov")

    def laws(self) -> tuple[Law, ...]:
        """Law of availability, and correlations in a group, across groups and in time, of users like the first."""
        p = self.typical_chance

        def pairs(streams: Streams, size: int) -> NDArray[np.float64]:
            member = np.repeat(np.arange(size), 2)
            rows = self._grouped_availability(member, np.full(2 * size, p), _LAW_ROUND, streams)
            return np.array([*rows], float).reshape(_LAW_ROUND, size, 2)

        def late(streams: Streams, size: int) -> NDArray[np.float64]:
            return pairs(streams, size)[-1, :, 0]

        def products(streams: Streams, size: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
            deviation = pairs(streams, size) - p
            first, second = deviation[-1].T
            drawn = np.stack([first * second, first * np.roll(second, 1), deviation[-2, :, 0] * first], axis=1)
            return drawn, np.full_like(drawn, p * (1.0 - p))

        law = Law(f"user there in round {_LAW_ROUND}", "Bernoulli(p)", late, p, p * (1.0 - p))
        if p == 1.0:
            return (law,)
        formula, at = "r; 0; r (1 - on - off) of the groups' chain", ("a group", "two groups", "a user's next round")
        values = (self.correlation, 0.0, self.correlation * self._memory(p))
        claim = StatisticClaim("correlation", formula, products, values, at)
        return (law, Law("users there together", "by a group that is up with probability g", figures=(claim,)))
