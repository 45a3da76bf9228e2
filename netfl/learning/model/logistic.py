"""Multinomial logistic regression."""

from __future__ import annotations

from netfl.learning.model._initialization import Start
from netfl.learning.model._layered_model import DenseModel


class Logistic(DenseModel):
    """One linear layer whose outputs are the logits of the classes: ``softmax(W x + b)`` under cross-entropy.

    Example::

        kind: logistic
    """

    weights: Start = "default"
    """Initial weights: uniform on ±1/√(fan in), or zero; biases are uniform in both cases."""

    @property
    def _starts(self) -> tuple[Start, ...]:
        return (self.weights,)
