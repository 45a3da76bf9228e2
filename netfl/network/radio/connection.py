"""The connection between users and towers: who of both is up, and which transmissions an outage interrupts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from netfl.network.outage._state import NodeState
from netfl.network.periods import after_rounding, before_rounding
from netfl.types import Bools, Floats, Ints


class Connection:
    """The outages and batteries of users and towers, as the cells and the downlink see them.

    A transmission that begins or ends with an outage, up to the rounding of the clock (`netfl.network.periods`), does
    so exactly.

    Args:
        node_state: state of the nodes; ``None`` if there are no outages.
        hearers: numbers of the towers that hear the users of every tower; none if their own tower alone does.

    Attributes:
        steady: whether there are no outages.
        usage_independent: whether outages do not depend on what users send.
    """

    def __init__(self, node_state: NodeState | None = None, hearers: Sequence[int] = ()) -> None:
        self._state = None if node_state is None or node_state.is_always_up else node_state  # None without outages
        self.steady = self._state is None
        self.usage_independent = self._state is None or not self._state.is_metered
        self._hearers = hearers

    def connected(self, ids: Ints, tower: int, time_s: float) -> Bools:
        """Return whether each user and the tower are up, ``[n]``."""
        if self._state is None:
            return np.ones(len(ids), np.bool_)
        time_s = after_rounding(time_s)
        is_tower_up = self._state.node_up_until_s(tower, time_s) > time_s
        return self._state.up(ids, time_s) & is_tower_up

    def connected_from(self, ids: Ints, tower: int, time_s: float) -> Floats:
        """Return the first time from *time_s* on at which each user and the tower are up, ``[n]``; or infinity."""
        if self._state is None:
            return np.full(len(ids), time_s)
        nodes = np.column_stack([ids, np.full(len(ids), tower)])  # [n, 2]: both must be up
        return self._state.all_up_from_s(nodes, after_rounding(time_s))

    def can_send(self, ids: Ints, tower: int, time_s: float) -> Bools:
        """Return whether each user of *tower* is up, and so is a tower that hears it, ``[n]``."""
        is_up = self.connected(ids, tower, time_s)
        for other in self._hearers:
            is_up = is_up | self.connected(ids, other, time_s)
        return is_up

    def can_send_from(self, ids: Ints, tower: int, time_s: float) -> Floats:
        """Return the first time from *time_s* on at which each user `can_send`, ``[n]``; or infinity."""
        from_s = self.connected_from(ids, tower, time_s)
        for other in self._hearers:
            from_s = np.minimum(from_s, self.connected_from(ids, other, time_s))
        return from_s

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
        start_s = after_rounding(start_s)
        sent_s = before_rounding(sent_s)
        end_s = before_rounding(end_s)
        if cut_s(tower, start_s, end_s) < end_s:  # the tower goes down
            return [True] * len(ids)
        return [cut_s(user, start_s, sent_s) < sent_s for user in ids.tolist()]

    def is_node_up(self, node: int, time_s: float) -> bool:
        """Return whether a tower, or another node of the infrastructure, is up."""
        if self._state is None:
            return True
        time_s = after_rounding(time_s)
        return self._state.node_up_until_s(node, time_s) > time_s

    def is_up_during(self, node: int, start_s: float, end_s: float) -> bool:
        """Return whether a tower is up now, at *start_s*, and no outage interrupts its sending until *end_s*."""
        if self._state is None:
            return True
        start_s = after_rounding(start_s)
        end_s = before_rounding(end_s)
        return self._state.node_up_until_s(node, start_s) > start_s and self._state.cut_s(node, start_s, end_s) >= end_s

    def listening(self, ids: Ints, time_s: float, *, is_tower_up: bool) -> Bools:
        """Return whether each user is up, ``[n]``, while its tower is up or was so when its signal set out."""
        if self._state is None:
            return np.ones(len(ids), np.bool_)
        return self._state.up(ids, after_rounding(time_s)) & is_tower_up

    def listening_during(self, ids: Ints, start_s: float, end_s: float, *, is_tower_up: bool) -> Bools:
        """Return whether each user is `listening` at *start_s*, and no outage of it begins until *end_s*, ``[n]``."""
        is_listening = self.listening(ids, start_s, is_tower_up=is_tower_up)
        if self._state is None or not is_listening.any():
            return is_listening
        start_s = after_rounding(start_s)
        end_s = before_rounding(end_s)
        listeners = ids[is_listening].tolist()
        is_listening[is_listening] = [self._state.cut_s(user, start_s, end_s) >= end_s for user in listeners]
        return is_listening

    def train(self, ids: Ints, time_s: Floats, until_s: Floats) -> Floats | None:
        """Take the energy of trainings from the users' batteries; return the share that each had, ``None`` for all."""
        if self._state is None:
            return None
        return self._state.train(ids, time_s, until_s)

    def stop(self, ids: Ints, time_s: Floats) -> None:
        """Let trainings that end at *time_s* take no more energy from the users' batteries."""
        if self._state is not None:
            self._state.stop(ids, time_s)

    def spend(
        self, ids: Ints, time_s: float, airtime_s: float | Floats, power_factor: Floats | None = None
    ) -> Floats | None:
        """Take the energy of sending from the users' batteries; return the share that each had, as `train`.

        *power_factor* is that of `netfl.network.energy.EnergyMeter.send`.
        """
        if self._state is None:
            return None
        return self._state.transmit(ids, time_s, airtime_s, power_factor)

    def receive(self, ids: Ints, time_s: float | Floats, airtime_s: float) -> Floats | None:
        """Take the energy of receiving a version from the users' batteries; return as `train`."""
        if self._state is None:
            return None
        return self._state.receive(ids, time_s, airtime_s)

    def evaluate(self, ids: Ints, time_s: float, joules: Floats) -> Floats | None:
        """Take the energy of evaluations from the users' batteries; return the share that each had, as `train`."""
        if self._state is None:
            return None
        return self._state.evaluate(ids, time_s, joules)

    def off_s(self, ids: Ints, from_s: Floats, by_s: Floats) -> Floats:
        """Return when each user is first switched off in [*from_s*, *by_s*), ``[n]``; infinity if it is not."""
        if self._state is None or not self._state.powers_devices:
            return np.full(len(ids), np.inf)
        return self._state.off_s(ids, from_s, by_s)


ALWAYS_CONNECTED = Connection()
"""A connection without outages."""


def mark_unpaid(interrupted: Sequence[bool] | None, shares: Floats | None) -> Sequence[bool] | None:
    """Return *interrupted* with the transmissions that had less than all of their energy, `Connection.spend`."""
    if shares is None or (shares == 1.0).all():
        return interrupted
    unpaid: list[bool] = (shares < 1.0).tolist()
    if interrupted is None:
        return unpaid
    return [any(causes) for causes in zip(interrupted, unpaid, strict=True)]
