"""Random numbers of aggregations: the same for all learners of a replica, as mini-batches are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from torch import Tensor

from netfl.learning.tensors import upload

if TYPE_CHECKING:
    from netfl.streams import Streams


class RuleDraws:
    """Random numbers of one merge: functions of (replica, node, round), the same in all lanes.

    The host draws them, on any device, so that they are the same on all.

    Args:
        streams: of the replica.
        node: the node that merges.
        round: its round.
        like: tensor of the type and on the device of the numbers.
    """

    def __init__(self, streams: Streams, node: int, round: int, like: Tensor) -> None:
        self._streams = streams
        self._node = node
        self._round = round
        self._like = like

    def normal(self, count: int) -> Tensor:
        """Return standard normal numbers, ``[count]``; of the same count always the same."""
        field = self._streams.field("aggregation")  # here, as most rules draw nothing
        numbers = field.normal(np.arange(count), self._round, self._node)
        return upload(numbers, self._like.device, self._like.dtype)
