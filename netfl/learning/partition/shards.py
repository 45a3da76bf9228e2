"""Pieces of the data sorted by label."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import numpy as np
from pydantic import Field

from netfl.errors import Fault
from netfl.learning.partition import Partition
from netfl.learning.partition._allocation import RowDealer
from netfl.streams import Streams
from netfl.types import Ints, ScenarioFacts


class Shards(Partition):
    """The training examples are sorted by label and cut into equal parts; each user gets the same number of parts.

    McMahan et al., "Communication-efficient learning of deep networks from decentralized data", AISTATS 2017; with two
    parts each, or one, the "2-class" and "1-class non-IID" cases of Zhao et al., "Federated learning with non-IID
    data", arXiv:1806.00582: a user holds as many labels as parts, where the labels are even and as the cuts fall.
    Within a label the order is random.

    Example::

        kind: shards
        per_user: 2
    """

    per_user: Annotated[int, Field(ge=1)] = 2
    """Parts per user."""
    stratified: bool = True
    """Take a user's parts from different stretches of the sorted data, one from each of ``per_user`` equal ones, so
    that their labels differ; otherwise distribute all parts at random."""

    def split(self, labels: Ints, users: int, ranking: Ints | None, streams: Streams) -> list[Ints]:
        rng = streams.rng("shards")
        shuffled = rng.permutation(len(labels))
        by_label = shuffled[np.argsort(labels[shuffled], kind="stable")]
        count = self.per_user * users
        parts = np.array_split(by_label, count)
        if self.stratified:
            stretches = np.arange(count).reshape(self.per_user, users)
            order = rng.permuted(stretches, axis=1).ravel()  # each stretch by itself
        else:
            order = rng.permutation(count)
        dealer = RowDealer(users, rng)
        for turn, part in enumerate(order.tolist()):
            dealer.give(parts[part], turn % users)
        return dealer.rows()

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        if self.stratified and facts.classes is not None and self.per_user > facts.classes:
            problem = f"the data have {facts.classes} labels, too few for parts of different ones"
            yield Fault("per_user", problem, self.per_user, "use fewer, or set stratified: false")
