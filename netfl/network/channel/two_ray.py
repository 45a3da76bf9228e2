"""Path loss over flat ground: a direct ray and a ground reflection."""

from __future__ import annotations

import math
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from netfl.network.channel import LinkGain, NearLimit, distance_gain
from netfl.network.channel._path_loss import PathLoss, friis_db, refuse_near_field
from netfl.network.layout import LIGHT_M_S, Layout
from netfl.streams import Streams
from netfl.types import Floats
from netfl.units import Carrier, Metres


class TwoRay(PathLoss):
    """Two-ray ground reflection: towers at height ht, users at hr, flat ground that reflects with coefficient -1.

    ``interference``: the rays add with their phases.  With lengths l1 = √(d² + (ht - hr)²) and l2 = √(d² + (ht + hr)²)
    and wavelength λ = c / f, the gain is (λ/4π)² |exp(-2πi l1/λ) / l1 - exp(-2πi l2/λ) / l2|²: near the tower it
    oscillates between nulls and 6 dB above free space.

    ``crossover``: free space up to dc = 4π ht hr / λ, and PL = 40 log10 d - 20 log10(ht hr) beyond, which
    ``interference`` approaches; the two forms meet at dc.

    T. S. Rappaport, "Wireless Communications", 2nd ed., §4.6; A. Goldsmith, "Wireless Communications", §2.4.1.
    The reflection is -1 at grazing incidence (d much larger than the heights) for both polarisations.  Far field: a
    static user nearer than λ is an error; a moving user nearer than λ has the loss at d = λ.

    Example::

        kind: two_ray
        frequency: 868 MHz
        tower_height: 15 m
        user_height: 1.5 m
    """

    frequency: Carrier
    """Carrier frequency f."""
    tower_height: Annotated[Metres, Field(gt=0)]
    """ht, above the ground."""
    user_height: Annotated[Metres, Field(gt=0)]
    """hr, above the ground."""
    form: Literal["interference", "crossover"] = "crossover"
    """Exact sum of the rays, or free space with the fourth power beyond the crossover distance."""

    @property
    def crossover_m(self) -> float:
        """Distance dc at which free space and the fourth power meet."""
        return 4.0 * math.pi * self.tower_height * self.user_height / self._wavelength_m

    @property
    def carrier_hz(self) -> float:
        return self.frequency

    @property
    def near_limit(self) -> NearLimit:
        return NearLimit(self._wavelength_m)

    def open(self, layout: Layout, streams: Streams) -> LinkGain:
        refuse_near_field(layout, self._wavelength_m)
        if self.form == "crossover":
            return distance_gain(layout, self._crossover_db)
        direct_m, reflected_m = self._rays_m(np.zeros(1))
        in_phase = (1.0 / direct_m + 1.0 / reflected_m) ** 2  # the strongest sum, next to the tower
        return distance_gain(layout, self._interference_db, min_loss_db=float(self._loss_db(in_phase)[0]))

    @property
    def _wavelength_m(self) -> float:
        return LIGHT_M_S / self.frequency

    def _crossover_db(self, distance_m: Floats) -> Floats:
        far_field_m = np.maximum(distance_m, self._wavelength_m)
        far_db = 40.0 * np.log10(far_field_m) - 20.0 * math.log10(self.tower_height * self.user_height)
        return np.where(far_field_m > self.crossover_m, far_db, friis_db(self.frequency, far_field_m))

    def _interference_db(self, distance_m: Floats) -> Floats:
        """Return the loss by |a - b exp(iφ)|² = (a - b)² + 4ab sin²(φ/2), which avoids cancellation far away.

        a = 1/l1, b = 1/l2, a - b = (l2 - l1) / (l1 l2), φ = 2π (l2 - l1) / λ, with l2 - l1 = 4 ht hr / (l1 + l2).
        """
        l1, l2 = self._rays_m(distance_m)
        difference_m = 4.0 * self.tower_height * self.user_height / (l1 + l2)  # l2 - l1
        sin_squared = np.sin(np.pi * difference_m / self._wavelength_m) ** 2
        return self._loss_db((difference_m / (l1 * l2)) ** 2 + 4.0 * sin_squared / (l1 * l2))

    def _rays_m(self, distance_m: Floats) -> tuple[Floats, Floats]:
        """Return the lengths l1 and l2 of the rays."""
        far_field_m = np.maximum(distance_m, self._wavelength_m)
        return (
            np.hypot(far_field_m, self.tower_height - self.user_height),
            np.hypot(far_field_m, self.tower_height + self.user_height),
        )

    def _loss_db(self, sum_of_rays: Floats) -> Floats:
        """Return the loss for |Σ exp(iφ)/l|²."""
        return np.asarray(20.0 * math.log10(4.0 * math.pi / self._wavelength_m) - 10.0 * np.log10(sum_of_rays))
