"""Constant step sizes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from netfl.learning.schedule import Schedule


class Constant(Schedule):
    """Constant step sizes.

    Example::

        kind: constant
    """

    def factors(self, versions: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return 1 for all."""
        return np.ones(len(versions))
