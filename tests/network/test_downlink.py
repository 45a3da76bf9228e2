"""The way down against a recursion: copies queue on the link, then on the air, and are tried again at the end of it."""

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


def played(users, rounds, folder, *, outages=(), link=(1e9, 0.0), **said):
    """The rounds, and what was recorded of them."""
    rows = [f"{user},{a!r},{b!r}\n" for user, own in enumerate(outages) for a, b in own]
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
        | said
    )
    log = Memory()
    setting = AccessContext(users, rounds, 0, Streams(1), np.ones(users), BITS, BITS, log)
    return list(access.rounds(setting)), log


def expected(users, mode, tries, link, outages):
    """When each user has version 0, and how often it was sent, with nothing to wait for but other copies."""
    rate_bps, delay_s = link
    copies = [[user] for user in range(users)] if mode == "unicast" else [list(range(users))]
    order, free_s, sent, received = count(), 0.0, 0, {}
    asks = [((number + 1) * BITS / rate_bps + delay_s, next(order), copy, tries) for number, copy in enumerate(copies)]
    while asks:
        at_s, _, whom, left = heapq.heappop(asks)
        start_s = max(at_s, free_s)
        free_s, sent = start_s + AIR_S, sent + 1
        missed = [k for k in whom if any(a < free_s and b > start_s for a, b in outages[k])]
        received |= {user: free_s for user in whom if user not in missed}
        if missed and left > 1:
            heapq.heappush(asks, (free_s, next(order), missed, left - 1))
    return received, sent


@pytest.mark.parametrize("mode", ["unicast", "multicast"])
@pytest.mark.quick_first
def test_versions_arrive_when_the_recursion_says(mode, tmp_path):
    for seed in range(60):
        rng = random.Random(f"{mode} {seed}")
        users, tries = rng.randint(1, 6), rng.randint(1, 3)
        link = (rng.choice([1e9, 700.0, 2000.0]), rng.uniform(0, 3))
        starts = [rng.uniform(0, 9) for _ in range(users)]
        outages = [[(a, a + rng.uniform(0.1, 4))] if rng.random() < 0.6 else [] for a in starts]
        waits = {"round": {"kind": "first", "m": None, "deadline": 100.0}}
        down = {"downlink": {"mode": mode, "max_attempts": tries}}
        rounds, log = played(users, 1, tmp_path, outages=outages, link=link, **waits, **down)
        received, sent = expected(users, mode, tries, link, outages)
        told = {row[3]: row[1] for row in log.rows if row[0] == "received"}
        assert told == pytest.approx(received, abs=1e-9), seed
        assert rounds[0].downlink_bits == sent * BITS
        assert {one.user for one in rounds[0].deliveries} == set(received)


def test_a_copy_under_way_is_not_for_users_who_may_not_try_any_more(tmp_path):
    """Copies take 1 s each: that of version 0 for user 2 is sent as round 2 lets user 0 alone try."""
    turns, down = Listed(turns=((0, 1, 2), (0,))), {"downlink": {"mode": "unicast"}}
    rounds, log = played(3, 6, tmp_path, selection=turns, compute={"speed": [10, 0.3, 0.3], "samples": 1}, **down)
    for one in rounds:
        may = {0, 1, 2} if one.index % 2 else {0}
        assert {row[3] for row in log.rows if row[0] == "received" and row[2] == one.index} <= may
        assert {each.user for each in one.deliveries} <= may


def test_a_copy_that_is_missed_does_not_set_users_to_work_who_may_not_try_any_more(tmp_path):
    """User 1 has version 0, and is away as version 1 is sent, at the end of which round 3 has begun without it."""
    turns, down = Listed(turns=((0, 1), (0, 1), (0,), (0,))), {"downlink": {"mode": "unicast"}}
    # version 0 comes at 1 and 2 s, round 1 closes at 2.1 s; version 1 comes at 3.1 and 4.1 s, round 2 closes at 4.2 s
    compute = {"speed": [1e3, 0.01], "samples": 1}
    radio = {"reception": {"kind": "snr_threshold", "threshold": "0 dB", "rate": BITS / AIR_S}}
    _, log = played(2, 4, tmp_path, selection=turns, compute=compute, outages=[[], [(3.5, 30.0)]], **radio, **down)
    assert not [row for row in log.rows if row[0] == "superseded" and row[3] == 1 and row[2] > 3]
