"""Jobs, pairs of a learner and a delivered user that train side by side: how each weighs its losses, and its steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch import Tensor

if TYPE_CHECKING:
    from netfl.learning.settings import LearnerSpec


@dataclass(frozen=True, slots=True)
class Kind:
    """An objective of one kind at work on all jobs; what it says counts where *mine*, ``[jobs]``."""

    weights: Callable[[Tensor, Tensor, Tensor, Mapping[str, Tensor]], tuple[Tensor, Tensor]]
    hyper: Mapping[str, Tensor]
    mine: Tensor

    def first(self, count: int) -> Kind:
        """The same for the first jobs."""
        return Kind(self.weights, {name: value[:count] for name, value in self.hyper.items()}, self.mine[:count])

    def times(self, users: int) -> Kind:
        """The same for each of *users*."""
        if users == 1:
            return self
        hyper = {name: value.repeat(users) for name, value in self.hyper.items()}
        return Kind(self.weights, hyper, self.mine.repeat(users))


@dataclass(frozen=True, slots=True)
class Jobs:
    """The hyper-parameters of jobs that train side by side: ``lr`` is ``[jobs, 1]``, ``t_rate`` is ``[jobs]``."""

    count: int
    lr: Tensor
    t_rate: Tensor
    kinds: tuple[Kind, ...]

    def first(self, count: int) -> Jobs:
        """The same for the first jobs."""
        kinds = tuple(kind.first(count) for kind in self.kinds)
        return Jobs(count, self.lr[:count], self.t_rate[:count], kinds)

    def weigh(self, losses: Tensor, share: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
        """The weights of the examples and the slopes of t, each job's from its own objective."""
        weights, slopes = self.kinds[0].weights(losses, share, t, self.kinds[0].hyper)
        for kind in self.kinds[1:]:
            own, slope = kind.weights(losses, share, t, kind.hyper)
            weights, slopes = own.where(kind.mine[:, None], weights), slope.where(kind.mine, slopes)
        return weights, slopes


def kinds_of(specs: Sequence[LearnerSpec], like: Tensor) -> tuple[Kind, ...]:
    """The objectives of *specs* at work, for one user's jobs, in the type of *like*."""
    objectives = [spec.objective for spec in specs]
    kinds = []
    for kind in dict.fromkeys(type(one) for one in objectives):
        own = [type(one) is kind for one in objectives]
        filler = objectives[own.index(True)]
        hyper = [(one if mine else filler).hyper() for one, mine in zip(objectives, own, strict=True)]
        values = {name: like.new_tensor([one[name] for one in hyper]) for name in hyper[0]}
        kinds.append(Kind(kind.weights, values, like.new_tensor(own).bool()))
    return tuple(kinds)


def jobs_of(kinds: Sequence[Kind], users: int, rates: Tensor) -> Jobs:
    """The jobs of *users* for learners of *kinds*, user by user, with the step sizes *rates*, ``[jobs, 2]``."""
    return Jobs(len(rates), rates[:, :1], rates[:, 1], tuple(kind.times(users) for kind in kinds))
