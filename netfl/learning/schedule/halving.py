"""Step sizes that are halved at regular intervals."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import numpy as np
from pydantic import Field

from netfl.core.spec import no_effect
from netfl.errors import Fault
from netfl.learning.schedule import Schedule
from netfl.types import Floats, Ints, ScenarioFacts


class Halving(Schedule):
    """The step sizes are halved at regular intervals: ``lr · 2^-⌊version / every⌋``.

    Example::

        kind: halving
        every: 1000
    """

    every: Annotated[int, Field(ge=1)]
    """Versions between two halvings."""

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        if self.every >= facts.rounds:
            reason = f"because users start from versions 0 to {facts.rounds - 1}"
            yield from no_effect(self, ["every"], reason, "make it smaller, or use the schedule 'constant'")

    def factors(self, versions: Ints) -> Floats:
        return np.asarray(0.5 ** (versions // self.every))
