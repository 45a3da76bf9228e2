"""The nodes that an outage affects, as a scenario specifies them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal, get_args

import numpy as np
from pydantic import BeforeValidator
from pydantic_core import PydanticCustomError

from netfl.errors import Fault, ScenarioError, suggest
from netfl.network.layout import Layout
from netfl.network.outage import Ints
from netfl.types import ScenarioFacts

Group = Literal["users", "towers", "routers", "links"]


def _check_nodes(value: Any) -> Any:
    """Check that *value* is a group or a list of distinct user numbers and names."""
    remedy = f"{', '.join(get_args(Group))}, or a list such as [0, 7, tower:1, tower:1-server]"
    if isinstance(value, list | tuple):
        entries = list(value)
        if entries and all(isinstance(entry, str) or (type(entry) is int and entry >= 0) for entry in entries):
            if len(set(entries)) == len(entries):
                return tuple(entries)
            raise PydanticCustomError("nodes", "a node is named twice", {"remedy": "name each once"})
    elif isinstance(value, str) and value in get_args(Group):
        return value
    raise PydanticCustomError("nodes", "no group of nodes and no list of them", {"remedy": remedy})


Nodes = Annotated[Group | tuple[int | str, ...], BeforeValidator(_check_nodes)]
"""``users``, ``towers``, ``routers``, ``links``, or a list of user numbers and of names such as ``tower:0`` or, for a
link, ``tower:0-server`` with its ends in either order."""


def user_faults(nodes: Group | tuple[int | str, ...], facts: ScenarioFacts, problem: str) -> Iterator[Fault]:
    """Yield errors for unknown users, and for nodes that are not users."""
    yield from facts.strangers("nodes", nodes)
    others = [nodes] if isinstance(nodes, str) else [node for node in nodes if isinstance(node, str)]
    if others and nodes != "users":
        yield Fault("nodes", problem, others, "write users, or numbers of users")


def approximate_count(nodes: Group | tuple[int | str, ...], users: int) -> int:
    """Return the number of nodes, or 1 for a group of towers, routers or links, which depends on the layout."""
    return 1 if isinstance(nodes, str) and nodes != "users" else users if isinstance(nodes, str) else len(nodes)


def node_numbers(nodes: Group | tuple[int | str, ...], layout: Layout) -> Ints:
    """Return the numbers of *nodes*.

    Raises:
        ScenarioError: there are none, or a name is unknown.
    """
    if isinstance(nodes, str):
        numbers = group_numbers(nodes, layout)
        if not numbers.size:
            raise ScenarioError([Fault("nodes", f"this topology has no {nodes}", nodes, "name what it has")])
        return numbers
    unknown = [node for node in nodes if isinstance(node, str) and node_number(node, layout) is None]
    if unknown:
        raise ScenarioError([Fault("nodes", "no such node", name, suggest_node(name, layout)) for name in unknown])
    numbers = np.array([node if isinstance(node, int) else layout.number(node) for node in nodes])
    if len(set(numbers)) < len(numbers):
        raise ScenarioError([Fault("nodes", "a link is named from both its ends", list(nodes), "name it once")])
    return numbers


def group_numbers(group: Group, layout: Layout) -> Ints:
    """Return the numbers of all nodes of *group*."""
    if group == "users":
        return np.arange(layout.users)
    if group == "links":
        return np.arange(layout.nodes - len(layout.links), layout.nodes)
    return np.array([layout.number(name) for name in layout.with_role(group.removesuffix("s"))], np.int64)


def node_number(name: str, layout: Layout) -> int | None:
    """Return the number of a tower, router or link; ``None`` for unknown names and the server, which is always up."""
    try:
        return None if name == layout.server else layout.number(name)
    except KeyError:
        return None


def suggest_node(name: str, layout: Layout) -> str:
    """Return a hint for a misspelt *name*: the closest node, or link if it looks like one."""
    nodes = [node for node in layout.names if node != layout.server]
    if "-" in name:
        reversed_links = ["-".join(reversed(link.split("-"))) for link in layout.links]
        hint = suggest(name, [*layout.links, *reversed_links, *nodes])
        return hint if hint.startswith("did you") else suggest(name, layout.links)
    return suggest(name, nodes)


def node_rows(affected: Ints, layout: Layout) -> Ints:
    """Return the position of each node in *affected*, and -1 for the others, ``[nodes]``."""
    row = np.full(layout.nodes, -1)
    row[affected] = np.arange(len(affected))
    return row
