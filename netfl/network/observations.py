"""Present values of users that a policy of the server can observe."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netfl.network.backhaul.routes import Routes
from netfl.network.clock import Clock
from netfl.network.config import NetworkConfig
from netfl.network.membership import Membership
from netfl.network.tower import Tower
from netfl.types import Bools, Floats, Ints, Users


class NetworkObservations:
    """Present values of the users of a network.  Reading them changes no draw.

    Args:
        config: the network.
        env: its clock.
        towers: its towers, by name.
        routes: its output ports.
        membership: the tower of each user.
    """

    def __init__(
        self,
        config: NetworkConfig,
        env: Clock,
        towers: Mapping[str, Tower],
        routes: Routes,
        membership: Membership,
    ) -> None:
        self._config = config
        self._env = env
        self._routes = routes
        self._membership = membership
        self._towers = [*towers.values()]  # those that have users
        self._values: Mapping[str, Callable[[Users], NDArray[Any]]] = {
            "check_in": self._connected,
            "user_up": self._up,
            "snr_db": self._snr_db,
            "rate_bps": self._rates_bps,
            "battery_j": self._battery_j,
            "energy_j": self._energy_j,
            "distance_m": self._distances_m,
            "speed": self._speed,
            "backlog": self._backlog_lengths,
        }

    def observe(self, name: str, users: Users) -> Any:
        """Return the present value of an observation of *users*, ``[n]``; of ``queues`` the lengths by link.

        Args:
            name: one of `netfl.types.OBSERVATIONS` that the network knows.
            users: the users.
        """
        if name == "queues":
            return self._routes.queue_lengths()
        return self._values[name](users)

    def answer_time_s(self, users: Users, airtime_s: float) -> float:
        """Return how long the answers of *users* to a call take: one after another in a cell, cells at once."""
        answers = np.bincount(self._membership.tower_at(users, self._now_s), minlength=1)
        return float(answers.max()) * airtime_s

    @property
    def _now_s(self) -> float:
        return float(self._env.now)

    def _connected(self, users: Users) -> Bools:
        return self._by_tower(users, lambda tower, slots: tower.present.connected(slots))

    def _up(self, users: Users) -> Bools:
        if self._config.node_state.is_always_up:
            return np.ones(len(users), np.bool_)
        return self._config.node_state.up(users, self._now_s)

    def _snr_db(self, users: Users) -> Floats:
        return self._by_tower(users, lambda tower, slots: tower.present.snr_db(slots))

    def _rates_bps(self, users: Users) -> Floats:
        return self._by_tower(users, self._rates_at)

    def _distances_m(self, users: Users) -> Floats:
        return self._membership.distances_m(users, self._now_s)

    def _backlog_lengths(self, users: Users) -> Ints:
        return self._by_tower(users, lambda tower, slots: tower.present.backlog_lengths()[slots])

    def _battery_j(self, users: Users) -> Floats:
        charge_j = self._config.outages.charge_j(users, self._now_s)
        if charge_j is None:
            return np.full(len(users), np.inf)
        return charge_j

    def _energy_j(self, users: Users) -> Floats:
        assert self._config.energy is not None
        return np.asarray(self._config.energy.by_user_j(self._now_s)[users])

    def _speed(self, users: Users) -> Floats:
        """Return the training samples per second, without jitter."""
        service = self._config.service
        assert service is not None
        return service.speed[users]

    def _rates_at(self, tower: Tower, slots: Users) -> Floats:
        """Return the bits of an update over its airtime, for users in the modes that they would choose now."""
        medium = self._config.medium
        service = self._config.service
        assert medium is not None
        assert service is not None
        bits = service.segmentation.max_bits
        ids = tower.cell.ids[slots]
        node = tower.cell.tower
        modes = medium.choose(ids, node, self._now_s)
        airtimes_s = medium.airtimes_s(ids, node, self._now_s, bits, modes)
        return np.asarray(bits / airtimes_s)

    def _by_tower(self, users: Users, value_of: Callable[[Tower, Users], NDArray[Any]]) -> NDArray[Any]:
        """Return a value of *users*, which the present tower of each gives for their slots there, ``[n]``."""
        values = []
        places = []
        tower_of = self._membership.tower_at(users, self._now_s)
        for tower in self._towers:
            in_cell = np.flatnonzero(tower_of == tower.index)
            slots = self._membership.slots(users[in_cell], tower.index)
            values.append(value_of(tower, slots))
            places.append(in_cell)
        order = np.argsort(np.concatenate(places))
        return np.asarray(np.concatenate(values)[order])
