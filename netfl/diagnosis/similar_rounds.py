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

    # the distance of neighbours, in rounds of mean length
    step: float | None = 1.0
    if period is not None:
        longest = _MAX_STEP * rounds
        if changing is not None:
            longest = _MAX_CHANGING_STEP * changing
        step = _choose_step(period, longest, is_even)
    if step is None:
        return None

    # the neighbours of each round, its phase, and the number of steps before it
    distances = step * np.array(_OFFSETS)[:, None]  # [neighbours, 1]
    phases = max(1, round(step))
    if is_even:
        neighbours = np.arange(rounds) + np.round(distances).astype(np.int64)
        neighbours[(neighbours < 0) | (neighbours >= rounds)] = -1
        phase = np.arange(rounds) % phases
        turn = np.arange(rounds) // phases
    else:
        neighbours = _nearest(time, time + distances)
        phase = np.minimum((time / step % 1.0 * phases).astype(np.int64), phases - 1)
        turn = (time / step).astype(np.int64)
    if period is None:
        block = np.arange(rounds) // _BLOCK_ROUNDS
    else:
        block = turn // _BLOCK_STEPS * phases + phase

    # rounds at the ends of the recording lack neighbours
    complete = np.flatnonzero((neighbours >= 0).all(axis=0))
    if len(complete) < rounds // 2 or not len(complete):
        return None
    rows = np.arange(complete[0], complete[-1] + 1)
    return SimilarRounds(rows, neighbours[:, rows], block, phases, phase)


def is_multiple(first: float, second: float) -> bool:
    """Return whether the longer period is a multiple of the shorter one, so exactly that neighbours are in phase.

    >>> is_multiple(2.4, 24.0), is_multiple(19.0, 288.0)
    (True, False)
    """
    short, long = sorted((first, second))
    multiple = short * round(long / short)
    return 2 * abs(long - multiple) <= _MAX_ERROR * short  # the error of the neighbours two steps away


def _choose_step(period: float, longest: float, is_even: bool) -> float | None:
    """Return the number of periods, in rounds, after which rounds are most nearly at the same phase.

    The shortest one is chosen whose error is at most a hundredth of a round; rounds of different lengths are half a
    round apart in the mean.
    """
    best = None
    smallest_error = _MAX_ERROR * period
    for periods in range(1, _MAX_PERIODS + 1):
        step = periods * period
        if step > longest:
            break
        error = 0.5
        if is_even:
            error = 2 * abs(step - round(step))  # of the neighbours two steps away
        if error < smallest_error - 0.01:
            best = step
            smallest_error = error
    return best


def _nearest(time: NDArray[np.float64], wanted: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the round that is nearest to each *wanted* time; -1 where that is outside of the recording."""
    after = np.clip(np.searchsorted(time, wanted), 1, len(time) - 1)
    is_nearer_before = wanted - time[after - 1] <= time[after] - wanted
    nearest = after - is_nearer_before
    is_outside = (wanted < time[0] - 0.5) | (wanted > time[-1] + 0.5)
    return np.where(is_outside, -1, nearest)
