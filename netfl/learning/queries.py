"""What an access asks of the learners: how well a version serves some users, and how far they would move it.

Answered for one lane, that of the learner to which the access listens, whatever other lanes there are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from netfl.errors import ModelError
from netfl.learning.cohort import Cohort
from netfl.learning.user_losses import user_losses
from netfl.types import QUESTIONS

if TYPE_CHECKING:
    from torch import Tensor

    from netfl.learning.architecture import Architecture
    from netfl.learning.minibatches import BatchSampler
    from netfl.learning.user_data import UserDatasets
from netfl.learning.local_training import LearnerGroup

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class LearnerQueries:
    """Answers about one learner's model.

    Args:
        group: that learner alone.
        network: what it trains.
        pool: the examples.
        shuffles: which of them a user trains on when.
        names: the learner in words, for each replica.
    """

    def __init__(
        self,
        group: LearnerGroup,
        network: Architecture,
        pool: UserDatasets,
        shuffles: BatchSampler,
        names: Sequence[str],
    ) -> None:
        self._group, self._network, self._pool, self._shuffles = group, network, pool, shuffles
        self._names = names
        self._answer: Mapping[str, Callable[[int, Ints, int, Tensor], Floats]] = {
            "loss": self._losses,
            "norm": self._norms,
        }

    def to(self, asks: Mapping[str, Sequence[int]], replica: int, number: int, version: Tensor) -> Mapping[str, Floats]:
        """A figure for each user that is asked of.

        Args:
            asks: what is asked, of which users.
            replica: where they live.
            number: that of the version.
            version: θ and, last, t of the lane, ``[parameters + 1]``.

        Raises:
            ModelError: a figure is not finite.
        """
        strange = [*asks.keys() - set(QUESTIONS)]
        if strange:
            raise ValueError(f"'{strange[0]}' is asked; what can be asked is {', '.join(QUESTIONS)}")
        answers = {}
        for question, asked in asks.items():
            users, there = np.array(asked, np.int64), self._pool.sizes.shape[1]
            if ((users < 0) | (users >= there)).any():
                raise ValueError(f"the {question} of a user is asked who is not among the {there}")
            found = self._answer[question](replica, users, number, version) if users.size else np.empty(0)
            broken = np.flatnonzero(~np.isfinite(found))
            if broken.size:
                problem = f"the {question} of version {number} is not finite: training diverged; a smaller lr may help"
                raise ModelError(self._names[replica], problem, user=int(users[broken[0]]))
            answers[question] = found
        return answers

    def _losses(self, replica: int, users: Ints, number: int, version: Tensor) -> Floats:
        """The mean loss of *version* over all examples that each of *users* holds."""
        return user_losses(self._network, self._pool, replica, users, version[None, :-1])[:, 0]

    def _norms(self, replica: int, users: Ints, number: int, version: Tensor) -> Floats:
        """How far each of *users* would move θ from *version*, if it trained from there."""
        everyone = Cohort(np.full(len(users), replica), users, np.full(len(users), number), ())
        room = self._group.at_once(everyone)
        parts = [everyone.at(slice(start, start + room)) for start in range(0, len(users), room)]
        return np.concatenate([self._moved(part, version) for part in parts])

    def _moved(self, cohort: Cohort, version: Tensor) -> Floats:
        """The same for as many users as there is room for."""
        bases = version.expand(len(cohort.users), 1, -1)
        models = self._group.updated(bases, self._shuffles, cohort).models
        change = (models[:, 0, :-1] - version[:-1]).double()
        return np.asarray(change.square().sum(1).sqrt().cpu().numpy())
