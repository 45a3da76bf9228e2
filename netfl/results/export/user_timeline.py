"""Timelines of each user's activity: events of a run become slices on tracks.

A slice lies between two events.  A successful attempt has no event at its end: it ends when its update enters the
tower's port, where `forwarded` is recorded; without that, it is shown until the next event of the update.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from netfl.results.export.trace_events import Mark, TraceEvents
from netfl.types import FATES

_AT_SERVER = frozenset({"delivered", "late", "discarded"})


class TimelineSlice(NamedTuple):
    """Row of the events table."""

    time_s: float
    kind: str
    user: int
    node: str
    round: int
    value: float
    detail: str


class _Attempt(NamedTuple):
    """Attempt label end is not known yet."""

    began_s: float
    base: int
    node: str


@dataclass(slots=True)
class _User:
    """State of one user.

    Args:
        base: the version that its update starts from; -1 before the first.
        training_s: start of its training; ``None`` if it does not train, or the start is not known.
        waiting_s: since when its update waits to be sent; ``None`` likewise.
        free_s: when its last update ended, or was received.
        received_s: when it received each version that it may start from once it is free.
        on_air: attempts label ends are not known, the oldest first; version -1 if not known.
        marks: slices of each outstanding update.
    """

    base: int = -1
    training_s: float | None = None
    waiting_s: float | None = None
    free_s: float = 0.0
    received_s: dict[int, float] = field(default_factory=dict)
    on_air: list[_Attempt] = field(default_factory=list)
    marks: dict[int, list[Mark]] = field(default_factory=dict)


class UserTimelines:
    """Converter of the events of one replica, in the order of time, into slices.

    Args:
        tracks: receiver of the slices.
        opened_s: when each round opened, from round 1 on.
        is_network: whether a network was simulated; otherwise only the end of an update is known.
        restarts: whether users abandon their update when a newer version arrives.
        packets: whether outcomes are those of packets of traffic, not of updates.
    """

    def __init__(
        self, tracks: TraceEvents, opened_s: Sequence[float], *, is_network: bool, restarts: bool, packets: bool
    ) -> None:
        self._tracks, self._opened_s = tracks, opened_s
        self._is_network, self._restarts, self._packets = is_network, restarts, packets
        self._users: dict[int, _User] = {}
        self._down: dict[str, float] = {}
        self._users_down = 0
        self._last_s = 0.0

    def add(self, event: TimelineSlice) -> None:
        """Add an event."""
        kind = event.kind
        self._last_s = max(self._last_s, event.time_s)
        if kind in FATES:
            self._end(event)
        elif kind == "sent":
            self._send(event)
        elif kind == "forwarded":
            self._forward(event)
        elif kind == "failed":
            self._fail(event)
        elif kind == "received":
            self._receive(event)
        elif kind in {"trained", "queued"}:
            self._trained(event)
        elif kind in {"down", "up"}:
            self._outage(event)

    def close(self, end_s: float) -> None:
        """End the slices that are still open."""
        end_s = max(end_s, self._last_s)
        for number, user in self._users.items():
            self._stop(number, user, end_s, "")
            for attempt in user.on_air:
                self._sending(number, user, attempt, end_s, "")
        for name, since_s in self._down.items():
            self._tracks.slice("outages", name, "down", since_s, end_s)

    def _of(self, user: int) -> _User:
        return self._users.setdefault(user, _User())

    def _receive(self, event: TimelineSlice) -> None:
        """Note a version that a user has received; a user that restarts begins to train on it."""
        user, base = self._of(event.user), int(event.value)
        user.received_s[base] = event.time_s
        if self._restarts:
            self._begin(user, base)

    def _begin(self, user: _User, base: int) -> None:
        """Begin an update from *base*, if that is new: it began when the user had the version and was free."""
        if base != user.base:
            received_s = user.received_s.get(base)
            user.base, user.waiting_s = base, None
            user.training_s = None if received_s is None else max(received_s, user.free_s)
            user.received_s = {later: at_s for later, at_s in user.received_s.items() if later > base}

    def _trained(self, event: TimelineSlice) -> None:
        """End a training, which is recorded in one event or two."""
        user = self._of(event.user)
        self._begin(user, int(event.value))
        if user.training_s is not None:
            self._train(event.user, user, event.time_s, "training")
        if user.waiting_s is None:
            user.waiting_s = event.time_s

    def _train(self, number: int, user: _User, end_s: float, name: str) -> None:
        began_s, user.training_s = user.training_s or 0.0, None
        mark = self._tracks.slice("users", f"user {number}", name, began_s, end_s, f'"version":{user.base}')
        user.marks[user.base] = [mark]

    def _stop(self, number: int, user: _User, time_s: float, reason: str) -> None:
        """End training and waiting."""
        if user.training_s is not None:
            self._train(number, user, time_s, f"training, {reason}" if reason else "training")
        if user.waiting_s is not None:
            self._wait(number, user, time_s, reason)

    def _wait(self, number: int, user: _User, end_s: float, reason: str = "") -> None:
        """Write the time before an attempt."""
        began_s, user.waiting_s = user.waiting_s or 0.0, None
        if end_s > began_s:
            name = f"waiting, {reason}" if reason else "waiting"
            self._tracks.slice("users", f"user {number}", name, began_s, end_s, f'"version":{user.base}')

    def _send(self, event: TimelineSlice) -> None:
        user = self._of(event.user)
        if user.training_s is not None:  # the end of its training was not recorded
            self._train(event.user, user, event.time_s, "training and waiting")
        if user.waiting_s is not None:
            self._wait(event.user, user, event.time_s)
        user.on_air.append(_Attempt(event.time_s, user.base, event.node))

    def _sending(self, number: int, user: _User, attempt: _Attempt, end_s: float, reason: str) -> None:
        """Write an attempt on the tracks of its user and of its cell."""
        details = f'"version":{attempt.base}' if attempt.base >= 0 else ""
        name = f"sending, {reason}" if reason else "sending"
        mark = self._tracks.slice("users", f"user {number}", name, attempt.began_s, end_s, details)
        label = f"user {number}, {reason}" if reason else f"user {number}"
        cell = self._tracks.slice("cells", attempt.node, label, attempt.began_s, end_s, details)
        if not reason:
            user.marks.setdefault(attempt.base, []).extend((mark, cell))

    def _fail(self, event: TimelineSlice) -> None:
        """End the newest attempt, which has failed."""
        user = self._of(event.user)
        if user.on_air:
            self._sending(event.user, user, user.on_air.pop(), event.time_s, event.detail)
        user.waiting_s = event.time_s

    def _forward(self, event: TimelineSlice) -> None:
        """Write a message that has left a port, which it entered *value* seconds ago."""
        entered_s = event.time_s - event.value
        name = "traffic" if event.user < 0 else f"user {event.user}"
        mark = self._tracks.slice("links", event.node, name, entered_s, event.time_s)
        user = self._users.get(event.user)
        if user is None:
            return
        if user.on_air and user.on_air[0].node == event.node and user.on_air[0].began_s < entered_s:
            user.free_s = entered_s
            self._sending(event.user, user, user.on_air.pop(0), entered_s, "")
        if user.marks:
            user.marks[min(user.marks)].append(mark)  # of the oldest outstanding update

    def _end(self, event: TimelineSlice) -> None:
        """End an update, or a packet of traffic."""
        if self._packets:
            self._packet(event)
            return
        user, kind, time_s = self._of(event.user), event.kind, event.time_s
        base = user.base if math.isnan(event.value) else int(event.value)
        if not self._is_network:
            began_s = self._opened_s[event.round - 1] if event.round <= len(self._opened_s) else time_s
            user.marks[base] = [self._tracks.slice("users", f"user {event.user}", kind, began_s, time_s)]
        elif base > user.base >= 0:
            self._begin(user, base)
        reason = "" if kind in _AT_SERVER else event.detail or kind
        if base == user.base and kind not in _AT_SERVER:
            self._stop(event.user, user, time_s, reason)
        ended = [each for each in user.on_air if each.base in {base, -1} or (each.base < base and not self._restarts)]
        user.on_air = [attempt for attempt in user.on_air if attempt not in ended]
        for attempt in ended:
            last = attempt is ended[-1]
            self._sending(event.user, user, attempt._replace(base=base), time_s, reason if last else "")
        if base == user.base and (ended or reason):
            user.free_s = time_s
        marks = user.marks.pop(base, None) or user.marks.pop(-1, [])
        if kind in _AT_SERVER:
            details = f'"version":{base}' if base >= 0 else ""
            name = f"user {event.user}" if kind == "delivered" else f"user {event.user}, {kind}"
            marks.append(self._tracks.slice("server", "arrivals", name, time_s, time_s, details))
            if len(marks) > 1:
                self._tracks.arrows("update", marks)

    def _packet(self, event: TimelineSlice) -> None:
        """Write a packet of traffic; *value* is its age."""
        track = "traffic" if event.user < 0 else f"user {event.user}"
        self._tracks.slice("users", track, event.kind, event.time_s - event.value, event.time_s)

    def _outage(self, event: TimelineSlice) -> None:
        name = event.node or f"user {event.user}"
        if event.kind == "down" and name not in self._down:
            self._down[name] = event.time_s
        elif event.kind == "up" and name in self._down:
            self._tracks.slice("outages", name, "down", self._down.pop(name), event.time_s)
        else:
            return
        if not event.node:
            self._users_down += 1 if event.kind == "down" else -1
            self._tracks.counter("users down", event.time_s, self._users_down)
