"""Shuffles, crops and flips drawn on a GPU, equal to the bit to those that the host draws.

A round then sends a few numbers for each user to the GPU instead of those for each example of all mini-batches.
`netfl.learning.minibatches` draws shuffles on the host, and `netfl.learning.user_data` crops and flips.
"""

from __future__ import annotations

import torch
from torch import Tensor

from netfl.learning.tensors import upload
from netfl.types import Ints

_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)
_MASK, _BITS, _WORDS = 0xFFFFFFFF, 32, 4
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
        left, right = a * _MULTIPLIERS[0], c * _MULTIPLIERS[1]
        a, c = (right >> _BITS & _MASK) ^ b ^ k0, (left >> _BITS & _MASK) ^ d ^ k1
        b, d = right & _MASK, left & _MASK
        k0, k1 = k0 + _WEYL[0] & _MASK, k1 + _WEYL[1] & _MASK
    return [a, b, c, d]


def draw_places(entries: Ints, users: Ints, counts: Ints, device: torch.device) -> Tensor:
    """Draw the places of the mini-batches of some users on *device*, ``[users, steps, width]``; 0 for padding.

    Args:
        entries: one column for each pass of each user, user by user, ``[6, passes]``: the user, the two halves of the
            index of the draw, the number of examples, and the two words of the key.
        users: the first entry, the mini-batches of a pass and the width of a mini-batch of each user, ``[3, users]``.
        counts: examples in each mini-batch, ``[users, steps]``.
        device: a GPU.
    """
    largest = int(entries[3].max())
    blocks = -(-largest // _WORDS)
    user, low, high, sizes, *key = upload(entries, device)[..., None]
    block = torch.arange(blocks, device=device)
    words = torch.stack(philox((user, block, low, high), (key[0], key[1])), dim=2).flatten(1)
    place = torch.arange(blocks * _WORDS, device=device)
    ranked = (words - _SIGN << _BITS | place).where(place < sizes, _LAST)[:, :largest]  # signed, in the same order
    shuffled = ranked.sort(dim=1).values & _MASK

    first, per_pass, width = upload(users, device)[..., None]
    step, columns = torch.arange(counts.shape[1], device=device), int(counts.max())
    start = (first + step // per_pass) * largest + step % per_pass * width
    column = torch.arange(columns, device=device)
    if counts.min() == columns:
        return _take(shuffled, start[..., None] + column)
    is_real = column < upload(counts, device)[..., None]
    return _take(shuffled, (start[..., None] + column).where(is_real, 0)).where(is_real, 0)


def draw_moves(entries: Ints, before: Ints, width: int, moves: int, device: torch.device) -> Tensor:
    """Draw numbers below *moves* for the examples of some users on *device*, ``[steps, users, width]``.

    Args:
        entries: one column for each user, ``[5, users]``: the user, the two halves of the index of the draw, and the
            two words of the key.
        before: examples in earlier mini-batches of the user, ``[users, steps]``.
        width: of a mini-batch.
        moves: at most 2³¹.
        device: a GPU.
    """
    user, low, high, *key = upload(entries, device)[..., None]
    number = upload(before.T, device)[..., None] + torch.arange(width, device=device)
    word = philox((user, number, low, high), (key[0], key[1]))[0]
    return word * moves >> _BITS


def _take(values: Tensor, places: Tensor) -> Tensor:
    return values.flatten().index_select(0, places.flatten()).view(places.shape)
