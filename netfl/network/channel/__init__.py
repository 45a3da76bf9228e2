'''Channel family: gain of the link between a user and its tower.

A link's channel is a list of models, such as a path loss, a shadowing and a fading.  Their gains in dB add up.

To add a model, write a file in this package, or a class in your own package, that derives from `Channel`.  `open`
returns the gains of one network: a `StaticGain`, a `BlockGain`, a `distance_gain`, or your own `LinkGain`.  Draws come
from the given streams, keyed by user and block, so that they do not depend on the order of calls.  A complete model::

    class Blockage(Channel):
        """Block fading with two values: a path is blocked with probability p, and then loses 10 dB.

        Example::

            kind: mylab.blockage:Blockage
            p: 0.2
        """

        p: Probability = 0.2
        """Probability that a path is blocked."""

        def open(self, layout, streams):
            field = streams.field("blocked")
            gain_db = lambda users, block: np.where(field.uniform(users, block) < self.p, -10.0, 0.0)
            return BlockGain(gain_db, coherence_s=1.0, peak_db=0.0)

        def laws(self):
            draw = lambda streams, size: self.open(None, streams).gain_db(np.arange(size), 0.0)
            variance = 100 * self.p * (1 - self.p)
            return (Law("gain, dB", "-10 with probability p, else 0", draw, mean=-10 * self.p, variance=variance),)

Optional parts: the coherence time of a fading (`Channel.coherence_s`); and for a medium other than air its noise
(`Channel.noise_dbm`), the speed of its signals (`Channel.speed_m_s`) and their delay (`Channel.delay_s`).
'''

from __future__ import annotations

import math
from abc import abstractmethod

import numpy as np
from numpy.typing import NDArray

from netfl.network.channel._gains import BlockGain, LinkGain, StaticGain, distance_gain
from netfl.network.layout import LIGHT_M_S, Layout
from netfl.registry import Spec
from netfl.streams import Streams

__all__ = ["BlockGain", "Channel", "LinkGain", "StaticGain", "distance_gain"]


class Channel(Spec):
    """Base class of channel models."""

    @abstractmethod
    def open(self, layout: Layout, streams: Streams) -> LinkGain:
        """Return the gains of the links of *layout*, with draws from *streams*.

        Raises:
            netfl.errors.ScenarioError: the model is not valid for *layout*.
        """

    @property
    def speed_m_s(self) -> float:
        """Speed of signals; by default the speed of light."""
        return LIGHT_M_S

    @property
    def coherence_s(self) -> float:
        """Time after which fading may have changed the gain, in s; infinity without fading."""
        return math.inf

    def delay_s(self, distance_m: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the propagation delay of links with the given distances on the map, ``[n]``."""
        return np.asarray(distance_m / self.speed_m_s)

    def noise_dbm(self, bandwidth_hz: float) -> float | None:
        """Return the noise power of the medium in the band, or ``None`` if the receiver's thermal noise applies.

        The power has the reference of ``radio.power``, so that an SNR in dB is power + gain - noise.

        Raises:
            netfl.errors.ScenarioError: the model is not valid in a band of *bandwidth_hz*.
        """
        return None
