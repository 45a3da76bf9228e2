"""What each user is at, told from the events of a run, as slices on tracks.

The events say when something happened; a slice is what lies between two of them.  An attempt that was received has no
event at its end: it ends when its update enters the tower's port, where `forwarded` is recorded, and is else shown
until the next thing that is known of it.
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
    """One row of the events table."""

    time_s: float
    kind: str
    user: int
    node: str
    round: int
    value: float
    detail: str


class _Attempt(NamedTuple):
    """An attempt whose end is not known yet."""

    begun_s: float
    base: int
    node: str


@dataclass(slots=True)
class _User:
    """What one user is at.

    Args:
        base: the version that its update starts from; -1 before the first.
        training_s: since when it trains; ``None`` if it does not, or that is not known.
        waiting_s: since when its update waits for the air; ``None`` likewise.
        free_s: when its last update ended, or was past the air.
        heard: when it received each version that it may begin from once it is free.
        on_air: attempts whose ends are not known, the oldest first; from version -1 where that is not known.
        marks: of each update that has not ended, the slices that it has passed.
    """

    base: int = -1
    training_s: float | None = None
    waiting_s: float | None = None
    free_s: float = 0.0
    heard: dict[int, float] = field(default_factory=dict)
    on_air: list[_Attempt] = field(default_factory=list)
    marks: dict[int, list[Mark]] = field(default_factory=dict)


class UserTimelines:
    """Turns the events of one replica into slices; they are to come in the order of time.

    Args:
        tracks: where the slices go.
        opened_s: when each round opened, from round 1 on.
        networked: whether a network decided who was heard; else all that is known of an update is its end.
        restarts: whether users give up what they are at when a newer version comes.
        packets: whether the fates are those of packets of traffic, not of updates.
    """

    def __init__(
        self, tracks: TraceEvents, opened_s: Sequence[float], *, networked: bool, restarts: bool, packets: bool
    ) -> None:
        self._tracks, self._opened_s = tracks, opened_s
        self._networked, self._restarts, self._packets = networked, restarts, packets
        self._users: dict[int, _User] = {}
        self._down: dict[str, float] = {}
        self._users_down = 0
        self._last_s = 0.0

    def tell(self, event: TimelineSlice) -> None:
        """One more thing has happened."""
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
        """The run, or what there is of it, is over: what is still going on is shown until then."""
        end_s = max(end_s, self._last_s)
        for number, user in self._users.items():
            self._stop(number, user, end_s, "")
            for attempt in user.on_air:
                self._sending(number, user, attempt, end_s, "")
        for name, since_s in self._down.items():
            self._tracks.slice("outages", name, "down", since_s, end_s)

    def _of(self, user: int) -> _User:
        """What is known of a user."""
        return self._users.setdefault(user, _User())

    def _receive(self, event: TimelineSlice) -> None:
        """A user has a version: it begins to train, or which version it begins from is seen when that is over."""
        user, base = self._of(event.user), int(event.value)
        user.heard[base] = event.time_s
        if self._restarts:
            self._begin(user, base)

    def _begin(self, user: _User, base: int) -> None:
        """A user is at an update from *base*, if it was not yet: it began that when it had the version and was free."""
        if base != user.base:
            heard_s = user.heard.get(base)
            user.base, user.waiting_s = base, None
            user.training_s = None if heard_s is None else max(heard_s, user.free_s)
            user.heard = {later: at_s for later, at_s in user.heard.items() if later > base}

    def _trained(self, event: TimelineSlice) -> None:
        """A training is over, which is recorded in one event or two."""
        user = self._of(event.user)
        self._begin(user, int(event.value))
        if user.training_s is not None:
            self._train(event.user, user, event.time_s, "training")
        if user.waiting_s is None:
            user.waiting_s = event.time_s

    def _train(self, number: int, user: _User, end_s: float, name: str) -> None:
        """Show a training."""
        began_s, user.training_s = user.training_s or 0.0, None
        mark = self._tracks.slice("users", f"user {number}", name, began_s, end_s, f'"version":{user.base}')
        user.marks[user.base] = [mark]

    def _stop(self, number: int, user: _User, time_s: float, why: str) -> None:
        """What a user is at, but for attempts, ends here."""
        if user.training_s is not None:
            self._train(number, user, time_s, f"training, {why}" if why else "training")
        if user.waiting_s is not None:
            self._wait(number, user, time_s, why)

    def _wait(self, number: int, user: _User, end_s: float, why: str = "") -> None:
        """Show the time before an attempt."""
        began_s, user.waiting_s = user.waiting_s or 0.0, None
        if end_s > began_s:
            name = f"waiting, {why}" if why else "waiting"
            self._tracks.slice("users", f"user {number}", name, began_s, end_s, f'"version":{user.base}')

    def _send(self, event: TimelineSlice) -> None:
        """An attempt begins."""
        user = self._of(event.user)
        if user.training_s is not None:  # that its training ended was not recorded
            self._train(event.user, user, event.time_s, "training and waiting")
        if user.waiting_s is not None:
            self._wait(event.user, user, event.time_s)
        user.on_air.append(_Attempt(event.time_s, user.base, event.node))

    def _sending(self, number: int, user: _User, attempt: _Attempt, end_s: float, why: str) -> None:
        """Show an attempt, for its user and in its cell."""
        told = f'"version":{attempt.base}' if attempt.base >= 0 else ""
        name = f"sending, {why}" if why else "sending"
        mark = self._tracks.slice("users", f"user {number}", name, attempt.begun_s, end_s, told)
        whose = f"user {number}, {why}" if why else f"user {number}"
        cell = self._tracks.slice("cells", attempt.node, whose, attempt.begun_s, end_s, told)
        if not why:
            user.marks.setdefault(attempt.base, []).extend((mark, cell))

    def _fail(self, event: TimelineSlice) -> None:
        """The newest attempt has failed; another will follow."""
        user = self._of(event.user)
        if user.on_air:
            self._sending(event.user, user, user.on_air.pop(), event.time_s, event.detail)
        user.waiting_s = event.time_s

    def _forward(self, event: TimelineSlice) -> None:
        """A message has left a port; it entered it *value* seconds ago, when it came off the air."""
        entered_s = event.time_s - event.value
        name = "traffic" if event.user < 0 else f"user {event.user}"
        mark = self._tracks.slice("links", event.node, name, entered_s, event.time_s)
        user = self._users.get(event.user)
        if user is None:
            return
        if user.on_air and user.on_air[0].node == event.node and user.on_air[0].begun_s < entered_s:
            user.free_s = entered_s
            self._sending(event.user, user, user.on_air.pop(0), entered_s, "")
        if user.marks:
            user.marks[min(user.marks)].append(mark)  # of the oldest update that is still under way

    def _end(self, event: TimelineSlice) -> None:
        """An update, or a packet of traffic, ends."""
        if self._packets:
            self._packet(event)
            return
        user, kind, time_s = self._of(event.user), event.kind, event.time_s
        base = user.base if math.isnan(event.value) else int(event.value)
        if not self._networked:
            begun_s = self._opened_s[event.round - 1] if event.round <= len(self._opened_s) else time_s
            user.marks[base] = [self._tracks.slice("users", f"user {event.user}", kind, begun_s, time_s)]
        elif base > user.base >= 0:
            self._begin(user, base)
        why = "" if kind in _AT_SERVER else event.detail or kind
        if base == user.base and kind not in _AT_SERVER:
            self._stop(event.user, user, time_s, why)
        own = [one for one in user.on_air if one.base in {base, -1} or (one.base < base and not self._restarts)]
        user.on_air = [attempt for attempt in user.on_air if attempt not in own]
        for attempt in own:
            last = attempt is own[-1]
            self._sending(event.user, user, attempt._replace(base=base), time_s, why if last else "")
        if base == user.base and (own or why):
            user.free_s = time_s
        marks = user.marks.pop(base, None) or user.marks.pop(-1, [])
        if kind in _AT_SERVER:
            told = f'"version":{base}' if base >= 0 else ""
            name = f"user {event.user}" if kind == "delivered" else f"user {event.user}, {kind}"
            marks.append(self._tracks.slice("server", "arrivals", name, time_s, time_s, told))
            if len(marks) > 1:
                self._tracks.arrows("update", marks)

    def _packet(self, event: TimelineSlice) -> None:
        """A packet of traffic ends; *value* is how old it is."""
        track = "traffic" if event.user < 0 else f"user {event.user}"
        self._tracks.slice("users", track, event.kind, event.time_s - event.value, event.time_s)

    def _outage(self, event: TimelineSlice) -> None:
        """Somebody goes down, or comes up."""
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
