"""Random parts of the data."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from netfl.learning.partition import Partition
from netfl.learning.partition._allocation import RowDealer
from netfl.learning.partition._sizes import Sizes
from netfl.streams import Streams
from netfl.types import Law


class Iid(Partition):
    """The training examples are shuffled and dealt out to all users, regardless of labels.

    Shares are equal up to one example, or uneven with ``sizes``.

    Example::

        kind: iid
        sizes: {law: power_law, exponent: 1.5}
    """

    sizes: Sizes | None = None
    """The number of examples of users: the law ``power_law`` or ``lognormal``; equal shares by default."""

    def split(
        self, labels: NDArray[np.int64], users: int, ranking: NDArray[np.int64] | None, streams: Streams
    ) -> list[NDArray[np.int64]]:
        """Shuffle all rows and deal them out."""
        dealer = RowDealer(users, streams.rng("iid"))
        counts = None if self.sizes is None else self.sizes.draw_counts(streams.at("sizes"), users, len(labels))
        dealer.deal(np.arange(len(labels)), range(users), counts)
        return dealer.rows()

    def laws(self) -> tuple[Law, ...]:
        """State the distribution of the sizes."""
        if self.sizes is not None:
            return (self.sizes.weight_law(),)
        return (Law.none("a random permutation; its shares are exact"),)
