"""Equal shares of the band, at full power and frequency."""

from __future__ import annotations

import numpy as np

from netfl.network._band_division import divide_in_proportion
from netfl.network.allocation import Allocation, AllocationRequest, Decision, full_power
from netfl.types import Law


class Equal(Allocation):
    """1/n of the band for each of the n users of a cell that are selected, full power and full frequency.

    What a radio that is narrower than its share leaves over is divided equally among the others.

    Example::

        kind: equal
    """

    def allocate(self, request: AllocationRequest) -> Decision:
        return full_power(divide_in_proportion(np.ones(request.users), request.limits))

    def laws(self) -> tuple[Law, ...]:
        return (Law.none("draws nothing"),)
