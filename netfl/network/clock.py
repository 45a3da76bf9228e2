"""The clock of a network: SimPy's, with an end of each instant, callbacks, a reusable timer and progress reports.

Events of one instant have an order that is not physics: that in which they were scheduled, or that of two roundings of
one time.  Whatever depends on several of them is therefore decided at the end of the instant, by `Clock.at_end`.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import simpy
from simpy.core import BoundClass
from simpy.events import NORMAL

from netfl.network.periods import LATER, SAME_INSTANT_S, after_rounding

Environment = simpy.Environment
"""Clock of a network, in which processes run."""


class Stage(IntEnum):
    """Order of what is decided at the end of an instant; each sees the results of those before."""

    PORTS = 0
    """Messages that entered a port are queued, after those that left it."""
    ARRIVALS = 1
    """The server judges the updates that have arrived."""
    TIMERS = 2
    """Deadlines and time-outs expire: an arrival at a deadline is in time."""
    MOVES = 3
    """Users change their towers, after all frames that end."""
    VERSIONS = 4
    """Users receive versions: one that starts to send at this instant is on the air."""
    RETURNS = 5
    """Users that are connected again receive the version that they missed, unless a newer one has come."""
    STOP = 6
    """The run ends: a round that closes at this instant belongs to it."""


class Clock(simpy.Environment):
    """SimPy's environment, which also knows the end of the present instant.

    An instant is a time with all times that differ from it by rounding only (`netfl.network.periods.after_rounding`).
    """

    if not TYPE_CHECKING:  # as in SimPy's class, but faster: a getter in C, and constructors that it binds only once
        now = property(attrgetter("_now"))
        event = BoundClass(simpy.Event)
        timeout = BoundClass(simpy.Timeout)
        process = BoundClass(simpy.Process)

    def __init__(self, initial_time: float = 0.0) -> None:
        super().__init__(initial_time)
        self._decisions: dict[Stage, list[Callable[[], None]]] = {}
        self._instant_until_s = initial_time

    def is_instant_over(self) -> bool:
        """Return whether no other event of the present instant is scheduled, and nothing is to be decided at its end.

        A method, as it is asked for each message at each port, and Python calls methods faster than properties.
        """
        if self._decisions:
            return False
        queue = self._queue
        return not queue or queue[0][0] > self._now * LATER + SAME_INSTANT_S  # after_rounding, for each message

    def has_events(self) -> bool:
        """Return whether anything is to come, of this instant or later."""
        return bool(self._queue or self._decisions)

    def at_end(self, stage: Stage, decide: Callable[[], None]) -> None:
        """Call *decide* at the end of the present instant; at once if it is over.

        >>> clock, calls = Clock(), []
        >>> def expire(event): clock.at_end(Stage.TIMERS, lambda: calls.append("deadline"))
        >>> call_after(clock, 0.3, expire)
        <Timeout(0.3) object at ...>
        >>> call_after(clock, 0.1 + 0.2, lambda _: calls.append("arrival"))
        <Timeout(0.30000000000000004) object at ...>
        >>> clock.run()
        >>> calls
        ['arrival', 'deadline']
        """
        if self.is_instant_over():
            decide()
            return
        if not self._decisions or stage is Stage.TIMERS:  # others extend no instant, as they may follow each other
            self._instant_until_s = after_rounding(self._now)
        self._decisions.setdefault(stage, []).append(decide)

    def step(self) -> None:
        """Process the next event, after what is to be decided at the end of an instant that is over."""
        if self._decisions:
            self._end_instant()
        super().step()

    def run_until(self, end: simpy.Event, on_progress: Callable[[], None], every: int = 1000) -> None:
        """Process events until *end* has fired; call *on_progress* after each *every* events before that.

        Raises:
            simpy.core.EmptySchedule: there are no more events, and *end* has not fired.

        >>> clock, calls = Clock(), []
        >>> ticks = [clock.timeout(at_s) for at_s in (1.0, 2.0, 3.0, 4.0)]
        >>> clock.run_until(ticks[2], lambda: calls.append(clock.now), every=2)
        >>> clock.now, calls
        (3.0, [2.0])
        """
        decisions = self._decisions
        step = super().step
        while end.callbacks is not None:  # SimPy's mark of an event that has fired
            for _ in range(every):
                if decisions:
                    self._end_instant()
                step()
                if end.callbacks is None:
                    return
            on_progress()

    def _end_instant(self) -> None:
        """Decide what is to be decided at the end of the present instant, if no other event of it is to come."""
        decisions = self._decisions
        while decisions and (not self._queue or self._queue[0][0] > self._instant_until_s):
            for decide in decisions.pop(min(decisions)):
                decide()


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
        self._ok = True  # triggered from the start, so that it can be scheduled at any time
        self._value = None
        self._calls = [callback]

    def set(self, delay_s: float) -> None:
        """Fire in *delay_s*."""
        self.callbacks = self._calls
        self.env.schedule(self, NORMAL, delay_s)
