"""Rate adaptation by the present SNR."""

from __future__ import annotations

from netfl.network.rate_adaptation import RateAdaptation, RateControl, RateLink
from netfl.types import Law


class Ideal(RateAdaptation):
    """The highest rate whose threshold the SNR at the start of the frame reaches.

    Each station knows its SNR at the tower without delay, error or airtime, so that the model is an upper bound on what
    an adaptation can do.  If the SNR reaches no threshold, the station sends at the most robust rate.  Where
    neither fading within a frame nor interference counts, no frame at a higher rate fails.  A ``margin`` of the
    reception `mcs` lowers the SNR that a station expects.

    Example::

        kind: ideal
    """

    observes_snr = True
    starts_at_rate = False

    def open(self, link: RateLink) -> RateControl:
        return _IdealControl(link)

    def laws(self) -> tuple[Law, ...]:
        return (Law.none("draws nothing: the rate is that of the reception at the SNR"),)


class _IdealControl(RateControl):
    def __init__(self, link: RateLink) -> None:
        self._best = link.best

    def choose(self, station: int, now_s: float) -> int:
        return self._best(station)
