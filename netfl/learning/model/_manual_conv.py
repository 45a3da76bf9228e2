"""Batches of convolutional networks with hand-written gradients; convolutions run model by model.

Channels are the innermost dimension, so that a 2 x 2 pool is three maxima of long rows, whose gradient follows from
repeated comparisons.  Activations are monotonic and therefore follow the pool, on a quarter of the values.  The dense
layers on top are those of `netfl.learning.model._manual_dense`, batched over the models.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from netfl.learning.architecture import BatchedModel, weighted_models
from netfl.learning.model._manual_dense import ACTIVATIONS, DenseStack

_ATEN: Any = torch.ops.aten


@dataclass(frozen=True, slots=True)
class ConvShape:
    """Shape of a convolutional network.

    Args:
        windows: the shape of each convolution's weights, ``(out, in, kernel, kernel)``.
        padding: rows and columns of zeros on each side of an image.
        sizes: widths of the dense layers, from the output of the last pool to the classes.
        activation: name of the activation.
    """

    windows: Sequence[tuple[int, int, int, int]]
    padding: int
    sizes: Sequence[int]
    activation: str


class Convolutional(nn.Module):
    """The network as a PyTorch module."""

    def __init__(self, shape: ConvShape) -> None:
        super().__init__()
        with torch.device("meta"):
            self.convolutions = nn.ModuleList(
                nn.Conv2d(into, out, kernel, padding=shape.padding) for out, into, kernel, _ in shape.windows
            )
            self.layers = nn.ModuleList(nn.Linear(into, out) for into, out in pairwise(shape.sizes))
        self._activate = getattr(nn.functional, shape.activation)

    def forward(self, x: Tensor) -> Tensor:
        for convolution in self.convolutions:
            x = self._activate(nn.functional.max_pool2d(convolution(x), 2))
        x = x.flatten(1)
        for layer in self.layers[:-1]:
            x = self._activate(layer(x))
        return torch.as_tensor(self.layers[-1](x))


@dataclass(frozen=True, slots=True)
class _LayerState:
    """State of a convolution for the backward pass; images are ``[batch, channels, rows, columns]``.

    Args:
        inputs: inputs of the convolution.
        sums: outputs of the convolution.
        rows: maxima of pairs of columns of *sums*.
        outputs: activations after the pool.
    """

    inputs: Tensor
    sums: Tensor
    rows: Tensor
    outputs: Tensor


class ConvolutionalStack(BatchedModel):
    """Convolutions, each followed by a 2 x 2 pool and an activation, under dense layers.

    Layer l has the outputs ``a_l = activate(pool(a_{l-1} * W_l + b_l))``, where ``*`` is the convolution.

    The state of a step is released only when the next one replaces it: memory that is freed all at once returns to the
    system, and to allocate it again was measured to take up to a quarter of the time.
    """

    def __init__(self, theta: Tensor, shape: ConvShape, trained: bool) -> None:
        self._padding = shape.padding
        self._trained = trained
        self._activate, self._derive = ACTIVATIONS[shape.activation]

        self._sections = []  # numbers of each convolution's weights and biases, in turn
        for window in shape.windows:
            self._sections += [math.prod(window), window[0]]
        *convolutions, head = _split(theta, self._sections)
        self._weights = []  # [models, out, in, rows, columns], with the inputs innermost
        for weight, window in zip(convolutions[::2], shape.windows, strict=True):
            channels_last = weight.reshape(-1, *window).permute(0, 1, 3, 4, 2)
            self._weights.append(channels_last.clone(memory_format=torch.contiguous_format).permute(0, 1, 4, 2, 3))
        self._biases = [bias.clone(memory_format=torch.contiguous_format) for bias in convolutions[1::2]]
        self._head = DenseStack(head, shape.sizes, shape.activation)

        # the last step
        self._states: list[list[_LayerState]] = []  # by model and convolution
        self._width = shape.sizes[0]
        self._features = theta  # outputs of the last pool, [models, batch, width]

    def scores(self, x: Tensor) -> Tensor:
        shared: Tensor | None = None
        if x.stride(0) == 0:  # all models have the same examples
            shared = x[0].contiguous(memory_format=torch.channels_last)
        self._features = x.new_empty((*x.shape[:2], self._width))
        for model, examples in enumerate(x):
            inputs = examples.contiguous(memory_format=torch.channels_last) if shared is None else shared
            states = self._convolve(model, inputs)
            outputs = states[-1].outputs
            self._features[model].view(outputs.shape).copy_(outputs)
            if self._trained:
                self._states[model : model + 1] = [states]  # replaces the state of the last step
        return self._head.scores(self._features)

    def losses(self, y: Tensor) -> Tensor:
        return self._head.losses(y)

    def descend(self, weights: Tensor) -> None:
        gradients = torch.empty_like(self._features)
        self._head.descend(weights, gradients)
        for model in weighted_models(weights):
            outputs = self._states[model][-1].outputs
            grad = gradients[model].view(outputs.shape)
            self._backward(model, grad.contiguous(memory_format=torch.channels_last))

    def values(self, models: int) -> list[Tensor]:
        return [part[:models] for part in self._convolution_parameters] + self._head.values(models)

    def store(self, into: Tensor) -> None:
        *pieces, head = _split(into, self._sections)
        for piece, part in zip(pieces, self._convolution_parameters, strict=True):
            piece.copy_(part[: len(into)].flatten(1))
        self._head.store(head)

    @property
    def _convolution_parameters(self) -> list[Tensor]:
        return [part for pair in zip(self._weights, self._biases, strict=True) for part in pair]

    def _convolve(self, model: int, inputs: Tensor) -> list[_LayerState]:
        """Apply the convolutions of one model, each with its pool and its activation."""
        states = []
        for weights, biases in zip(self._weights, self._biases, strict=True):
            sums = torch.conv2d(inputs, weights[model], biases[model], 1, self._padding)
            rows = torch.maximum(*_halves(sums, 3))
            outputs = torch.maximum(*_halves(rows, 2))
            self._activate(outputs)  # in place
            states.append(_LayerState(inputs, sums, rows, outputs))
            inputs = outputs
        return states

    def _backward(self, model: int, grad: Tensor) -> None:
        """Update the convolutions of one model, given the gradient of the last outputs, which is overwritten."""
        for layer in reversed(range(len(self._weights))):
            state = self._states[model][layer]
            weight = self._weights[layer][model]
            bias = self._biases[layer][model]

            # the gradient goes down through the activation and the pool, and takes the place of their values
            self._derive(grad, state.outputs)
            of_rows = _unpool(grad, state.rows, 2)
            of_sums = _unpool(of_rows, state.sums, 3)

            # through the convolution: the gradient of its inputs, unless these are the examples, and of its weights
            has_layer_below = layer > 0
            of_inputs, of_weight, _ = _ATEN.convolution_backward(
                of_sums, state.inputs, weight, None, [1, 1], [self._padding] * 2, [1, 1], False, [0, 0], 1,
                [has_layer_below, True, False],
            )  # fmt: skip
            of_bias = of_sums.permute(0, 2, 3, 1).flatten(0, 2).sum(0)  # over all places of all examples
            bias.sub_(of_bias)
            weight.sub_(of_weight)
            grad = of_inputs


def _split(theta: Tensor, sections: Sequence[int]) -> tuple[Tensor, ...]:
    """Return views of the given numbers of parameters, and of the rest."""
    return tuple(torch.split(theta, [*sections, theta.shape[1] - sum(sections)], dim=1))


def _halves(image: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """Return the even and the odd lines along *dim*; an unpaired last line is left out."""
    end = image.shape[dim] // 2 * 2
    before = (slice(None),) * dim  # all of the dimensions before
    return image[*before, 0:end:2], image[*before, 1:end:2]


def _unpool(grad: Tensor, values: Tensor, dim: int) -> Tensor:
    """Overwrite *values* with the gradient of their pairwise maxima along *dim*; the first of equal values gets it."""
    first, second = _halves(values, dim)  # views of the values
    first.ge_(second)  # 1 where the first is the maximum, else 0
    first.mul_(grad)
    torch.sub(grad, first, out=second)  # the second gets what the first does not
    if values.shape[dim] % 2:
        values.narrow(dim, -1, 1).zero_()  # the unpaired last line is in no pair
    return values
