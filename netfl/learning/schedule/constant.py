"""Step sizes that stay."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from netfl.learning.schedule import Schedule


class Constant(Schedule):
    """The step sizes stay as they are.

    Example::

        kind: constant
    """

    def factors(self, versions: NDArray[np.int64]) -> NDArray[np.float64]:
        """All 1."""
        return np.ones(len(versions))
