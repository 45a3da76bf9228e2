"""Answers to the queries of accesses about a learner: losses of users, and norms of their next updates."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from netfl.errors import ModelError
from netfl.learning.cohort import Cohort
from netfl.learning.evaluation import user_losses
from netfl.learning.local_training import LearnerGroup
from netfl.types import QUESTIONS

if TYPE_CHECKING:
    from torch import Tensor

    from netfl.learning.architecture import Architecture
    from netfl.learning.minibatches import BatchSampler
    from netfl.learning.user_data import UserDatasets

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class LearnerQueries:
    """Answers queries about the model of one learner.

    Args:
        group: that learner alone.
        architecture: of the model.
        data: the training examples.
        sampler: draws the mini-batches.
        names: the lane of each replica, for messages.
    """

    def __init__(
        self,
        group: LearnerGroup,
        architecture: Architecture,
        data: UserDatasets,
        sampler: BatchSampler,
        names: Sequence[str],
    ) -> None:
        self._group, self._architecture, self._data, self._sampler = group, architecture, data, sampler
        self._names = names
        self._methods: Mapping[str, Callable[[int, Ints, int, Tensor], Floats]] = {
            "loss": self._losses,
            "norm": self._norms,
        }

    def answer(
        self, queries: Mapping[str, Sequence[int]], replica: int, number: int, version: Tensor
    ) -> Mapping[str, Floats]:
        """Return one value for each user of each query.

        Args:
            queries: the users of each query.
            replica: of the users.
            number: of the version.
            version: θ and, last, t of the lane, ``[parameters + 1]``.

        Raises:
            ModelError: a value is not finite.
        """
        unknown = [*queries.keys() - set(QUESTIONS)]
        if unknown:
            raise ValueError(f"'{unknown[0]}' is asked; what can be asked is {', '.join(QUESTIONS)}")
        answers = {}
        for query, user_ids in queries.items():
            users, count = np.array(user_ids, np.int64), self._data.sizes.shape[1]
            if ((users < 0) | (users >= count)).any():
                raise ValueError(f"the {query} of a user is asked who is not among the {count}")
            values = self._methods[query](replica, users, number, version) if users.size else np.empty(0)
            broken = np.flatnonzero(~np.isfinite(values))
            if broken.size:
                problem = f"the {query} of version {number} is not finite: training diverged; a smaller lr may help"
                raise ModelError(self._names[replica], problem, user=int(users[broken[0]]))
            answers[query] = values
        return answers

    def _losses(self, replica: int, users: Ints, number: int, version: Tensor) -> Floats:
        """Return the mean loss of *version* over the training examples of each user."""
        return user_losses(self._architecture, self._data, replica, users, version[None, :-1])[:, 0]

    def _norms(self, replica: int, users: Ints, number: int, version: Tensor) -> Floats:
        """Return the norm of each user's change of θ if it trained from *version*."""
        cohort = Cohort(np.full(len(users), replica), users, np.full(len(users), number), ())
        max_jobs = self._group.max_jobs(cohort)
        parts = [cohort.select(slice(start, start + max_jobs)) for start in range(0, len(users), max_jobs)]
        return np.concatenate([self._change_norms(part, version) for part in parts])

    def _change_norms(self, cohort: Cohort, version: Tensor) -> Floats:
        bases = version.expand(len(cohort.users), 1, -1)
        models = self._group.train_cohort(bases, self._sampler, cohort).models
        change = (models[:, 0, :-1] - version[:-1]).double()
        return np.asarray(change.square().sum(1).sqrt().cpu().numpy())
