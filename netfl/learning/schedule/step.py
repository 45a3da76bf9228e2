"""Step sizes that change at given versions."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, field_validator

from netfl.errors import Fault
from netfl.learning.schedule import Schedule
from netfl.types import ScenarioFacts


class Step(Schedule):
    """Step sizes that are multiplied by a factor at each of some versions, like PyTorch's ``MultiStepLR``.

    ``at`` are its milestones, ``factor`` its gamma, and versions take the place of epochs.

    Example::

        kind: step
        at: [1000, 2000]
        factor: 0.1
    """

    at: Annotated[tuple[Annotated[int, Field(ge=1)], ...], Field(min_length=1)]
    """Versions in rising order; the factor applies from each version on."""
    factor: Annotated[float, Field(gt=0)] = 0.1
    """Factor of the step sizes."""

    @field_validator("at")
    @classmethod
    def _require_rising(cls, at: tuple[int, ...]) -> tuple[int, ...]:
        if any(later <= before for before, later in pairwise(at)):
            raise ValueError("at must rise from entry to entry")
        return at

    @field_validator("factor")
    @classmethod
    def _refuse_one(cls, factor: float) -> float:
        if factor == 1:
            raise ValueError("a factor of 1 changes nothing; take the schedule 'constant'")
        return factor

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        """Yield a fault for versions after the last round."""
        late = [version for version in self.at if version >= facts.rounds]
        if late:
            problem = f"has no effect: users start from versions 0 to {facts.rounds - 1}"
            yield Fault("at", problem, late, "leave them out, or take the schedule 'constant'")

    def factors(self, versions: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the factor to the power of the number of versions passed."""
        return np.asarray(self.factor ** np.searchsorted(self.at, versions, side="right"))
