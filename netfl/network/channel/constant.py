"""Constant gain."""

from __future__ import annotations

import numpy as np

from netfl.network.channel import Channel, LinkGain, StaticGain
from netfl.network.layout import Layout
from netfl.streams import Streams
from netfl.types import Floats, Law
from netfl.units import Decibels


class Constant(Channel):
    """Constant gain G, equal for all users: antennas, cables, a wall, a cable link of known loss.

    G is added to the gains of the other models; a loss is negative.  Any value is valid.

    Example::

        kind: constant
        gain: -95 dB
    """

    gain: Decibels
    """G; negative for a loss."""

    def open(self, layout: Layout, streams: Streams) -> LinkGain:
        return StaticGain(np.full(layout.users, self.gain))

    @property
    def holds_between_users(self) -> bool:
        return True

    def between_users_db(self, distance_m: Floats) -> Floats:
        return np.full(len(distance_m), self.gain)

    def laws(self) -> tuple[Law, ...]:
        return (Law.none("nothing is drawn: the gain is given"),)
