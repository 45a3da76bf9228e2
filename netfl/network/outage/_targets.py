"""Which nodes an outage strikes, as a scenario says it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator
from pydantic_core import PydanticCustomError

from netfl.errors import Fault, ScenarioError, suggest
from netfl.network.layout import Layout
from netfl.types import ScenarioFacts

Group = Literal["users", "towers", "routers", "links"]


def _checked(value: Any) -> Any:
    """*value* if it is a group or a list of user numbers and names, each once."""
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


Nodes = Annotated[Group | tuple[int | str, ...], BeforeValidator(_checked)]
"""``users``, ``towers``, ``routers``, ``links``, or a list of user numbers and of names such as ``tower:0`` or, for a
link, ``tower:0-server``, whichever end comes first."""


def node_faults(nodes: Group | tuple[int | str, ...], facts: ScenarioFacts) -> Iterator[Fault]:
    """Users that there are not."""
    yield from facts.strangers("nodes", nodes)


def approximate_count(nodes: Group | tuple[int | str, ...], users: int) -> int:
    """Roughly how many nodes that is: of towers, routers and links one, as they are only known when laid out."""
    return 1 if isinstance(nodes, str) and nodes != "users" else users if isinstance(nodes, str) else len(nodes)


def node_numbers(nodes: Group | tuple[int | str, ...], sites: Layout) -> NDArray[np.int64]:
    """The node numbers that *nodes* stands for.

    Raises:
        ScenarioError: there are none, or a name is not one of the network's.
    """
    if isinstance(nodes, str):
        found = group_numbers(nodes, sites)
        if not found.size:
            raise ScenarioError([Fault("nodes", f"this topology has no {nodes}", nodes, "name what it has")])
        return found
    strangers = [node for node in nodes if isinstance(node, str) and node_number(node, sites) is None]
    if strangers:
        raise ScenarioError([Fault("nodes", "no such node", name, suggest_node(name, sites)) for name in strangers])
    found = np.array([node if isinstance(node, int) else sites.number(node) for node in nodes])
    if len(set(found)) < len(found):
        raise ScenarioError([Fault("nodes", "a link is named from both its ends", list(nodes), "name it once")])
    return found


def group_numbers(group: Group, sites: Layout) -> NDArray[np.int64]:
    """The numbers of all nodes of *group*."""
    if group == "users":
        return np.arange(sites.users)
    if group == "links":
        return np.arange(sites.nodes - len(sites.links), sites.nodes)
    return np.array([sites.number(name) for name in sites.with_role(group.removesuffix("s"))], np.int64)


def node_number(name: str, sites: Layout) -> int | None:
    """The number of what can be down by that *name*; ``None`` if there is no such thing.  The server never is."""
    try:
        return None if name == sites.server else sites.number(name)
    except KeyError:
        return None


def suggest_node(name: str, sites: Layout) -> str:
    """A hint for a misspelt *name*: the nearest node, or link if it looks like one."""
    nodes = [node for node in sites.names if node != sites.server]
    if "-" in name:
        turned = ["-".join(reversed(link.split("-"))) for link in sites.links]
        hint = suggest(name, [*sites.links, *turned, *nodes])
        return hint if hint.startswith("did you") else suggest(name, sites.links)
    return suggest(name, nodes)


def node_rows(struck: NDArray[np.int64], sites: Layout) -> NDArray[np.int64]:
    """A row of its own for each struck node, in their order, and -1 for the rest, ``[nodes]``."""
    row = np.full(sites.nodes, -1)
    row[struck] = np.arange(len(struck))
    return row
