"""A few users, drawn evenly."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from netfl.access.selection import RoundInfo, Selector, UserInfo, Users
from netfl.access.selection._base import FixedSizeSelection, selected_rounds
from netfl.streams import Streams
from netfl.types import Law, StatisticClaim


class Uniform(FixedSizeSelection):
    """m users drawn evenly, without replacement and anew in each round: the server of FedAvg.

    ``P(user k may try) = m / K``, and that both of two may is ``m (m-1) / (K (K-1))`` (H. B. McMahan et al.,
    "Communication-efficient learning of deep networks from decentralized data", AISTATS 2017, algorithm 1, with m =
    max(C K, 1)).

    Example::

        kind: uniform
        m: 2
    """

    def open(self, population: UserInfo) -> Selector:
        """At work."""
        return _Uniform(self.m, population)

    def laws(self) -> tuple[Law, ...]:
        """How often one user is chosen, and two together, of two more than are chosen."""
        users, m = self.m + 2, self.m
        means = (m / users, m * (m - 1) / (users * (users - 1)))

        def draw(streams: Streams, size: int) -> NDArray[np.float64]:
            one, other = selected_rounds(self.open(UserInfo(users, streams)), users, size).T[:2]
            return np.column_stack([one, one * other])

        figure = StatisticClaim(
            "inclusion", f"m/K and m (m-1)/(K (K-1)), K = {users}", draw, means, ("one user", "two users")
        )
        return (Law("who may try", "evenly drawn without replacement", figures=(figure,)),)


class _Uniform(Selector):
    """At work."""

    def __init__(self, m: int, population: UserInfo) -> None:
        self._m, self._users = m, np.arange(population.size)
        self._keys = population.streams.field("uniform")

    def choose(self, moment: RoundInfo) -> Users:
        """Those of the smallest random numbers."""
        return np.sort(np.argsort(self._keys.uniform(self._users, moment.round), kind="stable")[: self._m])
