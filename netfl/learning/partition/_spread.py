"""Rows dealt out evenly, and the check that nobody is left without."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from netfl.errors import Fault, ScenarioError


class Hands:
    """What each user holds so far.

    Args:
        users: the number of users.
        rng: shuffles what is dealt.
    """

    def __init__(self, users: int, rng: np.random.Generator) -> None:
        self._held: list[list[NDArray[np.int64]]] = [[] for _ in range(users)]
        self._rng = rng

    def deal(self, rows: NDArray[np.int64], users: Sequence[int] | NDArray[np.int64]) -> None:
        """Shuffle *rows* and deal them out to *users*, in equal shares up to one row."""
        parts = np.array_split(self._rng.permutation(rows), len(users))
        for user, part in zip(users, parts, strict=True):
            self._held[user].append(part)

    def rows(self) -> list[NDArray[np.int64]]:
        """The rows of each user.

        Raises:
            ScenarioError: a user holds none; the message says who.
        """
        held = [np.concatenate([np.zeros(0, np.int64), *parts]) for parts in self._held]
        without = [user for user, rows in enumerate(held) if not len(rows)]
        if without:
            shown = ", ".join(map(str, without[:10])) + (", …" if len(without) > 10 else "")
            problem = f"no training example is left for {len(without)} of {len(held)} users: {shown}"
            raise ScenarioError([Fault("", problem, remedy="take fewer users, or more data")])
        return held
