"""Rayleigh fading: many scattered paths and none in line of sight."""

from __future__ import annotations

import math
from typing import Annotated

import networkx as nx
import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from netfl.network.channel import Channel, Gain
from netfl.network.channel._block import BlockGain
from netfl.network.sites import Sites
from netfl.streams import Streams
from netfl.types import Law
from netfl.units import Seconds


class Rayleigh(Channel):
    """Block fading with a Rayleigh-distributed amplitude, so that the POWER gain g is exponential with mean 1.

    P(g ≤ x) = 1 - exp(-x): variance 1.  The gain holds for one coherence time and is then drawn anew, independent
    of the last and from user to user.  D. Tse and P. Viswanath, "Fundamentals of Wireless Communication", §2.4 and
    §5.4.  Valid where no path dominates, and where a transmission is short against the coherence time: it is judged
    by the gain at its start.

    Example::

        kind: rayleigh
        coherence: 50 ms
    """

    coherence: Annotated[Seconds, Field(gt=0)]
    """How long a draw holds; about 0.4 / (Doppler spread)."""

    def open(self, sites: Sites, streams: Streams) -> Gain:
        """Draws keyed by (user, block)."""
        field = streams.field("fading")
        peak_db = 10.0 * math.log10(-math.log(1e-9))
        return BlockGain(lambda users, block: 10.0 * np.log10(field.exponential(users, block)), self.coherence, peak_db)

    def laws(self) -> tuple[Law, ...]:
        """Exponential in power."""

        def draw(streams: Streams, size: int) -> NDArray[np.float64]:
            users = np.arange(size)
            gain = self.open(Sites(nx.Graph(), np.zeros((size, 2))), streams)
            return 10.0 ** (gain.gain_db(users, users * self.coherence) / 10.0)

        return (
            Law(
                "power gain",
                "exponential with mean 1, independent for each user and each block",
                draw=draw,
                mean=1.0,
                variance=1.0,
                cdf=lambda x: -np.expm1(-x),
            ),
        )
