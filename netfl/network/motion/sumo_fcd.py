"""Users that move as vehicles or persons of the traffic simulator SUMO."""

from __future__ import annotations

import numpy as np

from netfl.network._fcd_file import FcdFile
from netfl.network._tracks import Tracks, refuse_other_start
from netfl.network.layout import Layout, Trajectories
from netfl.network.motion import Motion
from netfl.streams import Streams
from netfl.types import Law


class SumoFcd(FcdFile, Motion):
    """Motion as in a file of SUMO's floating car data, ``sumo --fcd-output``, with coordinates in metres.

    Between two time steps a user moves straight at one speed.  Before its first step and after its last one, when SUMO
    does not simulate it, it rests at that place; the outage ``availability`` can disconnect it then.  At time 0 a user
    must be at its position in the topology: ``placement`` has the same kind and keys.

    P. A. Lopez et al., "Microscopic traffic simulation using SUMO", IEEE ITSC 2018.

    Example::

        kind: sumo_fcd
        file: drive.fcd.xml
        begin: 0 s
    """

    def open(self, layout: Layout, streams: Streams) -> Trajectories:
        paths = Tracks(self.points(layout.users), layout.user_xy_m, relative=False)
        remedy = "place users by placement: {kind: sumo_fcd} with the same keys"
        refuse_other_start(paths, layout, self.file, remedy)
        return paths

    def laws(self) -> tuple[Law, ...]:
        return (Law.none("the file gives the positions"),)

    def has_times_within(self, end_s: float) -> bool:
        times_s = self.rows.times_s - self.begin
        return bool(np.any((times_s >= 0.0) & (times_s <= end_s)))
