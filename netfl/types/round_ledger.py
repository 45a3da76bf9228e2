"""Checks that the rounds of a replica are possible: what they need is there, and in the order of time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from math import isfinite

from netfl.types.merges import SERVER, Merge
from netfl.types.rounds import Round


class RoundLedger:
    """The versions of all nodes in one replica that its rounds may use, as far as they state them.

    Every node starts from version 0 of the server.

    Args:
        users: number of users.
        nodes: number of nodes besides the server that merge.
        max_deliveries: largest number of deliveries in a round.
    """

    def __init__(self, users: int, nodes: int, max_deliveries: int) -> None:
        self._users = users
        self._nodes = nodes
        self._max_deliveries = max_deliveries
        self._newest: defaultdict[int, int] = defaultdict(int)
        self._kept: defaultdict[int, set[int]] = defaultdict(lambda: {0})  # of nodes besides the server
        self._last: Round | None = None

    def add_merges(self, round_: Round) -> str:
        """Add the merges of the next round; return why one of them is not possible, or nothing."""
        last_s = -float("inf")
        for merge in round_.merges:
            for problem in self._problems(round_, merge, last_s):
                return f"merge {merge.number} of node {merge.node} in round {round_.index}: {problem}"
            last_s = merge.time_s
            self._newest[merge.node] = merge.number
            self._kept[merge.node].add(merge.number)
        last_merges = {merge.node: merge for merge in round_.merges}
        for node, merge in last_merges.items():
            oldest = merge.number if merge.oldest is None else merge.oldest
            self._kept[node] = {number for number in self._kept[node] if number >= oldest}
        self._last = round_
        return ""

    def delivery_problem(self, round_: Round) -> str:
        """Return why a delivery of the next round, before its merges are added, is not possible, or nothing."""
        deliveries = round_.all_deliveries()
        if len(deliveries) > self._max_deliveries:
            stated = f"max_deliveries states {self._max_deliveries} at most"
            return f"round {round_.index} has {len(deliveries)} deliveries, but {stated}"
        for delivery in deliveries:
            name = f"the delivery of user {delivery.user} in round {round_.index}"
            if not 0 <= delivery.user < self._users:
                return f"{name}: there are users 0 to {self._users - 1}"
            if not delivery.sent_s <= delivery.arrived_s <= round_.closed_s:
                times = f"sent at {delivery.sent_s:g} s, arrived at {delivery.arrived_s:g} s"
                return f"{name}: it is {times}, and the round closed at {round_.closed_s:g} s"
        for delivery in round_.deliveries:
            for base in (*delivery.lost_bases, delivery.base):
                if not self._has(SERVER, base):
                    name = f"the delivery of user {delivery.user} in round {round_.index}"
                    return f"{name}: it starts from version {base}; {self._present(SERVER)}"
        return ""

    def _problems(self, round_: Round, merge: Merge, last_s: float) -> Iterator[str]:
        """Yield the reasons why *merge*, which follows one at *last_s*, is not possible."""
        newest = self._newest[merge.node]
        if not all(float(number).is_integer() for number in (merge.node, merge.number, merge.round)):
            yield f"node, number and round ({merge.round}) are whole numbers"
        if not 0 <= merge.node <= self._nodes:
            yield f"there are nodes 0 to {self._nodes}; state more in Access.merging_nodes"
        if merge.number <= newest:
            yield f"its number follows version {newest}; give a larger one, such as {newest + 1}"
        if merge.oldest is not None and not 0 <= merge.oldest <= merge.number:
            yield f"its oldest version is {merge.oldest}; give one from 0 to {merge.number}"
        if merge.node == SERVER:
            yield from self._server_problems(round_, merge)
        elif not 0 <= merge.round <= round_.index:
            yield f"the time of its version is round {merge.round}; give one from 0 to {round_.index}"
        if not last_s <= merge.time_s <= round_.closed_s:
            yield f"it is at {merge.time_s:g} s; give merges in the order of time, until {round_.closed_s:g} s"
        for node, number in merge.sources:
            if not self._has(node, number):
                yield f"it needs version {number} of node {node}; {self._present(node)}"
        weights = [weight for *_, weight in merge.models]
        if weights and not (min(weights) >= 0.0 and sum(weights) > 0.0 and isfinite(sum(weights))):
            yield f"the weights of its models are {weights}; give finite ones from 0 on, not all 0"

    def _server_problems(self, round_: Round, merge: Merge) -> Iterator[str]:
        """Yield the reasons why the server cannot make *merge* in a round."""
        if merge.number != round_.index or merge.round != round_.index or merge is not round_.merges[-1]:
            yield f"the server merges once in a round, last, and makes version {round_.index} of round {round_.index}"
        if merge.deliveries or round_.deliveries:
            yield "the server merges models or, without a merge, Round.deliveries; make it two rounds"

    def _present(self, node: int) -> str:
        """Return the versions of a node that may be used, as a clause."""
        if node != SERVER:
            return f"there are {', '.join(map(str, sorted(self._kept[node])))}"
        if self._last is None:
            return "there is 0"
        if self._last.needed is not None:
            return f"there are {', '.join(map(str, (*self._last.needed, self._last.index)))}"
        return f"there are {self._last.oldest} to {self._last.index}"

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
