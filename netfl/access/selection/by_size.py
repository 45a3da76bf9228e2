"""A few users, drawn in proportion to their amounts of data."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from netfl.access.selection import RoundInfo, Selector, UserInfo
from netfl.access.selection._base import (
    FixedSizeSelection,
    among_candidates,
    sample_counts,
    selected_rounds,
    weighted_sample,
)
from netfl.streams import Streams
from netfl.types import Floats, Law, Users

_LAW_SIZE = 3.0


class BySize(FixedSizeSelection):
    """m users drawn one after another without replacement, each in proportion to its number of examples.

    The first is user k with probability ``n_k / Σ n``, the next of those left likewise, and so on: successive sampling.
    With m > 1 the probability of being selected therefore grows less than in proportion to n_k.  Users without
    examples are never selected.  T. Li, M. Sanjabi, A. Beirami and V. Smith sample devices in this way for q-FFL ("Fair
    resource allocation in federated learning", ICLR 2020, 10 in a round, each with probability n_k / Σ n).

    Example::

        kind: by_size
        m: 2
    """

    needs_sample_counts: ClassVar[bool] = True

    def open(self, population: UserInfo) -> Selector:
        return _BySize(self.m, population)

    def laws(self) -> tuple[Law, ...]:
        users = self.m + 3
        share = 1.0 - miss_probability(_LAW_SIZE, users - 1, self.m)

        def draw(streams: Streams, size: int) -> Floats:
            counts = np.array([_LAW_SIZE, *[1.0] * (users - 1)])
            selector = self.open(UserInfo(users, streams, counts))
            return selected_rounds(selector, users, size)[:, 0]

        statement = f"1 - Π (n-i)/(n-i+s), i < m, of a user of size s = {_LAW_SIZE:g} among n = {users - 1} of size 1"
        return (Law("selected users", statement, draw, share, share * (1 - share)),)


class _BySize(Selector):
    def __init__(self, m: int, population: UserInfo) -> None:
        self._m = m
        self._counts = sample_counts(population)
        self._clocks = population.streams.field("by_size")

    def choose(self, moment: RoundInfo) -> Users:
        drawn_users = weighted_sample(self._clocks, among_candidates(moment, self._counts), moment.round)
        return np.sort(drawn_users[: self._m])


def miss_probability(size: float, others: int, places: int) -> float:
    """Return the probability that a user of weight *size* is not among the first *places* drawn, all others weighing 1.

    Π (n - i) / (n - i + size), i < places: each draw that misses the user removes one of the n others.
    """
    remaining = others - np.arange(min(places, others + 1))
    return float(np.prod(remaining / (remaining + size)))
