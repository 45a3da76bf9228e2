"""CSMA/CA: the distributed coordination function of IEEE 802.11."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from heapq import heappop, heappush
from math import ceil, inf
from operator import attrgetter
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
import simpy
from numpy.typing import NDArray
from pydantic import Field

from netfl.errors import Fault
from netfl.network.mac import Mac
from netfl.network.mac._test_bench import MacTestBench, saturated_users
from netfl.streams import Streams
from netfl.types import Law, ScenarioFacts
from netfl.units import Bitrate, Bits

if TYPE_CHECKING:
    from netfl.network.radio.cell import Cell


# Stations that count down random numbers of idle slots: the heart of CSMA/CA.
#
# Times within an idle period are whole nanoseconds from its beginning, so that slots never drift apart.  Stations that
# wait with frozen counters are kept by the *virtual slot* in which their counter runs out: the number of idle slots
# that
# have been counted since the start of the run.  A busy period freezes them all by standing still, which costs nothing;
# the cost of an event is that of a heap, whatever the number of stations.


_NS = 1e-9
_SLACK_S = 1e-8
"""By how much the clock may miss an instant, by rounding."""
_DRAWS = 4096
_SIZES = 256
"""Sizes of frames whose durations are kept: few are in use, or each is another."""
_COLLISION = attrgetter("collision")


@dataclass(frozen=True, slots=True)
class FrameTiming:
    """Durations around one frame, in nanoseconds.

    Args:
        slot: an idle slot.
        difs: idle time before slots are counted.
        success: from the beginning of a sequence to the end of its ACK.
        data: the data frame.
        lead: what precedes it: RTS and CTS.
        collision: from the beginning to the end of what collides.
        timeout: from there to when the colliders count slots again.
        bystanders: from there to when the others do.
    """

    slot: int
    difs: int
    success: int
    data: int
    lead: int
    collision: int
    timeout: int
    bystanders: int


class Contention:
    """The stations of one cell.

    Args:
        cell: the cell.
        spaces: the durations around a frame of so many bits.
        cw: the least and the greatest contention window.
        limit: attempts that a frame has.
        continues: whether the window continues with the next frame after one that was given up or abandoned.
    """

    def __init__(
        self,
        cell: Cell,
        spaces: Callable[[float], FrameTiming],
        cw: tuple[int, int],
        limit: int | None,
        *,
        continues: bool,
    ) -> None:
        self._cell, self._limit, self._continues, (self._least, self._most) = cell, limit, continues, cw
        self._spaces = lru_cache(_SIZES)(spaces)
        self._slot = self._spaces(cell.max_bits).slot
        self._wait = self._difs = self._spaces(cell.max_bits).difs  # idle time before slots are counted
        self._idle_since_s, self._period = 0.0, 0
        self._virtual = 0  # idle slots counted before this idle period
        self._window = [self._least] * cell.size
        self._failures = [0] * cell.size  # of the frame at hand
        self._in_row = [0] * cell.size  # of whatever frames, since the window was set back
        self._due = [-1] * cell.size  # the virtual slot in which a station's counter runs out
        self._drawn = [-1] * cell.size  # the idle period before which it was drawn
        self._queued = [False] * cell.size  # whether a station has a frame and contends
        self._waited: set[int] = set()  # those who had a frame when they were cut off: once back, they back off
        self._frozen: list[tuple[int, int]] = []  # heap of (virtual slot, station)
        self._late: list[tuple[int, int, int]] = []  # (begins to count at, slots, station) of those out of step
        self._coming: list[tuple[float, int]] = []  # heap of (when, station) of frames that will come
        self._uniforms = _uniforms(cell.streams.rng("backoff"))

    def serve(self) -> Generator[simpy.Event, Any, None]:
        """Own the medium."""
        cell, env = self._cell, self._cell.env
        while True:
            self._take_note()
            offset = self._next_offset()
            start_s = inf if offset is None else self._idle_since_s + offset * _NS
            until_s = min(start_s, self._coming[0][0]) if self._coming else start_s
            if until_s > env.now + _SLACK_S and not (cell.quiet and offset is not None):
                yield cell.wait_for_change(until_s)
                if cell.changed or self._comes_by(until_s):
                    continue
            if start_s <= until_s and offset is not None:
                yield from self._send(offset)

    def _comes_by(self, time_s: float) -> bool:
        """Whether a frame will have come by then."""
        return bool(self._coming) and self._coming[0][0] <= time_s + _SLACK_S

    def _take_note(self) -> None:
        """Stations whose frames have come, gone or changed."""
        cell, now = self._cell, self._cell.env.now
        if cell.changed:
            users = cell.changes()
            if cell.quiet:  # whoever is named has a frame
                for user in users.tolist():
                    if not self._queued[user]:
                        self._join(user, now)
                return
            for user, ready_s in zip(users.tolist(), cell.ready_s[users].tolist(), strict=True):
                if ready_s > now:
                    self._withdraw(user)
                    if ready_s < inf:
                        heappush(self._coming, (ready_s, user))
                elif not self._queued[user]:
                    self._join(user, ready_s)
        while self._comes_by(now):
            came_s, user = heappop(self._coming)
            if not self._queued[user] and cell.ready_s[user] == came_s:
                self._join(user, came_s)

    def _join(self, user: int, came_s: float) -> None:
        """A frame has come to a station: its counter may still run, or have run out; then the medium decides."""
        offset = round((came_s - self._idle_since_s) / _NS)
        left = self._due[user] - self._virtual
        counted = (offset - self._wait) // self._slot  # negative before slots are counted
        over = left < 0 or left <= counted or (left == 0 and self._drawn[user] != self._period)
        self._queued[user] = True
        back = user in self._waited
        self._waited.discard(user)
        if counted >= 0 and (over or back):
            late = (offset + self._difs, self._draw(user), user) if back else (offset, 0, user)
            self._late.append(late)
            return
        if over or back:
            self._draw(user)
        heappush(self._frozen, (self._due[user], user))

    def _withdraw(self, user: int) -> None:
        """A station has no frame any more, or is cut off."""
        cut_off = self._queued[user] and not self._cell.connected(np.array([user]))[0]
        if cut_off:
            self._waited.add(user)
        self._queued[user] = False
        self._failures[user] = 0
        if cut_off or not self._continues:
            self._set_back(user)
        if self._late:
            self._late = [one for one in self._late if one[2] != user]

    def _draw(self, user: int) -> int:
        """A new counter: so many slots."""
        slots = int(next(self._uniforms) * (self._window[user] + 1))
        self._due[user], self._drawn[user] = self._virtual + slots, self._period
        return slots

    def _next_offset(self) -> int | None:
        """When the next station sends, from the beginning of the idle period; ``None`` if nobody has a frame."""
        frozen = self._frozen
        while frozen and not (self._queued[frozen[0][1]] and self._due[frozen[0][1]] == frozen[0][0]):
            heappop(frozen)
        offset = self._wait + (frozen[0][0] - self._virtual) * self._slot if frozen else None
        for begins, slots, user in self._late:
            at = begins + slots * self._slot
            if self._queued[user] and (offset is None or at < offset):
                offset = at
        return offset

    def _take(self, offset: int) -> list[int]:
        """The stations whose turn is at *offset*; none of them waits any more."""
        slot, frozen, senders = self._slot, self._frozen, dict[int, None]()
        while frozen and self._wait + (frozen[0][0] - self._virtual) * slot == offset:
            due, user = heappop(frozen)
            if self._queued[user] and self._due[user] == due:
                senders[user] = None
        for begins, slots, user in self._late:
            if begins + slots * slot == offset and self._queued[user]:
                senders[user] = None
        for user in senders:
            self._queued[user] = False
        if self._late:
            self._late = [one for one in self._late if one[2] not in senders]
        return list(senders)

    def _freeze(self, offset: int) -> None:
        """Somebody begins to send at *offset*: all who wait stop counting."""
        slot = self._slot
        if offset > self._wait:
            self._virtual += (offset - self._wait) // slot
        late, self._late = self._late, []
        for begins, slots, user in late:
            counted = (offset - begins) // slot if offset > begins else 0
            self._due[user] = self._virtual + slots - counted
            heappush(self._frozen, (self._due[user], user))
        self._period += 1

    def _send(self, offset: int) -> Generator[simpy.Event, Any, None]:
        """Let those send whose turn it is, and see what becomes of it; where all are cut off, the slot stays idle."""
        cell = self._cell
        chosen = self._take(offset)
        senders = cell.drop_disconnected(chosen)
        if len(senders) < len(chosen):
            self._waited.update(set(chosen) - set(senders))
            if not senders:
                return
        self._freeze(offset)
        numbers, alone = np.array(senders), len(senders) == 1
        sizes = cell.sizes(numbers)
        spaces = self._spaces(sizes[0]) if len(sizes) == 1 else max(map(self._spaces, sizes), key=_COLLISION)
        duration = spaces.lead + spaces.data if alone else spaces.collision
        frames_s = [] if cell.quiet else cell.ready_s[numbers].tolist()
        start_s = self._idle_since_s + offset * _NS if cell.quiet else 0.0
        told = yield cell.attempt(numbers, duration_s=duration * _NS, limit=self._limit, begin_s=start_s)
        heard = told.tolist()
        answer = spaces.success - duration
        self._idle_since_s, self._wait, begins = cell.env.now, spaces.bystanders, spaces.timeout
        if True in heard:
            self._idle_since_s, self._wait, begins = cell.env.now + answer * _NS, spaces.difs, spaces.difs
        elif alone:
            self._wait = answer + spaces.difs
        for place, (user, good) in enumerate(zip(senders, heard, strict=True)):
            self._settle(user, begins, good=good, kept=cell.quiet or cell.ready_s[user] == frames_s[place])

    def _settle(self, user: int, begins: int, *, good: bool, kept: bool) -> None:
        """A station draws its next counter, with a doubled window if its frame failed; it may have *kept* the frame."""
        self._failures[user] += 1
        self._in_row[user] += 1
        over = good or not kept or self._failures[user] == self._limit
        if over:
            self._failures[user] = 0
        if good or (over and not self._continues) or self._in_row[user] > (self._limit or inf):
            self._set_back(user)
        else:
            self._window[user] = min(2 * self._window[user] + 1, self._most)
        slots = self._draw(user)
        if not good and (kept or self._cell.ready_s[user] <= self._cell.env.now):
            self._queued[user] = True
            self._late.append((begins, slots, user))

    def _set_back(self, user: int) -> None:
        """A station's window is the least again."""
        self._window[user], self._in_row[user] = self._least, 0


def _uniforms(rng: np.random.Generator) -> Iterator[float]:
    """Uniform draws, a block at a time."""
    while True:
        yield from rng.random(_DRAWS).tolist()


# The timings of IEEE 802.11, in whole nanoseconds.


Standard = Literal["802.11a", "802.11b", "802.11g"]

ACK_BITS, RTS_BITS, CTS_BITS = 112, 160, 112
"""Control frames, IEEE 802.11-2020 §9.3.1."""


@dataclass(frozen=True)
class PhyTiming:
    """One physical layer.

    Args:
        slot: a slot.
        sifs: the short inter-frame space.
        preamble: preamble and header before the first bit of a frame.
        symbol: what airtimes are rounded up to.
        extra_bits: bits that the physical layer adds to each frame.
        tail: silence that belongs to each frame.
        rates: the bit rates that it has, in Mb/s, the default first.
        control: the rate of ACK, RTS and CTS for each data rate, in Mb/s, the first for the default.
        slowest: the rate at which an ACK is assumed to be sent when nothing is known of it, in Mb/s.
        cw: the least and the greatest contention window.
        decodes: whether stations that overhear a collision take it for a frame in error.
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

    def airtime(self, bits: float, rate: float) -> int:
        """How long a frame of *bits*, MAC header included, is on the air at *rate* Mb/s."""
        per_symbol = rate * self.symbol / 1000.0
        return self.preamble + ceil((bits + self.extra_bits) / per_symbol - 1e-9) * self.symbol + self.tail

    def control_rate(self, rate: float) -> float:
        """The rate at which a data frame at *rate* is acknowledged: the highest control rate not above it."""
        return max((one for one in self.control if one <= rate), default=self.slowest)

    @property
    def timeout(self) -> int:
        """From the end of a frame to when its sender knows that no answer comes (§10.3.2.11)."""
        return self.sifs + self.slot + self.preamble

    @property
    def eifs(self) -> int:
        """The extended inter-frame space after a frame in error (§10.3.2.3.7)."""
        return self.sifs + self.airtime(ACK_BITS, self.slowest) + self.difs


_OFDM = (6.0, 9.0, 12.0, 18.0, 24.0, 36.0, 48.0, 54.0)

PHYS: dict[Standard, PhyTiming] = {
    "802.11a": PhyTiming(9_000, 16_000, 20_000, 4_000, 22, 0, _OFDM, (6.0, 12.0, 24.0), 6.0, (15, 1023), decodes=False),
    "802.11b": PhyTiming(
        20_000,
        10_000,
        192_000,
        1_000,
        0,
        0,
        (11.0, 5.5, 2.0, 1.0),
        (11.0, 5.5, 2.0, 1.0),
        1.0,
        (31, 1023),
        decodes=True,
    ),
    "802.11g": PhyTiming(
        9_000, 10_000, 20_000, 4_000, 22, 6_000, _OFDM[::-1], (24.0, 12.0, 6.0), 6.0, (15, 1023), decodes=False
    ),
}
"""802.11a: OFDM at 5 GHz (§17).  802.11b: DSSS and CCK with the long preamble (§16).  802.11g: ERP-OFDM alone, short
slots, with 6 µs of signal extension after each frame (§18)."""


class CsmaCa(Mac):
    """The DCF of IEEE 802.11-2020 §10.3: listen, wait a random number of idle slots, send, double the wait on failure.

    **Backoff.**  A station draws a number of slots, uniform on 0 … CW, and counts it down in idle slots.  Counters
    freeze while the medium is busy; a slot in which somebody begins to send counts for nobody, so that the slot right
    after a success can be used by its winner alone, which may have drawn 0.  (In Bianchi's chain, IEEE J-SAC 18(3),
    2000, a busy slot counts, which makes throughputs a few per cent different.)  After each of its frames a station
    draws anew, with or without another frame.  A frame that finds the medium idle for DIFS, and its station's counter
    run out, is sent at once.

    **The window.**  CW is doubled, 2 CW + 1, with every failure up to its greatest value.  A success sets it back, and
    so does being cut off.  A frame that is given up after ``max_attempts`` or abandoned does not: CW continues with the
    next frame, until the station has failed once more than ``max_attempts`` times in a row (§10.3.3 and §10.3.4.4, in
    the form that §10.23.2.2 gives for the retry counter of a QoS station).  With ``edition: 2016`` CW is set back
    whenever a frame is given up or abandoned, as §10.3.3 of that edition is commonly read.

    **Frames.**  The payload with 36 bytes of MAC and LLC headers, at the rate of the standard's physical layer, then
    SIFS and ACK; with ``rts`` larger frames are preceded by RTS and CTS.  All stations of a cell hear each other.  One
    frame holds at most 2304 bytes of MSDU, 2296 of payload.  A larger update is sent in several, each of which contends
    for itself (``access.transport``).  With ``max_attempts`` the first of them that is given up ends the update, unless
    the transport has an ``arq``.

    **After a collision.**  The colliders wait for the end of the ACK (CTS) time-out, which lasts SIFS, a slot and the
    preamble (§10.3.2.11), and then for DIFS, before they count slots (§10.3.4.3).  With ``edition: 2016`` they count
    from the end of the time-out, as the medium has been idle for longer than DIFS by then.  The bystanders wait DIFS
    where they cannot decode anything of the overlapping preambles and merely sense energy (OFDM), or EIFS where they
    take it for a frame in error (DSSS; §10.3.2.3.7); ``after_collision`` overrides that.  A frame that fades alone is
    heard by the bystanders, who leave room for its ACK; after a captured frame all wait for its ACK.

    Example::

        kind: csma_ca
        standard: 802.11a
        max_attempts: 7
    """

    standard: Standard = "802.11a"
    """Whose timings: 802.11a, 802.11b (long preamble) or 802.11g (without 802.11b stations)."""
    rate: Annotated[Bitrate, Field(gt=0)] | None = None
    """Rate of the data, one of the standard's; by default 6 Mbps (802.11a), 11 Mbps (802.11b), 54 Mbps (802.11g)."""
    rts: Annotated[Bits, Field(ge=0)] | None = None
    """Payloads larger than this are preceded by RTS and CTS; ``null``: none."""
    max_attempts: Annotated[int, Field(ge=1)] | None = None
    """Attempts after which a frame is given up; ``null`` is no limit."""
    edition: Literal[2016, 2020] = 2020
    """The edition of IEEE 802.11 whose rules apply after a failure; the older is closer to Bianchi's model."""
    after_collision: Literal["difs", "eifs"] | None = None
    """How long bystanders wait after a collision; ``null``: what the physical layer makes of it."""

    @property
    def rate_bps(self) -> float:
        """The rate of the data."""
        return self._rate * 1e6

    @property
    def most_bits(self) -> float:
        """That of the largest MSDU."""
        return _MOST_BITS

    @property
    def senses(self) -> bool:
        """All stations of a cell hear each other."""
        return True

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        """A rate that the standard does not have."""
        rates = PHYS[self.standard].rates
        if self._rate not in rates:
            told = ", ".join(f"{rate:g}" for rate in sorted(rates))
            yield Fault("rate", f"{self.standard} has no such rate", self.rate, f"one of {told} Mbps")

    def spaces(self, bits: float) -> FrameTiming:
        """The times that a frame with *bits* of payload takes, and the spaces around it, in nanoseconds."""
        phy = PHYS[self.standard]
        control = phy.control_rate(self._rate)
        data, ack = phy.airtime(bits + _HEADER_BITS, self._rate), phy.airtime(ACK_BITS, control)
        handshake, first = 0, data
        if self.rts is not None and bits > self.rts:
            first = phy.airtime(RTS_BITS, control)
            handshake = first + phy.sifs + phy.airtime(CTS_BITS, control) + phy.sifs
        pause = phy.difs if self.edition == _CONTINUES else 0
        eifs = phy.decodes if self.after_collision is None else self.after_collision == "eifs"
        return FrameTiming(
            slot=phy.slot,
            difs=phy.difs,
            success=handshake + data + phy.sifs + ack,
            data=data,
            lead=handshake,
            collision=first,
            timeout=phy.timeout + pause,
            bystanders=phy.eifs if eifs else phy.difs,
        )

    def most_hz(self, airtime_s: float, longest_s: float) -> float:
        """One at a time, unless several can be given up at once."""
        return math.inf if self.max_attempts is not None else 1.0 / airtime_s

    def serve(self, cell: Cell) -> Generator[simpy.Event, Any, None]:
        """Let the stations contend."""
        cw, continues = PHYS[self.standard].cw, self.edition == _CONTINUES
        return Contention(cell, self.spaces, cw, self.max_attempts, continues=continues).serve()

    def laws(self) -> tuple[Law, ...]:
        """The cycle of a station that is alone; for more there is no closed form under the standard's freezing rule."""
        spaces, most = self.spaces(1.0), PHYS[self.standard].cw[0]
        least_s, slot_s = (spaces.difs + spaces.success) * 1e-9, spaces.slot * 1e-9

        def cycles(streams: Streams, size: int) -> NDArray[np.float64]:
            bench = MacTestBench(self, 1, least_s, streams, saturated_users)
            while len(bench.heard) <= size:
                bench.env.step()
            return np.round(np.diff([heard_s for _, _, heard_s in bench.heard]), 9)  # whole nanoseconds again

        return (
            Law(
                "time from success to success of a lone station, s",
                "DIFS + k slots + frame, SIFS and ACK, with k uniform on 0 … CWmin; "
                "more stations: scenarios/validation/dcf.yaml, beside a slot-exact reference",
                draw=cycles,
                mean=least_s + slot_s * most / 2,
                variance=slot_s**2 * most * (most + 2) / 12,
                cdf=lambda x: (
                    np.clip(np.floor((np.asarray(x) - least_s) / slot_s + 1e-3) + 1, 0, most + 1) / (most + 1)
                ),
            ),
        )

    @cached_property
    def _rate(self) -> float:
        """Mb/s."""
        return PHYS[self.standard].rates[0] if self.rate is None else self.rate / 1e6


_CONTINUES = 2020
"""The edition whose window continues after a drop, and whose colliders wait DIFS after the time-out."""
_HEADER_BITS = 36 * 8
"""MAC header 24, LLC and SNAP 8, frame check sequence 4 bytes."""
_MOST_BITS = (2304 - 8) * 8.0
"""An MSDU has 2304 bytes at most (IEEE 802.11-2020 §9.2.4.8), of which LLC and SNAP take 8."""
