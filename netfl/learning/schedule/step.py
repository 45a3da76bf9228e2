"""Step sizes that change at given versions."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Annotated

import numpy as np
from pydantic import Field, field_validator

from netfl.core.spec import no_effect
from netfl.errors import Fault
from netfl.learning.schedule import Schedule
from netfl.types import Floats, Ints, ScenarioFacts


class Step(Schedule):
    """Step sizes that are multiplied by a factor at each of some versions, like PyTorch's ``MultiStepLR``.

    ``milestones`` are its milestones, ``factor`` its gamma, and versions take the place of epochs.

    Example::

        kind: step
        milestones: [1000, 2000]
        factor: 0.1
    """

    milestones: Annotated[tuple[Annotated[int, Field(ge=1)], ...], Field(min_length=1)]
    """Versions in rising order; the factor applies from each version on."""
    factor: Annotated[float, Field(gt=0)] = 0.1
    """Factor of the step sizes."""

    @field_validator("milestones")
    @classmethod
    def _require_rising(cls, at: tuple[int, ...]) -> tuple[int, ...]:
        if any(later <= before for before, later in pairwise(at)):
            raise ValueError("the milestones are not ascending; put them in order, each once")
        return at

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        late = [version for version in self.milestones if version >= facts.rounds]
        if late:
            reason = f"for {late}: users start from versions 0 to {facts.rounds - 1}"
            yield from no_effect(self, ["milestones"], reason, "leave them out, or use the schedule 'constant'")

    def factors(self, versions: Ints) -> Floats:
        return np.asarray(self.factor ** np.searchsorted(self.milestones, versions, side="right"))
