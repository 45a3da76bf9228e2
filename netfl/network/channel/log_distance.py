"""Path loss that increases with the logarithm of the distance."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise
from typing import Annotated

import numpy as np
from pydantic import Field, model_validator

from netfl.core.spec import Spec, check_one_of
from netfl.network.channel import LinkGain, NearLimit, distance_gain
from netfl.network.channel._path_loss import PathLoss
from netfl.network.layout import LIGHT_M_S, Layout
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

    PL(d) = PL(d0) + 10 n log10(d / d0) in dB.  PL(d0) is given as ``reference_loss``, or is the free-space loss of the
    ``frequency`` f at d0 (Friis), 20 log10(4π d0 f / c).  T. S. Rappaport, "Wireless Communications", 2nd ed., §4.9; n
    is 2 in free space, 2.7 to 3.5 in cities, 4 to 6 behind walls.  Friis' law holds in the far field only: d0 of
    several wavelengths at least.

    Users nearer than d0: with ``reference_loss`` the same law holds, so that d0 is only the unit in which a formula
    counts distances; with ``frequency`` the loss is that of free space, which meets the law at d0.  A user within
    ``min_distance`` has the loss at this distance.  No loss is below 0 dB.

    A path loss a + b lg d with d in km is ``reference_loss: a``, ``reference_distance: 1 km`` and ``exponent: b / 10``,
    as the first example: 128.1 + 37.6 lg d[km], the macro cell at 2 GHz of 3GPP TR 36.942, §4.5.2 (towers 15 m above
    the roofs) and of TR 36.814, Table A.2.1.1.2-3 (model 1).  Others of one line, fc in GHz:

    - 140.7 + 36.7 lg d[km]: pico cell or relay at 2 GHz, the same table (model 1);
    - 103.4 + 24.2 lg d[km] in line of sight, 131.1 + 42.8 lg d[km] without: macro cell at 2 GHz, the same table
      (model 2);
    - 22.7 + 36.7 lg d[m] + 26 lg fc: urban micro cell out of sight, TR 36.814, Table B.1.2.1-1; at 2 GHz 30.5 dB at 1 m
      (d from 10 m to 2 km);
    - 28 + 22 lg d[m] + 20 lg fc: urban micro or macro cell in line of sight up to the breakpoint, the same table; at
      2 GHz 34.0 dB at 1 m (d from 10 m);
    - 148 + 40 lg d[km]: outdoor to indoor and pedestrian at 2 GHz, Recommendation ITU-R M.1225, Annex 2,
      40 lg d[km] + 30 lg f[MHz] + 49, common for links between devices.

    With ``breakpoints`` at b1 < b2 < …, n applies up to b1, the first exponent n1 from b1 to b2, and so on.  The loss
    is continuous: PL(d) = PL(bi) + 10 ni log10(d / bi).  A. Goldsmith, "Wireless Communications", §2.5.4
    (piecewise linear).

    Example::

        kind: log_distance
        exponent: 3.76
        reference_distance: 1 km
        reference_loss: 128.1 dB

    A breakpoint, with the reference at 1 m from the carrier::

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
    min_distance: Annotated[Metres, Field(gt=0)] | None = None
    """Distance within which the loss no longer falls, at most d0; by default the smaller of d0 and 1 m."""
    breakpoints: tuple[Breakpoint, ...] = ()
    """Distances and the exponents beyond them, in order of distance."""

    @model_validator(mode="after")
    def _check_distances(self) -> LogDistance:
        check_one_of(self, "frequency", "reference_loss")
        if self._reference_loss_db < 0.0:
            raise ValueError(
                "reference_distance is less than a wavelength / 4π, where free space would amplify; increase it"
            )
        if self._min_m > self.reference_distance:
            raise ValueError(
                f"min_distance ({self._min_m:g} m) is above reference_distance ({self.reference_distance:g} m); reduce "
                "min_distance, or leave it out"
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

    @property
    def near_limit(self) -> NearLimit:
        lossless_m = self._lossless_m
        if lossless_m > self._min_m:
            return NearLimit(lossless_m, "its loss would be below 0 dB", "check the loss and distance of the reference")
        return NearLimit(self._min_m, "its loss no longer falls", "place users farther away, or reduce min_distance")

    def open(self, layout: Layout, streams: Streams) -> LinkGain:
        d0_m = self.reference_distance

        def loss_db(distance_m: Floats) -> Floats:
            loss_db = np.full(len(distance_m), self._reference_loss_db)

            # nearer than d0, the loss is smaller
            near_m = np.clip(distance_m, self._min_m, d0_m)
            loss_db += 10.0 * self._near_exponent * np.log10(near_m / d0_m)

            # each piece beyond d0 adds what it loses up to its end
            for start_m, end_m, exponent in self._pieces:
                loss_db += 10.0 * exponent * np.log10(np.clip(distance_m, start_m, end_m) / start_m)
            return np.asarray(np.maximum(loss_db, 0.0))

        return distance_gain(layout, loss_db)

    @property
    def _pieces(self) -> Iterator[tuple[float, float, float]]:
        """Start, end and exponent of each piece beyond d0."""
        starts = (self.reference_distance, *(point.distance for point in self.breakpoints))
        exponents = (self.exponent, *(point.exponent for point in self.breakpoints))
        return zip(starts, (*starts[1:], math.inf), exponents, strict=True)

    @property
    def _min_m(self) -> float:
        if self.min_distance is None:
            return min(self.reference_distance, 1.0)
        return self.min_distance

    @property
    def _near_exponent(self) -> float:
        """Exponent of the loss nearer than d0."""
        if self.frequency is None:
            return self.exponent
        return 2.0  # free space, as at d0

    @property
    def _lossless_m(self) -> float:
        """Distance at which the law near the tower reaches 0 dB."""
        return float(self.reference_distance * 10.0 ** (-self._reference_loss_db / (10.0 * self._near_exponent)))

    @property
    def _reference_loss_db(self) -> float:
        if self.frequency is None:
            return self.reference_loss or 0.0
        return 20.0 * math.log10(4.0 * math.pi * self.reference_distance * self.frequency / LIGHT_M_S)
