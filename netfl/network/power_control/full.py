"""Full power: every frame has the power of the radio."""

from __future__ import annotations

import numpy as np

from netfl.network.power_control import PowerControl, SenderLinks
from netfl.types import Floats, Law


class Full(PowerControl):
    """Every frame has the power of the radio, or less where an allocation gives less.

    Example::

        kind: full
    """

    is_full = True

    def power_db(self, links: SenderLinks) -> Floats:
        return np.zeros(len(links.users))

    def laws(self) -> tuple[Law, ...]:
        return (Law.none("all frames have full power, and nothing is drawn"),)
