"""A cell: one tower, its users, and the medium that they share; the view that a MAC has of the network.

A MAC lets users send by `Cell.attempt`.  What they send comes from a `TxQueue`, and goes over the air by a
`netfl.network.radio.transmit_path.TransmitPath`; the `Medium` decides what is received.  Received messages go to the
uplink of the cell, the first port on the way to the server (`netfl.network.backhaul.port`).  MACs whose users send
independently share two loops: `netfl.network.mac._slotted.SlottedCell.serve` in slots,
`netfl.network.mac._unslotted.UnslottedCell.serve` without.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import simpy
from numpy.typing import ArrayLike

from netfl.errors import Fault, ScenarioError
from netfl.network.clock import Clock, call_at
from netfl.network.event_log import Ending
from netfl.network.message import Message
from netfl.network.periods import after_rounding, period_from, periods_from
from netfl.network.radio.device_state import DeviceState
from netfl.network.radio.jamming import Jamming
from netfl.network.radio.medium import AirInterface, FramePower, TowerTransmitter
from netfl.network.radio.present_values import PresentValues
from netfl.network.radio.reserved_slot import ReservedSlot
from netfl.network.radio.spectrum import FreeSpectrum, Spectrum
from netfl.network.radio.transmission import Frames, Signal, Transmission
from netfl.network.radio.transmit_path import TransmitPath, group_senders
from netfl.network.radio.tx_queue import TxQueue
from netfl.streams import Streams
from netfl.types import QUERIES, Bools, Floats, Ints, Users

_ROUNDING = 1e-9
"""Relative difference of airtimes that counts as none."""
_METRICS = (*QUERIES, "age")
"""Values of users that `netfl.network.mac.Mac.user_metrics` names, in place of ``observes``."""
UNLIMITED_AIRTIME = Fault(
    "rate",
    "missing: rates that follow the SNR have no slowest one, so a frame has no longest airtime, which slots need",
    None,
    "give it, or take a MAC without slots, such as fdma or round_robin",
)
"""Error of a reception whose rates follow the SNR under a MAC that needs the longest airtime."""


class Cell:
    """The users of one tower and their medium, numbered from 0; `ids` are their numbers in the network.

    Args:
        uplink: takes the messages that were received, at the end of their airtime.
        declared: values of users that its MAC may read or set, `netfl.network.mac.Mac.declared`; ``None`` for all.

    Attributes:
        transmit_path: frames of the cell on the air, and counts of their outcomes.
        quiet: whether the cell changes only by what its MAC does.
        controls: settings of the users by the caller of the simulation, by name, ``[size]`` each.
        is_present: whether each user is at the tower now, ``[size]``; one that is not sends nothing.  It is another
            array after each move.
        devices: what the MAC knows of its users that moves with them to other towers; ``None`` for nothing.
        shares_air: whether frames of other cells interfere.
        transmitter: the transmitter of the tower.
    """

    def __init__(
        self,
        env: Clock,
        air: AirInterface,
        queue: TxQueue,
        streams: Streams,
        uplink: Callable[[Message], None],
        declared: Collection[str] | None = None,
    ) -> None:
        self.env = env
        self.streams = streams
        self.tower = air.tower
        self.ids = queue.ids
        self.size = len(queue.ids)
        self.controls: Mapping[str, Floats] = {}
        self.is_present = np.ones(self.size, np.bool_)
        self.devices: DeviceState | None = None
        self._declared = declared
        self.user_metrics = {}
        self._values = PresentValues(env, air, queue)
        self._queue = queue
        self._medium = air.medium
        self._band = air.band
        self.shares_air = air.channel.is_shared
        self.transmitter = air.transmitter or TowerTransmitter(air.tower)
        self._transmitters = {each.tower: each.transmitter for each in air.hearers}
        self._connection = air.medium.connection
        self.transmit_path = TransmitPath(env, air, queue, streams, uplink, self._notify)
        self.quiet = queue.quiet and self._connection.steady and not self._medium.can_withhold
        self._changed = list[Users]()
        self._change = env.event()
        self._notify(np.flatnonzero(np.isfinite(queue.ready_s)))

    @property
    def ready_s(self) -> Floats:
        """Time from which each user has a frame to send, ``[size]``; infinity without one.  Do not write to it.

        It may lie ahead, as the end of a training is known at its start.
        """
        return self._queue.ready_s

    @property
    def clear_s(self) -> float:
        """Time at which the last frame that was put on the air ends."""
        return self.transmit_path.clear_s

    @property
    def airtime_s(self) -> float:
        """Longest airtime of a frame: that of the largest, in the slowest mode.

        Raises:
            ScenarioError: the rates of the reception follow the SNR, so that there is none.
        """
        if self._medium.follows_snr:
            raise ScenarioError([UNLIMITED_AIRTIME.under("reception")])
        return self._medium.longest_s(self._queue.max_bits, self.ids)

    @property
    def sums(self) -> bool:
        """True if the tower receives the sum of all frames that are sent at once, and no frame by itself."""
        return self._medium.sums

    def versions(self, users: Users) -> Ints:
        """Return the version from which each of *users* trained its update, ``[n]``; only where updates are whole."""
        return self._queue.versions(users)

    def all_ready_s(self) -> float:
        """Return the time at which all users that are connected now have the frames that they train for; 0 for none."""
        users = np.flatnonzero(np.isfinite(self.ready_s))
        is_connected = self._connection.can_send(self.ids[users], self.tower.number, self.env.now)
        return float(self.ready_s[users[is_connected]].max(initial=0.0))

    def end_unsummed(self, version: int) -> None:
        """End the updates from *version* or an older one that are not on the air: the sum is made without them."""
        is_waiting = np.isfinite(self.ready_s) & ~self.transmit_path.is_sending()
        users = np.flatnonzero(is_waiting)
        late = users[self.versions(users) <= version]
        if late.size:
            self._queue.withdraw(late, Ending("not_summed", self.tower.name), self.env.now)

    def check_power(self, users: Users, now_s: float) -> None:
        """Find out again when the batteries of *users* end their trainings, as they have paid for something else."""
        self._queue.check_power(users, now_s)

    @property
    def max_bits(self) -> float:
        """Size of the largest frame."""
        return self._queue.max_bits

    @property
    def follows_snr(self) -> bool:
        """True if users have no modes, and each sets its rate by its SNR."""
        return self._medium.follows_snr

    @property
    def mode_rates_bps(self) -> Floats:
        """Bit rate of each mode of the reception for the first user, ``[modes]``; one rate without modes."""
        first = self.ids[:1]
        rates_bps = [self._medium.mode_rates_bps(first, mode) for mode in range(self._medium.modes)]
        return np.array(rates_bps, float).reshape(self._medium.modes, -1)[:, 0]

    @property
    def has_fixed_sensing(self) -> bool:
        """True if `between_users_dbm` is now the same as whenever this was true before."""
        return self._medium.has_fixed_sensing

    @property
    def snr_gap_db(self) -> float:
        """SNR that the codes of the reception need above Shannon's limit, in dB."""
        return self._medium.snr_gap_db

    @property
    def transmissions(self) -> Sequence[Transmission]:
        """Transmissions on the air."""
        return tuple(self.transmit_path.transmissions)

    @property
    def user_metrics(self) -> Mapping[str, Floats]:
        """Metrics of the users, by name, ``[size]`` each; NaN where unknown, and empty before the first update.

        To read one that the MAC has not declared raises a `netfl.errors.ScenarioError`.
        """
        return self._user_metrics

    @user_metrics.setter
    def user_metrics(self, metrics: Mapping[str, Floats]) -> None:
        self._user_metrics = _DeclaredMetrics(metrics, self._check_declared)

    @property
    def changed(self) -> bool:
        """True if there are `changes`."""
        return bool(self._changed)

    def snr_db(self, users: Users) -> Floats:
        """Return the present SNR of each of *users* at the tower, ``[n]``: what a scheduler measures.

        Raises:
            ScenarioError: the MAC has not declared ``snr_db``.
        """
        self._check_declared("snr_db")
        return self._values.snr_db(users)

    def band_snr_db(self, users: Users) -> Floats:
        """Return the present SNR that each of *users* would have in the whole band of the cell, ``[n]``.

        `snr_db` is that in the bandwidth of its radio, which may differ from the band.

        Raises:
            ScenarioError: the MAC has not declared ``snr_db``.
        """
        return self._band.snr_db(self.ids[users], self.snr_db(users))

    def max_shares(self, users: Users) -> Floats:
        """Return the largest share of the band that the radio of each of *users* can use, ``[n]``."""
        return self._band.limits(self.ids[users])

    def shares_on_air(self) -> Floats:
        """Return the share of the band that the frame of each user on the air has, ``[size]``; 0 for no frame.

        Frames that end now, up to the rounding of the clock, are not on the air.
        """
        shares = np.zeros(self.size)
        until_s = after_rounding(self.env.now)
        for transmission, users in self.transmit_path.transmissions.items():
            if transmission.share is not None and transmission.end_s > until_s:
                shares[users] = self._band.shares(transmission.ids, transmission.share)
        return shares

    def free_spectrum(self) -> FreeSpectrum:
        """Return the parts of the band that no frame of the cell has; where cells share the air."""
        on_air = (transmission.spectrum for transmission in self.transmit_path.transmissions)
        return FreeSpectrum.beside(spectrum for spectrum in on_air if spectrum is not None)

    def modes(self, users: Users) -> Ints:
        """Return the mode of the reception in which each of *users* would send now, ``[n]``.

        Raises:
            ScenarioError: the MAC has not declared ``rate_bps``.
        """
        self._check_declared("rate_bps")
        return self._values.modes(users)

    def airtimes_s(self, users: Users, share: float | Floats | None = None) -> Floats:
        """Return the airtime of the next frame of each of *users* if it were sent now, ``[n]``.

        *share* is that of `attempt`; by default each sends in the whole band.

        Raises:
            ScenarioError: the MAC has not declared ``rate_bps``.
        """
        self._check_declared("rate_bps")
        return self._values.airtimes_s(users, share)

    def band_airtimes_s(self, users: Users) -> Floats:
        """Return the airtime of the next frame of each of *users* if its mode had the rate of the whole band, ``[n]``.

        It is 1 / s of that in a share s, in the mode that the user would pick in the bandwidth of its radio.

        Raises:
            ScenarioError: the MAC has not declared ``rate_bps``.
        """
        return self._band.airtimes_s(self.ids[users], self.airtimes_s(users))

    def delays_s(self, users: Users) -> Floats:
        """Return the present propagation delay of each of *users*, ``[n]``; 0 where it is negligible."""
        delays_s = self._medium.delay_s(self.ids[users], self.tower, self.env.now)
        return np.zeros(len(users)) if delays_s is None else delays_s

    def between_users_dbm(self, user: int) -> Floats:
        """Return the present power of a user at each user of the cell, ``[size]``; infinity without a radio."""
        return self._medium.between_users_dbm(int(self.ids[user]), self.ids, self.env.now)

    def connected(self, users: Users) -> Bools:
        """Return whether each of *users* and the tower, or another that hears it, are up now, ``[n]``.

        Raises:
            ScenarioError: the MAC has not declared ``user_up``.
        """
        self._check_declared("user_up")
        return self._values.can_send(users)

    def backlog_lengths(self) -> Ints:
        """Return the number of frames that each user can send now, or is sending, ``[size]``.

        Raises:
            ScenarioError: the MAC has not declared ``backlog``.
        """
        self._check_declared("backlog")
        return self._values.backlog_lengths()

    def backlog(self) -> Users:
        """Return the users that have a frame to send now and are not sending, one frame at a time."""
        self._queue.refresh(self.env.now)
        return np.flatnonzero(self._idle_from_s() <= after_rounding(self.env.now))

    def wait_for_backlog(self) -> simpy.Event:
        """Return an event that fires as soon as there is a backlog, at once if there is one."""
        return self.env.process(self._until_backlog())

    def sizes(self, users: Users) -> Sequence[float]:
        """Return the sizes of the next frames of *users*; a single one where all are equal."""
        bits = self._queue.bits(users)
        return (bits,) if isinstance(bits, float) else bits.tolist()

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
            end_s = self.transmit_path.ending_s()
            if end_s is None:
                _trigger(event)
            else:  # frames of this instant come first
                call_at(self.env, math.nextafter(max(end_s, self.env.now), math.inf), fire)

        call_at(self.env, time_s, fire)
        return event

    def changes(self) -> Users:
        """Return the users with a new ``ready_s`` or a failed attempt since the last call; some may occur twice."""
        changed = self._changed
        self._changed = []
        if len(changed) == 1:
            return changed[0]
        return np.concatenate([np.empty(0, np.int64), *changed])

    def wait_for_change(self, by_s: float = np.inf) -> simpy.Event:
        """Return an event that fires when there are `changes`, at once if there are any, at *by_s* at the latest.

        Frames that end at *by_s*, up to the rounding of the clock, have ended by then.
        """
        if self._changed:
            return self.env.timeout(0)
        if self.quiet and by_s < np.inf and not self.transmit_path.transmissions:  # nothing can change before
            return self.env.timeout(max(0.0, by_s - self.env.now))
        event = self._change = self.env.event()

        def expire(_: simpy.Event) -> None:
            if self.transmit_path.ending_s() is None:  # the end of a frame is a change
                _trigger(event)

        if by_s < np.inf:
            call_at(self.env, by_s, expire)
        return event

    def drop_silent(self, users: list[int]) -> list[int]:
        """Return those of *users* that send if they are let, and defer the others.

        These are disconnected until the end of an outage, or withhold their frames until their channels change.
        """
        if self._connection.steady and not self._medium.can_withhold:
            return users
        numbers = np.asarray(users, np.int64)
        power = self._medium.frame_power(self.ids[numbers], self.tower, self.env.now)
        is_sending = self._defer_silent(numbers, power, self.env.now)
        if is_sending is None:
            return users
        return [int(user) for user in numbers[is_sending]]

    def attempt(
        self,
        users: Users | Sequence[int],
        *,
        duration_s: ArrayLike | None = None,
        limit: int | None = None,
        channel: ArrayLike = 0,
        mode: ArrayLike | None = None,
        begin_s: float = 0.0,
        share: float | Floats | None = None,
        spectrum: Spectrum | None = None,
        slot: ReservedSlot | None = None,
        power_db: ArrayLike | None = None,
        is_group: bool = False,
    ) -> simpy.Event:
        """Let *users* send; return an event that fires at the end with whether each frame was received, ``[n]``.

        Attempts may overlap; those on the same channel interfere, and the medium decides which are received.  A user
        that is disconnected at the start, as itself or the tower is down, notices it: it sends nothing, does not
        interfere, and has its ``ready_s`` moved to the end of that outage.  So does one whose power control withholds
        its frame, until its channel changes.  If nobody sends, the event fires at once.

        Args:
            users: the senders, which must be in the backlog.
            duration_s: airtime, one for all or one for each; by default that of each frame in its mode.
            limit: number of attempts that a frame has before it is given up; by default no limit.
            channel: number of a band, one for all or one for each; each has the whole bandwidth.  Gains and noise may
                differ between the frequency channels that the MAC states, `netfl.network.mac.Mac.channels_hz`.
            mode: mode of the reception, one for all or one for each; by default each sender chooses.
            begin_s: start; 0 for now.  It may lie ahead in a `quiet` cell only, where nothing can come in between.
                Where the clock has missed it by rounding, at most 2e-9 of the present time, airtimes end as if it were
                met, so that rounding does not add up.
            share: fraction of the band that each sender has to itself, one for all or one for each, so that nobody
                interferes: it has that fraction of the rate of its mode, and of the noise.  The shares of all frames on
                the air add up to at most 1, and all attempts of the cell have shares.  None is larger than the radio of
                the sender can use, `max_shares`.  By default each sender has the whole band, together with the others.
            spectrum: places of the shares in the band, by which frames of other cells interfere if `shares_air`; by
                default side by side in its lowest free parts, in the order of *users*.
            slot: slot of a schedule that the sender has to itself.  It begins at the tower, so that the sender begins
                a propagation delay, `delays_s`, before.  A longer frame continues in the sender's next slots.
            power_db: power of each sender above that of its radio, one for all or one for each, of which more than 0 is
                clipped.  By default the power control decides.
            is_group: whether the tower lets them send at once as a group, in the whole band.  Those on one channel then
                choose their modes and rates by `netfl.network.interference.Interference.scheduled_snr`, so that each
                knows the interference of the others.
        """
        users = np.asarray(users, np.int64)
        if share is not None and self.shares_air and spectrum is None:
            spectrum = self.free_spectrum().place_in_order(np.full(len(users), share))
        if share is not None:  # from here on, a fraction of the bandwidth of each radio
            share = self._band.radio_shares(self.ids[users], share)
        received = np.zeros(len(users), np.bool_)
        now_s = self.env.now
        start_s = begin_s if begin_s > now_s else now_s
        self._queue.refresh(start_s)

        # users that are disconnected notice it and send nothing, as those do that withhold their frames
        senders = users
        places: Sequence[int] = range(len(users))
        wanted_db = None
        if power_db is not None:
            wanted_db = self._checked_power_db(power_db, len(users))
        power = self._medium.frame_power(self.ids[users], self.tower, start_s, share, wanted_db)
        is_sending = self._defer_silent(users, power, start_s)
        if is_sending is not None and not is_sending.all():
            places = np.flatnonzero(is_sending).tolist()
            if not places:
                return self.env.timeout(0.0, received)  # nobody sends, and the air stays free
            senders = users[places]
            channel = _select(channel, places)
            mode = _select(mode, places)
            duration_s = _select(duration_s, places)
            share = _select(share, places)
            power = None if power is None else power.select(places)
            spectrum = None if spectrum is None else spectrum.select(places)

        # the others have a propagation delay, choose their modes, and so know their airtimes
        ids = self.ids[senders]
        delay_s = self._signal_delays_s(ids, start_s, slot)
        if self._medium.modes == 1:  # whatever modes the MAC has
            mode = 0
        elif mode is None:
            mode = self._values.chosen_modes(ids, start_s, share, power, channel, is_group=is_group)
        if duration_s is None:
            duration_s = self._values.frame_airtimes_s(senders, mode, start_s, share, power, channel, is_group=is_group)
            if isinstance(duration_s, np.ndarray) and share is not None:
                duration_s = _equal_after_rounding(duration_s)

        # those alike in all of this are one transmission, which the transmit path puts on the air
        end: simpy.Event | None = None
        for group in group_senders(senders, ids, places, channel, mode, delay_s, duration_s, share, spectrum, power):
            group.slot = slot
            end = self.transmit_path.send(group, start_s, begin_s or start_s, limit, received)
        assert end is not None
        return end

    @property
    def jamming(self) -> Jamming | None:
        """The jammer that users hear who listen before they send; ``None`` for none."""
        return self._medium.jamming

    def jammer_dbm(self) -> Floats:
        """Return the present power of the jammer at each user of the cell, ``[size]``."""
        assert self._medium.jamming is not None
        return self._medium.jamming.at_users_dbm(self.ids, self.env.now)

    def give_up(self, user: int) -> None:
        """End the next frame of a user as ``given_up``, because the medium was never free to send it.

        It counts as no attempt, but as an access failure.
        """
        self.transmit_path.give_up(np.array([user]), self.env.now)

    def frame_on_air(self, user: int) -> Frames:
        """Return the frame that a user has just begun to send, as one to `repeat`."""
        transmission = next(reversed(self.transmit_path.transmissions))
        frames = transmission.frames
        place = transmission.ids.tolist().index(int(self.ids[user]))

        def of_user(values: Any) -> Any:
            return values if np.ndim(values) == 0 else values[place]

        bits = float(of_user(frames.bits))
        return Frames(
            np.array([user]), bits, None, int(of_user(frames.base)), of_user(frames.traffic), is_duplicate=True
        )

    def can_repeat(self, user: int) -> bool:
        """Return whether a user is at the tower and can send, so that it can `repeat` a frame."""
        ids = self.ids[[user]]
        can_send = self._connection.can_send(ids, self.tower.number, self.env.now)[0]
        if not (self.is_present[user] and can_send):
            return False
        power = self._medium.frame_power(ids, self.tower, self.env.now)
        return power is None or not power.is_withheld[0]

    def repeat(self, user: int, frame: Frames, duration_s: float, *, channel: int = 0, mode: int = 0) -> simpy.Event:
        """Let a user send a *frame* again that the tower has received, as it does not know that.

        The event is that of `attempt`.  Ask `can_repeat` before.
        """
        users = np.array([user])
        ids = self.ids[users]
        now_s = self.env.now
        if self._medium.modes == 1:
            mode = 0
        delay_s = self._medium.delay_s(ids, self.tower, now_s)
        self._queue.log.uplink_bits += float(np.sum(frame.bits))
        power = self._medium.frame_power(ids, self.tower, now_s)
        (group,) = group_senders(users, ids, range(1), channel, mode, delay_s, duration_s, power=power)
        return self.transmit_path.send(group, now_s, now_s, None, np.zeros(1, np.bool_), frame)

    def request(self, user: int, bits: float, duration_s: float, *, mode: int, limit: int | None) -> simpy.Event:
        """Let a user ask the tower whether it may send its next frame (RTS); the event is that of `attempt`.

        A request that is received counts as no attempt.  One that is not counts as a failed attempt of the frame, if
        the user still has it.  Ask `drop_silent` before.
        """
        users = np.array([user])
        ids = self.ids[users]
        now_s = self.env.now
        if self._medium.modes == 1:
            mode = 0
        delay_s = self._medium.delay_s(ids, self.tower, now_s)
        (group,) = group_senders(users, ids, range(1), 0, mode, delay_s, duration_s)
        return self.transmit_path.request(group, bits, limit)

    def answer(self, duration_s: float) -> None:
        """Let the tower answer a frame of its users for *duration_s*, in which it receives nothing."""
        receiver = self.transmitter.receiver
        if receiver is not None:
            receiver.begin_answer(self.env.now, self.env.now + duration_s)

    def answering(self, user: int) -> TowerTransmitter:
        """Return the transmitter of the tower that answers a user: that of the strongest copy of its last frame.

        The user has not moved since that was received.
        """
        receivers = self.transmit_path.receivers
        if receivers is None:
            return self.transmitter
        return self._transmitters[receivers.strongest[int(self.ids[user])]]

    def can_answer(self, transmitter: TowerTransmitter) -> bool:
        """Return whether a tower is up and sends nothing, so that it can `send_down`."""
        now_s = self.env.now
        is_free = transmitter.sends_until_s <= after_rounding(now_s)
        return is_free and self._connection.is_node_up(transmitter.tower.number, now_s)

    def send_down(
        self, transmitter: TowerTransmitter, user: int, bits: float, duration_s: float, mode: int = 0
    ) -> bool:
        """Let a tower send a frame to a user from now on; return whether the user receives it, at its end.

        The signal has the SNR of that of the user.  Ask `can_answer` before.
        """
        tower = transmitter.tower
        now_s = self.env.now
        end_s = now_s + duration_s
        users = np.array([user])
        transmitter.send(now_s, end_s)
        self._queue.log.downlink_bits += bits
        self.pay_for_reception(users, duration_s, is_tower_up=True)
        rate_bps = bits / duration_s if self._medium.follows_snr else None
        signal = Signal(tower, now_s, end_s, bits, min(mode, self._medium.modes - 1), rate_bps=rate_bps)
        is_sent = self._connection.is_up_during(tower.number, now_s, end_s)
        return bool(self._medium.downlink_received(self.ids[users], signal, is_sent=is_sent)[0])

    def pay_for_reception(
        self, users: Users, duration_s: float, *, is_tower_up: bool, start_s: float | None = None
    ) -> None:
        """Let those of *users* that listen pay for receiving a frame that arrives from now on, or from *start_s*."""
        energy = self._medium.energy
        if energy is None:
            return
        now_s = self.env.now
        is_listening = self._connection.listening(self.ids[users], now_s, is_tower_up=is_tower_up)
        listeners = users[is_listening]
        ids = self.ids[listeners]
        paid_s: float | Floats = duration_s
        shares = self._connection.receive(ids, now_s, duration_s)
        if shares is not None:
            paid_s = duration_s * shares
            self.check_power(listeners, now_s)
        energy.receive(ids, paid_s, start_s)

    def pay_for_ideal_reception(self, users: Users) -> None:
        """Let those of *users* that listen pay for a version on an ideal downlink, which arrives now."""
        energy = self._medium.energy
        if energy is not None and energy.broadcast_s:
            start_s = self.env.now - energy.broadcast_s
            self.pay_for_reception(users, energy.broadcast_s, is_tower_up=True, start_s=start_s)

    def wake(self, users: Users) -> None:
        """Report changed frames of *users* to the MAC; for those on the air it learns of them at the end."""
        self._notify(users[~self.transmit_path.is_sending()[users]])

    def set_controls(self, controls: Mapping[str, Floats]) -> None:
        """Set `controls`, and let the MAC look at all users again if any has changed.

        The band is divided among the users that are present now: one that comes later has no share until the next call.
        """
        if "share" in controls and not self.is_present.all():
            controls = {**controls, "share": np.where(self.is_present, controls["share"], 0.0)}
        is_same = controls.keys() == self.controls.keys() and all(
            np.array_equal(values, self.controls[name]) for name, values in controls.items()
        )
        if is_same:
            return
        self.controls = controls
        self.wake(np.arange(self.size))

    def finish(self, others: Sequence[Transmission] = ()) -> None:
        """End all frames at the end of the run; *others* are the `transmissions` of cells that share the queue."""
        on_air = [transmission.frames for transmission in (*others, *self.transmissions)]
        self._queue.finish(self.env.now, [frames for frames in on_air if not frames.is_duplicate])

    def _signal_delays_s(self, ids: Ints, start_s: float, slot: ReservedSlot | None) -> Floats | None:
        """Return the time from *start_s* until the signal of each user begins to arrive, ``[n]``; ``None`` for none."""
        delay_s = self._medium.delay_s(ids, self.tower, start_s)
        if slot is None or delay_s is None:
            return delay_s
        return np.full(len(ids), slot.start_s - start_s)  # the tower corrects the timing of users that move

    def _notify(self, users: Users) -> None:
        """Note changed frames of *users*, and wake the MAC."""
        if users.size:
            self._changed.append(users)
            _trigger(self._change)

    def _check_declared(self, name: str) -> None:
        """Raise an error if the MAC reads a value of users that it has not declared."""
        if self._declared is None or name in self._declared:
            return
        declared = " and ".join(sorted(self._declared)) or "nothing"
        members = "`user_metrics`" if name in _METRICS else "`observes`"
        problem = f"it reads {name} of users, but declares {declared}"
        raise self._error(problem, None, f"add {name} to {members} of the MAC")

    def _checked_power_db(self, power_db: ArrayLike, users: int) -> Floats:
        """Return the powers that the MAC gives frames, ``[users]``."""
        if self._declared is not None and "power_db" not in self._declared:
            raise self._error("it gives frames a power, but does not state it", None, "set sets_power of the MAC")
        values = np.asarray(power_db, float)
        if values.shape not in {(), (users,)} or not np.isfinite(values).all():
            remedy = "give the power of each frame above that of the radio in dB, such as -3"
            raise self._error(f"it gives {users} frames these powers", power_db, remedy)
        return np.broadcast_to(values, users)

    def _error(self, problem: str, value: object, remedy: str) -> ScenarioError:
        """Return the error of a MAC that violates its contract now."""
        problem = f"at {self.env.now:.6g} s of simulated time: {problem}"
        return ScenarioError([Fault("mac", problem, value, remedy)])

    def _idle_from_s(self) -> Floats:
        """Time from which each user has a frame to send, ``[size]``; infinity for those that are sending."""
        return np.where(self.transmit_path.is_sending(), np.inf, self.ready_s)

    def _until_backlog(self) -> Generator[simpy.Event, Any, None]:
        while not self.backlog().size:
            self.changes()  # a MAC that waits for work does not ask for changes
            yield self.wait_for_change(self._idle_from_s().min())

    def _defer_disconnected(self, users: Users, now: float) -> Bools:
        """Return whether each of *users* can send now; if any cannot, defer all of the backlog that cannot."""
        connected = self._connection.can_send(self.ids[users], self.tower.number, now)
        if not connected.all():
            waiting_users = np.union1d(self.backlog(), users)  # one ready at this instant may be so a step later
            is_waiting_connected = self._connection.can_send(self.ids[waiting_users], self.tower.number, now)
            away = waiting_users[~is_waiting_connected]
            self._queue.defer(away, self._connection.can_send_from(self.ids[away], self.tower.number, now))
            self._notify(away)
        return connected

    def _defer_silent(self, users: Users, power: FramePower | None, now_s: float) -> Bools | None:
        """Defer those of *users* that cannot send, or whose *power* lets them withhold their frames.

        Returns:
            Whether each of the users sends, ``[n]``; ``None`` if all do.
        """
        if self._connection.steady and power is None:
            return None
        is_connected = self._defer_disconnected(users, now_s)
        if power is None:
            return is_connected
        is_withheld = power.is_withheld & is_connected
        if is_withheld.any():
            waiting_users = users[is_withheld]
            if not self.sums:  # what a sum leaves out ends
                self._queue.defer(waiting_users, np.full(len(waiting_users), self._medium.next_change_s(now_s)))
            self.transmit_path.power_counts["withheld"][waiting_users] += 1
            self._notify(waiting_users)
        return is_connected & ~is_withheld


class _DeclaredMetrics(Mapping[str, Floats]):
    """Metrics of users, of which a MAC reads those that it has declared.

    Args:
        metrics: the metrics, by name, ``[size]`` each.
        check_declared: raises an error for a name that the MAC has not declared.
    """

    def __init__(self, metrics: Mapping[str, Floats], check_declared: Callable[[str], None]) -> None:
        self._metrics = metrics
        self._check_declared = check_declared

    def __getitem__(self, name: str) -> Floats:
        self._check_declared(name)
        return self._metrics[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._metrics)

    def __len__(self) -> int:
        return len(self._metrics)


def _select(values: Any, places: Sequence[int]) -> Any:
    """Return the values of those in *places*; one value for all stays one, and ``None`` stays ``None``."""
    if values is None or np.ndim(values) == 0:
        return values
    return np.asarray(values)[places]


def _equal_after_rounding(durations_s: Floats) -> Floats:
    """Return durations of which those that differ by rounding alone are equal, to the largest of them.

    Shares that let all frames end together are quotients.  A draw decides the order of frames that end together, not
    the rounding of these quotients.

    >>> durations_s = _equal_after_rounding(np.array([1.0, 2.0, 1.0 + 1e-15]))
    >>> bool(durations_s[0] == durations_s[2]), float(durations_s[1])
    (True, 2.0)
    """
    order = np.argsort(durations_s)
    ascending_s = durations_s[order]
    is_last = np.append(ascending_s[1:] > ascending_s[:-1] * (1.0 + _ROUNDING), True)
    last = np.flatnonzero(is_last)
    merged_s = np.empty_like(durations_s)
    merged_s[order] = ascending_s[last[np.searchsorted(last, np.arange(len(order)))]]
    return merged_s


def _trigger(event: simpy.Event) -> None:
    if not event.triggered:
        event.succeed()
