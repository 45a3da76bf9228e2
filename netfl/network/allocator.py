"""Decisions of an allocation in a network: it is asked as each round opens, and what it decides takes effect."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np

from netfl.errors import ModelError
from netfl.network.allocation import Allocation, AllocationRequest, Decision
from netfl.network.clock import Clock
from netfl.network.config import NetworkConfig
from netfl.network.tower import Tower
from netfl.registry import kind_of
from netfl.types import Floats, Users
from netfl.units import db_to_linear

_ROUNDING = 1e-9
_MIN_W = 1e-12
"""Power of sending that counts for users whose sending is free."""


def set_frequency(factor: Floats, config: NetworkConfig, towers: Iterable[Tower]) -> None:
    """Let trainings that begin from now on run at *factor* times the frequency of each processor, ``[users]``."""
    for tower in towers:
        tower.set_frequency(factor[tower.cell.ids])
    if config.energy is not None:
        config.energy.frequency_factor = factor


class RoundAllocator:
    """The allocation of one replica.

    Args:
        allocation: the model that decides.
        config: the network.
        env: its clock.
        towers: its towers, by name.
    """

    def __init__(self, allocation: Allocation, config: NetworkConfig, env: Clock, towers: Mapping[str, Tower]) -> None:
        self._allocation = allocation
        self._config = config
        self._env = env
        self._towers = [*towers.values()]
        users = config.layout.users
        self._share = np.zeros(users)
        self._power = np.ones(users)
        self._frequency = np.ones(users)

    def apply(self, selected: Users) -> Users:
        """Decide on the users *selected* for a round, cell by cell; return those that have a share.

        Raises:
            ModelError: the allocation returned other values than fractions.
        """
        medium = self._config.medium
        assert medium is not None
        medium.set_power_offset(None)  # so that the SNR is that at full power
        self._share[:] = 0.0
        for tower in self._towers:
            users = np.flatnonzero(np.isin(tower.cell.ids, selected))
            if users.size:
                self._decide(tower, users)

        medium.set_power_offset(10.0 * np.log10(self._power))
        set_frequency(self._frequency.copy(), self._config, self._towers)
        for tower in self._towers:
            for cell in tower.cells:
                cell.set_controls({**cell.controls, "share": self._share[cell.ids]})
        return selected[self._share[selected] > 0.0]

    def _decide(self, tower: Tower, users: Users) -> None:
        """Decide on *users*, by their numbers in the cell of *tower*."""
        cell = tower.cell
        ids = cell.ids[users]
        service = self._config.service
        assert service is not None
        segmentation = service.segmentation
        bits = (segmentation.count - 1) * segmentation.bits + segmentation.last_bits
        request = AllocationRequest(
            snr=db_to_linear(np.maximum(cell.snr_db(users) - cell.snr_gap_db, -100.0)),
            bits=np.full(len(users), bits),
            train_s=service.compute_s[ids],
            train_j=np.zeros(len(users)),
            transmit_w=np.zeros(len(users)),
            bandwidth_hz=self._config.bandwidth_hz,
        )
        energy = self._config.energy
        if energy is not None:
            request = replace(
                request, train_j=energy.cycles_j[ids], transmit_w=np.maximum(energy.transmit_w[ids], _MIN_W)
            )
        decision = self._allocation.allocate(request)
        self._check(decision, len(users))
        self._share[ids] = decision.share
        self._power[ids] = decision.power
        self._frequency[ids] = decision.frequency

    def _check(self, decision: Decision, users: int) -> None:
        for name in ("share", "power", "frequency"):
            values = np.asarray(getattr(decision, name))
            is_fraction = (values >= 0.0) & (values <= 1.0 + _ROUNDING)
            if name != "share":
                is_fraction &= values > 0.0
            if values.shape != (users,) or not is_fraction.all():
                problem = f"{name} is {values!r}: not a fraction for each of {users} users"
                raise ModelError(kind_of(type(self._allocation)), problem, time_s=self._env.now)
