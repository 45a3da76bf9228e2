"""Random parts of the data."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from netfl.learning.partition import Partition
from netfl.learning.partition._allocation import RowDealer, Sizes
from netfl.streams import Streams
from netfl.types import Ints, Law


class Iid(Partition):
    """The training examples are shuffled and distributed to all users, regardless of labels.

    Shares are equal up to one example, or uneven with ``sizes``.

    Example::

        kind: iid
        sizes: {distribution: power_law, exponent: 1.5}
    """

    needs_labels: ClassVar[bool] = False
    sizes: Sizes | None = None
    """The number of examples of users: ``power_law`` or ``lognormal``; equal shares by default."""

    def split(self, labels: Ints, users: int, ranking: Ints | None, streams: Streams) -> list[Ints]:
        dealer = RowDealer(users, streams.rng("iid"))
        counts = None if self.sizes is None else self.sizes.draw_counts(streams.at("sizes"), users, len(labels))
        dealer.deal(np.arange(len(labels)), range(users), counts)
        return dealer.rows()

    def laws(self) -> tuple[Law, ...]:
        return super().laws() if self.sizes is None else (self.sizes.weight_law(),)
