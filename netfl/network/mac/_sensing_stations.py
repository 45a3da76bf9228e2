"""Stations of one cell that each have a view of the medium: when their frames come, and who senses whom."""

from __future__ import annotations

from abc import ABC, abstractmethod
from heapq import heappop

import numpy as np

from netfl.network.radio.cell import Cell
from netfl.types import Bools, Floats

NS = 1e-9
SLACK_S = 1e-8
"""Rounding error of the clock at an instant."""


class SensingStations(ABC):
    """Stations of one cell.  Times are whole nanoseconds from the start of the run: ties do not depend on rounding.

    Args:
        threshold_dbm: power from which on a station senses a frame; ``None`` if all sense all.
    """

    def __init__(self, cell: Cell, threshold_dbm: float | None) -> None:
        self._cell = cell
        self._threshold_dbm = threshold_dbm
        self._now = 0
        self._coming: list[tuple[float, int]] = []  # heap of (time, station) of future frames
        self._hearers: dict[int, Bools] = {}  # of each station, while powers and distances are fixed

    @abstractmethod
    def _update(self, station: int) -> None:
        """Take in the frame of a station that is new, gone or changed."""

    def _update_stations(self) -> None:
        """Take in the stations whose frames are new, gone or changed."""
        cell = self._cell
        self._now = max(self._now, round(cell.env.now / NS))
        if cell.changed:
            for station in np.unique(cell.changes()).tolist():
                self._update(station)
        while self._coming and self._coming[0][0] <= cell.env.now + SLACK_S:
            ready_s, station = heappop(self._coming)
            if cell.ready_s[station] == ready_s:  # else the frame has changed since
                self._update(station)

    def _sensed_by(self, station: int) -> Bools:
        """Return the other stations that sense a station by its power, ``[size]``."""
        is_fixed = self._cell.has_fixed_sensing
        if is_fixed and station in self._hearers:
            return self._hearers[station]
        power_dbm: Floats = self._cell.between_users_dbm(station)
        assert self._threshold_dbm is not None
        hearers = power_dbm >= self._threshold_dbm
        hearers[station] = False
        if is_fixed:
            self._hearers[station] = hearers
        return hearers
