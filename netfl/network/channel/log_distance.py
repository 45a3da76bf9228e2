"""Path loss that increases with the logarithm of the distance."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise
from typing import Annotated

import numpy as np
from pydantic import Field, model_validator

from netfl.network.channel import LinkGain, distance_gain
from netfl.network.channel._path_loss import PathLoss
from netfl.network.layout import LIGHT_M_S, Layout
from netfl.registry import Spec, check_one_of
from netfl.streams import Streams
from netfl.types import Floats
from netfl.units import Carrier, Decibels, Metres


class Breakpoint(Spec):
    """Distance from which the path loss increases with another exponent."""

    distance: Annotated[Metres, Field(gt=0)]
    """Distance from which the exponent applies."""
    exponent: Annotated[float, Field(gt=0, le=10)]
    """Path loss exponent beyond the distance."""


class LogDistance(PathLoss):
    """Mean path loss that increases as a power of the distance d to the tower.

    PL(d) = PL(d0) + 10 n log10(d / d0) in dB, for d ≥ d0; nearer users have the loss at d0.  PL(d0) is given
    as ``reference_loss``, or is the free-space loss of the ``frequency`` f at d0 (Friis), 20 log10(4π d0 f / c).
    T. S. Rappaport, "Wireless Communications", 2nd ed., §4.9; n is 2 in free space, 2.7 to 3.5 in cities, 4 to 6
    behind walls.  Friis' law holds in the far field only: d0 of several wavelengths at least.

    With ``breakpoints`` at b1 < b2 < …, n applies up to b1, the first exponent n1 from b1 to b2, and so on.  The loss
    is continuous: PL(d) = PL(bi) + 10 ni log10(d / bi).  A. Goldsmith, "Wireless Communications", §2.5.4
    (piecewise linear).

    Example::

        kind: log_distance
        exponent: 2
        frequency: 868 MHz
        breakpoints:
          - {distance: 100 m, exponent: 3.5}
    """

    exponent: Annotated[float, Field(gt=0, le=10)]
    """n, the path loss exponent."""
    frequency: Carrier | None = None
    """Carrier frequency f, which gives the loss at the reference distance."""
    reference_loss: Annotated[Decibels, Field(ge=0)] | None = None
    """PL(d0), instead of ``frequency``."""
    reference_distance: Annotated[Metres, Field(gt=0)] = 1.0
    """d0."""
    breakpoints: tuple[Breakpoint, ...] = ()
    """Distances and the exponents beyond them, in order of distance."""

    @model_validator(mode="after")
    def _check_distances(self) -> LogDistance:
        check_one_of(self, "frequency", "reference_loss")
        if self._reference_loss_db < 0.0:
            raise ValueError(
                "reference_distance is less than a wavelength / 4π, where free space would amplify; increase it"
            )
        distances = [self.reference_distance, *(point.distance for point in self.breakpoints)]
        if any(later <= earlier for earlier, later in pairwise(distances)):
            raise ValueError(
                "the breakpoints are not in order beyond reference_distance; put them in order of distance"
            )
        return self

    @property
    def carrier_hz(self) -> float | None:
        return self.frequency

    def open(self, layout: Layout, streams: Streams) -> LinkGain:
        def loss_db(distance_m: Floats) -> Floats:
            loss = np.full(len(distance_m), self._reference_loss_db)
            for start_m, end_m, exponent in self._pieces:  # each adds what it loses up to its end
                loss += 10.0 * exponent * np.log10(np.clip(distance_m, start_m, end_m) / start_m)
            return loss

        return distance_gain(layout, loss_db)

    @property
    def _pieces(self) -> Iterator[tuple[float, float, float]]:
        """Start, end and exponent of each piece."""
        starts = (self.reference_distance, *(point.distance for point in self.breakpoints))
        exponents = (self.exponent, *(point.exponent for point in self.breakpoints))
        return zip(starts, (*starts[1:], math.inf), exponents, strict=True)

    @property
    def _reference_loss_db(self) -> float:
        if self.frequency is None:
            return self.reference_loss or 0.0
        return 20.0 * math.log10(4.0 * math.pi * self.reference_distance * self.frequency / LIGHT_M_S)
