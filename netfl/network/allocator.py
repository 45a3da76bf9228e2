"""Decisions of an allocation in a network: it is asked as each round opens, and what it decides takes effect."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np

from netfl.errors import Fault, NetflError, ScenarioError
from netfl.network.allocation import MIN_FREQUENCY, MIN_POWER, Allocation, AllocationRequest, Decision
from netfl.network.clock import Clock
from netfl.network.config import NetworkConfig
from netfl.network.tower import Tower
from netfl.registry import kind_of, one_line_of
from netfl.types import Floats, Users
from netfl.units import db_to_linear

_REMEDY = "return a Decision with fractions, [n] each, whose shares add up to at most 1"
_SMALLEST = {"share": 0.0, "power": MIN_POWER, "frequency": MIN_FREQUENCY}
"""Smallest fraction of each part of a decision."""
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
            ScenarioError: the allocation failed, or did not return fractions that add up to at most the band; the key
                is ``allocation``.
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
        request = AllocationRequest(
            snr=db_to_linear(np.maximum(cell.snr_db(users) - cell.snr_gap_db, -100.0)),
            bits=tower.update_bits[users],
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
        try:
            decision = self._allocation.allocate(request)
        except NetflError:
            raise
        except Exception as error:  # whatever the user's class does
            raise self._error(f"fails: {one_line_of(error, self._allocation)}") from error
        self._check(decision, tower.name, len(users))
        self._share[ids] = decision.share
        self._power[ids] = decision.power
        self._frequency[ids] = decision.frequency

    def _check(self, decision: Decision, tower: str, users: int) -> None:
        if not isinstance(decision, Decision):
            raise self._error(f"gives {decision!r}, which is no Decision")
        for name in ("share", "power", "frequency"):
            given = getattr(decision, name)
            try:
                values = np.asarray(given, float)
            except (TypeError, ValueError):
                raise self._error(f"{name} is {given!r}: not a fraction for each of {users} users") from None
            smallest = _SMALLEST[name]
            is_fraction = (values >= smallest) & (values <= 1.0 + _ROUNDING)
            if values.shape != (users,) or not is_fraction.all():
                bound = f" of at least {smallest:g}" if smallest else ""
                raise self._error(f"{name} is {values!r}: not a fraction{bound} for each of {users} users")
        total = float(np.sum(decision.share))
        if total > 1.0 + _ROUNDING:
            raise self._error(f"the shares of the users of {tower} add up to {total:.6g}, more than the band")

    def _error(self, problem: str) -> ScenarioError:
        kind = kind_of(type(self._allocation))
        where = f"allocate() of {kind}, at {self._env.now:.6g} s of simulated time: "
        return ScenarioError([Fault("allocation", where + problem, None, _REMEDY)])
