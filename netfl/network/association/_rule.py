"""Rule of roaming: an association that is open, the towers of the start, and when users move."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from netfl.network.association import Association, TowerChoice
from netfl.network.association._conformance import open_choice
from netfl.network.layout import Layout
from netfl.network.radio.tower_links import TowerLinks
from netfl.types import Ints, Users


@dataclass(frozen=True, slots=True)
class RoamingRule:
    """Rule by which the users of a network change their towers.

    Args:
        choice: the tower that each user should have.
        links: of users to all towers, as the choice sees them.
        start: the tower of each user at the start, ``[users]``.
        at_any_time: whether users move at any time; else when a version is about to be sent to them.
        drops: whether updates that wait to be sent end when their users move; else they go along.
    """

    choice: TowerChoice
    links: TowerLinks
    start: Ints
    at_any_time: bool = False
    drops: bool = False

    @classmethod
    def begin(cls, association: Association, links: TowerLinks) -> RoamingRule:
        """Return the rule of an *association* of the users and towers of *links*, at the start of a run."""
        choice = open_choice(association, links)
        nobody = np.full(links.users, -1)
        start = choice.choose(np.arange(links.users), nobody, 0.0)
        return cls(choice, links, start, association.moves == "any_time", association.on_move == "drop")

    def visitors(self, layout: Layout) -> Mapping[int, Users]:
        """Return the users that may come to each tower of *layout*."""
        visitors = {}
        for tower in range(len(layout.towers)):
            users = self.choice.visitors(tower)
            visitors[tower] = np.arange(layout.users) if users is None else users
        return visitors
