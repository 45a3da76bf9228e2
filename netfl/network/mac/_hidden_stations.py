"""Stations of one Wi-Fi cell that do not all sense each other.

Next on the way of a frame: `netfl.network.radio.cell.Cell.attempt`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from functools import partial
from heapq import heappop, heappush
from typing import Any

import numpy as np
import simpy

from netfl.network.mac._dcf import RTS_BITS, Backoff, FrameTiming, PhyTiming
from netfl.network.mac._sensing_stations import NS, SLACK_S, SensingStations
from netfl.network.mac._station_rates import StationRates
from netfl.network.radio.cell import Cell
from netfl.types import Bools

_RUN_OUT = -1
"""Slots of a counter that has run out before its station had a frame."""


@dataclass(slots=True, eq=False)
class _Signal:
    """A frame of a station or of the tower on the air; times are whole nanoseconds from the start of the run.

    Args:
        sensed_by: whether each station senses it, ``[size]``.
        reserved_ns: time until which stations that read it leave the medium idle (NAV).
        on_end: called with whether it was received, once the air is free of it.
        outcome: event of the attempt; ``None`` for a frame of the tower, which is always received.
    """

    sensed_by: Bools
    reserved_ns: int
    on_end: Callable[[bool], None]
    outcome: simpy.Event | None = None

    @property
    def is_received(self) -> bool:
        """True if the tower, or the station that it answers, has received it."""
        return self.outcome is None or bool(np.asarray(self.outcome.value)[0])


@dataclass(slots=True, eq=False)
class _Exchange:
    """The frames of one attempt of a station: RTS and CTS where they are used, data, ACK.

    Args:
        timing: their durations.
        rate_mbps: rate of the data.
        ready_s: time from which the station had the frame, by which a newer one is recognised.
    """

    station: int
    timing: FrameTiming
    rate_mbps: float
    ready_s: float


class HiddenStations(SensingStations):
    """The stations of one cell, of which each has a view of the medium of its own.

    All times are whole nanoseconds from the start of the run, so that ties do not depend on rounding.  At each
    instant signals end first; then all stations that are due, and the answers of the tower, begin at once, as nobody
    senses what begins at the same time.  A station counts its slots from `_from` on.  A signal that it senses freezes
    the counter, and when the last such signal has ended, the station waits for DIFS or EIFS, after its NAV.

    Args:
        phy: timing of the physical layer.
        timing: ``timing(bits, rate_mbps)`` returns the durations around a frame.
        rates: rates of the stations.
        backoff: contention windows of the stations.
        limit: attempts after which a frame is given up; ``None`` for no limit.
        threshold_dbm: power from which on a station senses a frame.
        after_error: wait after a frame in error.
    """

    def __init__(
        self,
        cell: Cell,
        phy: PhyTiming,
        timing: Callable[[float, float], FrameTiming],
        rates: StationRates,
        backoff: Backoff,
        *,
        limit: int | None,
        threshold_dbm: float,
        after_error: int,
    ) -> None:
        size = cell.size
        super().__init__(cell, threshold_dbm)
        self._phy = phy
        self._timing = timing
        self._rates = rates
        self._backoff = backoff
        self._limit = limit
        self._all = np.ones(size, np.bool_)

        # what each station senses
        self._sensed = np.zeros(size, np.int64)  # number of signals on the air that it senses
        self._is_readable = np.zeros(size, np.bool_)  # it senses one signal, alone and from its start
        self._is_in_error = np.zeros(size, np.bool_)  # signals have overlapped since the medium was idle
        self._nav = np.zeros(size, np.int64)
        self._after_error = after_error

        # its backoff
        self._slots = np.full(size, _RUN_OUT, np.int64)  # slots that it has still to count
        self._from = np.full(size, phy.difs, np.int64)  # time from which it counts them, if it senses nothing
        self._earliest = np.zeros(size, np.int64)  # end of the time-out of its last frame: it does not count before
        self._contends = np.zeros(size, np.bool_)  # whether it has a frame and waits to send it
        self._is_sending = np.zeros(size, np.bool_)  # whether it sends now, and senses nothing
        self._exchange: dict[int, _Exchange] = {}  # of stations that send, or wait for an answer
        self._was_waiting: set[int] = set()  # stations cut off with a frame: they back off when they are up again
        self._answers_until = 0  # end of the exchange for which the tower has sent a CTS

        # what is to come
        self._ends: list[tuple[int, int, _Signal]] = []  # heap by time
        self._begins: list[tuple[int, int, Callable[[], None]]] = []  # heap by time
        self._number = 0  # of entries of the heaps, which keeps their order

    def serve(self) -> Generator[simpy.Event, Any, None]:
        """Let the stations contend."""
        cell = self._cell
        while True:
            self._update_stations()
            next_ns = self._next_ns()
            next_s = np.inf if next_ns is None else next_ns * NS
            until_s = next_s
            if self._coming:
                until_s = min(next_s, self._coming[0][0])
            if until_s > cell.env.now + SLACK_S:
                yield cell.wait_for_change(until_s)
                continue
            if next_ns is not None and next_s <= until_s + SLACK_S:
                yield from self._advance(next_ns)

    # stations and their frames

    def _update(self, station: int) -> None:
        """Take in the frame of a station; one in an exchange does so at the end of it."""
        if station in self._exchange:
            return
        ready_s = float(self._cell.ready_s[station])
        if ready_s > self._cell.env.now + SLACK_S:
            self._withdraw(station)
            if ready_s < np.inf:
                heappush(self._coming, (ready_s, station))
        elif not self._contends[station]:
            self._join(station)

    def _join(self, station: int) -> None:
        """Let a station with a new frame contend: its counter may still run, or have run out."""
        is_idle = self._sensed[station] == 0 and self._from[station] <= self._now
        has_run_out = self._slots[station] == _RUN_OUT or (is_idle and self._due_ns(station) <= self._now)
        if station in self._was_waiting:  # it listens for DIFS and backs off
            self._was_waiting.discard(station)
            self._from[station] = max(int(self._from[station]), self._now + self._phy.difs)
            self._slots[station] = self._backoff.draw(station)
        elif has_run_out and is_idle:  # the medium has been idle for DIFS: it sends at once
            self._from[station] = self._now
            self._slots[station] = 0
        elif has_run_out:
            self._slots[station] = self._backoff.draw(station)
        self._contends[station] = True

    def _withdraw(self, station: int) -> None:
        """Remove a station that has no frame any more, or is cut off."""
        is_cut_off = bool(self._contends[station]) and not self._cell.connected(np.array([station]))[0]
        if is_cut_off:
            self._was_waiting.add(station)
        self._contends[station] = False
        self._backoff.withdraw(station, is_cut_off=is_cut_off)

    def _due_ns(self, station: int) -> int:
        """Return when the counter of a station runs out, if it senses nothing before."""
        return int(self._from[station] + self._slots[station] * self._phy.slot)

    # the clock

    def _next_ns(self) -> int | None:
        """Return the next time at which a signal begins or ends; ``None`` without one."""
        times = [heap[0][0] for heap in (self._ends, self._begins) if heap]
        counting = self._contends & (self._sensed == 0)
        if counting.any():
            due = self._from[counting] + self._slots[counting] * self._phy.slot
            times.append(int(due.min()))
        return min(times, default=None)

    def _advance(self, now: int) -> Generator[simpy.Event, Any, None]:
        """Let signals end and begin at *now*."""
        self._now = now
        ended = []
        while self._ends and self._ends[0][0] <= now:
            ended.append(heappop(self._ends)[2])
        for signal in ended:
            if signal.outcome is not None and not signal.outcome.processed:
                yield signal.outcome  # it ends at this instant
        self._end_signals(ended)

        due_stations = self._take_due()
        answers = []
        while self._begins and self._begins[0][0] <= now:
            answers.append(heappop(self._begins)[2])
        for station in due_stations:
            self._begin_exchange(station)
        for begin in answers:
            begin()

    def _take_due(self) -> list[int]:
        """Return the stations that begin to send now; those that are cut off wait until they are up."""
        due = self._contends & (self._sensed == 0) & (self._from + self._slots * self._phy.slot <= self._now)
        stations = np.flatnonzero(due).tolist()
        if not stations:
            return []
        senders = self._cell.drop_silent(stations)
        self._was_waiting.update(set(stations) - set(senders))
        self._contends[stations] = False
        self._is_sending[senders] = True
        return senders

    def _schedule(self, at_ns: int, begin: Callable[[], None]) -> None:
        self._number += 1
        heappush(self._begins, (at_ns, self._number, begin))

    # signals

    def _begin_signal(self, duration: int, signal: _Signal) -> None:
        """Put a signal on the air for *duration*, and freeze the counters of those that sense it."""
        self._number += 1
        heappush(self._ends, (self._now + duration, self._number, signal))
        listening = signal.sensed_by & ~self._is_sending
        first = listening & (self._sensed == 0)
        others = listening & (self._sensed > 0)
        self._freeze(first)
        self._is_readable[first] = True
        self._is_readable[others] = False
        self._is_in_error[others] = True
        self._sensed[signal.sensed_by] += 1

    def _freeze(self, stations: Bools) -> None:
        """Count the slots that have been idle from beginning to end until now."""
        counted = np.maximum((self._now - self._from) // self._phy.slot, 0)
        runs_out = (self._from + self._slots * self._phy.slot <= self._now) & ~self._contends
        left = np.where(runs_out, _RUN_OUT, np.maximum(self._slots - counted, np.minimum(self._slots, 0)))
        self._slots[stations] = left[stations]

    def _end_signals(self, signals: list[_Signal]) -> None:
        """Take signals off the air, and let the stations that sense nothing any more count on."""
        if not signals:
            return
        was_sensed = np.zeros(self._cell.size, np.bool_)
        for signal in signals:
            self._sensed[signal.sensed_by] -= 1
            was_sensed |= signal.sensed_by
            reads = signal.sensed_by & self._is_readable
            self._nav[reads] = np.maximum(self._nav[reads], signal.reserved_ns)
        self._resume(was_sensed)
        for signal in signals:
            signal.on_end(signal.is_received)

    def _resume(self, stations: Bools) -> None:
        """Let those of *stations* that sense nothing any more wait, and then count their slots."""
        idle = stations & (self._sensed == 0)
        wait = np.where(self._is_in_error, self._after_error, self._phy.difs)
        from_ns = np.maximum(np.maximum(self._nav, self._now) + wait, self._earliest)
        self._from[idle] = from_ns[idle]
        self._is_readable[idle] = False
        self._is_in_error[idle] = False

    # exchanges

    def _begin_exchange(self, station: int) -> None:
        """Let a station send its frame, or an RTS for it."""
        bits = self._cell.sizes(np.array([station]))[0]
        rate_mbps = self._rates.choose(station)
        timing = self._timing(bits, rate_mbps)
        exchange = _Exchange(station, timing, rate_mbps, float(self._cell.ready_s[station]))
        self._exchange[station] = exchange
        if timing.rts:
            self._send_request(exchange)
        else:
            self._send_data(exchange)

    def _send_request(self, exchange: _Exchange) -> None:
        timing = exchange.timing
        mode = self._rates.mode_of(self._phy.control_rate(exchange.rate_mbps))
        outcome = self._cell.request(exchange.station, RTS_BITS, timing.rts * NS, mode=mode, limit=self._limit)
        # stations that read it reset their NAV, unless a CTS follows
        nav_timeout = 2 * self._phy.sifs + timing.cts + self._phy.preamble + 2 * self._phy.slot
        reserved_ns = self._now + timing.rts + nav_timeout
        sensed_by = self._sensed_by(exchange.station)
        signal = _Signal(sensed_by, reserved_ns, partial(self._end_request, exchange), outcome)
        self._begin_signal(timing.rts, signal)

    def _end_request(self, exchange: _Exchange, is_received: bool) -> None:
        """Answer an RTS by a CTS, unless the tower waits for the data of another station."""
        self._is_sending[exchange.station] = False
        timing = exchange.timing
        if is_received and self._answers_until <= self._now:
            self._answers_until = self._now + timing.success - timing.rts
            end_ns = self._answers_until
            on_end = partial(self._end_clearance, exchange)
            self._schedule(self._now + self._phy.sifs, lambda: self._send_answer(exchange, timing.cts, end_ns, on_end))
        else:
            self._conclude(exchange, is_success=False)

    def _end_clearance(self, exchange: _Exchange, is_received: bool) -> None:
        """Let a station that has received a CTS send its data after SIFS."""

        def begin() -> None:
            self._is_sending[exchange.station] = True
            self._send_data(exchange)

        self._schedule(self._now + self._phy.sifs, begin)

    def _send_data(self, exchange: _Exchange) -> None:
        station = exchange.station
        timing = exchange.timing
        users = np.array([station])
        if self._cell.ready_s[station] > self._cell.env.now + SLACK_S or not self._cell.connected(users)[0]:
            self._is_sending[station] = False  # the frame went, or an outage came, after its RTS
            self._conclude(exchange, is_success=False)
            return
        exchange.ready_s = float(self._cell.ready_s[station])
        begin_s = self._now * NS if self._cell.quiet else 0.0
        mode = self._rates.mode_of(exchange.rate_mbps)
        outcome = self._cell.attempt(users, duration_s=timing.data * NS, limit=self._limit, mode=mode, begin_s=begin_s)
        reserved_ns = self._now + timing.data + self._phy.sifs + timing.ack
        self._is_readable[station] = False  # a station that has got a CTS does not listen before it sends
        self._is_in_error[station] = False
        signal = _Signal(self._sensed_by(station), reserved_ns, partial(self._end_data, exchange), outcome)
        self._begin_signal(timing.data, signal)

    def _end_data(self, exchange: _Exchange, is_received: bool) -> None:
        """Answer received data by an ACK."""
        self._is_sending[exchange.station] = False
        if not is_received:
            self._rates.record(exchange.station, is_success=False)
            self._conclude(exchange, is_success=False)
            return
        ack = exchange.timing.ack
        end_ns = self._now + self._phy.sifs + ack
        on_end = partial(self._end_ack, exchange)
        self._schedule(self._now + self._phy.sifs, lambda: self._send_answer(exchange, ack, end_ns, on_end))

    def _end_ack(self, exchange: _Exchange, is_received: bool) -> None:
        self._rates.record(exchange.station, is_success=True)
        self._conclude(exchange, is_success=True)

    def _send_answer(
        self, exchange: _Exchange, duration: int, reserved_ns: int, on_end: Callable[[bool], None]
    ) -> None:
        """Let the tower send a CTS or an ACK, which all stations sense."""
        self._cell.answer(duration * NS)
        self._begin_signal(duration, _Signal(self._all, reserved_ns, on_end))
        self._is_readable[exchange.station] = False  # a frame to the station itself sets no NAV

    def _conclude(self, exchange: _Exchange, *, is_success: bool) -> None:
        """End an attempt: the station draws its next counter, and contends if it has a frame."""
        station = exchange.station
        del self._exchange[station]
        has_frame = self._cell.quiet or float(self._cell.ready_s[station]) == exchange.ready_s
        self._backoff.end_attempt(station, is_success=is_success, has_frame=has_frame)
        self._slots[station] = self._backoff.draw(station)
        if not is_success:
            self._earliest[station] = self._now + exchange.timing.timeout
        self._resume(np.arange(self._cell.size) == station)
        self._update(station)
