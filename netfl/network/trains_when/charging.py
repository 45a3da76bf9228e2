"""Training while the battery is being charged."""

from __future__ import annotations

from typing import ClassVar

from netfl.network.trains_when import TrainingOccasion, TrainingRule
from netfl.types import Bools


class Charging(TrainingRule):
    """A user trains if its charger is plugged in, or its solar panel has light, when it could begin.

    A user without a battery trains always.  The training goes on if the source ends during it.

    Example::

        kind: charging
    """

    needs_batteries: ClassVar[bool] = True
    needs_charging_times: ClassVar[bool] = True

    def trains(self, occasion: TrainingOccasion) -> Bools:
        return occasion.is_charging
