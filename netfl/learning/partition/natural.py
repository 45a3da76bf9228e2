"""The data's own users."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np

from netfl.errors import Fault, ScenarioError
from netfl.learning.partition import Partition
from netfl.streams import Streams
from netfl.types import Ints, Law


class Natural(Partition):
    """Each user holds the examples of one user of the data: a role's lines, an account's tweets, a sensor's recordings.

    The data must have users of their own (`synthetic`, `adult`, `shakespeare`, `vehicle`, `sent140`, or a column
    ``user`` of a file), as many as the scenario has; data with more users have a key to choose some.

    Example::

        kind: natural
    """

    grouped_by: ClassVar[Literal["label", "user"]] = "user"

    def split(self, labels: Ints, users: int, ranking: Ints | None, streams: Streams) -> list[Ints]:
        """Return the rows of each user of the data, which replace *labels*."""
        counts = np.bincount(labels)
        if len(counts) != users:
            remedy = f"set users: {len(counts)}, or select users in the data section"
            problem = f"the data have {len(counts)} users, the scenario has {users}"
            raise ScenarioError([Fault("", problem, None, remedy)])
        rows = np.argsort(labels, kind="stable")  # user by user
        return np.split(rows, np.cumsum(counts)[:-1])

    def laws(self) -> tuple[Law, ...]:
        return (Law.none("the data assign examples to users"),)
