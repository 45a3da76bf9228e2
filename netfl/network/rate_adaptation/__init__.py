'''Family of rate adaptations: the rate in which a Wi-Fi station sends its next frame.

A station of `csma_ca` asks its adaptation before each attempt, the repeats of a frame included, and reports whether the
frame was acknowledged.  The rates are those of the modes of the reception, from the lowest to the highest, so that each
frame is received by the threshold of its own rate.

To add a model, write a file in this package, or a class in your own package, that derives from `RateAdaptation`.  A
complete one::

    class OneDown(RateAdaptation):
        """A station sends at the highest rate, and at the lowest after a failure.

        Example::

            kind: mylab.one_down:OneDown
        """

        def open(self, link):
            return _OneDown(link)

        def laws(self):
            return (Law.none("draws nothing"),)


    class _OneDown(RateControl):
        def __init__(self, link):
            self._link = link
            self._is_down = np.zeros(link.stations, bool)

        def choose(self, station, now_s):
            return 0 if self._is_down[station] else len(self._link.rates_bps) - 1

        def record(self, station, now_s, *, is_success):
            self._is_down[station] = not is_success
'''

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from netfl.core.kinds import exported_models
from netfl.core.plugins import Overridable
from netfl.core.spec import Spec
from netfl.streams import Streams
from netfl.types import Floats, Ints, Users


@dataclass(frozen=True, slots=True)
class RateLink:
    """Rates of the stations of one cell, as a rate adaptation knows them.

    Args:
        stations: number of stations, which are numbered from 0.
        rates_bps: rates from the lowest to the highest, ``[rates]``.
        first: place of the rate in which each station sends its first frame, ``[stations]``; ``None`` if the scenario
            states none.
        best: ``best(station)`` returns the place of the rate that the reception chooses at the present SNR of a
            station: the highest whose threshold it reaches, the most robust if it reaches none.  Only a model that
            states `RateAdaptation.observes_snr` may call it.
        streams: random streams of the cell.
    """

    stations: int
    rates_bps: Floats
    first: Ints | None
    best: Callable[[int], int]
    streams: Streams


class RateAdaptation(Spec):
    """Base class of rate adaptations."""

    observes_snr: ClassVar[bool] = False
    """True if a station knows its SNR at the tower as its frame begins."""
    starts_at_rate: ClassVar[bool] = True
    """False if the ``rate`` of the MAC has no effect, as no station begins with it."""

    @abstractmethod
    def open(self, link: RateLink) -> RateControl:
        """Return the control of the rates of the stations of one cell."""


class RateControl(Overridable, ABC):
    """Control of the rates of the stations of one cell."""

    @abstractmethod
    def choose(self, station: int, now_s: float) -> int:
        """Return the place in `RateLink.rates_bps` of the rate in which a station sends a frame from *now_s* on."""

    def record(self, station: int, now_s: float, *, is_success: bool) -> None:
        """Take the outcome of the last frame of a station: whether it was acknowledged.

        An RTS without a CTS is not reported, as it says nothing of the rate of the data.
        """

    def take(self, stations: Users) -> Mapping[str, Any]:
        """Return what is known of *stations*, who leave the cell: arrays by name, with one entry for each station.

        The control of another cell puts it.  By default nothing moves, and a station that comes is as it last was in
        that cell.
        """
        return {}

    def put(self, stations: Users, row: Mapping[str, Any]) -> None:
        """Let *stations*, who have come to the cell, have what another control has taken."""


__getattr__ = exported_models(__name__)
