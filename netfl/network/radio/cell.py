"""A cell: one tower, its users, and the medium that they share; the view that a MAC has of the network.

A MAC lets users send by `Cell.attempt`.  What they send comes from a `TxQueue`; the `Medium` decides what is received;
received messages go to the uplink of the cell, the first port on the way to the server (`netfl.network.backhaul.port`).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import simpy
from numpy.typing import ArrayLike, NDArray

from netfl.network.clock import call_after
from netfl.network.layout import NodeId
from netfl.network.message import Message
from netfl.network.radio.medium import Medium
from netfl.network.radio.transmission import SharedChannel, Transmission
from netfl.network.radio.tx_queue import ChangeNotifier, TxQueue, Users
from netfl.streams import Streams


@dataclass(frozen=True, slots=True)
class AirInterface:
    """Air interface of a tower.

    Args:
        tower: Name and node number of the tower.
        medium: Model of the medium.
        channel: Air in which transmissions interfere; cells that share their channels share it.
    """

    tower: NodeId
    medium: Medium
    channel: SharedChannel


@dataclass(slots=True)
class _Attempt:
    """Frames that users put on the air at one instant; values are one for all, or one for each, ``[n]``.

    Args:
        users: The senders, by their numbers in the cell.
        ids: The same in the network.
        places: Their places among the users whom the MAC asked to send.
        limit: Number of attempts that a frame has.
        start_s: Start.
        airtime_from_s: Time from which on airtimes count: the start, but for rounding.
        channel: Channel.
        mode: Mode of the reception.
        delay_s: Propagation delay; ``None`` where it is negligible.
        duration_s: Airtime.
    """

    users: Users
    ids: Users
    places: Sequence[int]
    limit: int | None
    start_s: float
    airtime_from_s: float
    channel: Any
    mode: Any
    delay_s: Any
    duration_s: Any

    def split(self) -> Iterator[_Attempt]:
        """Yield groups of users with equal values, the first to end first."""
        is_uniform = isinstance(self.duration_s, float) and isinstance(self.channel, int) and isinstance(self.mode, int)
        if self.delay_s is None and is_uniform:
            self.delay_s = 0.0
            yield self
            return
        columns = (self.channel, self.mode, 0.0 if self.delay_s is None else self.delay_s, self.duration_s)
        rows = np.column_stack([np.broadcast_to(np.asarray(column, float), len(self.users)) for column in columns])
        groups, group_of = np.unique(rows, axis=0, return_inverse=True)
        for group in np.argsort(groups[:, 2] + groups[:, 3], kind="stable"):
            chosen = np.flatnonzero(group_of.ravel() == group)
            channel, mode, delay_s, duration_s = groups[group].tolist()
            yield replace(
                self,
                users=self.users[chosen],
                ids=self.ids[chosen],
                places=[self.places[index] for index in chosen.tolist()],
                channel=int(channel),
                mode=int(mode),
                delay_s=delay_s,
                duration_s=duration_s,
            )


def _select(values: ArrayLike, count: int, places: Sequence[int]) -> ArrayLike:
    """Return the values, one for each of *count*, of those in *places*; one value for all stays one."""
    return values if len(places) == count or np.ndim(values) == 0 else np.asarray(values)[list(places)]


class Cell:
    """The users of one tower and their medium, numbered from 0; `ids` are their numbers in the network.

    The backlog: user i has a frame to send from ``ready_s[i]`` on, which may lie ahead, as the end of a training is
    known at its start; infinity without a frame.

    Args:
        env: SimPy environment.
        air: Air interface of the tower.
        queue: Frames of the users.
        streams: Random streams of the MAC in this cell.
        uplink: Takes the messages that were received, at the end of their airtime.

    Attributes:
        attempts: Number of frames that were on the air and have ended.
        failed: Number of them that were not received, by cause.
        quiet: Whether the cell changes only by what its MAC does.
        user_metrics: Metrics of the users for the MAC, by name, ``[size]`` each; NaN where unknown.
        busy_s: Time during which any user was on the air, up to the last time that all fell silent.
    """

    def __init__(
        self,
        env: simpy.Environment,
        air: AirInterface,
        queue: TxQueue,
        streams: Streams,
        uplink: Callable[[Message], None],
    ) -> None:
        self.env, self.streams, self.tower = env, streams, air.tower
        self.ids, self.size = queue.ids, len(queue.ids)
        self.user_metrics: Mapping[str, NDArray[np.float64]] = {}
        self._queue, self._medium, self._channel, self._uplink = queue, air.medium, air.channel, uplink
        self._transmissions: dict[Transmission, None] = {}
        self.quiet = queue.quiet and self._medium.steady
        self._changes = ChangeNotifier(env, quiet=self.quiet)
        self._notify = self._changes.add
        self._notify(np.flatnonzero(np.isfinite(queue.ready_s)))
        self.attempts, self.failed = 0, dict.fromkeys(("collided", "faded", "lost"), 0)
        self.busy_s = self._busy_since_s = 0.0

    @property
    def ready_s(self) -> NDArray[np.float64]:
        """Time from which each user has a frame to send, ``[size]``; infinity without one.  Do not write to it."""
        return self._queue.ready_s

    @property
    def airtime_s(self) -> float:
        """Longest airtime of a frame: that of the largest, in the slowest mode."""
        return self._medium.longest_s(self._queue.max_bits)

    def airtimes_s(self, users: Users) -> NDArray[np.float64]:
        """Return the airtime of the next frame of each of *users* if it were sent now, ``[n]``."""
        bits = np.broadcast_to(self._queue.bits(users), len(users))
        return np.array([self._medium.airtime_s(*row) for row in zip(bits, self.modes(users).tolist(), strict=True)])

    def modes(self, users: Users) -> NDArray[np.int64]:
        """Return the mode of the reception in which each of *users* would send now, ``[n]``."""
        return self._medium.choose(self.ids[users], self.tower, self.env.now)

    def snr_db(self, users: Users) -> NDArray[np.float64]:
        """Return the present SNR of each of *users* at the tower, ``[n]``: what a scheduler measures."""
        return self._medium.snr_db(self.ids[users], self.tower, self.env.now)

    def connected(self, users: Users) -> NDArray[np.bool_]:
        """Return whether each of *users* and the tower are up now, ``[n]``."""
        if self._medium.steady:
            return np.ones(len(users), np.bool_)
        return self._medium.connected(self.ids[users], self.tower.number, self.env.now)

    def backlog(self) -> Users:
        """Return the users that have a frame to send now and are not sending."""
        self._queue.refresh(self.env.now)
        return np.flatnonzero(self._idle_from_s() <= self.env.now)

    def work(self) -> simpy.Event:
        """Return an event that fires as soon as there is a backlog, at once if there is one."""
        return self.env.process(self._until_backlog())

    @property
    def max_bits(self) -> float:
        """Size of the largest frame."""
        return self._queue.max_bits

    def sizes(self, users: Users) -> Sequence[float]:
        """Return the sizes of the next frames of *users*; a single one where all are equal."""
        bits = self._queue.bits(users)
        return (bits,) if isinstance(bits, float) else bits.tolist()

    def drop_disconnected(self, users: list[int]) -> list[int]:
        """Return those of *users* who can send now, and defer the others until they can."""
        if self._medium.steady:
            return users
        numbers = np.asarray(users, np.int64)
        return [int(user) for user in numbers[self._defer_disconnected(numbers, self.env.now)]]

    @property
    def changed(self) -> bool:
        """True if there are `changes`."""
        return bool(self._changes)

    def changes(self) -> Users:
        """Return the users with a new ``ready_s`` or a failed attempt since the last call; some may occur twice."""
        return self._changes.take()

    def wait_for_change(self, by_s: float = np.inf) -> simpy.Event:
        """Return an event that fires when there are `changes`, at once if there are any, at *by_s* at the latest."""
        return self._changes.wait(by_s)

    def wake(self, users: Users) -> None:
        """Report changed frames of *users* to the MAC; for those on the air it learns of them at the end."""
        self._notify(users[~self._queue.on_air[users]])

    def attempt(
        self,
        users: Users | Sequence[int],
        *,
        duration_s: ArrayLike | None = None,
        limit: int | None = None,
        channel: ArrayLike = 0,
        mode: ArrayLike | None = None,
        begin_s: float = 0.0,
    ) -> simpy.Event:
        """Let *users* send; return an event that fires at the end with whether each frame was received, ``[n]``.

        Attempts may overlap: a MAC need not wait for one before it begins the next.  Transmissions that overlap on the
        same channel interfere, and the medium decides which are received.  One without interference is lost if the user
        or the tower goes down before its end, and faded if its SNR is too low.  A user that is disconnected at the
        start, as itself or the tower is down, notices it: it sends nothing, does not interfere, and has its ``ready_s``
        moved to the end of that outage.

        Args:
            users: The senders, which must be in the backlog.
            duration_s: Airtime, one for all or one for each; by default that of each frame in its mode.
            limit: Number of attempts that a frame has before it is given up; by default no limit.
            channel: Channel, one for all or one for each.
            mode: Mode of the reception, one for all or one for each; by default each sender chooses.
            begin_s: Start; 0 for now.  It may lie ahead in a `quiet` cell only, where nothing can come in between.
                Where the clock has missed it by rounding, airtimes end as if it were met, so that rounding does not
                add up.
        """
        users, now = np.asarray(users, np.int64), max(begin_s, self.env.now)
        received = np.zeros(len(users), np.bool_)
        self._queue.refresh(now)
        connected = None if self._medium.steady else self._defer_disconnected(users, now)
        places: Sequence[int] = range(len(users))
        senders = users
        if connected is not None and not connected.all():
            places = np.flatnonzero(connected).tolist()
            if not places:
                return self.env.timeout(float(np.max(self.airtime_s if duration_s is None else duration_s)), received)
            senders = users[places]
        ids = self.ids[senders]
        delay_s = self._medium.delay_s(ids, now)
        if mode is None:
            mode = 0 if self._medium.modes == 1 else self._medium.choose(ids, self.tower, now)
        elif not isinstance(mode, int):
            mode = _select(mode, len(users), places)
        if duration_s is None:
            duration_s = self._frame_airtimes_s(senders, mode)
        elif not isinstance(duration_s, float):
            duration_s = _select(duration_s, len(users), places)
        if not isinstance(channel, int):
            channel = _select(channel, len(users), places)
        attempt = _Attempt(senders, ids, places, limit, now, begin_s or now, channel, mode, delay_s, duration_s)
        end: simpy.Event | None = None
        for group in attempt.split():
            transmission = self._launch(group)
            if not self._transmissions:
                self._busy_since_s = now
            self._transmissions[transmission] = None
            self._channel.enter(transmission)
            wait_s = max(0.0, transmission.end_s - self.env.now)
            end = call_after(self.env, wait_s, partial(self._end_transmission, transmission), received)
        assert end is not None
        return end

    def finish(self, others: Sequence[Transmission] = ()) -> None:
        """End all frames at the end of the run; *others* are the `transmissions` of cells that share the queue."""
        self._queue.finish(self.env.now, [transmission.frames for transmission in (*others, *self._transmissions)])

    @property
    def transmissions(self) -> Sequence[Transmission]:
        """Transmissions on the air."""
        return tuple(self._transmissions)

    def restart(self) -> None:
        """Reset all counters, as the warm-up is over."""
        self.attempts, self.failed = 0, dict.fromkeys(self.failed, 0)
        self.busy_s, self._busy_since_s = 0.0, max(self.env.now, self._busy_since_s)

    def busy_by_s(self, now_s: float) -> float:
        """Return the time during which any user was on the air since the last `restart`."""
        return self.busy_s + (max(0.0, now_s - self._busy_since_s) if self._transmissions else 0.0)

    def _until_backlog(self) -> Generator[simpy.Event, Any, None]:
        while not self.backlog().size:
            self.changes()  # a MAC that waits for work does not ask for changes
            yield self.wait_for_change(self._idle_from_s().min())

    def _idle_from_s(self) -> NDArray[np.float64]:
        """Time from which each user has a frame to send, ``[size]``; infinity for those who are sending."""
        return np.where(self._queue.on_air, np.inf, self.ready_s)

    def _defer_disconnected(self, users: Users, now: float) -> NDArray[np.bool_]:
        """Return whether each of *users* can send now; if any cannot, defer all of the backlog who cannot."""
        connected = self._medium.connected(self.ids[users], self.tower.number, now)
        if not connected.all():
            backlog = np.union1d(self.backlog(), users)  # a user ready at this instant may be so a rounding step later
            away = backlog[~self._medium.connected(self.ids[backlog], self.tower.number, now)]
            self._queue.defer(away, self._medium.connected_from(self.ids[away], self.tower.number, now))
            self._notify(away)
        return connected

    def _frame_airtimes_s(self, users: Users, mode: ArrayLike) -> float | NDArray[np.float64]:
        bits = self._queue.bits(users)
        if isinstance(bits, float) and isinstance(mode, int):
            return self._medium.airtime_s(bits, mode)
        count = len(users)
        rows = zip(np.broadcast_to(bits, count).tolist(), np.broadcast_to(mode, count).tolist(), strict=True)
        return np.array([self._medium.airtime_s(*row) for row in rows])

    def _launch(self, group: _Attempt) -> Transmission:
        medium, ids, delay_s = self._medium, group.ids, group.delay_s
        frames = self._queue.launch(group.users, group.start_s)
        sent_s = group.airtime_from_s + group.duration_s
        start_s, end_s = group.start_s + delay_s, group.airtime_from_s + delay_s + group.duration_s
        interrupted = None
        if not medium.steady:
            medium.spend(ids, group.start_s, frames.bits)
            interrupted = medium.interrupted(ids, self.tower.number, group.start_s, sent_s, end_s)
        if medium.energy is not None:
            medium.energy.send(ids, group.duration_s)
        return Transmission(
            frames, ids, group.places, self.tower, group.channel, start_s, end_s, group.mode, group.limit, interrupted
        )

    def _end_transmission(self, transmission: Transmission, event: simpy.Event) -> None:
        """Pass on received frames at the end of their airtime, and let the queue retry or end the others."""
        del self._transmissions[transmission]
        now, frames = self.env.now, transmission.frames
        self._channel.leave(transmission)
        if not self._transmissions:
            self.busy_s += now - self._busy_since_s
        causes, snr_db = self._medium.outcomes(transmission)
        received: NDArray[np.bool_] = event.value  # type: ignore[assignment]
        self.attempts += len(causes)
        for place, cause in zip(transmission.places, causes, strict=True):
            if cause:
                self.failed[cause] += 1
            else:
                received[place] = True
        retrying = self._queue.retrying(frames)
        for message in self._queue.end(frames, causes, snr_db, transmission.limit, now):
            self._uplink(message)
        self._notify(retrying)
