"""Convolutional network with dense layers on top."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from netfl.errors import Fault
from netfl.learning.model import Architecture, not_image_fault
from netfl.learning.model._initialization import (
    ParameterSpec,
    Spread,
    dense_parameters,
    draw_parameters,
    linear_parameters,
)
from netfl.learning.model._layered_model import ExampleFormat, LayeredModel


class Cnn(LayeredModel):
    """Convolutions, each followed by a pool of 2 x 2 and an activation, then dense layers, under cross-entropy.

    The networks of LeNet's kind (LeCun et al., "Gradient-based learning applied to document recognition", 1998).  The
    example is that of Table 1 of the FED-CVaR-AVG paper.

    Example::

        kind: cnn
        channels: [6, 16]
        kernel: 5
        padding: 2
        hidden: [120, 84]
        activation: leaky_relu
        weights: default
    """

    law_example: ClassVar[ExampleFormat] = ((1, 64, 64), 10, None)
    channels: Annotated[tuple[Annotated[int, Field(ge=1)], ...], Field(min_length=1)]
    """Output channels of each convolution, from the input on."""
    kernel: Annotated[int, Field(ge=1)] = 3
    """Rows and columns of a convolution's window."""
    padding: Annotated[int, Field(ge=0)] = 1
    """Rows and columns of zeros on each side of an image; half of ``kernel``, rounded down, keeps its size."""
    hidden: tuple[Annotated[int, Field(ge=1)], ...] = ()
    """Widths of the dense layers between the last pool and the classes."""
    activation: Literal["relu", "leaky_relu", "tanh"] = "relu"
    """Activation after each pool and hidden layer; ``leaky_relu`` has slope 0.01 below zero."""
    weights: Spread = "default"
    """Initial parameters: uniform on ±1/√(fan in), as in PyTorch; or normal with variance 2/(fan in) and zero biases
    (He et al. 2015), except for the last layer, which starts as in PyTorch."""

    def open(self, shape: tuple[int, ...], classes: int, tokens: int | None = None) -> Architecture:
        from netfl.learning.architecture import ModuleArchitecture
        from netfl.learning.model._manual_conv import Convolutional, ConvolutionalStack, ConvShape
        from netfl.learning.module_training import PLAIN

        conv_shape = ConvShape(self._windows(shape), self.padding, self._sizes(shape, classes), self.activation)
        start = partial(draw_parameters, self._parts(shape, classes, tokens))
        cpu_model = partial(ConvolutionalStack, shape=conv_shape)
        return ModuleArchitecture(
            Convolutional(conv_shape),
            start,
            cpu_model=cpu_model,
            traits=PLAIN,
            largest_layer=self._largest_convolution(shape),
        )

    def misfits(self, shape: tuple[int, ...], classes: int, tokens: int | None) -> Iterator[Fault]:
        if tokens is not None or len(shape) != 3:
            yield not_image_fault(shape)
            return
        size = f"images of {shape[1]} x {shape[2]} pixels"
        max_kernel = min(shape[1:]) + 2 * self.padding - 1  # leaves two rows or columns for the pool
        if self.kernel > max_kernel:
            remedy = "make 'padding' larger"
            if max_kernel > 0:
                remedy = f"make it at most {max_kernel}, or make 'padding' larger"
            yield Fault("kernel", f"is too large for {size}: no output is left for the pool", self.kernel, remedy)
        elif min(self._pooled_size(shape)) < 1:
            problem = f"{size} are too small for {len(self.channels)} convolutions with a pool each"
            yield Fault("channels", problem, list(self.channels), "use fewer, or make 'padding' larger")

    def _pooled_size(self, shape: tuple[int, ...]) -> tuple[int, int]:
        """Return rows and columns after all pools; 0 or less if nothing is left."""
        rows, columns = shape[1:]
        for _ in self.channels:
            rows = self._convolved(rows) // 2
            columns = self._convolved(columns) // 2
        return rows, columns

    def _convolved(self, size: int) -> int:
        """Return the number of rows, or of columns, that a convolution makes of so many."""
        return size + 2 * self.padding - self.kernel + 1

    def _largest_convolution(self, shape: tuple[int, ...]) -> int:
        """Return the number of outputs of the largest convolution, before its pool."""
        largest = 0
        rows, columns = shape[1:]
        for channels in self.channels:
            rows = self._convolved(rows)
            columns = self._convolved(columns)
            largest = max(largest, channels * rows * columns)
            rows //= 2
            columns //= 2
        return largest

    def _windows(self, shape: tuple[int, ...]) -> tuple[tuple[int, int, int, int], ...]:
        """Return the shape of each convolution's weights, ``(out, in, kernel, kernel)``."""
        channels = (shape[0], *self.channels)
        return tuple((out, into, self.kernel, self.kernel) for into, out in pairwise(channels))

    def _sizes(self, shape: tuple[int, ...], classes: int) -> tuple[int, ...]:
        """Return the widths of the dense layers, including input and output."""
        features = self.channels[-1] * math.prod(self._pooled_size(shape))
        return (features, *self.hidden, classes)

    def _parts(self, shape: tuple[int, ...], classes: int, tokens: int | None) -> tuple[ParameterSpec, ...]:
        windows = self._windows(shape)
        parts: list[ParameterSpec] = []
        for layer, (out, *window) in enumerate(windows):
            parts += linear_parameters(f"convolutions.{layer}", out, window, layer, self.weights)
        starts: tuple[Spread, ...] = (*[self.weights] * len(self.hidden), "default")
        parts += dense_parameters(self._sizes(shape, classes), starts, len(windows))
        return tuple(parts)
