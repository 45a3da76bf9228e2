"""Round that closes with a quorum or at its deadline, and is void with too few updates."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Annotated

from pydantic import Field

from netfl.errors import Fault
from netfl.network.round import RoundPolicy
from netfl.network.round._losses import Losses
from netfl.types import ScenarioFacts
from netfl.units import Seconds


class Quorum(RoundPolicy):
    """The server waits for a share of the selected users until a deadline; with too few updates the round is void.

    A round closes when ``ceil(quorum · n)`` updates are delivered, when no further update that would count can arrive
    (`losses`), and at the deadline at the latest.  With fewer than ``ceil(min_share · n)`` updates at that time the
    round is abandoned: the updates are discarded, and the version stays (Bonawitz et al., "Towards federated learning
    at scale: system design", MLSys 2019, section 2.2).  n is the number of selected users that take part: those that
    an allocation leaves out (`left_out`) are neither waited for nor counted, whereas disconnected users are.

    Example::

        kind: quorum
        quorum: 0.8
        deadline: 10 min
        min_share: 0.1
    """

    quorum: Annotated[float, Field(gt=0, le=1)]
    """Share of the selected users with which a round closes."""
    deadline: Annotated[Seconds, Field(gt=0)]
    """Time from the opening of a round to its close at the latest."""
    min_share: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Share below which a round is abandoned."""
    losses: Losses = "known"
    """``known``: a round closes when no update that would count can arrive any more, as the others were lost.
    ``unknown``: only updates and the deadline close it, as a real server does not learn of losses; needs a deadline."""

    @property
    def deadline_s(self) -> float:
        return self.deadline

    @property
    def knows_losses(self) -> bool:
        return self.losses == "known"

    def is_complete(self, delivered: int, users: int) -> bool:
        return delivered >= _count(self.quorum, users)

    def is_valid(self, delivered: int, users: int) -> bool:
        return delivered >= _count(self.min_share, users)

    def max_updates(self, users: int) -> int:
        return _count(self.quorum, users)

    @property
    def can_be_void(self) -> bool:
        return self.min_share > 0

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        if self.min_share > self.quorum:
            yield Fault("min_share", f"more than the quorum, {self.quorum:g}", self.min_share, "set at most the quorum")


def _count(share: float, users: int) -> int:
    """Return the smallest number of *users* that is at least a share of them, for shares given as decimals.

    >>> _count(0.8, 10), _count(0.7, 10), _count(0.71, 10)
    (8, 7, 8)
    """
    return math.ceil(round(share * users, 9))
