"""The nodes that an outage affects: as a scenario specifies them, and those inside a disk."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Literal, get_args

import numpy as np
from pydantic import BeforeValidator, Field
from pydantic_core import PydanticCustomError

from netfl.errors import Fault, ScenarioError, suggest
from netfl.network.layout import Layout
from netfl.network.outage import Outage
from netfl.types import Floats, Ints, ScenarioFacts

Group = Literal["users", "towers", "routers", "links"]


def _check_nodes(value: Any) -> Any:
    """Check that *value* is a group or a list of user numbers and names."""
    if isinstance(value, str) and value in get_args(Group):
        return value
    if isinstance(value, list | tuple) and value:
        is_node = [isinstance(node, str) or (isinstance(node, int) and node >= 0) for node in value]
        if all(is_node):
            return tuple(value)
    remedy = f"{', '.join(get_args(Group))}, or a list such as [0, 7, tower:1, tower:1-server]"
    raise PydanticCustomError("nodes", "neither a group nor a list of nodes", {"remedy": remedy})


Nodes = Annotated[Group | tuple[int | str, ...], BeforeValidator(_check_nodes)]
"""``users``, ``towers``, ``routers``, ``links``, or a list of user numbers and of names such as ``tower:0`` or, for a
link, ``tower:0-server`` with its ends in either order."""


class NodeOutage(Outage):
    """Base of outages of the nodes that a scenario names."""

    nodes: Nodes
    """Affected nodes: ``users``, ``towers``, ``routers``, ``links``, or a list of user numbers and names."""
    users_only: ClassVar[str] = ""
    """Reason why only users can be affected; empty if all nodes can."""

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        yield from facts.unknown_users("nodes", self.nodes)
        if not self.users_only or self.nodes == "users":
            return
        if isinstance(self.nodes, str):
            others: list[str] = [self.nodes]
        else:
            others = [node for node in self.nodes if isinstance(node, str)]
        if others:
            yield Fault("nodes", self.users_only, others, "write users, or numbers of users")


def node_numbers(nodes: Group | tuple[int | str, ...], layout: Layout) -> Ints:
    """Return the numbers of *nodes*.

    Raises:
        ScenarioError: there are none, or a name is unknown.
    """
    if isinstance(nodes, str):
        numbers = group_numbers(nodes, layout)
        if not numbers.size:
            raise ScenarioError([Fault("nodes", f"this topology has no {nodes}", nodes, "use nodes that it has")])
        return numbers
    unknown = [node for node in nodes if isinstance(node, str) and node_number(node, layout) is None]
    if unknown:
        raise ScenarioError([Fault("nodes", "no such node", name, suggest_node(name, layout)) for name in unknown])
    return np.array([node if isinstance(node, int) else layout.number(node) for node in nodes])


def group_numbers(group: Group, layout: Layout) -> Ints:
    """Return the numbers of all nodes of *group*."""
    if group == "users":
        return np.arange(layout.users)
    if group == "links":
        return np.arange(layout.nodes - len(layout.links), layout.nodes)
    return np.array([layout.number(name) for name in layout.with_role(group.removesuffix("s"))], np.int64)


def node_number(name: str, layout: Layout) -> int | None:
    """Return the number of a tower, router or link; ``None`` for unknown names and the server, which is always up."""
    if name == layout.server:
        return None
    try:
        return layout.number(name)
    except KeyError:
        return None


def suggest_node(name: str, layout: Layout) -> str:
    """Return a hint for a misspelt *name*: the closest node, or link if it looks like one."""
    if "-" in name:
        reversed_links = ["-".join(reversed(link.split("-"))) for link in layout.links]
        return suggest(name, [*layout.links, *reversed_links])
    return suggest(name, [node for node in layout.names if node != layout.server])


def node_rows(nodes: Group | tuple[int | str, ...], layout: Layout) -> Ints:
    """Return the position of each node of *layout* in *nodes*, and -1 for the others, ``[nodes]``."""
    affected = node_numbers(nodes, layout)
    row = np.full(layout.nodes, -1)
    row[affected] = np.arange(len(affected))
    return row


Groups = Annotated[
    tuple[Group, ...],
    Field(min_length=1),
    BeforeValidator(
        lambda value: (value,) if isinstance(value, str) else value, json_schema_input_type=Group | tuple[Group, ...]
    ),
]
"""``users``, ``towers``, ``routers``, ``links``, or a list of them."""


class DiskMembership:
    """The nodes of some groups as segments in the plane; all but links have length 0.

    Moving users count at their positions at time 0.

    Args:
        layout: the network.
        groups: groups of nodes.

    Attributes:
        nodes: their numbers.
    """

    def __init__(self, layout: Layout, groups: tuple[Group, ...]) -> None:
        # the ends of all segments, as numbers of nodes with a position: first users and nodes, then links
        points = np.arange(layout.users + len(layout.names))
        cables = [[layout.number(end) for end in edge] for edge in layout.graph.edges]
        cable_ends = np.array(cables, np.int64).reshape(-1, 2)
        begins, ends = np.vstack([np.column_stack([points, points]), cable_ends]).T
        self.nodes = np.concatenate([group_numbers(group, layout) for group in groups])
        self._from_m = layout.node_xy_m[begins[self.nodes]]  # a, [n, 2]
        self._along_m = layout.node_xy_m[ends[self.nodes]] - self._from_m  # b - a
        self._squared_m2 = (self._along_m**2).sum(axis=1)

    def distance_m(self, places: Ints, centre_m: Floats) -> Floats:
        """Return the distances of segments from points; *places* index `nodes` and broadcast with the points.

        The point of a segment from a to b that is nearest to c is a + s (b - a), s = (c - a)·(b - a) / |b - a|² within
        [0, 1].
        """
        to_m = centre_m - self._from_m[places]  # c - a
        along_m = self._along_m[places]  # b - a
        squared_m2 = self._squared_m2[places]
        divisor_m2 = np.where(squared_m2 > 0.0, squared_m2, 1.0)  # a segment of length 0 has s = 0
        share = np.clip((to_m * along_m).sum(axis=-1) / divisor_m2, 0.0, 1.0)  # s
        x_m, y_m = np.moveaxis(to_m - share[..., None] * along_m, -1, 0)
        return np.asarray(np.hypot(x_m, y_m))
