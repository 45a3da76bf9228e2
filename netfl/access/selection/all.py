"""Selection of every user."""

from __future__ import annotations

import numpy as np

from netfl.access.selection import RoundInfo, Selection, Selector, UserInfo
from netfl.types import Law, Users


class All(Selection):
    """Every user takes part in every round.

    Example::

        kind: all
    """

    def open(self, population: UserInfo) -> Selector:
        return SameUsers(np.arange(population.size))

    def laws(self) -> tuple[Law, ...]:
        return (Law.none("selects all users in each round: nothing is drawn"),)


class SameUsers(Selector):
    """Select the same *users* in every round."""

    def __init__(self, users: Users) -> None:
        self._users = users

    def choose(self, moment: RoundInfo) -> Users:
        return self._users
