"""The mean loss, and a pull back to the version that a user started from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from netfl.learning.objective import Objective
from netfl.types import Law

if TYPE_CHECKING:
    from torch import Tensor


class Proximal(Objective):
    """The mean loss of the mini-batch and ``μ/2 ‖θ - base‖²``, which keeps a user near its base: FedProx.

    The gradient of a step is ``∇f + μ (θ - base)``; the first step of an update, and so an update of a single step, is
    that of `erm`.  It has no t.  Globally it is what `erm` is, for at a version the second term is 0.

    Li et al., "Federated optimization in heterogeneous networks", MLSys 2020, algorithm 2; that users take different
    amounts of steps is for ``local_epochs`` to say.

    Example::

        kind: proximal
        mu: 0.1
    """

    mu: Annotated[float, Field(gt=0)]
    """How strong the pull is: μ."""

    @staticmethod
    def weights(losses: Tensor, share: Tensor, t: Tensor, h: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        """Each example counts the same."""
        return share, t.new_zeros(t.shape)

    def value(self, losses: NDArray[np.float64], rho: NDArray[np.float64], t: float) -> float:
        """The expected loss of whom the server hears."""
        return float(losses @ rho)

    @property
    def pull(self) -> float:
        """μ."""
        return self.mu

    def laws(self) -> tuple[Law, ...]:
        """Nothing is drawn."""
        return (Law.none("an objective draws nothing; its steps are tested against a calculation of its own"),)
