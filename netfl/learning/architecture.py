"""Interface between models and local training, and the usual way to implement it: a `torch.nn.Module`.

`Architecture` describes one model: the flat vector of its parameters and buffers, and their initial values.
`BatchedModel` holds several models of one architecture side by side, and trains or evaluates all of them at once.
`netfl.learning.local_training` calls ``scores`` or ``training_scores``, ``losses`` and ``descend`` in each SGD step.
`ModuleArchitecture` makes both from a module, by autograd; `netfl.learning.module_training` has what its training mode
needs.  Dense and convolutional models compute their gradients by hand (`netfl.learning.model._manual_dense`,
`netfl.learning.model._manual_conv`).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from netfl.core.plugins import Overridable, one_line
from netfl.learning.batch_limits import is_faster_batched
from netfl.learning.module_training import (
    UNKNOWN,
    KeyedDropout,
    ModuleParts,
    ModuleTraits,
    SeededDraws,
    TrainingStep,
)
from netfl.learning.tensors import runs_on_gpu, upload
from netfl.streams import Streams
from netfl.types import Floats

Loss = Callable[[Tensor, Tensor], Tensor]
"""Function from the scores of examples, ``[n, outputs]``, and their labels, ``[n]``, or targets, ``[n, outputs]``, to
the loss of each example, ``[n]``."""


class BatchedModel(Overridable, ABC):
    """Models side by side, each with its own parameters, in the layout that suits its arithmetic.

    `scores` runs the first models, as many as there are examples for; `losses` and `descend` use its results.  The
    caller puts models that stop early last.
    """

    @abstractmethod
    def scores(self, x: Tensor) -> Tensor:
        """Return the score of each class, ``[models, batch, classes]``; the largest is the prediction.

        In a regression, these are the predicted values, ``[models, batch, outputs]``.

        Args:
            x: examples, ``[models, batch, *shape]``; may be an expanded view, and may be overwritten after `descend`.
        """

    def training_scores(self, x: Tensor, step: TrainingStep) -> Tensor:
        """Return the `scores` in a training step; by default they are the same.

        Models with running statistics update them here, and models with dropout draw their masks by the keys of *step*.
        The scores of padding are arbitrary finite numbers.
        """
        return self.scores(x)

    @abstractmethod
    def losses(self, y: Tensor) -> Tensor:
        """Return the loss of each example of the last `scores`, ``[models, batch]``.

        Args:
            y: labels, ``[models, batch]``, or the targets of a regression, ``[models, batch, outputs]``.
        """

    def take_labels(self, y: Tensor) -> None:
        """Take the labels or targets for `descend`, in place of `losses` if these are not needed."""
        self.losses(y)

    @abstractmethod
    def descend(self, weights: Tensor) -> None:
        """Move the parameters of each model by ``-Σ_b weights_b ∇ℓ_b``, with the last `losses` or `take_labels`.

        Args:
            weights: ``[models, batch]``, including the step size.
        """

    @abstractmethod
    def values(self, models: int) -> Sequence[Tensor]:
        """Return the trained parameters of the first *models*, ``[models, …]`` each, as views for changes in place.

        The layout is the same for all batched models of one architecture, so values of one can be added to another.
        """

    @abstractmethod
    def store(self, into: Tensor) -> None:
        """Copy the parameters, and after them the buffers, of all models to *into*, ``[models, size]``."""

    def finish(self, t: Tensor, size: int) -> Tensor:
        """Return what `store` copies, followed by *t*, ``[models, size + 1]``; the models are not used any more.

        Args:
            t: of each model, ``[models]``.
            size: length of the flat vector.
        """
        vectors = t.new_empty(len(t), size + 1)
        self.store(vectors[:, :-1])
        vectors[:, -1] = t
        return vectors


class Architecture(Overridable, ABC):
    """The parameters of a model, and how to open a `BatchedModel`."""

    has_bf16_products: bool = False
    """True if trained models round the factors of products to bfloat16; parameters and sums keep their type."""

    @property
    @abstractmethod
    def size(self) -> int:
        """Length of the flat vector, which an update carries: the trained parameters, then the `buffers`."""

    @property
    def buffers(self) -> int:
        """Numbers at the end of the flat vector that have no gradient, such as running statistics."""
        return 0

    @property
    def trained(self) -> int:
        """Length of θ without buffers, which come after it in the flat vector."""
        return self.size - self.buffers

    @property
    @abstractmethod
    def layout(self) -> Mapping[str, tuple[int, ...]]:
        """Names and shapes of the parameters and buffers, in the order of the flat vector."""

    @property
    def constants(self) -> Mapping[str, Tensor]:
        """Parts of a model that no update carries, by name, such as frozen parameters."""
        return {}

    @property
    def tied(self) -> Mapping[str, str]:
        """Further names of parameters of the `layout`, each with the name there."""
        return {}

    @property
    def has_training_mode(self) -> bool:
        """True if `BatchedModel.training_scores` differs from `BatchedModel.scores`."""
        return False

    @property
    def min_batch(self) -> int:
        """Fewest examples of a mini-batch; 2 for a batch normalisation of one number for each channel."""
        return 1

    @property
    def largest_layer(self) -> int:
        """Numbers in the largest output of a layer for one example; 0 if it is small or unknown."""
        return 0

    @property
    def training_method(self) -> str:
        """One sentence about how models are trained that a user should know; empty for the usual way."""
        return ""

    @property
    def is_recordable(self) -> bool:
        """True if training reads no values of tensors on a GPU, so that its steps can be recorded as a CUDA graph."""
        return True

    @abstractmethod
    def start(self, streams: Streams) -> Floats:
        """Draw initial parameters from *streams*, ``[size]``, followed by the initial buffers."""

    def prepare(self, x: Tensor) -> None:
        """Adapt to training examples like *x*, ``[n, *shape]``, before the first model is opened."""
        return

    @abstractmethod
    def open(self, theta: Tensor, trained: bool = True) -> BatchedModel:
        """Open models with the parameters and buffers *theta*, ``[models, size]``, which are not changed.

        Args:
            theta: the flat vectors.
            trained: whether `BatchedModel.descend` will be called; if not, less memory is needed.
        """


class ModuleArchitecture(Architecture):
    """A `torch.nn.Module` as an architecture, by default under a cross-entropy.

    The flat vector has the parameters that require a gradient, and then the floating-point buffers that ``state_dict``
    lists.  Frozen parameters and all other buffers have the values of *module*.

    Args:
        module: maps examples, ``[batch, *shape]``, to scores, ``[batch, classes]``; its parameters are not used, and
            may be on the meta device.
        start: draws initial parameters and buffers.
        cpu_model: a faster implementation for the CPU, if any.
        vmap_module: the same module in operations that `vmap` supports, if those of *module* are not.
        has_tokens: examples are rows of tokens, which the module gets as whole numbers.
        loss: loss of each example; ``None`` for the cross-entropy, whose gradient has a closed form.
        traits: behaviour of the module, if it is known; otherwise `prepare` examines it.
        largest_layer: see `Architecture.largest_layer`.
    """

    def __init__(
        self,
        module: nn.Module,
        start: Callable[[Streams], Floats],
        *,
        cpu_model: Callable[..., BatchedModel] | None = None,
        vmap_module: nn.Module | None = None,
        has_tokens: bool = False,
        loss: Loss | None = None,
        traits: ModuleTraits | None = None,
        largest_layer: int = 0,
    ) -> None:
        self.function = ModuleFunction(module, ModuleParts.of(module), has_tokens, loss, traits or UNKNOWN)
        self.vmap_module = vmap_module or module
        self._start = start
        self._cpu_model = cpu_model
        self._is_examined = traits is not None
        self._largest_layer = largest_layer

    @property
    def module(self) -> nn.Module:
        """The module."""
        return self.function.module

    @property
    def traits(self) -> ModuleTraits:
        """Behaviour of the module."""
        return self.function.traits

    @property
    def size(self) -> int:
        return sum(part.numel() for part in self.function.parts.sent.values())

    @property
    def buffers(self) -> int:
        return sum(part.numel() for part in self.function.parts.state.values())

    @property
    def layout(self) -> dict[str, tuple[int, ...]]:
        return {name: tuple(part.shape) for name, part in self.function.parts.sent.items()}

    @property
    def constants(self) -> dict[str, Tensor]:
        return {name: part.detach() for name, part in self._unsent.items() if name not in self.tied}

    @property
    def tied(self) -> dict[str, str]:
        names = {id(part): name for name, part in self.function.parts.sent.items()}
        return {name: names[id(part)] for name, part in self._unsent.items() if id(part) in names}

    @property
    def _unsent(self) -> dict[str, Tensor]:
        """The tensors of ``state_dict`` whose names are not in the `layout`, by name."""
        stored = self.module.state_dict(keep_vars=True)
        sent = self.function.parts.sent
        return {name: part for name, part in stored.items() if isinstance(part, Tensor) and name not in sent}

    @property
    def has_loss(self) -> bool:
        """True if the loss is not the cross-entropy."""
        return self.function.loss is not None

    @property
    def has_training_mode(self) -> bool:
        return not self.traits.is_plain

    @property
    def largest_layer(self) -> int:
        return self._largest_layer

    @property
    def min_batch(self) -> int:
        return 2 if self.traits.needs_two else 1

    @property
    def training_method(self) -> str:
        if self.traits.obstacle is not None:
            return f"its models are trained one after the other: {self.traits.obstacle}"
        if self.traits.is_plain:
            return ""
        return "its models are trained in batches, in training mode, by torch.func"

    @property
    def is_recordable(self) -> bool:
        return self.traits.obstacle is None

    def start(self, streams: Streams) -> Floats:
        return self._start(streams)

    def prepare(self, x: Tensor) -> None:
        self.function = replace(self.function, parts=self.function.parts.on(x))
        if self._is_examined:
            return
        theta = torch.from_numpy(self.start(Streams(0))).to(x)[None]
        self.function = replace(self.function, traits=examine(self.function, theta, x))
        self._is_examined = True

    def open(self, theta: Tensor, trained: bool = True) -> BatchedModel:
        if trained and self.has_bf16_products and theta.dtype == torch.float32:
            rounded = replace(self.function, has_bf16_products=True)
            if self.traits.obstacle is None:
                return VmappedModels(theta, replace(rounded, module=self.vmap_module))
            return SequentialModels(theta, rounded)
        if self._cpu_model is not None and not runs_on_gpu(theta.device):
            return self._cpu_model(theta, trained=trained)
        if self._is_batched(theta, trained):
            return VmappedModels(theta, replace(self.function, module=self.vmap_module), trained)
        return SequentialModels(theta, self.function, trained)

    def _is_batched(self, theta: Tensor, trained: bool) -> bool:
        """Return whether one call for all models is possible, and faster than a call for each."""
        if self.traits.obstacle is not None:
            return False
        if runs_on_gpu(theta.device):
            return True
        return trained and self.vmap_module is self.module and is_faster_batched(*theta.shape)


@dataclass(frozen=True, slots=True)
class ModuleFunction:
    """A module as a function of its parameters and buffers, and the loss of its scores.

    Args:
        module: maps examples to scores.
        parts: its parameters and buffers.
        has_tokens: examples are rows of tokens.
        loss: ``None`` for the cross-entropy, whose gradient has a closed form.
        traits: behaviour of the module.
        has_bf16_products: the module is called under autocast to bfloat16.
    """

    module: nn.Module
    parts: ModuleParts
    has_tokens: bool = False
    loss: Loss | None = None
    traits: ModuleTraits = UNKNOWN
    has_bf16_products: bool = False


def _split(theta: Tensor, parts: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return *theta*, ``[models, size]``, as copies in the shapes of *parts*, ``[models, *shape]`` each."""
    pieces = torch.split(theta, [part.numel() for part in parts.values()], dim=1)
    tensors = {}
    for piece, (name, part) in zip(pieces, parts.items(), strict=True):
        tensors[name] = piece.reshape(-1, *part.shape).clone(memory_format=torch.contiguous_format)
    return tensors


def _each(parts: Mapping[str, Tensor], models: int, device: torch.device) -> dict[str, Tensor]:
    """Return a copy of *parts* for each of the models, ``[models, *shape]`` each."""
    return {name: part.to(device).expand(models, *part.shape).clone() for name, part in parts.items()}


def _fixed(parts: Mapping[str, Tensor], theta: Tensor) -> dict[str, Tensor]:
    """Return *parts* on the device of *theta*, and in its type if they are no whole numbers."""
    fixed = {}
    for name, part in parts.items():
        like = theta if part.is_floating_point() else theta.device
        fixed[name] = part.detach().to(like)
    return fixed


class _AutogradModels(BatchedModel):
    """Parameters and buffers by name, ``[models, *shape]`` each, and a loss.

    Args:
        theta: ``[models, size]``.
        function: the module and its loss.
        trained: the models will `descend`.
    """

    def __init__(self, theta: Tensor, function: ModuleFunction, trained: bool = True) -> None:
        self._module = function.module
        self._has_tokens = function.has_tokens
        self._trained = trained
        self._traits = function.traits
        self._has_bf16_products = function.has_bf16_products
        self._dtype = theta.dtype
        self._loss = function.loss
        if isinstance(self._loss, nn.Module):  # it may hold tensors, such as weights of classes
            self._loss = self._loss.to(theta)

        parts = function.parts
        with torch.inference_mode(False):  # autograd needs tensors that were made outside of inference mode
            values = _split(theta, parts.sent)
            self._values = {name: values[name] for name in parts.trained}
            self._state = {name: values[name] for name in parts.state}  # buffers that are sent
            self._counters = _each(parts.counters, len(theta), theta.device)  # buffers that count batches
            self._fixed = _fixed(parts.fixed, theta)  # the same in all models

        # the last step
        self._scores = theta  # scores, then log p, [models, batch, classes]
        self._labels = theta  # [models, batch, 1]
        self._losses: Tensor | None = None  # of a loss of the user, with their graph

    def scores(self, x: Tensor) -> Tensor:
        if not self._traits.is_plain:
            self._module.eval()
        with torch.inference_mode(not self._trained), torch.set_grad_enabled(self._trained):
            self._scores = self._forward(x, None)
        return self._scores

    def training_scores(self, x: Tensor, step: TrainingStep) -> Tensor:
        if self._traits.is_plain:
            return self.scores(x)
        self._module.train()
        with torch.inference_mode(False), torch.enable_grad():
            self._scores = self._forward(x, step)
        return self._scores

    def losses(self, y: Tensor) -> Tensor:
        if self._loss is not None:
            return self._apply_loss(self._loss, y)
        self._scores = torch.log_softmax(self._scores, 2)  # log p
        self._labels = y[..., None]
        return self._scores.gather(2, self._labels)[..., 0].neg_()  # -log p[label]

    def descend(self, weights: Tensor) -> None:
        if self._losses is not None:
            with torch.inference_mode(False):
                (slopes,) = torch.autograd.grad(self._losses, self._scores, weights.clone(), materialize_grads=True)
                self._backward(slopes, weights)
            return
        ones = torch.ones((), dtype=weights.dtype, device=weights.device).expand(self._labels.shape)
        probability = self._scores.exp_()  # the scores are log-softmax, and not used again
        slopes = probability.scatter_add_(2, self._labels, -ones)  # ∂ cross-entropy / ∂ score = p - 1[label]
        slopes.mul_(weights[..., None])  # of each example, with the step size
        with torch.inference_mode(False):
            self._backward(slopes.clone(), weights)

    def values(self, models: int) -> list[Tensor]:
        return [value[:models] for value in self._values.values()]

    def store(self, into: Tensor) -> None:
        stored = [*self._values.values(), *self._state.values()]
        sizes = [math.prod(value.shape[1:]) for value in stored]
        for piece, value in zip(torch.split(into, sizes, dim=1), stored, strict=True):
            piece.copy_(value[: len(into)].view(len(into), -1))

    def _apply_loss(self, loss: Loss, y: Tensor) -> Tensor:
        """Return the losses, ``[models, batch]``, and keep their graph, which ends at the scores."""
        models, batch, outputs = self._scores.shape
        with torch.inference_mode(not self._trained), torch.set_grad_enabled(self._trained):
            self._scores = self._scores.clone().requires_grad_(self._trained)
            targets = y.reshape(models * batch, *y.shape[2:]).clone()
            self._losses = loss(self._scores.reshape(models * batch, outputs), targets).view(models, batch)
        return self._losses.detach()

    def _copy_examples(self, x: Tensor) -> Tensor:
        """Return a copy of examples, ``[batch, *shape]``, that autograd may keep."""
        return x.long() if self._has_tokens else x.clone(memory_format=torch.contiguous_format)

    def _call(self, tensors: dict[str, Tensor], x: Tensor, key: Tensor | None) -> Tensor:
        """Return the module's scores of one model.

        Args:
            tensors: parameters and buffers; the call may replace buffers.
            x: examples.
            key: of the dropout; ``None`` without dropout.
        """
        dropout: AbstractContextManager[object] = nullcontext()
        if key is not None and self._traits.has_dropout:
            dropout = KeyedDropout(key)
        rounding: AbstractContextManager[object] = nullcontext()
        if self._has_bf16_products:
            rounding = torch.autocast(x.device.type, torch.bfloat16)
        with dropout, rounding:
            output = functional_call(self._module, tensors, (x,))  # writes the state into tensors
        if not isinstance(output, Tensor):
            raise TypeError(f"its forward gives a {type(output).__name__}, not a tensor")
        if self._has_bf16_products:
            return output.to(self._dtype)
        return output

    def _keep_state(self, models: slice | Tensor | int, state: Mapping[str, Tensor]) -> None:
        """Keep the buffers that a call has changed, which are among *state*."""
        with torch.no_grad():
            for name, value in (*self._state.items(), *self._counters.items()):
                value[models] = state[name].detach().to(value)

    def _state_of(self, models: slice | Tensor | int) -> dict[str, Tensor]:
        """Return copies of the buffers of some models that a call may change."""
        buffers = {**self._state, **self._counters}
        return {name: value[models].clone() for name, value in buffers.items()}

    @abstractmethod
    def _forward(self, x: Tensor, step: TrainingStep | None) -> Tensor:
        """Return scores, ``[models, batch, classes]``, detached from the graph, which is kept.

        Args:
            x: ``[models, batch, *shape]``.
            step: counts and keys in training mode; ``None`` in evaluation mode.
        """

    @abstractmethod
    def _backward(self, slopes: Tensor, weights: Tensor) -> None:
        """Subtract the gradient of the parameters, given that of the scores, ``[models, batch, classes]``."""


@dataclass(frozen=True, slots=True)
class ForwardPass:
    """A forward pass of one model, with its graph.

    Args:
        output: scores, ``[batch, classes]``.
        leaves: the trained parameters.
        tensors: all parameters and buffers by name; the buffers are those after the pass.
    """

    output: Tensor
    leaves: Sequence[Tensor]
    tensors: dict[str, Tensor]

    def gradient(self, slope: Tensor) -> Sequence[Tensor]:
        """Return the gradient of the trained parameters, given that of the scores; the graph is kept."""
        return torch.autograd.grad(self.output, self.leaves, slope, retain_graph=True, materialize_grads=True)


class SequentialModels(_AutogradModels):
    """Models run one after the other; models whose examples have zero weight skip the backward pass.

    The graph of a forward pass is released only when the next one replaces it: memory that is freed all at once
    returns to the system, and to allocate it again was measured to take a fifth of the time.
    """

    _passes: Sequence[ForwardPass] = ()

    def _forward(self, x: Tensor, step: TrainingStep | None) -> Tensor:
        if step is None:
            forwards = self._evaluate(x)
        else:
            forwards = self._train(x, step)
        passes = [*self._passes]  # of the last step; each is released when its successor replaces it
        self._passes = []
        scores = []
        for model, forward in enumerate(forwards):
            if self._trained:
                passes[model : model + 1] = [forward]
            scores.append(forward.output.detach())
        self._passes = passes
        return torch.stack([_pad(score, x.shape[1]) for score in scores])

    def _evaluate(self, x: Tensor) -> Iterator[ForwardPass]:
        """Run the models in evaluation mode."""
        shared: Tensor | None = None
        if x.stride(0) == 0:  # all models have the same examples
            shared = self._copy_examples(x[0])
        for model, examples in enumerate(x):
            batch = self._copy_examples(examples) if shared is None else shared
            yield self._pass(model, batch, None)

    def _train(self, x: Tensor, step: TrainingStep) -> Iterator[ForwardPass]:
        """Run the models in training mode, each without the padding of its mini-batch; keep their buffers."""
        draws = SeededDraws(x.device)
        with draws.restored() if self._traits.draws else nullcontext():
            for model, examples in enumerate(x):
                batch = self._copy_examples(examples[: step.counts[model]])
                if self._traits.draws:
                    draws.seed(int(step.keys[model]))
                forward = self._pass(model, batch, step.keys[model])
                self._keep_state(model, forward.tensors)
                yield forward

    def _pass(self, model: int, batch: Tensor, key: Tensor | None) -> ForwardPass:
        """Run one model on its mini-batch; the *key* is as of `_call`."""
        leaves = {name: value[model].detach().requires_grad_() for name, value in self._values.items()}
        tensors = {**self._fixed, **self._state_of(model), **leaves}
        output = self._call(tensors, batch, key)
        return ForwardPass(output, [*leaves.values()], tensors)

    def _backward(self, slopes: Tensor, weights: Tensor) -> None:
        for model in weighted_models(weights):
            forward = self._passes[model]
            slope = slopes[model, : len(forward.output)]
            if self._traits.has_python_backward:
                steps = call_with_tensors(self._module, forward.tensors, partial(forward.gradient, slope))
                self._keep_state(model, forward.tensors)
            else:
                steps = forward.gradient(slope)
            for value, step in zip(self._values.values(), steps, strict=True):
                value.data[model].sub_(step)  # not counted as a change by the passes of the other models


class VmappedPass(NamedTuple):
    """A forward pass of several models of one size of mini-batches, with its graph.

    Args:
        models: the models.
        output: scores, ``[models, batch, classes]``.
        leaves: the trained parameters, ``[models, *shape]`` each.
    """

    models: slice | Tensor
    output: Tensor
    leaves: Sequence[Tensor]


class VmappedModels(_AutogradModels):
    """Models that run in one call: the module batched over its parameters by `torch.func.vmap`.

    In training mode there is one call for each size of mini-batches, so that no module sees padding.
    """

    _passes: Sequence[VmappedPass] = ()

    def _forward(self, x: Tensor, step: TrainingStep | None) -> Tensor:
        self._passes = ()  # releases the graph of the last step
        all_models = slice(0, len(x))
        if step is None:
            forward = self._pass(all_models, x, None)
            self._passes = [forward]
            return forward.output.detach()
        counts = step.counts[: len(x)]
        passes = []
        scores: Tensor | None = None
        for count in sorted(set(counts)):
            of_count = [model for model, examples in enumerate(counts) if examples == count]
            models: slice | Tensor = all_models
            if len(of_count) < len(x):
                models = upload(np.array(of_count), x.device)
            forward = self._pass(models, x[models, :count], step.keys[models])
            passes.append(forward)
            if scores is None:
                scores = x.new_zeros(*x.shape[:2], *forward.output.shape[2:])
            scores[models, :count] = forward.output.detach()
        self._passes = passes
        return x.new_empty(0) if scores is None else scores

    def _pass(self, models: slice | Tensor, x: Tensor, keys: Tensor | None) -> VmappedPass:
        """Run some models on their examples, with a key of each in training mode."""
        dim: int | None = 0
        if len(x) > 1 and x.stride(0) == 0:  # all models have the same examples
            batch = self._copy_examples(x[0])
            dim = None
        else:
            batch = self._copy_examples(x.flatten(0, 1)).view(x.shape)
        leaves = {name: value[models].detach().requires_grad_() for name, value in self._values.items()}
        state = self._state_of(models)

        def call(
            leaves: Mapping[str, Tensor], state: Mapping[str, Tensor], x: Tensor, key: Tensor | None = None
        ) -> tuple[Tensor, dict[str, Tensor]]:
            tensors = {**self._fixed, **state, **leaves}
            output = self._call(tensors, x, key)
            return output, {name: tensors[name] for name in state}

        if keys is None:
            output, _ = vmap(call, in_dims=(0, 0, dim))(leaves, state, batch)
        else:
            output, state_after = vmap(call, in_dims=(0, 0, dim, 0))(leaves, state, batch, keys)
            self._keep_state(models, state_after)
        return VmappedPass(models, output, [*leaves.values()])

    def _backward(self, slopes: Tensor, weights: Tensor) -> None:
        for models, output, leaves in self._passes:
            slope = slopes[models, : output.shape[1]]
            steps = torch.autograd.grad(output, leaves, slope, materialize_grads=True)
            for value, step in zip(self._values.values(), steps, strict=True):
                value[models] -= step


def weighted_models(weights: Tensor) -> Iterator[int]:
    """Yield the models with an example of nonzero weight; on a GPU, which the host does not wait for, all models."""
    if runs_on_gpu(weights.device):
        return iter(range(len(weights)))
    return (model for model, has_weight in enumerate(weights.any(1).tolist()) if has_weight)


def _pad(scores: Tensor, batch: int) -> Tensor:
    """Add rows of zeros to *scores*, ``[n, classes]``, up to ``[batch, classes]``."""
    missing = batch - len(scores)
    if missing == 0:
        return scores
    return torch.cat([scores, scores.new_zeros(missing, *scores.shape[1:])])


class _Caller(nn.Module):
    """Calls a function; `functional_call` puts tensors into *module* for the time of the call."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, function: Callable[[], Sequence[Tensor]]) -> Sequence[Tensor]:
        return function()


def call_with_tensors(
    module: nn.Module, tensors: dict[str, Tensor], function: Callable[[], Sequence[Tensor]]
) -> Sequence[Tensor]:
    """Return what *function* returns while *module* has the parameters and buffers *tensors*.

    A buffer that is replaced meanwhile is replaced in *tensors*.
    """
    named = {f"module.{name}": tensor for name, tensor in tensors.items()}
    result: Sequence[Tensor] = functional_call(_Caller(module), named, (function,))
    for name in tensors:
        tensors[name] = named[f"module.{name}"]
    return result


def examine(function: ModuleFunction, theta: Tensor, x: Tensor) -> ModuleTraits:
    """Run the module of *function* on a few examples, and return its traits.

    Args:
        function: a module with unknown traits.
        theta: parameters and buffers, ``[1, size]``.
        x: at least two examples, ``[n, *shape]``.

    Raises:
        Exception: the module fails on the examples, or changes a buffer that ``state_dict`` does not list.
    """
    draws = SeededDraws(x.device)
    parts = function.parts
    module = function.module
    fixed_before = {name: part.clone() for name, part in parts.fixed.items()}
    with draws.restored(), torch.inference_mode(False):
        models = SequentialModels(theta.clone(), function)
        examples = models._copy_examples(x)
        key = upload(np.array(0), x.device)

        def run(rows: Tensor, dropout: KeyedDropout, seed: int = 0) -> ForwardPass:
            draws.seed(seed)
            leaves = {name: value[0].detach().requires_grad_() for name, value in models._values.items()}
            tensors = {**models._fixed, **models._state_of(0), **leaves}
            with torch.enable_grad(), dropout:
                output = models._call(tensors, rows, None)
            return ForwardPass(output, [*leaves.values()], tensors)

        # scores in evaluation mode, in training mode, and of one example alone in training mode
        evaluated = models.scores(x[None])[0]
        module.train()
        dropout = KeyedDropout(key)
        first = run(examples, dropout)
        trained = first.output.detach()
        has_drawn = draws.have_drawn(0)
        needs_two = False
        try:
            single = run(examples[:1], KeyedDropout(key)).output.detach()
        except ValueError:  # batch normalisation of one number for each channel
            single = trained[:1]
            needs_two = True

        # another seed shows whether a dropout is repeated in the backward pass
        second = run(examples, KeyedDropout(key), seed=0 if has_drawn else 1)
        has_python_backward = _runs_in_backward(module, first, second)
        changed = [name for name, part in parts.fixed.items() if not torch.equal(part, fixed_before[name])]
        if changed:
            raise ValueError(f"it changes '{changed[0]}', which is frozen, or a buffer with persistent=False")

        is_plain = not (parts.state or parts.counters or dropout.calls or has_drawn or needs_two)
        if is_plain:
            is_plain = torch.equal(evaluated, trained) and _are_close(trained[:1], single)
        traits = ModuleTraits(
            is_plain,
            has_dropout=dropout.calls > 0 and not has_python_backward,
            draws=has_drawn or (dropout.calls > 0 and has_python_backward),
            needs_two=needs_two,
            has_python_backward=has_python_backward,
        )
        return replace(traits, obstacle=_find_obstacle(replace(function, traits=traits), theta, x))


def _runs_in_backward(module: nn.Module, first: ForwardPass, second: ForwardPass) -> bool:
    """Return whether the backward pass of *module* depends on the tensors that the module then has, or changes them.

    The passes have the same scores and masks.  In the second backward pass all tensors of the module are NaN.
    """
    slope = torch.ones_like(first.output)
    before = {name: tensor.detach().clone() for name, tensor in first.tensors.items()}
    expected = call_with_tensors(module, first.tensors, lambda: first.gradient(slope))
    if not all(torch.equal(tensor, before[name]) for name, tensor in first.tensors.items()):
        return True
    nans = {}
    for name, tensor in second.tensors.items():
        nans[name] = torch.full_like(tensor, torch.nan) if tensor.is_floating_point() else tensor.clone()
    try:
        gradient = call_with_tensors(module, nans, lambda: second.gradient(slope))
    except Exception:  # a function of the module that refuses NaN
        return True
    return not all(map(_are_close, gradient, expected))


def _find_obstacle(function: ModuleFunction, theta: Tensor, x: Tensor) -> str | None:
    """Train two models one after the other, and in one call of `torch.func`; return why the latter cannot be used."""
    if function.traits.has_python_backward:
        return "its backward pass runs its code again, as in gradient checkpointing"
    if function.traits.draws:
        return "in training mode, it draws random numbers other than those of a dropout"
    step = TrainingStep([len(x), len(x)], upload(np.array([1 << 40, 3 << 40]), x.device))
    theta_of_both = theta.repeat(2, 1)
    x_of_both = torch.stack([x, x.flip(0)])
    results: list[Tensor] = []  # of each way: scores in both modes, and the parameters after a step
    try:
        for kind in (SequentialModels, VmappedModels):
            models = kind(theta_of_both, function)
            evaluated = models.scores(x_of_both).clone()
            trained = models.training_scores(x_of_both, step).clone()
            models._backward(torch.full_like(trained, 1e-3), torch.ones(2, len(x), device=x.device))
            after = torch.empty_like(theta_of_both)
            models.store(after)
            results.append(torch.cat([evaluated.flatten(), trained.flatten(), after.flatten()]))
    except Exception as error:  # whatever the user's module does
        return f"torch.func cannot batch it ({one_line(error)[:200]})"
    sequential, batched = results
    return None if _are_close(sequential, batched) else "torch.func changes its results"


def _are_close(value: Tensor, expected: Tensor) -> bool:
    return torch.allclose(value, expected, rtol=1e-3, atol=1e-5)
