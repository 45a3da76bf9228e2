"""Equal shares of the band, at full power and frequency."""

from __future__ import annotations

import numpy as np

from netfl.network.allocation import Allocation, AllocationRequest, Decision, full_power
from netfl.types import Law


class Equal(Allocation):
    """1/n of the band for each of the n users of a cell that are selected, full power and full frequency.

    Example::

        kind: equal
    """

    def allocate(self, request: AllocationRequest) -> Decision:
        return full_power(np.full(request.users, 1.0 / request.users))

    def laws(self) -> tuple[Law, ...]:
        return (Law.none("draws nothing"),)
