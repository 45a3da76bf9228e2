"""How whoever looks on sees a run go on, and asks it to stop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from netfl.results.formatting import clock
from netfl.scenario.scenario import Scenario
from netfl.types import Recorder, RoundProgress

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


def format_progress(pulse: RoundProgress) -> str:
    """How far a round is, in words.

    >>> format_progress(RoundProgress(3, 7260.0, 1234, 1200))
    '2 h 01 min simulated · 1,234 attempts, the last 1,200 of them in vain'
    """
    vain = f", the last {pulse.vain:,} of them in vain" if pulse.vain >= _VAIN else ""
    return f"{clock(pulse.time_s)} simulated · {pulse.attempts:,} attempts{vain}"


class RunObserver(Protocol):
    """Looks on while a run goes on, and may ask it to stop after the round."""

    @property
    def stop(self) -> bool:
        """Whether the run shall end now, with its tables whole."""

    def opened(self, folder: Path, scenario: Scenario) -> None:
        """The run directory is there."""

    def within(self, pulse: RoundProgress) -> None:
        """A round goes on, or one before the run, by which the data are dealt out; called often."""

    def closed(self, progress: Progress) -> None:
        """A round is over."""


class NullObserver:
    """Nobody looks on."""

    stop = False

    def opened(self, folder: Path, scenario: Scenario) -> None:
        """Nothing to show."""

    def within(self, pulse: RoundProgress) -> None:
        """Nothing to show."""

    def closed(self, progress: Progress) -> None:
        """Nothing to show."""


# Who is out, as those who watch a run are told.


class OutageTracker:
    """A recorder that passes all on, and sees who goes down and comes up where that is recorded.

    Args:
        to: whom it passes all on to.
    """

    def __init__(self, to: Recorder) -> None:
        self._to = to
        self._last: dict[int | str, tuple[float, bool]] = {}

    @property
    def out(self) -> tuple[int | str, ...]:
        """Who is down: nodes such as ``tower:0``, then users as numbers."""
        down = [who for who, (_, is_down) in self._last.items() if is_down]
        nodes, users = (sorted(who for who in down if isinstance(who, kind)) for kind in (str, int))
        return *nodes, *users

    def wants(self, kind: str) -> bool:
        """Whether events of *kind* are recorded."""
        return self._to.wants(kind)

    def event(self, kind: str, time_s: ArrayLike, *, user: ArrayLike = -1, node: str = "", **told: Any) -> None:
        """Pass on one event or many; see `netfl.types.Recorder`.  Those of a round need not come in order of time."""
        self._to.event(kind, time_s, user=user, node=node, **told)
        if kind in {"down", "up"}:
            times, users = np.broadcast_arrays(np.asarray(time_s, float), np.asarray(user))
            for at_s, one in zip(times.ravel().tolist(), users.ravel().tolist(), strict=True):
                self._note(node or one, at_s, kind == "down")

    def figures(self, values: Mapping[str, float]) -> None:
        """Pass on the figures at the end."""
        self._to.figures(values)

    def spent(self, values: Mapping[str, NDArray[Any]]) -> None:
        """Pass on what users have spent."""
        self._to.spent(values)

    def _note(self, who: int | str, at_s: float, is_down: bool) -> None:
        """Somebody went down or came up, unless something later is known."""
        if at_s >= self._last.get(who, (at_s, is_down))[0]:
            self._last[who] = at_s, is_down
