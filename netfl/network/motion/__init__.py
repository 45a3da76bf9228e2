"""The motion family: where users are as time goes on, from the places that the topology gave them."""

from __future__ import annotations

from abc import abstractmethod

from netfl.network.layout import Layout, Trajectories
from netfl.registry import Spec
from netfl.streams import Streams


class Motion(Spec):
    """The contract of a motion.

    Its paths are functions of (user, time), whatever was asked before; at time 0 each user is at ``sites.user_xy_m``.
    """

    @abstractmethod
    def open(self, sites: Layout, streams: Streams) -> Trajectories:
        """The paths of the users of *sites*.

        Raises:
            netfl.errors.ScenarioError: the motion does not fit the places; keys relative to the motion.
        """
