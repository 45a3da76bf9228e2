"""Nodes that are down for given spans of time."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from netfl.network.outage import Timeline


class Spans(Timeline):
    """A timeline written down in advance.

    Args:
        spans: (node, start, end) of each span, in seconds, half-open; an end may be infinity.  Spans of a node that
            touch or overlap are one.
        nodes: how many nodes there are.
    """

    def __init__(self, spans: Iterable[tuple[int, float, float]], nodes: int) -> None:
        changes = sorted(_merged(spans))
        node = np.array([one for one, _ in changes], np.int64)
        self._change_s = np.array([*(when for _, when in changes), np.inf])
        self._first = np.searchsorted(node, np.arange(nodes + 1))
        # a change's place among all instants makes one sorted key of node and time
        self._instants_s = np.unique(self._change_s[:-1])
        self._keys = self._key(node, self._change_s[:-1])

    def up(self, nodes: NDArray[np.int64], time_s: ArrayLike) -> NDArray[np.bool_]:
        """Whether an even number of changes is past."""
        return np.asarray((self._passed(nodes, time_s) - self._first[nodes]) % 2 == 0)

    def next_change(self, nodes: NDArray[np.int64], time_s: ArrayLike) -> NDArray[np.float64]:
        """The first that is not."""
        passed = self._passed(nodes, time_s)
        return np.where(passed < self._first[nodes + 1], self._change_s[passed], np.inf)

    def _passed(self, nodes: NDArray[np.int64], time_s: ArrayLike) -> NDArray[np.int64]:
        """The place after each node's last change up to *time_s*, ``[n]``."""
        return np.searchsorted(self._keys, self._key(nodes, np.asarray(time_s, float)), side="right")

    def _key(self, nodes: NDArray[np.int64], time_s: NDArray[np.float64]) -> NDArray[np.int64]:
        """A number that grows with the node, then with the number of instants that are past."""
        passed = np.searchsorted(self._instants_s, time_s, side="right")
        return np.asarray(nodes * (len(self._instants_s) + 1) + passed)


def _merged(spans: Iterable[tuple[int, float, float]]) -> Iterable[tuple[int, float]]:
    """The finite changes (node, time) that the spans make together; two for each span that is left."""
    last: tuple[int, float, float] | None = None
    for node, start_s, end_s in sorted(spans):
        if last is not None and last[0] == node and start_s <= last[2]:
            last = (node, last[1], max(last[2], end_s))
            continue
        yield from _ends(last)
        last = (node, start_s, end_s)
    yield from _ends(last)


def _ends(span: tuple[int, float, float] | None) -> Iterable[tuple[int, float]]:
    """The start and the end of a span, if it has one."""
    if span is not None:
        node, *instants_s = span
        yield from ((node, when) for when in instants_s if when < np.inf)
