"""Where everything stands in a replay, and how it is linked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from netfl.errors import NetflError
from netfl.report.run_data import RunData

RING = 60
"""Users without places stand in one ring if there are no more than this, else on a disk."""

MOST_PLACES = 200_000
"""Places of moving users that a page holds, at most."""

_MOST_FRAMES = 400
"""Instants at which the places of moving users are known, at most."""

Walk = Callable[[float], NDArray[np.float64]]
"""The places of all users at a time in seconds, ``[users, 2]``."""


@dataclass(frozen=True)
class AnimationLayout:
    """A network as it is drawn.

    Nodes are numbered as in `names`; the links have the numbers after them.

    Args:
        users: places of the users at time 0, ``[users, 2]``.
        names: of the nodes, such as ``tower:0``.
        roles: ``server``, ``router`` or ``tower``, of each.
        nodes: their places, ``[nodes, 2]``.
        links: pairs of numbers of nodes.
        known: whether the links are those of the scenario; else they were told by the events, or made up.
        real: whether the places are, in metres; else users stand around the server.
        tower: number of each user's tower; the number of nodes where there is none.
        walk: where users who move are later.
    """

    users: NDArray[np.float64]
    names: tuple[str, ...]
    roles: tuple[str, ...]
    nodes: NDArray[np.float64]
    links: tuple[tuple[int, int], ...]
    known: bool
    real: bool
    tower: NDArray[np.int64]
    walk: Walk | None = None
    numbers: dict[str, int] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        for number, (one, other) in enumerate(self.links, len(self.names)):
            self.numbers[f"{self.names[one]}-{self.names[other]}"] = number
            self.numbers[f"{self.names[other]}-{self.names[one]}"] = number
        self.numbers.update({name: number for number, name in enumerate(self.names)})

    @property
    def onward(self) -> NDArray[np.int64]:
        """The next node from each on a way of fewest links to the server; itself where there is none."""
        ways = list(range(len(self.names)))
        graph: nx.Graph[int] = nx.Graph(self.links)
        if "server" in self.roles and (server := self.roles.index("server")) in graph:
            for node, way in nx.single_source_shortest_path(graph, server).items():
                ways[node] = way[-2] if len(way) > 1 else node
        return np.array(ways, np.int64)

    def frames(self, end_s: float) -> NDArray[np.float64]:
        """Where moving users are at even instants from 0 to *end_s*, ``[instants, users, 2]``; none if all stand."""
        if self.walk is None:
            return np.zeros((0, len(self.users), 2))
        number = max(2, min(_MOST_FRAMES, MOST_PLACES // max(1, len(self.users))))
        return np.stack([self.walk(at_s) for at_s in np.linspace(0.0, end_s, number).tolist()])


def places_of(data: RunData) -> AnimationLayout:
    """The network of the replica that *view* shows, or users around a server where there is none."""
    nodes, users = data.nodes, len(data.first_users)
    if not data.has_positions or nodes.empty:
        alone = np.zeros((1, 2))
        return AnimationLayout(
            surrounding_places(users), ("server",), ("server",), alone, (), True, False, np.zeros(users, np.int64)
        )
    names = tuple(nodes["node"].astype(str))
    stands = data.first_users[["x_m", "y_m"]].to_numpy(float)
    laid = _laid_out(data, stands)
    links = _told(data, names) if laid is None else [(names.index(a), names.index(b)) for a, b in laid.graph.edges]
    number = {name: index for index, name in enumerate(names)}
    return AnimationLayout(
        users=stands,
        names=names,
        roles=tuple(nodes["role"].astype(str)),
        nodes=nodes[["x_m", "y_m"]].to_numpy(float),
        links=tuple(links),
        known=laid is not None,
        real=True,
        tower=np.array([number.get(name, len(names)) for name in data.towers], np.int64),
        walk=None if laid is None or laid.paths is None else lambda at_s: laid.paths.xy_m(np.arange(users), at_s),
    )


def surrounding_places(users: int) -> NDArray[np.float64]:
    """Even places around the origin: on a ring or, if there are many users, on a disk with a hole, ``[users, 2]``."""
    index = np.arange(users)
    if users <= RING:
        turn, reach = index / max(users, 1), np.ones(users)
    else:
        turn, reach = index * (np.sqrt(5.0) - 1.0) / 2.0, np.sqrt((index + 0.04 * users) / (1.04 * users))
    angle = 2.0 * np.pi * (0.25 - turn)
    return np.stack([reach * np.cos(angle), reach * np.sin(angle)], axis=1)


def _laid_out(data: RunData, stands: NDArray[np.float64]) -> Any:
    """The network as its scenario lays it out: links, and how users move; ``None`` if that is not the network here.

    A scenario may be of no use any more: its own models or files may be gone, or others than they were.
    """
    from netfl.access._builder import build_layout
    from netfl.access.network import NetworkAccess
    from netfl.scenario.scenario import load
    from netfl.simulation.setup import streams_of
    from netfl.types import AccessContext, NullRecorder

    try:
        scenario = load(data.run.folder / "scenario.yaml")
        if not isinstance(scenario.access, NetworkAccess):
            return None
        streams = streams_of(scenario, data.first).at("access")
        nothing = np.zeros(scenario.users)  # neither loads nor sizes move a node
        setting = AccessContext(scenario.users, scenario.steps, data.first, streams, nothing, 0.0, 0.0, NullRecorder())
        sites = build_layout(scenario.access, setting)
    except (NetflError, OSError, nx.NetworkXException):
        return None
    same = sites.names == tuple(data.nodes["node"].astype(str)) and np.allclose(sites.user_xy_m, stands)
    return sites if same else None


def _told(data: RunData, names: tuple[str, ...]) -> list[tuple[int, int]]:
    """The links that went down or up in the events; where there are none, one from each node to the server."""
    number = {name: index for index, name in enumerate(names)}
    found = set()
    for name in data.run.events["node"].astype(str).unique():
        one, _, other = name.partition("-")
        if one in number and other in number:
            found.add((number[one], number[other]))
    if found or "server" not in number:
        return sorted(found)
    return [(index, number["server"]) for name, index in number.items() if name != "server"]


def entity_numbers(rows: pd.DataFrame, places: AnimationLayout, users: int) -> NDArray[np.int64]:
    """The number of what each row (user, node) is about: a user, or after them a node or link; -1 if neither."""
    node = rows["node"].astype(str).map(places.numbers).fillna(-users - 1).to_numpy(np.int64)
    return np.where(rows["user"].to_numpy() >= 0, rows["user"].to_numpy(np.int64), node + users)
