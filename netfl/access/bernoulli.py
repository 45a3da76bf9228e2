"""Users who are there or not by the throw of a coin, anew in each round."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from netfl.access._direct import IntermittentAccess, make_world, uniform_rows
from netfl.streams import Streams
from netfl.types import Law


class Bernoulli(IntermittentAccess):
    """Each user is there with its own probability, independently of all others and of all other rounds.

    ``P(user n is there in round r) = p_n``; the process of Wang and Ji, "A lightweight method for tackling unknown
    participation statistics in federated averaging", ICLR 2024, section 6.  All who are there are heard, or the
    first few of them in random order.

    Example::

        kind: bernoulli
        probability: 0.3
    """

    def present(self, chances: NDArray[np.float64], rounds: int, streams: Streams) -> Iterator[NDArray[np.bool_]]:
        """A coin for each user and round."""
        for draws in uniform_rows(streams.field("present"), np.arange(len(chances)), rounds):
            yield draws < chances

    @property
    def coming(self) -> str:
        """Rounds are independent and alike."""
        return "stationary"

    def laws(self) -> tuple[Law, ...]:
        """How often the first user is there."""
        users = len(self.probability) if isinstance(self.probability, tuple) else 1

        def draw(streams: Streams, size: int) -> NDArray[np.float64]:
            setting = make_world(users, size, streams)
            return np.array([there[0] for there in self.present(self.chances(setting), size, streams)], float)

        p = self.typical
        return (Law("user 0 there", "Bernoulli(p), independent from round to round", draw, p, p * (1 - p)),)
