"""What a local step has beside the gradient of the losses: weight decay, a pull to the base, drift, momentum."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from netfl.learning.network import Network, Stack


@dataclass(frozen=True, slots=True)
class Terms:
    """What each job has of them.

    Args:
        lr: step sizes, ``[jobs]``.
        momentum: how much of the step before is added to each, ``[jobs]``.
        decay: how many times θ is added to the gradient, ``[jobs]``.
        pull: how many times θ - base is, ``[jobs]``.
        drift: what else is, ``[jobs, parameters]``; ``None`` for nothing.
    """

    lr: Tensor
    momentum: Tensor
    decay: Tensor
    pull: Tensor
    drift: Tensor | None


class Corrections:
    """Completes the steps of a stack: ``θ⁺ = θ - lr (g + λ θ + μ (θ - base) + d) + m (θ - θ⁻)``.

    θ⁻ is where θ was a step before; the first step has none.  With a constant lr that is the momentum of PyTorch's SGD,
    ``v⁺ = m v + gradient`` and ``θ⁺ = θ - lr v⁺``.  The term of g is the stack's own; `before` and `after` stand around
    it.

    Args:
        network: what is trained.
        stack: the models, as they start.
        bases: where they start, ``[jobs, parameters]``.
        terms: of each job.
    """

    def __init__(self, network: Network, stack: Stack, bases: Tensor, terms: Terms) -> None:
        self._stack, jobs = stack, len(bases)
        self._slope = -terms.lr * (terms.decay + terms.pull)
        still = None
        if terms.pull.any():
            still = terms.pull[:, None] * bases
        if terms.drift is not None:
            still = -terms.drift if still is None else still.sub_(terms.drift)
        self._still = None if still is None else network.open(still.mul_(terms.lr[:, None])).values(jobs)
        self._momentum, moves = terms.momentum, bool(terms.momentum.any())
        self._before = [value.clone() for value in stack.values(jobs)] if moves or self._slope.any() else None
        self._moved = [torch.zeros_like(value) for value in stack.values(jobs)] if moves else None

    def before(self, jobs: int) -> None:
        """Remember where the first *jobs* are, if that matters."""
        if self._before is not None:
            for before, value in zip(self._before, self._stack.values(jobs), strict=True):
                before[:jobs].copy_(value)

    def after(self, jobs: int) -> None:
        """Add to the steps of the first *jobs* what is not the gradient of their losses."""
        for index, value in enumerate(self._stack.values(jobs)):
            each = (jobs, *[1] * (value.ndim - 1))
            before = None if self._before is None else self._before[index][:jobs]
            if before is not None:
                value.addcmul_(before, self._slope[:jobs].view(each))
            if self._still is not None:
                value.add_(self._still[index][:jobs])
            if before is not None and self._moved is not None:
                moved = self._moved[index][:jobs]
                value.addcmul_(moved, self._momentum[:jobs].view(each))
                moved.copy_(value).sub_(before)
