"""Roaming: an association decides which tower each user should have, and users move when they can."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from netfl.network.association import TowerChoice
from netfl.network.clock import Clock
from netfl.network.event_log import EventLog
from netfl.network.layout import Layout
from netfl.network.membership import Membership
from netfl.types import Ints, Users

_SECONDS_PER_HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class RoamingRule:
    """Rule by which the users of a network change their towers.

    Args:
        choice: the tower that each user should have.
        start: the tower of each user at the start, ``[users]``.
    """

    choice: TowerChoice
    start: Ints

    @classmethod
    def begin(cls, choice: TowerChoice, users: int) -> RoamingRule:
        """Return the rule by which *users* take the towers of the *choice* at the start."""
        nobody = np.full(users, -1)
        return cls(choice, choice.choose(np.arange(users), nobody, 0.0))

    def visitors(self, layout: Layout) -> Mapping[int, Users]:
        """Return the users that may come to each tower of *layout*: all of them."""
        return dict.fromkeys(range(len(layout.towers)), np.arange(layout.users))


class Roaming:
    """Moves of the users of a network, as their association decides.

    Args:
        layout: names of the towers.
        membership: the tower of each user.
    """

    def __init__(self, rule: RoamingRule, layout: Layout, env: Clock, log: EventLog, membership: Membership) -> None:
        self._rule = rule
        self._layout = layout
        self._env = env
        self._log = log
        self._membership = membership

    def move_idle(self, users: Users) -> None:
        """Let those of *users* that have nothing under way move to the towers that they should have now."""
        now_s = float(self._env.now)
        serving = self._membership.tower_at(users, now_s)
        chosen = self._rule.choice.choose(users, serving, now_s)
        differs = chosen != serving
        movers = users[differs]
        is_free = self._membership.is_free(movers)
        self._move(movers[is_free], serving[differs][is_free], chosen[differs][is_free])

    def metrics(self) -> Mapping[str, float]:
        """Return the metrics of the run up to now."""
        hours = float(self._env.now) / _SECONDS_PER_HOUR
        user_hours = self._membership.users * hours
        return {"handovers_per_user_hour": self._membership.moved / user_hours if user_hours else 0.0}

    def _move(self, users: Users, sources: Ints, targets: Ints) -> None:
        """Let *users* move, and record it."""
        if not users.size:
            return
        self._membership.move(users, targets)
        if not self._log.wants("moved"):
            return
        now_s = float(self._env.now)
        for source, target in sorted(set(zip(sources.tolist(), targets.tolist(), strict=True))):
            movers = users[(sources == source) & (targets == target)]
            left, reached = self._layout.towers[source], self._layout.towers[target]
            self._log.event("moved", np.full(len(movers), now_s), user=movers, node=reached, detail=left)
