"""The data's own users."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from netfl.errors import Fault, ScenarioError
from netfl.learning.partition import Partition
from netfl.streams import Streams
from netfl.types import Law


class Natural(Partition):
    """Each user holds the examples of one user of the data: a role's lines, an account's tweets, a sensor's recordings.

    The data must have users of their own (`synthetic`, `adult`, `shakespeare`, `vehicle`, `sent140`, or a column
    ``user`` of a file), as many as the scenario has; data with more users have a key to choose some.

    Example::

        kind: natural
    """

    @property
    def grouped_by(self) -> Literal["label", "user"]:
        """The users of the data."""
        return "user"

    def split(
        self, labels: NDArray[np.int64], users: int, ranking: NDArray[np.int64] | None, streams: Streams
    ) -> list[NDArray[np.int64]]:
        """Return the rows of each user of the data, which replace *labels*."""
        counts = np.bincount(labels)
        if len(counts) != users:
            remedy = f"say users: {len(counts)}, or choose among them where the data can"
            raise ScenarioError(
                [Fault("", f"the data have {len(counts)} users, the scenario has {users}", None, remedy)]
            )
        if not counts.all():
            raise ScenarioError([Fault("", f"user {int(counts.argmin())} has no training example")])
        return np.split(np.argsort(labels, kind="stable"), np.cumsum(counts)[:-1])

    def laws(self) -> tuple[Law, ...]:
        """State that nothing is drawn."""
        return (Law.none("users hold what the data say"),)
