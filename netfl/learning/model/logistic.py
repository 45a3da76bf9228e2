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
    """Where the weights start: uniform on ±1/√(fan in), or at zero; biases are uniform in any case."""

    def parameters(self, shape: tuple[int, ...], classes: int, tokens: int | None = None) -> int:
        """``(inputs + 1) · classes``."""
        return _initialization.count_parameters(
            _initialization.dense_parameters((math.prod(shape), classes), (self.weights,))
        )

    def open(self, shape: tuple[int, ...], classes: int, tokens: int | None = None) -> Architecture:
        """The layer at work."""
        from netfl.learning.model._manual_dense import Dense

        return Dense((math.prod(shape), classes), (self.weights,))

    def laws(self) -> tuple[Law, ...]:
        """Where it starts."""
        return _initialization.laws(_initialization.dense_parameters((6, 500), (self.weights,)))
