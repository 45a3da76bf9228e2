"""An independent simulation of the unslotted CSMA-CA of IEEE 802.15.4, which shares no code with netfl.

All stations sense each other and the tower.  Times are symbols of 16 µs.
"""

from heapq import heappop, heappush
from typing import NamedTuple

import numpy as np

SYMBOL_S = 16e-6
UNIT, CCA, TURN, ACK, ACK_WAIT, LIFS = 20, 8, 12, 22, 54, 40


class Counts(NamedTuple):
    """What happened in one run: frames received once, transmissions, and frames given up by cause."""

    received: int
    transmissions: int
    no_access: int
    no_answer: int
    duplicates: int


class Station:
    """A station with a queue of arrival times; saturated without them."""

    def __init__(self, arrivals):
        self.arrivals = arrivals
        self.next = 0
        self.nb = 0
        self.be = 0
        self.tries = 0
        self.is_known = False  # whether the tower has the present frame
        self.free = 0
        self.is_idle = True


def simulate(  # noqa: PLR0912, PLR0915 - one branch for each event
    stations,
    duration_s,
    seed,
    *,
    frame_bytes=100,
    arrivals=None,
    ack=True,
    min_be=3,
    max_be=5,
    max_nb=4,
    retries=3,
):
    """Return the counts of one run; *frame_bytes* are those of the MAC, *arrivals* symbols for each station."""
    rng = np.random.default_rng(seed)
    airtime = 2 * (frame_bytes + 6)
    end_of_run = round(duration_s / SYMBOL_S)
    members = [Station(None if arrivals is None else arrivals[number]) for number in range(stations)]
    air = []  # (begin, end, sender); the tower is -1
    events = []
    counts = dict.fromkeys(Counts._fields, 0)
    order = 0

    def plan(at, rank, act, station, extra=None):
        nonlocal order
        order += 1
        heappush(events, (at, rank, order, act, station, extra))

    def contend(number, now):
        member = members[number]
        member.nb = 0
        member.be = min_be
        back_off(number, max(now, member.free))

    def back_off(number, now):
        periods = rng.integers(0, 2 ** members[number].be)
        plan(now + int(periods) * UNIT + CCA, 1, "assess", number)

    def fetch(number, now):
        member = members[number]
        member.tries = 0
        member.is_known = False
        member.is_idle = True
        if member.arrivals is None:
            member.is_idle = False
            contend(number, now)
        elif member.next < len(member.arrivals):
            at = member.arrivals[member.next]
            member.next += 1
            if at <= now:
                member.is_idle = False
                contend(number, now)
            else:
                plan(at, 2, "arrive", number)

    for number in range(stations):
        fetch(number, 0)
    while events:
        now, _, _, act, number, extra = heappop(events)
        if now > end_of_run:
            break
        member = members[number]
        if len(air) > 200:
            air = [signal for signal in air if signal[1] > now - 2000]
        if act == "arrive":
            member.is_idle = False
            contend(number, now)
        elif act == "assess":
            if any(begin < now and end > now - CCA for begin, end, _ in air):
                member.nb += 1
                member.be = min(member.be + 1, max_be)
                if member.nb > max_nb:
                    counts["no_access"] += not member.is_known
                    fetch(number, now)
                else:
                    back_off(number, now)
            else:
                plan(now + TURN, 2, "send", number)
        elif act == "send":
            member.tries += 1
            counts["transmissions"] += 1
            signal = (now, now + airtime, number)
            air.append(signal)
            plan(now + airtime, 0, "sent", number, signal)
        elif act == "sent":
            member.free = now + LIFS
            is_received = not overlaps(air, extra)
            counts["received"] += is_received and not member.is_known
            counts["duplicates"] += is_received and member.is_known
            if not ack:
                fetch(number, now)
                continue
            if is_received:
                member.is_known = True
                plan(now + TURN, 2, "answer", number)
            plan(now + ACK_WAIT, 0, "expire", number, member.tries)
        elif act == "answer":
            if any(sender == -1 and end > now for _, end, sender in air):
                continue
            signal = (now, now + ACK, -1)
            air.append(signal)
            plan(now + ACK, 0, "answered", number, signal)
        elif act == "answered":
            if not overlaps(air, extra):
                member.free = now + LIFS
                fetch(number, now)
        elif act == "expire":
            # an answered station has a new frame, with fewer tries, or none
            if member.tries != extra or member.is_idle:
                continue
            if member.tries <= retries:
                contend(number, now)
            else:
                counts["no_answer"] += not member.is_known
                fetch(number, now)
    return Counts(**counts)


def overlaps(air, signal):
    """Return whether another signal overlaps with *signal*."""
    begin, end, _ = signal
    return any(other is not signal and other[0] < end and other[1] > begin for other in air)
