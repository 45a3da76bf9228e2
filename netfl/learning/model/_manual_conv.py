"""Stacks of convolutional networks with gradients written out by hand: models take turns in the convolutions.

Channels lie innermost, so that a 2 x 2 pool is three maxima of long rows, whose gradient finds its way back by
comparing again; as activations rise, they follow the pool, on a quarter of the values.  The dense layers on top are
those of `netfl.learning.model._manual_dense`, batched over the models.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from netfl.learning.architecture import BatchedModel
from netfl.learning.model._batched import weighted_models
from netfl.learning.model._manual_dense import ACTIVATIONS, DenseStack

_ATEN: Any = torch.ops.aten


@dataclass(frozen=True, slots=True)
class ConvShape:
    """What a convolutional network consists of.

    Args:
        windows: the shape of each convolution's weights, ``(out, in, kernel, kernel)``.
        padding: rows and columns of zeros on each side of a picture.
        sizes: widths of the dense layers, from what the last pool gives to the classes.
        activation: its name.
    """

    windows: Sequence[tuple[int, int, int, int]]
    padding: int
    sizes: Sequence[int]
    activation: str


class Convolutional(nn.Module):
    """The network in PyTorch's own words."""

    def __init__(self, shape: ConvShape) -> None:
        super().__init__()
        with torch.device("meta"):
            self.convolutions = nn.ModuleList(
                nn.Conv2d(into, out, kernel, padding=shape.padding) for out, into, kernel, _ in shape.windows
            )
            self.layers = nn.ModuleList(nn.Linear(into, out) for into, out in pairwise(shape.sizes))
        self._activate = getattr(nn.functional, shape.activation)

    def forward(self, x: Tensor) -> Tensor:
        """The scores."""
        for convolution in self.convolutions:
            x = self._activate(nn.functional.max_pool2d(convolution(x), 2))
        x = x.flatten(1)
        for layer in self.layers[:-1]:
            x = self._activate(layer(x))
        return torch.as_tensor(self.layers[-1](x))


@dataclass(frozen=True, slots=True)
class _Kept:
    """What one convolution of one model remembers for the way back; pictures are ``[batch, channels, rows, columns]``.

    Args:
        inputs: what it saw.
        sums: what it made of them, as far as the pool sees it.
        rows: the larger of each two neighbouring columns of that.
        outputs: the activations after the pool.
    """

    inputs: Tensor
    sums: Tensor
    rows: Tensor
    outputs: Tensor


class ConvolutionalStack(BatchedModel):
    """Convolutions, each followed by a 2 x 2 pool and an activation, under dense layers.

    What a model remembers of a step is let go of only when the next one takes its place: memory that is given back all
    at once goes to the system, and to get it again was measured to cost up to a quarter of the time.

    Args:
        theta: ``[models, parameters]``.
        shape: the network's.
        trained: whether the models will `descend`.
    """

    def __init__(self, theta: Tensor, shape: ConvShape, trained: bool) -> None:
        windows, sizes = shape.windows, shape.sizes
        self._padding, self._trained = shape.padding, trained
        self._activate, self._derive = ACTIVATIONS[shape.activation]
        self._sections = [size for window in windows for size in (math.prod(window), window[0])]
        *convolutions, head = _split(theta, self._sections)
        self._weights = [
            _channels_last(weight.reshape(-1, *window))
            for weight, window in zip(convolutions[::2], windows, strict=True)
        ]
        self._biases = [bias.clone(memory_format=torch.contiguous_format) for bias in convolutions[1::2]]
        self._head = DenseStack(head, sizes, shape.activation, softmax=False)
        self._kept: list[list[_Kept]] = []
        self._features, self._width = theta, sizes[0]

    def scores(self, x: Tensor) -> Tensor:
        """The last layer's output."""
        shared = x[0].contiguous(memory_format=torch.channels_last) if x.stride(0) == 0 else None
        self._features = x.new_empty((*x.shape[:2], self._width))
        for model, own in enumerate(x):
            below = own.contiguous(memory_format=torch.channels_last) if shared is None else shared
            kept = []
            for layer in range(len(self._weights)):
                kept.append(self._convolved(model, layer, below))
                below = kept[-1].outputs
            self._features[model].view(below.shape).copy_(below)
            if self._trained:
                self._kept[model : model + 1] = [kept]
        return self._head.scores(self._features)

    def losses(self, y: Tensor) -> Tensor:
        """The cross-entropies."""
        return self._head.losses(y)

    def descend(self, weights: Tensor) -> None:
        """Back-propagate: all models through the dense layers, then those whose examples have any weight."""
        gradients = torch.empty_like(self._features)
        self._head.descend(weights, gradients)
        for model in weighted_models(weights):
            grad = gradients[model].view(self._kept[model][-1].outputs.shape)
            self._back(model, grad.contiguous(memory_format=torch.channels_last))

    def values(self, models: int) -> list[Tensor]:
        """Weights and biases of the convolutions and of the dense layers, as they lie."""
        own = [part for pair in zip(self._weights, self._biases, strict=True) for part in pair]
        return [part[:models] for part in own] + self._head.values(models)

    def store(self, into: Tensor) -> None:
        """Weights and biases, layer by layer."""
        *pieces, head = _split(into, self._sections)
        own = [part for pair in zip(self._weights, self._biases, strict=True) for part in pair]
        for piece, part in zip(pieces, own, strict=True):
            piece.copy_(part[: len(into)].flatten(1))
        self._head.store(head)

    def _convolved(self, model: int, layer: int, inputs: Tensor) -> _Kept:
        """One convolution of one model, its pool and its activation."""
        sums = torch.conv2d(inputs, self._weights[layer][model], self._biases[layer][model], 1, self._padding)
        left, right = _halves(sums, 3)
        rows = torch.maximum(left, right)
        outputs = torch.maximum(*_halves(rows, 2))
        self._activate(outputs)
        return _Kept(inputs, sums, rows, outputs)

    def _back(self, model: int, grad: Tensor) -> None:
        """Move the convolutions of one model, given the gradient of the last one's outputs, which is overwritten."""
        for layer in range(len(self._weights) - 1, -1, -1):
            kept, weight = self._kept[model][layer], self._weights[layer][model]
            self._derive(grad, kept.outputs)
            _unpool(_unpool(grad, kept.rows, 2), kept.sums, 3)
            below, change, _ = _ATEN.convolution_backward(
                kept.sums, kept.inputs, weight, None, [1, 1], [self._padding] * 2, [1, 1], False, [0, 0], 1,
                [layer > 0, True, False],
            )  # fmt: skip
            self._biases[layer][model].sub_(kept.sums.permute(0, 2, 3, 1).flatten(0, 2).sum(0))
            weight.sub_(change)
            grad = below


def _split(theta: Tensor, sections: Sequence[int]) -> tuple[Tensor, ...]:
    """Views of so many parameters each, and of the rest."""
    return tuple(torch.split(theta, [*sections, theta.shape[1] - sum(sections)], dim=1))


def _halves(picture: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """Every other line along *dim*, and those after them; an odd last one is left out."""
    lines = picture.shape[dim] // 2
    at = (slice(None),) * dim
    return picture[*at, : 2 * lines : 2], picture[*at, 1 : 2 * lines : 2]


def _unpool(grad: Tensor, values: Tensor, dim: int) -> Tensor:
    """Overwrite *values* with the gradient of their pairwise maxima along *dim*; the first of equals gets it."""
    first, second = _halves(values, dim)
    first.ge_(second).mul_(grad)
    torch.sub(grad, first, out=second)
    if values.shape[dim] % 2:
        values.narrow(dim, -1, 1).zero_()
    return values


def _channels_last(weights: Tensor) -> Tensor:
    """A copy of weights, ``[models, out, in, rows, columns]``, with the inputs innermost."""
    return weights.permute(0, 1, 3, 4, 2).clone(memory_format=torch.contiguous_format).permute(0, 1, 4, 2, 3)
