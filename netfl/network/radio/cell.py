"""A cell: one tower, its users, and the medium that they share; it is what a MAC sees of the world."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import simpy
from numpy.typing import ArrayLike, NDArray

from netfl.network.clock import call_after
from netfl.network.message import Message
from netfl.network.radio.medium import Medium
from netfl.network.radio.transmission import SharedChannel, Transmission
from netfl.network.radio.tx_queue import ChangeNotifier, TxQueue, Users
from netfl.streams import Streams

# How frames are put on the air: in flights of what is alike.


How = tuple[ArrayLike | None, ArrayLike, ArrayLike | None]
"""Duration, channel and mode, each one for all or one for each; duration and mode may be left to the medium."""


def start_transmissions(
    load: TxQueue,
    medium: Medium,
    tower: tuple[str, int],
    who: tuple[Users, Sequence[int]],
    how: How,
    limit: int | None,
    when_s: tuple[float, float],
) -> Sequence[Transmission]:
    """Put the first frames of some users on the air: in one flight or, where they differ, the first to end first.

    Args:
        load: what they have to send.
        medium: what the air does.
        tower: name and node number of the tower.
        who: those who were asked to send, and the places among them of those who do.
        how: duration, channel and mode.
        limit: attempts that a frame has.
        when_s: when they begin, and from when on their airtimes count.
    """
    (asked, places), (duration_s, channel, mode), (now_s, _) = who, how, when_s
    users = asked if len(places) == len(asked) else asked[list(places)]
    ids = load.ids[users]
    delay_s = medium.delay_s(ids, now_s)
    if mode is None:
        mode = 0 if medium.modes == 1 else medium.choose(ids, tower, now_s)
    elif not isinstance(mode, int):
        mode = _of(mode, len(asked), places)
    if duration_s is None:
        duration_s = _airtimes_s(load, medium, users, mode)
    elif not isinstance(duration_s, float):
        duration_s = _of(duration_s, len(asked), places)
    if not isinstance(channel, int):
        channel = _of(channel, len(asked), places)
    if delay_s is None and isinstance(duration_s, float) and isinstance(channel, int) and isinstance(mode, int):
        return (_flight(load, medium, tower, (users, ids, places), (channel, mode, 0.0, duration_s), limit, when_s),)
    told = (channel, mode, 0.0 if delay_s is None else delay_s, duration_s)
    rows = np.column_stack([np.broadcast_to(np.asarray(each, float), len(users)) for each in told])
    kinds, which = np.unique(rows, axis=0, return_inverse=True)
    flights = []
    for kind in np.argsort(kinds[:, 2] + kinds[:, 3], kind="stable"):
        chosen = np.flatnonzero(which.ravel() == kind)
        alike = (int(kinds[kind, 0]), int(kinds[kind, 1]), float(kinds[kind, 2]), float(kinds[kind, 3]))
        some = users[chosen], ids[chosen], [places[one] for one in chosen.tolist()]
        flights.append(_flight(load, medium, tower, some, alike, limit, when_s))
    return flights


def _of(told: ArrayLike, count: int, places: Sequence[int]) -> ArrayLike:
    """What was said for each of *count*, for those in *places* only; one figure for all stays one."""
    return told if len(places) == count or np.ndim(told) == 0 else np.asarray(told)[list(places)]


def _airtimes_s(load: TxQueue, medium: Medium, users: Users, mode: ArrayLike) -> float | NDArray[np.float64]:
    """The airtimes of the next frames."""
    bits = load.bits(users)
    if isinstance(bits, float) and isinstance(mode, int):
        return medium.airtime_s(bits, mode)
    rows = zip(np.broadcast_to(bits, len(users)).tolist(), np.broadcast_to(mode, len(users)).tolist(), strict=True)
    return np.array([medium.airtime_s(*row) for row in rows])


def _flight(
    load: TxQueue,
    medium: Medium,
    tower: tuple[str, int],
    who: tuple[Users, Users, Sequence[int]],
    alike: tuple[int, int, float, float],
    limit: int | None,
    when_s: tuple[float, float],
) -> Transmission:
    """Put some users on the air together: *who* are they in the cell, and in the network, and at which places."""
    (users, ids, places), (channel, mode, delay_s, duration_s), (now_s, from_s) = who, alike, when_s
    frames = load.launch(users, now_s)
    start_s, end_s, cut = now_s + delay_s, from_s + delay_s + duration_s, None
    if not medium.steady:
        medium.spend(ids, now_s, frames.bits)
        cut = medium.cut(ids, tower[1], now_s, from_s + duration_s, end_s)
    if medium.spending is not None:
        medium.spending.send(ids, duration_s)
    return Transmission(frames, ids, places, tower, channel, start_s, end_s, mode, limit, cut)


class Cell:
    """The users of one tower and their medium.  Users are numbered 0 … size-1 here; `ids` are their numbers outside.

    The backlog: user i has a frame to send from ``ready_s[i]`` on, which may lie ahead, as it is known when a
    user will have finished its training; infinity if there is none.

    Args:
        env: the clock.
        tower: name and node number of the tower.
        load: what the cell's users have to send.
        medium: what the air does.
        ether: where transmissions meet; cells with the same channels share one.
        streams: for the MAC's draws in this cell.
        uplink: what takes the messages that got through, at the end of their airtime.

    Attributes:
        attempts: frames that were put on the air and have ended.
        failed: those of them that were not received, by cause.
        quiet: whether nothing changes in it but by what its MAC does.
        told: figures of the users that the MAC goes by, by name, ``[size]`` each; NaN where unknown.
        busy_s: for how long any of the users were on the air, up to the last time that they all fell silent.
    """

    def __init__(
        self,
        env: simpy.Environment,
        tower: tuple[str, int],
        load: TxQueue,
        *,
        medium: Medium,
        ether: SharedChannel,
        streams: Streams,
        uplink: Callable[[Message], None],
    ) -> None:
        self.env, self.streams = env, streams
        self.ids, self.size = load.ids, len(load.ids)
        self.told: Mapping[str, NDArray[np.float64]] = {}
        self._tower, self._load, self._medium, self._ether, self._uplink = tower, load, medium, ether, uplink
        self._flights: dict[Transmission, None] = {}
        self.quiet = load.quiet and medium.steady
        self._news = ChangeNotifier(env, quiet=self.quiet)
        self._note = self._news.add
        self._note(np.flatnonzero(np.isfinite(load.ready_s)))
        self.attempts, self.failed = 0, dict.fromkeys(("collided", "faded", "lost"), 0)
        self.busy_s = self._busy_since_s = 0.0

    @property
    def ready_s(self) -> NDArray[np.float64]:
        """From when on each user has something to send, ``[size]``; infinity if nothing.  Look, do not write."""
        return self._load.ready_s

    @property
    def airtime_s(self) -> float:
        """The longest that a frame can be on the air: the largest, in the slowest mode."""
        return self._medium.longest_s(self._load.most_bits)

    def airtimes_s(self, users: Users) -> NDArray[np.float64]:
        """How long the next frame of each of *users* would be on the air if it were sent now, ``[n]``."""
        bits = np.broadcast_to(self._load.bits(users), len(users))
        return np.array([self._medium.airtime_s(*each) for each in zip(bits, self.modes(users).tolist(), strict=True)])

    def modes(self, users: Users) -> NDArray[np.int64]:
        """The mode of the reception that each of *users* would send in now, ``[n]``."""
        return self._medium.choose(self.ids[users], self._tower, self.env.now)

    def snr_db(self, users: Users) -> NDArray[np.float64]:
        """The SNR at which the tower would hear each of *users* now, ``[n]``: what a scheduler measures."""
        return self._medium.snr_db(self.ids[users], self._tower, self.env.now)

    def connected(self, users: Users) -> NDArray[np.bool_]:
        """Whether each of *users* and the tower are up now, ``[n]``."""
        if self._medium.steady:
            return np.ones(len(users), np.bool_)
        return self._medium.connected(self.ids[users], self._tower[1], self.env.now)

    def backlog(self) -> Users:
        """The users that have something to send now and are not sending."""
        self._load.refresh(self.env.now)
        return np.flatnonzero(self._idle_from_s() <= self.env.now)

    def work(self) -> simpy.Event:
        """An event that fires as soon as there is a backlog; at once if there is."""
        return self.env.process(self._until_backlog())

    @property
    def most_bits(self) -> float:
        """The size of the largest frame that there can be."""
        return self._load.most_bits

    def sizes(self, users: Users) -> Sequence[float]:
        """How large the next frames of *users* are; each size once where all are alike."""
        bits = self._load.bits(users)
        return (bits,) if isinstance(bits, float) else bits.tolist()

    def present(self, users: list[int]) -> list[int]:
        """Those of *users* who can send now; the others are put off until they can."""
        if self._medium.steady:
            return users
        numbers = np.asarray(users, np.int64)
        return [int(user) for user in numbers[self._connected(numbers, self.env.now)]]

    @property
    def changed(self) -> bool:
        """Whether there are `changes`."""
        return bool(self._news)

    def changes(self) -> Users:
        """The users whose ``ready_s`` is new, or who have to try again, since the last call; some perhaps twice."""
        return self._news.take()

    def change(self, by_s: float = np.inf) -> simpy.Event:
        """An event that fires when there are `changes`, and at *by_s* at the latest; at once if there are."""
        return self._news.wait(by_s)

    def wake(self, users: Users) -> None:
        """Tell the MAC of *users* whose entries have changed; of those on the air it is told when that ends."""
        self._note(users[~self._load.on_air[users]])

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
        """Let *users* send: an event that fires at the end, with whether each was received, ``[n]``.

        Attempts may overlap: a MAC need not wait for one before it begins the next.  Whatever is on the same channel at
        the same time meets; what becomes of those who meet is said by the medium.  One that meets nobody is lost if it
        or the tower goes down before it ends, or faded if its SNR is too low.  A user that is cut off at the start
        (itself or the tower is down) notices: it sends nothing, disturbs nobody, and has its ``ready_s`` moved to the
        end of that.

        Args:
            users: who sends; they must be in the backlog.
            duration_s: how long, one figure or one for each; if not given, each frame's own airtime in its mode.
            limit: how many attempts a frame has, after which it is given up; no limit if not given.
            channel: the channel, one for all or one for each.
            mode: the mode of the reception, one for all or one for each; if not given, each sender chooses.
            begin_s: when they begin; 0 for now.  It lies ahead in a `quiet` cell only, where nothing can come in
                between.  Where it lies behind, as the clock has missed it by rounding, airtimes end as if it were met,
                so that the rounding of those in a row does not add up.
        """
        users, now = np.asarray(users, np.int64), max(begin_s, self.env.now)
        heard = np.zeros(len(users), np.bool_)
        self._load.refresh(now)
        connected = None if self._medium.steady else self._connected(users, now)
        places: Sequence[int] = range(len(users))
        if connected is not None and not connected.all():
            places = np.flatnonzero(connected).tolist()
            if not places:
                return self.env.timeout(float(np.max(self.airtime_s if duration_s is None else duration_s)), heard)
        end: simpy.Event | None = None
        how, when_s = (duration_s, channel, mode), (now, begin_s or now)
        for flight in start_transmissions(self._load, self._medium, self._tower, (users, places), how, limit, when_s):
            if not self._flights:
                self._busy_since_s = now
            self._flights[flight] = None
            self._ether.enter(flight)
            wait_s = max(0.0, flight.end_s - self.env.now)
            end = call_after(self.env, wait_s, partial(self._land, flight), heard)
        assert end is not None
        return end

    def finish(self) -> None:
        """The run ends: so does all that has not left the cell."""
        self._load.finish(self.env.now, [flight.frames for flight in self._flights])

    def restart(self) -> None:
        """Count from now on."""
        self.attempts, self.failed = 0, dict.fromkeys(self.failed, 0)
        self.busy_s, self._busy_since_s = 0.0, max(self.env.now, self._busy_since_s)

    def busy_by_s(self, now: float) -> float:
        """For how long the cell's users have been on the air since the last `restart`."""
        return self.busy_s + (max(0.0, now - self._busy_since_s) if self._flights else 0.0)

    def _until_backlog(self) -> Generator[simpy.Event, Any, None]:
        """Wait until somebody has something to send."""
        while not self.backlog().size:
            self.changes()  # who waits for work does not ask what has changed
            yield self.change(self._idle_from_s().min())

    def _idle_from_s(self) -> NDArray[np.float64]:
        """From when on each user has something to send, ``[size]``; infinity for those who are sending."""
        return np.where(self._load.on_air, np.inf, self.ready_s)

    def _connected(self, users: Users, now: float) -> NDArray[np.bool_]:
        """Whether each of *users* can send now; if one cannot, all of the backlog who cannot wait until they can."""
        connected = self._medium.connected(self.ids[users], self._tower[1], now)
        if not connected.all():
            backlog = np.union1d(self.backlog(), users)  # who is ready at this instant may be by rounding a step later
            away = backlog[~self._medium.connected(self.ids[backlog], self._tower[1], now)]
            self._load.defer(away, self._medium.connected_from(self.ids[away], self._tower[1], now))
            self._note(away)
        return connected

    def _land(self, flight: Transmission, event: simpy.Event) -> None:
        """An airtime ends: what was received goes on to the server, what was not is tried again or ends."""
        del self._flights[flight]
        now, frames = self.env.now, flight.frames
        self._ether.leave(flight)
        if not self._flights:
            self.busy_s += now - self._busy_since_s
        causes, snr_db = self._medium.judge(flight)
        heard: NDArray[np.bool_] = event.value  # type: ignore[assignment]
        self.attempts += len(causes)
        for place, cause in zip(flight.places, causes, strict=True):
            if cause:
                self.failed[cause] += 1
            else:
                heard[place] = True
        still = self._load.still(frames)
        for message in self._load.end(frames, causes, snr_db, flight.limit, now):
            self._uplink(message)
        self._note(still)
