"""Sums in the air: analogue signals of users that send at once add up at the tower."""

from __future__ import annotations

from netfl.network.interference import DisturbedFrames, Interference
from netfl.types import Floats, Law


class OverTheAir(Interference):
    """The tower receives the sum of the analogue signals of all users that send in a slot, and no update by itself.

    All users that have an update send at once (``mac: simultaneous``), each number as one symbol
    (``reception: analogue``), with a power that inverts its channel (``power_control: inversion`` or
    ``truncated_inversion``), so that all signals arrive with one amplitude.  A slot takes as long for any number of
    users.  The update of a user that withholds its frame, or has none when the slot begins, ends as ``not_summed``: it
    is not sent in a later slot.  The noise of the receiver is part of the sum, which the aggregation ``over_the_air``
    computes: other rules read the updates without noise, as an ideal rival would.  G. Zhu, Y. Wang and K. Huang,
    IEEE Trans. Wireless Commun. 19(1), 2020, with one gain of a user for all of its symbols.

    Example::

        kind: over_the_air
    """

    sums = True

    def success(self, frames: DisturbedFrames) -> Floats:
        return frames.alone

    def laws(self) -> tuple[Law, ...]:
        return (Law.none("all that is sent is summed, and nothing is drawn"),)
