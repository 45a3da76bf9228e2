"""Local training of all jobs, pairs of a learner and a delivered user, as one batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from netfl.learning.batches import Amount, Batches, Shuffles
from netfl.learning.cohort import Cohort
from netfl.learning.corrections import Corrections, Terms
from netfl.learning.feed import Feed
from netfl.learning.jobs import jobs_of, kinds_of
from netfl.learning.tensors import tensor
from netfl.learning.ways import looks_first, trained_at_once

if TYPE_CHECKING:
    from netfl.learning.network import Network, Stack
    from netfl.learning.pool import Drawn, Pool
    from netfl.learning.settings import LearnerSpec


@dataclass(frozen=True, slots=True)
class Trained:
    """What users make of their bases.

    Args:
        models: θ and t, ``[users, members, parameters + 1]``.
        steps: how many local steps each took, ``[users]``.
        rates: their step sizes on θ and on t, ``[users, members, 2]``.
    """

    models: Tensor
    steps: Tensor
    rates: Tensor


class Group:
    """Learners that train for the same amounts, and so side by side, step by step; they may differ in all else.

    Args:
        learners: by their number among all learners.
        network: what they train.
        pool: what they train on.
    """

    def __init__(self, learners: Mapping[int, LearnerSpec], network: Network, pool: Pool) -> None:
        self.members, self._learners = tuple(learners), learners
        self._network, self._pool = network, pool
        self._specs = tuple(learners.values())
        self.amount = amount(self._specs[0])
        self._kinds = kinds_of(self._specs, pool.x)
        objectives = [spec.objective for spec in self._specs]
        self._with_t = any(one.t_rate for one in objectives)
        self._looks_first = looks_first(objectives, pool.x.device)

    def at_once(self, cohort: Cohort) -> int:
        """How many jobs train at once, where each has as many examples as the largest of *cohort*."""
        width, _, steps = self.amount.of(self._pool.sizes[cohort.replicas, cohort.users])
        examples = int(width.max()) * (int(steps.max()) + self._pool.x[0].numel())
        return trained_at_once(self._network.size + examples)

    def pieces(self, cohort: Cohort) -> Iterator[tuple[Group, Cohort]]:
        """Who trains at once: all, or replicas in turn, or of a replica that has too many its learners in turn."""
        most = self.at_once(cohort)
        for piece in cohort.pieces(most // len(self.members)):
            count = max(1, most // len(piece.users))
            if count >= len(self.members):
                yield self, piece
                continue
            for start in range(0, len(self.members), count):
                own = {one: self._learners[one] for one in self.members[start : start + count]}
                yield Group(own, self._network, self._pool), piece

    def updated(
        self,
        bases: Tensor,
        shuffles: Shuffles,
        cohort: Cohort,
        drift: Callable[[slice], Tensor | None] = lambda _: None,
    ) -> Trained:
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
        return Trained(models, steps, self._rates(cohort.bases, bases))

    def _side_by_side(self, bases: Tensor, shuffles: Shuffles, cohort: Cohort, drift: Tensor | None) -> Trained:
        """The same, of all users at once."""
        replicas, users = cohort.replicas, cohort.users
        sizes = self._pool.sizes[replicas, users]
        batches = shuffles.batches(replicas, users, cohort.bases, sizes, self.amount, cohort.turns)
        rates = self._rates(cohort.bases, bases)
        models = self.train(bases, self._pool.drawn(cohort, batches), batches, rates, drift)
        steps = np.empty(len(users))
        steps[batches.order] = (batches.counts > 0).sum(1)
        return Trained(models, tensor(steps).to(bases), rates)

    def train(
        self, bases: Tensor, drawn: Drawn, batches: Batches, rates: Tensor, drift: Tensor | None = None
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
        for x, y, share in Feed(self._pool, drawn, batches, members):
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

    def _corrections(self, stack: Stack, theta: Tensor, lr: Tensor, drift: Tensor | None) -> Corrections | None:
        """What else the jobs' steps consist of; ``None`` for nothing."""
        terms = [(spec.momentum, spec.weight_decay, spec.objective.pull) for spec in self._specs]
        if drift is None and not np.any(terms):
            return None
        momentum, decay, pull = theta.new_tensor(terms).repeat(len(theta) // len(terms), 1).T
        return Corrections(
            self._network,
            stack,
            theta[:, :-1],
            Terms(lr, momentum, decay, pull, None if drift is None else drift[:, :-1]),
        )


def grouped(specs: Sequence[LearnerSpec], network: Network, pool: Pool) -> list[Group]:
    """Learners that share their amounts of work, together."""
    found: dict[Amount, dict[int, LearnerSpec]] = {}
    for number, spec in enumerate(specs):
        found.setdefault(amount(spec), {})[number] = spec
    return [Group(members, network, pool) for members in found.values()]


def amount(spec: LearnerSpec) -> Amount:
    """How much a user trains for *spec*."""
    return Amount(None if spec.batch_size == "full" else spec.batch_size, spec.local_epochs, spec.local_steps)
