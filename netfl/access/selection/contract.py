"""Priority by contract: users of higher tiers are selected first, or more often."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from netfl.access.selection import RoundInfo, Selector, UserInfo, Users
from netfl.access.selection._base import FixedSizeSelection, selected_rounds, weighted_sample
from netfl.errors import Fault
from netfl.registry import Spec
from netfl.streams import Streams
from netfl.types import Law, ScenarioFacts, StatisticClaim

_LAW_USERS = 20


class Tier(Spec):
    """Users with the same contract: a list of users, or a share of all."""

    users: Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(min_length=1)] | None = None
    """The users, by number; exactly one of this and ``share``."""
    share: Annotated[float, Field(gt=0, le=1)] | None = None
    """Share of all users, rounded to a number, drawn uniformly once per replica from the users that no tier lists."""
    weight: Annotated[float, Field(gt=0)] | None = None
    """With ``by: lottery``, the weight of each of these users, relative to 1 for users in no tier."""

    @model_validator(mode="after")
    def _check_users(self) -> Self:
        if (self.users is None) == (self.share is None):
            raise ValueError("give users or share, exactly one of them")
        if self.users is not None and len(set(self.users)) < len(self.users):
            raise ValueError("a user is named twice: name each once")
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
            raise ValueError("a lottery needs weights: give each tier one")
        if self.by == "strict" and any(has_weight):
            raise ValueError("weights have no effect with by: strict: leave them out, or set by: lottery")
        named = [user for tier in self.tiers for user in tier.users or ()]
        if len(set(named)) < len(named):
            raise ValueError("a user is in two tiers: name each in one")
        return self

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        """Yield errors of the configuration."""
        yield from super().faults(facts)
        for index, tier in enumerate(self.tiers):
            yield from facts.strangers(f"tiers.{index}.users", tier.users or ())
            if tier.share is not None and not tier.size(facts.users):
                problem = f"this share of {facts.users} users is no user"
                yield Fault(f"tiers.{index}.share", problem, tier.share, "make it larger, or leave the tier out")
        total = sum(tier.size(facts.users) for tier in self.tiers)
        if total > facts.users:
            problem = f"{total} users in tiers, and there are {facts.users}"
            yield Fault("tiers", problem, None, "make shares smaller, or name fewer users")

    def open(self, population: UserInfo) -> Selector:
        """Return the selector of one replica."""
        return _Contract(self, population)

    def laws(self) -> tuple[Law, ...]:
        """Probability that the first user of each tier is selected, or in a lottery, the tier of the first draw."""
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

        def draw(streams: Streams, size: int) -> NDArray[np.float64]:
            selector = _Contract(model, UserInfo(users, streams))
            is_in = selector.tier[:, None] == np.arange(len(sizes))
            counted = is_in & (np.cumsum(is_in, axis=0) == 1) if self.by == "strict" else is_in
            return np.asarray(selected_rounds(selector, users, size) @ counted)

        claim = StatisticClaim("inclusion", f"{name}, K = {users}", draw, means, at)
        return (Law("who may try", name, figures=(claim,)),)


class _Contract(Selector):
    """The contracts in one replica.

    Attributes:
        tier: tier of each user, from 0; the number of tiers for users in none.
    """

    def __init__(self, spec: Contract, population: UserInfo) -> None:
        self._m, self._strict = spec.m, spec.by == "strict"
        self.tier = _tiers(spec.tiers, population)
        self._weights = np.array([*(tier.weight or 1.0 for tier in spec.tiers), 1.0])[self.tier]
        self._draws = population.streams.field("contract")

    def choose(self, moment: RoundInfo) -> Users:
        if self._strict:
            keys = self._draws.uniform(np.arange(len(self.tier)), moment.round)
            return np.sort(np.lexsort((keys, self.tier))[: self._m])
        return np.sort(weighted_sample(self._draws, self._weights, moment.round)[: self._m])


def _tiers(tiers: Sequence[Tier], population: UserInfo) -> NDArray[np.int64]:
    tier_of = np.full(population.size, len(tiers))
    for index, tier in enumerate(tiers):
        tier_of[list(tier.users or ())] = index
    free = np.flatnonzero(tier_of == len(tiers))
    free = free[np.argsort(population.streams.field("tiers").uniform(free), kind="stable")]
    for index, tier in enumerate(tiers):
        if tier.share is not None:
            size = tier.size(population.size)
            tier_of[free[:size]], free = index, free[size:]
    return tier_of
