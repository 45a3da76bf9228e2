"""Stacks of linear layers under the hinge loss of the worst rival."""

from __future__ import annotations

import torch
from torch import Tensor

from netfl.learning.model._dense import Dense, DenseStack


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
