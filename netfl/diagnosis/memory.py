"""Memory: whether who is heard depends on who was heard before, and how far back.

Under a stationary selection rounds are independent and alike, so that their order says nothing: the test that shuffles
rounds is exact, whatever happens within rounds.  Its statistic is the likelihood ratio of first-order Markov chains
against memoryless draws.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

from netfl.diagnosis.run_lengths import combine_p_values

SHUFFLES = 499
"""The most shuffles that a Monte-Carlo p-value takes."""
_BLOCK = 1 << 16
"""Entries of participation that are counted at a time."""
_ENOUGH = 20
"""A Monte-Carlo test ends once so many shuffles were as extreme as what was seen (Besag and Clifford, 1991)."""


@dataclass(frozen=True, slots=True)
class Memory:
    """First-order Markov against memoryless.

    Args:
        statistic: twice the log of the likelihood ratio.
        p: how often shuffled rounds come to as much.
        shuffles: how many were looked at.
        chain: ``users`` where the chain is of which user is heard, ``presence`` where each user has one of its own.
    """

    statistic: float
    p: float
    shuffles: int
    chain: str


@dataclass(frozen=True, slots=True)
class TransitionCounts:
    """Each user's two-state chain, all ``[users]``; NaN where a user was never, or always, there to leave.

    Args:
        on: P(unheard → heard).
        off: P(heard → unheard).
        eigenvalue: ``1 - on - off``: by what factor a round forgets the one before.
        p: exact two-sided p-value of the number of runs, under independent rounds.
    """

    on: NDArray[np.float64]
    off: NDArray[np.float64]
    eigenvalue: NDArray[np.float64]
    p: NDArray[np.float64]


def single_user_sequence(heard: NDArray[np.bool_]) -> NDArray[np.int64] | None:
    """Who was heard in each round, where that is exactly one user in each; ``None`` elsewhere."""
    return heard.argmax(axis=1) if (heard.sum(axis=1) == 1).all() else None


def find_memory(heard: NDArray[np.bool_], rng: np.random.Generator) -> Memory:
    """The likelihood ratio of memory, with its p-value by shuffling rounds."""
    who, users = single_user_sequence(heard), heard.shape[1]
    if who is not None and 5 * users**2 <= len(heard):
        return _shuffled(lambda order: transitions_ratio(who[order], users), len(heard), rng, "users")
    if who is not None:
        return _shuffled(lambda order: _ratio(_repeats(who[order], users), *_ends(heard, order)), len(who), rng)
    dense = np.ascontiguousarray(heard)

    def statistic(order: NDArray[np.int64]) -> float:
        shuffled = dense[order]
        return _ratio(_column_sums(shuffled[1:], shuffled[:-1]), *_ends(heard, order))

    return _shuffled(statistic, len(heard), rng)


def count_transitions(heard: NDArray[np.bool_]) -> TransitionCounts:
    """The two-state chains of all users, with the exact test of Wald and Wolfowitz of each.

    Given how often a user was heard, the number of its stretches of being heard is hypergeometric.
    """
    rounds = len(heard)
    both = _column_sums(heard[1:], heard[:-1])
    count = heard.sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        on = (count - heard[0] - both) / (rounds - 1 - (count - heard[-1]))
        off = 1 - both / (count - heard[-1])
    stretches = count - both
    law = stats.hypergeom(rounds, rounds - count + 1, count)
    p = np.minimum(1.0, 2 * np.minimum(law.cdf(stretches), law.sf(stretches - 1)))
    able = (count > 0) & (count < rounds)
    return TransitionCounts(on, off, np.where(able, 1 - on - off, np.nan), np.where(able, p, np.nan))


def second_order(heard: NDArray[np.bool_]) -> float | None:
    """The p-value of second-order two-state chains against first-order ones, over all users with counts enough for χ².

    Of each user G² of whether the next round depends on the last but one, given the last; the users' p-values are
    combined as in `stays.together`.
    """
    users = heard.shape[1]
    counts = _triples(heard).reshape(users, 2, 2, 2)
    cells = counts.transpose(0, 2, 1, 3).astype(float)  # user, last, last but one, next
    rows, columns, total = cells.sum(axis=3), cells.sum(axis=2), cells.sum(axis=(2, 3))
    least = rows.min(axis=2) * columns.min(axis=2) / np.maximum(total, 1)
    ratio = 2 * (_logs(cells, (2, 3)) - _logs(rows, 2) - _logs(columns, 2) + special.xlogy(total, total))
    degrees = (least >= 5).sum(axis=1)
    p = stats.chi2.sf(np.where(least >= 5, ratio, 0.0).sum(axis=1), np.maximum(degrees, 1))
    return combine_p_values(np.where(degrees > 0, p, np.nan))


def _triples(heard: NDArray[np.bool_]) -> NDArray[np.int64]:
    """How often each user had each of the eight courses of three rounds, ``[users, 8]``; in blocks of rounds."""
    users, rounds = heard.shape[1], len(heard) - 2
    counts = np.zeros(8 * users, np.int64)
    size = max(1, _BLOCK // users)
    for start in range(0, rounds, size):
        part = heard[start : min(start + size, rounds) + 2].view(np.uint8)
        course = 4 * part[:-2] + 2 * part[1:-1] + part[2:]
        counts += np.bincount((course + 8 * np.arange(users)).ravel(), minlength=8 * users)
    return counts.reshape(users, 8)


def transitions(who: NDArray[np.int64], users: int) -> NDArray[np.float64]:
    """How often user j was heard right after user i, ``[users, users]``."""
    counts = np.bincount(who[:-1] * users + who[1:], minlength=users * users)
    return counts.reshape(users, users).astype(float)


def transitions_ratio(who: NDArray[np.int64], users: int) -> float:
    """G² of a first-order chain over users against independent draws."""
    counts = transitions(who, users)
    return float(
        2 * (_log_sum(counts) - _log_sum(counts.sum(axis=0)) - _log_sum(counts.sum(axis=1)) + _log_sum(counts.sum()))
    )


def mixing_time(matrix: NDArray[np.float64], most: int = 1 << 20) -> int | None:
    """Rounds until a chain is within 1/4 of its stationary law in total variation, from any start; ``None`` if never.

    D. Levin, Y. Peres, E. Wilmer, "Markov chains and mixing times", 2009, 4.5.
    """
    limit = _stationary(matrix)
    powers = [matrix]
    while 0.5 * np.abs(powers[-1] - limit).sum(axis=1).max() > 0.25:
        if 1 << len(powers) > most:
            return None
        powers.append(powers[-1] @ powers[-1])
    time, reached = 0, np.eye(len(matrix))
    for step in reversed(range(len(powers))):
        further = reached @ powers[step]
        if 0.5 * np.abs(further - limit).sum(axis=1).max() > 0.25:
            time, reached = time + (1 << step), further
    return time + 1


def _stationary(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """The stationary law of a chain: the least-squares solution of ``π P = π``, ``Σ π = 1``."""
    size = len(matrix)
    system = np.vstack([matrix.T - np.eye(size), np.ones(size)])
    return np.asarray(np.linalg.lstsq(system, np.append(np.zeros(size), 1.0))[0])


def _shuffled(
    statistic: Callable[[NDArray[np.int64]], float], rounds: int, rng: np.random.Generator, chain: str = "presence"
) -> Memory:
    """The p-value of *statistic* of the order of rounds, by shuffling until that is clear."""
    seen = statistic(np.arange(rounds))
    as_much = 0
    for drawn in range(1, SHUFFLES + 1):
        as_much += statistic(rng.permutation(rounds)) >= seen - 1e-9
        if as_much == _ENOUGH:
            return Memory(seen, as_much / drawn, drawn, chain)
    return Memory(seen, (as_much + 1) / (SHUFFLES + 1), SHUFFLES, chain)


def _ends(
    heard: NDArray[np.bool_], order: NDArray[np.int64]
) -> tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.int64], int]:
    """The first and the last round in *order*, how often each user was heard, and the number of rounds."""
    return heard[order[0]], heard[order[-1]], heard.sum(axis=0), len(heard)


def _ratio(
    both: NDArray[np.int64],
    first: NDArray[np.bool_],
    last: NDArray[np.bool_],
    count: NDArray[np.int64],
    rounds: int,
) -> float:
    """G² of all users' two-state chains, from the number of rounds in which each was heard twice in a row."""
    leave, come = count - last - both, count - first - both
    cells = np.array([both, leave, come, rounds - 1 - both - leave - come], float)
    rows = np.array([count - last, rounds - 1 - count + last], float)
    columns = np.array([count - first, rounds - 1 - count + first], float)
    return float(
        2 * (_log_sum(cells) - _log_sum(rows) - _log_sum(columns) + both.size * special.xlogy(*[rounds - 1] * 2))
    )


def _logs(counts: NDArray[np.float64], axes: int | tuple[int, ...]) -> NDArray[np.float64]:
    """Σ n log n over *axes*."""
    return np.asarray(special.xlogy(counts, counts).sum(axis=axes))


def _log_sum(counts: NDArray[np.float64]) -> float:
    """Σ n log n."""
    return float(special.xlogy(counts, counts).sum())


def _repeats(who: NDArray[np.int64], users: int) -> NDArray[np.int64]:
    """How often each user was heard twice in a row."""
    return np.bincount(who[1:][who[1:] == who[:-1]], minlength=users)


def _column_sums(one: NDArray[np.bool_], other: NDArray[np.bool_]) -> NDArray[np.int64]:
    """In how many rows both are true, by column: added as bytes while they cannot overflow, which is fast."""
    total = np.zeros(one.shape[1], np.int64)
    for start in range(0, len(one), 255):
        both = one[start : start + 255] & other[start : start + 255]
        total += both.view(np.uint8).sum(axis=0, dtype=np.uint8)
    return total
