"""Path loss that grows with the logarithm of the distance."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from netfl.network.channel import Channel, LinkGain
from netfl.network.channel._path_loss import distance_gain
from netfl.network.layout import LIGHT_M_S, Layout
from netfl.registry import Spec
from netfl.streams import Streams
from netfl.types import Law
from netfl.units import Carrier, Decibels, Metres


class Breakpoint(Spec):
    """Where the path loss begins to grow with another power."""

    distance: Annotated[Metres, Field(gt=0)]
    """Beyond which distance."""
    exponent: Annotated[float, Field(gt=0, le=10)]
    """With which power."""


class LogDistance(Channel):
    """Mean path loss that grows as a power of the distance d to the tower.

    PL(d) = PL(d0) + 10 n log10(d / d0) in dB, for d ≥ d0; a user nearer than d0 has the loss at d0.  PL(d0) is given
    as ``reference_loss``, or is the free-space loss of the ``frequency`` f at d0 (Friis), 20 log10(4π d0 f / c).
    T. S. Rappaport, "Wireless Communications", 2nd ed., §4.9; n is 2 in free space, 2.7 to 3.5 in cities, 4 to 6
    behind walls.  Friis' law holds in the far field only: d0 of several wavelengths at least.

    With ``breakpoints`` at b1 < b2 < …, n holds up to b1, the first one's exponent n1 from b1 to b2, and so on; the
    loss is continuous: PL(d) = PL(bi) + 10 ni log10(d / bi).  A. Goldsmith, "Wireless Communications", §2.5.4
    (piecewise linear).

    Example::

        kind: log_distance
        exponent: 2
        frequency: 868 MHz
        breakpoints:
          - {distance: 100 m, exponent: 3.5}
    """

    exponent: Annotated[float, Field(gt=0, le=10)]
    """n, the power with which the received power falls."""
    frequency: Carrier | None = None
    """f, from which the loss at the reference distance follows."""
    reference_loss: Annotated[Decibels, Field(ge=0)] | None = None
    """PL(d0), in place of ``frequency``."""
    reference_distance: Annotated[Metres, Field(gt=0)] = 1.0
    """d0."""
    breakpoints: tuple[Breakpoint, ...] = ()
    """Where the power changes: distances and exponents, in order of distance."""

    @model_validator(mode="after")
    def _one_reference(self) -> LogDistance:
        """One source of the loss at d0, and a loss there."""
        if (self.frequency is None) == (self.reference_loss is None):
            raise ValueError("give frequency or reference_loss, exactly one of them")
        if self._reference_loss_db < 0.0:
            raise ValueError("free space would amplify at the reference distance: it is less than a wavelength / 4π")
        return self

    @model_validator(mode="after")
    def _in_order(self) -> LogDistance:
        """Breakpoints beyond d0, each beyond the last."""
        marks = [self.reference_distance, *(point.distance for point in self.breakpoints)]
        if any(later <= earlier for earlier, later in pairwise(marks)):
            raise ValueError("breakpoints must lie beyond reference_distance, in order of distance")
        return self

    def open(self, sites: Layout, streams: Streams) -> LinkGain:
        """The losses of all links, found once."""

        def loss_db(distance_m: NDArray[np.float64]) -> NDArray[np.float64]:
            loss = np.full(len(distance_m), self._reference_loss_db)
            for start_m, end_m, exponent in self._pieces:
                loss += 10.0 * exponent * np.log10(np.clip(distance_m, start_m, end_m) / start_m)
            return loss

        return distance_gain(sites, loss_db)

    def laws(self) -> tuple[Law, ...]:
        """Nothing is drawn."""
        return (Law.none("nothing is drawn: the loss follows from the distance"),)

    @property
    def _pieces(self) -> Iterator[tuple[float, float, float]]:
        """From where to where each exponent holds."""
        starts = (self.reference_distance, *(point.distance for point in self.breakpoints))
        exponents = (self.exponent, *(point.exponent for point in self.breakpoints))
        return zip(starts, (*starts[1:], math.inf), exponents, strict=True)

    @property
    def _reference_loss_db(self) -> float:
        """PL(d0)."""
        if self.frequency is None:
            return self.reference_loss or 0.0
        return 20.0 * math.log10(4.0 * math.pi * self.reference_distance * self.frequency / LIGHT_M_S)
