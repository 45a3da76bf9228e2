"""Random parts of the data."""

from __future__ import annotations

from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field, model_validator

from netfl.errors import Fault, ScenarioError
from netfl.learning.partition import Partition
from netfl.learning.partition._allocation import RowDealer, Sizes
from netfl.streams import Streams
from netfl.types import Ints, Law


class Iid(Partition):
    """The training examples are shuffled and distributed to all users, regardless of labels.

    Shares are equal up to one example, uneven with ``sizes``, or as given with ``counts``.

    Example::

        kind: iid
        sizes: {distribution: power_law, exponent: 1.5}
    """

    needs_labels: ClassVar[bool] = False
    sizes: Sizes | None = None
    """The number of examples of users: ``power_law`` or ``lognormal``; equal shares by default."""
    counts: Annotated[tuple[Annotated[int, Field(ge=1)], ...] | None, Field(min_length=1)] = None
    """The number of examples of each user, in the order of their numbers; the others are not used."""

    @model_validator(mode="after")
    def _check_counts(self) -> Iid:
        if self.sizes is not None and self.counts is not None:
            raise ValueError("sizes and counts both give the number of examples; leave one of them out")
        return self

    def split(self, labels: Ints, users: int, ranking: Ints | None, streams: Streams) -> list[Ints]:
        rows = np.arange(len(labels))
        counts = None  # equal shares
        if self.counts is not None:
            rows = self._used_rows(rows, users, streams)
            counts = np.array(self.counts)
        elif self.sizes is not None:
            counts = self.sizes.draw_counts(streams.at("sizes"), users, len(labels))
        dealer = RowDealer(users, streams.rng("iid"))
        dealer.deal(rows, range(users), counts)
        return dealer.rows()

    def _used_rows(self, rows: Ints, users: int, streams: Streams) -> Ints:
        """Return as many rows, drawn at random, as all users together hold."""
        counts = self.counts or ()
        if len(counts) != users:
            problem = f"{len(counts)} numbers of examples for {users} users"
            raise ScenarioError(
                [Fault("counts", problem, None, "give one for each user, in the order of their numbers")]
            )
        if sum(counts) > len(rows):
            problem = f"users hold {sum(counts)} examples, but the data have {len(rows)}"
            raise ScenarioError([Fault("counts", problem, None, "give smaller numbers, or take more data")])
        return streams.rng("used").permutation(rows)[: sum(counts)]

    def laws(self) -> tuple[Law, ...]:
        if self.sizes is None:
            return super().laws()
        return (self.sizes.weight_law(),)
