"""The placement family: where users stand at time 0, whatever the topology."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
from numpy.typing import NDArray

from netfl.registry import Spec
from netfl.streams import Streams


class Placement(Spec):
    """The contract of a placement.

    User u's place depends on the streams and on u alone, so that more users leave the others where they are; tables,
    lists and lattices, which are laid out for a number of users, excepted.
    """

    @abstractmethod
    def open(self, users: int, towers_xy_m: NDArray[np.float64], streams: Streams) -> NDArray[np.float64]:
        """The places of *users* users, ``[users, 2]``, in metres, in a network with towers at ``[towers, 2]``.

        Raises:
            netfl.errors.ScenarioError: there are no such places; keys relative to the placement.
        """
