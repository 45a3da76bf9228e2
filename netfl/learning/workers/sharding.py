"""Parts of a run's lanes, some learners in some replicas each, and the state of learning in parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from typing import Any

import numpy as np
import torch


@dataclass(frozen=True, slots=True)
class LaneShard:
    """Some learners in some replicas, both by their places in the run."""

    learners: range
    replicas: range

    def lanes(self, replicas: int) -> list[int]:
        """The numbers of its lanes in a run of so many *replicas*, in order."""
        return [learner * replicas + replica for learner, replica in product(self.learners, self.replicas)]


def shard_lanes(learners: int, replicas: int, parts: int) -> list[LaneShard]:
    """All lanes in *parts* parts, or in fewer where that leaves the largest no larger; as even as rectangles can be.

    Of cuts that are as good, the one with the most cuts between replicas is taken.

    >>> [(list(one.learners), list(one.replicas)) for one in shard_lanes(2, 3, 2)]
    [([0], [0, 1, 2]), ([1], [0, 1, 2])]
    """

    def rows(across: int) -> int:
        return min(learners, parts // across)

    def largest(across: int) -> tuple[int, int, int]:
        down = rows(across)
        return -(-learners // down) * -(-replicas // across), across * down, -across

    across = min(range(1, min(replicas, parts) + 1), key=largest)
    down = rows(across)
    return [LaneShard(*one) for one in product(_even(learners, down), _even(replicas, across))]


def split(state: Mapping[str, Any], part: LaneShard, replicas: int) -> dict[str, Any]:
    """What *part* needs of the *state* of a run of so many *replicas*; see `merge`."""
    lanes, first = part.lanes(replicas), part.replicas.start
    own = {lane: place for place, lane in enumerate(lanes)}
    versions, servers = state["versions"], state["servers"]
    return {
        "lanes": [state["lanes"][lane] for lane in lanes],
        "round": state["round"],
        "versions": {
            "kept": {number: version[lanes] for number, version in versions["kept"].items()},
            "messages": {
                number: {own[lane]: sent[lane] for lane in lanes if lane in sent}
                for number, sent in versions["messages"].items()
            },
        },
        "servers": {
            "aggregations": [servers["aggregations"][lane] for lane in lanes],
            "lost": {own[lane]: lost for lane, lost in servers["lost"].items() if lane in own},
        },
        "metrics": _split_metrics(state["metrics"], lanes, part.replicas),
        "turns": [[one[0] - first, *one[1:]] for one in state["turns"] if one[0] in part.replicas],
    }


def merge(states: Sequence[Mapping[str, Any]], parts: Sequence[LaneShard], replicas: int) -> dict[str, Any]:
    """The state of a run of so many *replicas*, from those of its *parts*.

    A version that only some of them still need is NaN for the others.
    """
    lanes = [part.lanes(replicas) for part in parts]
    whole = sum(map(len, lanes))
    names: list[Any] = [None] * whole
    rules: list[Any] = [None] * whole
    lost: dict[int, Any] = {}
    kept: dict[int, Any] = {}
    messages: dict[int, dict[int, Any]] = {}
    for state, own in zip(states, lanes, strict=True):
        for place, lane in enumerate(own):
            names[lane], rules[lane] = state["lanes"][place], state["servers"]["aggregations"][place]
        lost |= {own[place]: one for place, one in state["servers"]["lost"].items()}
        for number, version in state["versions"]["kept"].items():
            if number not in kept:
                kept[number] = torch.full((whole, version.shape[1]), torch.nan, dtype=version.dtype)
            kept[number][own] = version
        for number, sent in state["versions"]["messages"].items():
            messages.setdefault(number, {}).update({own[place]: one for place, one in sent.items()})
    firsts = [(part, state) for part, state in zip(parts, states, strict=True) if part.learners.start == 0]
    return {
        "lanes": names,
        "round": states[0]["round"],
        "versions": {"kept": kept, "messages": messages},
        "servers": {"aggregations": rules, "lost": lost},
        "metrics": _merge_metrics([state["metrics"] for state in states], [one["metrics"] for _, one in firsts], lanes),
        "turns": [[one[0] + part.replicas.start, *one[1:]] for part, state in firsts for one in state["turns"]],
    }


def _split_metrics(state: Mapping[str, Any], lanes: Sequence[int], replicas: range) -> dict[str, Any]:
    """What some *lanes* and *replicas* need of what `Metrics` keeps."""
    there = slice(replicas.start, replicas.stop)
    own = {"heard": state["heard"][there], "ages": state["ages"][:, there]}
    return own | ({"twins": {"models": state["twins"]["models"][lanes]}} if "twins" in state else {})


def _merge_metrics(
    states: Sequence[Mapping[str, Any]], firsts: Sequence[Mapping[str, Any]], lanes: Sequence[Sequence[int]]
) -> dict[str, Any]:
    """What `Metrics` keeps of all, from parts with these *lanes*; *firsts* have all replicas between them."""
    own = {name: torch.cat([one[name] for one in firsts], at) for name, at in (("heard", 0), ("ages", 1))}
    if "twins" not in states[0]:
        return own
    order = np.argsort([lane for some in lanes for lane in some])
    return own | {"twins": {"models": torch.cat([one["twins"]["models"] for one in states])[order]}}


def _even(count: int, parts: int) -> list[range]:
    """0 … count-1 in *parts* ranges whose lengths differ by one at most."""
    return [range(*ends) for ends in pairwise(count * part // parts for part in range(parts + 1))]
