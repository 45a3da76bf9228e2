"""Helpers for the SimPy clock: callbacks, a reusable timer, and a run with progress reports."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import simpy
from simpy.events import NORMAL

Environment = simpy.Environment
"""Clock of a network, in which processes run."""


def call_after(
    env: simpy.Environment, delay_s: float, callback: Callable[[simpy.Event], None], value: Any = None
) -> simpy.Event:
    """Return an event that fires in *delay_s* with *value*; *callback* is called before all others that wait for it."""
    event = env.timeout(delay_s, value)
    assert event.callbacks is not None
    event.callbacks.append(callback)
    return event


def call_at(env: simpy.Environment, at_s: float, callback: Callable[[simpy.Event], None]) -> None:
    """Call *callback* at *at_s*, never earlier, although by rounding a timeout may fire before that time.

    >>> env, calls = simpy.Environment(0.8), []
    >>> call_at(env, 3.4, lambda _: calls.append(env.now))
    >>> env.run()
    >>> calls, 0.8 + (3.4 - 0.8)
    ([3.4], 3.3999999999999995)
    """

    def call(event: simpy.Event) -> None:
        if env.now < at_s:
            call_after(env, at_s - env.now, call)
        else:
            callback(event)

    call_after(env, max(0.0, at_s - env.now), call)


def run_until(env: simpy.Environment, end: simpy.Event, on_progress: Callable[[], None], every: int = 1000) -> None:
    """Run *env* until *end* has fired; call *on_progress* after each *every* events before that.

    Raises:
        simpy.core.EmptySchedule: There are no more events, and *end* has not fired.

    >>> env, calls = simpy.Environment(), []
    >>> ticks = [env.timeout(at_s) for at_s in (1.0, 2.0, 3.0, 4.0)]
    >>> run_until(env, ticks[2], lambda: calls.append(env.now), every=2)
    >>> env.now, calls
    (3.0, [2.0])
    """
    step = env.step
    while end.callbacks is not None:
        for _ in range(every):
            step()
            if end.callbacks is None:
                return
        on_progress()


class Timer(simpy.Event):
    """A timer that is used again and again, without a new event each time.

    It calls *callback* once each time that it is set, and can be set again only from that call on.

    >>> env, calls = simpy.Environment(), []
    >>> timer = Timer(env, lambda _: calls.append(env.now) or (timer.set(2.0) if len(calls) < 3 else None))
    >>> timer.set(1.0)
    >>> env.run()
    >>> calls
    [1.0, 3.0, 5.0]
    """

    def __init__(self, env: simpy.Environment, callback: Callable[[simpy.Event], None]) -> None:
        simpy.Event.__init__(self, env)
        self._ok, self._value = True, None
        self._calls = [callback]

    def set(self, delay_s: float) -> None:
        """Fire in *delay_s*."""
        self.callbacks = self._calls
        self.env.schedule(self, NORMAL, delay_s)
