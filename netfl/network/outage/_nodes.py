"""Which nodes an outage strikes, as a scenario says it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator
from pydantic_core import PydanticCustomError

from netfl.errors import Fault, ScenarioError, suggest
from netfl.network.sites import Sites
from netfl.types import Facts

Group = Literal["users", "towers", "routers"]


def _checked(value: Any) -> Any:
    """*value* if it is a group or a list of user numbers and names, each once."""
    remedy = f"{', '.join(get_args(Group))}, or a list such as [0, 7, tower:1]"
    if isinstance(value, list | tuple):
        entries = list(value)
        if entries and all(isinstance(entry, str) or (type(entry) is int and entry >= 0) for entry in entries):
            if len(set(entries)) == len(entries):
                return tuple(entries)
            raise PydanticCustomError("nodes", "a node is named twice", {"remedy": "name each once"})
    elif value in get_args(Group):
        return value
    raise PydanticCustomError("nodes", "no group of nodes and no list of them", {"remedy": remedy})


Nodes = Annotated[Group | tuple[int | str, ...], BeforeValidator(_checked)]
"""``users``, ``towers``, ``routers``, or a list of user numbers and names such as ``tower:0``."""


def faults_of(nodes: Group | tuple[int | str, ...], facts: Facts) -> Iterator[Fault]:
    """Users that there are not."""
    strangers = [node for node in nodes if isinstance(node, int) and node >= facts.users]
    if strangers:
        yield Fault("nodes", "no such users", strangers, f"users are numbered 0 to {facts.users - 1}")


def numbers(nodes: Group | tuple[int | str, ...], sites: Sites) -> NDArray[np.int64]:
    """The node numbers that *nodes* stands for.

    Raises:
        ScenarioError: there are none, or a name is not one of the network's.
    """
    if nodes == "users":
        return np.arange(sites.users)
    if isinstance(nodes, str):
        named = sites.with_role(nodes.removesuffix("s"))
        if not named:
            raise ScenarioError([Fault("nodes", f"this topology has no {nodes}", nodes, "name what it has")])
        return np.array([sites.number(name) for name in named])
    known = [name for name in sites.names if name != sites.server]
    strangers = [node for node in nodes if isinstance(node, str) and node not in known]
    if strangers:
        raise ScenarioError([Fault("nodes", "no such node", name, suggest(name, known)) for name in strangers])
    return np.array([node if isinstance(node, int) else sites.number(node) for node in nodes])


def rows(struck: NDArray[np.int64], sites: Sites) -> NDArray[np.int64]:
    """A row of its own for each struck node, in their order, and -1 for the rest, ``[nodes]``."""
    row = np.full(sites.nodes, -1)
    row[struck] = np.arange(len(struck))
    return row
