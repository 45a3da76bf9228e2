"""Priority by contract: users of higher tiers are selected first, or more often."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from netfl.access.selection import RoundInfo, Selector, UserInfo
from netfl.access.selection._base import FixedSizeSelection, among_candidates, selected_rounds, weighted_sample
from netfl.core.spec import Spec, check_one_of, no_effect
from netfl.errors import Fault
from netfl.streams import Streams
from netfl.types import Floats, Law, ScenarioFacts, StatisticClaim, Users
from netfl.units import PositiveProbability, UserNumbers

_LAW_USERS = 20


class Tier(Spec):
    """Users with the same contract: a list of users, or a share of all."""

    users: UserNumbers | None = None
    """The users, by number; exactly one of this and ``share``."""
    share: PositiveProbability | None = None
    """Share of all users, rounded to a number, drawn uniformly once per replica from the users that no tier lists."""
    weight: Annotated[float, Field(gt=0)] | None = None
    """With ``by: lottery``, the weight of each of these users, relative to 1 for users in no tier."""

    @model_validator(mode="after")
    def _check_users(self) -> Self:
        check_one_of(self, "users", "share")
        return self

    def size(self, users: int) -> int:
        """Return the number of users in the tier, out of *users*."""
        if self.users is not None:
            return len(self.users)
        return round((self.share or 0.0) * users)


class Contract(FixedSizeSelection):
    """m users by the tiers of their contracts; users in no tier come last.

    - ``strict``: the m places are filled from the first tier downwards, and uniformly at random if a tier has more
      users than places are left.  With r places left to a tier of k users, each is selected with probability
      ``min(1, r/k)``; users of a tier without places are never selected.
    - ``lottery``: users are drawn one after another without replacement, in proportion to the weights of their tiers,
      as in `by_size`: the first is of tier t with probability ``w_t k_t / Σ w k``.

    Example::

        kind: contract
        m: 3
        tiers:
          - {users: [0, 1]}
          - {share: 0.3}
        by: strict
    """

    tiers: Annotated[tuple[Tier, ...], Field(min_length=1)]
    """The tiers, the first one first."""
    by: Literal["strict", "lottery"] = "strict"
    """Rule by which tiers decide."""

    @model_validator(mode="after")
    def _check_tiers(self) -> Self:
        has_weight = [tier.weight is not None for tier in self.tiers]
        if self.by == "lottery" and not all(has_weight):
            raise ValueError("a lottery needs weights; give each tier a weight")
        named = [user for tier in self.tiers for user in tier.users or ()]
        if len(set(named)) < len(named):
            raise ValueError("a user is listed twice; list each user once, in one tier")
        return self

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        yield from super().faults(facts)
        for index, tier in enumerate(self.tiers):
            yield from facts.unknown_users(f"tiers.{index}.users", tier.users or ())
            if self.by == "strict":
                remedy = "leave it out, or set by: lottery"
                yield from no_effect(tier, ["weight"], "with by: strict", remedy, f"tiers.{index}.")
            if tier.share is not None and not tier.size(facts.users):
                problem = f"this share of {facts.users} users is less than one user"
                yield Fault(f"tiers.{index}.share", problem, tier.share, "make it larger, or leave the tier out")
        total = sum(tier.size(facts.users) for tier in self.tiers)
        if total > facts.users:
            problem = f"{total} users in tiers, but there are {facts.users}"
            yield Fault("tiers", problem, None, "make shares smaller, or name fewer users")

    def open(self, population: UserInfo) -> Selector:
        return _Contract(self, population)

    def laws(self) -> tuple[Law, ...]:
        last_named = max((user for tier in self.tiers for user in tier.users or ()), default=0)
        users = max(_LAW_USERS, self.m, 1 + last_named)
        sizes = np.array([tier.size(users) for tier in self.tiers])
        sizes = np.append(sizes, users - sizes.sum())  # k of each tier, and of no tier
        model = self
        if self.by == "strict":
            statement = "min(1, r/k) for a user of a tier"
            places_left = np.clip(self.m - np.cumsum(sizes) + sizes, 0, None)  # r
            means = np.minimum(1.0, places_left / np.maximum(sizes, 1)) * (sizes > 0)
        else:
            statement = "w k / Σ w k for the first drawn"
            model = self.model_copy(update={"m": 1})
            total_weights = sizes * self.tier_weights()
            means = total_weights / total_weights.sum()

        def draw(streams: Streams, size: int) -> Floats:
            selector = _Contract(model, UserInfo(users, streams))
            is_counted = selector.tier[:, None] == np.arange(len(sizes))
            if self.by == "strict":  # one user of each tier
                is_counted &= np.cumsum(is_counted, axis=0) == 1
            return np.asarray(selected_rounds(selector, users, size) @ is_counted)

        tiers = [f"tier {tier}" for tier in range(1, len(sizes))]
        claim = StatisticClaim("inclusion", f"{statement}, K = {users}", draw, means, [*tiers, "no tier"])
        return (Law("selected users", statement, statistics=(claim,)),)

    def tier_weights(self) -> Floats:
        """Return the weight of a user of each tier and, last, of one in no tier."""
        return np.array([*(tier.weight or 1.0 for tier in self.tiers), 1.0])


class _Contract(Selector):
    """The contracts in one replica.

    Attributes:
        tier: tier of each user, from 0; the number of tiers for users in none.
    """

    def __init__(self, spec: Contract, population: UserInfo) -> None:
        self._m = spec.m
        self._is_strict = spec.by == "strict"
        self._draws = population.streams.field("contract")
        no_tier = len(spec.tiers)
        self.tier = np.full(population.size, no_tier)

        # users that a tier lists, then the shares of the others in random order
        for index, tier in enumerate(spec.tiers):
            self.tier[list(tier.users or ())] = index
        free_users = np.flatnonzero(self.tier == no_tier)
        keys = population.streams.field("tiers").uniform(free_users)
        free_users = free_users[np.argsort(keys, kind="stable")]
        for index, tier in enumerate(spec.tiers):
            if tier.share is None:
                continue
            size = tier.size(population.size)
            self.tier[free_users[:size]] = index
            free_users = free_users[size:]

        self._weights = spec.tier_weights()[self.tier]

    def choose(self, moment: RoundInfo) -> Users:
        if self._is_strict:
            users = moment.candidates
            keys = self._draws.uniform(users, moment.round)
            ordered_users = users[np.lexsort((keys, self.tier[users]))]
        else:
            ordered_users = weighted_sample(self._draws, among_candidates(moment, self._weights), moment.round)
        return np.sort(ordered_users[: self._m])
