"""Constant step sizes."""

from __future__ import annotations

import numpy as np

from netfl.learning.schedule import Schedule
from netfl.types import Floats, Ints


class Constant(Schedule):
    """Constant step sizes.

    Example::

        kind: constant
    """

    def factors(self, versions: Ints) -> Floats:
        return np.ones(len(versions))
