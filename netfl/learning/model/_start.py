"""Where dense layers start, and how many parameters they have: without torch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from netfl.streams import Streams
from netfl.types import Law

Start = Literal["default", "zeros"]
"""Where a layer's weights start."""


def count(sizes: Sequence[int]) -> int:
    """The number of weights and biases of dense layers between *sizes*.

    >>> count([2, 64, 3])
    387
    """
    return sum((fan_in + 1) * fan_out for fan_in, fan_out in pairwise(sizes))


def layout(sizes: Sequence[int]) -> dict[str, tuple[int, ...]]:
    """Names and shapes of weights and biases.

    >>> layout([2, 3])
    {'layers.0.weight': (3, 2), 'layers.0.bias': (3,)}
    """
    found: dict[str, tuple[int, ...]] = {}
    for layer, (fan_in, fan_out) in enumerate(pairwise(sizes)):
        found |= {f"layers.{layer}.weight": (fan_out, fan_in), f"layers.{layer}.bias": (fan_out,)}
    return found


def draw(sizes: Sequence[int], zero: Sequence[bool], streams: Streams) -> NDArray[np.float64]:
    """Weights, out by in, and biases of each layer, one after the other; uniform on ±1/√(fan in).

    That is the default start of PyTorch's linear layers.  *zero* says which weights start at zero; no bias does.
    """
    parts = []
    for layer, (fan_in, fan_out) in enumerate(pairwise(sizes)):
        bound = 1 / math.sqrt(fan_in)
        weights = streams.rng("weights", layer).uniform(-bound, bound, fan_in * fan_out)
        parts += [weights * (not zero[layer]), streams.rng("biases", layer).uniform(-bound, bound, fan_out)]
    return np.concatenate(parts)


def law(sizes: Sequence[int], zero: Sequence[bool]) -> Law:
    """The claim that each drawn parameter, times √(fan in), is uniform on (-1, 1)."""
    scale = np.concatenate([np.full((fan_in + 1) * out, math.sqrt(fan_in)) for fan_in, out in pairwise(sizes)])
    drawn = draw(sizes, zero, Streams(0)) != 0.0

    def many(streams: Streams, size: int) -> NDArray[np.float64]:
        times = range(-(-size // int(drawn.sum())))
        return np.concatenate([(draw(sizes, zero, streams.at(i)) * scale)[drawn] for i in times])

    return Law(
        quantity="starting parameter times √(fan in)",
        statement="uniform on (-1, 1): the default start of PyTorch's linear layers",
        draw=many,
        mean=0.0,
        variance=1 / 3,
        cdf=lambda x: np.clip((x + 1) / 2, 0.0, 1.0),
    )
