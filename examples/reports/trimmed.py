"""An aggregation that reports how far its robust mean is from the plain mean."""

from typing import ClassVar

from netfl.learning.aggregation import Aggregation
from netfl.types import Reported


class Trimmed(Aggregation):
    """The mean change without the smallest and the largest value of each parameter; of one or two updates the mean.

    Example::

        kind: trimmed:Trimmed
    """

    reports: ClassVar = (Reported("trim_gap", "distance from the plain mean", low_is_good=True),)

    def step(self, state, current, updates):
        changes = (updates.models - updates.bases).sort(0).values
        if len(changes) > 2:
            changes = changes[1:-1]
        return current + changes.mean(0), state

    def metrics(self, state, current, updates, following):
        plain = (updates.models - updates.bases).mean(0)
        return {"trim_gap": (following - current - plain).norm()}
