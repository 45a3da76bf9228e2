"""Local training of all jobs, pairs of a learner and a delivered user, as one batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from netfl.learning.batches import Amount, Batches, Shuffles
from netfl.learning.cohort import Cohort
from netfl.learning.corrections import Corrections, Terms
from netfl.learning.jobs import jobs_of
from netfl.learning.tensors import tensor

if TYPE_CHECKING:
    from netfl.learning.data import Dataset
    from netfl.learning.network import Network, Stack
    from netfl.learning.settings import LearnerSpec


class Pool:
    """The training examples of all replicas on the device, and which of them each user holds.

    A data set that replicas share is held once.
    """

    def __init__(
        self,
        datasets: Sequence[Dataset],
        splits: Sequence[Sequence[NDArray[np.int64]]],
        device: torch.device,
        dtype: torch.dtype,
    ) -> None:
        distinct = list({id(one): one for one in datasets}.values())
        ends = np.cumsum([0, *(len(one.train_y) for one in distinct)])
        at = {id(one): int(end) for one, end in zip(distinct, ends, strict=False)}
        held = [rows + at[id(one)] for one, split in zip(datasets, splits, strict=True) for rows in split]
        self._rows = np.concatenate(held)
        self.sizes = np.array([len(rows) for rows in held]).reshape(len(datasets), -1)
        self._starts = (np.cumsum(self.sizes) - self.sizes.ravel()).reshape(self.sizes.shape)
        self.x = _joined([one.train_x for one in distinct]).to(device, dtype)
        self.y = _joined([one.train_y for one in distinct]).to(device)

    def rows(self, replicas: NDArray[np.int64], users: NDArray[np.int64], batches: Batches) -> Tensor:
        """Rows of `x` and `y` that make up *batches*, ``[steps, users, width]``."""
        starts = self._starts[replicas, users][batches.order]
        return tensor(self._rows[starts[:, None] + batches.places.swapaxes(0, 1)]).to(self.x.device)

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
        models = self.train(bases, self._pool.rows(replicas, users, batches), batches, rates, drift)
        steps = np.empty(len(users))
        steps[batches.order] = (batches.counts > 0).sum(1)
        return Trained(models, tensor(steps).to(bases), rates)

    def train(
        self, bases: Tensor, rows: Tensor, batches: Batches, rates: Tensor, drift: Tensor | None = None
    ) -> Tensor:
        """What the users make of their bases.

        Args:
            bases: θ and t of each, ``[users, members, parameters + 1]``.
            rows: from `Pool.rows`.
            batches: the mini-batches.
            rates: step sizes on θ and on t, ``[users, members, 2]``.
            drift: what is added to all gradients, of the shape of *bases*.

        Returns:
            The same for after training, of the shape of *bases*.
        """
        members, after = len(self.members), torch.empty_like(bases)
        theta, steps, pushed = (
            None if one is None else (one if batches.ordered else one[batches.order]).flatten(0, 1)
            for one in (bases, rates, drift)
        )
        if theta is None or steps is None:
            raise ValueError("nothing to start from")
        stack, t = self._network.open(theta[:, :-1]), theta[:, -1].clone()
        jobs = everyone = jobs_of(self._specs, len(bases), steps)
        corrections = self._corrections(stack, theta, steps[:, 0], pushed)
        labels, shares = (_shared(one, members) for one in (self._pool.y[rows], _shares(batches.counts, theta)))
        gather = _Gather(self._pool.x, rows, members)
        for step, (users, width) in enumerate(batches.extents()):
            if jobs.count != users * members:
                jobs = everyone.first(users * members)
            stack.scores(gather(step, jobs.count, width))
            losses = stack.losses(labels[step, : jobs.count, :width])
            weights, slopes = jobs.weigh(losses, shares[step, : jobs.count, :width], t[: jobs.count])
            if pushed is not None:
                slopes = slopes + pushed[: jobs.count, -1]
            if corrections is not None:
                corrections.before(jobs.count)
            stack.descend(weights.mul(jobs.lr))
            if corrections is not None:
                corrections.after(jobs.count)
            t[: jobs.count].addcmul_(jobs.t_rate, slopes, value=-1)
        stack.store(after.flatten(0, 1)[:, :-1])
        after[..., -1] = t.view(after.shape[:2])
        return after if batches.ordered else after[np.argsort(batches.order)]

    def _rates(self, versions: NDArray[np.int64], like: Tensor) -> Tensor:
        """Step sizes on θ and on t of users that start from *versions*, ``[users, members, 2]``."""
        own = np.array([(spec.lr, spec.objective.t_rate) for spec in self._specs])
        factors = np.stack([spec.schedule.factors(versions) for spec in self._specs], axis=1)
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


class _Gather:
    """Collects the examples of mini-batches, always in the same place in memory.

    The members of a single user share a view of them; for several users they are gathered once for each member, which
    measured faster than to gather once and to copy.
    """

    def __init__(self, x: Tensor, rows: Tensor, members: int) -> None:
        self._shared = rows.shape[1] == 1
        self._x, self._rows = x, rows if self._shared else _shared(rows, members)
        self._room = x.new_empty((self._rows[0].numel(), *x.shape[1:]))

    def __call__(self, step: int, jobs: int, width: int) -> Tensor:
        """The examples of one step for the first *jobs*, ``[jobs, width, …]``."""
        rows = self._rows[step, :jobs, :width]
        x = torch.index_select(self._x, 0, rows.flatten(), out=self._room[: rows.numel()])
        return x.view(*rows.shape, *x.shape[1:]).expand(jobs, -1, *x.shape[1:])


def grouped(specs: Sequence[LearnerSpec], network: Network, pool: Pool) -> list[Group]:
    """Learners that share their amounts of work, together."""
    found: dict[Amount, dict[int, LearnerSpec]] = {}
    for number, spec in enumerate(specs):
        found.setdefault(amount(spec), {})[number] = spec
    return [Group(members, network, pool) for members in found.values()]


def amount(spec: LearnerSpec) -> Amount:
    """How much a user trains for *spec*."""
    return Amount(None if spec.batch_size == "full" else spec.batch_size, spec.local_epochs, spec.local_steps)


def _shares(counts: NDArray[np.int64], like: Tensor) -> Tensor:
    """1/n for the n examples of each mini-batch and 0 for padding, ``[steps, users, width]``."""
    each = counts.T[..., None]
    return tensor((np.arange(counts.max()) < each) / np.maximum(each, 1)).to(like)


def _shared(part: Tensor, members: int) -> Tensor:
    """*part*, ``[steps, users, …]``, for each member: ``[steps, users · members, …]``, a view where that can be."""
    if members == 1:
        return part
    return part[:, :, None].expand(-1, -1, members, *part.shape[2:]).flatten(1, 2)


def _joined(parts: Sequence[NDArray[np.generic]]) -> Tensor:
    """Arrays as one tensor, without a copy of a single one."""
    return tensor(parts[0] if len(parts) == 1 else np.concatenate(parts))
