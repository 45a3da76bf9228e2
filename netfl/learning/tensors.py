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


def runs_on_gpu(device: torch.device) -> bool:
    """Return whether *device* computes asynchronously, beside the host: every device but the CPU."""
    return device.type != "cpu"


def upload(array: NDArray[Any], device: torch.device, dtype: torch.dtype | None = None) -> Tensor:
    """Copy *array* to *device*, in *dtype* if given, without waiting for work that the device still has.

    The type is converted on the host, and pages are pinned: a copy from other memory would wait.
    """
    values = tensor(array)
    values = values if dtype is None else values.to(dtype)
    if device.type == "cuda":
        values = values.pin_memory()
    return values.to(device, non_blocking=runs_on_gpu(device))


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
    """Return the free memory of a GPU in bytes; 0 for another device, of which it is not known."""
    return int(torch.cuda.mem_get_info(device)[0]) if device.type == "cuda" else 0
