"""The tilted loss: a soft maximum of the losses, or a soft minimum."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from pydantic import field_validator

from netfl.learning.objective import Objective
from netfl.types import Law

if TYPE_CHECKING:
    from torch import Tensor


class Tilted(Objective):
    """Examples count by how hard they are: ``(1/τ) log mean_b exp(τ ℓ_b)`` over the losses ℓ of a mini-batch; TERM.

    Its gradient weighs each example by ``exp(τ ℓ_b) / Σ exp(τ ℓ)``.  With τ > 0 hard examples count more, the more so
    the larger τ is; with τ < 0 they count less, as outliers do; as τ tends to 0 it becomes `erm`.  Globally it is
    ``(1/τ) log Σ_k ρ_k exp(τ f_k)``, with f_k the mean loss of user k and ρ_k its share of what is heard.  It has no t.

    Li et al., "Tilted empirical risk minimization", ICLR 2021, equations 2 and 3; algorithm 1, batch TERM, with each
    mini-batch in the place of all data.  So the tilt is that of the mini-batch, whose mean is not that of all data: the
    paper's stochastic TERM keeps a running estimate of the tilted value over mini-batches, which this does not.

    Example::

        kind: tilted
        tau: 1
    """

    tau: float
    """The tilt τ, not 0; in units of one over the loss."""

    @field_validator("tau")
    @classmethod
    def _some(cls, tau: float) -> float:
        """Not 0."""
        if tau == 0:
            raise ValueError("a tilt of 0 is the mean loss; take the objective 'erm'")
        return tau

    @staticmethod
    def weights(losses: Tensor, share: Tensor, t: Tensor, h: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        """The soft maximum over the real examples."""
        tilted = (losses * h["tau"][:, None]).masked_fill(share == 0, -float("inf"))
        return tilted.softmax(1), t.new_zeros(t.shape)

    def value(self, losses: NDArray[np.float64], rho: NDArray[np.float64], t: float) -> float:
        """``(1/τ) log Σ ρ_k exp(τ f_k)``, without exponentials that overflow."""
        top = float((self.tau * losses[rho > 0]).max())
        return (top + float(np.log(rho @ np.exp(np.minimum(self.tau * losses - top, 0.0))))) / self.tau

    def laws(self) -> tuple[Law, ...]:
        """Nothing is drawn."""
        return (Law.none("an objective draws nothing; its gradient is tested against a calculation of its own"),)
