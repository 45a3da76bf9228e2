"""An alarm clock that is set again and again, and so costs no new event each time."""

from __future__ import annotations

from collections.abc import Callable

import simpy
from simpy.events import NORMAL


class Timer(simpy.Event):
    """Calls back once each time that it has been set; it may be set again from that call on, not before.

    >>> env, rings = simpy.Environment(), []
    >>> timer = Timer(env, lambda _: rings.append(env.now) or (timer.set(2.0) if len(rings) < 3 else None))
    >>> timer.set(1.0)
    >>> env.run()
    >>> rings
    [1.0, 3.0, 5.0]

    Args:
        env: the clock.
        callback: what is called.
    """

    def __init__(self, env: simpy.Environment, callback: Callable[[simpy.Event], None]) -> None:
        simpy.Event.__init__(self, env)
        self._ok, self._value = True, None
        self._calls = [callback]

    def set(self, delay_s: float) -> None:
        """Ring in *delay_s*."""
        self.callbacks = self._calls
        self.env.schedule(self, NORMAL, delay_s)
