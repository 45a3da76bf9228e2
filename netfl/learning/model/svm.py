"""A linear support vector machine."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from netfl.learning.model import Model, _start
from netfl.learning.model._start import Part, Start
from netfl.types import Law

if TYPE_CHECKING:
    from netfl.learning.network import Network


class Svm(Model):
    """One linear layer under the hinge loss of the worst rival, ``max(0, 1 + max_j s_j - s_y)`` over ``j ≠ y``.

    That is the loss of Crammer and Singer ("On the algorithmic implementation of multiclass kernel-based vector
    machines", JMLR 2, 2001).  For two classes there is one output f, positive for class 1, and the loss is
    ``max(0, 1 - f)`` or ``max(0, 1 + f)``, as in the Vehicle experiment of q-FFL.  Its gradient is 0 at the bend.  The
    penalty on the weights is the learner's ``weight_decay``.

    Example::

        kind: svm
    """

    weights: Start = "default"
    """Where the weights start: uniform on ±1/√(fan in), or at zero; biases are uniform in any case."""

    def parameters(self, shape: tuple[int, ...], classes: int, tokens: int | None = None) -> int:
        """``(inputs + 1) · classes``, or ``inputs + 1`` for two classes."""
        return _start.count(self._parts(shape, classes))

    def open(self, shape: tuple[int, ...], classes: int, tokens: int | None = None) -> Network:
        """The layer at work."""
        from netfl.learning.model._hinge import Hinge  # noqa: PLC0415 - the module needs torch, a scenario does not

        return Hinge(self._sizes(shape, classes), (self.weights,))

    def laws(self) -> tuple[Law, ...]:
        """Where it starts."""
        return _start.laws(self._parts((6,), 500))

    def _sizes(self, shape: tuple[int, ...], classes: int) -> tuple[int, int]:
        """Inputs and outputs."""
        return math.prod(shape), 1 if classes == 2 else classes

    def _parts(self, shape: tuple[int, ...], classes: int) -> tuple[Part, ...]:
        """All parameters."""
        return _start.dense(self._sizes(shape, classes), (self.weights,))
