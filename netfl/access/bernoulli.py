"""Independent availability in each round."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from netfl.access._direct import IntermittentAccess, make_context, uniform_rows
from netfl.streams import Streams
from netfl.types import Law


class Bernoulli(IntermittentAccess):
    """Each user is available with its own probability, independently of other users and rounds.

    ``P(user n is available in round r) = p_n``; the process of Wang and Ji, "A lightweight method for tackling unknown
    participation statistics in federated averaging", ICLR 2024, section 6.  All available users are delivered, or the
    first few of them in random order.

    Example::

        kind: bernoulli
        probability: 0.3
    """

    def availability(self, chances: NDArray[np.float64], rounds: int, streams: Streams) -> Iterator[NDArray[np.bool_]]:
        """Yield whether each user is available in each round."""
        for draws in uniform_rows(streams.field("present"), np.arange(len(chances)), rounds):
            yield draws < chances

    @property
    def candidate_process(self) -> str:
        """Kind of process of the candidates."""
        return "stationary"

    def laws(self) -> tuple[Law, ...]:
        """Return the laws that a test checks."""
        users = len(self.probability) if isinstance(self.probability, tuple) else 1

        def draw(streams: Streams, size: int) -> NDArray[np.float64]:
            chances = self.chances(make_context(users, size, streams))
            return np.array([available[0] for available in self.availability(chances, size, streams)], float)

        p = self.typical_chance
        return (Law("user 0 there", "Bernoulli(p), independent from round to round", draw, p, p * (1 - p)),)
