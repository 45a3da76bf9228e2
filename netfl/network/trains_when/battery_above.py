"""Training with enough charge."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from netfl.network.trains_when import TrainingOccasion, TrainingRule
from netfl.types import Bools
from netfl.units import Probability


class BatteryAbove(TrainingRule):
    """A user trains if its battery has at least a share of its capacity when it could begin.

    A version that the user has paid for no longer counts to the charge.  A user without a battery trains always.  The
    short form is ``{battery_above: 0.3}``.

    Example::

        kind: battery_above
        share: 0.3
    """

    short_key: ClassVar[str] = "share"
    needs_batteries: ClassVar[bool] = True

    share: Probability
    """Least charge, as a share of the capacity."""

    def trains(self, occasion: TrainingOccasion) -> Bools:
        return np.asarray(occasion.charge >= self.share)
