"""Memory: dependence of the users in a round on those in earlier rounds, its order, and the lengths of runs.

Under a stationary selection rounds are independent and alike, so that their order carries no information: the test
that shuffles rounds is exact, whatever happens within rounds.  Its statistic is the likelihood ratio of first-order
Markov chains against memoryless draws.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

MAX_SHUFFLES = 499
"""Limit of the number of shuffles of a Monte-Carlo p-value."""
_BLOCK = 1 << 16
"""Entries of participation that are counted at a time."""
_MAX_EXCEEDANCES = 20
"""Number of shuffles as extreme as the data after which a Monte-Carlo test ends (Besag and Clifford, 1991)."""
_MIN_RUNS = 100
"""Fewest runs for which χ² is accurate; the p-value of fewer runs is simulated."""
_DRAWS = 199


@dataclass(frozen=True, slots=True)
class Memory:
    """The test of a first-order Markov process against a memoryless one.

    Args:
        statistic: twice the log of the likelihood ratio.
        p: share of shuffled orders of rounds with at least this statistic.
        shuffles: the number of shuffles.
        chain: ``users`` for a chain over the users, ``presence`` for one chain for each user.
    """

    statistic: float
    p: float
    shuffles: int
    chain: str


@dataclass(frozen=True, slots=True)
class TransitionCounts:
    """Two-state chains of the users, all ``[users]``; NaN for a user that was never, or always, delivered.

    Args:
        on: P(not delivered → delivered).
        off: P(delivered → not delivered).
        eigenvalue: ``1 - on - off``, the correlation of successive rounds.
        p: exact two-sided p-value of the number of runs, under independent rounds.
    """

    on: NDArray[np.float64]
    off: NDArray[np.float64]
    eigenvalue: NDArray[np.float64]
    p: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class MarkovOrder:
    """Order and strength of memory.

    Args:
        memory: first-order Markov against memoryless.
        second: p-value of second order against first; ``None`` if counts are too small.
        eigenvalue: the second largest in size, of the chain over users or of the users' own chains.
        mixing: rounds until the chain, or each user's own, is within 1/4 of its long-run distribution; ``None`` if
            never.
        matrix: the transition matrix of few users with one in each round; ``None`` otherwise.
        entropy_rate: in bits per round; an upper bound for chains of the users.
    """

    memory: Memory
    second: float | None
    eigenvalue: float
    mixing: int | None
    matrix: NDArray[np.float64] | None
    entropy_rate: float


def single_user_sequence(delivered: NDArray[np.bool_]) -> NDArray[np.int64] | None:
    """Return the user of each round if every round has exactly one; ``None`` otherwise."""
    return delivered.argmax(axis=1) if (delivered.sum(axis=1) == 1).all() else None


def find_memory(
    delivered: NDArray[np.bool_], rng: np.random.Generator, block: NDArray[np.int64] | None = None
) -> Memory:
    """Return the likelihood ratio of memory, with its p-value by shuffling rounds.

    With the number of the *block* of each round, ``[rounds]``, only rounds of a block change places: memory beyond
    rates that differ between blocks.
    """
    sequence, users = single_user_sequence(delivered), delivered.shape[1]
    shuffle = _Shuffle(len(delivered), rng, block)
    if sequence is not None and 5 * users**2 <= len(delivered):
        return _shuffle_test(lambda order: transitions_ratio(sequence[order], users), shuffle, "users")
    dense = np.ascontiguousarray(delivered)

    def statistic(order: NDArray[np.int64]) -> float:
        if sequence is None:
            shuffled = dense[order]
            return _presence_ratio(delivered, order, _count_both(shuffled[1:], shuffled[:-1]))
        chosen = sequence[order]
        repeats = np.bincount(chosen[1:][chosen[1:] == chosen[:-1]], minlength=users)
        return _presence_ratio(delivered, order, repeats)

    return _shuffle_test(statistic, shuffle, "presence")


def count_transitions(delivered: NDArray[np.bool_]) -> TransitionCounts:
    """Return the two-state chains of all users, with the exact test of Wald and Wolfowitz of each.

    Given the number of deliveries of a user, the number of its runs of deliveries is hypergeometric.
    """
    rounds = len(delivered)
    repeats = _count_both(delivered[1:], delivered[:-1])
    count = delivered.sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        on = (count - delivered[0] - repeats) / (rounds - 1 - (count - delivered[-1]))
        off = 1 - repeats / (count - delivered[-1])
    runs = count - repeats
    distribution = stats.hypergeom(rounds, rounds - count + 1, count)
    p = np.minimum(1.0, 2 * np.minimum(distribution.cdf(runs), distribution.sf(runs - 1)))
    varies = (count > 0) & (count < rounds)
    return TransitionCounts(on, off, np.where(varies, 1 - on - off, np.nan), np.where(varies, p, np.nan))


def second_order(delivered: NDArray[np.bool_]) -> float | None:
    """Return the p-value of second-order two-state chains against first-order ones, over users with enough counts.

    For each user, G² tests the dependence of a round on the last but one, given the last; `combine_p_values` combines
    the users.
    """
    users = delivered.shape[1]
    counts = _count_triples(delivered).reshape(users, 2, 2, 2)
    cells = counts.transpose(0, 2, 1, 3).astype(float)  # user, last, last but one, next
    rows, columns, total = cells.sum(axis=3), cells.sum(axis=2), cells.sum(axis=(2, 3))
    expected = rows.min(axis=2) * columns.min(axis=2) / np.maximum(total, 1)
    ratio = 2 * (_n_log_n(cells, (2, 3)) - _n_log_n(rows, 2) - _n_log_n(columns, 2) + special.xlogy(total, total))
    degrees = (expected >= 5).sum(axis=1)
    p = stats.chi2.sf(np.where(expected >= 5, ratio, 0.0).sum(axis=1), np.maximum(degrees, 1))
    return combine_p_values(np.where(degrees > 0, p, np.nan))


def transitions(sequence: NDArray[np.int64], users: int) -> NDArray[np.float64]:
    """Return the number of rounds of user j right after user i, ``[users, users]``."""
    counts = np.bincount(sequence[:-1] * users + sequence[1:], minlength=users * users)
    return counts.reshape(users, users).astype(float)


def transitions_ratio(sequence: NDArray[np.int64], users: int) -> float:
    """Return G² of a first-order chain over users against independent draws."""
    counts = transitions(sequence, users)
    before, after = _n_log_n(counts.sum(axis=0)), _n_log_n(counts.sum(axis=1))
    return float(2 * (_n_log_n(counts) - before - after + _n_log_n(counts.sum())))


def mixing_time(matrix: NDArray[np.float64], max_rounds: int = 1 << 20) -> int | None:
    """Return the rounds until a chain is within 1/4 of its stationary distribution in total variation, from any start.

    ``None`` if that takes more than *max_rounds*.  D. Levin, Y. Peres, E. Wilmer, "Markov chains and mixing times",
    2009, 4.5.
    """
    size = len(matrix)
    system = np.vstack([matrix.T - np.eye(size), np.ones(size)])  # π P = π, Σ π = 1
    limit = np.linalg.lstsq(system, np.append(np.zeros(size), 1.0))[0]
    powers = [matrix]
    while 0.5 * np.abs(powers[-1] - limit).sum(axis=1).max() > 0.25:
        if 1 << len(powers) > max_rounds:
            return None
        powers.append(powers[-1] @ powers[-1])
    time, reached = 0, np.eye(len(matrix))
    for step in reversed(range(len(powers))):
        further = reached @ powers[step]
        if 0.5 * np.abs(further - limit).sum(axis=1).max() > 0.25:
            time, reached = time + (1 << step), further
    return time + 1


class _Shuffle:
    """Random orders of rounds, by which only rounds of a block change places.

    Args:
        rounds: the number of rounds.
        rng: the source of randomness.
        block: the number of the block of each round, ``[rounds]``; ``None`` for one block.
    """

    def __init__(self, rounds: int, rng: np.random.Generator, block: NDArray[np.int64] | None) -> None:
        self.rounds = rounds
        self._rng = rng
        self._block = block
        if block is not None:
            self._by_block = np.argsort(block, kind="stable")

    def draw(self) -> NDArray[np.int64]:
        """Return an order of the rounds."""
        if self._block is None:
            return self._rng.permutation(self.rounds)
        order = np.empty(self.rounds, np.int64)
        order[self._by_block] = np.lexsort((self._rng.random(self.rounds), self._block))
        return order


def _shuffle_test(statistic: Callable[[NDArray[np.int64]], float], shuffle: _Shuffle, chain: str) -> Memory:
    """Test *statistic* of the order of rounds by shuffling until the p-value is clear."""
    observed = statistic(np.arange(shuffle.rounds))
    exceedances = 0
    for drawn in range(1, MAX_SHUFFLES + 1):
        exceedances += statistic(shuffle.draw()) >= observed - 1e-9
        if exceedances == _MAX_EXCEEDANCES:
            return Memory(observed, exceedances / drawn, drawn, chain)
    return Memory(observed, (exceedances + 1) / (MAX_SHUFFLES + 1), MAX_SHUFFLES, chain)


def _presence_ratio(delivered: NDArray[np.bool_], order: NDArray[np.int64], repeats: NDArray[np.int64]) -> float:
    """Return G² of all users' two-state chains, given the number of repeated deliveries of each."""
    first, last, count, rounds = delivered[order[0]], delivered[order[-1]], delivered.sum(axis=0), len(delivered)
    leave, come = count - last - repeats, count - first - repeats
    cells = np.array([repeats, leave, come, rounds - 1 - repeats - leave - come], float)
    rows = np.array([count - last, rounds - 1 - count + last], float)
    columns = np.array([count - first, rounds - 1 - count + first], float)
    total = repeats.size * special.xlogy(rounds - 1, rounds - 1)
    return float(2 * (_n_log_n(cells) - _n_log_n(rows) - _n_log_n(columns) + total))


def _n_log_n(counts: NDArray[np.float64], axes: int | tuple[int, ...] | None = None) -> NDArray[np.float64]:
    """Return Σ n log n over *axes*, by default over all."""
    return np.asarray(special.xlogy(counts, counts).sum(axis=axes))


def _count_both(left: NDArray[np.bool_], right: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Count rounds in which both are true, by column; fast, as bytes are added while they cannot overflow."""
    total = np.zeros(left.shape[1], np.int64)
    for start in range(0, len(left), 255):
        both = left[start : start + 255] & right[start : start + 255]
        total += both.view(np.uint8).sum(axis=0, dtype=np.uint8)
    return total


def _count_triples(delivered: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Count the eight patterns of three successive rounds for each user, ``[users, 8]``; in blocks of rounds."""
    users, rounds = delivered.shape[1], len(delivered) - 2
    counts = np.zeros(8 * users, np.int64)
    size = max(1, _BLOCK // users)
    for start in range(0, rounds, size):
        part = delivered[start : min(start + size, rounds) + 2].view(np.uint8)
        pattern = 4 * part[:-2] + 2 * part[1:-1] + part[2:]
        counts += np.bincount((pattern + 8 * np.arange(users)).ravel(), minlength=8 * users)
    return counts.reshape(users, 8)


@dataclass(frozen=True, slots=True)
class RunLengths:
    """Runs of rounds with and without deliveries, all ``[users]``; NaN if there are too few.

    Args:
        on: mean length of runs with deliveries, in rounds.
        off: mean length of runs without deliveries.
        on_p: p-value of the lengths with deliveries under the geometric distribution.
        off_p: the same for runs without deliveries.
    """

    on: NDArray[np.float64]
    off: NDArray[np.float64]
    on_p: NDArray[np.float64]
    off_p: NDArray[np.float64]

    @property
    def p(self) -> float | None:
        """The combined p-value of all users."""
        return combine_p_values(np.concatenate([self.on_p, self.off_p]))


def run_lengths(
    delivered: NDArray[np.bool_], rng: np.random.Generator, tested: NDArray[np.int64] | None = None
) -> RunLengths:
    """Compute run lengths of all users; runs that the recording cuts off at its ends do not count.

    Only the users in *tested* are tested, by default all.
    """
    is_tested = np.ones(delivered.shape[1], bool) if tested is None else np.isin(np.arange(delivered.shape[1]), tested)
    result = np.full((4, delivered.shape[1]), np.nan)
    for user in range(delivered.shape[1]):
        edges = np.flatnonzero(np.diff(delivered[:, user])) + 1
        lengths, first = np.diff(edges), len(edges) and delivered[edges[0], user]
        for row, runs in enumerate((lengths[0::2], lengths[1::2]) if first else (lengths[1::2], lengths[0::2])):
            if len(runs):
                result[row, user] = runs.mean()
                result[row + 2, user] = geometric_p(runs, rng) if is_tested[user] else np.nan
    return RunLengths(*result)


def geometric_p(lengths: NDArray[np.int64], rng: np.random.Generator) -> float:
    """Return the p-value of Pearson's χ² for the fitted geometric distribution, in cells of about equal probability."""
    if len(lengths) < 15 or lengths.max() == 1:
        return np.nan
    statistic, cells = _pearson(lengths[None])
    if cells[0] < 3:
        return np.nan
    if len(lengths) >= _MIN_RUNS:
        return float(stats.chi2.sf(statistic[0], cells[0] - 2))
    simulated, _ = _pearson(rng.geometric(1 / lengths.mean(), (_DRAWS, len(lengths))))
    return float((1 + (simulated >= statistic[0] - 1e-9).sum()) / (_DRAWS + 1))


def combine_p_values(p: NDArray[np.float64]) -> float | None:
    """Combine p-values that may be dependent, by Cauchy's combination; ``None`` for no values.

    Y. Liu and J. Xie, "Cauchy combination test", J. Am. Stat. Assoc. 115, 2020.
    """
    known = np.clip(p[np.isfinite(p)], 1e-15, 0.99)
    return float(stats.cauchy.sf(np.tan((0.5 - known) * np.pi).mean())) if known.size else None


def _pearson(lengths: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return Pearson's χ² of each row of lengths, and the number of cells."""
    number = lengths.shape[1]
    quantiles = np.linspace(0, 1, int(np.clip(number // 5, 2, 8)) + 1)[1:-1]
    log_stay = np.log1p(-1 / np.maximum(lengths.mean(axis=1, keepdims=True), 1 + 1e-9))
    edges = np.maximum(1, np.ceil(np.log1p(-quantiles) / log_stay))
    zeros, ones = np.zeros((len(lengths), 1)), np.ones((len(lengths), 1))
    expected = number * np.diff(np.hstack([zeros, -np.expm1(edges * log_stay), ones]))
    below = (lengths[:, :, None] <= edges[:, None, :]).sum(axis=1)
    observed = np.diff(np.hstack([zeros, below, number * ones]))
    kept = expected > 1e-9
    squares = np.divide((observed - expected) ** 2, expected, out=np.zeros_like(expected), where=kept)
    return squares.sum(axis=1), kept.sum(axis=1)
