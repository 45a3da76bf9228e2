"""Selection of users: who may take part in each round."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from netfl.types import LearnerReport


class Admission(Protocol):
    """Selects the users of each round, and the queries to the learners that this needs."""

    def choose(self, round: int, report: LearnerReport | None) -> NDArray[np.int64]:
        """Return the users selected for *round*, which opens after *report*, in rising order."""

    def metrics_for_mac(self) -> Mapping[str, NDArray[np.float64]]:
        """Return metrics of the users for MACs in this round, ``[users]`` each, NaN where unknown; or none."""

    def record_deliveries(self, round: int, users: Sequence[int]) -> None:
        """Note that updates of *users* were delivered in *round*."""

    def queries(self, round: int) -> Mapping[str, tuple[int, ...]]:
        """Return the queries to the learners before *round*."""


class AdmitAll:
    """Select all users in every round.

    Args:
        users: Number of users.
    """

    def __init__(self, users: int) -> None:
        self._users = np.arange(users)

    def choose(self, round: int, report: LearnerReport | None) -> NDArray[np.int64]:
        """Return all users."""
        return self._users

    def metrics_for_mac(self) -> Mapping[str, NDArray[np.float64]]:
        """Return no metrics."""
        return {}

    def record_deliveries(self, round: int, users: Sequence[int]) -> None:
        """Do nothing."""

    def queries(self, round: int) -> Mapping[str, tuple[int, ...]]:
        """Return no queries."""
        return {}
