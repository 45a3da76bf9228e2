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
    if not (delivered.sum(axis=1) == 1).all():
        return None
    return np.asarray(delivered.argmax(axis=1))


def find_memory(
    delivered: NDArray[np.bool_], rng: np.random.Generator, block: NDArray[np.int64] | None = None
) -> Memory:
    """Return the likelihood ratio of memory, with its p-value by shuffling rounds.

    With the number of the *block* of each round, ``[rounds]``, only rounds of a block change places: memory beyond
    rates that differ between blocks.
    """
    rounds, users = delivered.shape
    sequence = single_user_sequence(delivered)
    shuffle = _Shuffle(rounds, rng, block)
    if sequence is not None and rounds >= 5 * users**2:  # enough counts for each cell of a chain over the users
        return _shuffle_test(lambda order: transitions_ratio(sequence[order], users), shuffle, "users")
    dense = np.ascontiguousarray(delivered)  # copied once, as it is indexed by each shuffle

    def count_repeats(order: NDArray[np.int64]) -> NDArray[np.int64]:
        """Count the rounds in which each user is delivered again right after a delivery, ``[users]``."""
        if sequence is None:
            shuffled = dense[order]
            return _count_both(shuffled[1:], shuffled[:-1])
        chosen = sequence[order]  # faster, for one user in each round
        next_users = chosen[1:]
        return np.bincount(next_users[next_users == chosen[:-1]], minlength=users)

    return _shuffle_test(lambda order: _presence_ratio(delivered, order, count_repeats(order)), shuffle, "presence")


def count_transitions(delivered: NDArray[np.bool_]) -> TransitionCounts:
    """Return the two-state chains of all users, with the exact test of Wald and Wolfowitz of each.

    Given the number of deliveries of a user, the number of its runs of deliveries is hypergeometric.
    """
    rounds = len(delivered)
    repeats = _count_both(delivered[1:], delivered[:-1])
    count = delivered.sum(axis=0)
    count_before = count - delivered[-1]  # deliveries with a next round
    count_after = count - delivered[0]  # deliveries with a round before
    with np.errstate(divide="ignore", invalid="ignore"):
        on = (count_after - repeats) / (rounds - 1 - count_before)
        off = 1 - repeats / count_before

    # runs of n deliveries in T rounds: hypergeometric, n draws from T of which T - n + 1 begin a run
    runs = count - repeats
    distribution = stats.hypergeom(rounds, rounds - count + 1, count)
    p = np.minimum(1.0, 2 * np.minimum(distribution.cdf(runs), distribution.sf(runs - 1)))
    varies = (count > 0) & (count < rounds)
    return TransitionCounts(
        on=on,
        off=off,
        eigenvalue=np.where(varies, 1 - on - off, np.nan),
        p=np.where(varies, p, np.nan),
    )


def second_order(delivered: NDArray[np.bool_]) -> float | None:
    """Return the p-value of second-order two-state chains against first-order ones, over users with enough counts.

    For each user, G² tests the dependence of a round on the last but one, given the last; `combine_p_values` combines
    the users.  With n_jik rounds in state k after the state j, and i before that,
    ``G² = 2 Σ_j (Σ_ik n_jik log n_jik - Σ_i n_ji. log n_ji. - Σ_k n_j.k log n_j.k + n_j.. log n_j..)``.
    """
    users = delivered.shape[1]
    counts = _count_triples(delivered).reshape(users, 2, 2, 2)  # user, last but one, last, next
    cells = counts.transpose(0, 2, 1, 3).astype(float)  # [users, j, i, k]: the last state first
    rows = cells.sum(axis=3)
    columns = cells.sum(axis=2)
    total = cells.sum(axis=(2, 3))  # [users, j]
    ratio = 2 * (_n_log_n(cells, (2, 3)) - _n_log_n(rows, 2) - _n_log_n(columns, 2) + special.xlogy(total, total))

    # χ² of one degree for each last state with enough counts
    smallest_expected = rows.min(axis=2) * columns.min(axis=2) / np.maximum(total, 1)
    is_counted = smallest_expected >= 5
    degrees = is_counted.sum(axis=1)
    statistic = np.where(is_counted, ratio, 0.0).sum(axis=1)
    p = stats.chi2.sf(statistic, np.maximum(degrees, 1))
    return combine_p_values(np.where(degrees > 0, p, np.nan))


def transitions(sequence: NDArray[np.int64], users: int) -> NDArray[np.float64]:
    """Return the number of rounds of user j right after user i, ``[users, users]``."""
    counts = np.bincount(sequence[:-1] * users + sequence[1:], minlength=users * users)
    return counts.reshape(users, users).astype(float)


def transitions_ratio(sequence: NDArray[np.int64], users: int) -> float:
    """Return G² of a first-order chain over users against independent draws.

    ``G² = 2 (Σ_ij n_ij log n_ij - Σ_j n_.j log n_.j - Σ_i n_i. log n_i. + n log n)``, with n_ij rounds of user j right
    after user i, of n.
    """
    counts = transitions(sequence, users)
    of_next = _n_log_n(counts.sum(axis=0))
    of_last = _n_log_n(counts.sum(axis=1))
    return float(2 * (_n_log_n(counts) - of_next - of_last + _n_log_n(counts.sum())))


def mixing_time(matrix: NDArray[np.float64], max_rounds: int = 1 << 20) -> int | None:
    """Return the rounds until a chain is within 1/4 of its stationary distribution in total variation, from any start.

    ``None`` if that takes more than *max_rounds*.  D. Levin, Y. Peres, E. Wilmer, "Markov chains and mixing times",
    2009, 4.5.
    """
    size = len(matrix)
    system = np.vstack([matrix.T - np.eye(size), np.ones(size)])  # π P = π, Σ π = 1
    limit = np.linalg.lstsq(system, np.append(np.zeros(size), 1.0))[0]

    def is_far(power: NDArray[np.float64]) -> bool:
        """Return whether a row of a power of the matrix is more than 1/4 from the limit."""
        return bool(0.5 * np.abs(power - limit).sum(axis=1).max() > 0.25)

    # squares of the matrix, P^(2^k), up to the first that is near
    squares = [matrix]
    while is_far(squares[-1]):
        if 1 << len(squares) > max_rounds:
            return None
        squares.append(squares[-1] @ squares[-1])

    # the largest time at which the chain is still far, bit by bit from the highest
    time = 0
    reached = np.eye(size)
    for bit in reversed(range(len(squares))):
        further = reached @ squares[bit]
        if is_far(further):
            time += 1 << bit
            reached = further
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
        # the places of a block, in turn, get the rounds of that block in random order
        order[self._by_block] = np.lexsort((self._rng.random(self.rounds), self._block))
        return order


def _shuffle_test(statistic: Callable[[NDArray[np.int64]], float], shuffle: _Shuffle, chain: str) -> Memory:
    """Test *statistic* of the order of rounds by shuffling until the p-value is clear.

    It is h / l if shuffle l is the h-th as extreme as the data and h is the limit, and (h + 1) / (L + 1) after all L
    shuffles (J. Besag and P. Clifford, "Sequential Monte Carlo p-values", Biometrika 78, 1991).
    """
    observed = statistic(np.arange(shuffle.rounds))
    exceedances = 0
    for drawn in range(1, MAX_SHUFFLES + 1):
        exceedances += statistic(shuffle.draw()) >= observed - 1e-9
        if exceedances == _MAX_EXCEEDANCES:
            return Memory(observed, exceedances / drawn, drawn, chain)
    return Memory(observed, (exceedances + 1) / (MAX_SHUFFLES + 1), MAX_SHUFFLES, chain)


def _presence_ratio(delivered: NDArray[np.bool_], order: NDArray[np.int64], repeats: NDArray[np.int64]) -> float:
    """Return G² of all users' two-state chains, given the number of repeated deliveries of each.

    ``G² = 2 Σ_users (Σ_ij n_ij log n_ij - Σ_i n_i. log n_i. - Σ_j n_.j log n_.j + n log n)``, with n_ij rounds in state
    j right after state i, of n.
    """
    steps = len(delivered) - 1  # n, from a round to the next
    count = delivered.sum(axis=0)
    count_before = count - delivered[order[-1]]  # deliveries with a next round
    count_after = count - delivered[order[0]]  # deliveries with a round before
    leave = count_before - repeats
    come = count_after - repeats
    cells = np.array([repeats, leave, come, steps - repeats - leave - come], float)
    rows = np.array([count_before, steps - count_before], float)
    columns = np.array([count_after, steps - count_after], float)
    total = repeats.size * special.xlogy(steps, steps)
    return float(2 * (_n_log_n(cells) - _n_log_n(rows) - _n_log_n(columns) + total))


def _n_log_n(counts: NDArray[np.float64], axes: int | tuple[int, ...] | None = None) -> NDArray[np.float64]:
    """Return Σ n log n over *axes*, by default over all."""
    return np.asarray(special.xlogy(counts, counts).sum(axis=axes))


def _count_both(left: NDArray[np.bool_], right: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Count rounds in which both are true, by column."""
    total = np.zeros(left.shape[1], np.int64)
    for start in range(0, len(left), 255):  # so many bytes can be added, which is fast, without overflow
        both = left[start : start + 255] & right[start : start + 255]
        total += both.view(np.uint8).sum(axis=0, dtype=np.uint8)
    return total


def _count_triples(delivered: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Count the eight patterns of three successive rounds for each user, ``[users, 8]``; in blocks of rounds."""
    users = delivered.shape[1]
    triples = len(delivered) - 2
    counts = np.zeros(8 * users, np.int64)
    block = max(1, _BLOCK // users)
    for start in range(0, triples, block):
        end = min(start + block, triples)
        states = delivered[start : end + 2].view(np.uint8)
        pattern = 4 * states[:-2] + 2 * states[1:-1] + states[2:]  # three bits, the earliest first
        cell = pattern + 8 * np.arange(users)
        counts += np.bincount(cell.ravel(), minlength=8 * users)
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
    users = delivered.shape[1]
    is_tested = np.ones(users, bool)
    if tested is not None:
        is_tested = np.isin(np.arange(users), tested)
    mean = np.full((2, users), np.nan)  # of runs with deliveries, and without
    p = np.full((2, users), np.nan)
    for user in range(users):
        edges = np.flatnonzero(np.diff(delivered[:, user])) + 1  # the first rounds of runs
        if not len(edges):
            continue
        lengths = np.diff(edges)
        alternating = (lengths[0::2], lengths[1::2])
        runs_on, runs_off = alternating if delivered[edges[0], user] else reversed(alternating)
        for state, runs in enumerate((runs_on, runs_off)):
            if not len(runs):
                continue
            mean[state, user] = runs.mean()
            if is_tested[user]:
                p[state, user] = geometric_p(runs, rng)
    return RunLengths(*mean, *p)


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
    values = np.clip(p[np.isfinite(p)], 1e-15, 0.99)
    if not values.size:
        return None
    statistic = np.tan((0.5 - values) * np.pi).mean()  # T = Σ tan((1/2 - p_i) π) / n, standard Cauchy
    return float(stats.cauchy.sf(statistic))


def _pearson(lengths: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return Pearson's χ² of each row of lengths, and the number of cells.

    ``χ² = Σ_c (O_c - E_c)² / E_c``, with cells between the quantiles of the fitted geometric distribution,
    ``P(length <= l) = 1 - s^l``, in which s = 1 - 1/mean is the probability of a stay.
    """
    rows, runs = lengths.shape
    cells = int(np.clip(runs // 5, 2, 8))
    quantiles = np.linspace(0, 1, cells + 1)[1:-1]
    log_stay = np.log1p(-1 / np.maximum(lengths.mean(axis=1, keepdims=True), 1 + 1e-9))  # log s, [rows, 1]
    edges = np.maximum(1, np.ceil(np.log1p(-quantiles) / log_stay))  # [rows, cells - 1]
    none = np.zeros((rows, 1))
    all_shares = np.ones((rows, 1))
    expected = runs * np.diff(np.hstack([none, -np.expm1(edges * log_stay), all_shares]))
    up_to_edge = (lengths[:, :, None] <= edges[:, None, :]).sum(axis=1)
    observed = np.diff(np.hstack([none, up_to_edge, runs * all_shares]))
    has_lengths = expected > 1e-9  # two edges may be one number, with no length between them
    squares = np.divide((observed - expected) ** 2, expected, out=np.zeros_like(expected), where=has_lengths)
    return squares.sum(axis=1), has_lengths.sum(axis=1)
