"""The nodes inside a disk: users, towers and routers by their positions, links by their straight cables."""

from __future__ import annotations

from typing import Annotated, Any, Literal, get_args

import numpy as np
from pydantic import BeforeValidator
from pydantic_core import PydanticCustomError

from netfl.network.layout import Layout
from netfl.network.outage import Floats, Ints
from netfl.network.outage._targets import Group, group_numbers

_ALIASES: dict[str, tuple[str, ...]] = {"both": ("users", "towers"), "all": get_args(Group)}


def _expand_groups(value: Any) -> Any:
    """Return a word or a list of groups as a tuple of groups."""
    entries = _ALIASES.get(value, (value,)) if isinstance(value, str) else value
    if not isinstance(entries, list | tuple) or not entries or not set(map(str, entries)) <= set(get_args(Group)):
        known = ", ".join([*get_args(Group), *_ALIASES])
        raise PydanticCustomError("groups", "no group of nodes and no list of them", {"remedy": f"write {known}"})
    return tuple(dict.fromkeys(entries))


_Input = Group | Literal["both", "all"] | tuple[Group, ...]

Groups = Annotated[tuple[Group, ...], BeforeValidator(_expand_groups, json_schema_input_type=_Input)]
"""``users``, ``towers``, ``routers``, ``links``; ``both`` users and towers; ``all``; or a list of the first four."""


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
        points = np.arange(layout.users + len(layout.names))
        cables = [[layout.number(end) for end in edge] for edge in layout.graph.edges]
        begins, ends = np.vstack([np.column_stack([points, points]), np.array(cables, np.int64).reshape(-1, 2)]).T
        self.nodes = np.concatenate([group_numbers(group, layout) for group in groups])
        self._from_m = layout.node_xy_m[begins[self.nodes]]
        self._along_m = layout.node_xy_m[ends[self.nodes]] - self._from_m
        self._squared_m2 = (self._along_m**2).sum(axis=1)

    def distance_m(self, places: Ints, centre_m: Floats) -> Floats:
        """Return the distances of segments from points; *places* index `nodes` and broadcast with the points."""
        to_m, along_m, squared = centre_m - self._from_m[places], self._along_m[places], self._squared_m2[places]
        share = np.clip((to_m * along_m).sum(axis=-1) / np.where(squared > 0.0, squared, 1.0), 0.0, 1.0)
        return np.asarray(np.hypot(*np.moveaxis(to_m - share[..., None] * along_m, -1, 0)))
