"""The selection of users that are exempt from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from netfl.network.counterfactual import Exemptions
from netfl.network.server import Admission
from netfl.types import Floats, Ints, LearnerReport


class InclusiveAdmission(Admission):
    """A selection to which exempt users are added in every round.

    Args:
        inner: the selection.
    """

    def __init__(self, exemptions: Exemptions, inner: Admission) -> None:
        self._inner = inner
        self._added = np.array(exemptions.selection, np.int64)

    def call(self) -> float:
        return self._inner.call()

    def choose(self, round: int, report: LearnerReport | None) -> Ints:
        return np.union1d(self._inner.choose(round, report), self._added)

    def metrics_for_mac(self) -> Mapping[str, Floats]:
        return self._inner.metrics_for_mac()

    def deadline_s(self) -> float | None:
        return self._inner.deadline_s()

    def note_arrival(self, user: int, duration_s: float) -> None:
        self._inner.note_arrival(user, duration_s)

    def record_deliveries(self, round: int, users: Sequence[int]) -> None:
        self._inner.record_deliveries(round, users)

    def queries(self, round: int) -> Mapping[str, tuple[int, ...]]:
        return self._inner.queries(round)
