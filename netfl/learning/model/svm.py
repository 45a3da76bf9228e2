"""Linear support vector machine."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from netfl.learning.model._initialization import DenseModel, Start
from netfl.learning.model._manual_dense import Dense, DenseStack

if TYPE_CHECKING:
    from netfl.learning.architecture import Architecture


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
        """Return the layer."""
        return Hinge(self._sizes(shape, classes), self._starts)

    def _sizes(self, shape: tuple[int, ...], classes: int) -> tuple[int, int]:
        return math.prod(shape), 1 if classes == 2 else classes

    @property
    def _starts(self) -> tuple[Start, ...]:
        return (self.weights,)


class Hinge(Dense):
    """One linear layer under the hinge loss; a single output separates two classes."""

    def open(self, theta: Tensor, trained: bool = True) -> HingeStack:
        """Return one layer for each row of *theta*."""
        return HingeStack(theta, self._sizes, self._activation, self._softmax)


class HingeStack(DenseStack):
    """Several linear layers under the hinge loss."""

    def scores(self, x: Tensor) -> Tensor:
        """Return the outputs, or -f/2 and f/2 for a single one."""
        outputs = super().scores(x)
        return outputs if outputs.shape[2] > 1 else torch.cat((-outputs, outputs), 2) / 2

    def losses(self, y: Tensor) -> Tensor:
        """Return the hinge losses."""
        self._labels = y[:, None]
        if self._output.shape[1] == 1:
            margins = self._output * (2 * self._labels - 1)
            self._active = margins < 1
            return (1 - margins).clamp_(min=0)[:, 0]
        target = self._output.gather(1, self._labels)
        worst, self._rivals = self._output.scatter(1, self._labels, -torch.inf).max(1, keepdim=True)
        hinges = 1 + worst - target
        self._active = hinges > 0
        return hinges.clamp_(min=0)[:, 0]

    def slopes(self, weights: Tensor) -> Tensor:
        """Return the gradient: plus the weight at the rival, minus the weight at the label; 0 if the loss is 0."""
        each = weights[:, None] * self._active
        if self._output.shape[1] == 1:
            return each * (1 - 2 * self._labels)
        return torch.zeros_like(self._output).scatter_(1, self._rivals, each).scatter_(1, self._labels, -each)
