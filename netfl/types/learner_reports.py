"""Reports of the learners after a round: metrics, answers to queries, and lanes whose training diverged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from netfl.types.arrays import Floats

QUERIES = ("loss", "norm")
"""What an access may ask of the learners about a user and the version that a round makes.

``loss``: the mean training loss of that version over all examples of the user.  ``norm``: the Euclidean norm of the
update, θ alone, that the user would make from that version.
"""


SMALLER_STEP = "a smaller lr may help"
"""The remedy at the end of the problem of a `Divergence`."""


@dataclass(frozen=True, slots=True)
class Divergence:
    """A lane whose training diverged: from then on it does not change and reports no metrics.

    Args:
        learner: the lane's learner.
        replica: the lane's replica.
        round: the round whose version could not be made or evaluated.
        user: the user whose update was not finite; ``None`` where the version itself was not.
        problem: the reason in words.
    """

    learner: str
    replica: int
    round: int
    user: int | None
    problem: str


@dataclass(frozen=True, slots=True)
class LearnerReport:
    """Report of the learners after a round: metrics by name, each an array over lanes.

    A name is ``metric`` or ``metric/group``, such as ``accuracy`` or ``accuracy/class:9``.  A round without an
    evaluation has no metrics.  A value that a lane does not have, or not since it diverged, is NaN.

    Args:
        round: the round, from 1; 0 before the first.
        metrics: the values.
        answers: for each replica the answers to `Round.queries`, by query, one value for each user in it, in the same
            order; empty without queries.  An access receives the answers of its own replica only.
        diverged: the lanes whose training diverged in this round.
        of_access: at an evaluation, what the selection and the allocation report (`netfl.types.Reported`) by name,
            ``[replicas]`` each: the means over their decisions since the last evaluation.
    """

    round: int
    metrics: Mapping[str, Floats] = field(default_factory=dict)
    answers: tuple[Mapping[str, Floats], ...] = ()
    diverged: tuple[Divergence, ...] = ()
    of_access: Mapping[str, Floats] = field(default_factory=dict)

    def to(self, replica: int) -> LearnerReport:
        """Return the report that the access of a replica receives."""
        return LearnerReport(self.round, self.metrics, self.answers[replica : replica + 1])

    def answer(self, query: str) -> Floats | None:
        """Return the answer to a query of the access that receives this report; ``None`` if there is none."""
        if not self.answers:
            return None
        return self.answers[0].get(query)
