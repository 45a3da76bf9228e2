"""Linear support vector machine."""

from __future__ import annotations

import math

from netfl.learning.model import Architecture
from netfl.learning.model._initialization import Start
from netfl.learning.model._layered_model import DenseModel


class Svm(DenseModel):
    """One linear layer under the hinge loss of the worst rival, ``max(0, 1 + max_j s_j - s_y)`` over ``j ≠ y``.

    That is the loss of Crammer and Singer ("On the algorithmic implementation of multiclass kernel-based vector
    machines", JMLR 2, 2001).  For two classes there is one output f, positive for class 1, and the loss is
    ``max(0, 1 - f)`` or ``max(0, 1 + f)``, as in the Vehicle experiment of q-FFL.  Its gradient is 0 at the kink.  The
    penalty on the weights is the learner's ``weight_decay``.

    Example::

        kind: svm
    """

    weights: Start = "default"
    """Initial weights: uniform on ±1/√(fan in), or zero; biases are uniform in both cases."""

    def open(self, shape: tuple[int, ...], classes: int, tokens: int | None = None) -> Architecture:
        from netfl.learning.model._manual_dense import Dense, HingeStack

        return Dense(self._sizes(shape, classes), self._starts, HingeStack)

    def _sizes(self, shape: tuple[int, ...], classes: int) -> tuple[int, int]:
        return math.prod(shape), 1 if classes == 2 else classes

    @property
    def _starts(self) -> tuple[Start, ...]:
        return (self.weights,)
