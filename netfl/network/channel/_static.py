"""A gain that does not change with time."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from netfl.network.channel import Gain


class StaticGain(Gain):
    """One gain for each user, for good."""

    def __init__(self, gain_db: NDArray[np.float64]) -> None:
        self._gain_db = gain_db

    def gain_db(self, users: NDArray[np.int64], time_s: ArrayLike) -> NDArray[np.float64]:
        """Each user's gain."""
        return self._gain_db[users]

    def peak_db(self, users: NDArray[np.int64]) -> NDArray[np.float64]:
        """The same."""
        return self._gain_db[users]
