"""Local training of all jobs, pairs of a learner and a delivered user, as one batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from netfl.learning.batch_limits import max_jobs_at_once, skip_zero_backward
from netfl.learning.cohort import Cohort
from netfl.learning.minibatches import Batches, BatchLoader, BatchSampler, LocalWork
from netfl.learning.tensors import tensor

if TYPE_CHECKING:
    from netfl.learning.architecture import Architecture, BatchedModel
    from netfl.learning.spec import LearnerSpec
    from netfl.learning.user_data import BatchRows, UserDatasets


# What a local step has beside the gradient of the losses: weight decay, a pull to the base, drift, momentum.


@dataclass(frozen=True, slots=True)
class SgdTerms:
    """What each job has of them.

    Args:
        lr: step sizes, ``[jobs]``.
        momentum: how much of the step before is added to each, ``[jobs]``.
        decay: how many times θ is added to the gradient, ``[jobs]``.
        pull: how many times θ - base is, ``[jobs]``.
        drift: what else is, ``[jobs, parameters]``; ``None`` for nothing.
    """

    lr: Tensor
    momentum: Tensor
    decay: Tensor
    pull: Tensor
    drift: Tensor | None


class StepCorrections:
    """Completes the steps of a stack: ``θ⁺ = θ - lr (g + λ θ + μ (θ - base) + d) + m (θ - θ⁻)``.

    θ⁻ is where θ was a step before; the first step has none.  With a constant lr that is the momentum of PyTorch's SGD,
    ``v⁺ = m v + gradient`` and ``θ⁺ = θ - lr v⁺``.  The term of g is the stack's own; `before` and `after` stand around
    it.

    Args:
        network: what is trained.
        stack: the models, as they start.
        bases: where they start, ``[jobs, parameters]``.
        terms: of each job.
    """

    def __init__(self, network: Architecture, stack: BatchedModel, bases: Tensor, terms: SgdTerms) -> None:
        self._stack, jobs = stack, len(bases)
        self._slope = -terms.lr * (terms.decay + terms.pull)
        still = None
        if terms.pull.any():
            still = terms.pull[:, None] * bases
        if terms.drift is not None:
            still = -terms.drift if still is None else still.sub_(terms.drift)
        self._still = None if still is None else network.open(still.mul_(terms.lr[:, None])).values(jobs)
        self._momentum, moves = terms.momentum, bool(terms.momentum.any())
        self._before = [value.clone() for value in stack.values(jobs)] if moves or self._slope.any() else None
        self._moved = [torch.zeros_like(value) for value in stack.values(jobs)] if moves else None

    def before(self, jobs: int) -> None:
        """Remember where the first *jobs* are, if that matters."""
        if self._before is not None:
            for before, value in zip(self._before, self._stack.values(jobs), strict=True):
                before[:jobs].copy_(value)

    def after(self, jobs: int) -> None:
        """Add to the steps of the first *jobs* what is not the gradient of their losses."""
        for index, value in enumerate(self._stack.values(jobs)):
            each = (jobs, *[1] * (value.ndim - 1))
            before = None if self._before is None else self._before[index][:jobs]
            if before is not None:
                value.addcmul_(before, self._slope[:jobs].view(each))
            if self._still is not None:
                value.add_(self._still[index][:jobs])
            if before is not None and self._moved is not None:
                moved = self._moved[index][:jobs]
                value.addcmul_(moved, self._momentum[:jobs].view(each))
                moved.copy_(value).sub_(before)


# Jobs, pairs of a learner and a delivered user that train side by side: how each weighs its losses, and its steps.


@dataclass(frozen=True, slots=True)
class ObjectiveBatch:
    """An objective of one kind at work on all jobs; what it says counts where *mine*, ``[jobs]``."""

    weights: Callable[[Tensor, Tensor, Tensor, Mapping[str, Tensor]], tuple[Tensor, Tensor]]
    hyper: Mapping[str, Tensor]
    mine: Tensor

    def first(self, count: int) -> ObjectiveBatch:
        """The same for the first jobs."""
        return ObjectiveBatch(
            self.weights, {name: value[:count] for name, value in self.hyper.items()}, self.mine[:count]
        )

    def times(self, users: int) -> ObjectiveBatch:
        """The same for each of *users*."""
        if users == 1:
            return self
        hyper = {name: value.repeat(users) for name, value in self.hyper.items()}
        return ObjectiveBatch(self.weights, hyper, self.mine.repeat(users))


@dataclass(frozen=True, slots=True)
class JobHyperparameters:
    """The hyper-parameters of jobs that train side by side: ``lr`` is ``[jobs, 1]``, ``t_rate`` is ``[jobs]``."""

    count: int
    lr: Tensor
    t_rate: Tensor
    kinds: tuple[ObjectiveBatch, ...]

    def first(self, count: int) -> JobHyperparameters:
        """The same for the first jobs."""
        kinds = tuple(kind.first(count) for kind in self.kinds)
        return JobHyperparameters(count, self.lr[:count], self.t_rate[:count], kinds)

    def weigh(self, losses: Tensor, share: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
        """The weights of the examples and the slopes of t, each job's from its own objective."""
        weights, slopes = self.kinds[0].weights(losses, share, t, self.kinds[0].hyper)
        for kind in self.kinds[1:]:
            own, slope = kind.weights(losses, share, t, kind.hyper)
            weights, slopes = own.where(kind.mine[:, None], weights), slope.where(kind.mine, slopes)
        return weights, slopes


def kinds_of(specs: Sequence[LearnerSpec], like: Tensor) -> tuple[ObjectiveBatch, ...]:
    """The objectives of *specs* at work, for one user's jobs, in the type of *like*."""
    objectives = [spec.objective for spec in specs]
    kinds = []
    for kind in dict.fromkeys(type(one) for one in objectives):
        own = [type(one) is kind for one in objectives]
        filler = objectives[own.index(True)]
        hyper = [(one if mine else filler).hyper() for one, mine in zip(objectives, own, strict=True)]
        values = {name: like.new_tensor([one[name] for one in hyper]) for name in hyper[0]}
        kinds.append(ObjectiveBatch(kind.weights, values, like.new_tensor(own).bool()))
    return tuple(kinds)


def jobs_of(kinds: Sequence[ObjectiveBatch], users: int, rates: Tensor) -> JobHyperparameters:
    """The jobs of *users* for learners of *kinds*, user by user, with the step sizes *rates*, ``[jobs, 2]``."""
    return JobHyperparameters(len(rates), rates[:, :1], rates[:, 1], tuple(kind.times(users) for kind in kinds))


@dataclass(frozen=True, slots=True)
class LocalResult:
    """What users make of their bases.

    Args:
        models: θ and t, ``[users, members, parameters + 1]``.
        steps: how many local steps each took, ``[users]``.
        rates: their step sizes on θ and on t, ``[users, members, 2]``.
    """

    models: Tensor
    steps: Tensor
    rates: Tensor


class LearnerGroup:
    """Learners that train for the same amounts, and so side by side, step by step; they may differ in all else.

    Args:
        learners: by their number among all learners.
        network: what they train.
        pool: what they train on.
    """

    def __init__(self, learners: Mapping[int, LearnerSpec], network: Architecture, pool: UserDatasets) -> None:
        self.members, self._learners = tuple(learners), learners
        self._network, self._pool = network, pool
        self._specs = tuple(learners.values())
        self.amount = local_work(self._specs[0])
        self._kinds = kinds_of(self._specs, pool.x)
        objectives = [spec.objective for spec in self._specs]
        self._with_t = any(one.t_rate for one in objectives)
        self._looks_first = skip_zero_backward(objectives, pool.x.device)

    def at_once(self, cohort: Cohort) -> int:
        """How many jobs train at once, where each has as many examples as the largest of *cohort*."""
        width, _, steps = self.amount.of(self._pool.sizes[cohort.replicas, cohort.users])
        examples = int(width.max()) * (int(steps.max()) + self._pool.x[0].numel())
        return max_jobs_at_once(self._network.size + examples)

    def pieces(self, cohort: Cohort) -> Iterator[tuple[LearnerGroup, Cohort]]:
        """Who trains at once: all, or replicas in turn, or of a replica that has too many its learners in turn."""
        most = self.at_once(cohort)
        for piece in cohort.pieces(most // len(self.members)):
            count = max(1, most // len(piece.users))
            if count >= len(self.members):
                yield self, piece
                continue
            for start in range(0, len(self.members), count):
                own = {one: self._learners[one] for one in self.members[start : start + count]}
                yield LearnerGroup(own, self._network, self._pool), piece

    def updated(
        self,
        bases: Tensor,
        shuffles: BatchSampler,
        cohort: Cohort,
        drift: Callable[[slice], Tensor | None] = lambda _: None,
    ) -> LocalResult:
        """What *cohort* sends if it starts from *bases*; no more users train at once than there is room for.

        Args:
            bases: θ and t of each, ``[users, members, parameters + 1]``.
            shuffles: which examples a user trains on when.
            cohort: who trains.
            drift: what is added to all gradients of some users, of the shape of their *bases*; ``None`` for nothing.
        """
        most, count = max(1, self.at_once(cohort) // len(self.members)), len(cohort.users)
        if count <= most:
            return self._side_by_side(bases, shuffles, cohort, drift(slice(0, count)))
        models, steps = bases.new_empty(bases.shape), bases.new_empty(count)
        for start in range(0, count, most):
            part = slice(start, min(start + most, count))
            own = self._side_by_side(bases[part], shuffles, cohort.at(part), drift(part))
            models[part], steps[part] = own.models, own.steps
        return LocalResult(models, steps, self._rates(cohort.bases, bases))

    def _side_by_side(self, bases: Tensor, shuffles: BatchSampler, cohort: Cohort, drift: Tensor | None) -> LocalResult:
        """The same, of all users at once."""
        replicas, users = cohort.replicas, cohort.users
        sizes = self._pool.sizes[replicas, users]
        batches = shuffles.batches(replicas, users, cohort.bases, sizes, self.amount, cohort.turns)
        rates = self._rates(cohort.bases, bases)
        models = self.train(bases, self._pool.drawn(cohort, batches), batches, rates, drift)
        steps = np.empty(len(users))
        steps[batches.order] = (batches.counts > 0).sum(1)
        return LocalResult(models, tensor(steps).to(bases), rates)

    def train(
        self, bases: Tensor, drawn: BatchRows, batches: Batches, rates: Tensor, drift: Tensor | None = None
    ) -> Tensor:
        """What the users make of their bases.

        Args:
            bases: θ and t of each, ``[users, members, parameters + 1]``.
            drawn: from `Pool.drawn`.
            batches: the mini-batches.
            rates: step sizes on θ and on t, ``[users, members, 2]``.
            drift: what is added to all gradients, of the shape of *bases*.

        Returns:
            The same for after training, of the shape of *bases*.
        """
        members, after = len(self.members), bases.new_empty(bases.shape)
        theta, steps, pushed = (
            None if one is None else (one if batches.ordered else one[batches.order]).flatten(0, 1)
            for one in (bases, rates, drift)
        )
        if theta is None or steps is None:
            raise ValueError("nothing to start from")
        stack, t = self._network.open(theta[:, :-1]), theta[:, -1].clone()
        jobs = everyone = jobs_of(self._kinds, len(bases), steps)
        corrections = self._corrections(stack, theta, steps[:, 0], pushed)
        own = t
        for x, y, share in BatchLoader(self._pool, drawn, batches, members):
            if jobs.count != len(y):
                jobs, own = everyone.first(len(y)), t[: len(y)]
            stack.scores(x)
            weights, slopes = jobs.weigh(stack.losses(y), share, own)
            if pushed is not None:
                slopes = slopes + pushed[: jobs.count, -1]
            if corrections is not None:
                corrections.before(jobs.count)
            if not self._looks_first or weights.any():
                stack.descend(weights.mul(jobs.lr))
            if corrections is not None:
                corrections.after(jobs.count)
            if self._with_t:
                own.addcmul_(jobs.t_rate, slopes, value=-1)
        stack.store(after.flatten(0, 1)[:, :-1])
        after[..., -1] = t.view(after.shape[:2])
        return after if batches.ordered else after[np.argsort(batches.order)]

    def _rates(self, versions: NDArray[np.int64], like: Tensor) -> Tensor:
        """Step sizes on θ and on t of users that start from *versions*, ``[users, members, 2]``."""
        return tensor(np.stack([spec.rates(versions) for spec in self._specs], axis=1)).to(like)

    def _corrections(
        self, stack: BatchedModel, theta: Tensor, lr: Tensor, drift: Tensor | None
    ) -> StepCorrections | None:
        """What else the jobs' steps consist of; ``None`` for nothing."""
        terms = [(spec.momentum, spec.weight_decay, spec.objective.pull) for spec in self._specs]
        if drift is None and not np.any(terms):
            return None
        momentum, decay, pull = theta.new_tensor(terms).repeat(len(theta) // len(terms), 1).T
        return StepCorrections(
            self._network,
            stack,
            theta[:, :-1],
            SgdTerms(lr, momentum, decay, pull, None if drift is None else drift[:, :-1]),
        )


def group_learners(specs: Sequence[LearnerSpec], network: Architecture, pool: UserDatasets) -> list[LearnerGroup]:
    """Learners that share their amounts of work, together."""
    found: dict[LocalWork, dict[int, LearnerSpec]] = {}
    for number, spec in enumerate(specs):
        found.setdefault(local_work(spec), {})[number] = spec
    return [LearnerGroup(members, network, pool) for members in found.values()]


def local_work(spec: LearnerSpec) -> LocalWork:
    """How much a user trains for *spec*."""
    return LocalWork(None if spec.batch_size == "full" else spec.batch_size, spec.local_epochs, spec.local_steps)
