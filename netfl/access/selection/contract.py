"""Priority by contract: users of higher tiers are selected first, or more often."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from netfl.access.selection import RoundInfo, Selector, UserInfo, Users
from netfl.access.selection._base import FixedSizeSelection, selected_rounds, weighted_sample
from netfl.errors import Fault
from netfl.registry import Spec, no_effect
from netfl.streams import Streams
from netfl.types import Floats, Law, ScenarioFacts, StatisticClaim
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
        if (self.users is None) == (self.share is None):
            raise ValueError("give users or share, exactly one of them")
        return self

    def size(self, users: int) -> int:
        """Return the number of users in the tier, out of *users*."""
        return round((self.share or 0.0) * users) if self.users is None else len(self.users)


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
        users = max(_LAW_USERS, self.m, 1 + max((user for tier in self.tiers for user in tier.users or ()), default=0))
        sizes = np.array([tier.size(users) for tier in self.tiers])
        sizes = np.append(sizes, users - sizes.sum())
        model, at = self, [f"tier {tier}" for tier in range(1, len(sizes))] + ["no tier"]
        if self.by == "strict":
            left = np.clip(self.m - np.cumsum(sizes) + sizes, 0, None)
            means, name = np.minimum(1.0, left / np.maximum(sizes, 1)) * (sizes > 0), "min(1, r/k) for a user of a tier"
        else:
            means, name = sizes * [*(tier.weight or 1.0 for tier in self.tiers), 1.0], "w k / Σ w k for the first drawn"
            means, model = means / means.sum(), self.model_copy(update={"m": 1})

        def draw(streams: Streams, size: int) -> Floats:
            selector = _Contract(model, UserInfo(users, streams))
            is_in = selector.tier[:, None] == np.arange(len(sizes))
            counted = is_in & (np.cumsum(is_in, axis=0) == 1) if self.by == "strict" else is_in
            return np.asarray(selected_rounds(selector, users, size) @ counted)

        claim = StatisticClaim("inclusion", f"{name}, K = {users}", draw, means, at)
        return (Law("selected users", name, statistics=(claim,)),)


class _Contract(Selector):
    """The contracts in one replica.

    Attributes:
        tier: tier of each user, from 0; the number of tiers for users in none.
    """

    def __init__(self, spec: Contract, population: UserInfo) -> None:
        self._m, self._strict = spec.m, spec.by == "strict"
        self.tier = np.full(population.size, len(spec.tiers))
        for index, tier in enumerate(spec.tiers):
            self.tier[list(tier.users or ())] = index
        free = np.flatnonzero(self.tier == len(spec.tiers))
        free = free[np.argsort(population.streams.field("tiers").uniform(free), kind="stable")]
        for index, tier in enumerate(spec.tiers):
            if tier.share is not None:
                size = tier.size(population.size)
                self.tier[free[:size]], free = index, free[size:]
        self._weights = np.array([*(tier.weight or 1.0 for tier in spec.tiers), 1.0])[self.tier]
        self._draws = population.streams.field("contract")

    def choose(self, moment: RoundInfo) -> Users:
        if self._strict:
            keys = self._draws.uniform(np.arange(len(self.tier)), moment.round)
            return np.sort(np.lexsort((keys, self.tier))[: self._m])
        return np.sort(weighted_sample(self._draws, self._weights, moment.round)[: self._m])
