"""A few users, drawn uniformly."""

from __future__ import annotations

import numpy as np

from netfl.access.selection import RoundInfo, Selector, UserInfo
from netfl.access.selection._base import FixedSizeSelection, selected_rounds
from netfl.streams import Streams
from netfl.types import Floats, Law, StatisticClaim, Users


class Uniform(FixedSizeSelection):
    """m users drawn uniformly without replacement, independently in each round: the server of FedAvg.

    ``P(user k is selected) = m / K``, and ``m (m-1) / (K (K-1))`` for both of two users (H. B. McMahan et al.,
    "Communication-efficient learning of deep networks from decentralized data", AISTATS 2017, algorithm 1, with m =
    max(C K, 1)).

    Example::

        kind: uniform
        m: 2
    """

    def open(self, population: UserInfo) -> Selector:
        return _Uniform(self.m, population)

    def laws(self) -> tuple[Law, ...]:
        m = self.m
        users = m + 2
        means = (m / users, m * (m - 1) / (users * (users - 1)))

        def draw(streams: Streams, size: int) -> Floats:
            first, second = selected_rounds(self.open(UserInfo(users, streams)), users, size).T[:2]
            return np.column_stack([first, first * second])

        statement = f"m/K and m (m-1)/(K (K-1)), K = {users}"
        claim = StatisticClaim("inclusion", statement, draw, means, ("one user", "two users"))
        return (Law("selected users", "uniform, without replacement", statistics=(claim,)),)


class _Uniform(Selector):
    def __init__(self, m: int, population: UserInfo) -> None:
        self._m = m
        self._keys = population.streams.field("uniform")

    def choose(self, moment: RoundInfo) -> Users:
        users = moment.candidates
        keys = self._keys.uniform(users, moment.round)
        by_key = np.argsort(keys, kind="stable")
        return np.sort(users[by_key[: self._m]])
