"""Everybody may try."""

from __future__ import annotations

import numpy as np

from netfl.access.selection import RoundInfo, Selection, Selector, UserInfo, Users
from netfl.types import Law


class All(Selection):
    """All users may try in every round.

    Example::

        kind: all
    """

    def open(self, population: UserInfo) -> Selector:
        """Nothing to decide."""
        return _All(population.size)

    def laws(self) -> tuple[Law, ...]:
        """Nothing is drawn."""
        return (Law.none("everybody, always: nothing is drawn"),)


class _All(Selector):
    """Everybody."""

    def __init__(self, users: int) -> None:
        self._everybody = np.arange(users)

    def choose(self, moment: RoundInfo) -> Users:
        """All of them."""
        return self._everybody
