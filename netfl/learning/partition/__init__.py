"""The partition family: which training example belongs to which user."""

from __future__ import annotations

from abc import abstractmethod
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from netfl.learning.partition._user_ranking import Rarity
from netfl.registry import Spec
from netfl.streams import Streams


class Partition(Spec):
    """The contract of a partition."""

    @abstractmethod
    def split(
        self, labels: NDArray[np.int64], users: int, order: NDArray[np.int64] | None, streams: Streams
    ) -> list[NDArray[np.int64]]:
        """The rows of each user, a list of *users* arrays that share no row.

        Args:
            labels: the labels of the training examples, or what else `goes_by` says.
            users: the number of users.
            order: the users from the most to the least often heard, where `rarity` asks for it.
            streams: where draws come from.

        Raises:
            netfl.errors.ScenarioError: a user would hold no example; the message says who and why.
        """

    @property
    def goes_by(self) -> Literal["label", "user"]:
        """What `split` is told of each training example: its label, or which of the data's own users it belongs to."""
        return "label"

    @property
    def rarity(self) -> Rarity | None:
        """Which order of the users `split` needs; ``None`` for none."""
        return None

    @property
    def rare(self) -> tuple[int, ...]:
        """The labels that only rarely heard users hold, if the partition is about that."""
        return ()
