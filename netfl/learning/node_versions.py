"""Versions of nodes below the server, such as edges and users that exchange models, in each replica."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from netfl.types import SERVER, Ints, Merge, Round, VersionRef, waves

if TYPE_CHECKING:
    from netfl.learning.cohort import Cohort
    from netfl.learning.model_versions import ModelVersions
    from netfl.learning.server_state import LaneServers

_Key = tuple[int, int, int]
"""Place of the replica, node and number of a version."""
_Node = tuple[int, int]
"""Place of the replica, and node."""


def waves_of_replicas(rounds: Sequence[Round | None]) -> Iterator[list[tuple[int, Merge]]]:
    """Yield the merges of one round of each replica that train together, each with the place of its replica."""
    waves_by_replica = [[] if round_ is None else [*waves(round_.all_merges())] for round_ in rounds]
    for wave in zip_longest(*waves_by_replica, fillvalue=()):  # the merges of each replica
        yield [(replica, merge) for replica, merges in enumerate(wave) for merge in merges]


@dataclass(frozen=True, slots=True)
class _Version:
    """A version of one replica.

    Args:
        round: its time, see `VersionRef`.
        models: ``[learners, size + 1]``.
        messages: the `Aggregation.message` of each lane that sends one with it.
    """

    round: int
    models: Tensor
    messages: Mapping[int, Tensor]


class NodeVersions:
    """Versions by node and number, of each replica by itself, as their merges need not fall into the same rounds.

    Every node starts from version 0 of the server.  It keeps its newest version, and older ones that its merges state
    (`Merge.oldest`).

    Args:
        server: versions of the server, which is node 0.
        states: states of the aggregations, by node.
        origin: version 0, ``[lanes, size + 1]``.
        replicas: number of replicas.
    """

    def __init__(self, server: ModelVersions, states: LaneServers, origin: Tensor, replicas: int) -> None:
        self._server = server
        self._states = states
        self._origin = origin
        self._replicas = replicas
        self._versions: dict[_Node, dict[int, _Version]] = {}  # by number, the newest last

    def lanes(self, replica: int) -> range:
        """Return the lanes of a replica, one of each learner."""
        return range(replica, len(self._origin), self._replicas)

    @property
    def kept(self) -> Collection[_Key]:
        """Place of the replica, node and number of each version in use."""
        return {(*node, number) for node, versions in self._versions.items() for number in versions}

    def newest(self, replica: int, node: int) -> Tensor:
        """Return the newest version of a node besides the server, ``[learners, size + 1]``."""
        return next(reversed(self._of_node(replica, node).values())).models

    def model(self, replica: int, node: int, number: int) -> Tensor:
        """Return a version as users and other nodes read it, ``[learners, size + 1]``.

        Raises:
            ValueError: it is not in use any more.
        """
        if node == SERVER:
            lanes = np.array([self.lanes(replica)])
            return self._server.of(np.array([[number]]), lanes)[0]
        return self._version(replica, node, number).models

    def of(self, cohort: Cohort, lanes: Ints) -> Tensor:
        """Return the base of each user and member, ``[users, members, size + 1]``; *lanes* are of each of them."""
        bases = []
        for (replica, node, number), of_user in zip(self._keys(cohort), lanes, strict=True):
            learners = of_user // self._replicas
            bases.append(self.model(replica, node, number)[learners])
        return torch.stack(bases)

    def clocks(self, cohort: Cohort) -> Ints:
        """Return the time of each base, ``[users]``."""
        times = []
        for replica, node, number in self._keys(cohort):
            if node == SERVER:
                times.append(number)
            else:
                times.append(self._version(replica, node, number).round)
        return np.array(times, np.int64)

    def messages(self, replica: int, node: int, numbers: Ints, lane: int) -> Tensor | None:
        """Return the messages of *lane* with versions of a node, ``[n, …]``, or ``None``.  Read only."""
        if node == SERVER:
            return self._server.messages(numbers, lane)
        sent = [self._version(replica, node, number).messages.get(lane) for number in numbers.tolist()]
        present = [message for message in sent if message is not None]
        return torch.stack(present) if present else None

    def add(self, replica: int, version: VersionRef, models: Tensor) -> None:
        """Add the newest version of a node, ``[learners, size + 1]``, with the messages of its aggregations."""
        messages = self._states.messages_of_node(version.node, self.lanes(replica))
        of_node = self._versions.setdefault((replica, version.node), {})
        of_node[version.number] = _Version(version.round, models, messages)

    def forget(self, rounds: Sequence[Round | None]) -> None:
        """Drop the versions that no merge after *rounds*, one of each replica, may use."""
        for replica, round_ in enumerate(rounds):
            if round_ is None:
                continue
            last_merges = {merge.node: merge for merge in round_.merges if merge.node != SERVER}
            for node, merge in last_merges.items():
                oldest = merge.number if merge.oldest is None else merge.oldest
                of_node = self._versions[replica, node]
                self._versions[replica, node] = {
                    number: version for number, version in of_node.items() if number >= oldest
                }

    def state(self) -> list[list[Any]]:
        """Return the state for `restore`: replica, node, number, time, models and messages of each version."""
        return [
            [*node, number, version.round, version.models, dict(version.messages)]
            for node, versions in self._versions.items()
            for number, version in versions.items()
        ]

    def restore(self, state: Sequence[Sequence[Any]]) -> None:
        """Restore a `state`."""
        device = self._origin.device
        self._versions = {}
        for replica, node, number, time, models, messages in state:
            sent = {int(lane): message.to(device) for lane, message in messages.items()}
            self._versions.setdefault((replica, node), {})[number] = _Version(time, models.to(device), sent)

    def _keys(self, cohort: Cohort) -> Iterator[_Key]:
        assert cohort.nodes is not None
        return zip(cohort.replicas.tolist(), cohort.nodes.tolist(), cohort.bases.tolist(), strict=True)

    def _version(self, replica: int, node: int, number: int) -> _Version:
        version = self._of_node(replica, node).get(number)
        if version is None:
            raise ValueError(f"version {number} of node {node} was released as unused")
        return version

    def _of_node(self, replica: int, node: int) -> dict[int, _Version]:
        """Return the versions of a node, which has version 0 when it is first named."""
        if (replica, node) not in self._versions:
            self.add(replica, VersionRef(node, 0, 0), self._origin[replica :: self._replicas])
        return self._versions[replica, node]
