"""Who is up now and for how long, asked in the order of time, so that what is known is not asked again."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from netfl.network.outages import Outages

_PATIENCE = 1_000
"""Passes after which nodes are taken never to be up together: one is up by day, the other by night."""


class Presence:
    """The outages of a network as its clock goes on: no call's *now_s* may be earlier than that of the one before.

    Args:
        outages: who is up when.
        nodes: how many nodes there are.
    """

    def __init__(self, outages: Outages, nodes: int) -> None:
        self._outages = outages
        self._until_s = np.full(nodes, -np.inf)

    def until_s(self, nodes: NDArray[np.int64], now_s: float) -> NDArray[np.float64]:
        """Until when each node, if it is up now, stays up, ``[n]``; of one that is down, a time that is past."""
        unknown = nodes[self._until_s[nodes] <= now_s]
        if unknown.size:
            up = unknown[self._outages.up(unknown, now_s)]
            self._until_s[up] = self._outages.next_change(up, now_s)
        return np.asarray(self._until_s[nodes])

    def up(self, nodes: NDArray[np.int64], now_s: float) -> NDArray[np.bool_]:
        """Whether each node is up now, ``[n]``."""
        return self.until_s(nodes, now_s) > now_s

    def node_until_s(self, node: int, now_s: float) -> float:
        """`until_s` of one node."""
        known = self._until_s[node]
        return float(known if known > now_s else self.until_s(np.array([node]), now_s)[0])

    def together_from_s(self, rows: NDArray[np.int64], now_s: float) -> NDArray[np.float64]:
        """The first instant from now on at which all nodes of a row are up, ``[n]``; infinity if never.

        Args:
            rows: node numbers, ``[n, k]``.
            now_s: from when on.
        """
        at_s = np.full(len(rows), float(now_s))
        todo = np.arange(len(rows))
        for _ in range(_PATIENCE):
            if not todo.size:
                return at_s
            nodes, was_s = rows[todo], at_s[todo]
            back_s = self._outages.next_up(nodes.ravel(), np.repeat(was_s, nodes.shape[1]))
            at_s[todo] = back_s.reshape(nodes.shape).max(axis=1)
            todo = todo[(at_s[todo] > was_s) & np.isfinite(at_s[todo])]
        at_s[todo] = np.inf
        return at_s
