"""Users who are there for the same part of every cycle."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from netfl.access._direct import IntermittentAccess
from netfl.streams import Streams
from netfl.types import Law


class Cyclic(IntermittentAccess):
    """Each user is there for one stretch of rounds in every cycle, which begins at an offset of its own.

    The stretch is ``max(1, round(cycle * p_n))`` rounds long and the offset is drawn evenly (``cyclic-100`` of Wang and
    Ji, "A lightweight method for tackling unknown participation statistics in federated averaging", ICLR 2024).

    Example::

        kind: cyclic
        probability: 0.1
        cycle: 20
    """

    cycle: Annotated[int, Field(ge=1)] = 100
    """Rounds in a cycle."""

    def present(self, chances: NDArray[np.float64], rounds: int, streams: Streams) -> Iterator[NDArray[np.bool_]]:
        """Those whose clock is within their stretch."""
        stretch = self.stretch(chances)
        offset = (streams.field("present").uniform(np.arange(len(chances))) * self.cycle).astype(np.int64)
        for index in range(rounds):
            yield (index + offset) % self.cycle < stretch

    def stretch(self, chances: NDArray[np.float64]) -> NDArray[np.float64]:
        """How many rounds of a cycle each user is there."""
        return np.maximum(1.0, np.round(self.cycle * chances))

    def shares(self, chances: NDArray[np.float64]) -> NDArray[np.float64]:
        """The share of each cycle for which each user is there, a whole number of rounds."""
        return self.stretch(chances) / self.cycle

    @property
    def coming(self) -> str:
        """The same in every cycle, if anybody is ever away."""
        always = self.listed and self.shares(np.array(self.listed)).min() == 1.0
        return "stationary" if always else "cyclic"

    def laws(self) -> tuple[Law, ...]:
        """How likely a user like the first is there in a given round."""
        share = max(1, round(self.cycle * self.typical)) / self.cycle

        def draw(streams: Streams, size: int) -> NDArray[np.float64]:
            return np.asarray([*self.present(np.full(size, self.typical), 7, streams)][-1], float)

        statement = "Bernoulli(max(1, round(cycle p)) / cycle) over users, as offsets are even"
        return (Law("user there in round 7", statement, draw, share, share * (1 - share)),)
