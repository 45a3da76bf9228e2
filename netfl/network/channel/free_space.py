"""Path loss in free space."""

from __future__ import annotations

import numpy as np

from netfl.network.channel import LinkGain, NearLimit, distance_gain
from netfl.network.channel._path_loss import PathLoss, friis_db, refuse_near_field
from netfl.network.layout import LIGHT_M_S, Layout
from netfl.streams import Streams
from netfl.types import Floats
from netfl.units import Carrier


class FreeSpace(PathLoss):
    """Friis' law: PL(d) = 20 log10(4π d f / c) in dB between isotropic antennas at a distance d, without obstacles.

    H. T. Friis, "A note on a simple transmission formula", Proc. IRE 34 (1946), p. 254; Recommendation ITU-R
    P.525.  Valid in the far field: a static user nearer to its tower than a wavelength c / f is an error; a moving user
    nearer than that has the loss at one wavelength, 22.0 dB.  The far field of large antennas begins farther away
    (2 D² f / c for a diameter D), which is not checked.

    Example::

        kind: free_space
        frequency: 2.4 GHz
    """

    frequency: Carrier
    """Carrier frequency f."""

    @property
    def carrier_hz(self) -> float:
        return self.frequency

    @property
    def near_limit(self) -> NearLimit:
        return NearLimit(LIGHT_M_S / self.frequency)

    def open(self, layout: Layout, streams: Streams) -> LinkGain:
        wavelength_m = self.near_limit.distance_m
        refuse_near_field(layout, wavelength_m)

        def loss_db(distance_m: Floats) -> Floats:
            return friis_db(self.frequency, np.maximum(distance_m, wavelength_m))

        return distance_gain(layout, loss_db)
