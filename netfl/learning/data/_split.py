"""How a set that comes whole is split into training and test examples."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from netfl.learning.data import Dataset


def split(x: NDArray[Any], y: NDArray[Any], test_share: float, seed: int) -> Dataset:
    """Scikit-learn's `train_test_split`, with *seed* as its random state, of examples whose labels count from 0."""
    from sklearn.model_selection import train_test_split  # noqa: PLC0415 - slow to import

    train_x, test_x, train_y, test_y = train_test_split(x, y, test_size=test_share, random_state=seed)
    return Dataset(
        train_x.astype(np.float32),
        train_y.astype(np.int64),
        test_x.astype(np.float32),
        test_y.astype(np.int64),
        int(y.max()) + 1,
    )
