"""The conditional value at risk: the mean loss of the worst share α of what is heard, or of its examples."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from netfl.learning.objective import Objective
from netfl.types import Law

if TYPE_CHECKING:
    from torch import Tensor


class Cvar(Objective):
    """The CVaR of the mini-batch's mean loss f, mixed with f itself; the objective of FED-CVaR-AVG.

    ``G(θ, t) = (1-γ) (t + [f-t]_+ / α) + γ f``, whose gradients are ``∇θ G = ((1-γ)/α 1{f>t} + γ) ∇θ f`` and
    ``∂t G = (1-γ) (1 - 1{f>t}/α)``; the hinge counts as flat at f = t.  t starts at 0.  Minimised over t, the first
    part is the CVaR of Rockafellar and Uryasev (2000): the mean of the worst share α of f over the users as they are
    heard.  With γ = 1 it is `erm`, to which α and lr_t make no difference, so that a grid over γ can have it; with
    α = 1 it has the gradients of `erm` as long as f > t.

    ``per: sample`` puts the loss of each example ℓ in the place of f, ``mean_b [(1-γ) (t + [ℓ_b-t]_+ / α) + γ ℓ_b]``:
    the worst share of the examples, whoever holds them.  The objective that is reported takes the users' mean losses in
    both, and so is a lower bound of that one.

    Example::

        kind: cvar
        alpha: 0.1
        gamma: 0.1
        lr_t: 0.001
    """

    alpha: Annotated[float, Field(gt=0, le=1)]
    """The share of the worst that counts, in (0, 1]."""
    gamma: Annotated[float, Field(ge=0, le=1)] = 0.0
    """The weight of the mean loss itself, in [0, 1]."""
    lr_t: Annotated[float, Field(gt=0)]
    """Step size of SGD on t."""
    per: Literal["batch", "sample"] = "batch"
    """What is compared with t: the mean loss of a mini-batch, or the loss of each example."""

    @staticmethod
    def weights(losses: Tensor, share: Tensor, t: Tensor, h: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        """More where the mean loss exceeds t, for all of a mini-batch; or for each example whose own loss does.

        In a mini-batch whose mean counts, the slope of t has no rounding of a mean of equals in it.
        """
        rest, mean, single = 1 - h["gamma"], (losses * share).sum(1), h["sample"] > 0
        seen = losses.where(single[:, None], mean[:, None])
        tail = (rest / h["alpha"])[:, None] * (seen > t[:, None])
        slopes = rest[:, None] - tail
        return share * (tail + h["gamma"][:, None]), (share * slopes).sum(1).where(single, slopes[:, 0])

    def value(self, losses: NDArray[np.float64], rho: NDArray[np.float64], t: float) -> float:
        """``(1-γ) (t + Σ ρ_k [f_k - t]_+ / α) + γ Σ ρ_k f_k``."""
        tail = t + float(rho @ np.maximum(losses - t, 0.0)) / self.alpha
        return (1 - self.gamma) * tail + self.gamma * float(rho @ losses)

    @property
    def t_rate(self) -> float:
        """Step size of SGD on t."""
        return self.lr_t

    def hyper(self) -> Mapping[str, float]:
        """α, γ, and 1 for ``per: sample``."""
        return {"alpha": self.alpha, "gamma": self.gamma, "sample": float(self.per == "sample")}

    @property
    def has_zero_weights(self) -> bool:
        """With γ = 0 nothing is learned of losses that do not exceed t."""
        return self.gamma == 0

    @property
    def levels(self) -> tuple[float, ...]:
        """Its own α."""
        return (self.alpha,)

    def laws(self) -> tuple[Law, ...]:
        """Nothing is drawn."""
        return (Law.none("an objective draws nothing; its gradient is tested against a calculation of its own"),)
