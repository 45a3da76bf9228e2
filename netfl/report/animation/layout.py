"""Positions and links of a replay."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from netfl.errors import NetflError
from netfl.report.run_data import RunData

MAX_RING_USERS = 60
"""Users without positions form one ring up to this number, else a disk."""

MAX_POSITIONS = 200_000
"""Maximum number of positions of moving users in a page."""

_MAX_FRAMES = 400
"""Maximum number of instants with positions of moving users."""

Trajectory = Callable[[float], NDArray[np.float64]]
"""Positions of all users at a time in seconds, ``[users, 2]``."""


@dataclass(frozen=True)
class AnimationLayout:
    """A network as it is drawn.

    Nodes are numbered as in `names`; the links have the numbers after them.

    Args:
        users: positions of the users at time 0, ``[users, 2]``.
        names: names of the nodes, such as ``tower:0``.
        roles: ``server``, ``router`` or ``tower`` for each node.
        nodes: positions of the nodes, ``[nodes, 2]``.
        links: pairs of numbers of nodes.
        has_scenario_links: the links are those of the scenario; else they are taken from events or made up.
        has_positions: positions are in metres; else users are placed around the server.
        tower: number of each user's tower; the number of nodes without one.
        trajectory: later positions of moving users.
    """

    users: NDArray[np.float64]
    names: tuple[str, ...]
    roles: tuple[str, ...]
    nodes: NDArray[np.float64]
    links: tuple[tuple[int, int], ...]
    has_scenario_links: bool
    has_positions: bool
    tower: NDArray[np.int64]
    trajectory: Trajectory | None = None
    numbers: dict[str, int] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        for number, (first, second) in enumerate(self.links, len(self.names)):
            self.numbers[f"{self.names[first]}-{self.names[second]}"] = number
            self.numbers[f"{self.names[second]}-{self.names[first]}"] = number
        self.numbers.update({name: number for number, name in enumerate(self.names)})

    @property
    def next_hops(self) -> NDArray[np.int64]:
        """Next node from each node on a shortest path to the server; the node itself without a path."""
        hops = np.arange(len(self.names), dtype=np.int64)
        graph: nx.Graph[int] = nx.Graph(self.links)
        if "server" in self.roles and (server := self.roles.index("server")) in graph:
            for node, path in nx.single_source_shortest_path(graph, server).items():
                if node != server:
                    hops[node] = path[-2]  # the path begins at the server and ends at the node
        return hops

    def frames(self, end_s: float) -> NDArray[np.float64]:
        """Return positions at even instants from 0 to *end_s*, ``[instants, users, 2]``; none if no user moves."""
        if self.trajectory is None:
            return np.zeros((0, len(self.users), 2))
        number = max(2, min(_MAX_FRAMES, MAX_POSITIONS // max(1, len(self.users))))
        return np.stack([self.trajectory(at_s) for at_s in np.linspace(0.0, end_s, number).tolist()])


def build_layout(data: RunData) -> AnimationLayout:
    """Return the network of the animated replica, or users around a server without a network."""
    nodes = data.nodes
    number_of_users = len(data.first_users)
    if not data.has_positions or nodes.empty:
        return AnimationLayout(
            users=circular_positions(number_of_users),
            names=("server",),
            roles=("server",),
            nodes=np.zeros((1, 2)),
            links=(),
            has_scenario_links=True,
            has_positions=False,
            tower=np.zeros(number_of_users, np.int64),
        )
    names = tuple(nodes["node"].astype(str))
    numbers = {name: index for index, name in enumerate(names)}
    users = data.first_users[["x_m", "y_m"]].to_numpy(float)
    sites = _scenario_layout(data, users)
    trajectory: Trajectory | None = None
    if sites is None:
        links = _links_from_events(data, names)
    else:
        links = [(numbers[first], numbers[second]) for first, second in sites.graph.edges]
        if sites.paths is not None:  # users move
            trajectory = partial(sites.paths.xy_m, np.arange(number_of_users))
    return AnimationLayout(
        users=users,
        names=names,
        roles=tuple(nodes["role"].astype(str)),
        nodes=nodes[["x_m", "y_m"]].to_numpy(float),
        links=tuple(links),
        has_scenario_links=sites is not None,
        has_positions=True,
        tower=np.array([numbers.get(name, len(names)) for name in data.towers], np.int64),
        trajectory=trajectory,
    )


def circular_positions(users: int) -> NDArray[np.float64]:
    """Return even positions around the origin: a ring or, for many users, a disk with a hole, ``[users, 2]``."""
    index = np.arange(users)
    if users <= MAX_RING_USERS:
        turn = index / max(users, 1)
        radius = np.ones(users)
    else:  # H. Vogel's spiral: turns by the golden ratio, and the same area for each user
        turn = index * (np.sqrt(5.0) - 1.0) / 2.0
        radius = np.sqrt((index + 0.04 * users) / (1.04 * users))
    angle = 2.0 * np.pi * (0.25 - turn)  # from the top, clockwise
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)


def _scenario_layout(data: RunData, users: NDArray[np.float64]) -> Any:
    """Return the layout that the scenario gives, with links and trajectories; ``None`` if it is not that of the run.

    The models or files of the scenario may have changed since, or be missing.
    """
    from netfl.scenario.scenario import load
    from netfl.types import AccessContext, NullRecorder

    try:
        scenario = load(data.run.folder / "scenario.yaml")
        streams = scenario.streams_of(data.first).at("access")
        sizes = np.zeros(scenario.users)  # neither loads nor sizes move a node
        context = AccessContext(scenario.users, scenario.steps, data.first, streams, sizes, 0.0, 0.0, NullRecorder())
        sites = scenario.access.layout(context)
    except (NetflError, OSError, nx.NetworkXException):
        return None
    if sites is None or sites.names != tuple(data.nodes["node"].astype(str)):
        return None
    if not np.allclose(sites.user_xy_m, users):
        return None
    return sites


def _links_from_events(data: RunData, names: tuple[str, ...]) -> list[tuple[int, int]]:
    """Return the links that went down or up in the events; without any, one from each node to the server."""
    numbers = {name: index for index, name in enumerate(names)}
    links = set()
    for name in data.run.events["node"].astype(str).unique():
        first, _, second = name.partition("-")
        if first in numbers and second in numbers:
            links.add((numbers[first], numbers[second]))
    if links or "server" not in numbers:
        return sorted(links)
    return [(index, numbers["server"]) for name, index in numbers.items() if name != "server"]


def entity_numbers(rows: pd.DataFrame, layout: AnimationLayout, users: int) -> NDArray[np.int64]:
    """Return the number of the user or, after all users, the node or link of each row; -1 if neither."""
    user = rows["user"].to_numpy(np.int64)
    node = rows["node"].astype(str).map(layout.numbers).fillna(-users - 1).to_numpy(np.int64)  # -1 after the sum below
    return np.where(user >= 0, user, node + users)
