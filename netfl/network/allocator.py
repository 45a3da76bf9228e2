"""Decisions of an allocation in a network: it is asked as each round opens, and what it decides takes effect."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

import numpy as np

from netfl.core.plugin_answers import PluginMethod
from netfl.network.allocation import MIN_FREQUENCY, MIN_POWER, Allocation, AllocationRequest, Blocks, Decision
from netfl.network.clock import Clock
from netfl.network.config import NetworkConfig
from netfl.network.membership import Membership
from netfl.network.tower import Tower
from netfl.types import Floats, Recorder, RoundControls, Users, reported_problem
from netfl.units import db_to_linear

_REMEDY = "return a Decision with fractions, [n] each, whose shares add up to at most 1"
_WIDE_REMEDY = "give no user more than request.limits, the largest share that its radio can use"
_BLOCK_REMEDY = "return request.blocks.decision(block, power) with one block for each user at most, and -1 for none"
_SMALLEST = {"share": 0.0, "power": MIN_POWER, "frequency": MIN_FREQUENCY}
"""Smallest fraction of each part of a decision."""
_ROUNDING = 1e-9
"""Amount by which fractions and their sums may exceed 1, as rounding."""
_MIN_FREE = 0.01
"""Part of the band that is worth to be divided; of less, new frames wait for those on the air."""
_MIN_W = 1e-12
"""Power of sending that counts for users whose sending is free."""
_MIN_SNR_DB = -100.0
"""SNR below which allocations do not distinguish users."""


def set_frequency(factor: Floats, config: NetworkConfig, towers: Iterable[Tower]) -> None:
    """Let trainings that begin from now on run at *factor* times the frequency of each processor, ``[users]``."""
    for tower in towers:
        tower.set_frequency(factor[tower.cell.ids])
    if config.energy is not None:
        config.energy.frequency_factor = factor


def drop_without_share(controls: RoundControls, selected: Users) -> Users:
    """Return those of the users *selected* for a round that have a share of the band, by the caller's *controls*.

    The others would train, and the round would wait for updates that cannot be sent.
    """
    share = controls.mac.get("share")
    if share is None:
        return selected
    return selected[share[selected] > 0.0]


class RoundAllocator:
    """The allocation of one replica.

    Args:
        allocation: the model that decides.
        config: the network.
        env: its clock.
        towers: its towers, by name.
        membership: the tower of each user.
        recorder: receiver of the metrics that the allocation reports.
    """

    def __init__(
        self,
        allocation: Allocation,
        config: NetworkConfig,
        env: Clock,
        towers: Mapping[str, Tower],
        membership: Membership,
        recorder: Recorder,
    ) -> None:
        self._allocation = allocation
        self._config = config
        self._env = env
        self._towers = [*towers.values()]
        self._membership = membership
        self._recorder = recorder
        users = config.layout.users
        self._share = np.zeros(users)
        self._power = np.ones(users)
        self._frequency = np.ones(users)
        self._outside = np.zeros(users)
        self._block = np.full(users, -1)
        self._is_isolated = config.exemptions.among("contention", np.arange(users))
        self._rounds = 0
        self._interference_dbm = None
        if config.mac is not None:
            self._interference_dbm = config.mac.block_interference_dbm

    def apply(self, selected: Users) -> Users:
        """Decide on the users *selected* for a round, cell by cell; return those that have a share.

        Raises:
            ScenarioError: the allocation failed, or did not return fractions that add up to at most the free band; the
                key is ``allocation``.
        """
        medium = self._config.medium
        assert medium is not None
        self._rounds += 1

        # the decisions, by the SNRs at full power
        medium.set_power_offset(None)
        self._share[:] = 0.0
        self._block[:] = -1
        for tower in self._towers:
            for users in self._competitors(tower, selected):
                self._decide(tower, users)

        # they take effect
        medium.set_power_offset(10.0 * np.log10(self._power))
        if self._interference_dbm is not None:
            medium.set_outside(self._outside.copy())
        set_frequency(self._frequency.copy(), self._config, self._towers)
        for tower in self._towers:
            for cell in tower.cells:
                share = self._share[cell.ids]
                if cell is tower.cell:
                    share[self._is_isolated[cell.ids]] = 0.0  # they have their shares in cells of their own
                controls = {**cell.controls, "share": share}
                if self._interference_dbm is not None:
                    controls["block"] = self._block[cell.ids].astype(float)
                cell.set_controls(controls)
        return selected[self._share[selected] > 0.0]

    def _competitors(self, tower: Tower, selected: Users) -> Iterator[Users]:
        """Yield the users that share the band of *tower*, and each user that is exempt from contention, alone.

        Users have their numbers in the cell of *tower*.
        """
        ids = tower.cell.ids
        is_selected = np.isin(ids, selected) & self._membership.is_member(tower.index)
        sharing = np.flatnonzero(is_selected & ~self._is_isolated[ids])
        if sharing.size:
            yield sharing
        for user in np.flatnonzero(is_selected & self._is_isolated[ids]).tolist():
            yield np.array([user])

    def _decide(self, tower: Tower, users: Users) -> None:
        """Decide on *users*, by their numbers in the cell of *tower*."""
        free = self._free_part(tower, users)
        request = self._request(tower, users, free)
        method = self._method("allocate", _REMEDY)
        decision = method.instance(lambda: self._allocation.allocate(request), Decision)
        self._check(decision, method, tower.name, request)
        if self._allocation.reports:
            self._report(request, decision)

        ids = tower.cell.ids[users]
        self._share[ids] = free * np.asarray(decision.share, float)
        self._power[ids] = decision.power
        self._frequency[ids] = decision.frequency
        if request.blocks is not None and decision.block is not None:
            block = np.asarray(decision.block, np.int64)
            self._block[ids] = block
            has_block = block >= 0
            self._outside[ids[has_block]] = request.blocks.outside[has_block, block[has_block]]

    def _free_part(self, tower: Tower, users: Users) -> float:
        """Return the part of the band of *tower* that *users* divide, beside the frames on the air.

        Frames of others keep their shares.  One of *users* that is still on the air needs its new share when its frame
        has ended.  Until then the rest have to fit beside it: they do in equal shares, each of a k-th of the part, if
        the part is k times what is free for each of them.  Where almost nothing is free, frames of the round wait.
        """
        if self._interference_dbm is not None or self._is_isolated[tower.cell.ids[users]].all():
            return 1.0  # a frame delays its own block alone, and an isolated user shares with nobody
        on_air = tower.cell.shares_on_air()
        late_share = float(on_air[users].sum())
        free = 1.0 - (float(on_air.sum()) - late_share)
        if free < _MIN_FREE:
            return 1.0
        rest = np.count_nonzero(on_air[users] == 0.0)
        if rest in {0, len(users)}:  # all of them are late, or none
            return free
        fitting = (free - late_share) * len(users) / rest
        if not _MIN_FREE <= fitting < free - _ROUNDING:
            return free
        return fitting

    def _request(self, tower: Tower, users: Users, free: float) -> AllocationRequest:
        """Return the request for *users*, by their numbers in the cell of *tower*, of which this part is free."""
        ids = tower.cell.ids[users]
        service = self._config.service
        assert service is not None
        band = self._config.band
        known_snr = None
        if "snr_db" in self._allocation.observes:
            snr_db = band.snr_db(ids, tower.present.snr_db(users)) - tower.cell.snr_gap_db
            known_snr = db_to_linear(np.maximum(snr_db, _MIN_SNR_DB)) / free
        max_share = np.minimum(band.limits(ids) / free, 1.0)
        request = AllocationRequest(
            known_snr=known_snr,
            bits=tower.update_bits[users],
            train_s=service.compute_s[ids],
            train_j=np.zeros(len(users)),
            fixed_j=np.zeros(len(users)),
            transmit_w=np.zeros(len(users)),
            bandwidth_hz=free * band.width_hz,
            max_share=max_share,
        )
        energy = self._config.energy
        if energy is not None:
            request = replace(
                request,
                train_j=energy.cycles_j[ids],
                fixed_j=energy.fixed_j[ids],
                transmit_w=np.maximum(energy.transmit_w[ids], _MIN_W),
            )
        if self._interference_dbm is not None:
            request = replace(request, blocks=self._blocks(tower, ids, self._interference_dbm))
        return request

    def _blocks(self, tower: Tower, ids: Users, interference_dbm: Floats) -> Blocks:
        """Return the blocks of the band of *tower* for its users *ids*."""
        medium = self._config.medium
        reception = self._config.reception
        assert medium is not None
        assert reception is not None
        samples = np.ones(len(ids))
        if self._config.held is not None:
            samples = self._config.held[ids]
        outside = medium.outside_over_noise(ids, tower.cell.tower, interference_dbm)
        count = len(interference_dbm)
        numbers = self._towers.index(tower) * count + np.arange(count)
        return Blocks(outside, reception, ids, samples, numbers, self._config.allocation_streams, self._rounds)

    def _report(self, request: AllocationRequest, decision: Decision) -> None:
        """Record the metrics that the allocation reports with a decision."""
        method = self._method("metrics", "correct this method")
        values = method.answer(lambda: self._allocation.metrics(request, decision))
        wrong = reported_problem(self._allocation.reports, values, numbers=True)
        if wrong is not None:
            raise method.error(*wrong)
        self._recorder.round_metrics(self._rounds, values)

    def _check(self, decision: Decision, method: PluginMethod, tower: str, request: AllocationRequest) -> None:
        """Raise an error of *method* unless the decision gives each user a fraction, of no more than there is."""
        users = request.users
        for name in ("share", "power", "frequency"):
            given = getattr(decision, name)
            try:
                values = np.asarray(given, float)
            except (TypeError, ValueError):
                raise method.error(f"{name} is {given!r}: not a fraction for each of {users} users") from None
            smallest = _SMALLEST[name]
            is_fraction = (values >= smallest) & (values <= 1.0 + _ROUNDING)
            if values.shape != (users,) or not is_fraction.all():
                bound = f" of at least {smallest:g}" if smallest else ""
                raise method.error(f"{name} is {values!r}: not a fraction{bound} for each of {users} users")
        total = float(np.sum(decision.share))
        if total > 1.0 + _ROUNDING:
            raise method.error(
                f"the shares of the users of {tower} add up to {total:.6g}, more than the band that is free"
            )
        is_wide = np.asarray(decision.share, float) > request.limits + _ROUNDING
        if is_wide.any():
            problem = (
                f"share is {decision.share!r}: {np.flatnonzero(is_wide).tolist()} of the request have wider shares "
            )
            raise method.error(problem + "than their radios", _WIDE_REMEDY)
        if self._interference_dbm is not None:
            self._check_blocks(decision, method, tower)

    def _check_blocks(self, decision: Decision, method: PluginMethod, tower: str) -> None:
        """Raise an error unless each block has at most one user, whose share is that of a block."""
        assert self._interference_dbm is not None
        count = len(self._interference_dbm)
        block = decision.block
        if block is None:
            raise method.error("gives no blocks", _BLOCK_REMEDY)
        given = np.asarray(block)
        if given.shape != np.shape(decision.share) or not np.isin(given, np.arange(-1, count)).all():
            raise method.error(f"block is {block!r}: not a number from -1 to {count - 1} for each user", _BLOCK_REMEDY)
        assigned = given[given >= 0]
        if len(np.unique(assigned)) < len(assigned):
            raise method.error(f"block is {block!r}: several users of {tower} have one block", _BLOCK_REMEDY)
        if not np.allclose(decision.share, np.where(given >= 0, 1.0 / count, 0.0)):
            raise method.error(f"share is {decision.share!r}: not that of the blocks {block!r}", _BLOCK_REMEDY)

    def _method(self, name: str, remedy: str) -> PluginMethod:
        circumstance = f", at {self._env.now:.6g} s of simulated time:"
        return PluginMethod(self._allocation, name, remedy, "allocation", circumstance)
