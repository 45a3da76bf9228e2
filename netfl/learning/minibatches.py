"""Mini-batches of the users that train together, drawn by `BatchSampler`; `netfl.learning.batch_loader` loads them.

Each pass over a user's examples is a new shuffle, cut into mini-batches; the last of a pass may be smaller.  The
shuffle is keyed by (replica, user, base version, pass), so no draw depends on the other users of a round.  A user that
repeats a base continues with the next passes.  Learners of one replica see the same shuffles: comparisons are paired.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from netfl.learning.device_draws import draw_places
from netfl.learning.stream_keys import StreamKeys
from netfl.learning.tensors import runs_on_gpu, upload
from netfl.streams import RandomField, Streams, philox
from netfl.types import Ints

if TYPE_CHECKING:
    from netfl.learning.cohort import Cohort
    from netfl.learning.spec import LocalWork
    from netfl.learning.step_graphs import StepGraphs

_WORDS = 4
"""Random words of a draw."""
_CPU = torch.device("cpu")
_WORD_BITS = np.array(32, np.uint64)
_LOW_WORD = np.array(0xFFFFFFFF, np.uint64)


class LayoutTensors(NamedTuple):
    """Tensors of a layout, on the device; read only.

    Args:
        steps: of each user, in the order of the cohort, ``[users]``.
        samples: examples that each user holds, in the order of the cohort, ``[users]``.
        shares: 1/n for the n examples of each mini-batch, and 0 for padding, ``[steps, users, width]``.
    """

    steps: Tensor
    samples: Tensor
    shares: Tensor


class BatchLayout:
    """The mini-batches of some users but for the shuffles of their examples: what sizes and local work decide.

    Each pass over a user's examples has a shuffle.  Users with the largest number of steps come first.

    Args:
        sizes: examples of each user, ``[users]``.
        work: of all users.
    """

    def __init__(self, sizes: Ints, work: LocalWork) -> None:
        counted = work.count(sizes)
        self.steps: Ints = counted.steps
        """Steps of each user, in the order of the cohort, ``[users]``."""
        self._samples = sizes
        self._tensors: dict[tuple[torch.device, torch.dtype], LayoutTensors] = {}

        self.order = np.argsort(-counted.steps, kind="stable")
        """The index of each user in the cohort, ``[users]``; all that follows is in this order."""
        self.is_ordered = bool((np.diff(self.order) > 0).all())
        """True if the users are in the order of the cohort."""
        sizes = sizes[self.order]
        steps = counted.steps[self.order]
        self.width = counted.width[self.order]
        """Examples in a mini-batch of each user, ``[users]``."""
        self.per_pass = counted.per_pass[self.order]
        """Mini-batches of a pass of each user, ``[users]``."""
        self._widest = int(self.width.max())

        self.passes: Ints = -(-steps // self.per_pass)
        """Shuffles of each user, ``[users]``."""
        self.users = np.repeat(np.arange(len(sizes)), self.passes)
        """The user of each shuffle, ``[shuffles]``."""
        self.numbers = _ranges(self.passes)
        """Earlier shuffles of the user, ``[shuffles]``."""
        self.sizes: Ints = sizes[self.users]
        """Examples in each shuffle, ``[shuffles]``."""
        self._has_equal_sizes = bool((sizes == sizes[0]).all())

        step = np.arange(steps.max())
        offset = step % self.per_pass[:, None] * self.width[:, None]  # examples of earlier mini-batches of the pass
        counts = np.minimum(self.width[:, None], sizes[:, None] - offset)  # the last of a pass has the remainder
        self.counts: Ints = counts * (step < steps[:, None])
        """Examples in each mini-batch, ``[users, steps]``; 0 after a user's last step."""
        self.is_full = bool(self.counts.min() == self._widest)
        """True if all mini-batches have the same number of examples."""
        training_users = (self.counts > 0).sum(0)
        self.extents = tuple(zip(training_users.tolist(), self.counts.max(0).tolist(), strict=True))
        """For each step the number of users that still train, and their largest mini-batch."""

        # positions in all shuffles, which follow one another
        shuffled = self.passes * sizes  # examples in all shuffles of a user
        first_of_user = (np.cumsum(shuffled) - shuffled)[:, None]
        first_of_pass = first_of_user + step // self.per_pass[:, None] * sizes[:, None]
        self._first: Ints = first_of_pass + offset  # of each mini-batch, [users, steps]

    def on(self, like: Tensor) -> LayoutTensors:
        """Return the tensors of this layout, in the type and on the device of *like*; they are made once."""
        key = (like.device, like.dtype)
        if key not in self._tensors:
            width = self._widest
            counts = self.counts.T[..., None]  # [steps, users, 1]
            if self.is_full:  # all shares are equal, so that one number in memory is enough
                shares = like.new_full((1, 1, 1), 1 / width).expand(*counts.shape[:2], width)
            else:
                is_real = np.arange(width) < counts
                shares = upload(is_real / np.maximum(counts, 1), *key)
            self._tensors[key] = LayoutTensors(upload(self.steps, *key), upload(self._samples, *key), shares)
        return self._tensors[key]

    @cached_property
    def blocks(self) -> tuple[Ints, Ints, NDArray[np.uint64]]:
        """The user and the shuffle of each block of four random words, and the number of the block in the shuffle.

        ``[shuffles, 1]`` twice and ``[blocks of a shuffle]`` if all sizes are equal, otherwise ``[blocks]`` each.
        """
        counts = -(-self.sizes // _WORDS)  # blocks of each shuffle
        shuffles = np.arange(len(counts))
        if self._has_equal_sizes:
            shuffles = shuffles[:, None]
            blocks = np.arange(counts[0], dtype=np.uint64)
        else:
            shuffles = np.repeat(shuffles, counts)
            blocks = _ranges(counts).astype(np.uint64)
        return self.users[shuffles], shuffles, blocks

    def shuffle(self, words: Sequence[NDArray[np.uint64]]) -> Ints:
        """Return the places of the mini-batches among the examples of their user, ``[users, steps, width]``.

        Each place is put below a random word in one number; sorting the numbers shuffles the places.

        Args:
            words: four for each of `blocks`, ``[…]`` each.
        """
        keyed = np.empty((*words[0].shape, _WORDS), np.uint64)  # 64 bits: a random word above a place
        for number, word in enumerate(words):
            np.left_shift(word, _WORD_BITS, out=keyed[..., number])
        keyed |= self._block_places
        if self._has_equal_sizes:
            shuffled = keyed.reshape(len(self.sizes), -1)[:, : self.sizes[0]]
            shuffled.sort(axis=1)  # in place: a shuffle is a row
        else:
            shuffled = self._sort_shuffles(keyed.ravel())

        steps = self.counts.shape[1]
        if self.is_full and self._has_equal_sizes:  # the mini-batches of a user follow one another
            of_users = shuffled.reshape(len(self.counts), -1)[:, : steps * self._widest]
            in_batches = of_users.reshape(-1, steps, self._widest)
        else:
            in_batches = shuffled.ravel()[self._ranks]
        places = (in_batches & _LOW_WORD).view(np.int64)
        return places if self.is_full else np.where(self._is_real, places, 0)

    def _sort_shuffles(self, keyed: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Sort each shuffle by itself and join them; the words that fill the last block of a shuffle are dropped."""
        ends = _WORDS * np.cumsum(-(-self.sizes // _WORDS))
        begins = [0, *ends[:-1].tolist()]
        segments = zip(begins, self.sizes.tolist(), strict=True)
        return np.concatenate([np.sort(keyed[begin : begin + size]) for begin, size in segments])

    @cached_property
    def _block_places(self) -> NDArray[np.uint64]:
        """The places of the four words of each block, ``[…, 4]``."""
        _, _, blocks = self.blocks
        places = blocks[..., None] * np.uint64(_WORDS) + np.arange(_WORDS, dtype=np.uint64)
        return np.asarray(places, np.uint64)

    @cached_property
    def _is_real(self) -> NDArray[np.bool_]:
        """False for padding, ``[users, steps, width]``."""
        return np.arange(self._widest) < self.counts[..., None]

    @cached_property
    def _ranks(self) -> Ints:
        """Positions of the examples in all shuffles, which follow one another, ``[users, steps, width]``."""
        ranks = self._first[..., None] + np.arange(self._widest)
        return ranks if self.is_full else np.where(self._is_real, ranks, 0)


@dataclass(frozen=True, slots=True)
class Batches:
    """The mini-batches of some users.

    Args:
        layout: their numbers and sizes.
        places: positions among the user's examples, ``[users, steps, width]``; 0 for padding.  A tensor on a GPU if
            they were drawn there.
    """

    layout: BatchLayout
    places: Ints | Tensor

    @property
    def order(self) -> Ints:
        """`BatchLayout.order`."""
        return self.layout.order

    @property
    def counts(self) -> Ints:
        """`BatchLayout.counts`."""
        return self.layout.counts


class BatchSampler:
    """Draws the mini-batches of all users, from the streams of each replica.

    Args:
        streams: of each replica.
        device: a GPU that draws the shuffles itself, with equal results, or the CPU.
        graphs: of the GPU, if it has them.
    """

    def __init__(
        self, streams: Sequence[Streams], device: torch.device = _CPU, graphs: StepGraphs | None = None
    ) -> None:
        self._device = device
        self._graphs = graphs
        self._keys = StreamKeys(streams, "batches")
        self._step_keys = StreamKeys(streams, "training")
        self._layouts: dict[LocalWork, tuple[bytes, BatchLayout]] = {}

    def draw(self, cohort: Cohort, sizes: Ints, work: LocalWork) -> Batches:
        """Draw the mini-batches of *cohort*, whose users hold *sizes* examples, ``[users]``, and do *work*."""
        layout = self._layout(sizes, work)
        replicas = cohort.replicas
        users = cohort.users
        bases = cohort.bases
        nodes = cohort.nodes
        if not layout.is_ordered:
            replicas = replicas[layout.order]
            users = users[layout.order]
            bases = bases[layout.order]
            nodes = None if nodes is None else nodes[layout.order]
        passes = layout.numbers  # of each shuffle, among all of its user from this base
        if cohort.repeats is not None:
            earlier_passes = cohort.repeats[layout.order] * layout.passes
            passes = passes + earlier_passes[layout.users]
        if runs_on_gpu(self._device):
            keys = self._keys.of(replicas, nodes)[layout.users].T.astype(np.int64)
            entries = np.stack([users[layout.users], passes, bases[layout.users], layout.sizes, *keys])
            of_users = np.stack([np.cumsum(layout.passes) - layout.passes, layout.per_pass, layout.width])
            return Batches(layout, draw_places(entries, of_users, layout.counts, self._device, self._graphs))
        owners, shuffles, blocks = layout.blocks
        if nodes is None and len({*replicas.tolist()}) == 1:  # one key for all, which is faster
            first, second = self._keys.of(replicas[:1], None)[0].tolist()
        else:
            first, second = self._keys.of(replicas, nodes).T[:, owners]  # NumPy broadcasts the keys
        user = users[owners].astype(np.uint64)
        number = passes[shuffles].astype(np.uint64)
        base = bases[owners].astype(np.uint64)
        words = philox((user, blocks, number, base), (first, second))
        return Batches(layout, layout.shuffle(words))

    def draw_keys(self, cohort: Cohort, batches: Batches) -> Ints:
        """Draw a number below 2**62 for each step of each user of *batches*, ``[steps, users]``.

        They are keyed by (replica, node, user, base version, repeat, step), so that random operations of a model, such
        as dropout, do not depend on the other users.  Learners of one replica get the same numbers.
        """
        order = batches.order
        nodes = None if cohort.nodes is None else cohort.nodes[order]
        keys = self._step_keys.of(cohort.replicas[order], nodes).T
        repeats = 0 if cohort.repeats is None else cohort.repeats[order].astype(np.uint64)
        index = (cohort.bases[order].astype(np.uint64) << _WORD_BITS) | repeats
        steps = np.arange(batches.counts.shape[1])[:, None]
        field = RandomField((keys[0], keys[1]))  # NumPy broadcasts the keys
        high, low, *_ = field.words(cohort.users[order], index, steps)
        high = high >> np.uint64(2)  # of 30 bits
        return ((high << _WORD_BITS) | low).astype(np.int64)

    def _layout(self, sizes: Ints, work: LocalWork) -> BatchLayout:
        """Return the layout of users with *sizes*; one for each *work* is kept, as users often have equal sizes."""
        key = sizes.tobytes()
        last_key, layout = self._layouts.get(work, (b"", None))
        if layout is None or last_key != key:
            layout = BatchLayout(sizes, work)
            self._layouts[work] = (key, layout)
        return layout


def _ranges(counts: Ints) -> Ints:
    """Concatenate 0 … count-1 for each count.

    >>> _ranges(np.array([2, 3])).tolist()
    [0, 1, 0, 1, 2]
    """
    ends = np.cumsum(counts)
    return np.asarray(np.arange(ends[-1]) - np.repeat(ends - counts, counts))
