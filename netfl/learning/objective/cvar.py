"""The conditional value at risk: the mean of the worst share α of the losses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from netfl.learning.objective import Objective, Tensor
from netfl.learning.user_weights import CvarLevel
from netfl.types import Floats


class Cvar(Objective):
    """The CVaR of the mini-batch's mean loss f, mixed with f itself; the objective of FED-CVaR-AVG.

    ``G(θ, t) = (1-γ) (t + [f-t]_+ / α) + γ f``, whose gradients are ``∇θ G = ((1-γ)/α 1{f>t} + γ) ∇θ f`` and
    ``∂t G = (1-γ) (1 - 1{f>t}/α)``; the hinge is flat at f = t.  t starts at 0.  Minimised over t, the first part is
    the CVaR of Rockafellar and Uryasev (2000): the mean of the worst share α of f, over users weighted by their
    deliveries.  With γ = 1 it is `erm`, and α and lr_t have no effect, so that a grid over γ can include it.  With
    α = 1 it has the gradients of `erm` as long as f > t.

    ``per: sample`` replaces f by the loss ℓ of each example, ``mean_b [(1-γ) (t + [ℓ_b-t]_+ / α) + γ ℓ_b]``: the worst
    share of the examples of all users.  The reported objective uses the users' mean losses in both cases, and so is a
    lower bound of that for examples.

    At the optimum user k, with the share ρ_k of the deliveries, has at most the weight ``(1-γ) min(1, ρ_k/α) + γ ρ_k``.
    docs/background/cvar.md says when that changes the model.

    Example::

        kind: cvar
        alpha: 0.1
        gamma: 0.1
        lr_t: 0.001
    """

    alpha: Annotated[float, Field(gt=0, le=1)]
    """Share α of the worst losses, in (0, 1]."""
    gamma: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Weight γ of the mean loss, in [0, 1]."""
    lr_t: Annotated[float, Field(gt=0)]
    """Step size of SGD on t."""
    per: Literal["batch", "sample"] = "batch"
    """Loss that is compared with t: the mean of a mini-batch, or that of each example."""

    @staticmethod
    def gradient_weights(losses: Tensor, share: Tensor, t: Tensor, h: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        """Weigh mini-batches, or examples, by whether their loss exceeds t; see `hyper`.

        Per mini-batch, the gradient of t is that of one example: a mean of equal values could round.
        """
        above, below = h["above"], h["below"]  # weights of ∇θ f, [jobs]
        t_above, t_below = h["t_above"], h["t_below"]  # gradients of t, [jobs]
        if h["per_sample"]:
            is_above = losses > t[:, None]  # [jobs, batch]
            weights = above[:, None].where(is_above, below[:, None])
            t_gradients = t_above[:, None].where(is_above, t_below[:, None])
            return share * weights, (share * t_gradients).sum(1)
        means = (losses * share).sum(1)
        is_above = means > t  # [jobs]
        weights = above.where(is_above, below)
        return share * weights[:, None], t_above.where(is_above, t_below)

    def value(self, losses: Floats, rho: Floats, t: float) -> float:
        excess = float(rho @ np.maximum(losses - t, 0.0))  # the mean of [f-t]_+
        tail = t + excess / self.alpha
        mean = float(rho @ losses)
        return (1 - self.gamma) * tail + self.gamma * mean

    @property
    def t_rate(self) -> float:
        return self.lr_t

    def hyper(self) -> Mapping[str, float | bool]:
        """Return the weight of ∇θ f and the gradient of t for f above t and below, computed once.

        ``per_sample`` is whether t is compared with the loss of each example.
        """
        return self._weights(self.alpha, self.gamma)

    def neutral(self) -> Mapping[str, float | bool] | None:
        """Return the fields for α = γ = 1, unless a derived class has other weights."""
        is_own = type(self).gradient_weights is Cvar.gradient_weights and type(self).hyper is Cvar.hyper
        if not is_own:
            return None
        return self._weights(1.0, 1.0)

    def _weights(self, alpha: float, gamma: float) -> Mapping[str, float | bool]:
        tail_weight = 1 - gamma
        return {
            "above": tail_weight / alpha + gamma,
            "below": gamma,
            "t_above": tail_weight - tail_weight / alpha,
            "t_below": tail_weight,
            "per_sample": self.per == "sample",
        }

    @property
    def largest_weight(self) -> float | None:
        """``(1-γ)/α + γ``, the weight of a loss above t, unless a derived class has other weights."""
        if self.neutral() is None:
            return None
        return (1 - self.gamma) / self.alpha + self.gamma

    @property
    def cvar_level(self) -> CvarLevel | None:
        """α and γ, unless a derived class has other weights."""
        if self.neutral() is None:
            return None
        return CvarLevel(self.alpha, self.gamma)

    @property
    def has_zero_weights(self) -> bool:
        """True for γ = 0: losses below t have the weight 0."""
        return self.gamma == 0

    @property
    def levels(self) -> tuple[float, ...]:
        return (self.alpha,)
