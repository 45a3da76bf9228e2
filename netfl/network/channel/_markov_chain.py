"""Markov chains in blocks of time, and the base of channels that follow one."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Annotated

import numpy as np
from numpy.typing import ArrayLike
from pydantic import Field, model_validator

from netfl.core.spec import check_one_of
from netfl.network.channel import Channel
from netfl.network.channel._correlation_laws import autocorrelation
from netfl.network.periods import periods_of
from netfl.streams import RandomField, Streams
from netfl.types import Floats, Ints, Law, Rows, StatisticClaim
from netfl.units import Seconds

Matrix = Floats
Rates = tuple[tuple[float, ...], ...]

MAX_STATES = 32
"""Maximum number of states; tables grow with its cube."""
_MAX_DOUBLINGS = 44
_CLOSE = 1e-12
_MIN_SHARE = 0.005
"""Probability from which a transition is tested by itself; rarer ones are too few."""
_LAGS = (1, 2, 5)
"""Lags in blocks at which the correlation is tested."""


class MarkovChannel(Channel):
    """A channel in one of several states, which change as a stationary Markov chain."""

    transitions: Rates | None = None
    """Probabilities of the next block's state, a row for each state; rows add up to 1."""
    generator: Rates | None = None
    """Rates in 1/s at which states change, instead of ``transitions``: a row for each state, adding up to 0."""
    block: Annotated[Seconds, Field(gt=0)]
    """Duration of a state; with a ``generator``, the interval at which the chain is sampled."""

    @model_validator(mode="after")
    def _check_chain(self) -> MarkovChannel:
        check_one_of(self, "transitions", "generator")
        rows = self.transitions or self.generator or ()
        states = len(self._states)
        if not 2 <= states <= MAX_STATES:
            raise ValueError(f"a chain of {states} states; give 2 to {MAX_STATES}")
        if len(rows) != states or any(len(row) != states for row in rows):
            raise ValueError(f"the matrix is not square; give a row and a column for each of the {states} states")
        matrix = np.array(rows)
        is_generator = self.transitions is None
        off_diagonal = matrix[~np.eye(states, dtype=bool)]
        if (off_diagonal < 0.0).any() or (not is_generator and (matrix < 0.0).any()):
            raise ValueError("an entry is negative, as only the diagonal of a generator may be; write 0 or more")
        row_sum = 0.0 if is_generator else 1.0
        if not np.allclose(matrix.sum(axis=1), row_sum, rtol=0.0, atol=1e-6 * np.abs(matrix).max()):
            raise ValueError(f"a row of the matrix does not add up to {row_sum:g}; change its entries so that it does")
        _doublings(self.matrix)
        return self

    @property
    @abstractmethod
    def _states(self) -> Sequence[float]:
        """Value of each state in the scenario."""

    @property
    def matrix(self) -> Matrix:
        """Transition matrix of one block, ``[states, states]``."""
        if self.transitions is not None:
            matrix = np.array(self.transitions)
        else:
            from scipy.linalg import expm

            matrix = np.maximum(expm(np.array(self.generator) * self.block), 0.0)  # P = exp(Q · block)
        return np.asarray(matrix / matrix.sum(axis=1, keepdims=True))

    @property
    def has_fast_fading(self) -> bool:
        return True

    @property
    def coherence_s(self) -> float:
        """Mean stay in the state that is left soonest, block / (1 - P_ii)."""
        return self.block / float(1.0 - self.matrix.diagonal().min())

    def _law(self, quantity: str, values: Floats) -> Law:
        """Return the distribution of the *values* v of the states: stationary, with its transitions and correlation.

        Mean μ = Σ π_i v_i, variance σ² = Σ π_i (v_i - μ)², and k blocks apart the correlation
        Σ π_i (v_i - μ) (P^k)_ij (v_j - μ) / σ².
        """
        share = np.asarray(_doublings(self.matrix)[-1].mean(axis=0))
        mean = float(share @ values)
        variance = float(share @ (values - mean) ** 2)
        lags_s = [lag * self.block for lag in _LAGS]

        def series(streams: Streams, size: int, times_s: Floats) -> Floats:
            rows = np.repeat(np.arange(size), len(times_s))
            blocks = periods_of(np.tile(times_s, size), self.block)
            state = Chain(self.matrix, streams.field("state")).state(rows, blocks)
            return values[state].reshape(size, -1)

        def draw(streams: Streams, size: int) -> Floats:
            chain = Chain(self.matrix, streams.field("state"))
            return values[chain.state(np.arange(size), 1000 + np.arange(size))]

        def rho(lag_s: float) -> float:
            expected = np.linalg.matrix_power(self.matrix, round(lag_s / self.block)) @ (values - mean)
            return float((share * (values - mean)) @ expected) / variance

        statistics = [self._transition_claim(share)]
        if variance > 0.0:
            formula = "Σ π_i v_i (P^k)_ij v_j, centred, over the variance"
            statistics.append(autocorrelation(formula, series, rho, lags_s, (mean, variance)))
        return Law(
            quantity,
            "state i has the share π_i of time, π P = π",
            draw,
            mean,
            variance,
            cdf=lambda x: np.asarray((values <= np.asarray(x)[:, None]) @ share),
            distribution=", ".join(f"P({value:g}) = {part:.4g}" for value, part in zip(values, share, strict=True)),
            statistics=tuple(statistics),
        )

    def _transition_claim(self, share: Floats) -> StatisticClaim:
        """Claim P(i → j) = P_ij, for pairs of states that are frequent enough to test."""
        matrix = self.matrix
        pairs = np.argwhere((share[:, None] >= _MIN_SHARE) & (matrix >= _MIN_SHARE))

        def draw(streams: Streams, size: int) -> tuple[Rows, Rows]:
            chain = Chain(matrix, streams.field("state"))
            before, after = (chain.state(np.arange(size), 77 + np.arange(size) + later) for later in (0, 1))
            is_from = before[:, None] == pairs[:, 0]  # [size, pairs]
            is_to = after[:, None] == pairs[:, 1]
            return (is_from & is_to).astype(float), is_from.astype(float)

        means = matrix[pairs[:, 0], pairs[:, 1]].tolist()
        places = [f"{i} → {j}" for i, j in pairs]
        return StatisticClaim("transitions", "P(i → j) = P_ij in a block; stays are geometric", draw, means, places)


class Chain:
    """Stationary chains with the transition matrix P: a function of (row, block) in any order of calls.

    After H = 2^L transitions the matrix is its limit, to within 1e-12, so states H blocks apart are independent.  The
    states at multiples of H are drawn from the stationary distribution, and those between them by halving: the state
    midway between two known states a and b that are 2h apart is s with probability P^h(a, s) P^h(s, b) / P^2h(a, b).
    Each draw is keyed by (row, block), so no answer depends on earlier calls, and any block takes L steps.

    Args:
        matrix: P, ``[states, states]``; rows add up to 1.
        field: source of the draws.
    """

    def __init__(self, matrix: Matrix, field: RandomField) -> None:
        *powers, limit = _doublings(matrix)
        self._field = field
        self._stationary = np.cumsum(limit.mean(axis=0))[:-1]  # cumulative distribution
        self._middles = [_middle_law(power) for power in powers]  # of each level, P^h with h = 2^level
        self._levels = np.arange(len(powers), -1, -1, dtype=np.uint64)  # L, L - 1, …, 0

    def state(self, rows: Ints, block: ArrayLike) -> Ints:
        """Return the state of each row in *block*, ``[n]``."""
        blocks = np.broadcast_to(np.asarray(block, np.uint64), rows.shape)
        levels = self._levels
        unit = np.uint64(1)

        # blocks to draw: the multiple of H before, the one after, then the middles of the halving
        start = (blocks >> levels[0]) << levels[0]
        end = start + (unit << levels[0])
        middles = ((blocks[:, None] >> levels[:-1]) << levels[:-1]) + (unit << levels[1:])
        uniform = self._field.uniform(rows[:, None], np.column_stack([start, end, middles]))  # [n, 2 + L]

        # states at both ends, then halve the interval around the block
        left = np.searchsorted(self._stationary, uniform[:, 0], side="right")
        right = np.searchsorted(self._stationary, uniform[:, 1], side="right")
        for column, level in enumerate(levels[1:], 2):
            middle = (uniform[:, column, None] > self._middles[int(level)][left, right]).sum(axis=1)
            is_right_half = (blocks >> level) & unit == unit
            left = np.where(is_right_half, middle, left)
            right = np.where(is_right_half, right, middle)
        return np.asarray(left)


def _doublings(matrix: Matrix) -> list[Matrix]:
    """Return P, P², P⁴, … up to the power at which all rows are the stationary distribution, to within 1e-12.

    Raises:
        ValueError: there is no such power, or a state is transient.
    """
    powers = [matrix]
    while np.ptp(powers[-1], axis=0).max() > _CLOSE:
        if len(powers) > _MAX_DOUBLINGS:
            raise ValueError(
                "the chain is reducible or periodic, without a unique limit; let each state reach all others"
            )
        square = powers[-1] @ powers[-1]
        powers.append(square / square.sum(axis=1, keepdims=True))
    if powers[-1].min() <= _CLOSE:
        raise ValueError("a transient state has no share in the stationary distribution; leave it out")
    return powers


def _middle_law(power: Matrix) -> Floats:
    """Return the cumulative distribution of the state midway between two states, ``[states, states, states - 1]``.

    P(s | a, b) = P^h(a, s) P^h(s, b) / P^2h(a, b), with *power* P^h.
    """
    middle = power[:, None, :] * power.T[None, :, :]  # [a, b, s]
    total = middle.sum(axis=2, keepdims=True)
    return np.asarray(np.cumsum(middle[..., :-1], axis=2) / np.where(total > 0.0, total, 1.0))
