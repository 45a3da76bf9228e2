"""Slow cycles: changes of the participation rates that a cycle explains.

Few cycles in a recording look like drift: the test for drift compares the slowest movements, up to four cycles, with
those above them.  A cycle explains the drift if no drift is significant after the cycle has been subtracted.  A
recording of fewer than three cycles is too short: a cycle fits most changes that go up and down once or twice.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from netfl.diagnosis.drift import Drift, find_drift
from netfl.diagnosis.harmonics import fit_cycles, subtract_cycle
from netfl.diagnosis.participation import Participation
from netfl.diagnosis.periodicity import (
    CYCLES_ERROR,
    MIN_CYCLES,
    Clock,
    Periodicity,
    SpectralPeaks,
    WhitenedSeries,
    estimate_duty,
    is_harmonic,
    remove_cycle,
)

_RANGE = (1.5, 12.0)
"""Numbers of cycles in a recording with which a cycle may look like drift."""
_MAX_FREQUENCY = 24.0
"""Largest frequency of a subtracted harmonic, in cycles per recording; faster movements do not look like drift."""


@dataclass(frozen=True, slots=True)
class SlowCycle:
    """A cycle that explains the changes of the participation rates.

    Args:
        cycles: the number of cycles in the recording.
        period: in rounds; of mean duration, if the cycle is regular in seconds.
        period_s: in seconds; ``None`` without times.
        clock: the time base in which the cycle is regular.
        drift: the test for drift without the cycle.
    """

    cycles: float
    period: float
    period_s: float | None
    clock: Clock
    drift: Drift

    @property
    def is_certain(self) -> bool:
        """The recording is long enough to distinguish the cycle from drift."""
        return self.cycles >= MIN_CYCLES - CYCLES_ERROR


def explain_drift(
    delivered: NDArray[np.float64],
    white: WhitenedSeries,
    lines: SpectralPeaks,
    participation: Participation,
    level: float,
    *,
    has_memory: bool,
) -> SlowCycle | None:
    """Return the cycle that explains the drift of participation; ``None`` if a drift remains without the best cycle.

    Args:
        delivered: participation of the tested users, ``[rounds, users]``.
        white: its innovations.
        lines: their spectral lines; the fast ones are removed, too.
        participation: participation of all users.
        level: level of significance of a drift that remains.
        has_memory: as in `find_drift`.
    """
    explanations = []
    min_cycles, max_cycles = _RANGE
    for clock, time in _clocks(participation).items():
        cycles = fit_cycles(delivered, time, min_cycles, max_cycles, _MAX_FREQUENCY)
        if cycles is None:
            continue
        without_slow = subtract_cycle(white.series, time, cycles, _MAX_FREQUENCY)
        without_cycles = remove_cycle(without_slow, lines, _MAX_FREQUENCY)
        drift = find_drift(without_cycles, has_memory=has_memory)
        if drift.p <= level:  # it changes the rates, too
            continue
        period = participation.rounds / cycles
        period_s = None
        if participation.round_s is not None:
            period_s = period * participation.round_s
        explanations.append(SlowCycle(cycles, period, period_s, clock, drift))
    return min(explanations, key=lambda slow: slow.drift.ratio, default=None)


def add_slow_cycle(
    cycle: Periodicity, slow: SlowCycle, drift: Drift, delivered: NDArray[np.float64], participation: Participation
) -> Periodicity:
    """Return the cycle of participation with a slow one.  It is as significant as the *drift* that it explains.

    The shortest period of *cycle* remains, unless it is that of a harmonic of the slow cycle.
    """
    periods: tuple[float, ...] = (slow.period,)
    periods_s: tuple[float, ...] = ()
    if slow.period_s is not None:
        periods_s = (slow.period_s,)
    if _has_fast_cycle(cycle, slow):
        periods = (*cycle.periods[:1], *periods)
        periods_s = (*cycle.periods_s[:1], *periods_s)
        duty = cycle.duty
    else:
        turns = slow.cycles * _clocks(participation)[slow.clock]
        duty = estimate_duty(delivered, turns, slow.period)
    if drift.p < cycle.p:
        cycle = replace(cycle, p=drift.p, ratio=drift.ratio, clock=slow.clock)
    return replace(
        cycle,
        period=periods[0],
        period_s=periods_s[0] if periods_s else None,
        periods=periods,
        periods_s=periods_s,
        duty=duty,
    )


def _has_fast_cycle(cycle: Periodicity, slow: SlowCycle) -> bool:
    """Return whether the cycle of spectral lines is faster than the slow one, and no harmonic of it."""
    if cycle.period is None:
        return False
    rounds = slow.cycles * slow.period
    frequency = rounds / cycle.period
    return frequency > slow.cycles and not is_harmonic(frequency, slow.cycles)


def _clocks(participation: Participation) -> dict[Clock, NDArray[np.float64]]:
    """Return the time of each round, from 0 to 1, by the number of the round and in seconds."""
    rounds = participation.rounds
    clocks: dict[Clock, NDArray[np.float64]] = {"rounds": np.arange(rounds) / rounds}
    closed_s = participation.closed_s
    round_s = participation.round_s
    if closed_s is not None and round_s:
        clocks["seconds"] = (closed_s - closed_s[0]) / (round_s * rounds)
    return clocks
