"""Networks of a few towers whose users change their towers: settings of all parts, and a check of their events."""

from collections import Counter

import numpy as np

from netfl.network.association import Association, TowerChoice
from netfl.types import OUTCOMES

USERS = 8
TREE = {"kind": "tree", "fanout": [3], "ring": "500 m", "radius": "600 m", "rate": "1 Mbps", "delay": "5 ms"}
FADES = [{"kind": "log_distance", "exponent": 3.0, "frequency": "868 MHz"}, {"kind": "rayleigh", "coherence": "2 s"}]
BUSY = {
    "topology": TREE,
    "channel": FADES,
    "reception": {"kind": "snr_threshold", "threshold": "6 dB", "rate": "2 kbps"},
    "radio": {"power": "25 dBm", "bandwidth": "125 kHz"},
    "mac": {"kind": "slotted_aloha", "probability": 0.3},
    "compute": {"speed": [1.0, 0.7, 0.9, 0.8, 1.1, 0.6, 0.75, 0.95], "samples": 1, "jitter": 0.5},
    "round": {"kind": "first", "m": 4, "deadline": "20 s"},
    "unreachable": "keep",
    "energy": {"efficiency": 0.3},
}
CASES = {
    "restart": {},
    "finish": {"on_new_version": "finish", "staleness": 3},
    "ignore": {"on_new_version": "ignore", "staleness": 3},
    "asynchronous": {"round": "asynchronous"},
    "buffered": {"round": {"kind": "buffered", "size": 3}},
    "no deadline": {"round": {"kind": "first", "m": 3}},
    "multicast": {"broadcast_rate": None, "downlink": {"mode": "multicast", "power": "40 dBm"}},
    "unicast": {"broadcast_rate": None, "downlink": {"mode": "unicast", "power": "30 dBm", "max_attempts": 2}},
    "packets": {"transport": {"grain": "packet", "mtu": "300 bit", "arq": {"timeout": "1 s"}}},
    "outages": {
        "outages": [
            {
                "kind": "renewal",
                "nodes": "users",
                "up": {"distribution": "exponential", "mean": 20.0},
                "down": {"distribution": "fixed", "mean": 4.0},
            }
        ]
    },
    "csma_ca": {"mac": "csma_ca"},
    "round_robin": {"mac": "round_robin"},
    "tdma": {"mac": "tdma"},
    "fdma": {"mac": {"kind": "fdma", "band": "125 kHz"}},
    "fdma among users": {"mac": {"kind": "fdma", "band": "125 kHz", "among": "users"}},
    "fdma in order": {
        "mac": {"kind": "fdma", "band": "125 kHz", "among": "users", "placement": "ordered"},
        "shared_air": True,
        "interference": "sinr",
    },
    "fdma by allocation": {
        "mac": {"kind": "fdma", "band": "125 kHz", "division": "allocated"},
        "allocation": "equal",
    },
    "pure_aloha": {"mac": {"kind": "pure_aloha", "backoff": "2 s"}},
    "one air": {"shared_air": True, "interference": "sinr"},
    "exempt": {"exempt": {"contention": [0, 3], "outage": [1]}},
}


class Shuttle(Association):
    """Users that change their towers at times of the user's own."""

    times: tuple[float, ...]

    def open(self, links):
        return ShuttleChoice(np.array(self.times), len(links.towers))


class ShuttleChoice(TowerChoice):
    def __init__(self, times_s, towers):
        self.times_s, self.towers = times_s, towers

    def choose(self, users, serving, time_s):
        return (users + np.count_nonzero(self.times_s <= time_s)) % self.towers

    def next_s(self, time_s):
        later_s = self.times_s[self.times_s > time_s]
        return later_s[0] if later_s.size else np.inf


def check_updates(simulator, layout, log):
    """Check that each update has one outcome, and that users trained and sent where they were at that time."""
    ended = Counter((row[3], row[5]) for row in log.rows if row[0] in OUTCOMES)
    begun = Counter((row[3], row[5]) for row in log.rows if row[0] == "received")
    trained = {(row[3], row[5]) for row in log.rows if row[0] == "trained"}
    assert begun == ended
    assert {(row[3], row[5]) for row in log.rows if row[0] == "delivered"} <= trained
    assert not +simulator._outstanding.open_updates
    assert not -simulator._outstanding.open_updates
    visits = 0
    for kind, time_s, _, user, node, *_ in log.rows:
        if user < 0 or not node.startswith("tower") or kind == "forwarded":  # by a tower that the user has left
            continue
        tower = simulator.membership.tower_at(np.array([user]), time_s)[0]
        before = simulator.membership.tower_at(np.array([user]), np.nextafter(time_s, 0.0))[0]
        assert node in {layout.towers[tower], layout.towers[before]}, (kind, time_s, user)
        visits += tower != layout.tower_at_start[user]
    assert visits > 10
