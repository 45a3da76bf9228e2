"""The objective family: the local objectives that users minimise.

An objective sees the losses of a mini-batch, never the model.  It returns the weight of each example in the gradient of
the parameters θ and, if it has a scalar parameter t, the gradient of t.  The SGD step of a user is then
``θ -= lr Σ_b w_b ∇ℓ_b`` and ``t -= t_rate ∂t``.  t is sent and aggregated like one more parameter of the model; an
objective sends nothing else.

To add one, derive a class from `Objective` in a file of this package, or in a module of your own.  This one is
complete::

    class Squared(Objective):
        \"\"\"The mean of ℓ + c ℓ² / 2 over the losses ℓ of a mini-batch: each example has the weight 1 + c ℓ.\"\"\"

        c: float = 0.5

        @staticmethod
        def gradient_weights(losses, share, t, h):
            return share * (1 + h["c"][:, None] * losses), t.new_zeros(t.shape)

        def value(self, losses, rho, t):
            return float((losses + self.c * losses**2 / 2) @ rho)

- `gradient_weights` handles all jobs in one call; a job is a user that trains for a learner.  The learners may differ
  in their fields, so it is a static method that reads numeric fields from ``h``, a tensor ``[jobs]`` by name.  `hyper`
  converts a field that is not a number.  A bool of `hyper` stays a bool, and learners that differ in it are separate
  calls.
- ``share`` is 1/n for the n examples of a mini-batch, and 0 for padding.  The weight of padding must be 0, which
  ``share * something`` ensures.
- Use only methods and operators of tensors (``losses.sum(1)``, ``(f > t) / alpha``), so that the file needs no torch.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING

from netfl.core.kinds import exported_models
from netfl.core.spec import Spec
from netfl.learning.user_weights import CvarLevel
from netfl.types import Floats, Law

if TYPE_CHECKING:
    from torch import Tensor as Tensor
else:
    Tensor = object  # torch is imported by runs that learn, not by scenarios


class Objective(Spec):
    """Base class of all objectives."""

    @staticmethod
    @abstractmethod
    def gradient_weights(losses: Tensor, share: Tensor, t: Tensor, h: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        """Return the weights of the examples in the gradient of θ, ``[jobs, batch]``, and the gradient of t.

        Args:
            losses: of each example, ``[jobs, batch]``.
            share: 1/n for the n examples of a mini-batch, 0 for padding, ``[jobs, batch]``.
            t: the scalar parameter, ``[jobs]``.
            h: numeric fields of the objective by name, each ``[jobs]``.

        Returns:
            Weights, ``[jobs, batch]``, and the gradient of t, ``[jobs]``.
        """

    @abstractmethod
    def value(self, losses: Floats, rho: Floats, t: float) -> float:
        """Return the global objective.

        Args:
            losses: mean loss of each user, ``[users]``.
            rho: share of each user in the deliveries, ``[users]``, with sum 1.
            t: the scalar parameter.
        """

    @property
    def t_rate(self) -> float:
        """Step size of SGD on t; 0 for an objective without t, which then stays at 0."""
        return 0.0

    @property
    def has_equal_weights(self) -> bool:
        """True if `gradient_weights` returns *share* and 0 whatever the losses, which are then not computed."""
        return False

    @property
    def pull(self) -> float:
        """Factor μ of a term ``μ/2 ‖θ - base‖²``, which holds θ near the base of the update; 0 without it."""
        return 0.0

    @property
    def largest_weight(self) -> float | None:
        """Largest sum of the weights of a mini-batch, in units of the mean loss, whose weights have the sum 1.

        It is the factor by which a step may be longer than that of `erm`; ``None`` if it has no bound, or if the
        objective does not state it.  An objective from outside netfl is then tried on some losses; if the sum is the
        same for all, it is the weight.
        """
        return None

    @property
    def has_zero_weights(self) -> bool:
        """True if all weights of a mini-batch are often 0, so that it pays to check before a backward pass."""
        return False

    @property
    def levels(self) -> tuple[float, ...]:
        """Levels α at which the CVaR of all learners is reported, to compare them with this one."""
        return ()

    @property
    def cvar_level(self) -> CvarLevel | None:
        """Level of the CVaR that the objective minimises over users; ``None`` for another objective.

        It bounds the weights of users at the optimum; see `netfl.learning.user_weights`.
        """
        return None

    def hyper(self) -> Mapping[str, float | bool]:
        """Return the numeric fields for `gradient_weights`, with the same names for all objectives of a kind.

        By default a field that is a bool is a number, 0 or 1.
        """
        values = {name: getattr(self, name) for name in type(self).model_fields}
        return {name: float(value) for name, value in values.items() if isinstance(value, int | float)}

    def neutral(self) -> Mapping[str, float | bool] | None:
        """Return values of `hyper` with which `gradient_weights` returns *share* and 0; ``None`` if there are none.

        Beside a single objective that has them, learners with equal weights are jobs of the same call.
        """
        return None

    def laws(self) -> tuple[Law, ...]:
        return (Law.none("an objective draws nothing; its gradient is tested against a calculation of its own"),)


__getattr__ = exported_models(__name__)
