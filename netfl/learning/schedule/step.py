"""Step sizes that fall at given rounds."""

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
    """From each of some versions on, the step sizes are multiplied by a factor once more: PyTorch's ``MultiStepLR``.

    ``at`` are its milestones, ``factor`` its gamma, and versions take the place of epochs.

    Example::

        kind: step
        at: [1000, 2000]
        factor: 0.1
    """

    at: Annotated[tuple[Annotated[int, Field(ge=1)], ...], Field(min_length=1)]
    """The versions, in rising order: a user that starts from one of them, or later, takes the smaller step."""
    factor: Annotated[float, Field(gt=0)] = 0.1
    """What the step sizes are multiplied by."""

    @field_validator("at")
    @classmethod
    def _rising(cls, at: tuple[int, ...]) -> tuple[int, ...]:
        """Each later than the one before."""
        if any(later <= before for before, later in pairwise(at)):
            raise ValueError("at must rise from entry to entry")
        return at

    @field_validator("factor")
    @classmethod
    def _changes(cls, factor: float) -> float:
        """Not 1."""
        if factor == 1:
            raise ValueError("a factor of 1 changes nothing; take the schedule 'constant'")
        return factor

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        """Versions that nobody starts from."""
        late = [version for version in self.at if version >= facts.rounds]
        if late:
            problem = f"has no effect: users start from versions 0 to {facts.rounds - 1}"
            yield Fault("at", problem, late, "leave them out, or take the schedule 'constant'")

    def factors(self, versions: NDArray[np.int64]) -> NDArray[np.float64]:
        """The factor, to the power of how many of the versions are past."""
        return np.asarray(self.factor ** np.searchsorted(self.at, versions, side="right"))
