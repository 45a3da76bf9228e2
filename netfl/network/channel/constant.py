"""A gain that is stated."""

from __future__ import annotations

import numpy as np

from netfl.network.channel import Channel, LinkGain
from netfl.network.channel._gains import StaticGain
from netfl.network.layout import Layout
from netfl.streams import Streams
from netfl.types import Law
from netfl.units import Decibels


class Constant(Channel):
    """The same gain G in dB for every user at any time: antennas, cables, a wall, a cable link of known loss.

    G is added to the gains of the other models; a loss is negative.  Any value is valid.

    Example::

        kind: constant
        gain: -95 dB
    """

    gain: Decibels
    """G; negative for a loss."""

    def open(self, sites: Layout, streams: Streams) -> LinkGain:
        """G for everybody."""
        return StaticGain(np.full(sites.users, self.gain))

    def laws(self) -> tuple[Law, ...]:
        """Nothing is drawn."""
        return (Law.none("nothing is drawn: the gain is stated"),)
