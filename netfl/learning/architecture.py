"""Interface between models and local training, and the usual way to implement it: a `torch.nn.Module`.

`Architecture` describes one model: its parameters as a flat vector, and their initial values.  `BatchedModel` holds
several models of one architecture side by side, and trains or evaluates all of them at once.
`netfl.learning.local_training` calls ``scores``, ``losses`` and ``descend`` in each SGD step.  `ModuleArchitecture`
makes both from a module, by autograd.  Dense and convolutional models compute their gradients by hand
(`netfl.learning.model._manual_dense`, `netfl.learning.model._manual_conv`).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from netfl.streams import Streams
from netfl.types import Floats


class BatchedModel(ABC):
    """Models side by side, each with its own parameters, in the layout that suits its arithmetic.

    `scores` runs the first models, as many as there are examples for; `losses` and `descend` use its results.  The
    caller puts models that stop early last.
    """

    @abstractmethod
    def scores(self, x: Tensor) -> Tensor:
        """Return the score of each class, ``[models, batch, classes]``; the largest is the prediction.

        Args:
            x: examples, ``[models, batch, *shape]``; may be an expanded view, and may be overwritten after `descend`.
        """

    @abstractmethod
    def losses(self, y: Tensor) -> Tensor:
        """Return the loss of each example of the last `scores` for the labels *y*; both ``[models, batch]``."""

    @abstractmethod
    def descend(self, weights: Tensor) -> None:
        """Move the parameters of each model by ``-Σ_b weights_b ∇ℓ_b``, with the last `losses`.

        Args:
            weights: ``[models, batch]``, including the step size.
        """

    @abstractmethod
    def values(self, models: int) -> Sequence[Tensor]:
        """Return the parameters of the first *models*, ``[models, …]`` each, as views for changes in place.

        The layout is the same for all batched models of one architecture, so values of one can be added to another.
        """

    @abstractmethod
    def store(self, into: Tensor) -> None:
        """Copy the parameters of all models to *into*, ``[models, parameters]``."""


class Architecture(ABC):
    """The parameters of a model, and how to open a `BatchedModel`."""

    @property
    @abstractmethod
    def size(self) -> int:
        """Number of parameters."""

    @property
    @abstractmethod
    def layout(self) -> Mapping[str, tuple[int, ...]]:
        """Names and shapes of the parameters, in the order of the flat vector."""

    @abstractmethod
    def start(self, streams: Streams) -> Floats:
        """Draw initial parameters from *streams*, ``[parameters]``."""

    @abstractmethod
    def open(self, theta: Tensor, trained: bool = True) -> BatchedModel:
        """Open models with the parameters *theta*, ``[models, parameters]``, which are not changed.

        Args:
            theta: the parameters.
            trained: whether `BatchedModel.descend` will be called; if not, less memory is needed.
        """


class ModuleArchitecture(Architecture):
    """A `torch.nn.Module` as an architecture, under a cross-entropy.

    Args:
        module: maps examples, ``[batch, *shape]``, to scores, ``[batch, classes]``; its parameters are not used, and
            may be on the meta device.
        start: draws initial parameters.
        cpu_model: a faster implementation for the CPU, if any.
        vmap_module: the same module in operations that `vmap` supports, if those of *module* are not.
        has_tokens: examples are rows of tokens, which the module gets as whole numbers.
    """

    def __init__(
        self,
        module: nn.Module,
        start: Callable[[Streams], Floats],
        *,
        cpu_model: Callable[..., BatchedModel] | None = None,
        vmap_module: nn.Module | None = None,
        has_tokens: bool = False,
    ) -> None:
        self.module, self.vmap_module = module, vmap_module or module
        self._start, self._cpu_model, self._has_tokens = start, cpu_model, has_tokens

    @property
    def size(self) -> int:
        return sum(part.numel() for part in self.module.parameters())

    @property
    def layout(self) -> dict[str, tuple[int, ...]]:
        return {name: tuple(part.shape) for name, part in self.module.named_parameters()}

    def start(self, streams: Streams) -> Floats:
        return self._start(streams)

    def open(self, theta: Tensor, trained: bool = True) -> BatchedModel:
        # one model of this size occupies a CPU, so there models run one after the other; a GPU runs all in one call
        if theta.is_cuda:
            return VmappedModels(theta, self.vmap_module, self._has_tokens, trained)
        if self._cpu_model is not None:
            return self._cpu_model(theta, trained=trained)
        return SequentialModels(theta, self.module, self._has_tokens, trained)


class _AutogradModels(BatchedModel):
    """Parameters by name, ``[models, *shape]`` each, and a cross-entropy with its gradient in closed form.

    Args:
        theta: ``[models, parameters]``.
        module: maps examples to scores.
        has_tokens: examples are rows of tokens.
        trained: the models will `descend`.
    """

    def __init__(self, theta: Tensor, module: nn.Module, has_tokens: bool, trained: bool = True) -> None:
        self._module, self._has_tokens, self._trained = module, has_tokens, trained
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
        with torch.inference_mode(not self._trained), torch.set_grad_enabled(self._trained):
            self._log = self._forward(x)
        return self._log

    def losses(self, y: Tensor) -> Tensor:
        self._log, self._labels = torch.log_softmax(self._log, 2), y[..., None]
        return self._log.gather(2, self._labels)[..., 0].neg_()

    def descend(self, weights: Tensor) -> None:
        ones = torch.ones((), dtype=weights.dtype, device=weights.device).expand(self._labels.shape)
        slopes = self._log.exp_().scatter_add_(2, self._labels, -ones).mul_(weights[..., None])
        with torch.inference_mode(False):
            self._backward(slopes.clone(), weights)

    def values(self, models: int) -> list[Tensor]:
        return [value[:models] for value in self._values.values()]

    def store(self, into: Tensor) -> None:
        sizes = [math.prod(value.shape[1:]) for value in self._values.values()]
        for piece, value in zip(torch.split(into, sizes, dim=1), self._values.values(), strict=True):
            piece.copy_(value[: len(into)].flatten(1))

    def _copy_examples(self, x: Tensor) -> Tensor:
        """Return a copy of examples, ``[batch, *shape]``, that autograd may keep."""
        return x.long() if self._has_tokens else x.clone(memory_format=torch.contiguous_format)

    @abstractmethod
    def _forward(self, x: Tensor) -> Tensor:
        """Return scores, ``[models, batch, classes]``, detached from the graph, which is kept."""

    @abstractmethod
    def _backward(self, slopes: Tensor, weights: Tensor) -> None:
        """Subtract the gradient of the parameters, given that of the scores, ``[models, batch, classes]``."""


class SequentialModels(_AutogradModels):
    """Models run one after the other; models whose examples have zero weight skip the backward pass.

    The graph of a forward pass is released only when the next one replaces it: memory that is freed all at once
    returns to the system, and to allocate it again was measured to take a fifth of the time.
    """

    def __init__(self, theta: Tensor, module: nn.Module, has_tokens: bool, trained: bool = True) -> None:
        super().__init__(theta, module, has_tokens, trained)
        self._passes: list[tuple[Tensor, Sequence[Tensor]]] = []

    def _forward(self, x: Tensor) -> Tensor:
        shared = self._copy_examples(x[0]) if x.stride(0) == 0 else None
        scores = []
        for model, examples in enumerate(x):
            leaves = {name: value[model].detach().requires_grad_() for name, value in self._values.items()}
            batch = self._copy_examples(examples) if shared is None else shared
            output = functional_call(self._module, leaves | self._fixed, (batch,))
            if self._trained:
                self._passes[model : model + 1] = [(output, [*leaves.values()])]
            scores.append(output.detach())
        return torch.stack(scores)

    def _backward(self, slopes: Tensor, weights: Tensor) -> None:
        for model in weighted_models(weights):
            output, leaves = self._passes[model]
            steps = torch.autograd.grad(output, leaves, slopes[model], retain_graph=True, materialize_grads=True)
            for value, step in zip(self._values.values(), steps, strict=True):
                value.data[model].sub_(step)  # not counted as a change by the passes of the other models


class VmappedModels(_AutogradModels):
    """Models that run in one call: the module batched over its parameters by `torch.func.vmap`."""

    def _forward(self, x: Tensor) -> Tensor:
        if len(x) > 1 and x.stride(0) == 0:
            batch, dim = self._copy_examples(x[0]), None
        else:
            batch, dim = self._copy_examples(x.flatten(0, 1)).view(x.shape), 0
        self._leaves = {name: value[: len(x)].detach().requires_grad_() for name, value in self._values.items()}

        def forward(leaves: dict[str, Tensor], examples: Tensor) -> Tensor:
            return torch.as_tensor(functional_call(self._module, leaves | self._fixed, (examples,)))

        self._output = vmap(forward, in_dims=(0, dim))(self._leaves, batch)
        return self._output.detach()

    def _backward(self, slopes: Tensor, weights: Tensor) -> None:
        steps = torch.autograd.grad(self._output, [*self._leaves.values()], slopes, materialize_grads=True)
        for value, step in zip(self._values.values(), steps, strict=True):
            value[: len(step)].sub_(step)


def weighted_models(weights: Tensor) -> Iterator[int]:
    """Yield the models with an example of nonzero weight."""
    return (model for model, has_weight in enumerate(weights.any(1).tolist()) if has_weight)
