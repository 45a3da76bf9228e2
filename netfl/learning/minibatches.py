"""Which examples make up which mini-batch: drawn at random access, so that no draw depends on who else trains.

Each pass over a user's examples is a fresh shuffle, keyed by (replica, user, base version, pass) and cut into
mini-batches; the last of a pass may be smaller.  Who is heard again with an update from the same version has gone on
with the next passes.  Learners of one replica see the same shuffles, so that comparisons between them are paired.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from netfl.learning.batch_limits import can_gather_all_steps
from netfl.learning.tensors import tensor
from netfl.streams import RandomField, Streams

if TYPE_CHECKING:
    from netfl.learning.user_data import BatchRows, UserDatasets


_WORDS = 4
_HALF, _LOW = np.uint64(32), np.uint64(0xFFFFFFFF)


@dataclass(frozen=True, slots=True)
class Batches:
    """The mini-batches of some users, those with the most of them first.

    Args:
        order: which user (an index into what was asked for) each line is about, ``[users]``.
        places: positions among the user's own examples, ``[users, steps, width]``; 0 where there is no example.
        counts: how many examples each mini-batch has, ``[users, steps]``; 0 after a user's last.
    """

    order: NDArray[np.int64]
    places: NDArray[np.int64]
    counts: NDArray[np.int64]

    @property
    def ordered(self) -> bool:
        """Whether the users are in the order that was asked for."""
        return bool((np.diff(self.order) > 0).all())

    def extents(self) -> Iterator[tuple[int, int]]:
        """For each step, how many users still train, and the largest of their mini-batches."""
        return zip((self.counts > 0).sum(0).tolist(), self.counts.max(0).tolist(), strict=True)


@dataclass(frozen=True, slots=True)
class LocalWork:
    """How much a user trains for one update: exactly one of *epochs* and *steps* is given.

    Args:
        width: examples in a mini-batch; ``None`` for all.
        epochs: passes over the user's examples.
        steps: mini-batches.
    """

    width: int | None
    epochs: int | None
    steps: int | None

    def of(self, sizes: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Width, mini-batches per pass, and mini-batches in all, for users that hold *sizes* examples."""
        width = sizes if self.width is None else np.minimum(self.width, sizes)
        per_pass = -(-sizes // width)
        if self.epochs is not None:
            return width, per_pass, per_pass * self.epochs
        return width, per_pass, np.full_like(sizes, self.steps or 0)


class BatchSampler:
    """The shuffles of all users of all replicas."""

    def __init__(self, streams: Sequence[Streams]) -> None:
        """Key them by each replica's *streams*."""
        self._keys = np.array([one.field("batches").key for one in streams], np.uint64)

    def passes(
        self,
        replicas: NDArray[np.int64],
        users: NDArray[np.int64],
        bases: NDArray[np.int64],
        passes: NDArray[np.int64],
        sizes: NDArray[np.int64],
    ) -> NDArray[np.int64]:
        """One shuffle of 0 … size-1 for each entry, one after the other; all arguments are ``[n]``.

        Places are put in the order of random words: both lie in one number, the word above the place, and these are
        sorted.
        """
        blocks = -(-sizes // _WORDS)
        entry, block = np.repeat(np.arange(len(sizes)), blocks), _within(blocks)
        keys = self._keys[replicas[:1] if (replicas == replicas[0]).all() else replicas[entry]].T
        field = RandomField((keys[0], keys[1]))  # NumPy broadcasts them
        index = (bases.astype(np.uint64) << _HALF) | passes.astype(np.uint64)
        drawn = np.stack(field.words(users[entry], index[entry], block), axis=1)
        drawn <<= _HALF
        drawn |= (block[:, None] * _WORDS + np.arange(_WORDS)).astype(np.uint64)
        if (sizes == sizes[0]).all():
            found = np.sort(drawn.reshape(len(sizes), -1)[:, : sizes[0]], axis=1).ravel()
        else:
            begins = _WORDS * (np.cumsum(blocks) - blocks)
            segments = zip(begins.tolist(), sizes.tolist(), strict=True)
            found = np.concatenate([np.sort(drawn.ravel()[begin : begin + size]) for begin, size in segments])
        return (found & _LOW).astype(np.int64)

    def batches(
        self,
        replicas: NDArray[np.int64],
        users: NDArray[np.int64],
        bases: NDArray[np.int64],
        sizes: NDArray[np.int64],
        amount: LocalWork,
        turns: NDArray[np.int64] | None = None,
    ) -> Batches:
        """The mini-batches of *users* of *replicas* that start from *bases* and hold *sizes* examples; all ``[n]``.

        *turns* says for the how manieth time each starts from its base, from 0, which is the default for all.
        """
        work = amount.of(sizes)
        order = np.argsort(-work[2], kind="stable")
        width, per_pass, steps = (one[order] for one in work)
        replicas, users, bases, sizes = replicas[order], users[order], bases[order], sizes[order]
        passes = -(-steps // per_pass)
        repeat = np.repeat(np.arange(len(users)), passes)
        number = _within(passes) if turns is None else _within(passes) + (turns[order] * passes)[repeat]
        shuffled = self.passes(replicas[repeat], users[repeat], bases[repeat], number, sizes[repeat])
        begin = np.cumsum(passes * sizes) - passes * sizes
        step = np.arange(steps.max())
        offset = step % per_pass[:, None] * width[:, None]
        counts = np.minimum(width[:, None], sizes[:, None] - offset) * (step < steps[:, None])
        first = begin[:, None] + step // per_pass[:, None] * sizes[:, None] + offset
        place = first[..., None] + np.arange(width.max())
        if counts.min() == width.max():
            return Batches(order, shuffled[place], counts)
        real = place < (first + counts)[..., None]
        return Batches(order, np.where(real, shuffled[np.where(real, place, 0)], 0), counts)


def _within(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """0 … count-1 for each count, one after the other.

    >>> _within(np.array([2, 3])).tolist()
    [0, 1, 0, 1, 2]
    """
    ends = np.cumsum(counts)
    return np.asarray(np.arange(ends[-1]) - np.repeat(ends - counts, counts))


# The mini-batches that jobs train on side by side, step by step, as tensors on the device.


class BatchLoader:
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

    def __init__(self, pool: UserDatasets, drawn: BatchRows, batches: Batches, members: int) -> None:
        self._extents = [(users * members, width) for users, width in batches.extents()]
        self._labels, self._shares = (
            _shared(one, members) for one in (_taken(pool.y, drawn.rows), _shares(batches, pool.x))
        )
        self._x, self._augmentation = pool.x, pool.augmentation
        several = 1 if drawn.rows.shape[1] == 1 else members
        self._rows = _shared(drawn.rows, several)
        self._moves = None if drawn.moves is None else _shared(drawn.moves, several)
        small = drawn.moves is None and can_gather_all_steps(self._rows.numel() * pool.x[0].numel())
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
