"""Who is trained in a round: the deliveries of all replicas, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np
from numpy.typing import NDArray

from netfl.types import Round


@dataclass(frozen=True, slots=True)
class Cohort:
    """The deliveries of one round of all replicas, replica by replica, in the order of their arrival.

    Args:
        replicas: of each delivery, ``[deliveries]``.
        users: of each delivery.
        bases: the version that each started from.
        parts: where each replica's deliveries are, for those that have any.
    """

    replicas: NDArray[np.int64]
    users: NDArray[np.int64]
    bases: NDArray[np.int64]
    parts: tuple[slice, ...]

    @classmethod
    def of(cls, rounds: Sequence[Round]) -> Cohort:
        """The cohort of one round of each replica, in order."""
        lines = [(replica, one.user, one.base) for replica, own in enumerate(rounds) for one in own.deliveries]
        replicas, users, bases = np.array(lines, np.int64).reshape(-1, 3).T
        ends = accumulate((len(own.deliveries) for own in rounds), initial=0)
        parts = tuple(slice(begin, end) for begin, end in pairwise(ends) if begin < end)
        return cls(replicas, users, bases, parts)
