"""Users that take the tower with the strongest mean signal."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import Field

from netfl.network.association import Association, TowerChoice
from netfl.network.periods import period_of
from netfl.network.radio.tower_links import TowerLinks
from netfl.types import Ints
from netfl.units import Decibels, Seconds


class Strongest(Association):
    """Each user takes the tower with the strongest mean signal, if it is stronger by a hysteresis than its own.

    The mean signal has path loss, shadowing and antennas, and no fast fading, which measurements average out.  It is
    measured at the multiples of ``every``, of the towers that are nearest then and of the user's own: the user moves
    from its tower i to the strongest j if S_j > S_i + ``hysteresis``, event A3 of 3GPP TS 36.331, §5.5.4.4, without
    offsets and time to trigger.  At the start it takes the strongest.

    Example::

        kind: strongest
        hysteresis: 3 dB
        every: 1 s
    """

    hysteresis: Annotated[Decibels, Field(ge=0, le=60)] = 3.0
    """Amount by which another tower must be stronger than that of the user."""
    every: Annotated[Seconds, Field(gt=0)] = 1.0
    """Time between two measurements, from time 0 on."""
    among: Annotated[int, Field(ge=1)] = 7
    """Number of the nearest towers that a user measures, beside its own."""

    @property
    def follows_signal(self) -> bool:
        return True

    def open(self, links: TowerLinks) -> TowerChoice:
        return _Strongest(self, links)


class _Strongest(TowerChoice):
    def __init__(self, model: Strongest, links: TowerLinks) -> None:
        self._model = model
        self._links = links

    def choose(self, users: Ints, serving: Ints, time_s: float) -> Ints:
        measured_s = self._model.every * period_of(time_s, self._model.every)
        towers = self._links.nearest_few(users, measured_s, self._model.among)  # [n, towers]
        signals_dbm = self._links.signals_dbm(np.repeat(users, towers.shape[1]), towers.ravel(), measured_s)
        signals_dbm = signals_dbm.reshape(towers.shape)
        best = signals_dbm.argmax(axis=1)
        rows = np.arange(len(users))
        chosen: Ints = towers[rows, best]

        # a user that has a tower keeps it unless the strongest exceeds it by the hysteresis
        has_other = np.flatnonzero((serving >= 0) & (chosen != serving))
        own_dbm = self._links.signals_dbm(users[has_other], serving[has_other], measured_s)
        best_dbm = signals_dbm[has_other, best[has_other]]
        stays = has_other[best_dbm <= own_dbm + self._model.hysteresis]
        chosen[stays] = serving[stays]
        return chosen

    def next_s(self, time_s: float) -> float:
        return self._model.every * (period_of(time_s, self._model.every) + 1)
