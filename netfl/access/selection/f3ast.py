"""The available users that have been selected too rarely for their share of the data."""

from __future__ import annotations

from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from netfl.access.selection import RoundInfo, Selector, UserInfo
from netfl.access.selection._base import FixedSizeSelection
from netfl.types import Law, Users


class F3ast(FixedSizeSelection):
    """The m users that have checked in with the largest ``p_k / r_k``; p_k is the share of the data, r_k a rate.

    r_k is the running rate at which user k is selected: ``r ← (1 - β) r + β 1{selected}`` after each round, p_k at the
    start.  Ties are broken at random.  Without an end to an absence r_k tends to 0, and the user comes first when it
    returns.  M. Ribero, H. Vikalo and G. de Veciana, "Federated learning under intermittent client availability and
    time-varying communication constraints", IEEE J. Sel. Topics Signal Process. 17(1), 2023, algorithm 1: the choice is
    that of the largest ``(p_k / r_k)²``.  The algorithm also weights each update by ``p_k / r_k``, as the aggregation
    `f3ast` does.  It has the same rates if each selected user delivers.

    Example::

        kind: f3ast
        m: 2
        observe: {check_in: {airtime: 5 ms}}
    """

    observes: ClassVar[tuple[str, ...]] = ("check_in", "samples")
    beta: Annotated[float, Field(gt=0, lt=1)] = 0.001
    """Step β of the running rates."""

    def open(self, population: UserInfo) -> Selector:
        return _F3ast(self, population)

    def laws(self) -> tuple[Law, ...]:
        return (Law.none("the largest p_k / r_k: only the order of equal ones is drawn"),)


class _F3ast(Selector):
    def __init__(self, spec: F3ast, population: UserInfo) -> None:
        self._spec = spec
        self._keys = population.streams.field("f3ast")
        self._rate = np.full(population.size, np.nan)  # r_k

    def choose(self, moment: RoundInfo) -> Users:
        share = moment.samples / moment.samples.sum()  # p_k
        if moment.round == 1 or np.isnan(self._rate).any():
            self._rate = share.copy()
        users = moment.candidates
        scores = np.zeros(len(users))  # of users without data
        has_data = share[users] > 0
        scores[has_data] = share[users[has_data]] / self._rate[users[has_data]]
        keys = self._keys.uniform(users, moment.round)
        by_score = np.lexsort((keys, -scores))
        selected = np.sort(users[by_score[: self._spec.m]])

        # r ← (1 - β) r + β 1{selected}
        self._rate *= 1.0 - self._spec.beta
        self._rate[selected] += self._spec.beta
        return selected
