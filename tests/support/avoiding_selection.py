"""A selection from outside netfl that rarely selects one user."""

from __future__ import annotations

import numpy as np

from netfl.access.selection import RoundInfo, Selection, Selector, UserInfo
from netfl.types import Law, Users


class Avoiding(Selection):
    """All users but one, which is selected in one round of ten.

    Example::

        kind: support.avoiding_selection:Avoiding
        user: 3
    """

    user: int
    """The user that is avoided."""

    def open(self, population: UserInfo) -> Selector:
        return _Avoiding(self.user, population)

    def laws(self) -> tuple[Law, ...]:
        return (Law.none("selects by the number of the round"),)


class _Avoiding(Selector):
    def __init__(self, user: int, population: UserInfo) -> None:
        self._user = user
        self._users = np.arange(population.size)

    def choose(self, moment: RoundInfo) -> Users:
        if moment.round % 10:
            return np.delete(self._users, self._user)
        return self._users
