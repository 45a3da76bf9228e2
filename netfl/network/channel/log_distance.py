"""Path loss that grows with the logarithm of the distance."""

from __future__ import annotations

import math
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from netfl.network.channel import Channel, Gain
from netfl.network.channel._distance import by_distance
from netfl.network.sites import LIGHT_M_S, Sites
from netfl.streams import Streams
from netfl.types import Law
from netfl.units import Decibels, Hertz, Metres


class LogDistance(Channel):
    """Mean path loss that grows as a power of the distance d to the tower.

    PL(d) = PL(d0) + 10 n log10(d / d0) in dB, for d ≥ d0; a user nearer than d0 has the loss at d0.  PL(d0) is given
    as ``reference_loss``, or is the free-space loss of the ``frequency`` f at d0 (Friis), 20 log10(4π d0 f / c).
    T. S. Rappaport, "Wireless Communications", 2nd ed., §4.9; n is 2 in free space, 2.7 to 3.5 in cities, 4 to 6
    behind walls.  Friis' law holds in the far field only: d0 of several wavelengths at least.

    Example::

        kind: log_distance
        exponent: 3.5
        frequency: 868 MHz
    """

    exponent: Annotated[float, Field(gt=0, le=10)]
    """n, the power with which the received power falls."""
    frequency: Annotated[Hertz, Field(gt=0)] | None = None
    """f, from which the loss at the reference distance follows."""
    reference_loss: Annotated[Decibels, Field(ge=0)] | None = None
    """PL(d0), in place of ``frequency``."""
    reference_distance: Annotated[Metres, Field(gt=0)] = 1.0
    """d0."""

    @model_validator(mode="after")
    def _one_reference(self) -> LogDistance:
        """One source of the loss at d0, and a loss there."""
        if (self.frequency is None) == (self.reference_loss is None):
            raise ValueError("give frequency or reference_loss, exactly one of them")
        if self._reference_loss_db < 0.0:
            raise ValueError("free space would amplify at the reference distance: it is less than a wavelength / 4π")
        return self

    def open(self, sites: Sites, streams: Streams) -> Gain:
        """The losses of all links, found once."""

        def loss_db(distance_m: NDArray[np.float64]) -> NDArray[np.float64]:
            ratio = np.maximum(distance_m / self.reference_distance, 1.0)
            return self._reference_loss_db + 10.0 * self.exponent * np.log10(ratio)

        return by_distance(sites, loss_db)

    def laws(self) -> tuple[Law, ...]:
        """Nothing is drawn."""
        return (Law.none("nothing is drawn: the loss follows from the distance"),)

    @property
    def _reference_loss_db(self) -> float:
        """PL(d0)."""
        if self.frequency is None:
            return self.reference_loss or 0.0
        return 20.0 * math.log10(4.0 * math.pi * self.reference_distance * self.frequency / LIGHT_M_S)
