"""Path loss in free space."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from netfl.network.channel import Channel, LinkGain
from netfl.network.channel._path_loss import distance_gain, friis_db, refuse_near_field
from netfl.network.layout import LIGHT_M_S, Layout
from netfl.streams import Streams
from netfl.types import Law
from netfl.units import Carrier


class FreeSpace(Channel):
    """Friis' law: PL(d) = 20 log10(4π d f / c) in dB between isotropic antennas at a distance d, with nothing around.

    H. T. Friis, "A note on a simple transmission formula", Proc. IRE 34 (1946), p. 254; Recommendation ITU-R
    P.525.  It holds in the far field: a user who stands nearer to its tower than a wavelength c / f is a fault; for
    one who moves, the loss there is held at that of a wavelength, 22.0 dB.  Large antennas have their far field
    farther away (2 D² f / c for a diameter D), which is not checked.

    Example::

        kind: free_space
        frequency: 2.4 GHz
    """

    frequency: Carrier
    """f."""

    def open(self, sites: Layout, streams: Streams) -> LinkGain:
        """The losses of all links.

        Raises:
            netfl.errors.ScenarioError: a user is nearer than a wavelength.
        """
        wavelength_m = LIGHT_M_S / self.frequency
        refuse_near_field(sites, wavelength_m)

        def loss_db(distance_m: NDArray[np.float64]) -> NDArray[np.float64]:
            return friis_db(self.frequency, np.maximum(distance_m, wavelength_m))

        return distance_gain(sites, loss_db)

    def laws(self) -> tuple[Law, ...]:
        """Nothing is drawn."""
        return (Law.none("nothing is drawn: the loss follows from the distance"),)
