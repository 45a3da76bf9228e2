"""Every user holds a random part of the data."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from netfl.learning.partition import Partition
from netfl.learning.partition._spread import Hands
from netfl.streams import Streams
from netfl.types import Law


class Iid(Partition):
    """The training examples are shuffled and dealt out to all users in equal shares, whatever their labels.

    Shares differ by one example at most.

    Example::

        kind: iid
    """

    def split(
        self, labels: NDArray[np.int64], users: int, order: NDArray[np.int64] | None, streams: Streams
    ) -> list[NDArray[np.int64]]:
        """Shuffle all rows and deal them out."""
        hands = Hands(users, streams.rng("iid"))
        hands.deal(np.arange(len(labels)), range(users))
        return hands.rows()

    def laws(self) -> tuple[Law, ...]:
        """A random permutation."""
        return (Law.none("a random permutation; its shares are exact"),)
