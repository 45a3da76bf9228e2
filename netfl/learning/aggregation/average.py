"""Federated averaging of the delivered models."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from netfl.learning.aggregation import Aggregation, State, Tensor, Updates
from netfl.types import Floats, Ints


class Average(Aggregation):
    """The next version is the weighted mean of the delivered models: ``Σ_k n_k θ_k / Σ_k n_k``.

    The sums are over the round's deliveries.  With a server step size η the version x moves to ``x + η (mean - x)``.

    Source: FedAvg, McMahan et al., AISTATS 2017.  With equal weights and bases x, it is the "average participating" of
    Wang and Ji, ICLR 2024.

    Example::

        kind: average
        weights: size
    """

    weights: Literal["size", "equal"] = "size"
    """``size``: n_k is the number of examples of user k; ``equal``: n_k = 1."""
    server_lr: Annotated[float, Field(gt=0)] = 1.0
    """Server step size η."""

    def step(self, state: State, current: Tensor, updates: Updates) -> tuple[Tensor, State]:
        mean = self._shares(updates) @ updates.models
        if self.server_lr == 1:
            return mean, state
        return current + self.server_lr * (mean - current), state

    def next_buffers(self, current: Tensor, updates: Updates) -> Tensor:
        return current + self._shares(updates) @ (updates.models - current)

    def largest_weight(self, users: int, deliveries: int) -> float | None:
        return self.server_lr

    def merge_weights(self, examples: Ints) -> Floats | None:
        """Return the weights, unless a derived class makes another step."""
        if type(self).step is not Average.step:
            return None
        if self.weights == "size":
            return examples.astype(float)
        return np.ones(len(examples))

    def _shares(self, updates: Updates) -> Tensor:
        """Return ``n_k / Σ_j n_j`` of each update, ``[k]``."""
        counts = updates.samples
        if self.weights == "equal":
            counts = counts.new_ones(len(counts))
        return counts / counts.sum()
