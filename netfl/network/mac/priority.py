"""Priority by contract: users with larger weights send first, or more often."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from netfl.core.rates import Weights
from netfl.errors import Fault
from netfl.network.mac import TieBreaker
from netfl.network.mac._bases import TowerScheduler, UserScheduler, next_in_turn
from netfl.network.radio.bench import BenchSetup, service_turns
from netfl.network.radio.cell import Cell
from netfl.streams import Streams
from netfl.types import Floats, Ints, Law, ScenarioFacts, StatisticClaim

_LAW_USERS, _MAX_LAW_USERS = 3, 50


class Priority(TowerScheduler):
    """The tower selects users by contractual weights.

    - ``strict``: the user of the backlog with the largest weight, equal weights in turn; the others starve meanwhile.
    - ``lottery``: one at random, user i with probability w_i / Σ w over the backlog (C.
      Waldspurger and W. Weihl, "Lottery scheduling", OSDI 1994).
    - ``stride``: the same shares as evenly as possible: each turn advances a user by 1/w_i, and the user with the
      smallest progress is next.  Of any two saturated users, neither is ever more than one turn from its share of
      their turns; a user that had nothing to send starts where the others are (Waldspurger and Weihl, MIT/LCS/TM-528,
      1995; for frames of one length S. J. Golestani's self-clocked fair queueing, IEEE INFOCOM 1994).

    Shares are counted in turns, whatever the outcome of the attempts.  With ``stride``, equal progress is decided by a
    uniform draw.  Idle time changes nothing: turns and progress continue where they were.

    Example::

        kind: priority
        weights: [4, 2, 1]
        by: lottery
    """

    weights: Weights
    """Weights of the users, by their numbers in the network: a list from user 0 on, or a mapping; the others have 1."""
    by: Literal["strict", "lottery", "stride"] = "strict"
    """The rule that applies the weights."""

    @property
    def has_fixed_order(self) -> bool:  # type: ignore[override]
        """True for ``strict``, which serves users of equal weight in turn; the other rules draw."""
        return self.by == "strict"

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        yield from facts.unknown_users("weights", self.weights)

    def scheduler(self, cell: Cell) -> UserScheduler:
        weights = self._weights_of(cell.ids)
        if self.by == "strict":
            return _Strict(weights)
        if self.by == "lottery":
            return _Lottery(weights, cell.streams.rng("lottery"))
        return _Stride(weights, TieBreaker(cell))

    def _weights_of(self, ids: Ints) -> Floats:
        return np.array([self.weights.get(user, 1.0) for user in ids.tolist()])

    def laws(self) -> tuple[Law, ...]:
        users = min(max(_LAW_USERS, *self.weights, 0) + 1, _MAX_LAW_USERS)
        weights = self._weights_of(np.arange(users))
        if self.by == "strict":  # only users of the largest weight have turns
            weights = (weights == weights.max()).astype(float)
        means = weights / weights.sum()
        model = self.model_copy(update={"poll": 0.0})

        def draw(streams: Streams, size: int) -> Floats:
            winners, _ = service_turns(BenchSetup(model, users, 1.0, streams), size)
            return np.asarray(winners[:, None] == np.arange(users), float)

        shares = "w / Σ w" if self.by != "strict" else "equal among the users of the largest weight, 0 for others"
        formula = f"{shares}; {users} users that always have something to send"
        labels = [f"user {user}" for user in range(users)]
        claim = StatisticClaim("share of the turns", formula, draw, means.tolist(), labels)
        return (Law("served user", formula, statistics=(claim,)),)


class _Strict(UserScheduler):
    """Pick a user of the largest weight, equal weights in turn."""

    def __init__(self, weights: Floats) -> None:
        levels, self._rank = np.unique(weights, return_inverse=True)
        self._last = np.full(len(levels), -1)  # user of each weight that was served last

    def pick(self, backlog: Ints) -> int:
        ranks = self._rank[backlog]
        best = ranks.max()
        user = next_in_turn(backlog[ranks == best], int(self._last[best]))
        self._last[best] = user
        return user


@dataclass(slots=True)
class _Lottery(UserScheduler):
    """Pick a user with a probability in proportion to its weight."""

    weights: Floats
    rng: np.random.Generator

    def pick(self, backlog: Ints) -> int:
        cumulated = np.cumsum(self.weights[backlog])
        ticket = self.rng.random() * cumulated[-1]
        return int(backlog[np.searchsorted(cumulated, ticket, side="right")])


class _Stride(UserScheduler):
    """Pick the user of the smallest progress; a user that is new in the backlog starts where the others are."""

    def __init__(self, weights: Floats, ties: TieBreaker) -> None:
        self._ties = ties
        self._strides = 1.0 / weights
        self._progress = self._strides.copy()  # of each user after its next turn
        self._now = 0.0  # progress of the last turn
        self._was_in_backlog = np.zeros(len(weights), np.bool_)

    def pick(self, backlog: Ints) -> int:
        progress = self._progress
        strides = self._strides
        new_users = backlog[~self._was_in_backlog[backlog]]
        progress[new_users] = np.maximum(progress[new_users], self._now + strides[new_users])
        self._was_in_backlog[:] = False
        self._was_in_backlog[backlog] = True
        user = self._ties.pick_largest(backlog, -progress[backlog])
        self._now = float(progress[user])
        progress[user] += strides[user]
        return user
