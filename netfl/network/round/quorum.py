"""A round closes when a quorum has been heard, or at its deadline; with too few it comes to nothing."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Annotated

from pydantic import Field

from netfl.errors import Fault
from netfl.network.round import RoundPolicy
from netfl.types import Law, ScenarioFacts
from netfl.units import Seconds


class Quorum(RoundPolicy):
    """The server waits for a share of those who may try, until a deadline; with fewer than a least share, in vain.

    A round closes when ``ceil(quorum · n)`` updates have come, n being how many may try, and at the deadline at the
    latest.  Where fewer than ``ceil(least · n)`` have come by then, the round is abandoned: what came is discarded, and
    the version stays as it was (Bonawitz et al., "Towards federated learning at scale: system design", MLSys 2019,
    section 2.2).

    Example::

        kind: quorum
        quorum: 0.8
        deadline: 10 min
        least: 0.1
    """

    quorum: Annotated[float, Field(gt=0, le=1)]
    """The share of those who may try with which a round closes."""
    deadline: Annotated[Seconds, Field(gt=0)]
    """How long after its opening a round closes at the latest."""
    least: Annotated[float, Field(ge=0, le=1)] = 0.0
    """The share below which a round is abandoned."""

    def enough(self, heard: int, users: int) -> bool:
        """As soon as there is a quorum."""
        return heard >= _of(self.quorum, users)

    def counts(self, heard: int, users: int) -> bool:
        """Whether the least share has come."""
        return heard >= _of(self.least, users)

    def most(self, users: int) -> int:
        """A quorum."""
        return _of(self.quorum, users)

    @property
    def voids(self) -> bool:
        """With a least share."""
        return self.least > 0

    @property
    def deadline_s(self) -> float | None:
        """The deadline."""
        return self.deadline

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        """More needed than there can be."""
        if self.least > self.quorum:
            yield Fault(
                "least", f"more than the quorum, {self.quorum:g}", self.least, "ask for no more than the quorum"
            )

    def laws(self) -> tuple[Law, ...]:
        """Nothing is drawn."""
        return (Law.none("counts what arrives: nothing is drawn"),)


def _of(share: float, users: int) -> int:
    """The least number of *users* that is no less than a share of them, as decimal figures say it.

    >>> _of(0.8, 10), _of(0.7, 10), _of(0.71, 10)
    (8, 7, 8)
    """
    return math.ceil(round(share * users, 9))
