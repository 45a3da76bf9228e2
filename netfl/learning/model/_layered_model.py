"""Bases of models with known layers."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from functools import partial
from typing import ClassVar

import numpy as np

from netfl.learning.model import Architecture, Model
from netfl.learning.model._initialization import ParameterSpec, Start, count_parameters, dense_parameters
from netfl.streams import Streams
from netfl.types import Floats, Law

ExampleFormat = tuple[tuple[int, ...], int, int | None]
"""Shape, classes and tokens of examples."""


class LayeredModel(Model):
    """A model with known layers."""

    law_example: ClassVar[ExampleFormat]
    """The examples for which the model states its properties."""

    def parameters(self, shape: tuple[int, ...], classes: int, tokens: int | None = None) -> int:
        return count_parameters(self._parts(shape, classes, tokens))

    def laws(self) -> tuple[Law, ...]:
        """State that initial values divided by their scale are uniform on (-1, 1), or standard normal."""
        from scipy import stats

        claims = (
            ("uniform", "uniform on (-1, 1): the default start of PyTorch's layers", stats.uniform(-1, 2)),
            ("normal", "standard normal", stats.norm()),
        )
        laws = []
        for law, statement, distribution in claims:
            parts = [part for part in self._parts(*self.law_example) if part.law == law]
            if parts:
                quantity = f"starting parameter over its scale, {law}"
                laws.append(Law(quantity, statement, partial(_scaled_starts, parts), distribution=distribution))
        return tuple(laws)

    @abstractmethod
    def _parts(self, shape: tuple[int, ...], classes: int, tokens: int | None) -> tuple[ParameterSpec, ...]:
        """Return all parameters, in the order of the layout."""


def _scaled_starts(parts: Sequence[ParameterSpec], streams: Streams, size: int) -> Floats:
    """Draw at least *size* initial values of *parts*, each divided by its scale."""
    models = -(-size // count_parameters(parts))
    draws = []
    for model in range(models):
        draws += [part.draw(streams.at(model)) / part.scale for part in parts]
    return np.concatenate(draws)


class DenseModel(LayeredModel):
    """Dense layers under cross-entropy."""

    law_example: ClassVar[ExampleFormat] = ((6,), 500, None)

    def open(self, shape: tuple[int, ...], classes: int, tokens: int | None = None) -> Architecture:
        from netfl.learning.model._manual_dense import Dense, DenseStack

        return Dense(self._sizes(shape, classes), self._starts, DenseStack)

    def _parts(self, shape: tuple[int, ...], classes: int, tokens: int | None) -> tuple[ParameterSpec, ...]:
        return dense_parameters(self._sizes(shape, classes), self._starts)

    def _sizes(self, shape: tuple[int, ...], classes: int) -> tuple[int, ...]:
        """Return the widths of all layers, including input and output."""
        return math.prod(shape), classes

    @property
    @abstractmethod
    def _starts(self) -> tuple[Start, ...]:
        """Initial weights of each layer."""
