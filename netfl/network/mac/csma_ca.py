"""CSMA/CA: the distributed coordination function of IEEE 802.11.

Next on the way of a frame: `netfl.network.radio.cell.Cell.attempt`.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from heapq import heappop, heappush
from math import ceil, inf
from operator import attrgetter
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
import simpy
from pydantic import Field

from netfl.errors import Fault
from netfl.network.mac import IdleTime, Mac
from netfl.network.radio.bench import BenchSetup, MacTestBench, saturated_users
from netfl.network.radio.cell import Cell
from netfl.streams import Streams
from netfl.types import Bools, Floats, Law, ScenarioFacts, Users
from netfl.units import Bitrate, Bits

_NS = 1e-9
_SLACK_S = 1e-8
"""Rounding error of the clock at an instant."""
_DRAWS = 4096
_COLLISION = attrgetter("collision")
_CACHED_SIZES = 256
"""Frame sizes whose timing is cached."""
_HEADER_BITS = 36 * 8
"""MAC header 24, LLC and SNAP 8, frame check sequence 4 bytes."""
_MAX_PAYLOAD_BITS = (2304 - 8) * 8.0
"""An MSDU has 2304 bytes at most (IEEE 802.11-2020 §9.2.4.8), of which LLC and SNAP take 8."""
_RETRY_LIMIT = 7
"""Failures in a row, of several frames, after which CW is reset without ``max_attempts``: dot11ShortRetryLimit."""

Standard = Literal["802.11a", "802.11b", "802.11g"]

ACK_BITS, RTS_BITS, CTS_BITS = 112, 160, 112
"""Control frames, IEEE 802.11-2020 §9.3.1."""


@dataclass(frozen=True)
class PhyTiming:
    """Timing of one physical layer of IEEE 802.11, in ns; rates in Mb/s.

    Args:
        preamble: preamble and header before the first bit of a frame.
        symbol: airtimes are rounded up to a multiple of it.
        extra_bits: bits that the physical layer adds to each frame.
        tail: silence that belongs to each frame.
        rates: data rates, the default first.
        control: rates of ACK, RTS and CTS, the one for the default data rate first.
        slowest: rate at which an unknown ACK is assumed to be sent.
        cw: minimum and maximum contention window.
        decodes: whether stations that receive a collision treat it as a frame in error.
    """

    slot: int
    sifs: int
    preamble: int
    symbol: int
    extra_bits: int
    tail: int
    rates: tuple[float, ...]
    control: tuple[float, ...]
    slowest: float
    cw: tuple[int, int]
    decodes: bool

    @property
    def difs(self) -> int:
        """SIFS and two slots."""
        return self.sifs + 2 * self.slot

    @property
    def timeout(self) -> int:
        """Time from the end of a frame until its sender knows that no answer comes (§10.3.2.11)."""
        return self.sifs + self.slot + self.preamble

    @property
    def eifs(self) -> int:
        """Extended inter-frame space after a frame in error (§10.3.2.3.7)."""
        return self.sifs + self.airtime(ACK_BITS, self.slowest) + self.difs

    def airtime(self, bits: float, rate: float) -> int:
        """Return the airtime of a frame of *bits*, MAC header included."""
        bits_per_symbol = rate * self.symbol / 1000.0
        symbols = ceil((bits + self.extra_bits) / bits_per_symbol - 1e-9)  # exact multiples despite rounding
        return self.preamble + symbols * self.symbol + self.tail

    def control_rate(self, rate: float) -> float:
        """Return the highest control rate that is not above the data rate *rate*."""
        return max((control for control in self.control if control <= rate), default=self.slowest)


_OFDM = (6.0, 9.0, 12.0, 18.0, 24.0, 36.0, 48.0, 54.0)
_DSSS = (11.0, 5.5, 2.0, 1.0)

PHYS: dict[Standard, PhyTiming] = {
    "802.11a": PhyTiming(
        slot=9_000,
        sifs=16_000,
        preamble=20_000,
        symbol=4_000,
        extra_bits=22,
        tail=0,
        rates=_OFDM,
        control=(6.0, 12.0, 24.0),
        slowest=6.0,
        cw=(15, 1023),
        decodes=False,
    ),
    "802.11b": PhyTiming(
        slot=20_000,
        sifs=10_000,
        preamble=192_000,
        symbol=1_000,
        extra_bits=0,
        tail=0,
        rates=_DSSS,
        control=_DSSS,
        slowest=1.0,
        cw=(31, 1023),
        decodes=True,
    ),
    "802.11g": PhyTiming(
        slot=9_000,
        sifs=10_000,
        preamble=20_000,
        symbol=4_000,
        extra_bits=22,
        tail=6_000,
        rates=_OFDM[::-1],
        control=(24.0, 12.0, 6.0),
        slowest=6.0,
        cw=(15, 1023),
        decodes=False,
    ),
}
"""802.11a: OFDM at 5 GHz (§17).  802.11b: DSSS and CCK with the long preamble (§16).  802.11g: ERP-OFDM alone, short
slots, with 6 µs of signal extension after each frame (§18)."""


@dataclass(frozen=True, slots=True)
class FrameTiming:
    """Durations around one frame, in ns.

    Args:
        success: from the beginning of a sequence to the end of its ACK.
        lead: RTS and CTS before the data frame.
        collision: from the beginning to the end of the colliding frames.
        timeout: from there until the colliders count slots again.
        bystanders: from there until the others count slots again.
    """

    success: int
    data: int
    lead: int
    collision: int
    timeout: int
    bystanders: int


class CsmaCa(Mac):
    """The DCF of IEEE 802.11-2020 §10.3: listen, wait a random number of idle slots, send, double the wait on failure.

    **Backoff.**  A station draws a number of slots, uniform on 0 … CW, and counts it down in idle slots.  Counters
    freeze while the medium is busy; a slot in which a station begins to send counts for no station, so the slot right
    after a success can be used only by its winner, which may have drawn 0.  (In Bianchi's chain, IEEE J-SAC 18(3),
    2000, a busy slot counts, which changes throughputs by a few per cent.)  After each of its frames a station
    draws a new number, with or without another frame.  A frame that finds the medium idle for DIFS, and its station's
    counter at zero, is sent at once.

    **The window.**  CW is doubled, 2 CW + 1, with every failure up to its maximum.  A success resets it, and
    so does an outage.  A frame that is given up after ``max_attempts`` or abandoned does not: CW continues with the
    next frame, until the station has failed once more than ``max_attempts`` times in a row (§10.3.3 and §10.3.4.4, in
    the form that §10.23.2.2 gives for the retry counter of a QoS station).  Without ``max_attempts`` a frame keeps its
    CW for as long as it is sent; once it is abandoned, CW is reset after more than 7 failures in a row, the default of
    the standard's retry limit.  With ``edition: 2016`` CW is reset whenever a frame is given up or abandoned, as
    §10.3.3 of that edition is commonly read.

    **Frames.**  The payload with 36 bytes of MAC and LLC headers, at the rate of the standard's physical layer, then
    SIFS and ACK; with ``rts`` larger frames are preceded by RTS and CTS.  All stations of a cell sense each other.  One
    frame holds at most 2304 bytes of MSDU, 2296 of payload.  A larger update is sent in several frames, each of which
    contends separately (``access.transport``).  With ``max_attempts`` the first of them that is given up ends the
    update, unless the transport has an ``arq``.

    **After a collision.**  The colliders wait for the end of the ACK (CTS) time-out, which lasts SIFS, a slot and the
    preamble (§10.3.2.11), and then for DIFS, before they count slots (§10.3.4.3).  With ``edition: 2016`` they count
    from the end of the time-out, as the medium has been idle for longer than DIFS by then.  The bystanders wait DIFS
    if they cannot decode the overlapping preambles and only sense energy (OFDM), or EIFS if they
    take the collision for a frame in error (DSSS; §10.3.2.3.7); ``after_collision`` overrides this.  The bystanders of
    a frame that fades alone decode it and leave room for its ACK; after a captured frame all wait for its ACK.

    **Idle time.**  Counters run in idle time, after DIFS, until they are at zero; the window does not change.

    **Propagation.**  All stations notice the begin and the end of a frame at the same time, when its end has arrived at
    the tower, as the standard assumes of delays that are short against a slot.  Longer delays are warned of.

    Example::

        kind: csma_ca
        standard: 802.11a
        max_attempts: 7
    """

    standard: Standard = "802.11a"
    """Timing: 802.11a, 802.11b (long preamble) or 802.11g (without 802.11b stations)."""
    rate: Annotated[Bitrate, Field(gt=0)] | None = None
    """Rate of the data, one of the standard's; by default 6 Mbps (802.11a), 11 Mbps (802.11b), 54 Mbps (802.11g)."""
    rts: Annotated[Bits, Field(ge=0)] | None = None
    """Payloads larger than this are preceded by RTS and CTS; ``null``: none."""
    max_attempts: Annotated[int, Field(ge=1)] | None = None
    """Attempts after which a frame is given up; ``null`` is no limit."""
    edition: Literal[2016, 2020] = 2020
    """Edition of IEEE 802.11 whose rules apply after a failure; 2016 is closer to Bianchi's model."""
    after_collision: Literal["difs", "eifs"] | None = None
    """Wait of bystanders after a collision; ``null`` follows the physical layer."""

    @property
    def rate_bps(self) -> float:
        return self._rate_mbps * 1e6

    @property
    def max_payload_bits(self) -> float:
        return _MAX_PAYLOAD_BITS

    @property
    def idle_time(self) -> IdleTime:
        return "expires"

    @property
    def attempt_limit(self) -> int | None:
        return self.max_attempts

    @property
    def has_carrier_sense(self) -> bool:
        return True

    @property
    def observes(self) -> tuple[str, ...]:
        return ("user_up",)

    @property
    def observer(self) -> Literal["tower", "users"]:
        return "users"

    @property
    def keeps_window(self) -> bool:
        """True if the window continues after a drop, and colliders wait DIFS after the time-out."""
        return self.edition == 2020

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        rates = PHYS[self.standard].rates
        if self._rate_mbps not in rates:
            listed = ", ".join(f"{rate:g}" for rate in sorted(rates))
            yield Fault("rate", f"{self.standard} has no such rate", self.rate, f"one of {listed} Mbps")

    def max_frames_hz(self, airtime_s: float, longest_s: float, delay_s: float) -> float:
        if self.max_attempts is not None:  # frames that are given up leave, too
            return inf
        return 1.0 / airtime_s

    def late_frame_warnings(self, mean_s: float, longest_s: float, delay_s: float) -> Iterator[str]:
        slot_s = PHYS[self.standard].slot * _NS
        if delay_s > slot_s:
            yield (
                f"csma_ca: signals travel for up to {delay_s:.3g} s, longer than a slot of {slot_s:.3g} s, but "
                "stations are modelled as sensing each other at once; take a MAC that does not listen before it sends"
            )

    def frame_timing(self, bits: float) -> FrameTiming:
        """Return the durations around a frame with *bits* of payload."""
        phy = PHYS[self.standard]
        control_rate = phy.control_rate(self._rate_mbps)
        data = phy.airtime(bits + _HEADER_BITS, self._rate_mbps)
        ack = phy.airtime(ACK_BITS, control_rate)
        if self.rts is not None and bits > self.rts:
            rts = phy.airtime(RTS_BITS, control_rate)
            lead = rts + phy.sifs + phy.airtime(CTS_BITS, control_rate) + phy.sifs
            colliding = rts  # data frames follow a CTS only
        else:
            lead = 0
            colliding = data
        timeout = phy.timeout
        if self.keeps_window:  # colliders wait DIFS after the time-out (2020, §10.3.4.3)
            timeout += phy.difs
        has_eifs = phy.decodes if self.after_collision is None else self.after_collision == "eifs"
        return FrameTiming(
            success=lead + data + phy.sifs + ack,
            data=data,
            lead=lead,
            collision=colliding,
            timeout=timeout,
            bystanders=phy.eifs if has_eifs else phy.difs,
        )

    def serve(self, cell: Cell) -> Generator[simpy.Event, Any, None]:
        contention = Contention(cell, self)
        cell.devices = contention
        return contention.serve()

    def laws(self) -> tuple[Law, ...]:
        """Claim the cycle of a lone station; the standard's freezing rule has no closed form for more stations.

        A cycle lasts T = DIFS + k slots + frame, SIFS and ACK, k uniform on 0 … CWmin, so that
        Var T = slot² CWmin (CWmin + 2) / 12.
        """
        phy = PHYS[self.standard]
        shortest_s = (phy.difs + self.frame_timing(1.0).success) * 1e-9
        slot_s = phy.slot * 1e-9
        cw_min = phy.cw[0]

        def cdf(cycle_s: Floats) -> Floats:
            slots = np.floor((np.asarray(cycle_s) - shortest_s) / slot_s + 1e-3)
            return np.asarray(np.clip(slots + 1, 0, cw_min + 1) / (cw_min + 1))

        def cycles(streams: Streams, size: int) -> Floats:
            bench = MacTestBench(BenchSetup(self, 1, shortest_s, streams), saturated_users)
            while len(bench.deliveries) <= size:
                bench.env.step()
            return np.round(np.diff([received_s for _, _, received_s in bench.deliveries]), 9)  # whole nanoseconds

        return (
            Law(
                "time from success to success of a lone station, s",
                "DIFS + k slots + frame, SIFS and ACK, with k uniform on 0 … CWmin; "
                "more stations: scenarios/validation/dcf.yaml, beside a slot-exact reference",
                draw=cycles,
                mean=shortest_s + slot_s * cw_min / 2,
                variance=slot_s**2 * cw_min * (cw_min + 2) / 12,
                cdf=cdf,
            ),
        )

    @cached_property
    def _rate_mbps(self) -> float:
        return PHYS[self.standard].rates[0] if self.rate is None else self.rate / 1e6


@dataclass(slots=True)
class _Countdown:
    """A station whose slots do not begin with those of the others; times are ns from the begin of the idle period.

    Args:
        begin: time at which it begins to count.
        slots: number of slots that it counts.
        user: the station.
    """

    begin: int
    slots: int
    user: int

    def end(self, slot: int) -> int:
        """Return the time at which its counter runs out, with slots of *slot* ns."""
        return self.begin + self.slots * slot


class _SendingStation(NamedTuple):
    """A station whose frame is on the air, or has just ended.

    Args:
        ready_s: time from which it has the frame.
        received: outcome of each frame that was sent with it.
        place: its place among them.
    """

    ready_s: float
    received: Bools
    place: int


class Contention:
    """The stations of one cell that count down idle slots.

    Times within an idle period are whole nanoseconds from its beginning, so slots never drift apart.  Stations that
    wait with frozen counters are sorted by the *virtual slot* in which their counter runs out: the number of idle slots
    counted since the start of the run.  Virtual time stops in a busy period, which freezes all counters at no
    cost.  An event costs one heap operation, whatever the number of stations.

    A station that moves to another cell takes its window, its failures and the slots that it has left along.  There it
    waits for DIFS before it counts them.
    """

    def __init__(self, cell: Cell, mac: CsmaCa) -> None:
        phy = PHYS[mac.standard]
        self._cell = cell
        self._limit = mac.max_attempts
        self._max_failures_in_row = mac.max_attempts or _RETRY_LIMIT
        self._keeps_window = mac.keeps_window
        self._timing = lru_cache(_CACHED_SIZES)(mac.frame_timing)
        self._slot = phy.slot
        self._difs = phy.difs
        self._cw_min, self._cw_max = phy.cw
        self._uniforms = _uniforms(cell.streams.rng("backoff"))

        # the present idle period
        self._wait = phy.difs  # idle time before slots are counted
        self._idle_since_s = 0.0
        self._period = 0  # its number
        self._virtual = 0  # idle slots counted before it
        self._is_busy = False  # whether it has ended, and the next one has not begun

        # of each station
        self._window = [self._cw_min] * cell.size
        self._failures = [0] * cell.size  # of the current frame
        self._failures_in_row = [0] * cell.size  # of any frames, since the window was reset
        self._due = [-1] * cell.size  # virtual slot in which the counter runs out
        self._drawn = [-1] * cell.size  # idle period before which the counter was drawn
        self._is_queued = [False] * cell.size  # whether it has a frame and contends
        self._was_waiting: set[int] = set()  # stations cut off with a frame: they back off when they are up again
        self._slots_left: dict[int, int] = {}  # of stations that have come with a frame, until they join
        self._sending: dict[int, _SendingStation] = {}

        # stations by the time at which they send
        self._frozen: list[tuple[int, int]] = []  # heap of (virtual slot, station)
        self._late: list[_Countdown] = []
        self._coming: list[tuple[float, int]] = []  # heap of (time, station) of future frames

    def serve(self) -> Generator[simpy.Event, Any, None]:
        """Control the medium."""
        cell = self._cell
        env = cell.env
        while True:
            self._update_stations()
            offset = self._next_offset()
            start_s = inf if offset is None else self._idle_since_s + offset * _NS
            until_s = min(start_s, self._coming[0][0]) if self._coming else start_s
            can_skip_wait = cell.quiet and offset is not None  # nothing comes in between: attempt() may begin ahead
            if until_s > env.now + _SLACK_S and not can_skip_wait:
                yield cell.wait_for_change(until_s)
                if cell.changed or self._is_frame_due(until_s):
                    continue
            if start_s <= until_s and offset is not None:
                yield from self._send(offset)

    def _is_frame_due(self, time_s: float) -> bool:
        return bool(self._coming) and self._coming[0][0] <= time_s + _SLACK_S

    def _update_stations(self) -> None:
        """Take in the stations whose frames are new, gone or changed."""
        cell = self._cell
        now_s = cell.env.now
        if cell.changed:
            users = cell.changes()
            if cell.quiet:  # every changed user has a frame
                for user in users.tolist():
                    if not self._is_queued[user]:
                        self._join(user, now_s)
                return
            for user, ready_s in zip(users.tolist(), cell.ready_s[users].tolist(), strict=True):
                if ready_s > now_s:
                    self._withdraw(user)
                    if ready_s < inf:
                        heappush(self._coming, (ready_s, user))
                elif not self._is_queued[user]:
                    self._join(user, ready_s)
        while self._is_frame_due(now_s):
            ready_s, user = heappop(self._coming)
            if not self._is_queued[user] and cell.ready_s[user] == ready_s:  # else the frame has changed since
                self._join(user, ready_s)

    def _join(self, user: int, ready_s: float) -> None:
        """Queue a station with a new frame: its counter may still run, or have run out; then the medium decides."""
        offset = round((ready_s - self._idle_since_s) / _NS)
        slots_left = self._due[user] - self._virtual
        slots_counted = (offset - self._wait) // self._slot  # negative before slots are counted
        has_run_out = (
            slots_left < 0
            or slots_left <= slots_counted
            or (slots_left == 0 and self._drawn[user] != self._period)  # it ran out in an earlier idle period
        )
        was_waiting = user in self._was_waiting
        self._was_waiting.discard(user)
        self._is_queued[user] = True
        is_idle = slots_counted >= 0
        if user in self._slots_left:  # it has come with a frame: it listens for DIFS and counts the rest
            slots_left = self._slots_left.pop(user)
            if is_idle:
                self._late.append(_Countdown(offset + self._difs, slots_left, user))
            else:
                self._set_counter(user, slots_left)
                heappush(self._frozen, (self._due[user], user))
        elif is_idle and was_waiting:  # back after an outage: it listens for DIFS and backs off
            self._late.append(_Countdown(offset + self._difs, self._draw(user), user))
        elif is_idle and has_run_out:  # the medium has been idle for DIFS: it sends at once
            self._late.append(_Countdown(offset, 0, user))
        else:
            if has_run_out or was_waiting:  # the medium is busy
                self._draw(user)
            heappush(self._frozen, (self._due[user], user))

    def _withdraw(self, user: int) -> None:
        """Remove a station that has no frame any more, or is cut off."""
        is_cut_off = self._is_queued[user] and not self._cell.connected(np.array([user]))[0]
        if is_cut_off:
            self._was_waiting.add(user)
        self._is_queued[user] = False
        if user in self._slots_left:  # it has come with a frame, which has ended
            self._set_counter(user, self._slots_counted() + self._slots_left.pop(user))
        self._failures[user] = 0
        if is_cut_off or not self._keeps_window or self._has_failed_too_often(user):
            self._reset_window(user)
        if self._late:
            self._late = [late for late in self._late if late.user != user]

    def _draw(self, user: int) -> int:
        """Draw and return the slots that a station counts down, uniform on 0 … CW."""
        slots = int(next(self._uniforms) * (self._window[user] + 1))
        self._set_counter(user, slots)
        return slots

    def _set_counter(self, user: int, slots: int) -> None:
        """Let a station count down *slots* from the beginning of the idle period on."""
        self._due[user] = self._virtual + slots
        self._drawn[user] = self._period

    def _next_offset(self) -> int | None:
        """Return when the next station sends, from the beginning of the idle period; ``None`` without a frame."""
        frozen = self._frozen
        while frozen and not self._is_valid(frozen[0]):
            heappop(frozen)
        offset = self._wait + (frozen[0][0] - self._virtual) * self._slot if frozen else None
        for late in self._late:
            late_offset = late.end(self._slot)
            if self._is_queued[late.user] and (offset is None or late_offset < offset):
                offset = late_offset
        return offset

    def _is_valid(self, entry: tuple[int, int]) -> bool:
        """Return whether an entry of the heap is that of the station's present counter."""
        due, user = entry
        return self._is_queued[user] and self._due[user] == due

    def _take(self, offset: int) -> list[int]:
        """Return the stations that send at *offset*, and remove them from the queue."""
        slot = self._slot
        frozen = self._frozen
        senders = dict[int, None]()  # a set that keeps the order
        while frozen and self._wait + (frozen[0][0] - self._virtual) * slot == offset:
            entry = heappop(frozen)
            if self._is_valid(entry):
                _, user = entry
                senders[user] = None
        for late in self._late:
            if late.end(slot) == offset and self._is_queued[late.user]:
                senders[late.user] = None
        for user in senders:
            self._is_queued[user] = False
        if self._late:
            self._late = [late for late in self._late if late.user not in senders]
        return list(senders)

    def _freeze(self, offset: int) -> None:
        """Stop all counters at *offset*, where a station begins to send."""
        slot = self._slot
        if offset > self._wait:
            self._virtual += (offset - self._wait) // slot
        for late in self._late:
            slots_counted = (offset - late.begin) // slot if offset > late.begin else 0
            self._due[late.user] = self._virtual + late.slots - slots_counted
            heappush(self._frozen, (self._due[late.user], late.user))
        self._late = []
        self._period += 1
        self._is_busy = True

    def _send(self, offset: int) -> Generator[simpy.Event, Any, None]:
        """Let the due stations send and process the outcome; if all are cut off, the slot stays idle."""
        cell = self._cell
        due_stations = self._take(offset)
        senders = cell.drop_silent(due_stations)
        if len(senders) < len(due_stations):
            self._was_waiting.update(set(due_stations) - set(senders))
            if not senders:
                return
        self._freeze(offset)

        # a lone sender is on the air for its whole frame, several until the longest of their first frames ends
        users = np.array(senders)
        is_alone = len(senders) == 1
        timing = self._longest_timing(cell.sizes(users))
        duration = timing.lead + timing.data if is_alone else timing.collision
        ready_s = cell.ready_s[users].tolist()
        start_s = self._idle_since_s + offset * _NS if cell.quiet else 0.0
        end = cell.attempt(users, duration_s=duration * _NS, limit=self._limit, begin_s=start_s)
        outcomes = np.asarray(end.value)  # filled in as the frames end
        for place, user in enumerate(senders):
            self._sending[user] = _SendingStation(ready_s[place], outcomes, place)
        yield end
        received = outcomes.tolist()

        # the next idle period begins; senders that failed count slots from *begin* on
        self._is_busy = False
        self._idle_since_s = cell.env.now
        answer = timing.success - duration
        begin = timing.timeout
        if True in received:  # all stations wait for the end of the ACK
            self._idle_since_s = cell.env.now + answer * _NS
            self._wait = self._difs
            begin = self._difs
        elif is_alone:  # bystanders have decoded the frame, and leave room for its ACK
            self._wait = answer + self._difs
        else:
            self._wait = timing.bystanders

        # each sender draws its next counter, except those that have left as their frames ended
        for user in senders:
            if user not in self._sending:
                continue
            is_success, has_frame = self._take_outcome(user)
            slots = self._draw(user)
            if not is_success and (has_frame or cell.ready_s[user] <= cell.env.now):
                self._is_queued[user] = True
                self._late.append(_Countdown(begin, slots, user))

    def _longest_timing(self, sizes: Sequence[float]) -> FrameTiming:
        """Return the timing of the frame that lasts longest in a collision; a single size is that of all frames."""
        if len(sizes) == 1:
            return self._timing(sizes[0])
        return max(map(self._timing, sizes), key=_COLLISION)

    def _take_outcome(self, user: int) -> tuple[bool, bool]:
        """Double the window of a station whose frame failed; return whether it did not, and whether it still has it."""
        station = self._sending.pop(user)
        is_success = bool(station.received[station.place])
        has_frame = self._cell.quiet or bool(self._cell.ready_s[user] == station.ready_s)
        self._failures[user] += 1
        self._failures_in_row[user] += 1
        is_over = is_success or not has_frame or self._failures[user] == self._limit
        if is_over:
            self._failures[user] = 0
        is_unlimited = self._limit is None and has_frame  # such a frame keeps its window
        is_row_over = self._has_failed_too_often(user) and not is_unlimited
        if is_success or (is_over and not self._keeps_window) or is_row_over:
            self._reset_window(user)
        else:
            self._window[user] = min(2 * self._window[user] + 1, self._cw_max)
        return is_success, has_frame

    def take(self, users: Users) -> Mapping[str, Any]:
        slots_left = []
        for user in users.tolist():
            if user in self._sending:  # its frame has ended at this instant
                self._take_outcome(user)
                slots_left.append(self._draw(user))
            elif user in self._was_waiting:
                slots_left.append(self._draw(user))
            else:
                slots_left.append(self._slots_left_of(user))
        places = users.tolist()
        row = {
            "window": np.array([self._window[user] for user in places]),
            "failures": np.array([self._failures[user] for user in places]),
            "failures_in_row": np.array([self._failures_in_row[user] for user in places]),
            "slots_left": np.array(slots_left),
        }
        self._late = [late for late in self._late if late.user not in places]
        for user in places:
            self._reset_window(user)
            self._failures[user] = 0
            self._is_queued[user] = False
            self._was_waiting.discard(user)
            self._slots_left.pop(user, None)
        return row

    def put(self, users: Users, row: Mapping[str, Any]) -> None:
        is_ready = self._cell.ready_s[users] <= self._cell.env.now
        for place, user in enumerate(users.tolist()):
            self._window[user] = int(row["window"][place])
            self._failures[user] = int(row["failures"][place])
            self._failures_in_row[user] = int(row["failures_in_row"][place])
            slots_left = int(row["slots_left"][place])
            if is_ready[place]:
                self._slots_left[user] = slots_left
            else:  # it counts in idle slots from now on
                self._set_counter(user, self._slots_counted() + slots_left)

    def _slots_left_of(self, user: int) -> int:
        """Return the idle slots that a station has not counted yet."""
        if user in self._slots_left:
            return self._slots_left[user]
        offset = self._offset_of_now()
        for late in self._late:
            if late.user == user:
                return late.slots - max((offset - late.begin) // self._slot, 0)
        return max(self._due[user] - self._virtual - self._slots_counted(), 0)

    def _slots_counted(self) -> int:
        """Return the idle slots that stations have counted in the present idle period, if there is one."""
        if self._is_busy:
            return 0
        return max((self._offset_of_now() - self._wait) // self._slot, 0)

    def _offset_of_now(self) -> int:
        return round((self._cell.env.now - self._idle_since_s) / _NS)

    def _has_failed_too_often(self, user: int) -> bool:
        """Return whether the failures of a station in a row, of whatever frames, reset its window."""
        return self._failures_in_row[user] > self._max_failures_in_row

    def _reset_window(self, user: int) -> None:
        self._window[user] = self._cw_min
        self._failures_in_row[user] = 0


def _uniforms(rng: np.random.Generator) -> Iterator[float]:
    while True:
        yield from rng.random(_DRAWS).tolist()
