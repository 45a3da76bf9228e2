"""Averaging of the parts of models that arrived."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from netfl.learning.aggregation import Aggregation, State, Tensor, Updates


class AverageReceived(Aggregation):
    """Each parameter is the weighted mean of its values that arrived: ``Σ_k n_k r_kj θ_kj / Σ_k n_k r_kj``.

    The sums are over the round's deliveries; r_kj is 1 if parameter j of update k arrived, and 0 otherwise.  One that
    arrived in no update keeps its value x_j.  With a server step size η, each parameter moves to
    ``x_j + η (mean_j - x_j)``.  If all parts arrive, this is `average`.  It needs an access that may erase parts, such
    as a network with ``transport: {loss: erase}``, to differ from it.  Of a codec that sends only some parameters, one
    that was not sent has arrived, unchanged, unless it may have been in a lost part.

    Source: the rule of `average`, McMahan et al., AISTATS 2017, applied to each parameter by itself.

    Example::

        kind: average_received
        weights: size
    """

    reads_parts: ClassVar[bool] = True
    weights: Literal["size", "equal"] = "size"
    """``size``: n_k is the number of examples of user k; ``equal``: n_k = 1."""
    server_lr: Annotated[float, Field(gt=0)] = 1.0
    """Server step size η."""

    def step(self, state: State, current: Tensor, updates: Updates) -> tuple[Tensor, State]:
        mean = self._mean(current, updates)
        if self.server_lr == 1:
            return mean, state
        return current + self.server_lr * (mean - current), state

    def next_buffers(self, current: Tensor, updates: Updates) -> Tensor:
        return self._mean(current, updates)

    def largest_weight(self, users: int, deliveries: int) -> float | None:
        return self.server_lr

    def _mean(self, current: Tensor, updates: Updates) -> Tensor:
        """Return the mean of the numbers that arrived; those of *current* where none did."""
        counts = updates.samples  # n_k
        if self.weights == "equal":
            counts = counts.new_ones(len(counts))
        if updates.received is None:
            return (counts / counts.sum()) @ updates.models
        weights = counts[:, None] * updates.received  # n_k r_kj
        total = weights.sum(0)
        mean = (weights * updates.models).sum(0) / total.where(total > 0, 1.0)
        return mean.where(total > 0, current)
