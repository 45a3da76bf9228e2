"""What lies inside a disk: users, towers and routers by where they stand, links by the straight line of their cable."""

from __future__ import annotations

from typing import Annotated, Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator
from pydantic_core import PydanticCustomError

from netfl.network.layout import Layout
from netfl.network.outage._targets import Group, group_numbers

_WORDS: dict[str, tuple[str, ...]] = {"both": ("users", "towers"), "all": get_args(Group)}


def _listed(value: Any) -> Any:
    """One word as a list of groups; a list of them as it is."""
    entries = _WORDS.get(value, (value,)) if isinstance(value, str) else value
    if not isinstance(entries, list | tuple) or not entries or not set(map(str, entries)) <= set(get_args(Group)):
        known = ", ".join([*get_args(Group), *_WORDS])
        raise PydanticCustomError("groups", "no group of nodes and no list of them", {"remedy": f"write {known}"})
    return tuple(dict.fromkeys(entries))


_Said = Group | Literal["both", "all"] | tuple[Group, ...]

Groups = Annotated[tuple[Group, ...], BeforeValidator(_listed, json_schema_input_type=_Said)]
"""``users``, ``towers``, ``routers``, ``links``; ``both`` users and towers; ``all``; or a list of the first four."""


class DiskMembership:
    """The nodes of some groups as segments on the ground; all but links are segments without length.

    Where users move it is where they are at time 0 that counts.

    Args:
        sites: the network.
        groups: which nodes.

    Attributes:
        nodes: their numbers.
    """

    def __init__(self, sites: Layout, groups: tuple[Group, ...]) -> None:
        ends = np.arange(sites.users + len(sites.names))
        cables = [[sites.number(end) for end in edge] for edge in sites.graph.edges]
        begins, stops = np.vstack([np.column_stack([ends, ends]), np.array(cables, np.int64).reshape(-1, 2)]).T
        self.nodes = np.concatenate([group_numbers(group, sites) for group in groups])
        self._from_m = sites.node_xy_m[begins[self.nodes]]
        self._along_m = sites.node_xy_m[stops[self.nodes]] - self._from_m
        self._squared_m2 = (self._along_m**2).sum(axis=1)

    def distance_m(self, which: NDArray[np.int64], centre_m: NDArray[np.float64]) -> NDArray[np.float64]:
        """How near each segment comes to a point; *which* counts in `nodes` and broadcasts with *centre_m*'s rows."""
        to_m, along_m, squared = centre_m - self._from_m[which], self._along_m[which], self._squared_m2[which]
        share = np.clip((to_m * along_m).sum(axis=-1) / np.where(squared > 0.0, squared, 1.0), 0.0, 1.0)
        return np.asarray(np.hypot(*np.moveaxis(to_m - share[..., None] * along_m, -1, 0)))
