"""The mean loss with a proximal term: FedProx."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from netfl.learning.objective.erm import Erm


class Proximal(Erm):
    """The mean loss of the mini-batch and ``μ/2 ‖θ - base‖²``, which keeps a user near its base: FedProx.

    The gradient of a step is ``∇f + μ (θ - base)``.  The first step of an update, and so an update of a single step, is
    that of `erm`.  There is no t.  The global objective is that of `erm`, because the proximal term of a version is 0.

    Source: Li et al., "Federated optimization in heterogeneous networks", MLSys 2020, algorithm 2.  Its different
    numbers of local steps follow from ``local_epochs``.

    Example::

        kind: proximal
        mu: 0.1
    """

    mu: Annotated[float, Field(gt=0)]
    """Strength μ of the proximal term."""

    @property
    def pull(self) -> float:
        return self.mu
