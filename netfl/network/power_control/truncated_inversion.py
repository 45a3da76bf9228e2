"""Truncated channel inversion: users with a bad channel send nothing, the others arrive with the same power."""

from __future__ import annotations

import numpy as np

from netfl.network.power_control import SenderLinks
from netfl.network.power_control._rayleigh import share_law
from netfl.network.power_control.inversion import Inversion
from netfl.types import Floats, Law
from netfl.units import Decibels


class TruncatedInversion(Inversion):
    """Users invert their channels, as ``inversion``; one whose channel is too bad withholds its frame.

    It is too bad if the SNR at full power is below ``threshold``.  The user may send again when its channel has
    changed.  Under Rayleigh fading of the mean SNR s̄ at full power a user withholds with probability
    1 - exp(-threshold / s̄), of the ratios of powers.  With a target of at most the threshold, no power is clipped.
    A. J. Goldsmith and P. P. Varaiya, IEEE Trans. Inf. Theory 43(6), 1997, §III; for sums in the air, G. Zhu, Y. Wang
    and K. Huang, IEEE Trans. Wireless Commun. 19(1), 2020.

    Example::

        kind: truncated_inversion
        target: 10 dB
        threshold: 10 dB
    """

    threshold: Decibels
    """Smallest SNR at full power, in the whole bandwidth of its radio, at which a user sends."""

    @property
    def can_withhold(self) -> bool:
        return True

    @property
    def least_channel_snr_db(self) -> float:
        return self.threshold

    def power_db(self, links: SenderLinks) -> Floats:
        is_sending = links.channel_snr_db >= self.threshold
        return np.where(is_sending, Inversion.power_db(self, links), -np.inf)

    def laws(self) -> tuple[Law, ...]:
        statement = "a frame is withheld with probability 1 - exp(-threshold / mean SNR)"
        return (share_law(self, "share of withheld frames", statement, self.threshold, np.isneginf),)
