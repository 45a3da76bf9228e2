"""Convolutions under dense layers."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from netfl.errors import Fault
from netfl.learning.model import Model, _initialization, not_image_fault
from netfl.learning.model._initialization import ParameterSpec, Spread
from netfl.types import Law

if TYPE_CHECKING:
    from netfl.learning.architecture import Architecture


class Cnn(Model):
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

    channels: Annotated[tuple[Annotated[int, Field(ge=1)], ...], Field(min_length=1)]
    """How many channels each convolution gives, from the input on."""
    kernel: Annotated[int, Field(ge=1)] = 3
    """Rows and columns that a convolution sees at once."""
    padding: Annotated[int, Field(ge=0)] = 1
    """Rows and columns of zeros on each side of a picture; half of ``kernel``, rounded down, keeps its size."""
    hidden: tuple[Annotated[int, Field(ge=1)], ...] = ()
    """Widths of the dense layers between the last pool and the classes."""
    activation: Literal["relu", "leaky_relu", "tanh"] = "relu"
    """What follows each pool and each hidden layer; the leaky one has slope 0.01 below zero."""
    weights: Spread = "default"
    """Where the parameters start: uniform on ±1/√(fan in), as in PyTorch; or normal with variance 2/(fan in) and biases
    of zero (He et al. 2015), save for the last layer, which starts as in PyTorch."""

    def parameters(self, shape: tuple[int, ...], classes: int, tokens: int | None = None) -> int:
        """Weights and biases of all layers."""
        return _initialization.count_parameters(self._parts(shape, classes))

    def open(self, shape: tuple[int, ...], classes: int, tokens: int | None = None) -> Architecture:
        """The layers at work."""
        from netfl.learning.model._batched import ModuleArchitecture
        from netfl.learning.model._manual_conv import Convolutional, ConvolutionalStack, ConvShape

        whole = ConvShape(self._windows(shape), self.padding, self._sizes(shape, classes), self.activation)
        begin = partial(_initialization.draw_parameters, self._parts(shape, classes))
        return ModuleArchitecture(Convolutional(whole), begin, by_hand=partial(ConvolutionalStack, shape=whole))

    def misfits(self, shape: tuple[int, ...], classes: int, tokens: int | None) -> Iterator[Fault]:
        """It takes pictures, large enough for all its pools."""
        if tokens is not None or len(shape) != 3:
            yield not_image_fault(shape)
            return
        size, most = f"pictures of {shape[1]} x {shape[2]} pixels", min(shape[1:]) + 2 * self.padding - 1
        if self.kernel > most:
            remedy = f"take {most} or less, or make 'padding' larger" if most > 0 else "make 'padding' larger"
            yield Fault("kernel", f"is too large for {size}: nothing is left to pool", self.kernel, remedy)
        elif min(self._picture(shape)) < 1:
            problem = f"{size} are too small for {len(self.channels)} convolutions with a pool each"
            yield Fault("channels", problem, list(self.channels), "leave some out, or make 'padding' larger")

    def laws(self) -> tuple[Law, ...]:
        """Where it starts."""
        return _initialization.laws(self._parts((1, 64, 64), 10))

    def _picture(self, shape: tuple[int, ...]) -> tuple[int, int]:
        """Rows and columns after all pools; 0 or less if there are none."""
        rows, columns = shape[1:]
        for _ in self.channels:
            rows, columns = (size // 2 for size in self._places((rows, columns)))
        return rows, columns

    def _places(self, picture: tuple[int, int]) -> tuple[int, int]:
        """Rows and columns of the places that a window has on a picture."""
        rows, columns = (size + 2 * self.padding - self.kernel + 1 for size in picture)
        return rows, columns

    def _windows(self, shape: tuple[int, ...]) -> tuple[tuple[int, int, int, int], ...]:
        """The shapes of the convolutions' weights."""
        inputs = (shape[0], *self.channels)
        return tuple((out, into, self.kernel, self.kernel) for into, out in zip(inputs, self.channels, strict=False))

    def _sizes(self, shape: tuple[int, ...], classes: int) -> tuple[int, ...]:
        """Widths of the dense layers, from what the last pool gives to the classes."""
        return (self.channels[-1] * math.prod(self._picture(shape)), *self.hidden, classes)

    def _parts(self, shape: tuple[int, ...], classes: int) -> tuple[ParameterSpec, ...]:
        """All parameters."""
        windows = self._windows(shape)
        convolutions = (
            part
            for layer, (out, *window) in enumerate(windows)
            for part in _initialization.linear(f"convolutions.{layer}", out, window, layer, self.weights)
        )
        starts = (self.weights,) * len(self.hidden) + ("default",)
        return (*convolutions, *_initialization.dense_parameters(self._sizes(shape, classes), starts, len(windows)))
