"""Collision channel: frames that overlap are lost."""

from __future__ import annotations

import numpy as np

from netfl.network.interference import DisturbedFrames, Interference
from netfl.types import Floats, Law


class Collide(Interference):
    """Collisions: all frames that overlap on one channel are lost, however briefly they do.

    The collision channel of the theory of random access: N. Abramson, AFIPS 1970; D. Bertsekas and R. Gallager, "Data
    Networks", 2nd ed., 1992, §4.2.

    Example::

        kind: collide
    """

    receives_several = False
    loses_all = True

    def success(self, frames: DisturbedFrames) -> Floats:
        return np.zeros(len(frames.users))

    def laws(self) -> tuple[Law, ...]:
        return (Law.none("no frame that overlaps is received, and nothing is drawn"),)
