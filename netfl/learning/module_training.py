"""Training mode of a `torch.nn.Module`: buffers, dropout, random draws, and an examination of what a module needs.

`netfl.learning.architecture.examine` runs a module on a few examples and returns its `ModuleTraits`.  They decide
whether a module is trained in its training mode, and whether `torch.func` can train several models in one call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

_BITS = 32
_LOW = (1 << _BITS) - 1
_MIXERS = (0x7FEB352D, 0x846CA68B)
"""Multipliers of the 32-bit mixing function "lowbias32" of C. Wellons' hash prospector."""
_GOLDEN = 0x9E3779B9
"""2³² divided by the golden ratio, by which the words of calls lie apart."""
_CHANNELS = {functional.dropout1d: 3, functional.dropout2d: 4, functional.dropout3d: 5}
"""Dimensions of batches for the dropouts of whole channels."""


@dataclass(frozen=True, slots=True)
class TrainingStep:
    """Properties of one training step of jobs side by side, for modules whose training mode differs.

    Args:
        counts: examples in the mini-batch of each job; what follows them in the batch is padding.
        keys: a random number for each job and step, ``[jobs]``, int64 below 2**62.
    """

    counts: Sequence[int]
    keys: Tensor


@dataclass(frozen=True, slots=True)
class ModuleTraits:
    """Behaviour of a module, by `examine`.

    Args:
        is_plain: training mode gives each example the scores of evaluation mode, whatever the other examples are.
        has_dropout: the module calls a dropout of `torch.nn.functional`.
        draws: in training mode it draws from PyTorch's generator, other than by such a dropout.
        needs_two: a mini-batch of one example cannot be trained: it has no variance.
        has_python_backward: the backward pass runs code of the module, which finds its parameters and buffers in place,
            as in gradient checkpointing.
        obstacle: reason why `torch.func` cannot batch the module; ``None`` if it can.
    """

    is_plain: bool
    has_dropout: bool = True
    draws: bool = True
    needs_two: bool = False
    has_python_backward: bool = True
    obstacle: str | None = None


PLAIN = ModuleTraits(is_plain=True, has_dropout=False, draws=False, has_python_backward=False)
UNKNOWN = ModuleTraits(is_plain=False, obstacle="it was not examined")
"""Traits with which every module is trained correctly, one model after the other."""


@dataclass(frozen=True, slots=True)
class ModuleParts:
    """Parameters and buffers of a module by name.

    Args:
        trained: parameters that are trained and sent.
        state: floating-point buffers that `state_dict` lists, such as running statistics; they are sent, too.
        counters: other buffers that `state_dict` lists, such as the number of batches; they start over in each update.
        fixed: frozen parameters, and buffers that `state_dict` does not list.
    """

    trained: Mapping[str, Tensor]
    state: Mapping[str, Tensor]
    counters: Mapping[str, Tensor]
    fixed: Mapping[str, Tensor]

    @classmethod
    def of(cls, module: nn.Module) -> ModuleParts:
        """Sort the parameters and buffers of *module*."""
        stored = module.state_dict(keep_vars=True)
        trained: dict[str, Tensor] = {}
        state: dict[str, Tensor] = {}
        counters: dict[str, Tensor] = {}
        fixed: dict[str, Tensor] = {}
        for name, parameter in module.named_parameters():
            if parameter.requires_grad:
                trained[name] = parameter
            else:
                fixed[name] = parameter
        for name, buffer in module.named_buffers():
            if name not in stored:
                fixed[name] = buffer
            elif buffer.is_floating_point():
                state[name] = buffer
            else:
                counters[name] = buffer
        return cls(trained, state, counters, fixed)

    def on(self, like: Tensor) -> ModuleParts:
        """Return the same parts with the fixed ones, and the counters, on the device of *like*."""

        def move(parts: Mapping[str, Tensor]) -> dict[str, Tensor]:
            return {name: part if part.is_meta else part.to(like.device) for name, part in parts.items()}

        return ModuleParts(self.trained, self.state, move(self.counters), move(self.fixed))

    @property
    def sent(self) -> dict[str, Tensor]:
        """Everything that an update carries, in the order of the flat vector: parameters, then state."""
        return {**self.trained, **self.state}


class KeyedDropout(TorchFunctionMode):
    """Replaces the draws of `torch.nn.functional.dropout` and of the dropouts of channels by a function of a key.

    The n-th call below this mode keeps entry i if a hash of (key, n, i) is at least p.  The masks of a job thus do not
    depend on the jobs beside it, on the device or on PyTorch's generator, and `torch.func.vmap` can batch them.

    Args:
        key: int64 below 2**62, a scalar.
    """

    def __init__(self, key: Tensor) -> None:
        super().__init__()
        self._key = key
        self.calls = 0

    def __torch_function__(
        self, func: Callable[..., Any], types: object, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        options = kwargs or {}
        if func is functional.dropout:
            return self._drop(func, *args, **options)
        if func in _CHANNELS and args and args[0].ndim == _CHANNELS[func]:
            return self._drop(func, *args, **options)
        return func(*args, **options)

    def _drop(
        self, func: Callable[..., Any], input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
    ) -> Tensor:
        if not training or not 0 < p < 1:
            return torch.as_tensor(func(input, p, training, inplace))
        self.calls += 1
        shape = input.shape
        if func is not functional.dropout:  # a channel is kept or dropped as a whole
            shape = torch.Size((*input.shape[:2], *[1] * (input.ndim - 2)))
        entries = torch.arange(shape.numel(), device=input.device).view(shape)
        low, high = self._key & _LOW, self._key >> _BITS
        of_entries = _mix(entries ^ low)
        words = _mix(of_entries + high + self.calls * _GOLDEN & _LOW)
        is_kept = words >= int(p * (1 << _BITS))
        mask = is_kept.to(input.dtype) / (1 - p)
        if inplace:
            return input.mul_(mask)
        return input * mask


def _mix(words: Tensor) -> Tensor:
    """Mix the bits of numbers below 2**32."""
    first, second = _MIXERS
    words = (words ^ (words >> 16)) * first & _LOW
    words = (words ^ (words >> 15)) * second & _LOW
    return words ^ (words >> 16)


class SeededDraws:
    """PyTorch's generators of a device, which a module draws from, with a seed for each job."""

    def __init__(self, device: torch.device) -> None:
        self._generators = [torch.default_generator]
        if device.type == "cuda":
            index = torch.cuda.current_device() if device.index is None else device.index
            self._generators.append(torch.cuda.default_generators[index])

    def seed(self, key: int) -> None:
        """Start the generators at *key*."""
        for generator in self._generators:
            generator.manual_seed(key)

    def have_drawn(self, key: int) -> bool:
        """Return whether somebody has drawn since `seed` was called with *key*."""
        states = [generator.get_state() for generator in self._generators]
        self.seed(key)
        seeded_states = [generator.get_state() for generator in self._generators]
        return not all(map(torch.equal, states, seeded_states))

    @contextmanager
    def restored(self) -> Iterator[None]:
        """Restore the generators at the end of the context."""
        states = [generator.get_state() for generator in self._generators]
        try:
            yield
        finally:
            for generator, state in zip(self._generators, states, strict=True):
                generator.set_state(state)
