"""Outages and open rounds, as observers of a run see them; the base class of observers is `netfl.types.RunObserver`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from netfl.results.formatting import clock
from netfl.types import Recorder, RoundProgress

_SHOWN_FAILURES = 100
"""Failed attempts in a row below which none are reported."""


def format_progress(progress: RoundProgress) -> str:
    """Return the progress of an open round in words.

    >>> format_progress(RoundProgress(3, 7260.0, 1234, 1200))
    '2 h 01 min simulated · 1,234 attempts, the last 1,200 of them in vain'
    """
    vain = f", the last {progress.vain:,} of them in vain" if progress.vain >= _SHOWN_FAILURES else ""
    return f"{clock(progress.time_s)} simulated · {progress.attempts:,} attempts{vain}"


class OutageTracker:
    """Recorder that passes all events on, and keeps track of nodes and users that are down.

    Args:
        recorder: receiver of the events; outages that it does not want are not tracked.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._states: dict[int | str, tuple[float, bool]] = {}

    @property
    def down(self) -> tuple[int | str, ...]:
        """Nodes that are down, such as ``tower:0``, then the numbers of users that are down."""
        names = [name for name, (_, is_down) in self._states.items() if is_down]
        nodes, users = (sorted(name for name in names if isinstance(name, kind)) for kind in (str, int))
        return *nodes, *users

    def wants(self, kind: str) -> bool:
        """Return whether events of *kind* are recorded."""
        return self._recorder.wants(kind)

    def event(self, kind: str, time_s: ArrayLike, *, user: ArrayLike = -1, node: str = "", **details: Any) -> None:
        """Pass on one event or many; see `netfl.types.Recorder`.  Those of a round may come in any order of time."""
        self._recorder.event(kind, time_s, user=user, node=node, **details)
        if kind in {"down", "up"}:
            times, users = np.broadcast_arrays(np.asarray(time_s, float), np.asarray(user))
            for at_s, number in zip(times.ravel().tolist(), users.ravel().tolist(), strict=True):
                name = node or number
                if at_s >= self._states.get(name, (at_s, False))[0]:
                    self._states[name] = at_s, kind == "down"

    def figures(self, values: Mapping[str, float]) -> None:
        """Pass on the metrics of the replica."""
        self._recorder.figures(values)

    def spent(self, values: Mapping[str, NDArray[Any]]) -> None:
        """Pass on what users have spent."""
        self._recorder.spent(values)
