"""Layout of a network: positions of users, towers, routers and the server, and the links between them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import NamedTuple

import networkx as nx
import numpy as np
from numpy.typing import ArrayLike

from netfl.core.plugins import Overridable
from netfl.types import Floats, Ints

LIGHT_M_S = 299_792_458.0
"""Speed of light in vacuum; that in air is less than 0.1 % lower."""
_INSTANTS_S = tuple(168.75 * number for number in range(512))
"""Instants of a day at which speeds are measured."""
_DAY_S = 86_400.0
_MAX_PLACES = 1 << 20
"""Largest number of places of all users that are sampled, unless there are very many users."""
_STEP_S = 0.1
"""Time over which a speed is measured."""
_STILL_M_S = 1e-6
"""A speed that counts as none."""
_BLOCK = 1 << 15
"""Number of users whose distances are computed at once."""


class NodeId(NamedTuple):
    """Name and number of a tower, a router, the server or a link."""

    name: str
    number: int


@dataclass(frozen=True, slots=True)
class Stays:
    """The times in which users are in the network; in all others they are away.

    Args:
        users: user of each stay, ``[n]``, in any order.
        starts_s: its start, ``[n]``.
        ends_s: its end, which is no part of it, ``[n]``.  An end may be infinity; a start of infinity states that the
            user never comes.
    """

    users: Ints
    starts_s: Floats
    ends_s: Floats


class Trajectories(Overridable, ABC):
    """Positions of moving users as a function of (user, time), for calls in any order."""

    @property
    def stays(self) -> Stays | None:
        """The stays of all users, at least one of each; ``None`` if nobody is ever away."""
        return None

    @abstractmethod
    def xy_m(self, users: Ints, time_s: ArrayLike) -> Floats:
        """Return the position of each user at *time_s*, ``[n, 2]``; at time 0 that of the topology."""

    def speeds_m_s(self, users: Ints) -> tuple[Floats, Floats]:
        """Return the lowest and the highest speed of each user while it moves, ``[n]`` each; 0 if it never does.

        By default they are measured at 512 instants of the first day.  A motion that knows its speeds overrides this.
        """
        low_m_s = np.full(len(users), np.inf)
        high_m_s = np.zeros(len(users))
        for from_s in _INSTANTS_S:
            way_m = self.xy_m(users, from_s + _STEP_S) - self.xy_m(users, from_s)
            speed_m_s = np.hypot(*way_m.T) / _STEP_S
            is_moving = speed_m_s > _STILL_M_S
            np.minimum(low_m_s, np.where(is_moving, speed_m_s, np.inf), out=low_m_s)
            np.maximum(high_m_s, np.where(is_moving, speed_m_s, 0.0), out=high_m_s)
        return np.minimum(low_m_s, high_m_s), high_m_s  # 0 of a user that never moves

    def waypoints(self, users: Ints, end_s: float) -> tuple[Ints, Floats, Floats]:
        """Return places on the ways of *users* up to *end_s*.

        By default they are samples at up to 512 instants, fewer for many users, up to the end of the first day.  A
        motion that knows the corners of its ways overrides this; then nobody leaves the convex hull of the places.

        Returns:
            The user, the time in s and the position of each place, ``[n]``, ``[n]`` and ``[n, 2]``.
        """
        count = min(max(_MAX_PLACES // max(len(users), 1), 2), len(_INSTANTS_S))
        instants_s = np.linspace(0.0, min(end_s, _DAY_S), count)
        times_s = np.repeat(instants_s, len(users))
        users = np.tile(users, len(instants_s))
        return users, times_s, self.xy_m(users, times_s)


@dataclass(frozen=True)
class Layout:
    """Positions and links of a network.

    It states where users are, and for each user one link: to its tower of the start, or to `seen_from`.  Channels give
    the gains of these links.

    Nodes are numbered: users first (0 … users-1), then the infrastructure in the order of ``graph.nodes``, then the
    links in the order of ``graph.edges``.

    Args:
        graph: infrastructure, undirected; node names such as ``server``, ``router:0``, ``tower:2`` with the
            attributes ``role`` (``server``, ``router`` or ``tower``), ``x_m`` and ``y_m``; edges with ``rate_bps`` and
            ``delay_s``.
        user_xy_m: positions of the users at time 0, ``[users, 2]``, in metres.
        paths: positions at later times; ``None`` without motion.
        seen_from: tower of all links; ``None`` for the nearest tower of each user at time 0.
    """

    graph: nx.Graph[str]
    user_xy_m: Floats
    paths: Trajectories | None = None
    seen_from: str | None = None

    @cached_property
    def users(self) -> int:
        """Number of users."""
        return len(self.user_xy_m)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the infrastructure's nodes; node ``users + i`` is ``names[i]``."""
        return tuple(self.graph.nodes)

    @cached_property
    def links(self) -> tuple[str, ...]:
        """Names of the links, such as ``tower:0-server``: the end with more hops to the server comes first.

        Link ``users + len(names) + i`` is ``links[i]``.
        """
        servers = [name for name in self.names if self.graph.nodes[name].get("role") == "server"]
        hops: Mapping[str, int] = {}
        if servers:
            hops = nx.single_source_shortest_path_length(self.graph, servers[0])
        links = [sorted(ends, key=lambda name: -hops.get(name, np.inf)) for ends in self.graph.edges]
        return tuple(f"{start}-{end}" for start, end in links)

    @property
    def nodes(self) -> int:
        """Number of all nodes that can be down, with users and links."""
        return self.users + len(self.names) + len(self.links)

    def name(self, node: int) -> str:
        """Return the name of a node of the infrastructure, or of a link."""
        return (*self.names, *self.links)[node - self.users]

    @cached_property
    def towers(self) -> tuple[str, ...]:
        """Names of the towers, in order."""
        return self.with_role("tower")

    @cached_property
    def server(self) -> str:
        """Name of the server."""
        return self.with_role("server")[0]

    def with_role(self, role: str) -> tuple[str, ...]:
        """Return the names of the infrastructure's nodes of one role, in order."""
        return tuple(name for name in self.names if self.graph.nodes[name]["role"] == role)

    def number(self, name: str) -> int:
        """Return the number of a node of the infrastructure, or of a link, either end first."""
        return self._numbers[name]

    @cached_property
    def _numbers(self) -> Mapping[str, int]:
        numbers = {name: number for number, name in enumerate(self.names, self.users)}
        for number, (start, end) in enumerate(self.graph.edges, self.users + len(self.names)):
            numbers[f"{start}-{end}"] = number
            numbers[f"{end}-{start}"] = number
        return numbers

    @cached_property
    def node_xy_m(self) -> Floats:
        """Positions of users, at time 0, and infrastructure, ``[users + names, 2]``; links have none."""
        return np.vstack([self.user_xy_m.reshape(-1, 2), self._places(self.names)])

    @cached_property
    def tower_at_start(self) -> Ints:
        """Index in `towers` of the tower at the end of each user's link, ``[users]``: that of the start.

        It is the nearest at time 0, or `seen_from`.  Who has a user at another time:
        `netfl.network.membership.Membership`.
        """
        towers, _ = self._nearest
        return towers

    @cached_property
    def distance_m(self) -> Floats:
        """Length of each user's link at time 0, ``[users]``: the distance to its tower of the start."""
        _, distance_m = self._nearest
        return distance_m

    @property
    def moving(self) -> bool:
        """True if distances change with time."""
        return self.paths is not None

    def distances_m(self, users: Ints, time_s: ArrayLike) -> Floats:
        """Return the length of each user's link at *time_s*, ``[n]``: the distance to its tower of the start."""
        if self.paths is None:
            return self.distance_m[users]
        return self.distances_to_m(self.tower_at_start[users], users, time_s)

    def positions_m(self, users: Ints, time_s: ArrayLike) -> Floats:
        """Return the position of each user at *time_s*, ``[n, 2]``."""
        if self.paths is None:
            return self.user_xy_m[users]
        return self.paths.xy_m(users, time_s)

    def distances_to_m(self, towers: Ints, users: Ints, time_s: ArrayLike) -> Floats:
        """Return the distance of each user at *time_s* to its one of *towers*, ``[n]`` by index, ``[n]``."""
        east_m, north_m = (self.positions_m(users, time_s) - self.tower_xy_m[towers]).T
        return np.asarray(np.hypot(east_m, north_m))

    def towards(self, tower: str) -> Layout:
        """Return the same network with all links to *tower*, for the interference there."""
        return replace(self, seen_from=tower)

    def route(self, tower: str) -> tuple[str, ...]:
        """Return the nodes from *tower* to the server, both included, by least delay.

        Raises:
            networkx.NetworkXNoPath: there is no route.
        """
        return tuple(nx.shortest_path(self.graph, tower, self.server, weight="delay_s"))

    def _places(self, names: tuple[str, ...]) -> Floats:
        rows = [(self.graph.nodes[name]["x_m"], self.graph.nodes[name]["y_m"]) for name in names]
        return np.asarray(rows, float).reshape(-1, 2)

    @cached_property
    def tower_xy_m(self) -> Floats:
        """Positions of the towers, ``[towers, 2]``."""
        return self._places(self.towers)

    @cached_property
    def _nearest(self) -> tuple[Ints, Floats]:
        """Each user's nearest tower, the first on a tie, and its distance; in blocks, to save memory."""
        nearest_tower = np.zeros(self.users, np.int64)
        nearest_m = np.full(self.users, np.inf)
        towers = [index for index, name in enumerate(self.towers) if self.seen_from in {None, name}]
        for start, tower in product(range(0, self.users, _BLOCK), towers):
            block = slice(start, start + _BLOCK)
            distance_m = np.hypot(*(self.user_xy_m[block] - self.tower_xy_m[tower]).T)
            nearest_tower[block][distance_m < nearest_m[block]] = tower
            np.minimum(distance_m, nearest_m[block], out=nearest_m[block])
        return nearest_tower, nearest_m
