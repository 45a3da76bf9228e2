"""Rates of the stations of a Wi-Fi cell: fixed ones, or those that a rate adaptation chooses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from netfl.network.radio.cell import Cell
from netfl.network.rate_adaptation import RateAdaptation, RateControl, RateLink
from netfl.types import Users

_ROUNDING = 1e-6
"""Relative difference of two rates that counts as none."""


class StationRates:
    """The rate in which each station of a cell sends its frames, and the mode of the reception that receives it.

    Args:
        cell: the cell.
        standard_mbps: rates of the standard.
        given_mbps: rate of each station, ``[size]``; with an adaptation that of its first frame; ``None`` if the
            scenario states none.
        adaptation: choice of the rate of each frame; ``None`` for the given rates.
    """

    def __init__(
        self,
        cell: Cell,
        standard_mbps: Sequence[float],
        given_mbps: Sequence[float] | None,
        adaptation: RateAdaptation | None,
    ) -> None:
        self._env = cell.env
        self._given_mbps = given_mbps or ()

        # the modes of the reception from the lowest rate to the highest, each with its rate of the standard
        mode_bps = cell.mode_rates_bps
        self._modes: list[int] = np.argsort(mode_bps, kind="stable").tolist()
        self._has_modes = len(self._modes) > 1
        self._mbps = [_nearest(standard_mbps, float(mode_bps[mode]) / 1e6) for mode in self._modes]

        self._control: RateControl | None = None
        if adaptation is not None:
            first = None
            if given_mbps is not None:
                first = np.array([self._mbps.index(mbps) for mbps in given_mbps])
            link = RateLink(cell.size, np.array(self._mbps) * 1e6, first, self._best, cell.streams)
            self._control = adaptation.open(link)
        self._cell = cell

    def choose(self, station: int) -> float:
        """Return the rate in Mb/s in which a station sends a frame from now on."""
        if self._control is None:
            return self._given_mbps[station]
        return self._mbps[self._control.choose(station, self._env.now)]

    def record(self, station: int, *, is_success: bool) -> None:
        """Take the outcome of the last data frame of a station."""
        if self._control is not None:
            self._control.record(station, self._env.now, is_success=is_success)

    def take(self, stations: Users) -> Mapping[str, Any]:
        """Return what the adaptation knows of *stations*, who leave the cell."""
        if self._control is None:
            return {}
        return self._control.take(stations)

    def put(self, stations: Users, row: Mapping[str, Any]) -> None:
        """Let the adaptation know this of *stations*, who have come to the cell."""
        if self._control is not None:
            self._control.put(stations, row)

    def mode_of(self, rate_mbps: float) -> int:
        """Return the mode of the highest rate that is not above *rate_mbps*; the slowest mode if all are.

        A control frame may have a rate that is no mode of the reception.
        """
        if not self._has_modes:
            return 0
        slower = [mode for mode, mbps in zip(self._modes, self._mbps, strict=True) if mbps <= rate_mbps]
        return slower[-1] if slower else self._modes[0]

    def _best(self, station: int) -> int:
        """Return the place of the rate that the reception chooses at the present SNR of a station."""
        mode = int(self._cell.modes(np.array([station]))[0])
        return self._modes.index(mode)


def is_equal_rate(first_bps: float, second_bps: float) -> bool:
    """Return whether two rates differ by rounding at most."""
    return abs(first_bps - second_bps) <= _ROUNDING * first_bps


def _nearest(standard_mbps: Sequence[float], mbps: float) -> float:
    return min(standard_mbps, key=lambda rate: abs(rate - mbps))
