"""Who may try, as the server is told at the opening of each round."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from netfl.types import LearnerReport


class Admission(Protocol):
    """Decides who may try, round after round, and what is asked of the learners for that."""

    def choose(self, round: int, report: LearnerReport | None) -> NDArray[np.int64]:
        """Who may try in *round*, which opens after *report*: distinct users in rising order."""

    def told(self) -> Mapping[str, NDArray[np.float64]]:
        """What MACs are told of the users in this round, each ``[users]``, NaN where unknown; empty if nothing."""

    def heard(self, round: int, users: Sequence[int]) -> None:
        """*users* were heard in *round*."""

    def asks(self, round: int) -> Mapping[str, tuple[int, ...]]:
        """What is to be asked of the learners before *round*."""


class AdmitAll:
    """Everybody may always try.

    Args:
        users: how many there are.
    """

    def __init__(self, users: int) -> None:
        self._users = np.arange(users)

    def choose(self, round: int, report: LearnerReport | None) -> NDArray[np.int64]:
        """All."""
        return self._users

    def told(self) -> Mapping[str, NDArray[np.float64]]:
        """Nothing."""
        return {}

    def heard(self, round: int, users: Sequence[int]) -> None:
        """No matter."""

    def asks(self, round: int) -> Mapping[str, tuple[int, ...]]:
        """Nothing."""
        return {}
