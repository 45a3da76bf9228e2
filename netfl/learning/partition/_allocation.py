"""Allocation of rows to users."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from netfl.errors import Fault, ScenarioError


def whole_portions(total: int, shares: NDArray[np.float64]) -> NDArray[np.int64]:
    """Divide *total* into whole numbers, each within one of its share; *shares* need not sum to 1.

    >>> whole_portions(10, np.array([1.0, 1.0, 1.0])).tolist()
    [3, 4, 3]
    """
    ends = np.cumsum(shares)
    return np.asarray(np.diff(np.rint(total * (ends / ends[-1])), prepend=0), np.int64)


class RowDealer:
    """The rows that each user holds so far.

    Args:
        users: the number of users.
        rng: shuffles the rows before they are dealt.
    """

    def __init__(self, users: int, rng: np.random.Generator) -> None:
        self._held: list[list[NDArray[np.int64]]] = [[] for _ in range(users)]
        self._rng = rng

    def deal(
        self,
        rows: NDArray[np.int64],
        users: Sequence[int] | NDArray[np.int64],
        counts: NDArray[np.int64] | None = None,
    ) -> None:
        """Shuffle *rows* and deal them out to *users*: *counts* of them to each, or equal shares up to one row."""
        cuts = len(users) if counts is None else np.cumsum(counts)[:-1]
        for user, part in zip(users, np.array_split(self._rng.permutation(rows), cuts), strict=True):
            self.give(part, user)

    def give(self, rows: NDArray[np.int64], user: int) -> None:
        """Give *rows* to one user."""
        self._held[user].append(rows)

    def rows(self) -> list[NDArray[np.int64]]:
        """Return the rows of each user; raise a ScenarioError if a user holds none."""
        held = [np.concatenate([np.zeros(0, np.int64), *parts]) for parts in self._held]
        empty = [user for user, rows in enumerate(held) if not len(rows)]
        if empty:
            shown = ", ".join(map(str, empty[:10])) + (", …" if len(empty) > 10 else "")
            problem = f"no training example is left for {len(empty)} of {len(held)} users: {shown}"
            raise ScenarioError([Fault("", problem, remedy="take fewer users, or more data")])
        return held
