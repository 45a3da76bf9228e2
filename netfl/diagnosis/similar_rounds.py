"""Rounds with nearly the same participation rates: neighbours in time, at the same phase of a cycle.

Where rates drift or repeat, users depend on earlier rounds and on each other for that reason alone.  A comparison of a
round with its neighbours removes it: rates that drift slowly are nearly the same in both, and those of a cycle are the
same one period later.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_OFFSETS = (-2, -1, 1, 2)
"""Neighbours of a round, in steps.  They lie evenly on both sides, so that a line has no effect."""
_MAX_STEP = 0.1
"""Longest step as a share of the recording."""
_MAX_CHANGING_STEP = 1 / 40
"""Longest step as a share of the time in which rates change otherwise: the recording, or a slower cycle."""
_MAX_PERIODS = 8
"""Largest number of periods in a step, for periods that are no whole number of rounds."""
_MAX_ERROR = 0.05
"""Largest error of the phase of a neighbour, as a share of the period: at that phase rates may jump."""
_BLOCK_ROUNDS = 20
"""Rounds of a block in which order carries no information, if rates drift without a cycle."""
_BLOCK_STEPS = 5
"""Rounds of one phase in such a block, if there is a cycle."""


@dataclass(frozen=True, slots=True)
class SimilarRounds:
    """Neighbours of the rounds, and blocks of similar rounds.

    Args:
        rows: the rounds that have all neighbours, ``[rows]``, ascending and without gaps.
        neighbours: the neighbours of these, ``[neighbours, rows]``.
        block: the number of the block of every round, ``[rounds]``.
        lag: mean distance of the nearest neighbours, in rounds.
        phase: place of every round between two that are at the same phase, ``[rounds]``; 0 without a cycle.
    """

    rows: NDArray[np.int64]
    neighbours: NDArray[np.int64]
    block: NDArray[np.int64]
    lag: int
    phase: NDArray[np.int64]

    @property
    def has_cycle(self) -> bool:
        """Neighbours are at the same phase of a cycle."""
        return bool(self.phase.any())

    def mean(self, table: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the mean of *table*, ``[rounds, users]``, over the neighbours of each row, ``[rows, users]``."""
        total = np.zeros((len(self.rows), table.shape[1]), np.float32)
        for places in self.neighbours:
            total += table[places]
        return np.asarray(total / np.float32(len(self.neighbours)))


def find_similar_rounds(
    time: NDArray[np.float64], period: float | None, changing: float | None = None
) -> SimilarRounds | None:
    """Return similar rounds; ``None`` if a cycle has none nearby.

    Args:
        time: the time of each round, in rounds of mean length.
        period: period of the cycle in that unit; ``None`` for a drift alone.
        changing: the time in which rates change beside that cycle, such as a slower one; ``None`` if they do not.
    """
    rounds = len(time)
    is_even = bool(np.ptp(np.diff(time)) <= 1e-6)
    if period is None:
        step = 1.0
    else:
        found = _choose_step(period, _MAX_STEP * rounds if changing is None else _MAX_CHANGING_STEP * changing, is_even)
        if found is None:
            return None
        step = found
    if is_even:
        places = np.arange(rounds) + np.round(step * np.array(_OFFSETS)).astype(np.int64)[:, None]
        places[(places < 0) | (places >= rounds)] = -1
        phases = round(step)
        phase = np.arange(rounds) % phases
        turn = np.arange(rounds) // phases
    else:
        places = _nearest(time, time + step * np.array(_OFFSETS)[:, None])
        phases = max(1, round(step))
        phase = np.minimum((time / step % 1.0 * phases).astype(np.int64), phases - 1)
        turn = (time / step).astype(np.int64)
    if period is None:
        block = np.arange(rounds) // _BLOCK_ROUNDS
    else:
        block = turn // _BLOCK_STEPS * phases + phase
    rows = np.flatnonzero((places >= 0).all(axis=0))
    if len(rows) < rounds // 2 or not len(rows):
        return None
    rows = np.arange(rows[0], rows[-1] + 1)
    return SimilarRounds(rows, places[:, rows], block, phases, phase)


def is_multiple(first: float, second: float) -> bool:
    """Return whether the longer period is a multiple of the shorter one, so exactly that neighbours are in phase.

    >>> is_multiple(2.4, 24.0), is_multiple(19.0, 288.0)
    (True, False)
    """
    short, long = sorted((first, second))
    return 2 * abs(long - short * round(long / short)) <= _MAX_ERROR * short


def _choose_step(period: float, longest: float, is_even: bool) -> float | None:
    """Return the number of periods, in rounds, after which rounds are most nearly at the same phase.

    The shortest one is chosen whose error is at most a hundredth of a round; rounds of different lengths are half a
    round apart in the mean.
    """
    best, smallest = None, _MAX_ERROR * period
    for periods in range(1, _MAX_PERIODS + 1):
        step = periods * period
        if step > longest:
            break
        error = 2 * abs(step - round(step)) if is_even else 0.5
        if error < smallest - 0.01:
            best, smallest = step, error
    return best


def _nearest(time: NDArray[np.float64], wanted: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the round that is nearest to each *wanted* time; -1 where that is outside of the recording."""
    after = np.clip(np.searchsorted(time, wanted), 1, len(time) - 1)
    is_before = wanted - time[after - 1] <= time[after] - wanted
    places = after - is_before
    outside = (wanted < time[0] - 0.5) | (wanted > time[-1] + 0.5)
    return np.where(outside, -1, places)
