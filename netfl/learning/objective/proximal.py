"""The mean loss, and a pull back to the version that a user started from."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from netfl.learning.objective._mean import MeanLoss


class Proximal(MeanLoss):
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

    @property
    def pull(self) -> float:
        """μ."""
        return self.mu
