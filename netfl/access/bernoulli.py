"""Independent availability in each round."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from netfl.access._direct import IntermittentAccess, uniform_rows
from netfl.streams import Streams
from netfl.types import Bools, Floats, Law


class Bernoulli(IntermittentAccess):
    """Each user is available with its own probability, independently of other users and rounds.

    ``P(user n is available in round r) = p_n``; the process of Wang and Ji, "A lightweight method for tackling unknown
    participation statistics in federated averaging", ICLR 2024, section 6.  All available users are delivered, or the
    first few of them in random order.

    Example::

        kind: bernoulli
        probability: 0.3
    """

    candidate_process: ClassVar[str] = "stationary"

    def availability(self, chances: Floats, rounds: int, streams: Streams) -> Iterator[Bools]:
        for draws in uniform_rows(streams.field("present"), np.arange(len(chances)), rounds):
            yield draws < chances

    def laws(self) -> tuple[Law, ...]:
        return (self.availability_law(1, "Bernoulli(p), independent from round to round"),)
