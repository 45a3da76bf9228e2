"""NumPy arrays as tensors, and where tensors are."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from netfl.errors import Fault, ScenarioError

DTYPES = {"float32": torch.float32, "float64": torch.float64}
"""What a scenario may say of the precision."""


def tensor(array: NDArray[Any]) -> Tensor:
    """*array* as a tensor, which shares its memory unless it is read-only or scattered."""
    return torch.from_numpy(np.require(array, requirements=["C", "W"]))


def devices() -> list[str]:
    """What there is to compute on, each in words."""
    cuda = (f"cuda:{index} ({torch.cuda.get_device_name(index)})" for index in range(torch.cuda.device_count()))
    return [f"cpu ({torch.get_num_threads()} threads)", *cuda]


def device_of(name: str) -> torch.device:
    """The device called *name*: ``cpu``, ``cuda``, or ``auto`` for the one that is there.

    Raises:
        ScenarioError: it is not there.
    """
    if name == "cuda" and not torch.cuda.is_available():
        raise ScenarioError([Fault("--device", "there is no CUDA device here", name, "write cpu or auto")])
    return torch.device(("cuda" if torch.cuda.is_available() else "cpu") if name == "auto" else name)
