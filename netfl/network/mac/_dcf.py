"""The distributed coordination function of IEEE 802.11: its timing, and the backoff of its stations.

`netfl.network.mac.csma_ca` uses both where all stations sense each other, and
`netfl.network.mac._hidden_stations` where they do not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import ceil
from typing import Any, Literal

import numpy as np

from netfl.types import Users

RETRY_LIMIT = 7
"""Failures in a row, of several frames, after which CW is reset without ``max_attempts``: dot11ShortRetryLimit."""

WifiStandard = Literal["802.11a", "802.11b", "802.11g"]

ACK_BITS, RTS_BITS, CTS_BITS = 112, 160, 112
"""Control frames, IEEE 802.11-2020 §9.3.1."""


@dataclass(frozen=True)
class PhyTiming:
    """Timing of one physical layer of IEEE 802.11, in ns; rates in Mb/s.

    Args:
        preamble: preamble and header before the first bit of a frame.
        symbol: airtimes are rounded up to a multiple of it.
        extra_bits: bits that the physical layer adds to each frame.
        tail: silence that belongs to each frame.
        rates: data rates, the default first.
        control: rates of ACK, RTS and CTS, the one for the default data rate first.
        slowest: rate at which an unknown ACK is assumed to be sent.
        cw: minimum and maximum contention window.
        decodes: whether stations that receive a collision treat it as a frame in error.
    """

    slot: int
    sifs: int
    preamble: int
    symbol: int
    extra_bits: int
    tail: int
    rates: tuple[float, ...]
    control: tuple[float, ...]
    slowest: float
    cw: tuple[int, int]
    decodes: bool

    @property
    def difs(self) -> int:
        """SIFS and two slots."""
        return self.sifs + 2 * self.slot

    @property
    def timeout(self) -> int:
        """Time from the end of a frame until its sender knows that no answer comes (§10.3.2.11)."""
        return self.sifs + self.slot + self.preamble

    @property
    def eifs(self) -> int:
        """Extended inter-frame space after a frame in error (§10.3.2.3.7)."""
        return self.sifs + self.airtime(ACK_BITS, self.slowest) + self.difs

    def airtime(self, bits: float, rate: float) -> int:
        """Return the airtime of a frame of *bits*, MAC header included."""
        bits_per_symbol = rate * self.symbol / 1000.0
        symbols = ceil((bits + self.extra_bits) / bits_per_symbol - 1e-9)  # exact multiples despite rounding
        return self.preamble + symbols * self.symbol + self.tail

    def control_rate(self, rate: float) -> float:
        """Return the highest control rate that is not above the data rate *rate*."""
        return max((control for control in self.control if control <= rate), default=self.slowest)


_OFDM = (6.0, 9.0, 12.0, 18.0, 24.0, 36.0, 48.0, 54.0)
_DSSS = (11.0, 5.5, 2.0, 1.0)

PHYS: dict[WifiStandard, PhyTiming] = {
    "802.11a": PhyTiming(
        slot=9_000,
        sifs=16_000,
        preamble=20_000,
        symbol=4_000,
        extra_bits=22,
        tail=0,
        rates=_OFDM,
        control=(6.0, 12.0, 24.0),
        slowest=6.0,
        cw=(15, 1023),
        decodes=False,
    ),
    "802.11b": PhyTiming(
        slot=20_000,
        sifs=10_000,
        preamble=192_000,
        symbol=1_000,
        extra_bits=0,
        tail=0,
        rates=_DSSS,
        control=_DSSS,
        slowest=1.0,
        cw=(31, 1023),
        decodes=True,
    ),
    "802.11g": PhyTiming(
        slot=9_000,
        sifs=10_000,
        preamble=20_000,
        symbol=4_000,
        extra_bits=22,
        tail=6_000,
        rates=_OFDM[::-1],
        control=(24.0, 12.0, 6.0),
        slowest=6.0,
        cw=(15, 1023),
        decodes=False,
    ),
}
"""802.11a: OFDM at 5 GHz (§17).  802.11b: DSSS and CCK with the long preamble (§16).  802.11g: ERP-OFDM alone, short
slots, with 6 µs of signal extension after each frame (§18)."""


@dataclass(frozen=True, slots=True)
class FrameTiming:
    """Durations around one frame, in ns.

    Args:
        success: from the beginning of a sequence to the end of its ACK.
        lead: RTS and CTS before the data frame.
        collision: from the beginning to the end of the colliding frames.
        timeout: from there until the colliders count slots again.
        bystanders: from there until the others count slots again.
        rts: airtime of the RTS; 0 without one.
        cts: airtime of the CTS; 0 without one.
        ack: airtime of the ACK.
    """

    success: int
    data: int
    lead: int
    collision: int
    timeout: int
    bystanders: int
    rts: int
    cts: int
    ack: int


class Backoff:
    """Contention windows of the stations of a cell, and the slots that they draw.

    The rules are those of `netfl.network.mac.csma_ca.CsmaCa`.

    Args:
        size: number of stations.
        cw: minimum and maximum contention window.
        limit: attempts after which a frame is given up; ``None`` for no limit.
        keeps_window: whether the window continues with the next frame after one is given up or abandoned.
        uniforms: uniform numbers in [0, 1), one for each draw.
    """

    def __init__(
        self, size: int, cw: tuple[int, int], limit: int | None, uniforms: Iterator[float], *, keeps_window: bool
    ) -> None:
        self._cw_min, self._cw_max = cw
        self._limit = limit
        self._max_failures_in_row = limit or RETRY_LIMIT
        self._keeps_window = keeps_window
        self._uniforms = uniforms
        self._window = [self._cw_min] * size
        self._failures = [0] * size  # of the current frame
        self._failures_in_row = [0] * size  # of any frames, since the window was reset

    def draw(self, station: int) -> int:
        """Return the slots that a station counts down, uniform on 0 … CW."""
        return int(next(self._uniforms) * (self._window[station] + 1))

    def withdraw(self, station: int, *, is_cut_off: bool) -> None:
        """Note that a station has no frame any more, or *is_cut_off*."""
        self._failures[station] = 0
        if is_cut_off or not self._keeps_window or self._has_failed_too_often(station):
            self._reset_window(station)

    def end_attempt(self, station: int, *, is_success: bool, has_frame: bool) -> None:
        """Double the window of a station after a failed attempt, or reset it; the station may still have the frame."""
        self._failures[station] += 1
        self._failures_in_row[station] += 1
        is_over = is_success or not has_frame or self._failures[station] == self._limit
        if is_over:
            self._failures[station] = 0
        is_unlimited = self._limit is None and has_frame  # such a frame keeps its window
        is_row_over = self._has_failed_too_often(station) and not is_unlimited
        if is_success or (is_over and not self._keeps_window) or is_row_over:
            self._reset_window(station)
        else:
            self._window[station] = min(2 * self._window[station] + 1, self._cw_max)

    def take(self, stations: Users) -> Mapping[str, Any]:
        """Return the windows and failures of *stations*, who leave the cell, and forget them."""
        places = stations.tolist()
        row = {
            "window": np.array([self._window[station] for station in places]),
            "failures": np.array([self._failures[station] for station in places]),
            "failures_in_row": np.array([self._failures_in_row[station] for station in places]),
        }
        for station in places:
            self._reset_window(station)
            self._failures[station] = 0
        return row

    def put(self, stations: Users, row: Mapping[str, Any]) -> None:
        """Let *stations*, who have come to the cell, have these windows and failures."""
        for place, station in enumerate(stations.tolist()):
            self._window[station] = int(row["window"][place])
            self._failures[station] = int(row["failures"][place])
            self._failures_in_row[station] = int(row["failures_in_row"][place])

    def _has_failed_too_often(self, station: int) -> bool:
        """Return whether the failures of a station in a row, of whatever frames, reset its window."""
        return self._failures_in_row[station] > self._max_failures_in_row

    def _reset_window(self, station: int) -> None:
        self._window[station] = self._cw_min
        self._failures_in_row[station] = 0
