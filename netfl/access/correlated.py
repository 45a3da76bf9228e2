"""Groups of users that are cut off together, such as the users of one tower."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Annotated

import numpy as np
from pydantic import Field

from netfl.access._direct import IntermittentAccess, uniform_rows
from netfl.access._rates import LabelCorrelated
from netfl.access.bernoulli import Bernoulli
from netfl.access.markov import Markov
from netfl.core.rates import chances_of
from netfl.core.spec import ByForm
from netfl.errors import Fault
from netfl.streams import Streams
from netfl.types import Bools, Floats, Ints, Law, ScenarioFacts, StatisticClaim
from netfl.units import PositiveProbability, UserNumbers

_LAW_ROUND = 20
"""Round about which the claims are."""


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

    groups: Annotated[Annotated[int, Field(ge=1)] | Annotated[tuple[UserNumbers, ...], Field(min_length=1)], ByForm()]
    """Number of groups, of neighbouring user numbers and as equal in size as possible; or a list of lists of users, in
    which each user that is not listed is a group of its own."""
    correlation: PositiveProbability
    """The correlation r of two users of a group that have the group's largest probability."""
    switch_on: PositiveProbability | None = None
    """Probability that a group that is down is up in the next round, as in `markov`; by default groups have no
    memory."""

    def availability(self, chances: Floats, rounds: int, streams: Streams) -> Iterator[Bools]:
        return self._grouped_availability(self.members(len(chances)), chances, rounds, streams)

    def members(self, users: int) -> Ints:
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

    def _grouped_availability(self, member: Ints, chances: Floats, rounds: int, streams: Streams) -> Iterator[Bools]:
        """Yield whether each user is available in each round, user n belonging to the group ``member[n]``."""
        highest = np.zeros(member.max() + 1)
        np.maximum.at(highest, member, chances)
        group_chances = self._group_chances(highest)  # g, [groups]
        groups = self._chain.availability(group_chances, rounds, streams.at("groups"))
        coin_chances = chances / group_chances[member]  # c_n, [users]
        coins = uniform_rows(streams.field("present"), np.arange(len(chances)), rounds)
        for is_up, draws in zip(groups, coins, strict=True):
            yield is_up[member] & (draws < coin_chances)

    def _group_chances(self, highest: Floats) -> Floats:
        """Return the probability g of groups, from the largest probability of their users."""
        return highest / (highest + self.correlation * (1.0 - highest))

    @property
    def _chain(self) -> IntermittentAccess:
        """The process of groups, whose probabilities are arguments."""
        if self.switch_on is None:
            return Bernoulli(probability=1.0)
        return Markov(probability=1.0, switch_on=self.switch_on)

    @property
    def candidate_process(self) -> str:
        if self.switch_on is None:
            return "emergent-correlated"
        return "Markovian"

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        yield from super().faults(facts)
        if isinstance(self.groups, int):
            if self.groups >= facts.users:
                problem = f"no two of the {facts.users} users would share a group"
                yield Fault("groups", problem, self.groups, "use fewer groups, or bernoulli or markov")
                return
        else:
            listed = [user for group in self.groups for user in group]
            yield from facts.unknown_users("groups", listed)
            twice = [user for user, count in Counter(listed).items() if count > 1]
            if twice:
                yield Fault("groups", "users occur twice", twice, "name each once, in one group")
            if max(map(len, self.groups)) == 1:
                problem = "no two users share a group"
                yield Fault("groups", problem, None, "put two users into one group, or use bernoulli or markov")
        if self.probability == 1.0:
            yield Fault(
                "probability", "users that are always available have no correlation", 1.0, "make it less than 1"
            )
        elif not isinstance(self.probability, float | LabelCorrelated):
            certain = np.flatnonzero(chances_of(self.probability, facts.users) == 1.0).tolist()
            if certain:
                problem = "users that are always available keep their groups available permanently"
                yield Fault("probability", problem, certain, "make these less than 1")

    def laws(self) -> tuple[Law, ...]:
        p = self.typical_chance

        def pairs(streams: Streams, size: int) -> Floats:
            member = np.repeat(np.arange(size), 2)
            rows = self._grouped_availability(member, np.full(2 * size, p), _LAW_ROUND, streams)
            return np.array([*rows], float).reshape(_LAW_ROUND, size, 2)

        def late(streams: Streams, size: int) -> Floats:
            return pairs(streams, size)[-1, :, 0]

        def products(streams: Streams, size: int) -> tuple[Floats, Floats]:
            deviation = pairs(streams, size) - p  # [rounds, groups, 2]
            first, second = deviation[-1].T
            of_group = first * second
            of_two_groups = first * np.roll(second, 1)
            of_two_rounds = deviation[-2, :, 0] * first
            drawn = np.stack([of_group, of_two_groups, of_two_rounds], axis=1)
            return drawn, np.full_like(drawn, p * (1.0 - p))

        law = Law(f"user available in round {_LAW_ROUND}", "Bernoulli(p)", late, p, p * (1.0 - p))
        if p == 1.0:
            return (law,)
        memory = 0.0
        chain = self._chain
        if isinstance(chain, Markov):
            on, off = chain.switches(self._group_chances(np.array([p])))
            memory = float(1.0 - on[0] - off[0])
        claim = StatisticClaim(
            "correlation",
            "r; 0; r (1 - on - off) of the groups' chain",
            products,
            (self.correlation, 0.0, self.correlation * memory),
            ("a group", "two groups", "a user's next round"),
        )
        return (law, Law("users available together", "by a group that is up with probability g", statistics=(claim,)))
