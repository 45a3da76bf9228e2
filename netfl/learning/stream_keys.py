"""Keys of the draws of users in training: those of users that start from versions of one node are of one stream."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from netfl.streams import Streams
from netfl.types import SERVER, Ints


class StreamKeys:
    """Keys of the stream of a purpose, by replica and by the node whose versions users start from.

    Draws are counted by user, version and repeat.  Versions of two nodes may have the same number, so each node has a
    stream of its own; that of the server is the stream without a node.

    Args:
        streams: of each replica.
        name: of the stream.
    """

    def __init__(self, streams: Sequence[Streams], name: str) -> None:
        self._streams = streams
        self._name = name
        self._of_server = np.array([stream.field(name).key for stream in streams], np.uint64)
        self._of_nodes: dict[tuple[int, int], tuple[int, int]] = {}  # by replica and node

    def of(self, replicas: Ints, nodes: Ints | None) -> NDArray[np.uint64]:
        """Return the key of each draw, ``[draws, 2]``.

        Args:
            replicas: ``[draws]``.
            nodes: ``[draws]``; ``None`` for the server alone.
        """
        if nodes is None:
            return self._of_server[replicas]
        pairs = zip(replicas.tolist(), nodes.tolist(), strict=True)
        return np.array([self._key(*pair) for pair in pairs], np.uint64).reshape(-1, 2)

    def _key(self, replica: int, node: int) -> tuple[int, int]:
        pair = (replica, node)
        if pair not in self._of_nodes:
            stream = self._streams[replica]
            if node == SERVER:
                field = stream.field(self._name)
            else:
                field = stream.field(self._name, "node", node)
            self._of_nodes[pair] = field.key
        return self._of_nodes[pair]
