"""Training from each version."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from netfl.network.trains_when import TrainingOccasion, TrainingRule
from netfl.types import Bools


class Always(TrainingRule):
    """A user trains on every occasion.

    Example::

        kind: always
    """

    can_refuse: ClassVar[bool] = False

    def trains(self, occasion: TrainingOccasion) -> Bools:
        return np.ones(len(occasion.users), np.bool_)
