"""A residual network of eight layers that normalises by groups."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from netfl.errors import Fault
from netfl.learning.model import Model, _initialization, not_image_fault
from netfl.learning.model._initialization import ParameterSpec, Spread
from netfl.types import Law

if TYPE_CHECKING:
    from netfl.learning.architecture import Architecture


class Resnet8(Model):
    """The residual network for small pictures with one block in each of three stages, under cross-entropy.

    He et al., "Deep residual learning for image recognition", CVPR 2016, 4.2 with n = 1: a convolution of 3 x 3, three
    blocks of two, the second and the third of which halve the picture and double the channels, the mean over the
    picture, a linear layer.  Where a block changes the shape, its shortcut is a convolution of 1 x 1.  In place of
    batch normalisation, by which an example's scores depend on the others of its batch, there is that of Wu and He
    ("Group normalization", ECCV 2018), as Hsieh et al. advise for users that differ ("The non-IID data quagmire", ICML
    2020).

    Example::

        kind: resnet8
        width: 16
        groups: 8
    """

    width: Annotated[int, Field(ge=1, le=4096)] = 16
    """Channels of the first stage."""
    groups: Annotated[int, Field(ge=1)] = 8
    """How many groups channels are normalised in; a divisor of ``width``."""
    weights: Spread = "default"
    """Where the convolutions start: uniform on ±1/√(fan in), as in PyTorch, or normal with variance 2/(fan in)."""

    @model_validator(mode="after")
    def _whole_groups(self) -> Resnet8:
        """All groups are of one size."""
        if self.width % self.groups:
            most = max(one for one in range(1, min(self.groups, self.width + 1)) if self.width % one == 0)
            raise ValueError(f"groups must divide width, {self.width}, which {self.groups} does not: take {most}, say")
        return self

    def parameters(self, shape: tuple[int, ...], classes: int, tokens: int | None = None) -> int:
        """Convolutions, scales and shifts of the groups, the last layer."""
        return _initialization.count_parameters(self._parts(shape[0], classes))

    def open(self, shape: tuple[int, ...], classes: int, tokens: int | None = None) -> Architecture:
        """The layers at work."""
        from netfl.learning.model._batched import ModuleArchitecture

        begin = partial(_initialization.draw_parameters, self._parts(shape[0], classes))
        return ModuleArchitecture(Residual(shape[0], self._widths, self.groups, classes), begin)

    def misfits(self, shape: tuple[int, ...], classes: int, tokens: int | None) -> Iterator[Fault]:
        """It takes pictures."""
        if tokens is not None or len(shape) != 3:
            yield not_image_fault(shape)

    def laws(self) -> tuple[Law, ...]:
        """Where it starts."""
        return _initialization.laws(self._parts(3, 10))

    @property
    def _widths(self) -> tuple[int, ...]:
        """Channels after the first convolution and after each block."""
        return (self.width, self.width, 2 * self.width, 4 * self.width)

    def _parts(self, channels: int, classes: int) -> tuple[ParameterSpec, ...]:
        """All parameters."""
        parts = self._convolution("first", channels, self.width, 3)
        for block, (into, out) in enumerate(pairwise(self._widths)):
            parts += self._convolution(f"blocks.{block}.first", into, out, 3)
            parts += self._convolution(f"blocks.{block}.second", out, out, 3)
            if into != out:
                parts += self._convolution(f"blocks.{block}.shortcut", into, out, 1)
        return (*parts, *_initialization.linear("last", classes, self._widths[-1:], 0))

    def _convolution(self, name: str, into: int, out: int, kernel: int) -> tuple[ParameterSpec, ...]:
        """A convolution without biases, whose draws its name names, and the scales and shifts of its groups."""
        weight, _ = _initialization.linear(f"{name}.0", out, (into, kernel, kernel), 0, self.weights)
        return (
            replace(weight, stream=(name,)),
            ParameterSpec(f"{name}.1.weight", (out,), (), "constant", 1.0),
            ParameterSpec(f"{name}.1.bias", (out,), (), "constant", 0.0),
        )


# A residual network that normalises by groups, in PyTorch's own words.


class Residual(nn.Module):
    """A convolution, a block for each two neighbours of *widths*, the mean over the picture, a linear layer."""

    def __init__(self, channels: int, widths: Sequence[int], groups: int, classes: int) -> None:
        super().__init__()
        with torch.device("meta"):
            self.first = _normalised(channels, widths[0], groups, 3, 1)
            self.blocks = nn.ModuleList(_Block(into, out, groups) for into, out in pairwise(widths))
            self.last = nn.Linear(widths[-1], classes)

    def forward(self, x: Tensor) -> Tensor:
        """The scores."""
        x = self.first(x).relu()
        for block in self.blocks:
            x = block(x)
        return torch.as_tensor(self.last(x.mean((2, 3))))


class _Block(nn.Module):
    """Two convolutions beside a shortcut; one that widens the picture halves its rows and columns."""

    def __init__(self, into: int, out: int, groups: int) -> None:
        super().__init__()
        stride = 1 if into == out else 2
        self.first = _normalised(into, out, groups, 3, stride)
        self.second = _normalised(out, out, groups, 3, 1)
        self.shortcut = nn.Identity() if into == out else _normalised(into, out, groups, 1, stride)

    def forward(self, x: Tensor) -> Tensor:
        """What the next block sees."""
        found = self.second(self.first(x).relu()) + self.shortcut(x)
        return torch.as_tensor(found.relu())


def _normalised(into: int, out: int, groups: int, kernel: int, stride: int) -> nn.Module:
    """A convolution and the normalisation of what it gives."""
    convolution = nn.Conv2d(into, out, kernel, stride, padding=kernel // 2, bias=False)
    return nn.Sequential(convolution, nn.GroupNorm(groups, out))
