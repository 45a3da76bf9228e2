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

    def largest(columns: int) -> tuple[int, int, int]:
        return -(-learners // rows(columns)) * -(-replicas // columns), columns * rows(columns), -columns

    columns = min(range(1, min(replicas, shards) + 1), key=largest)
    ranges = product(_split_evenly(learners, rows(columns)), _split_evenly(replicas, columns))
    return [LaneShard(*pair) for pair in ranges]


def split_state(state: Mapping[str, Any], shard: LaneShard, replicas: int) -> dict[str, Any]:
    """Select the part of *shard* from the *state* of a run with so many *replicas*; see `merge_states`."""
    lanes = shard.lanes(replicas)
    position = {lane: number for number, lane in enumerate(lanes)}
    first = shard.replicas.start
    rows = slice(first, shard.replicas.stop)
    versions = state["versions"]
    servers = state["servers"]
    metrics = state["metrics"]
    shard_metrics = {"deliveries": metrics["deliveries"][rows], "ages": metrics["ages"][:, rows]}
    if "twins" in metrics:
        shard_metrics["twins"] = {"models": metrics["twins"]["models"][lanes]}
    devices = state.get("devices", {})  # a checkpoint of before the store has them with a codec alone
    newest = {}
    if "newest" in versions:
        newest["newest"] = versions["newest"][lanes]
    nodes = {}
    if "nodes" in state:  # versions of nodes below the server, of one replica and all learners each
        of_learners = slice(shard.learners.start, shard.learners.stop)
        nodes["nodes"] = [
            [replica - first, *version, models[of_learners], _moved(messages, position)]
            for replica, *version, models, messages in state["nodes"]
            if replica in shard.replicas
        ]
    node_states = {}
    if "nodes" in servers:
        of_lanes = [entry for entry in servers["nodes"] if entry[1] in position]
        node_states["nodes"] = [[node, position[lane], kept] for node, lane, kept in of_lanes]
    reported = {}
    if "reported" in servers:  # values of aggregations since the last evaluation
        reported["reported"] = [servers["reported"][lane] for lane in lanes]
    return nodes | {
        "lanes": [state["lanes"][lane] for lane in lanes],
        "round": state["round"],
        "versions": newest
        | {
            "kept": {number: version[lanes] for number, version in versions["kept"].items()},
            "messages": {
                number: {position[lane]: sent[lane] for lane in lanes if lane in sent}
                for number, sent in versions["messages"].items()
            },
        },
        "servers": {
            "aggregations": [servers["aggregations"][lane] for lane in lanes],
            "lost": {position[lane]: lost for lane, lost in servers["lost"].items() if lane in position},
            **node_states,
            **reported,
        },
        "metrics": shard_metrics,
        "devices": {position[lane]: rows for lane, rows in devices.items() if lane in position},
        **{
            name: [[replica - first, *rest] for replica, *rest in state.get(name, ()) if replica in shard.replicas]
            for name in _TURNS
        },
        "threads": 1,
    }


def merge_states(states: Sequence[Mapping[str, Any]], shards: Sequence[LaneShard], replicas: int) -> dict[str, Any]:
    """Merge the states of *shards* into that of a run with so many *replicas*.

    A version that only some shards still need is NaN in the lanes of the others.
    """
    lanes_of = [shard.lanes(replicas) for shard in shards]
    count = sum(map(len, lanes_of))
    names: list[Any] = [None] * count
    aggregations: list[Any] = [None] * count
    lost: dict[int, Any] = {}
    kept: dict[int, Any] = {}
    messages: dict[int, dict[int, Any]] = {}
    devices: dict[int, Any] = {}
    for state, lanes in zip(states, lanes_of, strict=True):
        for position, lane in enumerate(lanes):
            names[lane] = state["lanes"][position]
            aggregations[lane] = state["servers"]["aggregations"][position]
        lost |= {lanes[position]: entry for position, entry in state["servers"]["lost"].items()}
        devices |= {lanes[position]: rows for position, rows in state["devices"].items()}
        for number, version in state["versions"]["kept"].items():
            if number not in kept:
                kept[number] = torch.full((count, version.shape[1]), torch.nan, dtype=version.dtype)
            kept[number][lanes] = version
        for number, sent in state["versions"]["messages"].items():
            messages.setdefault(number, {}).update({lanes[position]: sent[position] for position in sent})
    firsts = [(shard, state) for shard, state in zip(shards, states, strict=True) if shard.learners.start == 0]
    metrics: dict[str, Any] = {  # which all shards of one replica share
        name: torch.cat([state["metrics"][name] for _, state in firsts], axis)
        for name, axis in (("deliveries", 0), ("ages", 1))
    }
    if "twins" in states[0]["metrics"]:
        order = np.argsort([lane for lanes in lanes_of for lane in lanes])
        models = torch.cat([state["metrics"]["twins"]["models"] for state in states])[order]
        metrics["twins"] = {"models": models}
    newest = {}
    if "newest" in states[0]["versions"]:
        rows = torch.cat([state["versions"]["newest"] for state in states])
        newest["newest"] = rows[np.argsort([lane for lanes in lanes_of for lane in lanes])]
    nodes = {"nodes": _merge_nodes(states, shards, lanes_of)} if "nodes" in states[0] else {}
    reported = _merge_reported(states, lanes_of)
    node_states = [
        [node, lanes[position], kept]
        for state, lanes in zip(states, lanes_of, strict=True)
        for node, position, kept in state["servers"].get("nodes", ())
    ]
    return nodes | {
        "lanes": names,
        "round": states[0]["round"],
        "versions": {"kept": kept, "messages": messages} | newest,
        "servers": {"aggregations": aggregations, "lost": lost}
        | ({"nodes": node_states} if node_states else {})
        | reported,
        "metrics": metrics,
        "devices": devices,
        **{
            name: [
                [turn[0] + shard.replicas.start, *turn[1:]] for shard, state in firsts for turn in state.get(name, ())
            ]
            for name in _TURNS
        },
        "threads": 1,
    }


def _merge_nodes(
    states: Sequence[Mapping[str, Any]], shards: Sequence[LaneShard], lanes_of: Sequence[Sequence[int]]
) -> list[list[Any]]:
    """Merge the versions of nodes below the server: shards of one replica have the same ones, of other learners."""
    merged: dict[tuple[int, int, int, int], tuple[list[Any], dict[int, Any]]] = {}
    order = sorted(range(len(shards)), key=lambda number: shards[number].learners.start)
    for number in order:
        shard, lanes = shards[number], lanes_of[number]
        for replica, node, version, time, models, messages in states[number]["nodes"]:
            parts, sent = merged.setdefault((replica + shard.replicas.start, node, version, time), ([], {}))
            parts.append(models)
            sent |= {lanes[position]: message for position, message in messages.items()}
    return [[*key, torch.cat(parts), sent] for key, (parts, sent) in merged.items()]


def _merge_reported(states: Sequence[Mapping[str, Any]], lanes_of: Sequence[Sequence[int]]) -> dict[str, Any]:
    """Merge what aggregations have reported since the last evaluation; empty if those of no shard report anything.

    A shard whose aggregations report nothing has no such entry.
    """
    if not any("reported" in state["servers"] for state in states):
        return {}
    merged: list[Any] = [{"sums": torch.zeros(0, dtype=torch.float64), "steps": 0}] * sum(map(len, lanes_of))
    for state, lanes in zip(states, lanes_of, strict=True):
        for lane, entry in zip(lanes, state["servers"].get("reported", ()), strict=False):
            merged[lane] = entry
    return {"reported": merged}


def _moved(messages: Mapping[int, Any], position: Mapping[int, int]) -> dict[int, Any]:
    """Return the *messages* of lanes by their *position* in a shard; those of other lanes are left out."""
    return {position[lane]: message for lane, message in messages.items() if lane in position}


def _split_evenly(count: int, parts: int) -> list[range]:
    """Split 0 … count-1 into *parts* ranges whose lengths differ by at most one."""
    return [range(*ends) for ends in pairwise(count * part // parts for part in range(parts + 1))]
