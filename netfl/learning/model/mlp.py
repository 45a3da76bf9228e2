"""Multilayer perceptron."""

from __future__ import annotations

import math
from functools import partial
from typing import Annotated, Literal

from pydantic import Field, model_validator

from netfl.core.spec import ByForm
from netfl.learning.model import Architecture
from netfl.learning.model._initialization import ParameterSpec, Start, dense_parameters
from netfl.learning.model._layered_model import DenseModel


class Mlp(DenseModel):
    """A multilayer perceptron: linear layers with an activation between them, under cross-entropy.

    Example::

        kind: mlp
        hidden: [64]
        activation: relu
        output: logits
        weights: default
        biases: default
    """

    hidden: Annotated[tuple[Annotated[int, Field(ge=1)], ...], Field(min_length=1)]
    """Widths of the hidden layers, from the input on; for none, use ``logistic``."""
    activation: Literal["relu", "leaky_relu", "tanh"] = "relu"
    """Activation after each hidden layer; ``leaky_relu`` has slope 0.01 below zero."""
    output: Literal["logits", "softmax"] = "logits"
    """Input of the cross-entropy, which applies a softmax itself: the last layer's output, or its softmax."""
    weights: Annotated[Start | tuple[Start, ...], ByForm()] = "default"
    """Initial weights: uniform on ±1/√(fan in), or zero; one word for all layers, or one for each."""
    biases: Annotated[Literal["default", "zeros"] | Annotated[int, Field(ge=0)], ByForm()] = "default"
    """Initial biases: uniform on ±1/√(fan in), or zero.  A number is another draw of uniform biases, with the same
    weights."""

    @model_validator(mode="after")
    def _check_weights(self) -> Mlp:
        if isinstance(self.weights, tuple) and len(self.weights) != len(self.hidden) + 1:
            raise ValueError(
                f"weights has {len(self.weights)} entries for {len(self.hidden) + 1} layers; give one for each"
            )
        return self

    def open(self, shape: tuple[int, ...], classes: int, tokens: int | None = None) -> Architecture:
        from netfl.learning.model._manual_dense import Dense, DenseStack

        stack = partial(DenseStack, activation=self.activation, softmax=self.output == "softmax")
        return Dense(self._sizes(shape, classes), self._starts, stack, self.biases)

    def _parts(self, shape: tuple[int, ...], classes: int, tokens: int | None) -> tuple[ParameterSpec, ...]:
        return dense_parameters(self._sizes(shape, classes), self._starts, biases=self.biases)

    @property
    def _starts(self) -> tuple[Start, ...]:
        if isinstance(self.weights, tuple):
            return self.weights
        return (self.weights,) * (len(self.hidden) + 1)

    def _sizes(self, shape: tuple[int, ...], classes: int) -> tuple[int, ...]:
        return (math.prod(shape), *self.hidden, classes)
