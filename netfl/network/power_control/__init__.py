'''Power control family: the power with which each user sends a frame.

As users begin to send, the network asks `PowerControl.power_db` once for all of them.  It gives the power of each above
that of its radio, in dB: 0 is full power.  More than the radio has is sent at full power, and counted as clipped; of
the frames of a user to which an allocation or the caller of a simulation gives less power, that is the most.  A user
with a power of -inf withholds its frame: it sends nothing and does not interfere, and may send again when its channel
has changed.  Energy follows the power: a frame of half the power costs half of ``energy.transmit``.

A user measures its channel by signals of the tower, which costs neither time nor energy; the power is that of the start
of a frame for all of it.

To add a model, write a file in this package, or a class in your own package, that derives from `PowerControl`.
A complete one::

    class BackOff(PowerControl):
        """Users with a good channel send with less power, by a fixed step.

        Example::

            kind: mylab.back_off:BackOff
            good: 20 dB
        """

        good: Decibels
        """SNR at full power from which users send with a tenth of it."""

        def power_db(self, links):
            return np.where(links.snr_db >= self.good, -10.0, 0.0)

        def laws(self):
            return (Law.none("draws nothing"),)
'''

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Self

from netfl.core.kinds import exported_models
from netfl.core.spec import Spec
from netfl.types import Floats, Ints, Law


@dataclass(frozen=True, slots=True)
class SenderLinks:
    """Links of users that are about to send, each at full power to its tower.

    Args:
        users: their numbers in the network, ``[n]``.
        snr_db: present SNR of each in the band in which it sends, fading included, ``[n]``.  In a share of a band it
            is that in the share.
        channel_snr_db: present SNR of each in the whole bandwidth of its radio, ``[n]``.
        read_mean_snr_db: returns the same without fast fading, ``[n]``.
    """

    users: Ints
    snr_db: Floats
    channel_snr_db: Floats
    read_mean_snr_db: Callable[[], Floats]

    @property
    def mean_snr_db(self) -> Floats:
        """SNR of each in the whole bandwidth of its radio without fast fading: distance and shadowing, ``[n]``."""
        return self.read_mean_snr_db()


class PowerControl(Spec):
    """Base class of models of power control."""

    is_full: ClassVar[bool] = False
    """True if all frames have full power, so that nothing is asked."""

    @property
    def can_withhold(self) -> bool:
        """True if a user can withhold its frame.  State it if none ever does, for speed."""
        return not self.is_full

    @abstractmethod
    def power_db(self, links: SenderLinks) -> Floats:
        """Return the power of each frame above that of the radio, ``[n]``; -inf for a user that withholds its frame."""

    @property
    def highest_snr_db(self) -> float:
        """SNR that no frame exceeds, as the power is lowered to it; by default none.

        `netfl check` compares it with the SNR that the reception needs.
        """
        return math.inf

    @property
    def least_channel_snr_db(self) -> float:
        """SNR at full power below which a user withholds its frames; by default none does."""
        return -math.inf

    def fitted(self, mean_snr_db: Floats) -> Self:
        """Return the model for users of these mean SNRs at full power at the start, ``[users]``; by default itself."""
        return self

    def laws(self) -> tuple[Law, ...]:
        return (Law.none("draws nothing"),)


__getattr__ = exported_models(__name__)
