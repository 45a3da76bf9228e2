"""Multiclass hinge loss of linear scores, batched over models."""

from __future__ import annotations

import torch
from torch import Tensor

from netfl.learning.model._manual_dense import Dense, DenseStack


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
