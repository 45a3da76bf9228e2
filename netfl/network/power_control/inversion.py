"""Channel inversion: every user is received with the same power."""

from __future__ import annotations

from netfl.network.power_control import PowerControl, SenderLinks
from netfl.network.power_control._rayleigh import share_law
from netfl.types import Floats, Law
from netfl.units import Decibels

_ROUNDING_DB = 1e-9
"""Power above the target, so that rounding leaves no frame below it."""


class Inversion(PowerControl):
    """Each user lowers its power so that its frame arrives with the SNR ``target``, fading included.

    A user whose channel needs more than its radio has sends at full power and arrives with less.  Under Rayleigh fading
    of the mean SNR s̄ at full power this happens with probability 1 - exp(-target / s̄).  A. J. Goldsmith and
    P. P. Varaiya, IEEE Trans. Inf. Theory 43(6), 1997, §III.

    Example::

        kind: inversion
        target: 10 dB
    """

    target: Decibels
    """SNR with which frames arrive, in the band in which they are sent."""

    @property
    def can_withhold(self) -> bool:
        return False

    @property
    def highest_snr_db(self) -> float:
        return self.target

    def power_db(self, links: SenderLinks) -> Floats:
        return self.target + _ROUNDING_DB - links.snr_db

    def laws(self) -> tuple[Law, ...]:
        statement = "the power is clipped with probability 1 - exp(-target / mean SNR)"
        return (share_law(self, "share of clipped frames", statement, self.target, lambda power_db: power_db > 0.0),)
