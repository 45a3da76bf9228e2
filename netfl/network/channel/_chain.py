"""Markov chains in blocks of time whose state can be asked for at any block, in any order, without walking there."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from netfl.streams import Field

Matrix = NDArray[np.float64]

_LEVELS = 44
_CLOSE = 1e-12


class Chain:
    """A stationary chain with the given transition matrix P: a function of (row, block).

    Far apart, states are independent: after H = 2^L transitions the matrix is its limit, to within 1e-12.  So the
    states at multiples of H are drawn from the stationary law, each by itself, and those between them by halving: the
    state in the middle of two known ones that are 2h apart is s with probability P^h(a, s) P^h(s, b) / P^2h(a, b).
    Each is keyed by (row, block): no answer depends on what was asked before, and any block takes L steps.

    Args:
        matrix: P, ``[states, states]``; rows add up to 1.
        field: where draws come from.
    """

    def __init__(self, matrix: Matrix, field: Field) -> None:
        *powers, limit = doublings(matrix)
        self._field, self._stationary = field, np.cumsum(limit.mean(axis=0))[:-1]
        self._middles = [_middle(power) for power in powers]
        self._levels = np.arange(len(powers), -1, -1, dtype=np.uint64)

    def state(self, rows: NDArray[np.int64], block: ArrayLike) -> NDArray[np.int64]:
        """The state of each row in *block*, ``[n]``."""
        at = np.broadcast_to(np.asarray(block, np.uint64), rows.shape)
        levels, one = self._levels, np.uint64(1)
        # blocks to know: the multiple of H before it, the one after it, then the middles on the way down to it
        start = (at >> levels[0]) << levels[0]
        middles = ((at[:, None] >> levels[:-1]) << levels[:-1]) + (one << levels[1:])
        luck = self._field.uniform(rows[:, None], np.column_stack([start, start + (one << levels[0]), middles]))
        left, right = (np.searchsorted(self._stationary, luck[:, side], side="right") for side in (0, 1))
        for turn, level in enumerate(levels[1:], 2):
            middle = (luck[:, turn, None] > self._middles[int(level)][left, right]).sum(axis=1)
            after = (at >> level) & one == one
            left, right = np.where(after, middle, left), np.where(after, right, middle)
        return np.asarray(left)


def doublings(matrix: Matrix) -> list[Matrix]:
    """P, P², P⁴, … up to the power at which all rows are the stationary law, to within 1e-12.

    Raises:
        ValueError: there is no such power, or a state is left for good.
    """
    powers = [matrix]
    while np.ptp(powers[-1], axis=0).max() > _CLOSE:
        if len(powers) > _LEVELS:
            raise ValueError("the chain does not settle to one law: it falls apart, or goes round in a cycle")
        square = powers[-1] @ powers[-1]
        powers.append(square / square.sum(axis=1, keepdims=True))
    if powers[-1].min() <= _CLOSE:
        raise ValueError("a state that is left for good can never be seen; leave it out")
    return powers


def stationary(matrix: Matrix) -> NDArray[np.float64]:
    """The long-run share of each state, ``[states]``."""
    return np.asarray(doublings(matrix)[-1].mean(axis=0))


def _middle(power: Matrix) -> NDArray[np.float64]:
    """For each pair of states at the ends, the cumulative law of the state midway, ``[states, states, states - 1]``."""
    middle = power[:, None, :] * power.T[None, :, :]
    total = middle.sum(axis=2, keepdims=True)
    return np.asarray(np.cumsum(middle[..., :-1], axis=2) / np.where(total > 0.0, total, 1.0))
