"""A cell: one tower, its users, and the medium that they share; the view that a MAC has of the network.

A MAC lets users send by `Cell.attempt`.  What they send comes from a `TxQueue`; the `Medium` decides what is received;
received messages go to the uplink of the cell, the first port on the way to the server (`netfl.network.backhaul.port`).
MACs whose users send independently share two loops: `netfl.network.mac._slotted.SlottedCell.serve` in slots,
`netfl.network.mac._unslotted.UnslottedCell.serve` without.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import simpy
from numpy.typing import ArrayLike

from netfl.errors import Fault, ScenarioError
from netfl.network.clock import Clock, call_after, call_at
from netfl.network.layout import NodeId
from netfl.network.message import Message
from netfl.network.periods import SLACK, after_rounding, period_from, periods_from
from netfl.network.radio.collision_repeats import CollisionRepeats
from netfl.network.radio.medium import Medium, mark_unpaid
from netfl.network.radio.transmission import SharedChannel, Transmission
from netfl.network.radio.tx_queue import TxQueue, Users
from netfl.streams import Streams
from netfl.types import Bools, Floats, Ints


@dataclass(frozen=True, slots=True)
class AirInterface:
    """Air interface of a tower.

    Args:
        channel: Air in which transmissions interfere; cells that share their channels share it.
    """

    tower: NodeId
    medium: Medium
    channel: SharedChannel


def _equal_groups(
    channel: Any, mode: Any, delay_s: Any, duration_s: Any, count: int
) -> Iterable[tuple[Any, int, int, float, float]]:
    """Return which of *count* senders, ``None`` for all, have equal values, and these; the first to end first."""
    if delay_s is None and isinstance(duration_s, float) and isinstance(channel, int) and isinstance(mode, int):
        return ((None, channel, mode, 0.0, duration_s),)
    return _unequal_groups(channel, mode, delay_s, duration_s, count)


def _unequal_groups(
    channel: Any, mode: Any, delay_s: Any, duration_s: Any, count: int
) -> Iterator[tuple[Any, int, int, float, float]]:
    columns = (channel, mode, 0.0 if delay_s is None else delay_s, duration_s)
    rows = np.column_stack([np.broadcast_to(np.asarray(column, float), count) for column in columns])
    groups, group_of = np.unique(rows, axis=0, return_inverse=True)
    for group in np.argsort(groups[:, 2] + groups[:, 3], kind="stable"):
        channel, mode, delay_s, duration_s = groups[group].tolist()
        yield np.flatnonzero(group_of.ravel() == group), int(channel), int(mode), delay_s, duration_s


def _trigger(event: simpy.Event) -> None:
    if not event.triggered:
        event.succeed()


def _select(values: ArrayLike, count: int, places: Sequence[int]) -> ArrayLike:
    """Return the values, one for each of *count*, of those in *places*; one value for all stays one."""
    return values if len(places) == count or np.ndim(values) == 0 else np.asarray(values)[list(places)]


class Cell:
    """The users of one tower and their medium, numbered from 0; `ids` are their numbers in the network.

    Args:
        uplink: Takes the messages that were received, at the end of their airtime.

    Attributes:
        attempts: Number of frames that were on the air and have ended.
        failed: Number of them that were not received, by cause.
        repeats: Collisions of the same users, one after another.
        quiet: Whether the cell changes only by what its MAC does.
        checked_mac: Kind of the MAC if the arguments of its attempts are checked, as of one from outside netfl.
        user_metrics: Metrics of the users for the MAC, by name, ``[size]`` each; NaN where unknown.
        controls: Settings of the users by the caller of the simulation, by name, ``[size]`` each.
        clear_s: Time at which the last frame that was put on the air ends.
    """

    def __init__(
        self,
        env: Clock,
        air: AirInterface,
        queue: TxQueue,
        streams: Streams,
        uplink: Callable[[Message], None],
    ) -> None:
        self.env, self.streams, self.tower = env, streams, air.tower
        self.ids, self.size = queue.ids, len(queue.ids)
        self.user_metrics: Mapping[str, Floats] = {}
        self.controls: Mapping[str, Floats] = {}
        self.checked_mac = ""
        self._queue, self._medium, self._channel, self._uplink = queue, air.medium, air.channel, uplink
        self._transmissions: dict[Transmission, Users] = {}  # on the air, with their senders
        self.quiet = queue.quiet and self._medium.steady
        self._changed, self._change = list[Users](), env.event()
        self._notify(np.flatnonzero(np.isfinite(queue.ready_s)))
        self.attempts, self.failed = 0, dict.fromkeys(("collided", "faded", "lost"), 0)
        self.repeats = CollisionRepeats()
        self.clear_s = 0.0
        self._busy_s = self._busy_since_s = 0.0

    @property
    def ready_s(self) -> Floats:
        """Time from which each user has a frame to send, ``[size]``; infinity without one.  Do not write to it.

        It may lie ahead, as the end of a training is known at its start.
        """
        return self._queue.ready_s

    @property
    def airtime_s(self) -> float:
        """Longest airtime of a frame: that of the largest, in the slowest mode."""
        return self._medium.longest_s(self._queue.max_bits)

    def airtimes_s(self, users: Users) -> Floats:
        """Return the airtime of the next frame of each of *users* if it were sent now, ``[n]``."""
        return np.asarray(self._frame_airtimes_s(users, self.modes(users)))

    def modes(self, users: Users) -> Ints:
        """Return the mode of the reception in which each of *users* would send now, ``[n]``."""
        return self._medium.choose(self.ids[users], self.tower, self.env.now)

    def snr_db(self, users: Users) -> Floats:
        """Return the present SNR of each of *users* at the tower, ``[n]``: what a scheduler measures."""
        return self._medium.snr_db(self.ids[users], self.tower, self.env.now)

    def connected(self, users: Users) -> Bools:
        """Return whether each of *users* and the tower are up now, ``[n]``."""
        if self._medium.steady:
            return np.ones(len(users), np.bool_)
        return self._medium.connected(self.ids[users], self.tower.number, self.env.now)

    def backlog(self) -> Users:
        """Return the users that have a frame to send now and are not sending, one frame at a time."""
        self._queue.refresh(self.env.now)
        return np.flatnonzero(self._idle_from_s() <= after_rounding(self.env.now))

    def backlog_lengths(self) -> Ints:
        """Return the number of frames that each user can send now, or is sending, ``[size]``."""
        self._queue.refresh(self.env.now)
        return self._queue.lengths(self.env.now)

    def set_controls(self, controls: Mapping[str, Floats]) -> None:
        """Set `controls`, and let the MAC look at all users again if any has changed."""
        is_same = controls.keys() == self.controls.keys() and all(
            np.array_equal(values, self.controls[name]) for name, values in controls.items()
        )
        if not is_same:
            self.controls = controls
            self.wake(np.arange(self.size))

    def wait_for_backlog(self) -> simpy.Event:
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
        """Return those of *users* that can send now, and defer the others until they can."""
        if self._medium.steady:
            return users
        numbers = np.asarray(users, np.int64)
        return [int(user) for user in numbers[self._defer_disconnected(numbers, self.env.now)]]

    def next_slot(self, slot_s: float, after: int = -1) -> int:
        """Return the number of the first slot later than *after* that has not begun.

        Slot k begins at k · *slot_s*.  A start that the clock has missed by rounding counts as not begun.
        """
        return max(after + 1, period_from(self.env.now, slot_s))

    def ready_slots(self, users: Users, slot_s: float) -> Users:
        """Return the first slot that begins once each of *users*, all with a frame, may send it, ``[n]``."""
        return periods_from(self.ready_s[users], slot_s)

    def wait_until(self, time_s: float) -> simpy.Event:
        """Return an event that fires at *time_s*, at once if that is over; by rounding never before *time_s*.

        Frames that end at *time_s*, up to the rounding of the clock, have ended by then.
        """
        event = self.env.event()

        def fire(_: simpy.Event) -> None:
            if (end_s := self._ending_s()) is None:
                _trigger(event)
            else:
                call_at(self.env, math.nextafter(max(end_s, self.env.now), math.inf), fire)

        call_at(self.env, time_s, fire)
        return event

    @property
    def changed(self) -> bool:
        """True if there are `changes`."""
        return bool(self._changed)

    def changes(self) -> Users:
        """Return the users with a new ``ready_s`` or a failed attempt since the last call; some may occur twice."""
        users, self._changed = self._changed, []
        return users[0] if len(users) == 1 else np.concatenate([np.empty(0, np.int64), *users])

    def wait_for_change(self, by_s: float = np.inf) -> simpy.Event:
        """Return an event that fires when there are `changes`, at once if there are any, at *by_s* at the latest.

        Frames that end at *by_s*, up to the rounding of the clock, have ended by then.
        """
        if self._changed:
            return self.env.timeout(0)
        if self.quiet and by_s < np.inf and not self._transmissions:
            return self.env.timeout(max(0.0, by_s - self.env.now))
        event = self._change = self.env.event()

        def expire(_: simpy.Event) -> None:
            if self._ending_s() is None:  # the end of a frame is a change
                _trigger(event)

        if by_s < np.inf:
            call_at(self.env, by_s, expire)
        return event

    def wake(self, users: Users) -> None:
        """Report changed frames of *users* to the MAC; for those on the air it learns of them at the end."""
        self._notify(users[~self._is_sending()[users]])

    def attempt(  # noqa: PLR0912, PLR0915 - a call in each attempt would cost more
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

        Attempts may overlap; those on the same channel interfere, and the medium decides which are received.  A user
        that is disconnected at the start, as itself or the tower is down, notices it: it sends nothing, does not
        interfere, and has its ``ready_s`` moved to the end of that outage.  If nobody sends, the event fires at once.

        Args:
            users: The senders, which must be in the backlog.
            duration_s: Airtime, one for all or one for each; by default that of each frame in its mode.
            limit: Number of attempts that a frame has before it is given up; by default no limit.
            channel: Channel, one for all or one for each.
            mode: Mode of the reception, one for all or one for each; by default each sender chooses.
            begin_s: Start; 0 for now.  It may lie ahead in a `quiet` cell only, where nothing can come in between.
                Where the clock has missed it by rounding, at most 2e-9 of the present time, airtimes end as if it were
                met, so that rounding does not add up.
        """
        if self.checked_mac:
            self._check_attempt(users, begin_s)
        users, now = np.asarray(users, np.int64), max(begin_s, self.env.now)
        received = np.zeros(len(users), np.bool_)
        self._queue.refresh(now)
        places: Sequence[int] = range(len(users))
        senders = users
        if not self._medium.steady and not (connected := self._defer_disconnected(users, now)).all():
            places = np.flatnonzero(connected).tolist()
            if not places:
                return self.env.timeout(0.0, received)  # nobody sends, and the air stays free
            senders = users[places]
        ids = self.ids[senders]
        delay_s = self._medium.delay_s(ids, now)
        if self._medium.modes == 1:  # whatever modes the MAC has
            mode = 0
        elif mode is None:
            mode = self._medium.choose(ids, self.tower, now)
        elif not isinstance(mode, int):
            mode = _select(mode, len(users), places)
        if duration_s is None:
            duration_s = self._frame_airtimes_s(senders, mode)
        elif not isinstance(duration_s, float):
            duration_s = _select(duration_s, len(users), places)
        if not isinstance(channel, int):
            channel = _select(channel, len(users), places)
        medium, from_s = self._medium, begin_s or now  # airtimes count from there
        end: simpy.Event | None = None
        groups = _equal_groups(channel, mode, delay_s, duration_s, len(senders))
        for group, air_channel, group_mode, group_delay_s, airtime_s in groups:
            group_users, group_ids, group_places = senders, ids, places
            if group is not None:
                group_users, group_ids = senders[group], ids[group]
                group_places = [places[index] for index in group.tolist()]
            frames = self._queue.launch(group_users, now)
            start_s, sent_s = now + group_delay_s, from_s + airtime_s
            end_s = from_s + group_delay_s + airtime_s
            interrupted = shares = None
            if not medium.steady:
                shares = medium.spend(group_ids, now, frames.bits)
                interrupted = mark_unpaid(medium.interrupted(group_ids, self.tower.number, now, sent_s, end_s), shares)
                if shares is not None:  # batteries have paid
                    self._queue.check_power(group_users, now)
            if medium.energy is not None:
                medium.energy.send(group_ids, airtime_s if shares is None else airtime_s * shares)
            transmission = Transmission(
                frames, group_ids, group_places, self.tower, air_channel, start_s, end_s, group_mode, limit, interrupted
            )
            if not self._transmissions:
                self._busy_since_s = now
            self._transmissions[transmission] = group_users
            self.clear_s = max(self.clear_s, end_s)
            self._channel.enter(transmission)
            wait_s = end_s - self.env.now
            end = call_after(
                self.env, wait_s if wait_s > 0.0 else 0.0, partial(self._end_transmission, transmission), received
            )
        assert end is not None
        return end

    def _check_attempt(self, users: Users | Sequence[int], begin_s: float) -> None:
        values, late_s, problem = np.asarray(users), self.env.now - begin_s, ""
        remedy = f"give numbers from 0 to {self.size - 1}, each once"
        if values.ndim != 1 or (values.size and values.dtype.kind not in "iu"):
            problem, remedy = f"users of type {values.dtype}", "give a list of numbers, of a mask np.flatnonzero(mask)"
        elif values.size and not 0 <= values.min() <= values.max() < self.size:
            problem = "users that are not in the cell"
        elif len(np.unique(values)) < len(values):
            problem = "a user twice"
        elif self._is_sending()[values].any():
            problem, remedy = "a user that is on the air", "take users of backlog()"
        elif begin_s and late_s > 2.0 * SLACK * self.env.now:
            problem, remedy = (
                f"begin_s={begin_s:g}, which lies {late_s:.3g} s before now",
                "take next_slot and wait_until",
            )
        if problem:
            raise self.mac_error(f"attempt() is given {problem}", values.tolist(), remedy)

    def mac_error(self, problem: str, value: object, remedy: str) -> ScenarioError:
        """Return the error of a checked MAC that violates its contract now."""
        problem = f"{self.checked_mac}, at {self.env.now:.6g} s of simulated time: {problem}"
        return ScenarioError([Fault("mac", problem, value, remedy)])

    def finish(self, others: Sequence[Transmission] = ()) -> None:
        """End all frames at the end of the run; *others* are the `transmissions` of cells that share the queue."""
        self._queue.finish(self.env.now, [transmission.frames for transmission in (*others, *self._transmissions)])

    @property
    def transmissions(self) -> Sequence[Transmission]:
        """Transmissions on the air."""
        return tuple(self._transmissions)

    def restart(self, now_s: float) -> None:
        """Reset all counters, as the warm-up is over at *now_s*."""
        self.attempts, self.failed = 0, dict.fromkeys(self.failed, 0)
        self.repeats = CollisionRepeats()
        self._busy_s = 0.0
        self._busy_since_s = max(now_s, self._busy_since_s)

    def busy_by_s(self, now_s: float) -> float:
        """Return the time since the last `restart` during which any frame was on its way to the tower."""
        return self._busy_s + (max(0.0, now_s - self._busy_since_s) if self._transmissions else 0.0)

    def _is_on_air(self, user_id: int) -> bool:
        return bool(self._queue.on_air[self.ids == user_id].any())

    def _notify(self, users: Users) -> None:
        """Note changed frames of *users*, and wake the MAC."""
        if users.size:
            self._changed.append(users)
            _trigger(self._change)

    def _until_backlog(self) -> Generator[simpy.Event, Any, None]:
        while not self.backlog().size:
            self.changes()  # a MAC that waits for work does not ask for changes
            yield self.wait_for_change(self._idle_from_s().min())

    def _idle_from_s(self) -> Floats:
        """Time from which each user has a frame to send, ``[size]``; infinity for those that are sending."""
        return np.where(self._is_sending(), np.inf, self.ready_s)

    def _ending_s(self) -> float | None:
        """Return when the last of the frames ends that end now, up to rounding; ``None`` for no such frame."""
        if not self._transmissions:
            return None
        until_s = after_rounding(self.env.now)
        return max((frame.end_s for frame in self._transmissions if frame.end_s <= until_s), default=None)

    def _is_sending(self) -> Bools:
        """Return whether each user has a frame on the air, which may be one of an update that was replaced."""
        if not self._transmissions:
            return self._queue.on_air
        is_sending = self._queue.on_air.copy()
        for users in self._transmissions.values():
            is_sending[users] = True
        return is_sending

    def _defer_disconnected(self, users: Users, now: float) -> Bools:
        """Return whether each of *users* can send now; if any cannot, defer all of the backlog that cannot."""
        connected = self._medium.connected(self.ids[users], self.tower.number, now)
        if not connected.all():
            backlog = np.union1d(self.backlog(), users)  # a user ready at this instant may be so a rounding step later
            away = backlog[~self._medium.connected(self.ids[backlog], self.tower.number, now)]
            self._queue.defer(away, self._medium.connected_from(self.ids[away], self.tower.number, now))
            self._notify(away)
        return connected

    def _frame_airtimes_s(self, users: Users, mode: ArrayLike) -> float | Floats:
        bits = self._queue.bits(users)
        if isinstance(bits, float) and isinstance(mode, int):
            return self._medium.airtime_s(bits, mode)
        count = len(users)
        rows = zip(np.broadcast_to(bits, count).tolist(), np.broadcast_to(mode, count).tolist(), strict=True)
        return np.array([self._medium.airtime_s(*row) for row in rows])

    def _end_transmission(self, transmission: Transmission, event: simpy.Event) -> None:
        """Pass on received frames at the end of their airtime, and let the queue retry or end the others."""
        users = self._transmissions.pop(transmission)
        now, frames = self.env.now, transmission.frames
        self._channel.leave(transmission)
        if not self._transmissions:
            self._busy_s += now - self._busy_since_s
        causes, snr_db = self._medium.outcomes(transmission)
        watched = self.repeats.watched
        if watched and not watched.isdisjoint(transmission.ids.tolist()):
            self.repeats.note_attempts(transmission, now, self._is_on_air)
        if "collided" in causes:
            self.repeats.note_collision(transmission, causes.index("collided"))
        received: Bools = event.value  # type: ignore[assignment]
        self.attempts += len(causes)
        for place, cause in zip(transmission.places, causes, strict=True):
            if cause:
                self.failed[cause] += 1
            else:
                received[place] = True
        messages = self._queue.end(frames, causes, snr_db, transmission.limit, now)
        if len(messages) > 1:  # received at one instant: no user comes first by its number
            order = self.streams.field("received together").order([each.user for each in messages], self.attempts)
            messages = [messages[place] for place in order]
        for message in messages:
            self._uplink(message)
        self._notify(users)  # one whose update was replaced on the air could not send before
