"""Who is trained in a round: the deliveries of all replicas, side by side."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from netfl.types import Round


@dataclass(frozen=True, slots=True)
class Cohort:
    """The deliveries of one round of all replicas, replica by replica, in the order of their arrival.

    Args:
        replicas: of each delivery, ``[deliveries]``.
        users: of each delivery.
        bases: the version that each started from.
        parts: where each replica's deliveries are, for those that have any.
        turns: how often the user of each has been heard before from the same base; ``None`` for never, all of them.
    """

    replicas: NDArray[np.int64]
    users: NDArray[np.int64]
    bases: NDArray[np.int64]
    parts: tuple[slice, ...]
    turns: NDArray[np.int64] | None = None

    @classmethod
    def of(cls, rounds: Sequence[Round]) -> Cohort:
        """The cohort of one round of each replica, in order."""
        lines = [(replica, one.user, one.base) for replica, own in enumerate(rounds) for one in own.deliveries]
        replicas, users, bases = np.array(lines, np.int64).reshape(-1, 3).T
        ends = accumulate((len(own.deliveries) for own in rounds), initial=0)
        parts = tuple(slice(begin, end) for begin, end in pairwise(ends) if begin < end)
        return cls(replicas, users, bases, parts)

    def dealt(self, *columns: Tensor) -> list[tuple[Tensor, ...]]:
        """Columns, ``[deliveries, …]``, cut into the parts of the replicas: for each part that of every column."""
        lengths = [mine.stop - mine.start for mine in self.parts]
        return list(zip(*(one.split_with_sizes(lengths) for one in columns), strict=True))

    def at(self, here: slice) -> Cohort:
        """The deliveries that are *here*."""
        turns = None if self.turns is None else self.turns[here]
        parts = tuple(slice(one.start - here.start, one.stop - here.start) for one in self.within(here))
        return Cohort(self.replicas[here], self.users[here], self.bases[here], parts, turns)

    def within(self, here: slice) -> Iterator[slice]:
        """Where those of each replica are that are *here*."""
        for one in self.parts:
            own = slice(max(one.start, here.start), min(one.stop, here.stop))
            if own.start < own.stop:
                yield own

    def pieces(self, most: int) -> Iterator[Cohort]:
        """The deliveries of some replicas after the other, no more than *most* at once unless one replica has more."""
        own: list[slice] = []
        for part in (*self.parts, None):
            if own and (part is None or part.stop - own[0].start > most):
                yield self.at(slice(own[0].start, own[-1].stop))
                own = []
            own += [] if part is None else [part]


class RepeatCounter:
    """How often each user has been heard with an update from each base, which decides what it trained on."""

    def __init__(self) -> None:
        self._heard: Counter[tuple[int, int, int]] = Counter()

    def count(self, cohort: Cohort) -> Cohort:
        """*cohort* with its turns, which are counted."""
        turns = []
        for one in zip(cohort.replicas.tolist(), cohort.users.tolist(), cohort.bases.tolist(), strict=True):
            turns.append(self._heard[one])
            self._heard[one] += 1
        return replace(cohort, turns=np.array(turns, np.int64)) if any(turns) else cohort

    def forget(self, oldest: int) -> None:
        """Nobody will start from a base older than *oldest* any more."""
        for one in [one for one in self._heard if one[2] < oldest]:
            del self._heard[one]

    def state(self) -> list[list[int]]:
        """Replica, user, base and count of each."""
        return [[*one, count] for one, count in self._heard.items()]

    def restore(self, state: Sequence[Sequence[int]]) -> None:
        """Go back to a kept state."""
        self._heard = Counter({(replica, user, base): count for replica, user, base, count in state})
