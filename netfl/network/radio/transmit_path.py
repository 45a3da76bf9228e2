"""The transmit path of a cell: the way of frames over the air, from the start of their sending to their outcome.

`netfl.network.radio.cell.Cell.attempt` decides who sends, and how; here frames go on the air, end, and are passed on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import simpy
from numpy.typing import ArrayLike

from netfl.network.attempt_log import BUSY, CAUSES, JAMMED, NO_ACCESS
from netfl.network.clock import Clock, call_after, call_at
from netfl.network.link_log import LinkUse
from netfl.network.message import Message
from netfl.network.periods import after_rounding
from netfl.network.radio.collision_repeats import CollisionRepeats
from netfl.network.radio.connection import mark_unpaid
from netfl.network.radio.medium import AirInterface, FramePower, ReceptionResult
from netfl.network.radio.receivers import FirstCopies, Receivers
from netfl.network.radio.reserved_slot import ReservedSlot
from netfl.network.radio.spectrum import Spectrum
from netfl.network.radio.transmission import Frames, Transmission
from netfl.network.radio.tx_queue import TxQueue
from netfl.network.updates import Update, UpdateSum
from netfl.streams import Streams
from netfl.types import Bools, Floats, Ints, Users
from netfl.units import db_to_linear

POWER_COUNTS = ("clipped", "withheld")
"""Frames that are counted by their power: those that should have had more, and those that were not sent."""


@dataclass(slots=True, eq=False)
class SenderGroup:
    """Users that begin to send at one instant, and whose frames form one transmission.

    Args:
        users: their numbers in the cell, ``[n]``.
        ids: their numbers in the network, ``[n]``.
        places: place of each among the users of the attempt, ``[n]``.
        channel: channel on which they send.
        mode: mode of the reception in which they send.
        delay_s: propagation delay of their signals.
        airtime_s: time for which each of them sends.
        share: fraction of the bandwidth of its radio that each has to itself, one for all or ``[n]``; ``None`` for all
            of it, which all share.
        spectrum: places of their shares in the band, where cells share the air.
        power: power of their frames; ``None`` for that which each user has now.
        slot: slot of a schedule in which their frames begin to arrive; ``None`` for frames that are sent in one piece.
    """

    users: Users
    ids: Ints
    places: Sequence[int]
    channel: int
    mode: int
    delay_s: float
    airtime_s: float
    share: float | Floats | None = None
    spectrum: Spectrum | None = None
    power: FramePower | None = None
    slot: ReservedSlot | None = None


def group_senders(
    users: Users,
    ids: Ints,
    places: Sequence[int],
    channel: ArrayLike,
    mode: ArrayLike,
    delay_s: Floats | None,
    airtime_s: ArrayLike,
    share: float | Floats | None = None,
    spectrum: Spectrum | None = None,
    power: FramePower | None = None,
) -> Iterable[SenderGroup]:
    """Return the groups of senders that are alike; the group whose frames end first is the first.

    The arguments are those of `SenderGroup`, one for all or one for each; a delay of ``None`` is negligible.  Senders
    that differ in their shares and powers alone are one group.
    """
    if delay_s is None and isinstance(airtime_s, float) and isinstance(channel, int) and isinstance(mode, int):
        return (SenderGroup(users, ids, places, channel, mode, 0.0, airtime_s, share, spectrum, power),)
    if delay_s is None:
        return _unequal_groups(users, ids, places, channel, mode, 0.0, airtime_s, share, spectrum, power)
    return _unequal_groups(users, ids, places, channel, mode, delay_s, airtime_s, share, spectrum, power)


def _unequal_groups(
    users: Users,
    ids: Ints,
    places: Sequence[int],
    channel: ArrayLike,
    mode: ArrayLike,
    delay_s: ArrayLike,
    airtime_s: ArrayLike,
    share: float | Floats | None,
    spectrum: Spectrum | None,
    power: FramePower | None,
) -> Iterator[SenderGroup]:
    columns = (channel, mode, delay_s, airtime_s)
    rows = np.column_stack([np.broadcast_to(np.asarray(column, float), len(users)) for column in columns])
    group_rows, group_of = np.unique(rows, axis=0, return_inverse=True)
    ends_s = group_rows[:, 2] + group_rows[:, 3]
    for group in np.argsort(ends_s, kind="stable"):
        members = np.flatnonzero(group_of.ravel() == group)
        group_channel, group_mode, group_delay_s, group_airtime_s = group_rows[group].tolist()
        group_share = share
        if isinstance(share, np.ndarray):
            group_share = share[members]
        group_spectrum = spectrum
        if spectrum is not None:
            group_spectrum = spectrum.select(members.tolist())
        group_power = power
        if power is not None:
            group_power = power.select(members.tolist())
        yield SenderGroup(
            users[members],
            ids[members],
            [places[member] for member in members.tolist()],
            int(group_channel),
            int(group_mode),
            group_delay_s,
            group_airtime_s,
            group_share,
            group_spectrum,
            group_power,
        )


@dataclass(slots=True, eq=False)
class _FrameParts:
    """Frames that are sent in several slots of a schedule, and what the medium has decided on their parts so far.

    Args:
        whole: the transmission from the start of the first part to the end of the last.
        parts: its parts on the air, in the order of their times.
        results: outcomes so far at each tower that hears them: a frame is received if all of its parts are, and its SNR
            is that of the first part.
    """

    whole: Transmission
    parts: list[Transmission]
    results: list[ReceptionResult] = field(default_factory=list)

    def judge(self, part: Transmission, results: list[ReceptionResult]) -> None:
        """Take the outcomes of a part at each tower."""
        self.whole.interferers += part.interferers
        if part is self.parts[0]:
            self.results = results
            return
        for at, (causes, _) in enumerate(results):
            earlier_causes, snr_db = self.results[at]
            together = [earlier or cause for earlier, cause in zip(earlier_causes, causes, strict=True)]
            self.results[at] = together, snr_db


def _split(whole: Transmission, parts_s: Sequence[tuple[float, float]]) -> _FrameParts:
    """Return the parts of a transmission, each with the bits that its airtime carries."""
    delay_s = whole.start_s - whole.begin_s
    parts = []
    for start_s, end_s in parts_s:
        airtime_s = end_s - start_s
        frames = replace(whole.frames, bits=whole.frames.bits * (airtime_s / whole.airtime_s))
        part = replace(
            whole,
            frames=frames,
            start_s=start_s,
            end_s=end_s,
            begin_s=start_s - delay_s,
            airtime_s=airtime_s,
            interferers=[],
        )
        parts.append(part)
    return _FrameParts(whole, parts)


class TransmitPath:
    """The frames of one cell on the air.

    Args:
        uplink: takes the messages that were received, at the end of their airtime.
        notify: ``notify(users)`` takes the users whose frames have ended, at the end of their airtime.

    Attributes:
        transmissions: transmissions on the air, with their senders.
        attempts: number of frames that were on the air and have ended.
        counts: numbers of them by outcome, ``""`` for received or a cause of failure, of each user, ``[size]``.
        power_counts: numbers of frames ``clipped``, which should have had more power, and ``withheld``, of each user,
            ``[size]``.
        access_failures: numbers of frames that were given up as the medium was never free, of each user, ``[size]``.
        symbols: analogue symbols that were on the air, of one slot as many for any number of users.
        repeats: collisions of the same users, one after another.
        receivers: the towers that hear the users, if there are several; else ``None``.
        clear_s: time at which the last frame that was put on the air ends.
        on_end: called when frames have left the air, before the MAC acts; ``None`` for nothing.
    """

    on_end: Callable[[], None] | None = None

    def __init__(
        self,
        env: Clock,
        air: AirInterface,
        queue: TxQueue,
        streams: Streams,
        uplink: Callable[[Message], None],
        notify: Callable[[Users], None],
    ) -> None:
        self._env = env
        self._tower = air.tower
        self._medium = air.medium
        self._connection = air.medium.connection
        self._channel = air.channel
        self.receivers = Receivers(air.hearers, air.medium) if air.hearers else None
        self._receiver = air.receiver
        self._queue = queue
        self._attempt_log = queue.log.attempts
        self._link_log = queue.log.links
        self._records_starts = self._attempt_log.records_starts
        self._records_ends = self._attempt_log.records_ends
        self._streams = streams
        self._uplink = uplink
        self._notify = notify
        self.transmissions: dict[Transmission, Users] = {}
        self._size = len(queue.ids)
        self._is_sending = np.zeros(self._size, np.bool_)
        self.attempts = 0
        self.counts = self._new_counts()
        self.power_counts = self._new_power_counts()
        self.access_failures = np.zeros(self._size, np.int64)
        self.symbols = 0
        self.repeats = CollisionRepeats()
        self.clear_s = 0.0
        self._signals = 0  # transmissions, and parts of those in several slots, that are on the air now
        self._busy_s = 0.0  # until the last time at which the air was free
        self._busy_since_s = 0.0

    def send(
        self,
        group: SenderGroup,
        start_s: float,
        exact_start_s: float,
        limit: int | None,
        received: Bools,
        duplicate: Frames | None = None,
        *,
        is_request: bool = False,
    ) -> simpy.Event:
        """Put the next frames of a group on the air; return an event that fires with *received* when they have ended.

        Args:
            group: the senders.
            start_s: time at which they begin to send.
            exact_start_s: time from which their airtimes count: *start_s* without the rounding of the clock.
            limit: number of attempts that a frame has; ``None`` for no limit.
            received: takes the outcome of each frame, at its place.
            duplicate: frame that is sent again although the tower has received it, or a request; ``None`` for those of
                the queue.
            is_request: whether it is a request, as `request` sends it.
        """
        # the queue hands over the frames
        medium = self._medium
        connection = self._connection
        frames = duplicate or self._queue.launch(group.users, start_s)
        if self._records_starts and not is_request:
            self._attempt_log.begin(self._tower.name, start_s, group.ids, frames.bits, frames.traffic)
        sent_s = exact_start_s + group.airtime_s
        end_s = exact_start_s + group.delay_s + group.airtime_s
        parts_s: Sequence[tuple[float, float]] = ()
        if group.slot is not None:
            parts_s = group.slot.parts_s(group.airtime_s)
            if len(parts_s) > 1:
                end_s = parts_s[-1][1]
                sent_s = end_s - group.delay_s

        # batteries pay for them, and outages to come interrupt some of them
        power_factor = None
        power_offset_db = medium.power_offset_db(group.ids)
        if group.power is not None:
            power_offset_db = group.power.offset_db
            power_factor = db_to_linear(power_offset_db)
            self.power_counts["clipped"][group.users] += group.power.is_clipped
        interrupted = shares = None
        if not connection.steady:
            shares = connection.spend(group.ids, start_s, group.airtime_s, power_factor)
            cut_off = connection.interrupted(group.ids, self._tower.number, start_s, sent_s, end_s)
            interrupted = mark_unpaid(cut_off, shares)
            if shares is not None:  # batteries have paid
                self._queue.check_power(group.users, start_s)
        interrupted_at: Sequence[Sequence[bool] | None] = ()
        if self.receivers is not None:
            interrupted_at = self.receivers.interrupted(group.ids, start_s, sent_s, end_s, interrupted, shares)
        paid_s: float | Floats = group.airtime_s
        if shares is not None:
            paid_s = group.airtime_s * shares
        if medium.energy is not None:
            medium.energy.send(group.ids, paid_s, power_factor, start_s)
        link_uses = self._count_link_uses(group.ids, group.airtime_s, frames, paid_s, power_factor)

        # they enter the air, where they meet other transmissions
        transmission = Transmission(  # by place, which takes a third of the time of names
            frames,
            group.ids,
            group.places,
            self._tower,
            group.channel,
            start_s + group.delay_s,
            end_s,
            group.mode,
            limit,
            interrupted,
            start_s,
            group.airtime_s,
            group.share,
            power_offset_db,
            medium.outside_of(group.ids),
            link_uses,
            group.spectrum,
            [],
            interrupted_at,
        )
        self.transmissions[transmission] = group.users
        self._is_sending[group.users] = True
        self.clear_s = max(self.clear_s, end_s)

        # their outcome is known when all of the signal has arrived
        if len(parts_s) > 1:
            frame_parts = _split(transmission, parts_s)
            self._send_parts(frame_parts)
            end = partial(self._end_parts, frame_parts)
        else:
            self._enter(transmission)
            end = partial(self._end_request if is_request else self._end_transmission, transmission)
        wait_s = end_s - self._env.now
        return call_after(self._env, wait_s if wait_s > 0.0 else 0.0, end, received)

    def request(self, group: SenderGroup, bits: float, limit: int | None) -> simpy.Event:
        """Put a request to send of *bits* on the air, which precedes the next frame of its one sender.

        One that is received counts as no attempt.  One that is not counts as a failed attempt of the frame.
        """
        now_s = self._env.now
        request = Frames(group.users, bits, None, is_duplicate=True)
        return self.send(group, now_s, now_s, limit, np.zeros(1, np.bool_), request, is_request=True)

    def give_up(self, users: Users, now_s: float) -> None:
        """End the next frames of *users*, which have never found the medium free; they were not on the air."""
        self.access_failures[users] += 1
        log = self._queue.log
        uplink_bits = log.uplink_bits
        frames = self._queue.launch(users, now_s)
        log.uplink_bits = uplink_bits  # nothing was sent
        self._queue.end(frames, [NO_ACCESS] * len(users), 1, now_s)
        self._notify(users)

    def _enter(self, signal: Transmission) -> None:
        """Put a transmission, or a part of one, on the air."""
        if not self._signals:
            self._busy_since_s = signal.begin_s
        self._signals += 1
        self._channel.enter(signal)
        if self.receivers is not None:
            self.receivers.begin(signal, self._env.now)
        elif self._receiver is not None:
            self._receiver.begin(signal, self._env.now)

    def _leave(self, signal: Transmission) -> None:
        """Take a transmission, or a part of one, off the air."""
        self._channel.leave(signal)
        self._signals -= 1
        if not self._signals:
            self._busy_s += self._env.now - self._busy_since_s

    def _send_parts(self, frame_parts: _FrameParts) -> None:
        """Put the first of several parts on the air, and the others in their slots."""

        def leave(part: Transmission, _: simpy.Event) -> None:
            self._leave(part)
            frame_parts.judge(part, self._outcomes(part))

        first, *others = frame_parts.parts
        self._enter(first)
        for part in others:
            call_at(self._env, part.begin_s, partial(self._enter_part, part))
        for part in frame_parts.parts[:-1]:  # the last one ends with the transmission
            call_at(self._env, part.end_s, partial(leave, part))

    def _enter_part(self, part: Transmission, _: simpy.Event) -> None:
        self._enter(part)

    def _end_parts(self, frame_parts: _FrameParts, event: simpy.Event) -> None:
        """Pass on frames whose last part has arrived."""
        last = frame_parts.parts[-1]
        self._leave(last)
        frame_parts.judge(last, self._outcomes(last))
        copies = self._first_copies(frame_parts.whole, frame_parts.results)
        self._settle(frame_parts.whole, copies, event)

    def _end_transmission(self, transmission: Transmission, event: simpy.Event) -> None:
        """Pass on frames that have arrived."""
        self._leave(transmission)
        copies = self._first_copies(transmission, self._outcomes(transmission))
        self._settle(transmission, copies, event)

    def _end_request(self, transmission: Transmission, event: simpy.Event) -> None:
        """Let a request that has failed count as a failed attempt of the frame that it precedes."""
        self._leave(transmission)
        causes, snr_db = self._outcomes(transmission)[0]  # the cell's own tower answers
        users = self.transmissions[transmission]
        has_frame = self._queue.ready_s[users[0]] <= after_rounding(self._env.now)
        if any(causes) and has_frame:
            frames = self._queue.launch(users, transmission.begin_s)
            if self._records_starts:  # now, as the events of a run are in the order of their times
                now_s = self._env.now
                self._attempt_log.begin(self._tower.name, now_s, transmission.ids, frames.bits, frames.traffic)
            transmission.frames = frames
            airtime_s = transmission.airtime_s
            transmission.link_uses = self._count_link_uses(transmission.ids, airtime_s, frames, airtime_s, None)
            self._settle(transmission, FirstCopies(causes, snr_db, [0]), event)
            return
        received: Bools = event.value  # type: ignore[assignment]
        received[0] = not any(causes)
        del self.transmissions[transmission]
        self._is_sending[users] = False
        self._notify(users)

    def _outcomes(self, signal: Transmission) -> list[ReceptionResult]:
        """Return which frames each tower that hears a transmission, or a part of one, has received, at its end."""
        if self.receivers is not None:
            return self.receivers.outcomes(signal)
        causes, snr_db = self._medium.outcomes(signal)
        if self._receiver is not None:
            causes = self._receiver.end(signal, causes)
        return [(causes, snr_db)]

    def _settle(self, transmission: Transmission, copies: FirstCopies, event: simpy.Event) -> None:
        """Pass on received frames at the end of their airtime, and let the queue retry or end the others."""
        users = self.transmissions.pop(transmission)
        self._is_sending[users] = False
        now_s = self._env.now
        causes = copies.causes
        snr_db = copies.snr_db
        # the counters take the outcomes
        self._note_repeats(transmission, causes, now_s)
        received: Bools = event.value  # type: ignore[assignment]
        self.attempts += len(causes)
        counts = self.counts
        for user, place, cause in zip(users.tolist(), transmission.places, causes, strict=True):
            counts[cause][user] += 1
            if not cause:
                received[place] = True
        if self._records_ends:
            self._attempt_log.end(transmission, causes, snr_db, now_s)

        # received messages go on to the server, the queue keeps or ends the others
        messages: list[Message] = []
        if not transmission.frames.is_duplicate:
            messages = self._queue.end(transmission.frames, causes, transmission.limit, now_s)
        if transmission.link_uses:
            self._note_links(transmission, messages, copies)
        if len(messages) > 1:  # received at one instant: no user comes first by its number
            order = self._streams.field("received together").order([each.user for each in messages], self.attempts)
            messages = [messages[place] for place in order]
        if self._medium.sums:
            self._pass_on_sum(messages, transmission)
        elif self.receivers is None:
            for message in messages:
                self._uplink(message)
        else:
            self.receivers.pass_on(messages, transmission, copies)

        if self.on_end is not None:
            self.on_end()

        # the MAC learns which users can send again; one whose update was replaced on the air could not before
        self._notify(users)

    def _pass_on_sum(self, messages: Sequence[Message], transmission: Transmission) -> None:
        """Pass on updates that the tower has received as their sum."""
        self.symbols += round(transmission.airtime_s * self._medium.symbols_hz)
        updates = sorted((each for each in messages if isinstance(each, Update)), key=lambda update: update.user)
        if updates:
            first = updates[0]
            self._uplink(UpdateSum(first.user, self._queue.max_bits, first.flow, updates=tuple(updates)))

    def _first_copies(self, transmission: Transmission, results: Sequence[ReceptionResult]) -> FirstCopies:
        """Return the copies of frames that go on to the server, from the outcomes at each tower that hears them."""
        is_lost = self._medium.lost_for_all(transmission.ids)
        if is_lost is not None:
            results = [(_mark_faded(causes, is_lost), snr_db) for causes, snr_db in results]
        if self.receivers is None:
            return FirstCopies(*results[0])
        return self.receivers.first_copies(transmission, results)

    def _count_link_uses(
        self, ids: Ints, airtime_s: float, frames: Frames, paid_s: float | Floats, power_factor: Floats | None
    ) -> Sequence[LinkUse | None]:
        """Count an attempt of each sender, of which *paid_s* costs energy, if anything asks for it."""
        if self._link_log is None or frames.is_duplicate:
            return ()
        energy_j = None
        if self._medium.energy is not None:
            energy_j = self._medium.energy.sending_j(ids, paid_s, power_factor)
        return self._link_log.send(ids, frames.base, airtime_s, energy_j)

    def _note_links(self, transmission: Transmission, messages: Sequence[Message], copies: FirstCopies) -> None:
        """Note the links of frames that were received, and let the messages that they carry know them."""
        if self.receivers is None:
            gain_db = self._medium.gain_db(transmission, copies.snr_db)
        else:
            gain_db = self.receivers.gain_db(transmission, copies)
        use_of = {}
        for place, (user, use) in enumerate(zip(transmission.ids.tolist(), transmission.link_uses, strict=True)):
            if use is None or copies.causes[place]:
                continue
            use.snr_db = float(copies.snr_db[place])
            use.gain_db = float(gain_db[place])
            use.mode = transmission.mode
            use_of[user] = use
        for message in messages:
            if message.user in use_of:
                message.note_link(use_of[message.user])

    def _note_repeats(self, transmission: Transmission, causes: Sequence[str], now_s: float) -> None:
        """Follow users that have collided until their next attempts."""
        watched = self.repeats.watched
        if watched and not watched.isdisjoint(transmission.ids.tolist()):
            self.repeats.note_attempts(transmission, now_s, self._is_on_air)
        if "collided" in causes:
            self.repeats.note_collision(transmission, causes.index("collided"))

    def _is_on_air(self, user_id: int) -> bool:
        return bool(self._queue.on_air[self._queue.ids == user_id].any())

    def is_sending(self) -> Bools:
        """Return whether each user has a frame on the air, ``[size]``; it may be one of an update that was replaced."""
        if not self.transmissions:
            return self._queue.on_air
        return self._queue.on_air | self._is_sending

    def ending_s(self) -> float | None:
        """Return when the last of the frames ends that end now, up to rounding; ``None`` for no such frame."""
        if not self.transmissions:
            return None
        until_s = after_rounding(self._env.now)
        return max((frame.end_s for frame in self.transmissions if frame.end_s <= until_s), default=None)

    def busy_by_s(self, now_s: float) -> float:
        """Return the time since the last `restart` during which any frame was on its way to the tower."""
        if not self._signals:
            return self._busy_s
        return self._busy_s + max(0.0, now_s - self._busy_since_s)

    @property
    def failed(self) -> dict[str, int]:
        """Number of frames that were not received, by cause."""
        return {cause: int(counts.sum()) for cause, counts in self.counts.items() if cause}

    def _new_counts(self) -> dict[str, Ints]:
        """Return no frames of each user by outcome, ``[size]``; the system has no memory for users that never send."""
        causes = list(CAUSES)
        if self._receiver is not None:
            causes.append(BUSY)
        if self._medium.jamming is not None:
            causes.append(JAMMED)
        return {outcome: np.zeros(self._size, np.int64) for outcome in ("", *causes)}

    def _new_power_counts(self) -> dict[str, Ints]:
        return {name: np.zeros(self._size, np.int64) for name in POWER_COUNTS}

    def restart(self, now_s: float) -> None:
        """Reset all counters, as the warm-up is over at *now_s*."""
        self.attempts = 0
        self.counts = self._new_counts()
        self.power_counts = self._new_power_counts()
        self.access_failures = np.zeros(self._size, np.int64)
        self.symbols = 0
        self.repeats = CollisionRepeats()
        self._busy_s = 0.0
        self._busy_since_s = max(now_s, self._busy_since_s)


def _mark_faded(causes: Sequence[str], is_lost: Bools) -> Sequence[str]:
    """Return *causes* with ``faded`` for frames that are lost for every tower, and have no other cause."""
    return [cause or ("faded" if lost else "") for cause, lost in zip(causes, is_lost.tolist(), strict=True)]
