"""Selection of every user."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from netfl.access.selection import RoundInfo, Selection, Selector, UserInfo
from netfl.types import Law, Users


class All(Selection):
    """Every user takes part in every round; with ``observe: {check_in: {}}`` all that have checked in.

    Example::

        kind: all
    """

    can_observe: ClassVar[tuple[str, ...]] = ("check_in",)

    @property
    def selects_all(self) -> bool:
        return not self.ages

    def open(self, population: UserInfo) -> Selector:
        return SameUsers(np.arange(population.size))

    def laws(self) -> tuple[Law, ...]:
        return (Law.none("selects all users in each round: nothing is drawn"),)


class SameUsers(Selector):
    """Select the same *users* in every round, as far as they may be selected."""

    def __init__(self, users: Users) -> None:
        self._users = users

    def choose(self, moment: RoundInfo) -> Users:
        return np.intersect1d(self._users, moment.candidates, assume_unique=True)
