"""The training examples of all users of all replicas, on the device, and random crops and flips of images."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from netfl.learning.batch_limits import evaluation_slices, gpu_numbers_at_once
from netfl.learning.device_draws import draw_moves
from netfl.learning.stream_keys import StreamKeys
from netfl.learning.tensors import free_gpu_memory, runs_on_gpu, tensor, upload
from netfl.streams import RandomField, Streams
from netfl.types import Floats, Ints

if TYPE_CHECKING:
    from netfl.learning.cohort import Cohort
    from netfl.learning.data import Dataset, Examples
    from netfl.learning.data._augment import Augment
    from netfl.learning.minibatches import Batches
    from netfl.learning.step_graphs import StepGraphs

_WORD_BITS = np.uint64(32)


@dataclass(frozen=True, slots=True)
class ReplicaData:
    """Data and random streams with which one replica learns.

    Args:
        replica: its number in the run.
        dataset: may be the same object in several replicas.
        split: the training rows of each user.
        streams: random streams for learning.
        validation: validation examples, if the run validates.
        participation: shares of the rounds in which users' updates are delivered, ``[users]``, if known.
    """

    replica: int
    dataset: Dataset
    split: Sequence[Ints]
    streams: Streams
    validation: Examples | None = None
    participation: Floats | None = None

    @property
    def examples(self) -> Ints:
        """Number of training examples of each user, ``[users]``."""
        return np.array([len(rows) for rows in self.split])


class Augmentation:
    """Random crops and flips of images ``[channels, rows, columns]``.

    The draw of an example is keyed by (replica, user, base version, repeat, number of the example in the update), so it
    does not depend on the other users, or on the batching of updates.  Learners of one replica that use the same
    mini-batches see the same images.

    A move is a number: with crop c, ``move = (flip · (2c + 1) + down) · (2c + 1) + right``, where *down* and *right*
    select one of the 2c + 1 offsets of the crop.

    Args:
        augment: the options.
        shape: channels, rows and columns of an image.
        streams: of each replica.
        device: of the images.
        graphs: of the device, if it has them.
    """

    def __init__(
        self,
        augment: Augment,
        shape: tuple[int, ...],
        streams: Sequence[Streams],
        device: torch.device,
        graphs: StepGraphs | None = None,
    ) -> None:
        self._graphs = graphs
        self._keys = StreamKeys(streams, "augment")
        self._offsets = 2 * augment.crop + 1
        self._moves = self._offsets**2 * (1 + augment.flip)
        # a pixel has the index row · width + column; one further index stands for all pixels outside of the image
        _, height, width = shape
        self._outside = height * width
        rows = _windows(height, augment.crop, self._outside)
        columns = _windows(width, augment.crop, self._outside)
        self._rows = tensor(np.where(rows < self._outside, rows * width, self._outside)).to(device)
        self._columns = tensor(np.concatenate([columns, columns[:, ::-1]])).to(device)  # then those of flipped images

    def draw(self, cohort: Cohort, batches: Batches) -> Tensor:
        """Draw the moves of all examples of *batches*, ``[steps, users, width]``."""
        order = batches.order
        users = cohort.users[order]
        bases = cohort.bases[order]
        repeats = np.zeros_like(users) if cohort.repeats is None else cohort.repeats[order]
        nodes = None if cohort.nodes is None else cohort.nodes[order]
        keys = self._keys.of(cohort.replicas[order], nodes).T
        earlier_examples = np.cumsum(batches.counts, axis=1) - batches.counts  # of each mini-batch, [users, steps]
        width = batches.places.shape[2]
        device = self._rows.device
        if runs_on_gpu(device):
            entries = np.stack([users, repeats, bases, *keys.astype(np.int64)])
            return draw_moves(entries, earlier_examples, width, self._moves, device, self._graphs)
        index = (bases.astype(np.uint64) << _WORD_BITS) | repeats.astype(np.uint64)
        number = earlier_examples.T[..., None] + np.arange(width)
        field = RandomField((keys[0][:, None], keys[1][:, None]))  # NumPy broadcasts the keys
        word = field.words(users[:, None], index[:, None], number)[0]
        moves = (word * np.uint64(self._moves)) >> _WORD_BITS  # a word below 2³² becomes a number below `_moves`
        return tensor(moves.astype(np.int64))

    def apply(self, x: Tensor, moves: Tensor) -> Tensor:
        """Move each image of *x*, ``[n, channels, rows, columns]``, by its number of *moves*, ``[n]``."""
        right = moves % self._offsets
        down = moves // self._offsets % self._offsets
        flip = moves // self._offsets**2
        rows = self._rows[down]
        columns = self._columns[right + flip * self._offsets]
        pixels = rows[:, :, None] + columns[:, None, :]  # source of each pixel, [n, rows, columns]
        pixels.clamp_(max=self._outside)  # outside in rows, columns or both
        framed = functional.pad(x.flatten(2), (0, 1))  # the pixel outside is 0
        of_channels = pixels.view(len(x), 1, -1).expand(-1, x.shape[1], -1)
        return framed.gather(2, of_channels).view(x.shape)


def _windows(count: int, crop: int, outside: int) -> Ints:
    """Return the source of each of *count* lines for each of the 2 crop + 1 offsets, ``[offsets, count]``."""
    lines = np.arange(count) + np.arange(-crop, crop + 1)[:, None]
    return np.where((lines >= 0) & (lines < count), lines, outside)


class UserDatasets:
    """Training examples, and the rows that each user holds.

    Examples that replicas share are stored once, and so are their labels, unless users of the replicas give others: the
    row of a label is then that of its example, shifted by as much for all examples of a replica.
    """

    def __init__(
        self,
        replicas: Sequence[ReplicaData],
        device: torch.device,
        dtype: torch.dtype,
        graphs: StepGraphs | None = None,
    ) -> None:
        datasets = [replica.dataset for replica in replicas]
        self.augmentation: Augmentation | None = None
        augment = datasets[0].augment
        if augment is not None:
            shape = datasets[0].train_x.shape[1:]
            streams = [replica.streams for replica in replicas]
            self.augmentation = Augmentation(augment, shape, streams, device, graphs)
        # examples and labels of all replicas
        examples, first_example = _stacked([dataset.train_x for dataset in datasets])
        labels, first_label = _stacked([dataset.train_y for dataset in datasets])
        self.x = _concatenate(examples).to(device, dtype)
        self.y = labels_on(labels, self.x)
        self._label_shifts = first_label - first_example
        # the rows that users hold, user by user and replica by replica
        held = [rows + first for replica, first in zip(replicas, first_example, strict=True) for rows in replica.split]
        self._rows = np.concatenate(held)
        self.sizes = np.array([len(rows) for rows in held]).reshape(len(datasets), -1)
        """Examples of each user, ``[replicas, users]``."""
        self._starts = (np.cumsum(self.sizes) - self.sizes.ravel()).reshape(self.sizes.shape)
        self._buffer = self.x[:0]
        self.numbers_at_once: int | None = None
        self._device_rows: Tensor | None = None
        if runs_on_gpu(device):
            self.numbers_at_once = gpu_numbers_at_once(free_gpu_memory(device), self.x.element_size())
            self._device_rows = upload(self._rows, device)

    def rows_of(self, cohort: Cohort, batches: Batches) -> Tensor:
        """Return the rows of `x` in the mini-batches of *cohort*, ``[steps, users, width]``."""
        starts = self._starts[cohort.replicas, cohort.users][batches.order]
        if isinstance(batches.places, Tensor) and self._device_rows is not None:  # drawn on the GPU
            places = batches.places.swapaxes(0, 1) + upload(starts, self.x.device)[:, None]
            return self._device_rows.index_select(0, places.flatten()).view(places.shape)
        places_of_steps = np.asarray(batches.places).swapaxes(0, 1)  # [steps, users, width]
        return upload(self._rows[starts[:, None] + places_of_steps], self.x.device)

    def labels_of(self, rows: Tensor, cohort: Cohort, batches: Batches) -> Tensor:
        """Return the labels, or targets, of the *rows* that `rows_of` returned, in the same shape.

        They are those that the users of *cohort* give.
        """
        if self._label_shifts.any():
            shifts = self._label_shifts[cohort.replicas][batches.order]
            rows = rows + upload(shifts, rows.device)[:, None]
        return gather(self.y, rows)

    def pooled(self) -> UserDatasets:
        """Return the same examples with a single user in each replica that holds all of them."""
        pooled = copy(self)
        pooled.sizes = self.sizes.sum(1, keepdims=True)
        pooled._starts = self._starts[:, :1]
        return pooled

    def buffer(self, examples: int) -> Tensor:
        """Return memory for so many *examples*: on a CPU the same from round to round, on a GPU of its allocator."""
        if runs_on_gpu(self.x.device):
            return self.x.new_empty((examples, *self.x.shape[1:]))
        if len(self._buffer) < examples:
            self._buffer = self.x.new_empty((examples, *self.x.shape[1:]))
        return self._buffer[:examples]

    def rows_held(self, replica: int, users: Ints) -> tuple[Ints, Ints]:
        """Return the rows that *users* of *replica* hold, user by user, and the number of rows of each user."""
        sizes = self.sizes[replica, users]
        starts = self._starts[replica, users]
        first = np.cumsum(sizes) - sizes  # where the rows of each user begin in the result
        places = np.repeat(starts - first, sizes) + np.arange(sizes.sum())
        return self._rows[places], sizes

    def slices(
        self, replica: int, rows: Ints, models: int, largest_layer: int
    ) -> Iterator[tuple[slice, Tensor, Tensor]]:
        """Yield slices of *rows* with their examples and labels, or targets, to be evaluated by so many *models*.

        On a CPU the examples of the next slice take the place of those before.

        Args:
            replica: whose users give the labels.
            rows: of `x`, from `rows_held`.
            models: their number.
            largest_layer: as `netfl.learning.architecture.Architecture.largest_layer`.
        """
        device = self.x.device
        uploaded = upload(rows, device)
        shift = int(self._label_shifts[replica])
        layer_bytes = largest_layer * self.x.element_size()
        models_on_gpu = models if runs_on_gpu(device) else None
        for part in evaluation_slices(len(rows), models_on_gpu, layer_bytes):
            selected = uploaded[part]
            examples = torch.index_select(self.x, 0, selected, out=self.buffer(len(selected)))
            yield part, examples, self.y.index_select(0, selected + shift)


def labels_on(parts: Sequence[NDArray[np.generic]], like: Tensor) -> Tensor:
    """Join labels, or targets of a regression in the type of *like*, on its device."""
    y = _concatenate(parts)
    if y.is_floating_point():
        return y.to(like)
    return y.to(like.device)


def gather(values: Tensor, rows: Tensor) -> Tensor:
    """Return ``values[rows]``; `index_select` measured much faster."""
    return values.index_select(0, rows.flatten()).view(*rows.shape, *values.shape[1:])


def _stacked(arrays: Sequence[NDArray[np.generic]]) -> tuple[list[NDArray[np.generic]], Ints]:
    """Return the distinct arrays of *arrays*, and for each the place of its first row if they are joined."""
    distinct = {id(array): array for array in arrays}
    first_rows = {}
    rows = 0
    for key, array in distinct.items():
        first_rows[key] = rows
        rows += len(array)
    first = np.array([first_rows[id(array)] for array in arrays], np.int64)
    return list(distinct.values()), first


def _concatenate(parts: Sequence[NDArray[np.generic]]) -> Tensor:
    """Join arrays to one tensor; a single array is not copied."""
    if len(parts) == 1:
        return tensor(parts[0])
    return tensor(np.concatenate(parts))
