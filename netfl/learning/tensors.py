"""Conversion of NumPy arrays to tensors, and devices of torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from netfl.errors import Fault, ScenarioError

DTYPES = {"float32": torch.float32, "float64": torch.float64}
"""Types by the ``precision`` of a scenario."""


def tensor(array: NDArray[Any]) -> Tensor:
    """Convert *array* to a tensor; it shares the memory unless the array is read-only or not contiguous."""
    return torch.from_numpy(np.require(array, requirements=["C", "W"]))


def devices() -> list[str]:
    """Describe the available devices."""
    cuda = (f"cuda:{index} ({torch.cuda.get_device_name(index)})" for index in range(torch.cuda.device_count()))
    return [f"cpu ({torch.get_num_threads()} threads)", *cuda]


def device_of(name: str) -> torch.device:
    """Return the device *name*: ``cpu``, ``cuda``, or ``auto`` for CUDA if available.

    Raises:
        ScenarioError: the device does not exist.
    """
    if name == "cuda" and not torch.cuda.is_available():
        raise ScenarioError([Fault("--device", "this machine has no CUDA device", name, "write cpu or auto")])
    return torch.device(("cuda" if torch.cuda.is_available() else "cpu") if name == "auto" else name)


def free_gpu_memory(device: torch.device) -> int:
    """Return the free memory of a GPU in bytes."""
    return int(torch.cuda.mem_get_info(device)[0])
