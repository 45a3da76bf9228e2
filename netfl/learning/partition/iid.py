"""Every user holds a random part of the data."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from netfl.learning.partition import Partition
from netfl.learning.partition._allocation import RowDealer
from netfl.learning.partition._sizes import Sizes
from netfl.streams import Streams
from netfl.types import Law


class Iid(Partition):
    """The training examples are shuffled and dealt out to all users, whatever their labels.

    Shares are equal, and differ by one example at most; or they are uneven, as ``sizes`` says.

    Example::

        kind: iid
        sizes: {law: power_law, exponent: 1.5}
    """

    sizes: Sizes | None = None
    """How many examples users hold: the law ``power_law`` or ``lognormal``; equal shares by default."""

    def split(
        self, labels: NDArray[np.int64], users: int, order: NDArray[np.int64] | None, streams: Streams
    ) -> list[NDArray[np.int64]]:
        """Shuffle all rows and deal them out."""
        hands = RowDealer(users, streams.rng("iid"))
        counts = None if self.sizes is None else self.sizes.counts(streams.at("sizes"), users, len(labels))
        hands.deal(np.arange(len(labels)), range(users), counts)
        return hands.rows()

    def laws(self) -> tuple[Law, ...]:
        """A random permutation, and the sizes."""
        if self.sizes is not None:
            return (self.sizes.law_of_weights(),)
        return (Law.none("a random permutation; its shares are exact"),)
