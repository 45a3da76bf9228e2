"""Users at the places of vehicles or persons of the traffic simulator SUMO."""

from __future__ import annotations

import numpy as np

from netfl.network._fcd_file import FcdFile
from netfl.network._tracks import Tracks
from netfl.network.placement import Placement
from netfl.streams import Streams
from netfl.types import Floats, Law


class SumoFcd(FcdFile, Placement):
    """Positions at time 0 in a file of SUMO's floating car data, for the motion ``sumo_fcd`` with the same keys.

    A user that enters later is where it enters; between two time steps, it is on the straight line between them.

    Example::

        kind: sumo_fcd
        file: drive.fcd.xml
    """

    def open(self, users: int, towers_xy_m: Floats, streams: Streams) -> Floats:
        paths = Tracks(self.points(users), np.zeros((users, 2)))
        return paths.xy_m(np.arange(users), 0.0)

    def laws(self) -> tuple[Law, ...]:
        return (Law.none("the file gives the positions"),)
