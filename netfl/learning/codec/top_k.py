"""The largest numbers of a change."""

from __future__ import annotations

from math import ceil, inf, log2

import numpy as np

from netfl.learning.codec import NUMBER_BITS, CodecDraws, Encoded, Tensor
from netfl.learning.codec._sparse_codec import SparseCodec


class TopK(SparseCodec):
    """The k numbers of a change with the largest absolute values are sent whole, with their places.

    ``k = max(1, round(share d))`` of d parameters; among equal ones, the first are sent.  The receiver reads 0 in all
    other places.  With ``error_feedback``, a user sends ``C(e + v)`` and keeps ``e + v - C(e + v)`` as e for its next
    update; e starts at 0.  The choice is biased, and without error feedback SGD need not converge.

    Size: ``k (32 + ⌈log₂ d⌉)`` bits for d parameters.

    Source: Stich, Cordonnier and Jaggi, "Sparsified SGD with memory", NeurIPS 2018, algorithm 1.

    Example::

        kind: top_k
        share: 0.01
    """

    error_feedback: bool = True
    """Users add the errors of their last delivered update to their next change."""

    def bits(self, parameters: int) -> float:
        place_bits = ceil(log2(parameters))
        return float(self.count(parameters) * (NUMBER_BITS + place_bits))

    def encode(self, change: Tensor, draws: CodecDraws) -> Encoded:
        parameters = change.shape[-1]
        count = self.count(parameters)
        sizes = change.abs().nan_to_num_(nan=inf, posinf=inf)  # training that diverges sends what is not finite
        if sizes.device.type == "cpu":
            positions = _largest_on_host(sizes, count)
        else:
            positions = _largest(sizes, count)
        return Encoded(change.gather(-1, positions), positions, parameters)


def _largest(sizes: Tensor, count: int) -> Tensor:
    """Return the places of the *count* largest of *sizes* in rising order, ``[…, count]``; the first of equal ones."""
    smallest = sizes.topk(count, dim=-1, sorted=False).values.amin(dim=-1, keepdim=True)
    is_sent = sizes > smallest
    is_tied = sizes == smallest
    room = count - is_sent.sum(dim=-1, keepdim=True)
    is_sent |= is_tied & (is_tied.cumsum(dim=-1) <= room)
    return is_sent.nonzero()[:, -1].view(*sizes.shape[:-1], count)


def _largest_on_host(sizes: Tensor, count: int) -> Tensor:
    """Return the places of `_largest`, row by row, which a processor finds in a fraction of the time."""
    import torch

    rows = sizes.reshape(-1, sizes.shape[-1]).numpy()
    positions = np.empty((len(rows), count), np.int64)
    for row, places in zip(rows, positions, strict=True):
        smallest = np.partition(row, len(row) - count)[len(row) - count]
        larger = np.flatnonzero(row > smallest)
        tied = np.flatnonzero(row == smallest)[: count - len(larger)]
        places[:] = np.sort(np.concatenate([larger, tied]))
    return torch.from_numpy(positions).view(*sizes.shape[:-1], count)
