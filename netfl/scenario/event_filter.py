"""The filter of stored events: by kind, user and round."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class EventFilter:
    """The events that a run stores.  All events are counted, stored or not.

    Args:
        kinds: the kinds of events.
        users: mask of the users whose events are stored, ``[users]``; ``None`` for all.
            Events of nodes are stored anyway.
        every: store the events of the first round and of every ``every``-th round after it.
    """

    kinds: frozenset[str]
    users: NDArray[np.bool_] | None = None
    every: int = 1

    def wants(self, kind: str, round: int) -> bool:
        """Return whether any event of *kind* in *round* is stored."""
        return kind in self.kinds and (round - 1) % self.every == 0

    def of(self, users: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return the mask of stored events, ``[events]``, from the user of each event (-1 for none)."""
        if self.users is None:
            return np.ones(users.shape, bool)
        return np.asarray((users < 0) | self.users[users])


def evenly_spaced(users: int, count: int) -> NDArray[np.int64]:
    """Return *count* of *users* user numbers, evenly spaced, with the first and the last.

    >>> evenly_spaced(10, 4).tolist(), evenly_spaced(3, 5).tolist()
    ([0, 3, 6, 9], [0, 1, 2])
    """
    if count >= users:
        return np.arange(users)
    return np.round(np.linspace(0, users - 1, count)).astype(np.int64)
