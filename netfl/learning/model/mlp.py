"""Fully connected layers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from netfl.learning.model import Model, _start
from netfl.types import Law

if TYPE_CHECKING:
    from netfl.learning.network import Network


class Mlp(Model):
    """A multilayer perceptron: linear layers with an activation between them, under cross-entropy.

    Example::

        kind: mlp
        hidden: [64]
        activation: relu
        output: logits
        weights: default
    """

    hidden: Annotated[tuple[Annotated[int, Field(ge=1)], ...], Field(min_length=1)]
    """Widths of the hidden layers, from the input on; for none, use ``logistic``."""
    activation: Literal["relu", "leaky_relu", "tanh"] = "relu"
    """What follows each hidden layer; the leaky one has slope 0.01 below zero."""
    output: Literal["logits", "softmax"] = "logits"
    """What is fed to the cross-entropy, which takes a softmax of its own: the last layer's output, or its softmax."""
    weights: Literal["default", "zeros"] = "default"
    """Where the weights start: uniform on ±1/√(fan in), or at zero; biases are uniform in any case."""

    def parameters(self, shape: tuple[int, ...], classes: int) -> int:
        """Weights and biases of all layers."""
        return _start.count(self._sizes(shape, classes))

    def open(self, shape: tuple[int, ...], classes: int) -> Network:
        """The layers at work."""
        from netfl.learning.model._dense import Dense  # noqa: PLC0415 - the module needs torch, a scenario does not

        zero = self.weights == "zeros"
        return Dense(self._sizes(shape, classes), zero, self.activation, softmax=self.output == "softmax")

    def laws(self) -> tuple[Law, ...]:
        """Where it starts."""
        return (_start.law(self._sizes((6,), 500), self.weights == "zeros"),)

    def _sizes(self, shape: tuple[int, ...], classes: int) -> tuple[int, ...]:
        """Widths of all layers, the input and the output among them."""
        return (math.prod(shape), *self.hidden, classes)
