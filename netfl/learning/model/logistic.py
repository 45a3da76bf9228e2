"""Multinomial logistic regression."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from netfl.learning.model import Model, _initialization
from netfl.learning.model._initialization import Start
from netfl.types import Law

if TYPE_CHECKING:
    from netfl.learning.architecture import Architecture


class Logistic(Model):
    """One linear layer whose outputs are the logits of the classes: ``softmax(W x + b)`` under cross-entropy.

    Example::

        kind: logistic
    """

    weights: Start = "default"
    """Initial weights: uniform on ±1/√(fan in), or zero; biases are uniform in both cases."""

    def parameters(self, shape: tuple[int, ...], classes: int, tokens: int | None = None) -> int:
        """Count ``(inputs + 1) · classes`` parameters."""
        return _initialization.count_parameters(
            _initialization.dense_parameters((math.prod(shape), classes), (self.weights,))
        )

    def open(self, shape: tuple[int, ...], classes: int, tokens: int | None = None) -> Architecture:
        """Return the layer."""
        from netfl.learning.model._manual_dense import Dense

        return Dense((math.prod(shape), classes), (self.weights,))

    def laws(self) -> tuple[Law, ...]:
        """State the distribution of the initial parameters."""
        return _initialization.initial_laws(_initialization.dense_parameters((6, 500), (self.weights,)))
