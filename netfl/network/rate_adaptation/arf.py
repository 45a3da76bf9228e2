"""Auto rate fallback: a rate adaptation by counts of acknowledgements."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from netfl.network.rate_adaptation import RateAdaptation, RateControl, RateLink
from netfl.streams import Streams
from netfl.types import Floats, Law, Users
from netfl.units import Seconds

_LAW_FAILURE = 0.4
"""Probability of a failure at the higher rate at which `Arf.laws` draws."""
_LAW_MAX_DOWN = 4
"""Largest ``down`` at which it draws, as visits become long."""


class Arf(RateAdaptation):
    """Auto rate fallback: up after successes in a row, down after failures in a row.

    A station sends its next frame at the next higher rate after ``up`` frames in a row that were acknowledged or, if
    ``timer`` is given, when this time has passed since its last change of the rate.  It sends at the next lower rate
    after ``down`` frames in a row that were not.  The first frame after a step up is a probe: if it fails, the
    station steps down at once.  Counts begin again with each change.  A. Kamerman and L. Monteban, "WaveLAN-II: a
    high-performance wireless LAN for the unlicensed band", Bell Labs Technical Journal 2(3), 1997, with up 10 and
    down 2.

    A station cannot tell a collision from a signal that is too weak, so that it steps down with many stations.

    With a higher rate at which each frame fails with probability q, independently, and a lower one at which none does,
    a station sends ``up`` frames in a row at the lower one, and on average q^-down at the higher one.

    Example::

        kind: arf
        up: 10
        down: 2
    """

    up: Annotated[int, Field(ge=1)] = 10
    """Acknowledged frames in a row after which a station steps up."""
    down: Annotated[int, Field(ge=1)] = 2
    """Frames in a row without acknowledgement after which it steps down."""
    timer: Annotated[Seconds, Field(gt=0)] | None = None
    """Time after a change of the rate after which it steps up in any case; ``null``: never."""

    def open(self, link: RateLink) -> RateControl:
        return _ArfControl(self, link)

    def laws(self) -> tuple[Law, ...]:
        """Claim the share of frames at the higher of two rates, of which it fails with probability q.

        A visit of the higher rate has 1 frame with probability q, as the probe fails, and otherwise on average
        1 + (q^-down - 1) / (1 - q), which is q^-down altogether.  A draw is one such visit.
        """
        down = min(self.down, _LAW_MAX_DOWN)
        rule = self.model_copy(update={"timer": None, "down": down})

        def visits(streams: Streams, size: int) -> Floats:
            link = RateLink(1, np.array([6e6, 12e6]), None, lambda station: 0, streams)
            control = rule.open(link)
            uniforms = streams.rng("frames")
            lengths = np.zeros(size)
            for visit in range(size):
                while control.choose(0, 0.0) == 0:
                    control.record(0, 0.0, is_success=True)
                while control.choose(0, 0.0) == 1:
                    lengths[visit] += 1.0
                    control.record(0, 0.0, is_success=bool(uniforms.random() >= _LAW_FAILURE))
            return lengths

        return (
            Law(
                "frames at a rate between a step up and the step down",
                f"q^-down on average, where frames fail independently with probability q = {_LAW_FAILURE:g}",
                draw=visits,
                mean=_LAW_FAILURE**-down,
            ),
        )


class _ArfControl(RateControl):
    """Counts of the stations of a cell.

    Args:
        rule: the rule.
        link: rates; the lowest is the first by default.
    """

    def __init__(self, rule: Arf, link: RateLink) -> None:
        self._rule = rule
        self._highest = len(link.rates_bps) - 1
        self._place = [0] * link.stations
        if link.first is not None:
            self._place = link.first.tolist()
        self._successes = [0] * link.stations  # in a row
        self._failures = [0] * link.stations  # in a row
        self._is_probe = [False] * link.stations  # the next frame is the first after a step up
        self._changed_s = [0.0] * link.stations

    def choose(self, station: int, now_s: float) -> int:
        timer_s = self._rule.timer
        if timer_s is not None and now_s - self._changed_s[station] >= timer_s:
            self._step_up(station, now_s)
        return self._place[station]

    def record(self, station: int, now_s: float, *, is_success: bool) -> None:
        is_probe = self._is_probe[station]
        self._is_probe[station] = False
        if is_success:
            self._failures[station] = 0
            self._successes[station] += 1
            if self._successes[station] >= self._rule.up:
                self._step_up(station, now_s)
        else:
            self._successes[station] = 0
            self._failures[station] += 1
            if is_probe or self._failures[station] >= self._rule.down:
                self._change(station, max(0, self._place[station] - 1), now_s)

    def take(self, stations: Users) -> Mapping[str, Any]:
        places = stations.tolist()
        return {
            "place": np.array([self._place[station] for station in places]),
            "successes": np.array([self._successes[station] for station in places]),
            "failures": np.array([self._failures[station] for station in places]),
            "is_probe": np.array([self._is_probe[station] for station in places]),
            "changed_s": np.array([self._changed_s[station] for station in places]),
        }

    def put(self, stations: Users, row: Mapping[str, Any]) -> None:
        """Put back what is known of users who come, as `DeviceState.put`."""
        for number, station in enumerate(stations.tolist()):
            self._place[station] = int(row["place"][number])
            self._successes[station] = int(row["successes"][number])
            self._failures[station] = int(row["failures"][number])
            self._is_probe[station] = bool(row["is_probe"][number])
            self._changed_s[station] = float(row["changed_s"][number])

    def _step_up(self, station: int, now_s: float) -> None:
        """Take the next higher rate, if there is one, and let the next frame be a probe."""
        is_highest = self._place[station] == self._highest
        self._change(station, min(self._highest, self._place[station] + 1), now_s)
        self._is_probe[station] = not is_highest

    def _change(self, station: int, place: int, now_s: float) -> None:
        self._place[station] = place
        self._successes[station] = 0
        self._failures[station] = 0
        self._changed_s[station] = now_s
