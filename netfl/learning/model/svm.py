"""A linear support vector machine."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from netfl.learning.model import Model, _initialization
from netfl.learning.model._initialization import ParameterSpec, Start
from netfl.learning.model._manual_dense import Dense, DenseStack
from netfl.types import Law

if TYPE_CHECKING:
    from netfl.learning.architecture import Architecture


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
        return _initialization.count_parameters(self._parts(shape, classes))

    def open(self, shape: tuple[int, ...], classes: int, tokens: int | None = None) -> Architecture:
        """The layer at work."""
        return Hinge(self._sizes(shape, classes), (self.weights,))

    def laws(self) -> tuple[Law, ...]:
        """Where it starts."""
        return _initialization.laws(self._parts((6,), 500))

    def _sizes(self, shape: tuple[int, ...], classes: int) -> tuple[int, int]:
        """Inputs and outputs."""
        return math.prod(shape), 1 if classes == 2 else classes

    def _parts(self, shape: tuple[int, ...], classes: int) -> tuple[ParameterSpec, ...]:
        """All parameters."""
        return _initialization.dense_parameters(self._sizes(shape, classes), (self.weights,))


# Stacks of linear layers under the hinge loss of the worst rival.


class Hinge(Dense):
    """One linear layer, whose single output, if it is one, tells two classes apart."""

    def open(self, theta: Tensor, trained: bool = True) -> HingeStack:
        """The layer at work for each row of *theta*."""
        return HingeStack(theta, self._sizes, self._activation, self._softmax)


class HingeStack(DenseStack):
    """Linear layers side by side."""

    def scores(self, x: Tensor) -> Tensor:
        """The outputs, or -f/2 and f/2 for a single one."""
        found = super().scores(x)
        return found if found.shape[2] > 1 else torch.cat((-found, found), 2) / 2

    def losses(self, y: Tensor) -> Tensor:
        """The hinges."""
        self._labels = y[:, None]
        if self._output.shape[1] == 1:
            margins = self._output * (2 * self._labels - 1)
            self._active = margins < 1
            return (1 - margins).clamp_(min=0)[:, 0]
        own = self._output.gather(1, self._labels)
        worst, self._rivals = self._output.scatter(1, self._labels, -torch.inf).max(1, keepdim=True)
        hinges = 1 + worst - own
        self._active = hinges > 0
        return hinges.clamp_(min=0)[:, 0]

    def slopes(self, weights: Tensor) -> Tensor:
        """The gradient: at the rival the weight, at the label less the weight, where the hinge is open."""
        each = weights[:, None] * self._active
        if self._output.shape[1] == 1:
            return each * (1 - 2 * self._labels)
        return torch.zeros_like(self._output).scatter_(1, self._rivals, each).scatter_(1, self._labels, -each)
