"""What channels share whose gain follows a Markov chain: how a scenario says the chain, and what it claims."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Annotated

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import Field, model_validator

from netfl.network.channel import Channel
from netfl.network.channel._correlation_laws import Series, autocorrelation
from netfl.network.periods import periods_of
from netfl.streams import RandomField, Streams
from netfl.types import Law, Rows, StatisticClaim
from netfl.units import Seconds

# Markov chains in blocks of time whose state can be asked for at any block, in any order, without walking there.


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

    def __init__(self, matrix: Matrix, field: RandomField) -> None:
        *powers, limit = matrix_doublings(matrix)
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


def matrix_doublings(matrix: Matrix) -> list[Matrix]:
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
    return np.asarray(matrix_doublings(matrix)[-1].mean(axis=0))


def _middle(power: Matrix) -> NDArray[np.float64]:
    """For each pair of states at the ends, the cumulative law of the state midway, ``[states, states, states - 1]``."""
    middle = power[:, None, :] * power.T[None, :, :]
    total = middle.sum(axis=2, keepdims=True)
    return np.asarray(np.cumsum(middle[..., :-1], axis=2) / np.where(total > 0.0, total, 1.0))


Rates = tuple[tuple[float, ...], ...]

STATES = 32
"""States at most: tables grow with their cube."""
_SEEN = 0.005
"""Transitions that are rarer than this are not tested each by itself: too few to judge by."""
_LAGS = (1, 2, 5)


class MarkovChannel(Channel):
    """A channel in one of several states, which change as a stationary Markov chain."""

    transitions: Rates | None = None
    """Probabilities of the next block's state, a row for each state; rows add up to 1."""
    generator: Rates | None = None
    """Rates in 1/s at which states change, in place of ``transitions``: a row for each state, adding up to 0."""
    block: Annotated[Seconds, Field(gt=0)]
    """How long a state is held; with a ``generator``, how often the chain is looked at."""

    @model_validator(mode="after")
    def _a_chain(self) -> MarkovChannel:
        """A square matrix of the right kind, whose chain settles."""
        if (self.transitions is None) == (self.generator is None):
            raise ValueError("give transitions or generator, exactly one of them")
        rows, states = self.transitions or self.generator or (), len(self._states)
        if not 2 <= states <= STATES:
            raise ValueError(f"{states} states where 2 to {STATES} are wanted")
        if len(rows) != states or any(len(row) != states for row in rows):
            raise ValueError(f"the matrix must have a row and a column for each of the {states} states")
        matrix, wanted = np.array(rows), 0.0 if self.transitions is None else 1.0
        if (matrix[~np.eye(states, dtype=bool)] < 0.0).any() or (wanted and (matrix < 0.0).any()):
            raise ValueError("an entry is negative, which only the diagonal of a generator is")
        if not np.allclose(matrix.sum(axis=1), wanted, rtol=0.0, atol=1e-6 * np.abs(matrix).max()):
            raise ValueError(f"each row of the matrix must add up to {wanted:g}")
        matrix_doublings(self.matrix)
        return self

    @property
    @abstractmethod
    def _states(self) -> Sequence[float]:
        """What the scenario says of each state."""

    @property
    def matrix(self) -> NDArray[np.float64]:
        """The transition matrix of one block, ``[states, states]``."""
        if self.transitions is not None:
            matrix = np.array(self.transitions)
        else:
            from scipy.linalg import expm

            matrix = np.maximum(expm(np.array(self.generator) * self.block), 0.0)
        return np.asarray(matrix / matrix.sum(axis=1, keepdims=True))

    @property
    def coherence_s(self) -> float:
        """The mean stay in the state that is left soonest, block / (1 - P_ii)."""
        return self.block / float(1.0 - self.matrix.diagonal().min())

    def _law(self, quantity: str, values: NDArray[np.float64]) -> Law:
        """The law of *values* of the states, at an instant of many chains, and from block to block."""
        share = stationary(self.matrix)
        mean = float(share @ values)
        variance = float(share @ (values - mean) ** 2)

        def series(streams: Streams, size: int, times_s: NDArray[np.float64]) -> NDArray[np.float64]:
            rows, times = np.repeat(np.arange(size), len(times_s)), np.tile(times_s, size)
            state = Chain(self.matrix, streams.field("state")).state(rows, periods_of(times, self.block))
            return values[state].reshape(size, -1)

        def draw(streams: Streams, size: int) -> NDArray[np.float64]:
            return values[Chain(self.matrix, streams.field("state")).state(np.arange(size), 1000 + np.arange(size))]

        figures = [self._moves(share)]
        if variance > 0.0:
            figures.append(self._correlation(series, share, values, (mean, variance)))
        return Law(
            quantity,
            "state i has the share π_i of time, π P = π",
            draw,
            mean,
            variance,
            cdf=_steps(values, share),
            distribution=", ".join(f"P({value:g}) = {part:.4g}" for value, part in zip(values, share, strict=True)),
            figures=tuple(figures),
        )

    def _moves(self, share: NDArray[np.float64]) -> StatisticClaim:
        """The claim that states follow each other with the stated probabilities, so that stays are geometric."""
        matrix = self.matrix
        pairs = np.argwhere((share[:, None] >= _SEEN) & (matrix >= _SEEN))

        def draw(streams: Streams, size: int) -> tuple[Rows, Rows]:
            chain = Chain(matrix, streams.field("state"))
            now, then = (chain.state(np.arange(size), 77 + np.arange(size) + later) for later in (0, 1))
            since = now[:, None] == pairs[:, 0]
            return (since & (then[:, None] == pairs[:, 1])).astype(float), since.astype(float)

        means = matrix[pairs[:, 0], pairs[:, 1]].tolist()
        return StatisticClaim(
            "transitions",
            "P(i → j) = P_ij in a block; stays are geometric",
            draw,
            means,
            [f"{i} → {j}" for i, j in pairs],
        )

    def _correlation(
        self,
        series: Series,
        share: NDArray[np.float64],
        values: NDArray[np.float64],
        moments: tuple[float, float],
    ) -> StatisticClaim:
        """The claim on values a few blocks apart."""
        mean, variance = moments
        lags_s = [lag * self.block for lag in _LAGS]

        def rho(lag_s: float) -> float:
            later = np.linalg.matrix_power(self.matrix, round(lag_s / self.block)) @ (values - mean)
            return float((share * (values - mean)) @ later) / variance

        return autocorrelation("Σ π_i v_i (P^k)_ij v_j, centred, over the variance", series, rho, lags_s, moments)


def _steps(
    values: NDArray[np.float64], share: NDArray[np.float64]
) -> Callable[[NDArray[np.float64]], NDArray[np.float64]]:
    """The distribution function of a law on a few values."""
    return lambda x: np.asarray((values <= np.asarray(x)[:, None]) @ share)
