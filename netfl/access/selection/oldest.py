"""The users with the longest time since their last delivery."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from netfl.access.selection import RoundInfo, Selector, UserInfo
from netfl.access.selection._base import FixedSizeSelection, selected_rounds
from netfl.streams import Streams
from netfl.types import Floats, Law, Users


class Oldest(FixedSizeSelection):
    """The m users of the largest age; ties are broken at random.

    The age of a user's information is the number of rounds since its last delivery, and the round's own number if it
    never had one.  If all selected users are delivered, this is a round-robin with a period of K/m rounds.  If the
    access fails some of them, they stay selected until they are delivered, however poor their chances are.  After H. H.
    Yang, A. Arafa, T. Q. S. Quek and H. V. Poor, "Age-based scheduling policy for federated learning in mobile edge
    networks", IEEE ICASSP 2020, in which the age of updates is one of several criteria.

    Example::

        kind: oldest
        m: 2
    """

    observes: ClassVar[tuple[str, ...]] = ("age",)

    def open(self, population: UserInfo) -> Selector:
        return _Oldest(self.m, population)

    def laws(self) -> tuple[Law, ...]:
        users = self.m + 2
        share = self.m / users

        def draw(streams: Streams, size: int) -> Floats:
            return selected_rounds(self.open(UserInfo(users, streams)), users, size)[:, 0]

        return (Law("selected users", f"m/K of K = {users} of the same age", draw, share, share * (1 - share)),)


class _Oldest(Selector):
    def __init__(self, m: int, population: UserInfo) -> None:
        self._m = m
        self._keys = population.streams.field("oldest")

    def choose(self, moment: RoundInfo) -> Users:
        users = moment.candidates
        keys = self._keys.uniform(users, moment.round)
        by_age = np.lexsort((keys, -moment.age[users]))  # the keys decide among users of the same age
        return np.sort(users[by_age[: self._m]])
