"""Users that are available for the same part of every cycle."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import numpy as np
from pydantic import Field

from netfl.access._direct import IntermittentAccess
from netfl.streams import Streams
from netfl.types import Bools, Floats, Law


class Cyclic(IntermittentAccess):
    """Each user is available for one stretch of rounds in every cycle, which begins at the user's own offset.

    The stretch is ``max(1, round(cycle * p_n))`` rounds long and the offset is uniform (``cyclic-100`` of Wang and
    Ji, "A lightweight method for tackling unknown participation statistics in federated averaging", ICLR 2024).

    Example::

        kind: cyclic
        probability: 0.1
        cycle: 20
    """

    cycle: Annotated[int, Field(ge=1)] = 100
    """Rounds in a cycle."""

    def availability(self, chances: Floats, rounds: int, streams: Streams) -> Iterator[Bools]:
        stretch = self._stretch(chances)
        draws = streams.field("present").uniform(np.arange(len(chances)))
        offset = (draws * self.cycle).astype(np.int64)
        for index in range(rounds):
            yield (index + offset) % self.cycle < stretch

    def _stretch(self, chances: Floats) -> Floats:
        return np.maximum(1.0, np.round(self.cycle * chances))

    def shares(self, chances: Floats) -> Floats:
        """Return the share of each cycle in which each user is available, a whole number of rounds."""
        return self._stretch(chances) / self.cycle

    @property
    def candidate_process(self) -> str:
        if self.stated_chances and self.shares(np.array(self.stated_chances)).min() == 1.0:  # always available
            return "stationary"
        return "cyclic"

    def laws(self) -> tuple[Law, ...]:
        return (self.availability_law(7, "Bernoulli(max(1, round(cycle p)) / cycle) over users, as offsets are even"),)
