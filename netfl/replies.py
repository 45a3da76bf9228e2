"""What learners say after a round: figures, answers, and who diverged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Divergence:
    """A lane whose training diverged: it stands still from then on, and says nothing any more.

    Args:
        learner: the lane's learner.
        replica: the lane's replica.
        round: the round whose version it could not make, or could not evaluate.
        user: whose update was not finite; ``None`` where it was the version itself.
        problem: in words.
    """

    learner: str
    replica: int
    round: int
    user: int | None
    problem: str


@dataclass(frozen=True, slots=True)
class Report:
    """What the learner found after a round: figures by name, each an array over lanes.

    A name is ``metric`` or ``metric/group``, such as ``accuracy`` or ``accuracy/class:9``.  Empty after a round
    that was not evaluated.  A figure that a lane does not have, or no longer since it diverged, is NaN.

    Args:
        round: the round, from 1; 0 before the first.
        metrics: the figures.
        answers: for each replica what its access asked after the round, a figure for each user that it asked of, in
            that order; empty where nobody asked.  An access is sent its own replica's alone.
        diverged: the lanes whose training diverged in this round.
    """

    round: int
    metrics: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)
    answers: tuple[Mapping[str, NDArray[np.float64]], ...] = ()
    diverged: tuple[Divergence, ...] = ()

    def to(self, place: int) -> Report:
        """What the access of the replica at *place* is sent."""
        return Report(self.round, self.metrics, self.answers[place : place + 1])

    def answer(self, question: str) -> NDArray[np.float64] | None:
        """What an access was told on *question*; ``None`` if nothing."""
        return self.answers[0].get(question) if self.answers else None
