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
    _check_exportable(run, rounds)
    access = dict(run.required_section("access"))
    is_network = access.get("kind") == "network"
    events = run.events[run.events["replica"] == replica]
    attempts = run.attempts[run.attempts["replica"] == replica]
    facts = {"scenario": str(run.manifest.get("scenario", "")), "replica": replica, "status": run.status, "unit": "s"}
    with atomic_write(path) as part, part.open("w", encoding="utf-8") as file:
        tracks = TraceEvents(file, facts)
        _write_rounds(tracks, rounds)
        _write_accuracy(tracks, run.metrics[run.metrics["replica"] == replica])
        timelines = _UserTimelines(
            tracks,
            rounds["opened_s"].tolist(),
            is_network=is_network,
            restarts=access.get("on_new_version", "restart") == "restart",
            packets=run.duration_s is not None,
            has_attempts=not run.attempts.empty,
        )
        for event in _merged(events, attempts):
            timelines.add(event)
        timelines.close(float(rounds["closed_s"].max()))
        tracks.close()
    summary = f"{len(events)} events, {tracks.slices} slices of replica {replica}"
    missing = [kind for kind in _STEPS if kind not in run.recorded_kinds]
    if is_network and missing:
        names = ", ".join(missing)
        summary += f"\n{names} were not recorded, so some slices are missing: run with {changed('record', 'all')}"
    if run.status != "done":
        summary += f"\nthe run is {run.status}: it has {len(rounds)} of {run.manifest.get('rounds', '?')} rounds"
    return summary


def _check_exportable(run: Run, rounds: pd.DataFrame) -> None:
    """Check that there are events of the run, and that it is not too long for a trace."""
    if run.events.empty and run.attempts.empty:
        problem = "no events were recorded, which a trace needs"
        raise ScenarioError([Fault("record", problem, None, f"run it again with: {changed('record', 'all')}")])
    end_s = float(rounds["closed_s"].max())
    if end_s >= LATEST_S:
        problem = "the run is longer than 292 years, the limit of a trace in nanoseconds"
        remedy = f"export its tables: {call('export', run.folder, csv=True)}"
        raise ScenarioError([Fault("", problem, f"{end_s:g} s", remedy)])


def _write_rounds(tracks: TraceEvents, rounds: pd.DataFrame) -> None:
    """Write a slice for each round, and its deliveries as a counter."""
    columns = ["round", "opened_s", "closed_s", "delivered"]
    for index, opened_s, closed_s, delivered in rounds[columns].itertuples(index=False, name=None):
        tracks.slice(Track("server", "rounds"), f"round {index}", opened_s, closed_s, f'"delivered":{delivered}')
        tracks.counter("delivered", closed_s, delivered)


def _write_accuracy(tracks: TraceEvents, metrics: pd.DataFrame) -> None:
    """Write the accuracy of each learner over all data as a counter."""
    accuracy = metrics[(metrics["metric"] == "accuracy") & (metrics["group"] == "")]
    for learner, time_s, value in accuracy[["learner", "time_s", "value"]].itertuples(index=False, name=None):
        tracks.counter(f"accuracy of {learner}", time_s, value)


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
        if self.mode_name:
            facts["mode"] = self.mode_name
        if self.traffic:
            facts["traffic"] = self.traffic
        return json.dumps(facts, separators=(",", ":"))[1:-1]  # without its braces


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
    yield from heapq.merge(_ends(attempts), _rows(events), key=itemgetter(0))


def _rows(events: pd.DataFrame) -> Iterator[_Event]:
    """Yield the rows of the events table in the order of time and cause."""
    words = {"kind": str, "node": str, "detail": str, "traffic": str}
    columns = [name for name in _Event._fields if name != "attempt"]
    for row in sort_by_cause(events).astype(words)[columns].itertuples(index=False, name=None):
        yield _Event(*row)


def _ends(attempts: pd.DataFrame) -> Iterator[_Event]:
    """Yield the ends of attempts in the order of time."""
    attempts = attempts.sort_values("end_s", kind="stable")
    ends = attempts[["end_s", "user", "node", "round"]].itertuples(index=False, name=None)
    rows = attempts[[*_Attempt._fields]].itertuples(index=False, name=None)
    for (end_s, user, node, index), row in zip(ends, rows, strict=True):
        yield _Event(end_s, "ended", user, node, index, math.nan, "", attempt=_Attempt(*row))


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
        self._tracks = tracks
        self._opened_s = opened_s
        self._is_network = is_network
        self._restarts = restarts
        self._packets = packets
        self._has_attempts = has_attempts
        self._handlers: dict[str, Callable[[_Event], None]] = {
            **dict.fromkeys(OUTCOMES, self._end),
            "sent": self._send,
            "ended": self._end_attempt,
            "forwarded": self._forward,
            "failed": self._fail,
            "received": self._receive,
            "trained": self._trained,
            "queued": self._trained,
            "down": self._outage,
            "up": self._outage,
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
        user = self._of(event.user)
        base = int(event.value)
        user.received_s[base] = event.time_s
        if self._restarts:
            self._begin(user, base)

    def _begin(self, user: _User, base: int) -> None:
        """Begin an update from *base*, if that is new: it began when the user had the version and was free."""
        if base == user.base:
            return
        user.base = base
        user.waiting_s = None
        user.training_s = None  # not known, if the reception was not recorded
        if base in user.received_s:
            user.training_s = max(user.received_s[base], user.free_s)
        user.received_s = {later: at_s for later, at_s in user.received_s.items() if later > base}

    def _trained(self, event: _Event) -> None:
        """End a training; from now on the update waits to be sent."""
        user = self._of(event.user)
        self._begin(user, int(event.value))
        if user.training_s is not None:
            self._train(user, event.time_s, "training")
        if user.waiting_s is None:
            user.waiting_s = event.time_s

    def _train(self, user: _User, end_s: float, name: str) -> None:
        """Write the training that is under way, until *end_s*."""
        began_s = user.training_s or 0.0
        user.training_s = None
        mark = self._tracks.slice(user.track, name, began_s, end_s, f'"version":{user.base}')
        user.marks[user.base] = [mark]

    def _stop(self, user: _User, time_s: float, reason: str) -> None:
        """End what the user does with its update, training or waiting, for a *reason*."""
        if user.training_s is not None:
            self._train(user, time_s, _with_reason("training", reason))
        if user.waiting_s is not None:
            self._wait(user, time_s, reason)

    def _wait(self, user: _User, end_s: float, reason: str = "") -> None:
        """Write the waiting time until *end_s*, if it is any."""
        began_s = user.waiting_s or 0.0
        user.waiting_s = None
        if end_s > began_s:
            self._tracks.slice(user.track, _with_reason("waiting", reason), began_s, end_s, f'"version":{user.base}')

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
        name = _with_reason("sending", reason)
        mark = self._tracks.slice(user.track, name, attempt.start_s, end_s, attempt.details)
        label = _with_reason(user.track.name, reason)
        cell_mark = self._tracks.slice(Track("cells", attempt.node), label, attempt.start_s, end_s, attempt.details)
        if not reason and not attempt.traffic:  # arrows connect the attempts that succeeded
            user.marks.setdefault(attempt.base, []).extend((mark, cell_mark))

    def _end_attempt(self, event: _Event) -> None:
        """Write an attempt of the table; if it failed, an update that is still its user's newest waits again."""
        attempt = event.attempt
        assert attempt is not None
        user = self._of(event.user)
        is_received = attempt.outcome == "received"
        reason = "" if is_received else attempt.outcome
        self._sending(user, attempt, event.time_s, reason)
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
        link = Track("links", event.node)
        name = _with_reason(_sender(event), event.traffic)
        mark = self._tracks.slice(link, name, entered_s, event.time_s)
        user = self._users.get(event.user)
        if user is None or event.traffic:
            return
        if user.on_air and user.on_air[0].node == event.node and user.on_air[0].start_s < entered_s:
            user.free_s = entered_s  # the attempt succeeded, and ended as its update entered the port
            self._sending(user, user.on_air.pop(0), entered_s, "")
        if user.marks:
            user.marks[min(user.marks)].append(mark)  # of the oldest outstanding update

    def _end(self, event: _Event) -> None:
        """End an update, or a packet of traffic, whose *value* is its age."""
        if self._packets:
            track = Track("users", _sender(event))
            self._tracks.slice(track, event.kind, event.time_s - event.value, event.time_s)
            return
        user = self._of(event.user)
        time_s = event.time_s
        base = user.base if math.isnan(event.value) else int(event.value)
        if not self._is_network:
            began_s = time_s
            if event.round <= len(self._opened_s):
                began_s = self._opened_s[event.round - 1]
            user.marks[base] = [self._tracks.slice(user.track, event.kind, began_s, time_s)]
        elif base > user.base >= 0:
            self._begin(user, base)
        reason = ""  # why it did not reach the server
        if event.kind not in _AT_SERVER:
            reason = event.detail or event.kind
        if base == user.base and reason:
            self._stop(user, time_s, reason)
        ended = self._pop_ended(user, base)
        for attempt in ended:
            is_last = attempt is ended[-1]
            self._sending(user, attempt._replace(base=base), time_s, reason if is_last else "")
        if base == user.base and (ended or reason):
            user.free_s = time_s
        marks = user.marks.pop(base, None) or user.marks.pop(-1, [])
        if event.kind in _AT_SERVER:
            self._arrive(user, event, base, marks)

    def _pop_ended(self, user: _User, base: int) -> list[_Attempt]:
        """Remove and return the attempts that have ended with the update from *base*: its own and superseded ones."""
        ended = []
        on_air = []
        for attempt in user.on_air:
            is_of_update = attempt.base in {base, -1}
            is_superseded = attempt.base < base and not self._restarts
            if is_of_update or is_superseded:
                ended.append(attempt)
            else:
                on_air.append(attempt)
        user.on_air = on_air
        return ended

    def _arrive(self, user: _User, event: _Event, base: int, marks: list[Mark]) -> None:
        """Write the arrival of an update at the server, and arrows from the slices of its way, which have *marks*."""
        details = f'"version":{base}' if base >= 0 else ""
        name = user.track.name
        if event.kind != "delivered":
            name = f"{name}, {event.kind}"
        arrivals = Track("server", "arrivals")
        marks.append(self._tracks.slice(arrivals, name, event.time_s, event.time_s, details))
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
        if not event.node:  # a user is down or up, not a node or a link
            self._users_down += 1 if event.kind == "down" else -1
            self._tracks.counter("users down", event.time_s, self._users_down)


def _with_reason(name: str, reason: str) -> str:
    """Return the name of a slice with the reason or the traffic that it belongs to, if there is any."""
    if reason:
        return f"{name}, {reason}"
    return name


def _sender(event: _Event) -> str:
    """Return the name of the sender of a packet; without a user it is other traffic."""
    if event.user < 0:
        return "traffic"
    return f"user {event.user}"
