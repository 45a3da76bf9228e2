"""Local training of all jobs, pairs of a learner and a delivered user, as one batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from netfl.learning.augmentation import Augmentation
from netfl.learning.batches import Amount, Batches, Shuffles
from netfl.learning.cohort import Cohort
from netfl.learning.corrections import Corrections, Terms
from netfl.learning.feed import Feed
from netfl.learning.jobs import jobs_of, kinds_of
from netfl.learning.tensors import tensor
from netfl.learning.ways import looks_first

if TYPE_CHECKING:
    from netfl.learning.data import Dataset
    from netfl.learning.network import Network, Stack
    from netfl.learning.settings import LearnerSpec
    from netfl.streams import Streams


@dataclass(frozen=True, slots=True)
class Drawn:
    """What makes up mini-batches.

    Args:
        rows: of the pool's examples, ``[steps, users, width]``.
        moves: what its augmentation makes of each, of the same shape; ``None`` for nothing.
    """

    rows: Tensor
    moves: Tensor | None


class Pool:
    """The training examples of all replicas on the device, and which of them each user holds.

    A data set that replicas share is held once.  What `augmentation` says becomes of them when they are trained on.
    """

    def __init__(
        self,
        datasets: Sequence[Dataset],
        splits: Sequence[Sequence[NDArray[np.int64]]],
        device: torch.device,
        dtype: torch.dtype,
        streams: Sequence[Streams],
    ) -> None:
        self.augmentation = Augmentation.of(datasets[0], streams, device)
        distinct = list({id(one): one for one in datasets}.values())
        ends = np.cumsum([0, *(len(one.train_y) for one in distinct)])
        at = {id(one): int(end) for one, end in zip(distinct, ends, strict=False)}
        held = [rows + at[id(one)] for one, split in zip(datasets, splits, strict=True) for rows in split]
        self._rows = np.concatenate(held)
        self.sizes = np.array([len(rows) for rows in held]).reshape(len(datasets), -1)
        self._starts = (np.cumsum(self.sizes) - self.sizes.ravel()).reshape(self.sizes.shape)
        self.x = _joined([one.train_x for one in distinct]).to(device, dtype)
        self.y = _joined([one.train_y for one in distinct]).to(device)
        self._room = self.x[:0]

    def drawn(self, cohort: Cohort, batches: Batches) -> Drawn:
        """What makes up the mini-batches of *cohort*."""
        starts = self._starts[cohort.replicas, cohort.users][batches.order]
        rows = tensor(self._rows[starts[:, None] + batches.places.swapaxes(0, 1)]).to(self.x.device)
        return Drawn(rows, None if self.augmentation is None else self.augmentation.moves(cohort, batches))

    def whole(self) -> Pool:
        """The same examples, those of all users of a replica in the hands of one."""
        pool = copy(self)
        pool.sizes, pool._starts = self.sizes.sum(1, keepdims=True), self._starts[:, :1]
        return pool

    def room(self, examples: int) -> Tensor:
        """Room for so many examples, the same in memory from round to round."""
        if len(self._room) < examples:
            self._room = self.x.new_empty((examples, *self.x.shape[1:]))
        return self._room[:examples]

    def held(self, replica: int, users: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Rows of all that *users* of *replica* hold, user by user, and how many each of them holds."""
        sizes, starts = self.sizes[replica, users], self._starts[replica, users]
        return self._rows[np.repeat(starts - np.cumsum(sizes) + sizes, sizes) + np.arange(sizes.sum())], sizes


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
        self.members = tuple(learners)
        self._network, self._pool = network, pool
        self._specs = tuple(learners.values())
        self.amount = amount(self._specs[0])
        self._kinds = kinds_of(self._specs, pool.x)
        objectives = [spec.objective for spec in self._specs]
        self._with_t = any(one.t_rate for one in objectives)
        self._looks_first = looks_first(objectives, pool.x.device)

    def updated(self, bases: Tensor, shuffles: Shuffles, cohort: Cohort, drift: Tensor | None = None) -> Trained:
        """What *cohort* sends if it starts from *bases*.

        Args:
            bases: θ and t of each, ``[users, members, parameters + 1]``.
            shuffles: which examples a user trains on when.
            cohort: who trains.
            drift: what is added to all gradients, of the shape of *bases*; ``None`` for nothing.
        """
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
        own = np.array([(spec.lr, spec.objective.t_rate) for spec in self._specs])
        found = {schedule: schedule.factors(versions) for schedule in {spec.schedule for spec in self._specs}}
        factors = np.stack([found[spec.schedule] for spec in self._specs], axis=1)
        return tensor(factors[..., None] * own).to(like)

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


def _joined(parts: Sequence[NDArray[np.generic]]) -> Tensor:
    """Arrays as one tensor, without a copy of a single one."""
    return tensor(parts[0] if len(parts) == 1 else np.concatenate(parts))
