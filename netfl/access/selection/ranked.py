"""The users with the highest or the lowest value of an observation."""

from __future__ import annotations

from typing import Literal

import numpy as np

from netfl.access.selection import RoundInfo, Selector, UserInfo
from netfl.access.selection._base import FixedSizeSelection, selected_rounds
from netfl.streams import Streams
from netfl.types import Floats, Law, Users

Ranking = Literal["battery_j", "snr_db", "rate_bps", "energy_j", "distance_m", "loss", "norm", "speed", "backlog"]


class Ranked(FixedSizeSelection):
    """The m users with the highest value of an observation, or with the lowest.

    Users of equal values are ordered at random.  Unknown values come first: a user is tried once before its value
    counts.  ``by: battery_j`` gives devices that harvest energy time to recover.  ``by: snr_db`` is the policy BC (best
    channel), and ``by: norm`` the policy BN2 (best update norm), of M. M. Amiri, D. Gündüz, S. R. Kulkarni and H. V.
    Poor, "Convergence of update aware device scheduling for federated learning at the wireless edge", IEEE Trans.
    Wireless Commun. 20(6), 2021.

    Example::

        kind: ranked
        by: norm
        m: 2
        observe: {check_in: {airtime: 5 ms}}
    """

    by: Ranking
    """The observation that decides."""
    order: Literal["highest", "lowest"] = "highest"
    """The values that are selected."""

    @property
    def observes(self) -> tuple[str, ...]:
        return (self.by,)

    def open(self, population: UserInfo) -> Selector:
        return _Ranked(self, population)

    def laws(self) -> tuple[Law, ...]:
        users = self.m + 2
        share = self.m / users

        def draw(streams: Streams, size: int) -> Floats:
            selector = self.open(UserInfo(users, streams))
            return selected_rounds(selector, users, size, **{self.by: np.ones(users)})[:, 0]

        return (Law("selected users", f"m/K of K = {users} of the same value", draw, share, share * (1 - share)),)


class _Ranked(Selector):
    def __init__(self, spec: Ranked, population: UserInfo) -> None:
        self._spec = spec
        self._keys = population.streams.field("ranked")

    def choose(self, moment: RoundInfo) -> Users:
        users = moment.candidates
        values = np.asarray(getattr(moment, self._spec.by)[users], float)
        if self._spec.order == "highest":
            values = -values
        values[np.isnan(values)] = -np.inf  # unknown ones first
        keys = self._keys.uniform(users, moment.round)
        by_value = np.lexsort((keys, values))  # the keys decide among equal values
        return np.sort(users[by_value[: self._spec.m]])
