"""A reference for saturated 802.11a stations that do not all sense each other, independent of the code of netfl.

All times are whole microseconds.  A station has no counters that run: whenever its next start is needed, it walks
through the intervals in which it has sensed the medium busy, and takes its slots from the gaps between them.

1. A slot counts if it is idle from beginning to end.  Slots begin DIFS after a busy interval.  A station whose slots
   are over at the very time at which another begins sends, too.
2. A frame is received if no other frame of a station and no frame of the tower overlaps with it.
3. The tower answers received data by an ACK after SIFS, and a received RTS by a CTS, whatever it senses.  All stations
   sense its frames, and the addressed one always receives them.
4. A station reads a frame that it has sensed alone while it sent nothing itself.  It then leaves the medium to the
   exchange: after data until the end of the ACK, after an RTS for 2 SIFS, a CTS, the preamble and two slots, after a
   CTS until the end of the ACK.
5. A frame without answer counts as failed; its station counts slots from DIFS after the time-out.
6. Windows are as in `dcf_reference`, without a limit of attempts.
"""

from dataclasses import dataclass
from heapq import heappop, heappush

import numpy as np

SLOT, SIFS, DIFS, PREAMBLE, ACK, RTS, CTS = 9, 16, 34, 20, 44, 52, 44
TIMEOUT = SIFS + SLOT + PREAMBLE + DIFS
_MEMORY = 50_000
"""Time for which intervals are kept."""


@dataclass
class Counts:
    """Attempts and successes of each station, ``[stations]``."""

    attempts: list[int]
    successes: list[int]

    @property
    def loss(self):
        """Failed attempts per attempt."""
        return 1.0 - sum(self.successes) / sum(self.attempts)


def overlap(first, second):
    """Return whether two intervals have more than an end in common."""
    return first[0] < second[1] and second[0] < first[1]


def simulate(senses, duration_s, seed, *, data=2072, ack=ACK, cw=(15, 1023), has_rts=False):  # noqa: PLR0912, PLR0915 - one run
    """Return the counts of stations, of which j senses i if ``senses[j][i]``; *data* and *ack* are airtimes of each."""
    stations = len(senses)
    airtime = [data] * stations if isinstance(data, int) else data
    ack = [ack] * stations if isinstance(ack, int) else ack
    rng = np.random.default_rng(seed)
    windows = [cw[0]] * stations
    slots = [int(rng.integers(cw[0] + 1)) for _ in range(stations)]
    since = [DIFS] * stations  # time from which each counts, before what it senses
    heard = [[] for _ in range(stations)]  # frames that each senses, as (start, end)
    reserved = [[] for _ in range(stations)]  # intervals that it leaves to others
    sent = [[] for _ in range(stations)]
    frames, tower = [], []
    is_engaged = [False] * stations
    events, number = [], 0
    counts = Counts([0] * stations, [0] * stations)
    end_us = round(duration_s * 1e6)

    def schedule(time, *event):
        nonlocal number
        number += 1
        heappush(events, (time, number, event))

    def next_start(station):
        base, left = since[station], slots[station]
        for start, end in sorted(heard[station] + reserved[station]):
            if end <= base - DIFS:
                continue
            if start >= base:
                if base + left * SLOT <= start:
                    break
                left -= (start - base) // SLOT
            base = max(base, end + DIFS)
        return base + left * SLOT

    def put_on_air(station, start, end):
        frames.append((start, end))
        sent[station].append((start, end))
        for other in range(stations):
            if senses[other][station] and other != station:
                heard[other].append((start, end))

    def answer(start, end):
        tower.append((start, end))
        for other in range(stations):
            heard[other].append((start, end))

    def reads(station, frame):
        others = [each for each in heard[station] if overlap(each, frame)]
        return len(others) == 1 and not any(overlap(each, frame) for each in sent[station])

    def reserve(station_sending, frame, until):
        for other in range(stations):
            if other != station_sending and frame in heard[other] and reads(other, frame):
                reserved[other].append((frame[1], until))

    def is_received(frame):
        return sum(overlap(each, frame) for each in frames) == 1 and not any(overlap(each, frame) for each in tower)

    def restart(station, now, success):
        counts.attempts[station] += 1
        counts.successes[station] += success
        windows[station] = cw[0] if success else min(2 * windows[station] + 1, cw[1])
        slots[station] = int(rng.integers(windows[station] + 1))
        since[station] = now + (DIFS if success else TIMEOUT)
        is_engaged[station] = False
        reserved[station] = [each for each in reserved[station] if each[1] > now]
        heard[station] = [each for each in heard[station] if each[1] > now]
        sent[station] = [each for each in sent[station] if each[1] > now - _MEMORY]

    while True:
        starts = [np.inf if is_engaged[station] else next_start(station) for station in range(stations)]
        start = min(starts)
        if events and events[0][0] <= start:
            now, _, (kind, station, frame) = heappop(events)
            frames[:] = [each for each in frames if each[1] > now - _MEMORY]
            tower[:] = [each for each in tower if each[1] > now - _MEMORY]
            if kind == "rts":
                reserve(station, frame, now + 2 * SIFS + CTS + PREAMBLE + 2 * SLOT)
                if is_received(frame):
                    answer(now + SIFS, now + SIFS + CTS)
                    schedule(now + SIFS + CTS, "cts", station, (now + SIFS, now + SIFS + CTS))
                else:
                    restart(station, now, False)
            elif kind == "cts":
                reserve(station, frame, now + SIFS + airtime[station] + SIFS + ack[station])
                schedule(now + SIFS, "clear", station, None)
            elif kind == "clear":
                put_on_air(station, now, now + airtime[station])
                schedule(now + airtime[station], "data", station, (now, now + airtime[station]))
            elif kind == "data":
                reserve(station, frame, now + SIFS + ack[station])
                if is_received(frame):
                    answer(now + SIFS, now + SIFS + ack[station])
                    schedule(now + SIFS + ack[station], "ack", station, None)
                else:
                    restart(station, now, False)
            else:
                restart(station, now, True)
            continue
        if start >= end_us:
            return counts
        for station, when in enumerate(starts):
            if when == start:
                is_engaged[station] = True
                kind = "rts" if has_rts else "data"
                end = start + (RTS if has_rts else airtime[station])
                put_on_air(station, start, end)
                schedule(end, kind, station, (start, end))
