"""The first round of a scenario, played to find what only shows then: faults, and how long rounds take."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from netfl.errors import NetflError
from netfl.pulse import Pulse
from netfl.scenario import Scenario
from netfl.staging import located, stage
from netfl.watch import so_far

LIMIT_S = 10.0
"""Processor time that a rehearsal may take, from the first that is heard of a round."""


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """What came of a rehearsal.

    Args:
        seconds: processor time of a round of all replicas, as far as they were played.
        cut: how far the round was that was not over when time was; ``None`` where all were.
    """

    seconds: float
    cut: Pulse | None = None

    @property
    def warning(self) -> str:
        """What to say of one that was cut."""
        assert self.cut is not None
        return f"long: round {self.cut.round} was not over after {LIMIT_S:g} s; it stood at {so_far(self.cut)}"


class _CutError(NetflError):
    """The rehearsal has taken too long."""


class _Stopwatch:
    """Times rounds by what is heard of them, and ends the rehearsal where they take too long.

    Attributes:
        last: how far the last one was.
    """

    def __init__(self) -> None:
        self.last: Pulse | None = None
        self._began_s = np.inf
        self._heard_s: list[float] = []

    def hear(self, pulse: Pulse) -> None:
        """A round goes on."""
        self.last, now_s = pulse, time.process_time()
        self._heard_s.append(now_s)
        self._began_s = min(self._began_s, now_s)
        if now_s - self._began_s > LIMIT_S:
            raise _CutError

    def round_s(self) -> float:
        """How long each of the rounds took that were heard of since the last call."""
        heard_s, self._heard_s = self._heard_s, []
        if self.last is None or not heard_s:
            return 0.0
        return (heard_s[-1] - heard_s[0]) * len(heard_s) / max(len(heard_s) - 1, 1) / self.last.round


def rehearse(scenario: Scenario) -> Rehearsal:
    """Stage *scenario* and play the first round of every replica, for `LIMIT_S` at most.

    Raises:
        ScenarioError: with the faults that were found.
    """
    watch, seconds = _Stopwatch(), 0.0
    try:
        staged = stage(scenario, pulse=watch.hear)
        watch.round_s()  # those by which the data were dealt out
        for setting in staged.settings:
            with located(scenario, "access"):
                rounds = scenario.access.rounds(setting)
                next(rounds)
                rounds.close()
            seconds += watch.round_s()
    except _CutError:
        return Rehearsal(seconds + watch.round_s(), watch.last)
    return Rehearsal(seconds)
