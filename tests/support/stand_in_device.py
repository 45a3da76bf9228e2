"""A device that stands in for a GPU: its tensors are computed on the CPU, but the program sees them elsewhere.

Tensors of the stand-in report the device ``meta``, so that the program takes the way of a GPU.  Their values are real
and can be compared with those of the CPU.  `StandInDevice` lists the operations that would make the host wait for a
GPU: reads of values, results whose size depends on values, and copies that do not use ``non_blocking``.  As on a GPU,
an operation on tensors of both devices is an error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

DEVICE = torch.device("meta")
_READS = {
    "_local_scalar_dense", "_unique2", "allclose", "bincount", "equal", "is_nonzero", "masked_select", "nonzero",
    "unique_consecutive", "unique_dim",
}  # fmt: skip
"""Operations whose result, or its size, the host must know."""
_SIZED = {"repeat_interleave": "output_size", "segment_reduce": "unsafe"}
"""Operations that read values unless this option is given."""
_COPIES = {"_to_copy", "copy_"}
_ALLOCATIONS = {
    "empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "lift_fresh", "_reshape_alias",
    "_unsafe_view",
}  # fmt: skip
"""Operations that compute nothing, besides views."""
_INDEXED = {"index", "index_put", "index_put_", "_unsafe_index", "_index_put_impl_"}


class DeviceTensor(Tensor):
    """A tensor of the stand-in, which holds a tensor of the CPU."""

    held: Tensor

    @staticmethod
    def __new__(cls, held: Tensor) -> DeviceTensor:
        with torch.inference_mode(False):  # autograd cannot make views of tensors of that mode
            made = Tensor._make_wrapper_subclass(
                cls, held.size(), strides=held.stride(), storage_offset=held.storage_offset(), dtype=held.dtype,
                device=DEVICE,
            )  # fmt: skip
        made.held = held
        return made

    def __repr__(self) -> str:
        return f"DeviceTensor({self.held})"

    @classmethod
    def __torch_function__(
        cls, func: Any, types: object, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        options = dict(kwargs or {})
        with torch._C.DisableTorchFunctionSubclass():
            if func is Tensor.new_tensor:  # on the device ``meta``, PyTorch would drop the values
                options = {"dtype": args[0].dtype, "device": args[0].device} | options
                return torch.tensor(args[1], dtype=options["dtype"]).to(options["device"])
            if func is Tensor.tolist:
                return args[0].cpu().tolist()
            if func is Tensor.numpy:
                raise TypeError("a tensor of the device cannot be converted to NumPy")
            return func(*args, **options)

    @classmethod
    def __torch_dispatch__(
        cls, func: Any, types: object, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        return _execute(func, args, kwargs or {})


class StandInDevice(TorchDispatchMode):
    """Context in which tensors can be moved to `DEVICE`.

    Attributes:
        synchronisations: the operations that synchronise the host with the device.
        launches: number of operations that a GPU computes, copies included, without views and allocations.
    """

    def __init__(self) -> None:
        super().__init__()
        self.synchronisations: list[str] = []
        self.launches = 0

    def __torch_dispatch__(
        self, func: Any, types: object, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        options = kwargs or {}
        if torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), "CompositeImplicitAutograd"):
            with self:  # in inference mode, operations that consist of others arrive whole
                return func.decompose(*args, **options)
        flat, _ = tree_flatten((args, options))
        if any(isinstance(value, DeviceTensor) for value in flat) or options.get("device") == DEVICE:
            self.launches += not (func.is_view or func._schema.name.removeprefix("aten::") in _ALLOCATIONS)
            if reason := _synchronisation(func, args, options):
                self.synchronisations.append(reason)
        return _execute(func, args, options)


def _synchronisation(func: Any, args: Sequence[Any], options: Mapping[str, Any]) -> str:
    """Return the reason why the host waits in a call, or an empty string."""
    name = func._schema.name.removeprefix("aten::")
    if name in _COPIES:
        is_blocking = not (options.get("non_blocking") or (name == "copy_" and True in args[2:]))
        source = args[0] if name == "_to_copy" else args[1]
        is_source = isinstance(source, DeviceTensor)
        target = options.get("device", source.device) if name == "_to_copy" else args[0].device
        if is_source != (target == DEVICE) and (is_blocking or is_source):  # values that are read are used at once
            return f"{name} {'from' if is_source else 'to'} the device, {tuple(source.shape)}"
    elif name in _INDEXED:
        indices = [index for index in args[1] if index is not None]
        if any(index.dtype in {torch.bool, torch.uint8} for index in indices):
            return f"{name} with a mask"
        if any(not isinstance(index, DeviceTensor) for index in indices):
            return f"{name} with an index of the host"
    elif name in _READS or (name in _SIZED and not options.get(_SIZED[name])):
        return name
    return ""


def _execute(func: Any, args: Sequence[Any], options: Mapping[str, Any]) -> Any:
    """Execute an operation on the held tensors; wrap its results if they belong on the device."""
    name = func._schema.name.removeprefix("aten::")
    flat, _ = tree_flatten((args, options))
    wrappers = {id(value.held): value for value in flat if isinstance(value, DeviceTensor)}
    if wrappers and name not in _COPIES | _INDEXED:
        for value in flat:
            if isinstance(value, Tensor) and not isinstance(value, DeviceTensor) and value.ndim:
                raise RuntimeError(f"{func}: expected all tensors on one device, found {value.shape} on the CPU")
    target = options.get("device", DEVICE if wrappers else None)
    options = {key: torch.device("cpu") if value == DEVICE else value for key, value in options.items()}
    held_args, held_options = tree_map(
        lambda value: value.held if isinstance(value, DeviceTensor) else value, (args, options)
    )
    results = func(*held_args, **held_options)
    if name == "copy_" and not isinstance(args[0], DeviceTensor):
        return args[0]
    if target is None or torch.device(target) != DEVICE:
        return results

    def wrap(value: Any) -> Any:
        if not isinstance(value, Tensor):
            return value
        return wrappers[id(value)] if id(value) in wrappers else DeviceTensor(value)

    return tree_map(wrap, results)
