"""Priority by contract: who has the larger weight sends first, or more often."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import simpy
from numpy.typing import NDArray

from netfl.errors import Fault
from netfl.network.mac._scheduled import TowerScheduler, Users, next_in_turn
from netfl.network.mac._test_bench import service_turns
from netfl.network.queue._weights import Weights
from netfl.streams import Streams
from netfl.types import Law, ScenarioFacts, StatisticClaim

if TYPE_CHECKING:
    from netfl.network.radio.cell import Cell

_LAW_USERS, _MOST_LAW_USERS = 3, 50


class Priority(TowerScheduler):
    """Whose turn it is follows from weights that users have by contract.

    - ``strict``: of those that have something to send the one of the largest weight, equals in turn; the others starve
      while it has.
    - ``lottery``: one at random, user i with probability w_i / Σ w over those that have something to send (C.
      Waldspurger and W. Weihl, "Lottery scheduling", OSDI 1994).
    - ``stride``: the same shares as evenly as can be: each turn moves a user 1/w_i on, and the one least far on is
      next.  Of any two users that always have something to send, neither is ever more than one turn from its share of
      theirs; who has had nothing to send starts where the others are (Waldspurger and Weihl, MIT/LCS/TM-528, 1995; for
      frames of one length S. J. Golestani's self-clocked fair queueing, IEEE INFOCOM 1994).

    Shares are counted in turns, whatever becomes of the attempts.

    Example::

        kind: priority
        weights: [4, 2, 1]
        by: lottery
    """

    weights: Weights
    """The users' weights, by their numbers in the network: a list from user 0 on, or a mapping; the others have 1."""
    by: Literal["strict", "lottery", "stride"] = "strict"
    """How the weights decide."""

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        """Weights of users that there are not."""
        yield from facts.strangers("weights", self.weights)

    def serve(self, cell: Cell) -> Generator[simpy.Event, Any, None]:
        """As the weights say."""
        picks = {"strict": _strict, "lottery": _lottery, "stride": _stride}
        return self._serve(cell, picks[self.by](cell, self._of(cell.ids)))

    def _of(self, ids: Users) -> NDArray[np.float64]:
        """The weights of users."""
        return np.array([self.weights.get(user, 1.0) for user in ids.tolist()])

    def laws(self) -> tuple[Law, ...]:
        """The shares of users that always have something to send."""
        users = min(max(_LAW_USERS, *self.weights, 0) + 1, _MOST_LAW_USERS)
        weights = self._of(np.arange(users))
        if self.by == "strict":
            weights = (weights == weights.max()).astype(float)
        means, model = weights / weights.sum(), self.model_copy(update={"poll": 0.0})

        def draw(streams: Streams, size: int) -> NDArray[np.float64]:
            winners, _ = service_turns(model, users, 1.0, streams, size)
            return np.asarray(winners[:, None] == np.arange(users), float)

        statement = "w / Σ w" if self.by != "strict" else "even among those of the largest weight, none for the others"
        at = [f"user {user}" for user in range(users)]
        figure = StatisticClaim(
            "share of the turns",
            f"{statement}; {users} users that always have something to send",
            draw,
            means.tolist(),
            at,
        )
        return (Law("whose turn it is", figure.formula, figures=(figure,)),)


Pick = Callable[[Users], int]


def _strict(cell: Cell, weights: NDArray[np.float64]) -> Pick:
    """The largest first, equals in turn."""
    last = np.full(len(np.unique(weights)), -1)
    rank = np.unique(weights, return_inverse=True)[1]

    def pick(backlog: Users) -> int:
        best = rank[backlog].max()
        last[best] = next_in_turn(backlog[rank[backlog] == best], int(last[best]))
        return int(last[best])

    return pick


def _lottery(cell: Cell, weights: NDArray[np.float64]) -> Pick:
    """At random."""
    luck = cell.streams.rng("lottery")

    def pick(backlog: Users) -> int:
        up_to = np.cumsum(weights[backlog])
        return int(backlog[np.searchsorted(up_to, luck.random() * up_to[-1], side="right")])

    return pick


def _stride(cell: Cell, weights: NDArray[np.float64]) -> Pick:
    """The one least far on."""
    strides, now, there = 1.0 / weights, 0.0, np.zeros(cell.size, np.bool_)
    passed = strides.copy()  # how far on each will be after its next turn

    def pick(backlog: Users) -> int:
        nonlocal now
        new = backlog[~there[backlog]]
        passed[new] = np.maximum(passed[new], now + strides[new])
        there[:] = False
        there[backlog] = True
        user = int(backlog[passed[backlog].argmin()])
        now = float(passed[user])
        passed[user] += strides[user]
        return user

    return pick
