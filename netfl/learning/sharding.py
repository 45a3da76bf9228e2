"""Rectangular shards of the lanes of a run, and the state of learning split by them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from typing import Any

import numpy as np
import torch

_TURNS = ("turns", "turns_in_vain")
"""Entries of a state that hold rows of a replica and further values."""


@dataclass(frozen=True, slots=True)
class LaneShard:
    """Some learners in some replicas, both by their index in the run."""

    learners: range
    replicas: range

    def lanes(self, replicas: int) -> list[int]:
        """Return the lanes of the shard in a run with so many *replicas*, in order."""
        return [learner * replicas + replica for learner, replica in product(self.learners, self.replicas)]


def shard_lanes(learners: int, replicas: int, shards: int) -> list[LaneShard]:
    """Cut the lanes into rectangles of about equal size: *shards*, or fewer if the largest stays the same.

    Among equally good cuts, the one with the most cuts between replicas is used.

    >>> [(list(shard.learners), list(shard.replicas)) for shard in shard_lanes(2, 3, 2)]
    [([0], [0, 1, 2]), ([1], [0, 1, 2])]
    """

    def rows(columns: int) -> int:
        return min(learners, shards // columns)

    def cost(columns: int) -> tuple[int, int, int]:
        largest_shard = -(-learners // rows(columns)) * -(-replicas // columns)
        return largest_shard, columns * rows(columns), -columns

    columns = min(range(1, min(replicas, shards) + 1), key=cost)
    learner_ranges = _split_evenly(learners, rows(columns))
    replica_ranges = _split_evenly(replicas, columns)
    return [LaneShard(*pair) for pair in product(learner_ranges, replica_ranges)]


def split_state(state: Mapping[str, Any], shard: LaneShard, replicas: int) -> dict[str, Any]:
    """Select the part of *shard* from the *state* of a run with so many *replicas*; see `merge_states`."""
    lanes = shard.lanes(replicas)
    position = {lane: number for number, lane in enumerate(lanes)}
    first = shard.replicas.start
    part: dict[str, Any] = {}
    if "nodes" in state:
        part["nodes"] = _split_nodes(state["nodes"], shard, position)
    part["lanes"] = [state["lanes"][lane] for lane in lanes]
    part["round"] = state["round"]
    part["versions"] = _split_versions(state["versions"], lanes, position)
    part["servers"] = _split_servers(state["servers"], lanes, position)
    part["metrics"] = _split_metrics(state["metrics"], shard, lanes)
    devices = state.get("devices", {})  # a checkpoint of before the store has them with a codec alone
    part["devices"] = _moved(devices, position)
    for name in _TURNS:
        turns = state.get(name, ())
        part[name] = [[replica - first, *turn] for replica, *turn in turns if replica in shard.replicas]
    part["threads"] = 1
    return part


def _split_nodes(nodes: Sequence[Sequence[Any]], shard: LaneShard, position: Mapping[int, int]) -> list[list[Any]]:
    """Select versions of nodes below the server, each of one replica and all learners."""
    learners = slice(shard.learners.start, shard.learners.stop)
    first = shard.replicas.start
    return [
        [replica - first, *version, models[learners], _moved(messages, position)]
        for replica, *version, models, messages in nodes
        if replica in shard.replicas
    ]


def _split_versions(versions: Mapping[str, Any], lanes: list[int], position: Mapping[int, int]) -> dict[str, Any]:
    part: dict[str, Any] = {}
    if "newest" in versions:
        part["newest"] = versions["newest"][lanes]
    part["kept"] = {number: version[lanes] for number, version in versions["kept"].items()}
    part["messages"] = {
        number: {position[lane]: sent[lane] for lane in lanes if lane in sent}
        for number, sent in versions["messages"].items()
    }
    return part


def _split_servers(servers: Mapping[str, Any], lanes: list[int], position: Mapping[int, int]) -> dict[str, Any]:
    part: dict[str, Any] = {
        "aggregations": [servers["aggregations"][lane] for lane in lanes],
        "lost": _moved(servers["lost"], position),
    }
    if "nodes" in servers:
        part["nodes"] = [[node, position[lane], kept] for node, lane, kept in servers["nodes"] if lane in position]
    if "reported" in servers:  # values of aggregations since the last evaluation
        part["reported"] = [servers["reported"][lane] for lane in lanes]
    return part


def _split_metrics(metrics: Mapping[str, Any], shard: LaneShard, lanes: list[int]) -> dict[str, Any]:
    replicas = slice(shard.replicas.start, shard.replicas.stop)
    part = {"deliveries": metrics["deliveries"][replicas], "ages": metrics["ages"][:, replicas]}
    if "twins" in metrics:
        part["twins"] = {"models": metrics["twins"]["models"][lanes]}
    return part


def _moved(of_lanes: Mapping[int, Any], position: Mapping[int, int]) -> dict[int, Any]:
    """Return a mapping by lane as one by *position* in a shard; other lanes are left out."""
    return {position[lane]: value for lane, value in of_lanes.items() if lane in position}


def merge_states(states: Sequence[Mapping[str, Any]], shards: Sequence[LaneShard], replicas: int) -> dict[str, Any]:
    """Merge the states of *shards* into that of a run with so many *replicas*.

    A version that only some shards still need is NaN in the lanes of the others.
    """
    lanes_of = [shard.lanes(replicas) for shard in shards]
    merged: dict[str, Any] = {}
    if "nodes" in states[0]:
        merged["nodes"] = _merge_nodes(states, shards, lanes_of)
    merged["lanes"] = _in_lane_order([state["lanes"] for state in states], lanes_of)
    merged["round"] = states[0]["round"]
    merged["versions"] = _merge_versions([state["versions"] for state in states], lanes_of)
    merged["servers"] = _merge_servers([state["servers"] for state in states], lanes_of)
    # what all shards of one replica share is taken from those with the first learner
    firsts = [(shard, state) for shard, state in zip(shards, states, strict=True) if shard.learners.start == 0]
    metrics: dict[str, Any] = {
        "deliveries": torch.cat([state["metrics"]["deliveries"] for _, state in firsts], 0),
        "ages": torch.cat([state["metrics"]["ages"] for _, state in firsts], 1),
    }
    if "twins" in states[0]["metrics"]:
        models = [state["metrics"]["twins"]["models"] for state in states]
        metrics["twins"] = {"models": _join_rows(models, lanes_of)}
    merged["metrics"] = metrics
    merged["devices"] = _by_lane([state["devices"] for state in states], lanes_of)
    for name in _TURNS:
        turns = []
        for shard, state in firsts:
            for replica, *turn in state.get(name, ()):
                turns.append([replica + shard.replicas.start, *turn])
        merged[name] = turns
    merged["threads"] = 1
    return merged


def _merge_versions(versions: Sequence[Mapping[str, Any]], lanes_of: Sequence[list[int]]) -> dict[str, Any]:
    count = sum(map(len, lanes_of))
    kept: dict[int, Any] = {}
    messages: dict[int, dict[int, Any]] = {}
    for of_shard, lanes in zip(versions, lanes_of, strict=True):
        for number, version in of_shard["kept"].items():
            if number not in kept:
                kept[number] = torch.full((count, version.shape[1]), torch.nan, dtype=version.dtype)
            kept[number][lanes] = version
        for number, sent in of_shard["messages"].items():
            messages.setdefault(number, {}).update(_by_lane([sent], [lanes]))
    merged: dict[str, Any] = {"kept": kept, "messages": messages}
    if "newest" in versions[0]:
        merged["newest"] = _join_rows([of_shard["newest"] for of_shard in versions], lanes_of)
    return merged


def _merge_servers(servers: Sequence[Mapping[str, Any]], lanes_of: Sequence[list[int]]) -> dict[str, Any]:
    merged: dict[str, Any] = {
        "aggregations": _in_lane_order([of_shard["aggregations"] for of_shard in servers], lanes_of),
        "lost": _by_lane([of_shard["lost"] for of_shard in servers], lanes_of),
    }
    nodes = []
    for of_shard, lanes in zip(servers, lanes_of, strict=True):
        for node, position, kept in of_shard.get("nodes", ()):
            nodes.append([node, lanes[position], kept])
    if nodes:
        merged["nodes"] = nodes
    if any("reported" in of_shard for of_shard in servers):
        merged["reported"] = _merge_reported(servers, lanes_of)
    return merged


def _in_lane_order(parts: Sequence[Sequence[Any]], lanes_of: Sequence[list[int]]) -> list[Any]:
    """Join the entries of shards, one of each lane, in the order of the lanes."""
    joined: list[Any] = [None] * sum(map(len, lanes_of))
    for of_shard, lanes in zip(parts, lanes_of, strict=True):
        for lane, entry in zip(lanes, of_shard, strict=True):
            joined[lane] = entry
    return joined


def _join_rows(parts: Sequence[torch.Tensor], lanes_of: Sequence[list[int]]) -> torch.Tensor:
    """Join the rows of shards, one of each lane, in the order of the lanes."""
    lanes = [lane for of_shard in lanes_of for lane in of_shard]
    return torch.cat([*parts])[np.argsort(lanes)]


def _by_lane(parts: Sequence[Mapping[int, Any]], lanes_of: Sequence[list[int]]) -> dict[int, Any]:
    """Merge mappings by the position in a shard into one by lane."""
    merged = {}
    for of_shard, lanes in zip(parts, lanes_of, strict=True):
        for position, value in of_shard.items():
            merged[lanes[position]] = value
    return merged


def _merge_nodes(
    states: Sequence[Mapping[str, Any]], shards: Sequence[LaneShard], lanes_of: Sequence[list[int]]
) -> list[list[Any]]:
    """Merge the versions of nodes below the server: shards of one replica have the same ones, of other learners."""
    merged: dict[tuple[int, int, int, int], tuple[list[Any], dict[int, Any]]] = {}
    by_learner = sorted(zip(shards, states, lanes_of, strict=True), key=lambda triple: triple[0].learners.start)
    for shard, state, lanes in by_learner:
        for replica, node, version, time, models, messages in state["nodes"]:
            key = (replica + shard.replicas.start, node, version, time)
            parts, sent = merged.setdefault(key, ([], {}))
            parts.append(models)
            sent |= _by_lane([messages], [lanes])
    return [[*key, torch.cat(parts), sent] for key, (parts, sent) in merged.items()]


def _merge_reported(servers: Sequence[Mapping[str, Any]], lanes_of: Sequence[list[int]]) -> list[Any]:
    """Merge what aggregations have reported since the last evaluation.

    A shard whose aggregations report nothing has no such entry.
    """
    merged: list[Any] = [{"sums": torch.zeros(0, dtype=torch.float64), "steps": 0}] * sum(map(len, lanes_of))
    for of_shard, lanes in zip(servers, lanes_of, strict=True):
        for lane, entry in zip(lanes, of_shard.get("reported", ()), strict=False):
            merged[lane] = entry
    return merged


def _split_evenly(count: int, parts: int) -> list[range]:
    """Split 0 … count-1 into *parts* ranges whose lengths differ by at most one."""
    ends = [count * part // parts for part in range(parts + 1)]
    return [range(start, end) for start, end in pairwise(ends)]
