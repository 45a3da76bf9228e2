"""Who is out, as those who watch a run are told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from netfl.types import Recorder


class Lookout:
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
