"""Which of the events that happen a run stores: by kind, by user and by round."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class EventFilter:
    """What is stored; everything is counted whatever is stored of it.

    Args:
        kinds: the kinds of events.
        users: whose, ``[users]``; ``None`` for everybody's.  Events of nodes, which have no user, are not asked.
        every: of which rounds: the first, and every so-manyth after it.
    """

    kinds: frozenset[str]
    users: NDArray[np.bool_] | None = None
    every: int = 1

    def wants(self, kind: str, round: int) -> bool:
        """Whether any event of *kind* in *round* is stored."""
        return kind in self.kinds and (round - 1) % self.every == 0

    def of(self, users: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which events are stored of those that concern *users*, -1 for none."""
        if self.users is None:
            return np.ones(users.shape, bool)
        return np.asarray((users < 0) | self.users[users])


def evenly_spaced(users: int, wanted: int) -> NDArray[np.int64]:
    """So many of *users*, evenly spaced by number, the first and the last among them.

    >>> evenly_spaced(10, 4).tolist(), evenly_spaced(3, 5).tolist()
    ([0, 3, 6, 9], [0, 1, 2])
    """
    if wanted >= users:
        return np.arange(users)
    return np.round(np.linspace(0, users - 1, wanted)).astype(np.int64)
