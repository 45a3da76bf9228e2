"""How whoever looks on sees a run go on, and asks it to stop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from netfl.figures import clock
from netfl.pulse import Pulse
from netfl.scenario import Scenario

_VAIN = 100
"""Fewer attempts in vain than this are not worth a word."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run is.

    Args:
        round: the round just closed.
        rounds: how many there will be.
        time_s: simulated time of the first replica.
        heard: who was heard in it, in the first replica.
        out: who is down, in the first replica, where that is recorded: nodes such as ``tower:0``, and users.
        metrics: the newest evaluation, by metric over lanes; empty before the first.
        lanes: learner and replica of each lane.
    """

    round: int
    rounds: int
    time_s: float
    heard: tuple[int, ...]
    out: tuple[int | str, ...]
    metrics: Mapping[str, NDArray[np.float64]]
    lanes: Sequence[tuple[str, int]]


def so_far(pulse: Pulse) -> str:
    """How far a round is, in words.

    >>> so_far(Pulse(3, 7260.0, 1234, 1200))
    '2 h 01 min simulated · 1,234 attempts, the last 1,200 of them in vain'
    """
    vain = f", the last {pulse.vain:,} of them in vain" if pulse.vain >= _VAIN else ""
    return f"{clock(pulse.time_s)} simulated · {pulse.attempts:,} attempts{vain}"


class Watch(Protocol):
    """Looks on while a run goes on, and may ask it to stop after the round."""

    @property
    def stop(self) -> bool:
        """Whether the run shall end now, with its tables whole."""

    def opened(self, folder: Path, scenario: Scenario) -> None:
        """The run directory is there."""

    def within(self, pulse: Pulse) -> None:
        """A round goes on, or one before the run, by which the data are dealt out; called often."""

    def closed(self, progress: Progress) -> None:
        """A round is over."""


class Unwatched:
    """Nobody looks on."""

    stop = False

    def opened(self, folder: Path, scenario: Scenario) -> None:
        """Nothing to show."""

    def within(self, pulse: Pulse) -> None:
        """Nothing to show."""

    def closed(self, progress: Progress) -> None:
        """Nothing to show."""
