"""The medium of a cell: it decides which transmissions are received, and which users are connected."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np

from netfl.network.counterfactual import NO_EXEMPTIONS, Exemptions
from netfl.network.energy import EnergyMeter
from netfl.network.layout import NodeId
from netfl.network.outage._state import NodeState
from netfl.network.periods import after_rounding, before_rounding
from netfl.network.radio.transmission import Signal, Transmission
from netfl.types import Bools, Floats, Ints

ReceptionResult = tuple[Sequence[str], Floats]
"""Cause of failure of each frame, or an empty string if it was received; and the SNR of each frame, in dB."""


@cache
def unknown_snr(n: int) -> Floats:
    """Return the SNR of *n* frames that is not known: NaN."""
    unknown = np.full(n, np.nan)
    unknown.setflags(write=False)
    return unknown


def mark_unpaid(interrupted: Sequence[bool] | None, shares: Floats | None) -> Sequence[bool] | None:
    """Return *interrupted* with the transmissions that had less than all of their energy, `Medium.spend`."""
    if shares is None or (shares == 1.0).all():
        return interrupted
    unpaid: list[bool] = (shares < 1.0).tolist()
    if interrupted is None:
        return unpaid
    return [any(causes) for causes in zip(interrupted, unpaid, strict=True)]


def mark_interrupted(transmission: Transmission, causes: list[str]) -> list[str]:
    """Return *causes* with ``lost`` for all senders that an outage interrupted, whatever else failed."""
    if transmission.interrupted is None:
        return causes
    return ["lost" if lost else cause for lost, cause in zip(transmission.interrupted, causes, strict=True)]


class Medium:
    """A medium on which transmissions fail by collisions and outages only, as closed forms of MACs assume.

    A transmission that begins or ends with an outage, up to the rounding of the clock (`netfl.network.periods`), does
    so exactly.

    Args:
        node_state: state of the nodes; ``None`` if there are no outages.

    Attributes:
        mode_names: names of the modes, empty where they have none.
        steady: whether there are no outages.
        usage_independent: whether outages do not depend on what users send.
        modes: number of modes that a sender can choose from.
        energy: energy meter of sendings and receptions; ``None`` for none.
    """

    modes = 1
    mode_names: Sequence[str] = ("",)
    energy: EnergyMeter | None = None

    def __init__(
        self, rate_bps: float, node_state: NodeState | None = None, exemptions: Exemptions = NO_EXEMPTIONS
    ) -> None:
        self._rate_bps = rate_bps
        self._exemptions = exemptions
        self._state = None if node_state is None or node_state.is_always_up else node_state  # None without outages
        self.steady = self._state is None
        self.usage_independent = self._state is None or not self._state.is_metered

    def set_power_offset(self, offset_db: Floats | None) -> None:
        """Let each user send with *offset_db* more power than that of the radio, ``[users]``; ``None`` is none."""
        if self.energy is not None:
            self.energy.set_power_offset(offset_db)

    def airtime_s(self, bits: float, mode: int = 0) -> float:
        """Return the airtime of *bits*."""
        return bits / self._rate_bps

    def longest_s(self, bits: float) -> float:
        """Return the airtime of *bits* in the slowest mode."""
        return max(self.airtime_s(bits, mode) for mode in range(self.modes))

    def most_robust_mode(self, bits: float) -> int:
        """Return the mode in which *bits* are received at the lowest SNR."""
        return 0

    def outcomes(self, transmission: Transmission) -> ReceptionResult:
        """Return which frames of a transmission were received, at its end."""
        n = len(transmission.ids)
        causes = ["collided" if transmission.interferers or n > 1 else ""] * n
        return mark_interrupted(transmission, causes), unknown_snr(n)

    def choose(self, ids: Ints, tower: NodeId, time_s: float, boost_db: float | None = None) -> Ints:
        """Return the mode in which each user sends or, if *boost_db* is given, the tower sends to it, ``[n]``.

        *boost_db* is the power of the tower above that of the radio.
        """
        return np.zeros(len(ids), np.int64)

    def snr_db(self, ids: Ints, tower: NodeId, time_s: float) -> Floats:
        """Return the present SNR of each user at *tower*, ``[n]``."""
        return np.full(len(ids), np.inf)

    def best_snr_db(self, ids: Ints) -> Floats:
        """Return an SNR that each user practically never exceeds, ``[n]``."""
        return np.full(len(ids), np.inf)

    def delay_s(self, ids: Ints, time_s: float) -> Floats | None:
        """Return the propagation delay of each user's signal, ``[n]``; ``None`` where it is negligible."""
        return None

    def connected(self, ids: Ints, tower: int, time_s: float) -> Bools:
        """Return whether each user and the tower are up, ``[n]``."""
        if self._state is None:
            return np.ones(len(ids), np.bool_)
        time_s = after_rounding(time_s)
        is_tower_up = self._state.node_up_until_s(tower, time_s) > time_s
        return self._add_exempt(ids, self._state.up(ids, time_s) & is_tower_up)

    def is_node_up(self, node: int, time_s: float) -> bool:
        """Return whether a tower, or another node of the infrastructure, is up."""
        if self._state is None:
            return True
        time_s = after_rounding(time_s)
        return self._state.node_up_until_s(node, time_s) > time_s

    def listening(self, ids: Ints, time_s: float, *, is_tower_up: bool) -> Bools:
        """Return whether each user is up, ``[n]``, while its tower is up or was so when its signal set out."""
        if self._state is None:
            return np.ones(len(ids), np.bool_)
        return self._add_exempt(ids, self._state.up(ids, after_rounding(time_s)) & is_tower_up)

    def connected_from(self, ids: Ints, tower: int, time_s: float) -> Floats:
        """Return the first time from *time_s* on at which each user and the tower are up, ``[n]``; or infinity."""
        if self._state is None:
            return np.full(len(ids), time_s)
        time_s = after_rounding(time_s)
        nodes = np.column_stack([ids, np.full(len(ids), tower)])  # [n, 2]: both must be up
        from_s = self._state.all_up_from_s(nodes, time_s)
        return self._replace_exempt(ids, from_s, time_s)

    def interrupted(self, ids: Ints, tower: int, start_s: float, sent_s: float, end_s: float) -> Sequence[bool] | None:
        """Return which transmissions an outage will interrupt; ``None`` for none.  Call it in the order of *start_s*.

        Args:
            ids: the senders, which must be up until *sent_s*.
            tower: the receiver, which must be up until *end_s*.
            start_s: start of the sending.
            sent_s: end of the sending.
            end_s: arrival of the end of the signal.
        """
        if self._state is None:
            return None
        cut_s = self._state.cut_s
        exempt_users = self._exemptions.outage
        start_s = after_rounding(start_s)
        sent_s = before_rounding(sent_s)
        end_s = before_rounding(end_s)
        if cut_s(tower, start_s, end_s) < end_s:  # the tower goes down
            return [user not in exempt_users for user in ids.tolist()]
        return [cut_s(user, start_s, sent_s) < sent_s and user not in exempt_users for user in ids.tolist()]

    def can_receive(self, ids: Ints, bits: float, boost_db: float) -> Bools:
        """Return whether the signal of a tower, *boost_db* above that of the radio, can ever suffice, ``[n]``."""
        return np.ones(len(ids), np.bool_)

    def is_up_during(self, node: int, start_s: float, end_s: float) -> bool:
        """Return whether a tower is up now, at *start_s*, and no outage interrupts its sending until *end_s*."""
        if self._state is None:
            return True
        start_s = after_rounding(start_s)
        end_s = before_rounding(end_s)
        return self._state.node_up_until_s(node, start_s) > start_s and self._state.cut_s(node, start_s, end_s) >= end_s

    def downlink_received(self, ids: Ints, signal: Signal, *, is_sent: bool = True) -> Bools:
        """Return whether each user receives *signal*, which arrives from now on, ``[n]``.

        Args:
            ids: the users; an outage of a user while the signal arrives ends its reception.
            signal: the signal, from its arrival to its end.
            is_sent: whether the tower was up while it sent.
        """
        up = self.listening(ids, signal.start_s, is_tower_up=is_sent)
        if self._state is None or not up.any():
            return up
        start_s = after_rounding(signal.start_s)
        end_s = before_rounding(signal.end_s)
        stays_up = np.array([self._state.cut_s(user, start_s, end_s) >= end_s for user in ids[up].tolist()])
        up[up] = stays_up | self._exemptions.among("outage", ids[up])
        return up

    def success_probability(self, ids: Ints, tower: NodeId, time_s: float, bits: float, modes: Ints) -> Floats:
        """Return the probability that each user's frame is received, without interference, in its mode, ``[n]``."""
        return np.ones(len(ids))

    def train(self, ids: Ints, time_s: Floats, samples: Floats) -> Floats | None:
        """Take the energy of trainings from the users' batteries; return the share that each had, ``None`` for all."""
        if self._state is None or not self._state.is_metered:
            return None
        return self._waive(ids, self._state.train(ids, time_s, samples))

    def spend(self, ids: Ints, time_s: float, bits: float | Floats) -> Floats | None:
        """Take the energy of sending *bits* from the users' batteries; return the share that each had, as `train`."""
        if self._state is None or not self._state.is_metered:
            return None
        return self._waive(ids, self._state.transmit(ids, time_s, bits))

    def off_s(self, ids: Ints, from_s: Floats, by_s: Floats) -> Floats:
        """Return when each user is first switched off in [*from_s*, *by_s*), ``[n]``; infinity if it is not."""
        if self._state is None or not self._state.powers_devices:
            return np.full(len(ids), np.inf)
        return self._replace_exempt(ids, self._state.off_s(ids, from_s, by_s), np.inf)

    def _waive(self, ids: Ints, shares: Floats | None) -> Floats | None:
        """Let users that are exempt from outages have all of their energy."""
        return None if shares is None else self._replace_exempt(ids, shares, 1.0)

    def _add_exempt(self, ids: Ints, is_up: Bools) -> Bools:
        """Return *is_up*, true also for users that are exempt from outages."""
        if not self._exemptions.outage:
            return is_up
        return is_up | self._exemptions.among("outage", ids)

    def _replace_exempt(self, ids: Ints, values: Floats, exempt_value: float) -> Floats:
        """Return *values* with *exempt_value* for users that are exempt from outages."""
        if not self._exemptions.outage:
            return values
        return np.where(self._exemptions.among("outage", ids), exempt_value, values)
