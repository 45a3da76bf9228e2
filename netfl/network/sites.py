"""Where everything stands: users, towers, routers, the server, and the links between them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import networkx as nx
import numpy as np
from numpy.typing import NDArray

LIGHT_M_S = 299_792_458.0
"""Speed of light in vacuum; in air it is slower by less than a part in a thousand."""


@dataclass(frozen=True)
class Sites:
    """A laid-out network.

    Nodes are numbered: users first (0 … users-1), then the infrastructure in the order of ``graph.nodes``.

    Args:
        graph: the infrastructure, undirected; node names such as ``server``, ``router:0``, ``tower:2`` with the
            attributes ``role`` (``server``, ``router`` or ``tower``), ``x_m`` and ``y_m``; edges with ``rate_bps`` and
            ``delay_s``.
        user_xy_m: positions of the users, ``[users, 2]``, in metres.
    """

    graph: nx.Graph[str]
    user_xy_m: NDArray[np.float64]

    @cached_property
    def users(self) -> int:
        """The number of users."""
        return len(self.user_xy_m)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the infrastructure's nodes; node ``users + i`` is ``names[i]``."""
        return tuple(self.graph.nodes)

    @property
    def nodes(self) -> int:
        """The number of all nodes, users included."""
        return self.users + len(self.names)

    @cached_property
    def towers(self) -> tuple[str, ...]:
        """Names of the towers, in order."""
        return self.with_role("tower")

    @cached_property
    def server(self) -> str:
        """The name of the server."""
        return self.with_role("server")[0]

    def with_role(self, role: str) -> tuple[str, ...]:
        """Names of the infrastructure's nodes of one role, in order."""
        return tuple(name for name in self.names if self.graph.nodes[name]["role"] == role)

    def number(self, name: str) -> int:
        """The node number of an infrastructure node."""
        return self._numbers[name]

    @cached_property
    def _numbers(self) -> Mapping[str, int]:
        """Node numbers by name."""
        return {name: number for number, name in enumerate(self.names, self.users)}

    @cached_property
    def node_xy_m(self) -> NDArray[np.float64]:
        """Positions of all nodes, users first, ``[nodes, 2]``."""
        return np.vstack([self.user_xy_m.reshape(-1, 2), self._places(self.names)])

    @cached_property
    def cell(self) -> NDArray[np.int64]:
        """Each user's tower, the nearest, as an index into `towers`, ``[users]``."""
        return self._nearest[0]

    @cached_property
    def distance_m(self) -> NDArray[np.float64]:
        """Distance of each user to its tower, ``[users]``."""
        return self._nearest[1]

    def route(self, tower: str) -> tuple[str, ...]:
        """The nodes from *tower* to the server, both included, by least delay.

        Raises:
            networkx.NetworkXNoPath: the server cannot be reached.
        """
        return tuple(nx.shortest_path(self.graph, tower, self.server, weight="delay_s"))

    def _places(self, names: tuple[str, ...]) -> NDArray[np.float64]:
        """Positions of infrastructure nodes, ``[names, 2]``."""
        rows = [(self.graph.nodes[name]["x_m"], self.graph.nodes[name]["y_m"]) for name in names]
        return np.asarray(rows, float).reshape(-1, 2)

    @cached_property
    def _nearest(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Each user's nearest tower, the first among equals, and its distance; one tower at a time, to stay small."""
        cell, least = np.zeros(self.users, np.int64), np.full(self.users, np.inf)
        for index, place in enumerate(self._places(self.towers)):
            distance = np.hypot(*(self.user_xy_m - place).T)
            cell, least = np.where(distance < least, index, cell), np.minimum(distance, least)
        return cell, least
