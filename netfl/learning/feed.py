"""The mini-batches that jobs train on side by side, step by step, as tensors on the device."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from netfl.learning.tensors import tensor
from netfl.learning.ways import gathers_at_once

if TYPE_CHECKING:
    from netfl.learning.batches import Batches
    from netfl.learning.pool import Drawn, Pool


class Feed:
    """Goes through the steps: the examples of the jobs that still train, their labels, and how much each counts.

    That is ``[jobs, width, …]`` for the examples and ``[jobs, width]`` for the others; an example counts 1/n in a
    mini-batch of n, and padding 0.  Small examples are gathered all at once, others step by step, always in the same
    place in memory.  The members of a single user share a view of them; for several users they are gathered once for
    each member, which measured faster than to gather once and to copy.

    Args:
        pool: the examples.
        drawn: which of them are used.
        batches: the mini-batches that they make up.
        members: the jobs of each user.
    """

    def __init__(self, pool: Pool, drawn: Drawn, batches: Batches, members: int) -> None:
        self._extents = [(users * members, width) for users, width in batches.extents()]
        self._labels, self._shares = (
            _shared(one, members) for one in (_taken(pool.y, drawn.rows), _shares(batches, pool.x))
        )
        self._x, self._augmentation = pool.x, pool.augmentation
        several = 1 if drawn.rows.shape[1] == 1 else members
        self._rows = _shared(drawn.rows, several)
        self._moves = None if drawn.moves is None else _shared(drawn.moves, several)
        small = drawn.moves is None and gathers_at_once(self._rows.numel() * pool.x[0].numel())
        self._all = _taken(pool.x, self._rows) if small else None
        self._room = pool.room(0 if small else self._rows[0].numel())

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Step by step."""
        labels, shares = self._labels.unbind(), self._shares.unbind()
        for step, (jobs, width) in enumerate(self._extents):
            y, share = labels[step], shares[step]
            if y.shape != (jobs, width):
                y, share = y[:jobs, :width], share[:jobs, :width]
            yield self._examples(step, jobs, width), y, share

    def _examples(self, step: int, jobs: int, width: int) -> Tensor:
        """Those of one step, ``[jobs, width, …]``."""
        shape = self._x.shape[1:]
        if self._all is not None:
            return self._all[step, :jobs, :width].expand(jobs, -1, *shape)
        rows = self._rows[step, :jobs, :width]
        x = torch.index_select(self._x, 0, rows.flatten(), out=self._room[: rows.numel()])
        if self._augmentation is not None and self._moves is not None:
            x = self._augmentation.moved(x, self._moves[step, :jobs, :width].flatten())
        return x.view(*rows.shape, *shape).expand(jobs, -1, *shape)


def _taken(values: Tensor, rows: Tensor) -> Tensor:
    """``values[rows]``, by what measured much faster than that."""
    return values.index_select(0, rows.flatten()).view(*rows.shape, *values.shape[1:])


def _shares(batches: Batches, like: Tensor) -> Tensor:
    """1/n for the n examples of each mini-batch and 0 for padding, ``[steps, users, width]``."""
    counts, width = batches.counts.T[..., None], batches.places.shape[2]
    if counts.min() == width:
        return like.new_full((1, 1, 1), 1 / width).expand(*counts.shape[:2], width)
    return tensor((np.arange(width) < counts) / np.maximum(counts, 1)).to(like)


def _shared(part: Tensor, members: int) -> Tensor:
    """*part*, ``[steps, users, …]``, for each member: ``[steps, users · members, …]``, a view where that can be."""
    if members == 1:
        return part
    return part[:, :, None].expand(-1, -1, members, *part.shape[2:]).flatten(1, 2)
