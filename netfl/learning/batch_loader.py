"""Loading of mini-batches: the examples, labels and shares of each step, on the device."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from netfl.learning.user_data import gather

if TYPE_CHECKING:
    from netfl.learning.cohort import Cohort
    from netfl.learning.minibatches import Batches
    from netfl.learning.user_data import UserDatasets

_GATHERED = 1 << 18
"""Size up to which examples are gathered for all steps at once: 1 MiB in float32, which fits into a core's cache."""


class BatchInputs(NamedTuple):
    """Mini-batches of jobs, or of users that all members share, on the device; each is ``[steps, jobs, width]``.

    Args:
        rows: of the examples.
        labels: or targets, ``[steps, jobs, width, outputs]``.
        shares: of the examples in their mini-batch.
        moves: random crops and flips, if any.
    """

    rows: Tensor
    labels: Tensor
    shares: Tensor
    moves: Tensor | None


class BatchLoader:
    """Iterator over the steps of jobs that train side by side: examples, labels and shares, on the device.

    It yields examples ``[jobs, width, …]``, labels ``[jobs, width]`` or targets ``[jobs, width, outputs]``, and shares
    ``[jobs, width]``.  The share is 1/n in a mini-batch of n examples, and 0 for padding.

    Small examples are gathered at once, others step by step into the same memory.  The *members*, the jobs of each
    user, share a view if there is one user.  For several users their examples are gathered for each member, which
    measured faster than a copy.
    """

    def __init__(self, data: UserDatasets, cohort: Cohort, batches: Batches, members: int) -> None:
        self._data = data
        self.extents = tuple((users * members, width) for users, width in batches.layout.extents)
        """Jobs, and examples of each, in every step."""
        self._has_equal_shares = batches.layout.is_full
        rows = data.rows_of(cohort, batches)
        labels = data.labels_of(rows, cohort, batches)
        copies = 1 if rows.shape[1] == 1 else members  # the members of a single user share a view of its examples
        moves = None
        if data.augmentation is not None:
            moves = _repeat_users(data.augmentation.draw(cohort, batches), copies)
        self._inputs = BatchInputs(
            rows=_repeat_users(rows, copies),
            labels=_repeat_users(labels, members),
            shares=_repeat_users(batches.layout.on(data.x).shares, members),
            moves=moves,
        )

    def scale_shares(self, factors: Tensor) -> None:
        """Multiply the shares of each job by its factor of *factors*, ``[jobs, 1]``."""
        shares = self._inputs.shares
        distinct = shares[:1, :, :1] if self._has_equal_shares else shares  # equal ones are one number in memory
        scaled = distinct * factors
        self._inputs = self._inputs._replace(shares=scaled.expand(shares.shape))

    @property
    def inputs(self) -> BatchInputs:
        """The tensors that differ from round to round."""
        return self._inputs

    def with_inputs(self, inputs: BatchInputs) -> BatchLoader:
        """Return a loader of the same steps with other tensors."""
        loader = copy(self)
        loader._inputs = inputs
        return loader

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        rows, _, _, moves = self._inputs
        if moves is None and rows.numel() * self._data.x[0].numel() <= _GATHERED:
            examples = self._gather_at_once()
        elif moves is None and len(set(self.extents)) == 1:
            examples = self._gather_equal_steps()
        else:
            examples = self._gather_steps()
        labels = self._inputs.labels.unbind()
        shares = self._inputs.shares.unbind()
        for (jobs, width), x, y, share in zip(self.extents, examples, labels, shares, strict=True):
            if share.shape != (jobs, width):  # fewer jobs train, or mini-batches are smaller
                yield x, y[:jobs, :width], share[:jobs, :width]
            else:
                yield x, y, share

    def _gather_at_once(self) -> Iterator[Tensor]:
        """Yield the examples of each step; all are gathered before the first."""
        gathered = gather(self._data.x, self._inputs.rows)
        shape = self._data.x.shape[1:]
        for step, (jobs, width) in enumerate(self.extents):
            yield gathered[step, :jobs, :width].expand(jobs, -1, *shape)

    def _gather_equal_steps(self) -> Iterator[Tensor]:
        """Yield the examples of steps of one size, in one memory; all views are made once."""
        x = self._data.x
        rows = self._inputs.rows
        jobs, width = self.extents[0]
        buffer = self._data.buffer(rows[0].numel())
        examples = buffer.view(rows.shape[1], width, *x.shape[1:]).expand(jobs, -1, *x.shape[1:])
        for of_step in rows.flatten(1).unbind():
            torch.index_select(x, 0, of_step, out=buffer)
            yield examples

    def _gather_steps(self) -> Iterator[Tensor]:
        """Yield the examples of steps of several sizes in one memory, or moved ones."""
        all_rows, _, _, moves = self._inputs
        x = self._data.x
        shape = x.shape[1:]
        augmentation = self._data.augmentation
        buffer = self._data.buffer(all_rows[0].numel())
        for step, (jobs, width) in enumerate(self.extents):
            rows = all_rows[step, :jobs, :width]
            examples = torch.index_select(x, 0, rows.flatten(), out=buffer[: rows.numel()])
            if augmentation is not None and moves is not None:
                examples = augmentation.apply(examples, moves[step, :jobs, :width].flatten())
            yield examples.view(*rows.shape, *shape).expand(jobs, -1, *shape)


def _repeat_users(values: Tensor, members: int) -> Tensor:
    """Repeat *values*, ``[steps, users, …]``, for each member: ``[steps, users · members, …]``, if possible a view."""
    if members == 1:
        return values
    of_members = values[:, :, None].expand(-1, -1, members, *values.shape[2:])
    return of_members.flatten(1, 2)
