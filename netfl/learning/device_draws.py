"""Shuffles, crops and flips drawn on a GPU, equal to the bit to those that the host draws.

A round then sends a few numbers for each user to the GPU instead of those for each example of all mini-batches.  The
draws of one shape are recorded (`netfl.learning.step_graphs`): they are about 200 short operations.
`netfl.learning.minibatches` draws shuffles on the host, and `netfl.learning.user_data` crops and flips.
"""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from netfl.learning.step_graphs import StepGraphs, run_recorded
from netfl.learning.tensors import upload
from netfl.types import Ints

_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)
_BITS = 32
"""Bits of a random word."""
_MASK = 0xFFFFFFFF
_WORDS = 4
"""Random words of a counter."""
_SIGN = 1 << 31
_LAST = torch.iinfo(torch.int64).max


def philox(
    counter: tuple[Tensor, Tensor, Tensor, Tensor], key: tuple[Tensor, Tensor], rounds: int = 10
) -> list[Tensor]:
    """Return the four 32-bit words of `netfl.streams.philox`, in int64 tensors.

    The products of 32-bit words overflow int64.  Their 64 bits are nevertheless right, because the arithmetic wraps:
    a mask selects the low word, and a mask after the shift removes the copies of the sign from the high word.

    Args:
        counter: four tensors of 32-bit words that broadcast against each other.
        key: two tensors of 32-bit words that broadcast against the counters.
        rounds: the number of rounds.
    """
    a, b, c, d = counter
    k0, k1 = key
    for _ in range(rounds):
        left = a * _MULTIPLIERS[0]
        right = c * _MULTIPLIERS[1]
        a = (right >> _BITS & _MASK) ^ b ^ k0
        c = (left >> _BITS & _MASK) ^ d ^ k1
        b = right & _MASK
        d = left & _MASK
        k0 = k0 + _WEYL[0] & _MASK
        k1 = k1 + _WEYL[1] & _MASK
    return [a, b, c, d]


def draw_places(
    entries: Ints, users: Ints, counts: Ints, device: torch.device, graphs: StepGraphs | None = None
) -> Tensor:
    """Draw the places of the mini-batches of some users on *device*, ``[users, steps, width]``; 0 for padding.

    Args:
        entries: one column for each pass of each user, user by user, ``[6, passes]``: the user, the two halves of the
            index of the draw, the number of examples, and the two words of the key.
        users: the first entry, the mini-batches of a pass and the width of a mini-batch of each user, ``[3, users]``.
        counts: examples in each mini-batch, ``[users, steps]``.
        device: a GPU.
        graphs: of the GPU, if it has them.
    """
    sizes = entries[3]
    shape = (int(sizes.max()), counts.shape[1], int(counts.max()))
    counts_if_padded = None if counts.min() == counts.max() else upload(counts, device)
    inputs = (upload(entries, device), upload(users, device), counts_if_padded)
    return run_recorded(graphs, ("places", shape), partial(_places, shape), inputs)


def _places(shape: tuple[int, int, int], entries: Tensor, users: Tensor, counts: Tensor | None) -> Tensor:
    """Return the places of `draw_places`.

    Args:
        shape: the largest number of examples, the steps, and the width of the widest mini-batch.
        entries: as there, on the device.
        users: as there, on the device.
        counts: as there, on the device; ``None`` if all mini-batches have the same number of examples.
    """
    largest, steps, columns = shape
    device = entries.device
    # shuffle the places of each pass, [passes, largest]: sort them by random words
    user, low, high, sizes, *key = entries[..., None]
    blocks = -(-largest // _WORDS)
    block = torch.arange(blocks, device=device)
    words = torch.stack(philox((user, block, low, high), (key[0], key[1])), dim=2).flatten(1)
    place = torch.arange(blocks * _WORDS, device=device)
    keyed = words - _SIGN << _BITS | place  # a word above a place; signed, in the same order
    keyed = keyed.where(place < sizes, _LAST)[:, :largest]
    shuffled = keyed.sort(dim=1).values & _MASK

    # cut the passes into mini-batches
    first, per_pass, width = users[..., None]
    step = torch.arange(steps, device=device)
    column = torch.arange(columns, device=device)
    start = (first + step // per_pass) * largest + step % per_pass * width
    position = start[..., None] + column  # [users, steps, columns]
    if counts is None:
        return _take(shuffled, position)
    is_real = column < counts[..., None]
    return _take(shuffled, position.where(is_real, 0)).where(is_real, 0)


def draw_moves(
    entries: Ints, before: Ints, width: int, moves: int, device: torch.device, graphs: StepGraphs | None = None
) -> Tensor:
    """Draw numbers below *moves* for the examples of some users on *device*, ``[steps, users, width]``.

    Args:
        entries: one column for each user, ``[5, users]``: the user, the two halves of the index of the draw, and the
            two words of the key.
        before: examples in earlier mini-batches of the user, ``[users, steps]``.
        width: of a mini-batch.
        moves: at most 2³¹.
        device: a GPU.
        graphs: of the GPU, if it has them.
    """
    inputs = (upload(entries, device), upload(before.T, device))
    return run_recorded(graphs, ("moves", width, moves), partial(_moves, width, moves), inputs)


def _moves(width: int, moves: int, entries: Tensor, before: Tensor) -> Tensor:
    """Return the numbers of `draw_moves`."""
    user, low, high, *key = entries[..., None]
    number = before[..., None] + torch.arange(width, device=entries.device)
    word = philox((user, number, low, high), (key[0], key[1]))[0]
    return word * moves >> _BITS


def _take(values: Tensor, places: Tensor) -> Tensor:
    return values.flatten().index_select(0, places.flatten()).view(places.shape)
