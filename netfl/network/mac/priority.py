"""Priority by contract: users with larger weights send first, or more often."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal

import numpy as np

from netfl.errors import Fault
from netfl.network.mac._bases import TowerScheduler, next_in_turn
from netfl.network.radio.bench import BenchSetup, service_turns
from netfl.network.radio.cell import Cell
from netfl.network.rates import Weights
from netfl.streams import Streams
from netfl.types import Floats, Ints, Law, ScenarioFacts, StatisticClaim

Pick = Callable[[Ints], int]
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

    Shares are counted in turns, whatever the outcome of the attempts.

    Example::

        kind: priority
        weights: [4, 2, 1]
        by: lottery
    """

    weights: Weights
    """Weights of the users, by their numbers in the network: a list from user 0 on, or a mapping; the others have 1."""
    by: Literal["strict", "lottery", "stride"] = "strict"
    """The rule that applies the weights."""

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        yield from facts.unknown_users("weights", self.weights)

    def picker(self, cell: Cell) -> Callable[[Ints], int]:
        picks = {"strict": _strict, "lottery": _lottery, "stride": _stride}
        return picks[self.by](cell, self._weights_of(cell.ids))

    def _weights_of(self, ids: Ints) -> Floats:
        return np.array([self.weights.get(user, 1.0) for user in ids.tolist()])

    def laws(self) -> tuple[Law, ...]:
        users = min(max(_LAW_USERS, *self.weights, 0) + 1, _MAX_LAW_USERS)
        weights = self._weights_of(np.arange(users))
        if self.by == "strict":
            weights = (weights == weights.max()).astype(float)
        means, model = weights / weights.sum(), self.model_copy(update={"poll": 0.0})

        def draw(streams: Streams, size: int) -> Floats:
            winners, _ = service_turns(BenchSetup(model, users, 1.0, streams), size)
            return np.asarray(winners[:, None] == np.arange(users), float)

        formula = "w / Σ w" if self.by != "strict" else "equal among the users of the largest weight, 0 for others"
        formula = f"{formula}; {users} users that always have something to send"
        labels = [f"user {user}" for user in range(users)]
        claim = StatisticClaim("share of the turns", formula, draw, means.tolist(), labels)
        return (Law("served user", formula, statistics=(claim,)),)


def _strict(cell: Cell, weights: Floats) -> Pick:
    """Pick a user of the largest weight, equal weights in turn."""
    levels, rank = np.unique(weights, return_inverse=True)
    last = np.full(len(levels), -1)

    def pick(backlog: Ints) -> int:
        best = rank[backlog].max()
        last[best] = next_in_turn(backlog[rank[backlog] == best], int(last[best]))
        return int(last[best])

    return pick


def _lottery(cell: Cell, weights: Floats) -> Pick:
    rng = cell.streams.rng("lottery")

    def pick(backlog: Ints) -> int:
        cumulated = np.cumsum(weights[backlog])
        return int(backlog[np.searchsorted(cumulated, rng.random() * cumulated[-1], side="right")])

    return pick


def _stride(cell: Cell, weights: Floats) -> Pick:
    strides, now, was_in_backlog = 1.0 / weights, 0.0, np.zeros(cell.size, np.bool_)
    progress = strides.copy()  # of each user after its next turn

    def pick(backlog: Ints) -> int:
        nonlocal now
        new = backlog[~was_in_backlog[backlog]]
        progress[new] = np.maximum(progress[new], now + strides[new])
        was_in_backlog[:] = False
        was_in_backlog[backlog] = True
        user = int(backlog[progress[backlog].argmin()])
        now = float(progress[user])
        progress[user] += strides[user]
        return user

    return pick
