"""The unslotted CSMA-CA of IEEE 802.15.4: its timing, and the stations of a cell.

Next on the way of a frame: `netfl.network.radio.cell.Cell.attempt`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from heapq import heappop, heappush
from math import ceil
from typing import Any, NamedTuple

import numpy as np
import simpy

from netfl.network.mac._sensing_stations import NS, SLACK_S, SensingStations
from netfl.network.radio.cell import Cell
from netfl.network.radio.transmission import Frames
from netfl.types import Bools, Users

SYMBOL = 16_000
"""Duration of a symbol of the O-QPSK PHY at 2.4 GHz, in ns: 62.5 ksymbol/s (IEEE 802.15.4-2020 §12)."""
BIT_RATE_BPS = 250e3
"""Bit rate of this PHY: four bits a symbol (§12)."""
UNIT_BACKOFF = 20 * SYMBOL
"""aUnitBackoffPeriod: turnaround and CCA (§8.4.2)."""
CCA = 8 * SYMBOL
"""aCcaTime: duration of a clear channel assessment (§11.3, Table 11-1)."""
TURNAROUND = 12 * SYMBOL
"""aTurnaroundTime: time between receiving and sending (§11.3, Table 11-1)."""
_PHY_BYTES = 6
"""Preamble 4, delimiter 1 and PHR 1 byte (§12)."""
_ACK_BYTES = 5
"""MHR 3 and FCS 2 bytes of an acknowledgement (§7.3.3)."""
MAX_FRAME_BYTES = 127
"""aMaxPhyPacketSize: largest frame of the MAC, with its header and FCS (§11.3, Table 11-1)."""
_SHORT_FRAME_BYTES = 18
"""aMaxSifsFrameSize: largest frame that is followed by a short space (§8.4.2)."""
SIFS = 12 * SYMBOL
"""macSifsPeriod (§6.2.4)."""
LIFS = 40 * SYMBOL
"""macLifsPeriod (§6.2.4)."""
ACK = 2 * (_PHY_BYTES + _ACK_BYTES) * SYMBOL
"""Airtime of an acknowledgement."""
ACK_WAIT = UNIT_BACKOFF + TURNAROUND + 22 * SYMBOL
"""macAckWaitDuration: with 10 symbols of preamble and delimiter, and 12 of six bytes (§8.4.3.1, Table 8-94)."""

# order of what happens at one instant
_END, _ASSESS, _BEGIN = range(3)


def frame_airtime(frame_bits: float) -> int:
    """Return the airtime of a frame of the MAC, in whole bytes, in ns; header and FCS are part of *frame_bits*."""
    return 2 * (_PHY_BYTES + _whole_bytes(frame_bits)) * SYMBOL


def frame_space(frame_bits: float) -> int:
    """Return the space that follows a frame of the MAC or its acknowledgement, in ns (§6.2.4)."""
    return SIFS if _whole_bytes(frame_bits) <= _SHORT_FRAME_BYTES else LIFS


def _whole_bytes(bits: float) -> int:
    return ceil(bits / 8.0 - 1e-9)  # exact multiples despite rounding


class CsmaParameters(NamedTuple):
    """Parameters of the unslotted CSMA-CA, by the attributes of Table 8-94.

    Args:
        min_be: macMinBe, first exponent of the backoff.
        max_be: macMaxBe, largest exponent.
        max_backoffs: macMaxCsmaBackoffs, backoffs after the first one until the access fails.
        senses: whether the CCA senses the medium; if not, it always reports it as idle (CCA mode 4, §10.2.8).
        acknowledges: whether the tower acknowledges frames.
        max_retries: macMaxFrameRetries, repeats of a frame without an acknowledgement.
        header_bits: MAC header and FCS.
        threshold_dbm: power from which on a station senses a signal; ``None`` if it senses all.
    """

    min_be: int
    max_be: int
    max_backoffs: int
    senses: bool
    acknowledges: bool
    max_retries: int
    header_bits: float
    threshold_dbm: float | None = None

    @property
    def max_attempts(self) -> int:
        """Attempts after which a frame is given up."""
        return 1 + self.max_retries if self.acknowledges else 1


@dataclass(slots=True, eq=False)
class _Signal:
    """A frame of a station, or an acknowledgement of the tower, on the air; times in ns from the start of the run.

    Args:
        sensed_by: whether each station senses it, ``[size]``; ``None`` for all.
    """

    begin: int
    end: int
    sensed_by: Bools | None = None

    def is_sensed(self, station: int) -> bool:
        """Return whether a station senses it."""
        return self.sensed_by is None or bool(self.sensed_by[station])


@dataclass(slots=True, eq=False)
class _Exchange:
    """The way of one frame of a station: backoffs, the frame, its acknowledgement, and its repeats.

    Args:
        ready_s: time from which the station has the frame, by which a newer one is recognised.
        backoffs: NB, backoffs of the present access so far, without its first.
        exponent: BE, exponent of the next backoff.
        tries: number of times that the frame was sent.
        duplicate: the frame as it is repeated once the tower has it, but the station does not know; else ``None``.
        is_sent: whether the frame is on the air, or its acknowledgement is awaited.
        airtime: airtime of the frame, in ns.
        space: space after it or its acknowledgement, in ns.
    """

    station: int
    ready_s: float
    backoffs: int = 0
    exponent: int = 0
    tries: int = 0
    duplicate: Frames | None = None
    is_sent: bool = False
    airtime: int = 0
    space: int = 0


class UnslottedCsma(SensingStations):
    """The stations of one cell, each with backoffs of its own.

    All times are whole nanoseconds from the start of the run, so that ties do not depend on rounding.  At each instant
    signals end first, then stations assess the channel, and then signals begin: nobody senses what begins or ends at
    the edges of its assessment.

    A station that moves to another tower starts its access over there, after the space that follows its last frame; an
    acknowledgement that it waits for does not come.
    """

    def __init__(self, cell: Cell, parameters: CsmaParameters, uniforms: Iterator[float]) -> None:
        super().__init__(cell, parameters.threshold_dbm)
        self._parameters = parameters
        self._uniforms = uniforms
        self._exchange: dict[int, _Exchange] = {}  # of stations with a frame that is tried now
        self._free_from = [0] * cell.size  # end of the space after the last frame of each station
        self._signals: list[_Signal] = []  # on the air, or that ended within the last assessment
        self._answers_until = 0  # end of the acknowledgement that the tower sends
        self._events: list[tuple[int, int, int, Callable[[], None]]] = []  # heap of (time, order, number, act)
        self._outcomes: list[tuple[int, int, simpy.Event]] = []  # heap of (end, number, outcome) of frames on the air
        self._number = 0  # of entries of the heap, which keeps their order

    def serve(self) -> Generator[simpy.Event, Any, None]:
        """Let the stations contend."""
        cell = self._cell
        while True:
            self._update_stations()
            next_s = self._events[0][0] * NS if self._events else np.inf
            until_s = next_s
            if self._coming:
                until_s = min(next_s, self._coming[0][0])
            if until_s > cell.env.now + SLACK_S:
                yield cell.wait_for_change(until_s)
                continue
            if self._events and next_s <= until_s + SLACK_S:
                self._now = max(self._now, self._events[0][0])
                yield from self._await_outcomes()
                while self._events and self._events[0][0] <= self._now:
                    heappop(self._events)[3]()

    def _await_outcomes(self) -> Generator[simpy.Event, Any, None]:
        """Wait for the outcomes of the frames that end now, as all of their signals have arrived."""
        while self._outcomes and self._outcomes[0][0] <= self._now:
            _, _, outcome = heappop(self._outcomes)
            if not outcome.processed:
                yield outcome

    def _schedule(self, at: int, order: int, act: Callable[[], None]) -> None:
        self._number += 1
        heappush(self._events, (at, order, self._number, act))

    # stations and their frames

    def _update(self, station: int) -> None:
        """Take in the frame of a station; one whose frame is on the air does so at the end of it."""
        exchange = self._exchange.get(station)
        if exchange is not None and (exchange.is_sent or exchange.duplicate is not None):
            return
        ready_s = float(self._cell.ready_s[station])
        if ready_s > self._cell.env.now + SLACK_S:
            self._exchange.pop(station, None)  # its frame is gone, or an outage cuts it off
            if ready_s < np.inf:
                heappush(self._coming, (ready_s, station))
        elif exchange is None or exchange.ready_s != ready_s:
            self._begin_access(_Exchange(station, ready_s))

    # access to the medium

    def _begin_access(self, exchange: _Exchange) -> None:
        """Begin the algorithm of §6.2.5.1, for a new frame or a repeat."""
        self._exchange[exchange.station] = exchange
        exchange.is_sent = False
        exchange.backoffs = 0
        exchange.exponent = self._parameters.min_be
        self._back_off(exchange, max(self._now, self._free_from[exchange.station]))

    def _back_off(self, exchange: _Exchange, from_ns: int) -> None:
        """Wait for a number of periods that is uniform on 0 … 2^BE - 1, and assess the channel then."""
        periods = int(next(self._uniforms) * 2**exchange.exponent)
        at = from_ns + periods * UNIT_BACKOFF + CCA
        self._schedule(at, _ASSESS, partial(self._end_assessment, exchange))

    def _end_assessment(self, exchange: _Exchange) -> None:
        """Send after the turnaround if the channel was idle, else back off again or give the access up."""
        if self._exchange.get(exchange.station) is not exchange:
            return
        if not self._is_busy(exchange.station):
            self._schedule(self._now + TURNAROUND, _BEGIN, partial(self._send, exchange))
            return
        exchange.backoffs += 1
        exchange.exponent = min(exchange.exponent + 1, self._parameters.max_be)
        if exchange.backoffs <= self._parameters.max_backoffs:
            self._back_off(exchange, self._now)
            return
        if exchange.duplicate is None:  # else the tower has it
            self._cell.give_up(exchange.station)
        self._conclude(exchange)

    def _is_busy(self, station: int) -> bool:
        """Return whether any signal that a station senses was on the air within the assessment that ends now."""
        if not self._parameters.senses:
            return False
        since = self._now - CCA
        self._signals = [signal for signal in self._signals if signal.end > since]
        for signal in self._signals:
            if signal.begin < self._now and signal.is_sensed(station):
                return True
        return self._is_jammed(station, since, self._now)

    def _is_jammed(self, station: int, begin: int, end: int) -> bool:
        """Return whether a station senses a burst of a jammer within an interval."""
        jamming = self._cell.jamming
        if jamming is None or not jamming.timeline.is_busy(begin * NS, end * NS):
            return False
        return self._threshold_dbm is None or bool(self._cell.jammer_dbm()[station] >= self._threshold_dbm)

    # frames

    def _send(self, exchange: _Exchange) -> None:
        """Send the frame of a station, or repeat it."""
        station = exchange.station
        cell = self._cell
        if self._exchange.get(station) is not exchange:
            return
        users = np.array([station])
        if exchange.duplicate is not None:
            if not cell.can_repeat(station):  # it is cut off
                self._conclude(exchange)
                return
            outcome = cell.repeat(station, exchange.duplicate, exchange.airtime * NS)
        else:
            if not cell.drop_silent([station]):  # it is cut off, or withholds its frame, and starts over after that
                del self._exchange[station]
                return
            frame_bits = cell.sizes(users)[0] + self._parameters.header_bits
            exchange.airtime = frame_airtime(frame_bits)
            exchange.space = frame_space(frame_bits)
            limit = self._parameters.max_attempts
            begin_s = self._now * NS if cell.quiet else 0.0
            outcome = cell.attempt(users, duration_s=exchange.airtime * NS, limit=limit, begin_s=begin_s)
        exchange.is_sent = True
        exchange.tries += 1
        end = self._now + exchange.airtime
        sensed_by = None
        if self._threshold_dbm is not None:
            sensed_by = self._sensed_by(station)
        self._signals.append(_Signal(self._now, end, sensed_by))
        self._number += 1
        heappush(self._outcomes, (end, self._number, outcome))
        frame = exchange.duplicate
        if frame is None and self._parameters.acknowledges:
            frame = cell.frame_on_air(station)
        self._schedule(end, _END, partial(self._end_frame, exchange, outcome, frame))

    def _end_frame(self, exchange: _Exchange, outcome: simpy.Event, frame: Frames | None) -> None:
        """Let the tower acknowledge a frame that it has received, and the station wait for that."""
        if self._exchange.get(exchange.station) is not exchange:  # it has left
            return
        end = self._now
        is_received = bool(np.asarray(outcome.value)[0])
        self._free_from[exchange.station] = end + exchange.space
        if not self._parameters.acknowledges:
            self._conclude(exchange)
            return
        if is_received:
            exchange.duplicate = frame
            self._schedule(end + TURNAROUND, _BEGIN, partial(self._acknowledge, exchange))
        self._schedule(end + ACK_WAIT, _END, partial(self._time_out, exchange))

    def _acknowledge(self, exchange: _Exchange) -> None:
        """Let the tower send an acknowledgement, if it sends nothing else; all stations sense it."""
        if self._answers_until > self._now or not self._cell.can_answer(self._cell.transmitter):
            return
        self._answers_until = self._now + ACK
        self._cell.answer(ACK * NS)
        answer = _Signal(self._now, self._answers_until)
        self._signals.append(answer)
        self._schedule(answer.end, _END, partial(self._end_acknowledgement, exchange, answer))

    def _end_acknowledgement(self, exchange: _Exchange, answer: _Signal) -> None:
        """End an exchange, unless a signal that the station senses has disturbed the acknowledgement."""
        station = exchange.station
        if self._exchange.get(station) is not exchange:
            return
        for signal in self._signals:
            overlaps = signal is not answer and signal.begin < answer.end and signal.end > answer.begin
            if overlaps and signal.is_sensed(station):
                return
        if self._is_jammed(station, answer.begin, answer.end):
            return
        self._free_from[station] = self._now + exchange.space
        self._conclude(exchange)

    def _time_out(self, exchange: _Exchange) -> None:
        """Let a station without an acknowledgement repeat its frame, or turn to its next one (§6.7.4.4)."""
        if self._exchange.get(exchange.station) is not exchange:
            return
        has_frame = exchange.duplicate is not None or float(self._cell.ready_s[exchange.station]) == exchange.ready_s
        if has_frame and exchange.tries < self._parameters.max_attempts:
            self._begin_access(exchange)
        else:
            self._conclude(exchange)

    def _conclude(self, exchange: _Exchange) -> None:
        """End an exchange, and let the station begin the next one if it has a frame."""
        del self._exchange[exchange.station]
        self._update(exchange.station)

    # stations that move to another tower

    def take(self, users: Users) -> Mapping[str, Any]:
        """Take what is known of users who leave, as `DeviceState.take`."""
        now = max(self._now, round(self._cell.env.now / NS))
        free_from = []
        for user in users.tolist():
            exchange = self._exchange.pop(user, None)
            if exchange is not None and exchange.is_sent:  # its frame has ended at this instant, or before
                self._free_from[user] = max(self._free_from[user], now + exchange.space)
            free_from.append(self._free_from[user])
            self._free_from[user] = 0
        return {"free_from": np.array(free_from)}

    def put(self, users: Users, row: Mapping[str, Any]) -> None:
        """Put back what is known of users who come, as `DeviceState.put`."""
        for user, free_from in zip(users.tolist(), row["free_from"].tolist(), strict=True):
            self._free_from[user] = free_from
