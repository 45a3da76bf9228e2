"""Trainings whose updates never arrived, of devices that keep what they trained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from netfl.learning.cohort import Cohort, RepeatCounter
from netfl.learning.minibatches import BatchSampler

if TYPE_CHECKING:
    import torch

    from netfl.learning.step_graphs import StepGraphs
    from netfl.streams import Streams


class TrainingsInVain:
    """The mini-batches of trainings in vain: draws of their own, so that those of delivered updates stay as they are.

    Args:
        streams: of each replica.
        device: that trains.
        graphs: of the steps on a GPU.

    Attributes:
        sampler: draws the mini-batches.
        repeats: how often each user has trained in vain from each version.
    """

    def __init__(self, streams: Sequence[Streams], device: torch.device, graphs: StepGraphs | None) -> None:
        self.sampler = BatchSampler([stream.at("in vain") for stream in streams], device, graphs)
        self.repeats = RepeatCounter()

    def count(self, cohort: Cohort) -> Cohort:
        """Count the trainings in vain before deliveries, and return these with their `Cohort.lost_repeats`."""
        if cohort.lost_bases is None:
            return cohort
        counts = [len(bases) for bases in cohort.lost_bases]
        trainings = Cohort(
            replicas=np.repeat(cohort.replicas, counts),
            users=np.repeat(cohort.users, counts),
            bases=np.concatenate(cohort.lost_bases).astype(np.int64),
            parts=(),
        )
        repeats = self.repeats.count(trainings).repeats
        if repeats is None:
            return cohort
        of_deliveries = np.split(repeats, np.cumsum(counts)[:-1])
        return replace(cohort, lost_repeats=tuple(tuple(each.tolist()) for each in of_deliveries))
