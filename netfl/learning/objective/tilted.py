"""The tilted loss: a soft maximum or minimum of the losses."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from pydantic import field_validator

from netfl.learning.objective import Objective, Tensor
from netfl.types import Floats


class Tilted(Objective):
    """The tilted loss ``(1/τ) log mean_b exp(τ ℓ_b)`` over the losses ℓ of a mini-batch: TERM.

    The weight of an example is ``exp(τ ℓ_b) / Σ exp(τ ℓ)``.  With τ > 0 a large loss gives a larger weight; with τ < 0
    a smaller one, which suppresses outliers; for τ to 0 the objective tends to `erm`.  There is no t.  Globally it is
    ``(1/τ) log Σ_k ρ_k exp(τ f_k)``, with the mean loss f_k of user k and its share ρ_k of the deliveries.

    Source: Li et al., "Tilted empirical risk minimization", ICLR 2021, equations 2 and 3; algorithm 1, batch TERM, with
    each mini-batch in place of all data.  The tilt of a mini-batch differs from that of all data.  The stochastic TERM
    of the paper keeps a running estimate of the tilted value over mini-batches, which this objective does not.

    Example::

        kind: tilted
        tau: 1
    """

    tau: float
    """Tilt τ in units of 1/loss; not 0."""

    @field_validator("tau")
    @classmethod
    def _refuse_zero(cls, tau: float) -> float:
        if tau == 0:
            raise ValueError("a tilt of 0 is the mean loss; use the objective 'erm'")
        return tau

    @staticmethod
    def gradient_weights(losses: Tensor, share: Tensor, t: Tensor, h: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        tilted = losses * h["tau"][:, None]
        is_padding = share == 0
        weights = tilted.masked_fill(is_padding, -float("inf")).softmax(1)
        return weights, t.new_zeros(t.shape)

    @property
    def largest_weight(self) -> float | None:
        """1, the sum of a softmax, unless a derived class has other weights."""
        return 1.0 if type(self).gradient_weights is Tilted.gradient_weights else None

    def value(self, losses: Floats, rho: Floats, t: float) -> float:
        """Return ``(1/τ) log Σ ρ_k exp(τ f_k)``, computed without overflow."""
        largest = float((self.tau * losses[rho > 0]).max())
        exponents = np.minimum(self.tau * losses - largest, 0.0)  # above 0 only where ρ_k is 0
        return (largest + float(np.log(rho @ np.exp(exponents)))) / self.tau
