"""The objective family: what a user minimises locally.

An objective never sees the model.  It sees the losses of a mini-batch and says how much each example counts in the
gradient of the model's parameters θ; and, where it has one, which way its own scalar parameter t goes.  A user's SGD
step is then ``θ -= lr Σ_b w_b ∇ℓ_b`` and ``t -= t_rate dt``.  t travels with θ: it is sent, relayed and averaged as one
more parameter.  All jobs, that is all pairs of a lane and a user that train side by side, are weighed in one call.

To write one: a file in this package, or a class in a package of your own, that derives from `Objective`.

- Its numeric fields reach `weights` as tensors with one entry per job, in ``h`` by the field's name, for the jobs of
  several learners may differ in them.  `weights` is therefore a static method: it sees no learner's fields.  A field
  that is a word reaches it if `hyper` makes a number of it.
- Use methods and operators of tensors only (``losses.sum(1)``, ``(f > t) / alpha``): then the file needs no torch,
  and a network can be traced without it.
- ``share`` is 1/n for the n real examples of a mini-batch and 0 for padding; a weight on padding must be 0, which
  ``share * something`` ensures.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from netfl.registry import Spec

if TYPE_CHECKING:
    from torch import Tensor


class Objective(Spec):
    """The contract of an objective."""

    @staticmethod
    @abstractmethod
    def weights(losses: Tensor, share: Tensor, t: Tensor, h: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        """How much each example counts in the gradient of θ, ``[jobs, batch]``, and the gradient of t, ``[jobs]``.

        Args:
            losses: the loss of each example, ``[jobs, batch]``.
            share: 1/n for the n examples of a mini-batch, 0 for padding, ``[jobs, batch]``.
            t: the scalar parameter, ``[jobs]``.
            h: the fields of the objective by name, each ``[jobs]``.
        """

    @abstractmethod
    def value(self, losses: NDArray[np.float64], rho: NDArray[np.float64], t: float) -> float:
        """The global objective, from each user's mean loss and how often each is heard.

        Args:
            losses: mean losses, ``[users]``.
            rho: shares of the deliveries, ``[users]``, of sum 1.
            t: the scalar parameter.
        """

    @property
    def t_rate(self) -> float:
        """Step size of SGD on t; 0 for an objective that has no t, which then stays where it starts, at 0."""
        return 0.0

    @property
    def pull(self) -> float:
        """μ of a term ``μ/2 ‖θ - base‖²``, which holds a user's θ near the version that it started from; 0 for none."""
        return 0.0

    @property
    def has_threshold(self) -> bool:
        """Whether t is trained, and so is part of an update."""
        return self.t_rate > 0

    @property
    def has_zero_weights(self) -> bool:
        """Whether the weights of a mini-batch are often all 0, so that it pays to look before a backward pass."""
        return False

    @property
    def levels(self) -> tuple[float, ...]:
        """The levels α at which the CVaR of all learners is to be reported, for comparison with this one's."""
        return ()

    def hyper(self) -> Mapping[str, float]:
        """What `weights` gets as ``h``: the numeric fields by name; the same names for all objectives of a kind."""
        fields = ((name, getattr(self, name)) for name in type(self).model_fields)
        return {name: float(field) for name, field in fields if isinstance(field, int | float)}
