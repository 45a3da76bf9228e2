"""Selection of every user."""

from __future__ import annotations

import numpy as np

from netfl.access.selection import RoundInfo, Selection, Selector, UserInfo, Users
from netfl.types import Law


class All(Selection):
    """Every user takes part in every round.

    Example::

        kind: all
    """

    def open(self, population: UserInfo) -> Selector:
        """Return the selector of one replica."""
        return _All(population.size)

    def laws(self) -> tuple[Law, ...]:
        """Return the laws that a test checks."""
        return (Law.none("everybody, always: nothing is drawn"),)


class _All(Selector):
    def __init__(self, users: int) -> None:
        self._users = np.arange(users)

    def choose(self, moment: RoundInfo) -> Users:
        return self._users
