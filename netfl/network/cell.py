"""A cell: one tower, its users, and the medium that they share; it is what a MAC sees of the world."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import simpy
from numpy.typing import NDArray

from netfl.network.clock import call_after
from netfl.network.ledger import Ledger
from netfl.network.medium import Medium
from netfl.network.message import Message
from netfl.network.updates import Updates, Users
from netfl.streams import Streams


@dataclass(frozen=True, slots=True, eq=False)
class _Flight:
    """Transmissions that share one airtime, with all that must be known of their updates when it ends."""

    users: Users
    base: NDArray[np.int64]
    sent_s: NDArray[np.float64]
    attempts: NDArray[np.int64]
    cause: str
    snr_db: float
    limit: int | None


class Cell:
    """The users of one tower and their medium.  Users are numbered 0 … size-1 here; `ids` are their numbers outside.

    The backlog: user i has an update to send from ``ready_s[i]`` on, which may lie ahead, as it is known when a
    user will have finished its training; infinity if there is none.

    Args:
        env: the clock.
        tower: name and node number of the tower.
        updates: the cell's users.
        medium: what the air does.
        streams: for the MAC's draws in this cell.
        ledger: where events and fates go.
        uplink: what takes the updates that got through, at the end of their airtime.
    """

    def __init__(  # noqa: PLR0913 - a cell joins these
        self,
        env: simpy.Environment,
        tower: tuple[str, int],
        updates: Updates,
        *,
        medium: Medium,
        streams: Streams,
        ledger: Ledger,
        uplink: Callable[[Message], None],
    ) -> None:
        self.env, self.streams = env, streams
        self.ids, self.size, self.airtime_s = updates.ids, len(updates.ids), medium.airtime_s
        self._tower, self._node = tower
        self._updates, self._medium, self._ledger, self._uplink = updates, medium, ledger, uplink
        self._coming: dict[int, float] = {}
        self._flights: dict[_Flight, None] = {}
        self._changed: list[Users] = []
        self._bell = env.event()

    @property
    def ready_s(self) -> NDArray[np.float64]:
        """From when on each user has something to send, ``[size]``; infinity if nothing.  Look, do not write."""
        return self._updates.ready_s

    def backlog(self) -> Users:
        """The users that have something to send now and are not sending."""
        return np.flatnonzero(self._idle_from_s() <= self.env.now)

    def work(self) -> simpy.Event:
        """An event that fires as soon as there is a backlog; at once if there is."""
        return self.env.process(self._until_backlog())

    def changes(self) -> Users:
        """The users whose ``ready_s`` is new, or who have to try again, since the last call; some perhaps twice."""
        changed, self._changed = self._changed, []
        return changed[0] if len(changed) == 1 else np.concatenate([np.empty(0, np.int64), *changed])

    def change(self, by_s: float = np.inf) -> simpy.Event:
        """An event that fires when there are `changes`, and at *by_s* at the latest; at once if there are."""
        if self._changed:
            return self.env.timeout(0)
        if self._bell.triggered:
            self._bell = self.env.event()
        if np.isinf(by_s):
            return self._bell
        return self._bell | self.env.timeout(max(0.0, float(by_s) - self.env.now))

    def attempt(self, users: Users, *, duration_s: float | None = None, limit: int | None = None) -> simpy.Event:
        """Let *users* send at once: an event that fires at the end, with whether each was received, ``[n]``.

        Two or more collide, and none is received.  One alone is lost if it or the tower goes down before it ends, or
        faded if its SNR is too low.  A user that is cut off at the start (itself or the tower is down) notices: it
        sends nothing, disturbs nobody, and has its ``ready_s`` moved to the end of that.

        Args:
            users: who sends; they must be in the backlog.
            duration_s: how long; one update's airtime if not given.
            limit: how many attempts an update has, after which it is given up; no limit if not given.
        """
        now = self.env.now
        duration_s = self.airtime_s if duration_s is None else duration_s
        self._updates.receive(now)
        senders = users[self._connected(users, now)]
        heard = np.zeros(len(users), np.bool_)
        if not senders.size:
            return self.env.timeout(duration_s, heard)
        flight = self._launch(senders, now, duration_s, limit)
        heard[users == senders[0]] = not flight.cause
        return call_after(self.env, duration_s, partial(self._land, flight), heard)

    def expect(self, version: int, at_s: float) -> None:
        """The tower will have *version* at *at_s*; older ones that would come no sooner are not heard any more."""
        self._coming = {older: due_s for older, due_s in self._coming.items() if due_s < at_s}
        self._coming[version] = at_s
        call_after(self.env, at_s - self.env.now, lambda _: self._hear(version))

    def tell(self) -> None:
        """Record what has come about up to now without anybody looking."""
        self._updates.tell(self.env.now)

    def finish(self) -> None:
        """The run ends: so do all updates that have not left the cell."""
        now = self.env.now
        for flight in self._flights:
            left = ~self._still(flight)
            self._ledger.end("unfinished", now, self.ids[flight.users[left]], flight.base[left], node=self._tower)
        self._updates.finish(now)

    def _until_backlog(self) -> Generator[simpy.Event, Any, None]:
        """Wait until somebody has something to send."""
        while not self.backlog().size:
            self._changed.clear()
            yield self.change(self._idle_from_s().min())

    def _idle_from_s(self) -> NDArray[np.float64]:
        """From when on each user has something to send, ``[size]``; infinity for those who are sending."""
        return np.where(self._updates.on_air, np.inf, self.ready_s)

    def _hear(self, version: int) -> None:
        """The tower has a new version and hands it on."""
        if self._coming.pop(version, None) is None:
            return
        now = self.env.now
        due_s = np.full(self.size, now)
        away = np.flatnonzero(~self._medium.connected(self.ids, self._node, now))
        due_s[away] = self._medium.connected_from(self.ids[away], self._node, now)
        self._updates.hear(version, due_s, now)
        self._note(np.arange(self.size))

    def _connected(self, users: Users, now: float) -> NDArray[np.bool_]:
        """Whether each of *users* can send now; if one cannot, all of the backlog who cannot wait until they can."""
        connected = self._medium.connected(self.ids[users], self._node, now)
        if not connected.all():
            backlog = self.backlog()
            away = backlog[~self._medium.connected(self.ids[backlog], self._node, now)]
            self._updates.defer(away, self._medium.connected_from(self.ids[away], self._node, now))
            self._note(away)
        return connected

    def _launch(self, users: Users, now: float, duration_s: float, limit: int | None) -> _Flight:
        """Put *users* on the air; what comes of it is settled already, but not known before it ends."""
        up = self._updates
        up.on_air[users] = True
        up.attempts[users] += 1
        up.sent_s[users] = np.fmin(up.sent_s[users], now)
        bits = self._medium.bits
        self._ledger.uplink_bits += bits * len(users)
        self._ledger.event("sent", now, user=self.ids[users], node=self._tower, value=bits)
        if len(users) > 1:
            cause, snr_db = "collided", np.nan
        else:
            cause, snr_db = self._medium.failure(int(self.ids[users[0]]), self._node, now, now + duration_s)
        flight = _Flight(users, up.base[users], up.sent_s[users], up.attempts[users], cause, snr_db, limit)
        self._flights[flight] = None
        return flight

    def _land(self, flight: _Flight, event: simpy.Event) -> None:
        """An airtime ends: what was received goes on to the server, what was not is tried again or ends."""
        del self._flights[flight]
        still = self._still(flight)
        users = flight.users[still]
        self._updates.on_air[users] = False
        if flight.cause:
            self._fail(flight, still)
        else:
            self._updates.close(users)
            user, base = int(self.ids[flight.users[0]]), int(flight.base[0])
            message = Message(user, base, self._medium.bits, float(flight.sent_s[0]), int(flight.attempts[0]))
            self._ledger.flying[message] = None
            self._uplink(message)
        self._note(users)

    def _fail(self, flight: _Flight, still: NDArray[np.bool_]) -> None:
        """A failed attempt: the update has been abandoned meanwhile, or was its last, or there will be another."""
        now, cause, ids = self.env.now, flight.cause, self.ids[flight.users]
        self._ledger.end("superseded", now, ids[~still], flight.base[~still], node=self._tower)
        over = still & (flight.attempts >= (flight.limit or np.inf))
        fate, detail = (cause, "") if flight.limit == 1 else ("given_up", cause)
        self._updates.close(flight.users[over])
        self._ledger.end(fate, now, ids[over], flight.base[over], node=self._tower, detail=detail)
        again = still & ~over
        if again.any() and self._ledger.wants("failed"):
            told = {"user": ids[again], "node": self._tower, "value": flight.snr_db, "detail": cause}
            self._ledger.event("failed", now, **told)

    def _still(self, flight: _Flight) -> NDArray[np.bool_]:
        """Which users of *flight* are still at the update that they sent."""
        users = flight.users
        return np.asarray(self._updates.on_air[users] & (self._updates.base[users] == flight.base))

    def _note(self, users: Users) -> None:
        """Tell the MAC that the entries of *users* have changed."""
        if users.size:
            self._changed.append(users)
            if not self._bell.triggered:
                self._bell.succeed()
