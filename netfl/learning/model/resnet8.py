"""Residual network of eight layers with group normalisation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Annotated, ClassVar

from pydantic import Field, model_validator

from netfl.errors import Fault
from netfl.learning.model import Architecture, not_image_fault
from netfl.learning.model._initialization import ParameterSpec, Spread, draw_parameters, linear_parameters
from netfl.learning.model._layered_model import ExampleFormat, LayeredModel


class Resnet8(LayeredModel):
    """The residual network for small images with one block in each of three stages, under cross-entropy.

    He et al., "Deep residual learning for image recognition", CVPR 2016, 4.2 with n = 1: a convolution of 3 x 3, three
    blocks of two, the second and the third of which halve the image and double the channels, the mean over the image, a
    linear layer.  If a block changes the shape, its shortcut is a convolution of 1 x 1.  Batch normalisation, which
    makes an example's scores depend on its batch, is replaced by that of Wu and He ("Group normalization", ECCV 2018),
    as Hsieh et al. recommend for users that differ ("The non-IID data quagmire", ICML 2020).

    Example::

        kind: resnet8
        width: 16
        groups: 8
    """

    law_example: ClassVar[ExampleFormat] = ((3, 32, 32), 10, None)
    width: Annotated[int, Field(ge=1, le=4096)] = 16
    """Channels of the first stage."""
    groups: Annotated[int, Field(ge=1)] = 8
    """Groups of channels for the normalisation; a divisor of ``width``."""
    weights: Spread = "default"
    """Initial weights of the convolutions: uniform on ±1/√(fan in), as in PyTorch, or normal with variance
    2/(fan in)."""

    @model_validator(mode="after")
    def _check_groups(self) -> Resnet8:
        if self.width % self.groups:
            raise ValueError(f"{self.groups} groups do not divide the width of {self.width}; give a divisor of it")
        return self

    def open(self, shape: tuple[int, ...], classes: int, tokens: int | None = None) -> Architecture:
        from netfl.learning.architecture import ModuleArchitecture
        from netfl.learning.model._modules import Residual
        from netfl.learning.module_training import PLAIN

        start = partial(draw_parameters, self._parts(shape, classes, tokens))
        module = Residual(shape[0], self._widths, self.groups, classes)
        return ModuleArchitecture(module, start, traits=PLAIN, largest_layer=self.width * shape[1] * shape[2])

    def misfits(self, shape: tuple[int, ...], classes: int, tokens: int | None) -> Iterator[Fault]:
        if tokens is not None or len(shape) != 3:
            yield not_image_fault(shape)

    @property
    def _widths(self) -> tuple[int, ...]:
        return (self.width, self.width, 2 * self.width, 4 * self.width)

    def _parts(self, shape: tuple[int, ...], classes: int, tokens: int | None) -> tuple[ParameterSpec, ...]:
        parts = self._convolution("first", shape[0], self.width, 3)
        for block, (into, out) in enumerate(pairwise(self._widths)):
            parts += self._convolution(f"blocks.{block}.first", into, out, 3)
            parts += self._convolution(f"blocks.{block}.second", out, out, 3)
            if into != out:
                parts += self._convolution(f"blocks.{block}.shortcut", into, out, 1)
        return (*parts, *linear_parameters("last", classes, self._widths[-1:], 0))

    def _convolution(self, name: str, into: int, out: int, kernel: int) -> tuple[ParameterSpec, ...]:
        """Return a convolution without biases, with its own random stream, and the scales and shifts of its groups."""
        weight, _ = linear_parameters(f"{name}.0", out, (into, kernel, kernel), 0, self.weights)
        return (
            replace(weight, stream=(name,)),
            ParameterSpec(f"{name}.1.weight", (out,), (), "constant", 1.0),
            ParameterSpec(f"{name}.1.bias", (out,), (), "constant", 0.0),
        )
