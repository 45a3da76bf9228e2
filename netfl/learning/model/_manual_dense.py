"""Stacks of dense layers with gradients written out by hand, batched over the models of a stack.

Hidden activations are ``[models, batch, width]``, but the last layer's output is ``[models, classes, batch]``: classes
are few, and arithmetic along the batch is what vectorises.  Each weight matrix lies in memory with its longer side
innermost, for the same reason.  A step of SGD is folded into the matrix product that forms the gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from netfl.learning.architecture import Architecture, BatchedModel
from netfl.learning.model import _initialization
from netfl.learning.model._initialization import Start
from netfl.streams import Streams

_ATEN: Any = torch.ops.aten
_SLOPE = 0.01

ACTIVATIONS: dict[str, tuple[Callable[[Tensor], Any], Callable[[Tensor, Tensor], Any]]] = {
    "relu": (
        torch.relu_,
        lambda grad, out: _ATEN.threshold_backward.grad_input(grad, out, 0, grad_input=grad),
    ),
    "leaky_relu": (
        lambda z: torch.nn.functional.leaky_relu_(z, _SLOPE),
        lambda grad, out: _ATEN.leaky_relu_backward.grad_input(grad, out, _SLOPE, True, grad_input=grad),
    ),
    "tanh": (
        torch.tanh_,
        lambda grad, out: _ATEN.tanh_backward.grad_input(grad, out, grad_input=grad),
    ),
}
"""Each activation in place, and its derivative, found from its output, multiplied onto a gradient in place."""


class Dense(Architecture):
    """Linear layers between *sizes*, an activation between them, a cross-entropy on top."""

    def __init__(
        self, sizes: Sequence[int], starts: Sequence[Start], activation: str = "relu", softmax: bool = False
    ) -> None:
        self._sizes, self._parts = tuple(sizes), _initialization.dense_parameters(sizes, starts)
        self._activation, self._softmax = activation, softmax

    @property
    def size(self) -> int:
        """The number of weights and biases."""
        return _initialization.count_parameters(self._parts)

    @property
    def layout(self) -> dict[str, tuple[int, ...]]:
        """``layers.0.weight``, out by in, ``layers.0.bias``, and so on."""
        return _initialization.parameter_shapes(self._parts)

    def start(self, streams: Streams) -> NDArray[np.float64]:
        """Uniform on ±1/√(fan in), or zero weights and biases so."""
        return _initialization.draw_parameters(self._parts, streams)

    def open(self, theta: Tensor, trained: bool = True) -> DenseStack:
        """The layers at work for each row of *theta*."""
        return DenseStack(theta, self._sizes, self._activation, self._softmax)


class _Layer:
    """One linear layer of all models; `take` chooses how many of them are at work."""

    weight: Tensor
    bias: Tensor
    turned: Tensor
    row: Tensor
    column: Tensor

    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        """Copy *weight*, ``[models, out, in]``, and *bias*, ``[models, out]``, into a layout of their own."""
        _, fan_out, fan_in = weight.shape
        self._tall = fan_out > fan_in
        self._weights = _copy(weight.mT if self._tall else weight)
        self._biases = _copy(bias)
        self.take(bias.shape[0])

    @property
    def held(self) -> tuple[Tensor, Tensor]:
        """Weights and biases of all models, as they lie."""
        return self._weights, self._biases

    def take(self, models: int) -> None:
        """Let the first *models* work: their `weight`, ``[models, out, in]``, and `bias`, ``[models, out]``.

        They are also there as `turned`, ``[models, in, out]``, `row`, ``[models, 1, out]``, and `column`,
        ``[models, out, 1]``: views that would otherwise be made in every step.
        """
        self._own, self.bias = self._weights[:models], self._biases[:models]
        self.weight = self._own.mT if self._tall else self._own
        self.turned, self.row, self.column = self.weight.mT, self.bias[:, None], self.bias[..., None]

    def descend(self, grad: Tensor, inputs: Tensor) -> None:
        """Subtract the gradient.

        Args:
            grad: that of the outputs, ``[models, out, batch]``.
            inputs: ``[models, batch, in]``.
        """
        if self._tall:
            self._own.baddbmm_(inputs.mT, grad.mT, alpha=-1)
        else:
            self._own.baddbmm_(grad, inputs, alpha=-1)
        self.bias.sub_(grad.sum(2))


class DenseStack(BatchedModel):
    """Dense networks side by side."""

    def __init__(self, theta: Tensor, sizes: Sequence[int], activation: str, softmax: bool) -> None:
        self._sizes, self._softmax = sizes, softmax
        self._activate, self._derive = ACTIVATIONS[activation]
        self._layers = [_Layer(weight, bias) for weight, bias in _parts(theta, sizes)]
        self._extent = (0, 0)
        self._hidden: list[Tensor] = []
        self._below: list[Tensor] = []
        self._output = self._fed = self._log = self._labels = theta

    def scores(self, x: Tensor) -> Tensor:
        """The last layer's output, ``[models, batch, classes]``."""
        inputs = x.flatten(2)
        self._take(*inputs.shape[:2])
        self._inputs = [inputs, *self._hidden]
        for layer, given, out in zip(self._layers, self._inputs, self._hidden, strict=False):
            self._activate(torch.baddbmm(layer.row, given, layer.turned, out=out))
        last = self._layers[-1]
        self._output = torch.baddbmm(last.column, last.weight, self._inputs[-1].mT)
        return self._output.mT

    def losses(self, y: Tensor) -> Tensor:
        """The cross-entropies."""
        self._fed = torch.softmax(self._output, 1) if self._softmax else self._output
        self._log = torch.log_softmax(self._fed, 1)
        self._labels = y[:, None]
        return self._log.gather(1, self._labels)[:, 0].neg_()

    def slopes(self, weights: Tensor) -> Tensor:
        """The gradient of the weighted losses with respect to the last layer's output, ``[models, classes, batch]``."""
        grad = self._log.exp_().scatter_(1, self._labels, -1.0, reduce="add").mul_(weights[:, None])
        if self._softmax:
            grad = self._fed * (grad - (grad * self._fed).sum(1, keepdim=True))
        return grad

    def descend(self, weights: Tensor, into: Tensor | None = None) -> None:
        """Back-propagate; each layer moves as soon as the gradient of its inputs is found.

        Args:
            weights: ``[models, batch]``.
            into: for the gradient of the first layer's inputs, ``[models, batch, inputs]``, where that is wanted.
        """
        grad = self.slopes(weights)
        for index in range(len(self._layers) - 1, 0, -1):
            layer, inputs = self._layers[index], self._inputs[index]
            below = torch.bmm(grad.mT, layer.weight, out=self._below[index - 1])
            self._derive(below, inputs)
            layer.descend(grad, inputs)
            grad = below.mT
        if into is not None:
            torch.bmm(grad.mT, self._layers[0].weight, out=into)
        self._layers[0].descend(grad, self._inputs[0])

    def values(self, models: int) -> list[Tensor]:
        """Weights and biases of each layer, weights with their longer side innermost."""
        return [part[:models] for layer in self._layers for part in layer.held]

    def store(self, into: Tensor) -> None:
        """Weights, out by in, and biases of each layer, one after the other."""
        self._take(into.shape[0], self._extent[1])
        for layer, (weight, bias) in zip(self._layers, _parts(into, self._sizes), strict=True):
            weight.copy_(layer.weight)
            bias.copy_(layer.bias)

    def _take(self, models: int, batch: int) -> None:
        """Let the first *models* work on so many examples each: make room for hidden layers and their gradients."""
        if (models, batch) != self._extent:
            self._extent = models, batch
            for layer in self._layers:
                layer.take(models)
            room, hidden = self._layers[0].bias.new_empty, self._sizes[1:-1]
            self._hidden, self._below = ([room(models, batch, size) for size in hidden] for _ in range(2))


def _parts(theta: Tensor, sizes: Sequence[int]) -> Iterator[tuple[Tensor, Tensor]]:
    """Views of each layer's weights, ``[models, out, in]``, and biases, ``[models, out]``."""
    at = 0
    for fan_in, fan_out in pairwise(sizes):
        middle, end = at + fan_in * fan_out, at + (fan_in + 1) * fan_out
        yield theta[:, at:middle].view(-1, fan_out, fan_in), theta[:, middle:end]
        at = end


def _copy(part: Tensor) -> Tensor:
    """A contiguous copy."""
    return part.clone(memory_format=torch.contiguous_format)
