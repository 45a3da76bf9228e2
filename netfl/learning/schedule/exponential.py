"""Step sizes that fall by a constant factor with each version."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import numpy as np
from pydantic import Field

from netfl.core.spec import no_effect
from netfl.errors import Fault
from netfl.learning.schedule import Schedule
from netfl.types import Floats, Ints, ScenarioFacts


class Exponential(Schedule):
    """The step sizes are multiplied by a factor with each version, like PyTorch's ``ExponentialLR``.

    ``lr · factor^version``; ``factor`` is its gamma, and versions take the place of epochs.  The step sizes are halved
    every ``ln 2 / -ln factor`` versions: 3,465 for a factor of 0.9998.

    Example::

        kind: exponential
        factor: 0.9998
    """

    factor: Annotated[float, Field(gt=0, lt=1)]
    """Factor of the step sizes from one version to the next."""

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        last = facts.rounds - 1
        if last == 0:
            reason = "because users start from version 0"
            yield from no_effect(self, ["factor"], reason, "use the schedule 'constant', or more rounds")
        elif self.factor**last == 0.0:
            problem = f"the step sizes are 0 at version {last}, the last from which users start"
            yield Fault("factor", problem, self.factor, "use a factor closer to 1, such as 0.999")

    def factors(self, versions: Ints) -> Floats:
        return np.asarray(self.factor**versions)
