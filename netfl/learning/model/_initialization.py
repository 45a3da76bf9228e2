"""What parameters models have, and where each starts: without torch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from netfl.streams import Streams
from netfl.types import Law

Start = Literal["default", "zeros"]
"""Where a dense layer's weights start."""
Spread = Literal["default", "kaiming_normal"]
"""Where the weights of a deep network start."""


@dataclass(frozen=True, slots=True)
class ParameterSpec:
    """Some of a model's parameters.

    Args:
        name: as in the model's layout.
        shape: theirs.
        stream: what their draws are named by.
        law: they start uniform on ±scale, normal with this standard deviation, or all at this value.
        scale: see there.
    """

    name: str
    shape: tuple[int, ...]
    stream: tuple[str | int, ...]
    law: Literal["uniform", "normal", "constant"]
    scale: float

    @property
    def size(self) -> int:
        """How many they are."""
        return math.prod(self.shape)

    def draw(self, streams: Streams) -> NDArray[np.float64]:
        """Where they start, in a row."""
        if self.law == "constant":
            return np.full(self.size, self.scale)
        rng = streams.rng(*self.stream)
        if self.law == "normal":
            return rng.normal(0.0, self.scale, self.size)
        return rng.uniform(-self.scale, self.scale, self.size)


def linear(
    name: str, fan_out: int, window: Sequence[int], layer: int, start: Start | Spread = "default"
) -> tuple[ParameterSpec, ParameterSpec]:
    """Weights and biases of a layer, each of whose outputs is a weighted sum of *window* inputs.

    Uniform on ±1/√(fan in), the default of PyTorch's linear and convolutional layers, or weights so that start at zero;
    or as He et al. ("Delving deep into rectifiers", ICCV 2015) have it, ``N(0, 2/fan in)`` with biases of zero.

    Args:
        name: the layer's.
        fan_out: outputs.
        window: the shape of what one output sees.
        layer: names its draws.
        start: where the weights start.
    """
    fan_in = math.prod(window)
    bound = 1 / math.sqrt(fan_in)
    weight, bias = f"{name}.weight", f"{name}.bias"
    shape, weights, biases = (fan_out, *window), ("weights", layer), ("biases", layer)
    if start == "kaiming_normal":
        return (
            ParameterSpec(weight, shape, weights, "normal", math.sqrt(2 / fan_in)),
            ParameterSpec(bias, (fan_out,), biases, "constant", 0.0),
        )
    drawn: Literal["uniform", "constant"] = "constant" if start == "zeros" else "uniform"
    return (
        ParameterSpec(weight, shape, weights, drawn, 0.0 if start == "zeros" else bound),
        ParameterSpec(bias, (fan_out,), biases, "uniform", bound),
    )


def dense_parameters(
    sizes: Sequence[int], starts: Sequence[Start | Spread], first: int = 0
) -> tuple[ParameterSpec, ...]:
    """Dense layers between *sizes*, whose draws are named from layer *first* on.

    >>> count_parameters(dense_parameters([2, 64, 3], ["default", "zeros"]))
    387
    >>> parameter_shapes(dense_parameters([2, 3], ["default"]))
    {'layers.0.weight': (3, 2), 'layers.0.bias': (3,)}
    """
    layers = enumerate(zip(pairwise(sizes), starts, strict=True))
    return tuple(
        part
        for layer, ((fan_in, fan_out), start) in layers
        for part in linear(f"layers.{layer}", fan_out, (fan_in,), first + layer, start)
    )


def count_parameters(parts: Sequence[ParameterSpec]) -> int:
    """The number of parameters."""
    return sum(part.size for part in parts)


def parameter_shapes(parts: Sequence[ParameterSpec]) -> dict[str, tuple[int, ...]]:
    """Their names and shapes."""
    return {part.name: part.shape for part in parts}


def draw_parameters(parts: Sequence[ParameterSpec], streams: Streams) -> NDArray[np.float64]:
    """Where they start, one after the other."""
    return np.concatenate([part.draw(streams) for part in parts])


def laws(parts: Sequence[ParameterSpec]) -> tuple[Law, ...]:
    """The claims that what is drawn, divided by its scale, is uniform on (-1, 1), or standard normal."""
    from scipy import stats

    claims = (
        ("uniform", "uniform on (-1, 1): the default start of PyTorch's layers", stats.uniform(-1, 2)),
        ("normal", "standard normal", stats.norm()),
    )
    found = []
    for law, statement, distribution in claims:
        mine = [part for part in parts if part.law == law]
        if mine:

            def many(streams: Streams, size: int, mine: Sequence[ParameterSpec] = mine) -> NDArray[np.float64]:
                times = range(-(-size // count_parameters(mine)))
                return np.concatenate([part.draw(streams.at(i)) / part.scale for i in times for part in mine])

            quantity = f"starting parameter over its scale, {law}"
            found.append(Law(quantity, statement, many, distribution=distribution))
    return tuple(found)
