"""Step sizes that fall as the inverse of the version."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import numpy as np
from pydantic import Field

from netfl.core.spec import no_effect
from netfl.errors import Fault
from netfl.learning.schedule import Schedule
from netfl.types import Floats, Ints, ScenarioFacts


class Inverse(Schedule):
    """The step sizes fall as the inverse of the version: ``lr / (1 + version / half)``.

    With ``lr = β / half`` this is the step size ``β / (version + half)``, with which FedAvg reaches the optimum of
    strongly convex losses.  Before the version ``hold`` the step sizes are constant, and the fall begins there:
    ``lr / (1 + max(0, version - hold) / half)``.

    Source: Li et al., "On the convergence of FedAvg on non-IID data", ICLR 2020, theorem 1.

    Example::

        kind: inverse
        half: 1000
    """

    half: Annotated[float, Field(gt=0)]
    """Versions, from the beginning of the fall, after which the step sizes are halved."""
    hold: Annotated[int, Field(ge=0)] = 0
    """Version at which the fall begins."""

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        if self.hold >= facts.rounds - 1:  # also a run of one round, which has version 0 alone
            last = facts.rounds - 1
            reason = f"because users start from versions 0 to {last}, and the step sizes fall after {self.hold}"
            yield from no_effect(self, ["half"], reason, "use the schedule 'constant', or more rounds")

    def factors(self, versions: Ints) -> Floats:
        return np.asarray(1 / (1 + np.maximum(0, versions - self.hold) / self.half))
