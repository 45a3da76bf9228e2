"""A slot-exact reference for saturated 802.11 DCF in whole microseconds, independent of the code of netfl.

All stations hear each other, propagation takes no time, nothing is captured, frames are lost by collisions alone.
The relevant rules of the standard:

1. A station decrements its backoff counter for each slot that is idle from beginning to end.  In a slot in which a
   station begins to send, all counters freeze.
2. After a success all stations count slots from DIFS after the ACK.  A frozen counter has at least one slot left.  The
   winner draws a new backoff, which may be 0, so that only the winner can use the first slot after DIFS.
3. After a collision the colliders wait for the end of the ACK time-out, and then for DIFS, before they count slots
   (older reading, *edition* 2016: without DIFS).  The bystanders count from DIFS (802.11a: they sense energy but cannot
   decode) or EIFS (802.11b: they take it for a frame in error) after the end of the frames.  Their slots are then out
   of step until a station sends.
4. Windows: CW = least, after each collision 2 CW + 1 up to most, after a success least again.  A frame is dropped with
   its *limit*-th collision.  The window then continues: a station counts its collisions in a row, of whatever frames,
   as k, and CW = min(2^k (least + 1) - 1, most), until k would exceed the limit and begins at 0 (older reading: CW =
   least after a drop).
"""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class SetUp:
    """Times in microseconds; *bystanders* is the wait of bystanders after a collision."""

    slot: int
    sifs: int
    difs: int
    data: int
    ack: int
    timeout: int
    bystanders: int
    least: int
    most: int
    payload_bits: int = 12_000


SETUPS = {
    "802.11a": SetUp(9, 16, 34, 2072, 44, 45, 34, 15, 1023),
    "802.11b": SetUp(20, 10, 50, 1310, 203, 222, 364, 31, 1023),
}
FULL = {"802.11a": SetUp(9, 16, 34, 20 + 4 * 779, 44, 45, 34, 15, 1023, 8 * 2296)}
"""Set-ups for an MSDU of 2304 bytes, 2332 with MAC header and FCS: 18 678 bits in symbols of 24."""


def simulate(
    standard: str,
    stations: int,
    duration_s: float,
    seed: int,
    *,
    edition: int = 2020,
    limit: int = 0,
    setups: dict[str, SetUp] = SETUPS,
):
    """Return payload throughput in bit/s, collisions per attempt, and sent and dropped frames, ``[stations]`` each.

    Without *limit* no frame is dropped.
    """
    setup, rng = setups[standard], np.random.default_rng(seed)
    slot, end_us = setup.slot, round(duration_s * 1e6)
    uniforms = iter(())

    def draw(window: int) -> int:
        nonlocal uniforms
        for uniform in uniforms:
            return int(uniform * (window + 1))
        uniforms = iter(rng.random(10_000).tolist())
        return draw(window)

    windows, counters = [setup.least] * stations, [draw(setup.least) for _ in range(stations)]
    begins = [setup.difs] * stations  # time from which each station counts slots
    successes, attempts, collided, dropped = [0] * stations, 0, 0, [0] * stations
    tries, row = [0] * stations, [0] * stations  # collisions of the current frame, and in a row
    colliders_wait = setup.timeout + (setup.difs if edition == 2020 else 0)
    while True:
        at = [begin + slot * counter for begin, counter in zip(begins, counters, strict=True)]
        now = min(at)
        if now >= end_us:
            break
        counters = [
            counter - (now - begin) // slot if now > begin else counter
            for begin, counter in zip(begins, counters, strict=True)
        ]
        senders = [station for station, when in enumerate(at) if when == now]
        attempts += len(senders)
        if len(senders) == 1:
            (winner,) = senders
            successes[winner] += 1
            windows[winner], tries[winner], row[winner] = setup.least, 0, 0
            counters[winner] = draw(setup.least)
            begins = [now + setup.data + setup.sifs + setup.ack + setup.difs] * stations
            continue
        collided += len(senders)
        begins = [now + setup.data + setup.bystanders] * stations
        for station in senders:
            tries[station] += 1
            row[station] = 0 if row[station] == limit > 0 else row[station] + 1
            if tries[station] == limit:
                dropped[station] += 1
                tries[station] = 0
                row[station] = row[station] if edition == 2020 else 0
            windows[station] = min(2 ** min(row[station], 20) * (setup.least + 1) - 1, setup.most)
            counters[station] = draw(windows[station])
            begins[station] = now + setup.data + colliders_wait
    return sum(successes) * setup.payload_bits / duration_s, collided / attempts, successes, dropped
