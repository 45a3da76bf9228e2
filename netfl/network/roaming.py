"""Roaming: an association decides which tower each user should have, and users move when they can."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from netfl.network.association._rule import RoamingRule
from netfl.network.clock import Clock, Stage, call_at
from netfl.network.event_log import EventLog
from netfl.network.layout import Layout
from netfl.network.membership import Membership
from netfl.network.tower import Tower
from netfl.types import Ints, Users

_SECONDS_PER_HOUR = 3600.0


class Roaming:
    """Moves of the users of a network, as their association decides.

    Args:
        layout: names of the towers.
        membership: the tower of each user.
    """

    def __init__(self, rule: RoamingRule, layout: Layout, env: Clock, log: EventLog, membership: Membership) -> None:
        self._rule = rule
        self._choice = rule.choice
        self._layout = layout
        self._env = env
        self._log = log
        self._membership = membership

        self._towers: Mapping[int, Tower] = {}
        self._index_of = {name: index for index, name in enumerate(layout.towers)}

        # with moves at any time: users that should move and could not yet
        self._waiting: Users = np.empty(0, np.int64)

    def start(self, towers: Iterable[Tower]) -> None:
        """Let users move among *towers* from now on, also at any time if the rule says so."""
        self._towers = {tower.index: tower for tower in towers}
        self._rule.links.last_heard = self._last_heard
        if not self._rule.at_any_time:
            return
        for tower in self._towers.values():
            tower.call_on_release(self._move_waiting)
        self._plan_look()

    def prepare_sending(self, users: Users) -> None:
        """Let those of *users* that have nothing under way move, as a version is about to be sent to them."""
        if self._rule.at_any_time:
            return
        serving, chosen = self._choose(users)
        movers = np.flatnonzero(chosen != serving)
        movers = movers[~self._membership.has_work(users[movers])]
        self._move(users[movers], chosen[movers])

    def metrics(self) -> Mapping[str, float]:
        """Return the metrics of the run up to now."""
        hours = float(self._env.now) / _SECONDS_PER_HOUR
        user_hours = self._membership.users * hours
        return {"handovers_per_user_hour": self._membership.moved / user_hours if user_hours else 0.0}

    def _choose(self, users: Users) -> tuple[Ints, Ints]:
        """Return the tower that each of *users* has, and the one that it should have, ``[n]`` each."""
        now_s = float(self._env.now)
        serving = self._membership.tower_at(users, now_s)
        return serving, self._choice.choose(users, serving, now_s)

    def _last_heard(self, users: Users, serving: Ints) -> Ints:
        """Return the tower of the strongest copy of each user's last frame; see `TowerLinks.last_heard`."""
        towers = np.full(len(users), -1)
        for place, (user, tower) in enumerate(zip(users.tolist(), serving.tolist(), strict=True)):
            node = self._towers[tower].strongest_copy(user) if tower in self._towers else None
            if node is not None:
                towers[place] = self._index_of[node.name]
        return towers

    def _plan_look(self) -> None:
        """Look again when an answer may be another one."""
        at_s = self._choice.next_s(float(self._env.now))
        if np.isfinite(at_s):
            call_at(self._env, at_s, lambda _: self._env.at_end(Stage.MOVES, self._look))

    def _look(self) -> None:
        """Ask where each user should be now, and let those move that can."""
        users = np.arange(self._membership.users)
        serving, chosen = self._choose(users)
        movers = np.flatnonzero(chosen != serving)
        is_bound = self._membership.is_bound(movers)
        self._waiting = movers[is_bound]
        self._move(movers[~is_bound], chosen[movers[~is_bound]])
        if self._env.has_events():  # else nothing will ever happen, wherever users are
            self._plan_look()

    def _move_waiting(self) -> None:
        """Let those users move that could not move before, to the towers that they should have by now."""
        if not self._waiting.size:
            return
        is_bound = self._membership.is_bound(self._waiting)
        free = self._waiting[~is_bound]
        if not free.size:
            return
        self._waiting = self._waiting[is_bound]
        serving, chosen = self._choose(free)
        differs = chosen != serving
        self._move(free[differs], chosen[differs])

    def _move(self, users: Users, targets: Ints) -> None:
        """Let *users* move, and record it."""
        if not users.size:
            return
        now_s = float(self._env.now)
        sources = self._membership.tower_at(users, now_s)
        self._membership.move(users, targets, drops=self._rule.drops)
        if not self._log.wants("moved"):
            return
        for source, target in sorted(set(zip(sources.tolist(), targets.tolist(), strict=True))):
            movers = users[(sources == source) & (targets == target)]
            left = self._layout.towers[source]
            reached = self._layout.towers[target]
            self._log.event("moved", np.full(len(movers), now_s), user=movers, node=reached, detail=left)
