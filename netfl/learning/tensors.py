"""Conversion of NumPy arrays to tensors, and devices of torch."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from netfl.core.remedies import argument
from netfl.errors import Fault, ScenarioError
from netfl.types import Floats

Key = TypeVar("Key", bound=Hashable)
DTYPES = {"float32": torch.float32, "float64": torch.float64, "tf32": torch.float32, "bf16": torch.float32}
"""Types of parameters and examples by the ``precision`` of a scenario."""


def tensor(array: NDArray[Any]) -> Tensor:
    """Convert *array* to a tensor; it shares the memory unless the array is read-only or not contiguous."""
    flags = array.flags
    if not (flags.c_contiguous and flags.writeable):
        array = np.require(array, requirements=["C", "W"])
    return torch.from_numpy(array)


def runs_on_gpu(device: torch.device) -> bool:
    """Return whether *device* computes asynchronously, beside the host: every device but the CPU."""
    return device.type != "cpu"


def upload(array: NDArray[Any], device: torch.device, dtype: torch.dtype | None = None) -> Tensor:
    """Copy *array* to *device*, in *dtype* if given, without waiting for work that the device still has.

    The type is converted on the host, and pages are pinned: a copy from other memory would wait.
    """
    values = tensor(array)
    if dtype is not None:
        values = values.to(dtype)
    if not runs_on_gpu(device):
        return values
    if device.type == "cuda":
        values = values.pin_memory()
    return values.to(device, non_blocking=True)


def read_together(values: Mapping[Key, Tensor]) -> dict[Key, Floats]:
    """Copy *values* to the host as float64, all in one transfer."""
    if not values:
        return {}
    flat = torch.cat([value.double().flatten() for value in values.values()]).cpu().numpy()
    ends = np.cumsum([value.numel() for value in values.values()])
    on_host = {}
    for (key, value), part in zip(values.items(), np.split(flat, ends[:-1]), strict=True):
        on_host[key] = part.reshape(value.shape).copy()
    return on_host


def devices() -> list[str]:
    """Describe the available devices."""
    cuda = (f"cuda:{index} ({torch.cuda.get_device_name(index)})" for index in range(torch.cuda.device_count()))
    return [f"cpu ({torch.get_num_threads()} threads)", *cuda]


def device_of(name: str) -> torch.device:
    """Return the device *name*: ``cpu``, ``cuda``, ``cuda:N``, or ``auto`` for CUDA if available.

    Raises:
        ScenarioError: this machine does not have the device.
    """
    if name.startswith("cuda"):
        index = name.removeprefix("cuda").removeprefix(":") or "0"
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if not index.isdecimal() or int(index) >= count:
            problem = "no such device on this machine"
            remedy = f"write cuda:0 to cuda:{count - 1}, cpu or auto"
            if count == 0:
                problem = "this machine has no CUDA device"
                remedy = "write cpu or auto"
            raise ScenarioError([Fault(argument("device"), problem, name, remedy)])
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.device(name)


@contextmanager
def gpu_arithmetic(device: torch.device, has_tf32_products: bool) -> Iterator[None]:
    """Set how a GPU computes in the context: deterministic convolutions, and factors of products in TF32 or not.

    TF32 keeps 10 bits of the mantissa.  There is no effect on a CPU.
    """
    cudnn: Any = torch.backends.cudnn
    settings: tuple[tuple[Any, str, bool], ...] = (
        (torch.backends.cuda.matmul, "allow_tf32", has_tf32_products),
        (cudnn, "allow_tf32", has_tf32_products),
        (cudnn, "deterministic", True),
        (cudnn, "benchmark", False),
    )
    if device.type != "cuda":
        settings = ()
    before = [getattr(backend, name) for backend, name, _ in settings]
    try:
        for backend, name, value in settings:
            setattr(backend, name, value)
        yield
    finally:
        for (backend, name, _), value in zip(settings, before, strict=True):
            setattr(backend, name, value)


def gpu_name(device: torch.device) -> str:
    """Return the name of a GPU; an empty text for another device."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else ""


def free_gpu_memory(device: torch.device) -> int:
    """Return the free memory of a GPU in bytes; 0 for another device, of which it is not known."""
    return int(torch.cuda.mem_get_info(device)[0]) if device.type == "cuda" else 0
