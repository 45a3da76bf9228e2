"""The downlink compared with a recursion: copies queue on the link, then on the air, and are repeated at the end."""

import heapq
import random
from itertools import count

import numpy as np
import pytest
from support.recorders import Memory
from support.small_network import Listed

from netfl.access.network import NetworkAccess
from netfl.streams import Streams
from netfl.types import AccessContext

BITS, AIR_S = 1000.0, 1.0


def run_downlink(users, rounds, folder, *, outages=(), link=(1e9, 0.0), **overrides):
    """Return the rounds and the recorder."""
    rows = [f"{user},{a!r},{b!r}\n" for user, spans in enumerate(outages) for a, b in spans]
    (folder / "away.csv").write_text("node,start_s,end_s\n" + "".join(rows))
    access = NetworkAccess.model_validate(
        {
            "topology": {"kind": "star", "radius": "100 m", "rate": link[0], "delay": link[1]},
            "mac": {"kind": "round_robin"},
            "radio": {"power": "20 dBm", "bandwidth": "125 kHz"},
            "channel": [{"kind": "constant", "gain": "0 dB"}],
            "reception": {"kind": "snr_threshold", "threshold": "0 dB", "rate": BITS / AIR_S},
            "compute": {"speed": 1.0, "samples": 1},
            "update_size": BITS,
            "round": {"kind": "first", "m": 1},
            "outages": [{"kind": "calendar", "file": str(folder / "away.csv")}] if rows else [],
        }
        | overrides
    )
    log = Memory()
    setting = AccessContext(users, rounds, 0, Streams(1), np.ones(users), BITS, BITS, log)
    return list(access.rounds(setting)), log


def expected_receptions(users, mode, max_attempts, link, outages):
    """Return when each user receives version 0, and the number of transmissions."""
    rate_bps, delay_s = link
    copies = [[user] for user in range(users)] if mode == "unicast" else [list(range(users))]
    order, free_s, sent, received = count(), 0.0, 0, {}
    requests = [
        ((number + 1) * BITS / rate_bps + delay_s, next(order), copy, max_attempts)
        for number, copy in enumerate(copies)
    ]
    while requests:
        at_s, _, receivers, attempts_left = heapq.heappop(requests)
        start_s = max(at_s, free_s)
        free_s, sent = start_s + AIR_S, sent + 1
        missed = [user for user in receivers if any(a < free_s and b > start_s for a, b in outages[user])]
        received |= {user: free_s for user in receivers if user not in missed}
        if missed and attempts_left > 1:
            heapq.heappush(requests, (free_s, next(order), missed, attempts_left - 1))
    return received, sent


@pytest.mark.parametrize("mode", ["unicast", "multicast"])
@pytest.mark.quick_first
def test_reception_times_match_recursion(mode, tmp_path):
    for seed in range(60):
        rng = random.Random(f"{mode} {seed}")
        users, max_attempts = rng.randint(1, 6), rng.randint(1, 3)
        link = (rng.choice([1e9, 700.0, 2000.0]), rng.uniform(0, 3))
        starts = [rng.uniform(0, 9) for _ in range(users)]
        outages = [[(a, a + rng.uniform(0.1, 4))] if rng.random() < 0.6 else [] for a in starts]
        round_settings = {"round": {"kind": "first", "m": None, "deadline": 100.0}}
        downlink = {"downlink": {"mode": mode, "max_attempts": max_attempts}}
        rounds, log = run_downlink(users, 1, tmp_path, outages=outages, link=link, **round_settings, **downlink)
        received, sent = expected_receptions(users, mode, max_attempts, link, outages)
        received_s = {row[3]: row[1] for row in log.rows if row[0] == "received"}
        assert received_s == pytest.approx(received, abs=1e-9), seed
        assert rounds[0].downlink_bits == sent * BITS
        assert {delivery.user for delivery in rounds[0].deliveries} == set(received)


def test_copy_under_way_is_ignored_by_unselected_users(tmp_path):
    """Copies take 1 s each: that of version 0 for user 2 is sent when round 2 selects user 0 only."""
    selection, downlink = Listed(turns=((0, 1, 2), (0,))), {"downlink": {"mode": "unicast"}}
    rounds, log = run_downlink(
        3, 6, tmp_path, selection=selection, compute={"speed": [10, 0.3, 0.3], "samples": 1}, **downlink
    )
    for result in rounds:
        selected = {0, 1, 2} if result.index % 2 else {0}
        assert {row[3] for row in log.rows if row[0] == "received" and row[2] == result.index} <= selected
        assert {delivery.user for delivery in result.deliveries} <= selected


def test_missed_copy_does_not_start_training_of_unselected_user(tmp_path):
    """User 1 has version 0 and is down while version 1 is sent; round 3 then opens without it."""
    selection, downlink = Listed(turns=((0, 1), (0, 1), (0,), (0,))), {"downlink": {"mode": "unicast"}}
    # version 0 comes at 1 and 2 s, round 1 closes at 2.1 s; version 1 comes at 3.1 and 4.1 s, round 2 closes at 4.2 s
    compute = {"speed": [1e3, 0.01], "samples": 1}
    radio = {"reception": {"kind": "snr_threshold", "threshold": "0 dB", "rate": BITS / AIR_S}}
    _, log = run_downlink(
        2, 4, tmp_path, selection=selection, compute=compute, outages=[[], [(3.5, 30.0)]], **radio, **downlink
    )
    assert not [row for row in log.rows if row[0] == "superseded" and row[3] == 1 and row[2] > 3]
