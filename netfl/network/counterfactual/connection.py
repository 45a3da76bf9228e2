"""The connection of users that are exempt from outages."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from netfl.network.counterfactual import Exemptions
from netfl.network.outage._state import NodeState
from netfl.network.periods import after_rounding
from netfl.network.radio.connection import Connection
from netfl.types import Bools, Floats, Ints


class UninterruptedConnection(Connection):
    """A connection on which exempt users have no outages, of themselves or of their tower, and energy for all they do.

    Their batteries are drained as those of others.
    """

    def __init__(self, exemptions: Exemptions, node_state: NodeState | None, hearers: Sequence[int] = ()) -> None:
        super().__init__(node_state, hearers)
        self._exemptions = exemptions

    def connected(self, ids: Ints, tower: int, time_s: float) -> Bools:
        return super().connected(ids, tower, time_s) | self._is_exempt(ids)

    def connected_from(self, ids: Ints, tower: int, time_s: float) -> Floats:
        from_s = super().connected_from(ids, tower, time_s)
        return np.where(self._is_exempt(ids), after_rounding(time_s), from_s)

    def interrupted(self, ids: Ints, tower: int, start_s: float, sent_s: float, end_s: float) -> Sequence[bool] | None:
        interrupted = super().interrupted(ids, tower, start_s, sent_s, end_s)
        if interrupted is None:
            return None
        exempt = self._is_exempt(ids).tolist()
        return [is_cut and not is_exempt for is_cut, is_exempt in zip(interrupted, exempt, strict=True)]

    def listening(self, ids: Ints, time_s: float, *, is_tower_up: bool) -> Bools:
        return super().listening(ids, time_s, is_tower_up=is_tower_up) | self._is_exempt(ids)

    def listening_during(self, ids: Ints, start_s: float, end_s: float, *, is_tower_up: bool) -> Bools:
        return super().listening_during(ids, start_s, end_s, is_tower_up=is_tower_up) | self._is_exempt(ids)

    def train(self, ids: Ints, time_s: Floats, until_s: Floats) -> Floats | None:
        return self._waive(ids, super().train(ids, time_s, until_s))

    def spend(
        self, ids: Ints, time_s: float, airtime_s: float | Floats, power_factor: Floats | None = None
    ) -> Floats | None:
        return self._waive(ids, super().spend(ids, time_s, airtime_s, power_factor))

    def receive(self, ids: Ints, time_s: float | Floats, airtime_s: float) -> Floats | None:
        return self._waive(ids, super().receive(ids, time_s, airtime_s))

    def evaluate(self, ids: Ints, time_s: float, joules: Floats) -> Floats | None:
        return self._waive(ids, super().evaluate(ids, time_s, joules))

    def off_s(self, ids: Ints, from_s: Floats, by_s: Floats) -> Floats:
        return np.where(self._is_exempt(ids), np.inf, super().off_s(ids, from_s, by_s))

    def _waive(self, ids: Ints, shares: Floats | None) -> Floats | None:
        """Let exempt users have all of the energy of which each had *shares*."""
        if shares is None:
            return None
        return np.where(self._is_exempt(ids), 1.0, shares)

    def _is_exempt(self, ids: Ints) -> Bools:
        return self._exemptions.among("outage", ids)
