"""Jobs, pairs of a learner and a delivered user that train side by side: how each weighs its losses, and its steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch import Tensor

if TYPE_CHECKING:
    from netfl.learning.settings import LearnerSpec


@dataclass(frozen=True, slots=True)
class _Kind:
    """An objective of one kind at work on all jobs; what it says counts where *mine*, ``[jobs]``."""

    weights: Callable[[Tensor, Tensor, Tensor, Mapping[str, Tensor]], tuple[Tensor, Tensor]]
    hyper: Mapping[str, Tensor]
    mine: Tensor

    def first(self, count: int) -> _Kind:
        """The same for the first jobs."""
        return _Kind(self.weights, {name: value[:count] for name, value in self.hyper.items()}, self.mine[:count])


@dataclass(frozen=True, slots=True)
class Jobs:
    """The hyper-parameters of jobs that train side by side: ``lr`` is ``[jobs, 1]``, ``t_rate`` is ``[jobs]``."""

    count: int
    lr: Tensor
    t_rate: Tensor
    kinds: tuple[_Kind, ...]

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


def jobs_of(specs: Sequence[LearnerSpec], users: int, rates: Tensor) -> Jobs:
    """The jobs of *users* for learners *specs*, user by user, with the step sizes *rates*, ``[jobs, 2]``."""
    objectives = [spec.objective for spec in specs]

    def spread(values: Sequence[float]) -> Tensor:
        return rates.new_tensor(values).repeat(users)

    kinds = []
    for kind in dict.fromkeys(type(one) for one in objectives):
        own = [type(one) is kind for one in objectives]
        filler = objectives[own.index(True)]
        hyper = [(one if mine else filler).hyper() for one, mine in zip(objectives, own, strict=True)]
        spreads = {name: spread([one[name] for one in hyper]) for name in hyper[0]}
        kinds.append(_Kind(kind.weights, spreads, spread(own).bool()))
    return Jobs(len(rates), rates[:, :1], rates[:, 1], tuple(kinds))
