"""Parameters of models and their initial values, without torch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np

from netfl.streams import Streams
from netfl.types import Floats

Start = Literal["default", "zeros"]
"""Initial weights of a dense layer."""
Biases = Literal["default", "zeros"] | int
"""Initial biases of a dense layer: uniform on ±1/√(fan in), zero, or another draw with this number."""
Spread = Literal["default", "kaiming_normal"]
"""Initial weights of a deep network."""


@dataclass(frozen=True, slots=True)
class ParameterSpec:
    """A named array of parameters.

    Args:
        name: name in the model's layout.
        shape: shape of the array.
        stream: name of the random stream.
        law: initial values: uniform on ±scale, normal with standard deviation scale, or constant at scale.
        scale: see *law*.
    """

    name: str
    shape: tuple[int, ...]
    stream: tuple[str | int, ...]
    law: Literal["uniform", "normal", "constant"]
    scale: float

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    def draw(self, streams: Streams) -> Floats:
        """Draw initial values as a flat array."""
        if self.law == "constant":
            return np.full(self.size, self.scale)
        rng = streams.rng(*self.stream)
        if self.law == "normal":
            return rng.normal(0.0, self.scale, self.size)
        return rng.uniform(-self.scale, self.scale, self.size)


def linear_parameters(
    name: str,
    fan_out: int,
    window: Sequence[int],
    layer: int,
    start: Start | Spread = "default",
    bias_start: Biases = "default",
) -> tuple[ParameterSpec, ParameterSpec]:
    """Return weights and biases of a layer whose outputs are weighted sums of *window* inputs.

    ``default``: uniform on ±1/√(fan in), as in PyTorch's linear and convolutional layers.  ``zeros``: the same with
    zero weights.  ``kaiming_normal``: weights ``N(0, 2/fan in)`` and zero biases (He et al., "Delving deep into
    rectifiers", ICCV 2015).

    Args:
        name: name of the layer.
        fan_out: the number of outputs.
        window: shape of the inputs of one output.
        layer: number of the layer, which names its random stream.
        start: initial weights.
        bias_start: initial biases; with ``kaiming_normal`` they are zero.
    """
    fan_in = math.prod(window)
    bound = 1 / math.sqrt(fan_in)

    shape = (fan_out, *window)
    stream: tuple[str | int, ...] = ("weights", layer)
    if start == "kaiming_normal":
        weights = ParameterSpec(f"{name}.weight", shape, stream, "normal", math.sqrt(2 / fan_in))
    elif start == "zeros":
        weights = ParameterSpec(f"{name}.weight", shape, stream, "constant", 0.0)
    else:
        weights = ParameterSpec(f"{name}.weight", shape, stream, "uniform", bound)

    stream = ("biases", layer)
    if start == "kaiming_normal" or bias_start == "zeros":
        return weights, ParameterSpec(f"{name}.bias", (fan_out,), stream, "constant", 0.0)
    if bias_start != "default":
        stream = (*stream, bias_start)  # another draw, with the same weights
    return weights, ParameterSpec(f"{name}.bias", (fan_out,), stream, "uniform", bound)


def dense_parameters(
    sizes: Sequence[int], starts: Sequence[Start | Spread], first: int = 0, biases: Biases = "default"
) -> tuple[ParameterSpec, ...]:
    """Return the parameters of dense layers between *sizes*; layers are numbered from *first* on.

    >>> count_parameters(dense_parameters([2, 64, 3], ["default", "zeros"]))
    387
    >>> parameter_shapes(dense_parameters([2, 3], ["default"]))
    {'layers.0.weight': (3, 2), 'layers.0.bias': (3,)}
    """
    parts: list[ParameterSpec] = []
    for layer, ((fan_in, fan_out), start) in enumerate(zip(pairwise(sizes), starts, strict=True)):
        parts += linear_parameters(f"layers.{layer}", fan_out, (fan_in,), first + layer, start, biases)
    return tuple(parts)


def count_parameters(parts: Sequence[ParameterSpec]) -> int:
    """Return the number of parameters."""
    return sum(part.size for part in parts)


def parameter_shapes(parts: Sequence[ParameterSpec]) -> dict[str, tuple[int, ...]]:
    """Return names and shapes."""
    return {part.name: part.shape for part in parts}


def draw_parameters(parts: Sequence[ParameterSpec], streams: Streams) -> Floats:
    """Draw all initial values as one flat array."""
    return np.concatenate([part.draw(streams) for part in parts])
