"""Stacks of any network that PyTorch can differentiate, a `torch.nn.Module`, under a cross-entropy."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.func import functional_call, vmap

from netfl.learning.architecture import Architecture, BatchedModel
from netfl.streams import Streams


class ModuleArchitecture(Architecture):
    """A module as a network.

    Args:
        module: what turns examples, ``[batch, *shape]``, into scores, ``[batch, classes]``; its own parameters are not
            used, and may be on the meta device.
        begin: draws parameters to start from.
        by_hand: a faster stack for the processor, if there is one.
        together: the same module in operations that can be batched over models, where *module* has others.
        tokens: whether examples are rows of tokens, which the module gets as whole numbers.
    """

    def __init__(
        self,
        module: nn.Module,
        begin: Callable[[Streams], NDArray[np.float64]],
        *,
        by_hand: Callable[..., BatchedModel] | None = None,
        together: nn.Module | None = None,
        tokens: bool = False,
    ) -> None:
        self.module, self.together = module, together or module
        self._begin, self._by_hand, self._tokens = begin, by_hand, tokens

    @property
    def size(self) -> int:
        """The number of the module's parameters."""
        return sum(part.numel() for part in self.module.parameters())

    @property
    def layout(self) -> dict[str, tuple[int, ...]]:
        """The module's parameters by their names."""
        return {name: tuple(part.shape) for name, part in self.module.named_parameters()}

    def start(self, streams: Streams) -> NDArray[np.float64]:
        """As the model says."""
        return self._begin(streams)

    def open(self, theta: Tensor, trained: bool = True) -> BatchedModel:
        """The stack for the device that *theta* is on: the one place that decides.

        A processor has its hands full with one model of this size, so there models take turns, in layers written out
        by hand where those were measured to be faster.  A GPU has not, and gets all models in one call.
        """
        if theta.is_cuda:
            return VmappedModels(theta, self.together, self._tokens, trained)
        if self._by_hand is not None:
            return self._by_hand(theta, trained=trained)
        return SequentialModels(theta, self.module, self._tokens, trained)


class _Differentiated(BatchedModel):
    """Parameters by name, ``[models, *shape]`` each, and a cross-entropy whose gradient is known.

    Args:
        theta: ``[models, parameters]``.
        module: what to do with them.
        tokens: whether examples are rows of tokens.
        trained: whether the models will `descend`.
    """

    def __init__(self, theta: Tensor, module: nn.Module, tokens: bool, trained: bool = True) -> None:
        self._module, self._tokens, self._trained = module, tokens, trained
        with torch.inference_mode(False):
            pieces = torch.split(theta, [part.numel() for part in module.parameters()], dim=1)
            self._values = {
                name: piece.reshape(-1, *part.shape).clone(memory_format=torch.contiguous_format)
                for piece, (name, part) in zip(pieces, module.named_parameters(), strict=True)
            }
            self._fixed = {
                name: buffer.to(theta if buffer.is_floating_point() else theta.device)
                for name, buffer in module.named_buffers()
            }
        self._log = self._labels = theta

    def scores(self, x: Tensor) -> Tensor:
        """What the module makes of the examples."""
        with torch.inference_mode(not self._trained), torch.set_grad_enabled(self._trained):
            self._log = self._forward(x)
        return self._log

    def losses(self, y: Tensor) -> Tensor:
        """The cross-entropies."""
        self._log, self._labels = torch.log_softmax(self._log, 2), y[..., None]
        return self._log.gather(2, self._labels)[..., 0].neg_()

    def descend(self, weights: Tensor) -> None:
        """Back-propagate by autograd."""
        ones = torch.ones((), dtype=weights.dtype, device=weights.device).expand(self._labels.shape)
        slopes = self._log.exp_().scatter_add_(2, self._labels, -ones).mul_(weights[..., None])
        with torch.inference_mode(False):
            self._backward(slopes.clone(), weights)

    def values(self, models: int) -> list[Tensor]:
        """The parameters as the module has them."""
        return [value[:models] for value in self._values.values()]

    def store(self, into: Tensor) -> None:
        """One parameter after the other."""
        sizes = [math.prod(value.shape[1:]) for value in self._values.values()]
        for piece, value in zip(torch.split(into, sizes, dim=1), self._values.values(), strict=True):
            piece.copy_(value[: len(into)].flatten(1))

    def _ready(self, x: Tensor) -> Tensor:
        """A copy of examples, ``[batch, *shape]``, that autograd may keep."""
        return x.long() if self._tokens else x.clone(memory_format=torch.contiguous_format)

    @abstractmethod
    def _forward(self, x: Tensor) -> Tensor:
        """The scores, ``[models, batch, classes]``, without their history, which is remembered."""

    @abstractmethod
    def _backward(self, slopes: Tensor, weights: Tensor) -> None:
        """Subtract the gradient, given that of the scores, ``[models, batch, classes]``."""


class SequentialModels(_Differentiated):
    """Models take turns; one whose examples all weigh nothing is left out of the backward pass.

    The history of a forward pass is let go of only when the next one takes its place: memory that is given back all at
    once goes to the system, and to get it again was measured to cost a fifth of the time.
    """

    def __init__(self, theta: Tensor, module: nn.Module, tokens: bool, trained: bool = True) -> None:
        super().__init__(theta, module, tokens, trained)
        self._passes: list[tuple[Tensor, Sequence[Tensor]]] = []

    def _forward(self, x: Tensor) -> Tensor:
        """One forward pass for each model."""
        shared = self._ready(x[0]) if x.stride(0) == 0 else None
        scores = []
        for model, own in enumerate(x):
            leaves = {name: value[model].detach().requires_grad_() for name, value in self._values.items()}
            examples = self._ready(own) if shared is None else shared
            found = functional_call(self._module, leaves | self._fixed, (examples,))
            if self._trained:
                self._passes[model : model + 1] = [(found, [*leaves.values()])]
            scores.append(found.detach())
        return torch.stack(scores)

    def _backward(self, slopes: Tensor, weights: Tensor) -> None:
        """One backward pass for each model that moves."""
        for model in weighted_models(weights):
            found, leaves = self._passes[model]
            steps = torch.autograd.grad(found, leaves, slopes[model], retain_graph=True, materialize_grads=True)
            for value, step in zip(self._values.values(), steps, strict=True):
                value.data[model].sub_(step)  # not counted as a change by the passes of the other models


class VmappedModels(_Differentiated):
    """All models in one call: the module batched over its parameters by `torch.func.vmap`."""

    def _forward(self, x: Tensor) -> Tensor:
        """One forward pass for all."""
        if len(x) > 1 and x.stride(0) == 0:
            own, of = self._ready(x[0]), None
        else:
            own, of = self._ready(x.flatten(0, 1)).view(x.shape), 0
        self._leaves = {name: value[: len(x)].detach().requires_grad_() for name, value in self._values.items()}

        def one(leaves: dict[str, Tensor], examples: Tensor) -> Tensor:
            return torch.as_tensor(functional_call(self._module, leaves | self._fixed, (examples,)))

        self._found = vmap(one, in_dims=(0, of))(self._leaves, own)
        return self._found.detach()

    def _backward(self, slopes: Tensor, weights: Tensor) -> None:
        """One backward pass for all."""
        steps = torch.autograd.grad(self._found, [*self._leaves.values()], slopes, materialize_grads=True)
        for value, step in zip(self._values.values(), steps, strict=True):
            value[: len(step)].sub_(step)


def weighted_models(weights: Tensor) -> Iterator[int]:
    """The models that have an example of any weight."""
    return (model for model, moves in enumerate(weights.any(1).tolist()) if moves)
