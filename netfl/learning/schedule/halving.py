"""Step sizes that are halved at regular intervals."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from netfl.errors import Fault
from netfl.learning.schedule import Schedule
from netfl.types import ScenarioFacts


class Halving(Schedule):
    """The step sizes are halved at regular intervals: ``lr · 2^-⌊version / every⌋``.

    Example::

        kind: halving
        every: 1000
    """

    every: Annotated[int, Field(ge=1)]
    """Versions between two halvings."""

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        """Yield a fault if the first halving is after the last round."""
        if self.every >= facts.rounds:
            problem = f"has no effect: users start from versions 0 to {facts.rounds - 1}"
            yield Fault("every", problem, self.every, "make it smaller, or take the schedule 'constant'")

    def factors(self, versions: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return powers of 1/2."""
        return np.asarray(0.5 ** (versions // self.every))
