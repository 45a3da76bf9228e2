"""Averaging of updates, weighted by the SNR with which they came."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from netfl.learning.aggregation import Aggregation, State, Tensor, Updates
from netfl.units import Decibels


class AverageBySnr(Aggregation):
    """The version moves to the mean of the models, weighted by SNR: ``x + η (Σ_k n_k γ_k θ_k / Σ_k n_k γ_k - x)``.

    The sums are over the round's deliveries.  γ_k is the SNR of the last frame of update k that was received, as a
    ratio, and n_k its number of examples.  If the noise in an update has a variance in proportion to 1/γ_k, these are
    the weights of the linear mean with the least variance (inverse-variance weighting).  ``max_snr`` limits γ_k,
    because noise is not all that makes updates differ: without it, one user near its tower can decide the version.
    With a limit below all SNRs this is `average`.

    The rule favours users with good channels, and is biased where their data differ.  It needs an access with a radio,
    or a replay of a run that recorded its links.

    Source: the weights are netfl's own use of A. C. Aitken, "On least squares and linear combination of observations",
    Proc. R. Soc. Edinb. 55, 1935.

    Example::

        kind: average_by_snr
        max_snr: 20 dB
    """

    reads_links: ClassVar[frozenset[str]] = frozenset({"snr_db"})
    max_snr: Decibels | None = None
    """SNR above which updates count as equally good; ``null``: none."""
    weights: Literal["size", "equal"] = "size"
    """``size``: n_k is the number of examples of user k; ``equal``: n_k = 1."""
    server_lr: Annotated[float, Field(gt=0)] = 1.0
    """Server step size η."""

    def step(self, state: State, current: Tensor, updates: Updates) -> tuple[Tensor, State]:
        mean = self._shares(updates) @ updates.models
        return current + self.server_lr * (mean - current), state

    def next_buffers(self, current: Tensor, updates: Updates) -> Tensor:
        return current + self._shares(updates) @ (updates.models - current)

    def largest_weight(self, users: int, deliveries: int) -> float | None:
        return self.server_lr

    def _shares(self, updates: Updates) -> Tensor:
        """Return the weight of each update, of the sum 1, ``[k]``."""
        snr_db = updates.links["snr_db"]
        if self.max_snr is not None:
            snr_db = snr_db.clamp(max=self.max_snr)
        ratios = 10.0 ** ((snr_db - snr_db.max()) / 10.0)  # to the largest, so that none is too large for a number
        if self.weights == "size":
            ratios = ratios * updates.samples
        return ratios / ratios.sum()
