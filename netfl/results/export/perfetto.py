"""Export of a run as a trace for Perfetto: a timeline of each user's activity, with rounds, cells, links and outages.

Attempts over the air are the rows of the table ``attempts``.  Without that, and for all else, a slice lies between two
events.  A successful attempt has no event at its end: it ends when its update enters the tower's port, where
`forwarded` is recorded; without that, it is shown until the next event of the update.
"""

from __future__ import annotations

import heapq
import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from netfl.core.remedies import call, changed
from netfl.errors import Fault, ScenarioError
from netfl.results.atomic_write import atomic_write
from netfl.results.export.trace_events import LATEST_S, Mark, TraceEvents, Track
from netfl.results.row_order import sort_by_cause
from netfl.results.run_reader import Run
from netfl.types import OUTCOMES

_STEPS = ("received", "trained", "forwarded")
"""Kinds of events that trainings, waiting times and links depend on."""
_AT_SERVER = frozenset({"delivered", "late", "discarded"})


def write_trace(run: Run, path: Path, replica: int = 0) -> str:
    """Write one replica of *run* as a JSON file in the Trace Event Format, and return a summary of it in words.

    Raises:
        ScenarioError: there is no such replica, or no events were recorded.
    """
    rounds = run.rounds_of(replica)
    if run.events.empty and run.attempts.empty:
        problem = "no events were recorded, which a trace needs"
        raise ScenarioError([Fault("record", problem, None, f"run it again with: {changed('record', 'all')}")])
    end_s = float(rounds["closed_s"].max())
    if end_s >= LATEST_S:
        problem = "the run is longer than 292 years, the limit of a trace in nanoseconds"
        raise ScenarioError(
            [Fault("", problem, f"{end_s:g} s", f"export its tables: {call('export', run.folder, csv=True)}")]
        )
    access = dict(run.required_section("access"))
    network = access.get("kind") == "network"
    facts = {"scenario": str(run.manifest.get("scenario", "")), "replica": replica, "status": run.status, "unit": "s"}
    with atomic_write(path) as part, part.open("w", encoding="utf-8") as file:
        tracks = TraceEvents(file, facts)
        columns = ["round", "opened_s", "closed_s", "delivered"]
        for index, opened_s, closed_s, delivered in rounds[columns].itertuples(index=False, name=None):
            tracks.slice(Track("server", "rounds"), f"round {index}", opened_s, closed_s, f'"delivered":{delivered}')
            tracks.counter("delivered", closed_s, delivered)
        accuracy = run.metrics[(run.metrics["metric"] == "accuracy") & (run.metrics["group"] == "")]
        accuracy = accuracy[accuracy["replica"] == replica]
        for learner, time_s, value in accuracy[["learner", "time_s", "value"]].itertuples(index=False, name=None):
            tracks.counter(f"accuracy of {learner}", time_s, value)
        timelines = _UserTimelines(
            tracks,
            rounds["opened_s"].tolist(),
            is_network=network,
            restarts=access.get("on_new_version", "restart") == "restart",
            packets=run.duration_s is not None,
            has_attempts=not run.attempts.empty,
        )
        events = run.events
        events = events[events["replica"] == replica]
        for event in _merged(events, run.attempts[run.attempts["replica"] == replica]):
            timelines.add(event)
        timelines.close(end_s)
        tracks.close()
    summary = f"{len(events)} events, {tracks.slices} slices of replica {replica}"
    missing = [kind for kind in _STEPS if kind not in run.recorded_kinds]
    if network and missing:
        names = ", ".join(missing)
        summary += f"\n{names} were not recorded, so some slices are missing: run with {changed('record', 'all')}"
    if run.status != "done":
        summary += f"\nthe run is {run.status}: it has {len(rounds)} of {run.manifest.get('rounds', '?')} rounds"
    return summary


class _Attempt(NamedTuple):
    """Row of the table of attempts, or an attempt of which only the events are known."""

    start_s: float
    base: int
    node: str
    outcome: str = ""
    traffic: str = ""
    channel: int = 0
    mode_name: str = ""

    @property
    def details(self) -> str:
        """Facts about the attempt: the inside of a JSON object."""
        facts: dict[str, object] = {}
        if self.base >= 0:
            facts["version"] = self.base
        if self.outcome:
            facts["channel"] = self.channel
        facts |= {name: word for name, word in (("mode", self.mode_name), ("traffic", self.traffic)) if word}
        return json.dumps(facts, separators=(",", ":"))[1:-1]


class _Event(NamedTuple):
    """Row of the events table; or the end of an attempt, which the last field holds."""

    time_s: float
    kind: str
    user: int
    node: str
    round: int
    value: float
    detail: str
    traffic: str = ""
    attempt: _Attempt | None = None


def _merged(events: pd.DataFrame, attempts: pd.DataFrame) -> Iterator[_Event]:
    """Yield events and ends of attempts in the order of time; at one instant attempts end before all else."""
    events = sort_by_cause(events)
    words = {"kind": str, "node": str, "detail": str, "traffic": str}
    columns = [name for name in _Event._fields if name != "attempt"]
    rows = (_Event(*row) for row in events.astype(words)[columns].itertuples(index=False, name=None))
    attempts = attempts.sort_values("end_s", kind="stable")
    ends = zip(
        attempts[["end_s", "user", "node", "round"]].itertuples(index=False, name=None),
        attempts[[*_Attempt._fields]].itertuples(index=False, name=None),
        strict=True,
    )
    ended = (
        _Event(end_s, "ended", user, node, index, math.nan, "", attempt=_Attempt(*attempt))
        for (end_s, user, node, index), attempt in ends
    )
    yield from heapq.merge(ended, rows, key=itemgetter(0))


@dataclass(slots=True)
class _User:
    """State of one user.

    Args:
        track: its track.
        base: the version that its update starts from; -1 before the first.
        training_s: start of its training; ``None`` if it does not train, or the start is not known.
        waiting_s: since when its update waits to be sent; ``None`` likewise.
        free_s: when its last update ended, or was received.
        received_s: when it received each version that it may start from once it is free.
        on_air: attempts whose ends are not known, the oldest first; version -1 if not known.
        marks: slices of each outstanding update.
    """

    track: Track
    base: int = -1
    training_s: float | None = None
    waiting_s: float | None = None
    free_s: float = 0.0
    received_s: dict[int, float] = field(default_factory=dict)
    on_air: list[_Attempt] = field(default_factory=list)
    marks: dict[int, list[Mark]] = field(default_factory=dict)


class _UserTimelines:
    """Converter of the events of one replica, in the order of time, into slices.

    Args:
        tracks: receiver of the slices.
        opened_s: when each round opened, from round 1 on.
        is_network: whether a network was simulated; otherwise only the end of an update is known.
        restarts: whether users abandon their update when a newer version arrives.
        packets: whether outcomes are those of packets of traffic, not of updates.
        has_attempts: whether the ends of attempts are among the events.
    """

    def __init__(
        self,
        tracks: TraceEvents,
        opened_s: Sequence[float],
        *,
        is_network: bool,
        restarts: bool,
        packets: bool,
        has_attempts: bool,
    ) -> None:
        self._tracks, self._opened_s = tracks, opened_s
        self._is_network, self._restarts, self._packets = is_network, restarts, packets
        self._has_attempts = has_attempts
        self._handlers: dict[str, Callable[[_Event], None]] = {
            **dict.fromkeys(OUTCOMES, self._end),
            "sent": self._send,
            "ended": self._end_attempt,
            "forwarded": self._forward,
            "failed": self._fail,
            "received": self._receive,
            **dict.fromkeys(("trained", "queued"), self._trained),
            **dict.fromkeys(("down", "up"), self._outage),
        }
        self._users: dict[int, _User] = {}
        self._down: dict[str, float] = {}
        self._users_down = 0
        self._last_s = 0.0

    def add(self, event: _Event) -> None:
        self._last_s = max(self._last_s, event.time_s)
        handle = self._handlers.get(event.kind)
        if handle is not None:
            handle(event)

    def close(self, end_s: float) -> None:
        end_s = max(end_s, self._last_s)
        for user in self._users.values():
            self._stop(user, end_s, "")
            for attempt in user.on_air:
                self._sending(user, attempt, end_s, "")
        for name, since_s in self._down.items():
            self._tracks.slice(Track("outages", name), "down", since_s, end_s)

    def _of(self, number: int) -> _User:
        if number not in self._users:
            self._users[number] = _User(Track("users", f"user {number}"))
        return self._users[number]

    def _receive(self, event: _Event) -> None:
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

    def _trained(self, event: _Event) -> None:
        user = self._of(event.user)
        self._begin(user, int(event.value))
        if user.training_s is not None:
            self._train(user, event.time_s, "training")
        if user.waiting_s is None:
            user.waiting_s = event.time_s

    def _train(self, user: _User, end_s: float, name: str) -> None:
        began_s, user.training_s = user.training_s or 0.0, None
        mark = self._tracks.slice(user.track, name, began_s, end_s, f'"version":{user.base}')
        user.marks[user.base] = [mark]

    def _stop(self, user: _User, time_s: float, reason: str) -> None:
        if user.training_s is not None:
            self._train(user, time_s, f"training, {reason}" if reason else "training")
        if user.waiting_s is not None:
            self._wait(user, time_s, reason)

    def _wait(self, user: _User, end_s: float, reason: str = "") -> None:
        began_s, user.waiting_s = user.waiting_s or 0.0, None
        if end_s > began_s:
            name = f"waiting, {reason}" if reason else "waiting"
            self._tracks.slice(user.track, name, began_s, end_s, f'"version":{user.base}')

    def _send(self, event: _Event) -> None:
        if event.traffic:  # its end is known from the table of attempts only
            return
        user = self._of(event.user)
        if user.training_s is not None:  # the end of its training was not recorded
            self._train(user, event.time_s, "training and waiting")
        if user.waiting_s is not None:
            self._wait(user, event.time_s)
        if not self._has_attempts:
            user.on_air.append(_Attempt(event.time_s, user.base, event.node))

    def _sending(self, user: _User, attempt: _Attempt, end_s: float, reason: str) -> None:
        """Write an attempt on the tracks of its user and of its cell."""
        name = f"sending, {reason}" if reason else "sending"
        mark = self._tracks.slice(user.track, name, attempt.start_s, end_s, attempt.details)
        label = f"{user.track.name}, {reason}" if reason else user.track.name
        cell = self._tracks.slice(Track("cells", attempt.node), label, attempt.start_s, end_s, attempt.details)
        if not reason and not attempt.traffic:
            user.marks.setdefault(attempt.base, []).extend((mark, cell))

    def _end_attempt(self, event: _Event) -> None:
        """Write an attempt of the table; if it failed, an update that is still its user's newest waits again."""
        attempt = event.attempt
        assert attempt is not None
        user = self._of(event.user)
        is_received = attempt.outcome == "received"
        self._sending(user, attempt, event.time_s, "" if is_received else attempt.outcome)
        if attempt.traffic:
            return
        if is_received:
            user.free_s = event.time_s
        elif attempt.base == user.base:
            user.waiting_s = event.time_s

    def _fail(self, event: _Event) -> None:
        """End the newest attempt, which has failed; an update that is still its user's newest waits."""
        if event.traffic or self._has_attempts:
            return
        user = self._of(event.user)
        base = user.base
        if user.on_air:
            attempt = user.on_air.pop()
            base = attempt.base
            self._sending(user, attempt, event.time_s, event.detail)
        if base == user.base:
            user.waiting_s = event.time_s

    def _forward(self, event: _Event) -> None:
        """Write a message that has left a port, which it entered *value* seconds ago."""
        entered_s = event.time_s - event.value
        name = "traffic" if event.user < 0 else f"user {event.user}"
        if event.traffic:
            self._tracks.slice(Track("links", event.node), f"{name}, {event.traffic}", entered_s, event.time_s)
            return
        mark = self._tracks.slice(Track("links", event.node), name, entered_s, event.time_s)
        user = self._users.get(event.user)
        if user is None:
            return
        if user.on_air and user.on_air[0].node == event.node and user.on_air[0].start_s < entered_s:
            user.free_s = entered_s
            self._sending(user, user.on_air.pop(0), entered_s, "")
        if user.marks:
            user.marks[min(user.marks)].append(mark)  # of the oldest outstanding update

    def _end(self, event: _Event) -> None:
        """End an update, or a packet of traffic, whose *value* is its age."""
        if self._packets:
            track = Track("users", "traffic" if event.user < 0 else f"user {event.user}")
            self._tracks.slice(track, event.kind, event.time_s - event.value, event.time_s)
            return
        user, kind, time_s = self._of(event.user), event.kind, event.time_s
        base = user.base if math.isnan(event.value) else int(event.value)
        if not self._is_network:
            began_s = self._opened_s[event.round - 1] if event.round <= len(self._opened_s) else time_s
            user.marks[base] = [self._tracks.slice(user.track, kind, began_s, time_s)]
        elif base > user.base >= 0:
            self._begin(user, base)
        reason = "" if kind in _AT_SERVER else event.detail or kind
        if base == user.base and kind not in _AT_SERVER:
            self._stop(user, time_s, reason)
        ended = [each for each in user.on_air if each.base in {base, -1} or (each.base < base and not self._restarts)]
        user.on_air = [attempt for attempt in user.on_air if attempt not in ended]
        for attempt in ended:
            last = attempt is ended[-1]
            self._sending(user, attempt._replace(base=base), time_s, reason if last else "")
        if base == user.base and (ended or reason):
            user.free_s = time_s
        marks = user.marks.pop(base, None) or user.marks.pop(-1, [])
        if kind in _AT_SERVER:
            details = f'"version":{base}' if base >= 0 else ""
            name = user.track.name if kind == "delivered" else f"{user.track.name}, {kind}"
            marks.append(self._tracks.slice(Track("server", "arrivals"), name, time_s, time_s, details))
            if len(marks) > 1:
                self._tracks.arrows("update", marks)

    def _outage(self, event: _Event) -> None:
        name = event.node or f"user {event.user}"
        if event.kind == "down" and name not in self._down:
            self._down[name] = event.time_s
        elif event.kind == "up" and name in self._down:
            self._tracks.slice(Track("outages", name), "down", self._down.pop(name), event.time_s)
        else:
            return
        if not event.node:
            self._users_down += 1 if event.kind == "down" else -1
            self._tracks.counter("users down", event.time_s, self._users_down)
