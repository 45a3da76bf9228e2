"""The users who have gone unheard for longest."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from netfl.access.selection import RoundInfo, Selector, UserInfo, Users
from netfl.access.selection._base import FixedSizeSelection, selected_rounds
from netfl.streams import Streams
from netfl.types import Law


class Oldest(FixedSizeSelection):
    """The m users of the largest age, evenly drawn among equals.

    The age of a user's information is the number of rounds since it was last heard, and the round's own number if it
    never was.  Where all who may try are heard, that is a round-robin: everybody is heard every K/m rounds.  Where the
    access fails some of them, they stay chosen until they get through, however poor their chances are.  After H. H.
    Yang, A. Arafa, T. Q. S. Quek and H. V. Poor, "Age-based scheduling policy for federated learning in mobile edge
    networks", IEEE ICASSP 2020, who let the age of updates decide, among other things.

    Example::

        kind: oldest
        m: 2
    """

    def open(self, population: UserInfo) -> Selector:
        """At work."""
        return _Oldest(self.m, population)

    def laws(self) -> tuple[Law, ...]:
        """How often one of equals is chosen."""
        users = self.m + 2
        share = self.m / users

        def draw(streams: Streams, size: int) -> NDArray[np.float64]:
            return selected_rounds(self.open(UserInfo(users, streams)), users, size)[:, 0]

        return (Law("who may try", f"m/K of K = {users} of the same age", draw, share, share * (1 - share)),)


class _Oldest(Selector):
    """At work."""

    def __init__(self, m: int, population: UserInfo) -> None:
        self._m, self._users = m, np.arange(population.size)
        self._keys = population.streams.field("oldest")

    def choose(self, moment: RoundInfo) -> Users:
        """By age, then by random numbers."""
        keys = self._keys.uniform(self._users, moment.round)
        return np.sort(np.lexsort((keys, -moment.age))[: self._m])
