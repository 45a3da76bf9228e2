"""Who is up now and for how long, asked in the order of time, so that what is known is not asked again."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from netfl.network.outage._combined import CombinedOutages

_PATIENCE = 1_000
"""Passes after which nodes are taken never to be up together: one is up by day, the other by night."""
_FAR = 100
"""Looks ahead after which what outages do that are not exact is far ahead."""


class NodeState:
    """The outages of a network as its clock goes on: no call's *now_s* may be earlier than that of the one before.

    Args:
        outages: who is up when.
        nodes: how many nodes there are.

    Attributes:
        always_up: whether no node can ever be down: if so, nobody need ask.
        metered: whether anything depends on what users do: if not, nobody need tell.
    """

    def __init__(self, outages: CombinedOutages, nodes: int) -> None:
        self._outages = outages
        self._up = _Known(outages, nodes)
        self._uncut = _Known(outages.cutting, nodes) if outages.cutting is not outages else self._up
        self.always_up, self.metered = not outages, outages.metered

    def until_s(self, nodes: NDArray[np.int64], now_s: float) -> NDArray[np.float64]:
        """Until when each node, if it is up now, stays up at least, ``[n]``; of one that is down, a time now past."""
        return self._up.until_s(nodes, now_s)

    def up(self, nodes: NDArray[np.int64], now_s: float) -> NDArray[np.bool_]:
        """Whether each node is up now, ``[n]``."""
        return self.until_s(nodes, now_s) > now_s

    def node_until_s(self, node: int, now_s: float) -> float:
        """`until_s` of one node."""
        return self._up.node_until_s(node, now_s)

    def cut_s(self, node: int, now_s: float, by_s: float = np.inf) -> float:
        """When a transmission that *node*, up now, begins now would be cut off; infinity if never.

        Outages that spare uploads do not cut.  If one that does has begun already, the answer is a time now past.
        Where outages are not exact, it may be a time far ahead up to which it is sure that nothing cuts.

        Args:
            node: either end of the transmission, or a link on its way.
            now_s: when it begins.
            by_s: when it ends, if that is known: only answers before that matter, and outages that are not exact are
                not asked about what comes later.
        """
        cut_s = self._uncut.node_until_s(node, now_s)
        return cut_s if cut_s >= by_s or cut_s <= now_s else self._uncut.sure_until_s(node, cut_s, by_s)

    def train(self, users: NDArray[np.int64], time_s: ArrayLike, samples: ArrayLike) -> None:
        """Each of *users* trains on so many samples, at *time_s*."""
        if self.metered:
            self._outages.train(users, time_s, samples)
            self._forget(users)

    def transmit(self, users: NDArray[np.int64], time_s: ArrayLike, bits: ArrayLike) -> None:
        """Each of *users* begins to transmit so many bits, at *time_s*."""
        if self.metered:
            self._outages.transmit(users, time_s, bits)
            self._forget(users)

    def together_from_s(self, rows: NDArray[np.int64], now_s: float) -> NDArray[np.float64]:
        """The first instant from now on at which all nodes of a row are up, ``[n]``; infinity if never.

        Args:
            rows: node numbers, ``[n, k]``.
            now_s: from when on.
        """
        each_s = self._up.back_s(rows, now_s)
        at_s = each_s.max(axis=1)
        stays = self._up.until_s(rows, now_s) > at_s[:, None]
        sure = (stays | (each_s == at_s[:, None])).all(axis=1)
        at_s[~sure] = self.together_later_s(rows[~sure], at_s[~sure])
        return np.asarray(at_s)

    def together_later_s(self, rows: NDArray[np.int64], time_s: ArrayLike) -> NDArray[np.float64]:
        """The same from a time to come on, which is kept for nobody."""
        at_s = np.array(np.broadcast_to(np.asarray(time_s, float), len(rows)))
        todo = np.flatnonzero(np.isfinite(at_s))
        for _ in range(_PATIENCE):
            if not todo.size:
                return at_s
            nodes, was_s = rows[todo], at_s[todo]
            back_s = self._outages.next_up(nodes.ravel(), np.repeat(was_s, nodes.shape[1]))
            at_s[todo] = back_s.reshape(nodes.shape).max(axis=1)
            todo = todo[(at_s[todo] > was_s) & np.isfinite(at_s[todo])]
        at_s[todo] = np.inf
        return at_s

    def _forget(self, users: NDArray[np.int64]) -> None:
        """What *users* have done may have changed the answers."""
        self._up.forget(users)
        self._uncut.forget(users)


class _Known:
    """Until when each node stays up or stays down, as far as it has been asked."""

    def __init__(self, outages: CombinedOutages, nodes: int) -> None:
        self._outages, self._exact = outages, outages.exact
        self._until_s, self._back_s = np.full((2, nodes), -np.inf)

    def until_s(self, nodes: NDArray[np.int64], now_s: float) -> NDArray[np.float64]:
        """Until when each stays up, ``[...]``; what is past by now is asked anew."""
        unknown = self._unknown(nodes, now_s)
        if unknown.size:
            up = unknown[self._outages.up(unknown, now_s)]
            self._until_s[up] = self._outages.next_change(up, now_s)
        return np.asarray(self._until_s[nodes])

    def back_s(self, nodes: NDArray[np.int64], now_s: float) -> NDArray[np.float64]:
        """The first instant from now on at which each is up, ``[...]``."""
        unknown = self._unknown(nodes, now_s)
        if unknown.size:
            self._back_s[unknown] = self._outages.next_up(unknown, now_s)
        return np.asarray(np.maximum(self._back_s[nodes], now_s))

    def _unknown(self, nodes: NDArray[np.int64], now_s: float) -> NDArray[np.int64]:
        """Those of whom it is not known whether they are up."""
        return np.asarray(nodes[(self._until_s[nodes] <= now_s) & (self._back_s[nodes] <= now_s)])

    def node_until_s(self, node: int, now_s: float) -> float:
        """Of one node."""
        known = self._until_s[node]
        return float(known if known > now_s else self.until_s(np.array([node]), now_s)[0])

    def sure_until_s(self, node: int, until_s: float, by_s: float) -> float:
        """The same, looked at again where nothing may change at *until_s*, until there is a change or it is *by_s*."""
        if self._exact:
            return until_s
        one = np.array([node])
        for _ in range(_FAR):
            if until_s >= by_s or np.isinf(until_s) or not self._outages.up(one, until_s)[0]:
                return until_s
            self._until_s[node] = until_s = float(self._outages.next_change(one, until_s)[0])
        return until_s

    def forget(self, nodes: NDArray[np.int64]) -> None:
        """Ask anew about *nodes*."""
        self._until_s[nodes] = self._back_s[nodes] = -np.inf
