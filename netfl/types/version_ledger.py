"""A check that the merges of a replica's rounds are possible: each needs versions that are there."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from netfl.types.merges import SERVER, Merge
from netfl.types.rounds import Round


class VersionLedger:
    """The versions of all nodes in one replica that merges may use, as far as its rounds state them.

    Every node starts from version 0 of the server.

    Args:
        nodes: number of nodes besides the server.
    """

    def __init__(self, nodes: int) -> None:
        self._nodes = nodes
        self._newest: defaultdict[int, int] = defaultdict(int)
        self._kept: defaultdict[int, set[int]] = defaultdict(lambda: {0})  # of nodes besides the server
        self._last: Round | None = None

    def add(self, round_: Round) -> None:
        """Add the merges of the next round.

        Raises:
            ValueError: a merge is not possible, with the reason.
        """
        for merge in round_.merges:
            for problem in self._problems(round_, merge):
                raise ValueError(f"merge {merge.number} of node {merge.node} in round {round_.index}: {problem}")
            self._newest[merge.node] = merge.number
            self._kept[merge.node].add(merge.number)
        last_merges = {merge.node: merge for merge in round_.merges}
        for node, merge in last_merges.items():
            oldest = merge.number if merge.oldest is None else merge.oldest
            self._kept[node] = {number for number in self._kept[node] if number >= oldest}
        self._last = round_

    def _problems(self, round_: Round, merge: Merge) -> Iterator[str]:
        """Yield the reasons why *merge* is not possible."""
        if not 0 <= merge.node <= self._nodes:
            yield f"there are nodes 0 to {self._nodes}, see Access.merging_nodes"
        if merge.number <= self._newest[merge.node]:
            yield f"its number is not larger than that of version {self._newest[merge.node]} before it"
        if merge.node == SERVER and (merge.number != round_.index or merge is not round_.merges[-1]):
            yield f"the server merges once in a round, last, and makes version {round_.index}"
        if merge.node == SERVER and (merge.deliveries or round_.deliveries):
            yield "the server merges models or, without a merge, Round.deliveries; make it two rounds"
        for node, number in merge.sources:
            if not self._has(node, number):
                yield f"it needs version {number} of node {node}, which is not there, or no more"
        if merge.models and not sum(weight for _, _, weight in merge.models) > 0.0:
            yield "the weights of its models have no positive sum"

    def _has(self, node: int, number: int) -> bool:
        """Return whether a version may be used in the next round."""
        if node != SERVER:
            return number in self._kept[node]
        if self._last is None:
            return number == 0
        if number == self._last.index:
            return True
        if self._last.needed is not None:
            return number in self._last.needed
        return self._last.oldest <= number < self._last.index
