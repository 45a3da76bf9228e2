"""NumPy arrays as tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


def tensor(array: NDArray[Any]) -> Tensor:
    """*array* as a tensor, which shares its memory unless it is read-only or scattered."""
    return torch.from_numpy(np.require(array, requirements=["C", "W"]))
