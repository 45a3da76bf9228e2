"""Mean airtimes of users, which a selection may weigh."""

import numpy as np
import pytest

from netfl.access._admission import _airtime_s
from netfl.access.network import NetworkAccess
from netfl.network.build import build_network
from netfl.streams import Streams
from netfl.types import AccessContext, NullRecorder

NODES = {
    "server": {"role": "server", "position": [0, 0]},
    "west": {"role": "tower", "position": [0, 0]},
    "east": {"role": "tower", "position": [50_000, 0]},
}
SETTINGS = {
    "topology": {
        "kind": "inline",
        "nodes": NODES,
        "links": [{"between": [name, "server"], "rate": "1 Gbps"} for name in ("west", "east")],
        "placement": {"kind": "listed", "positions": [[100, 0], [51_400, 0], [1_400, 0], [50_100, 0]]},
    },
    "radio": {"power": "20 dBm", "bandwidth": "1 MHz"},
    "channel": [{"kind": "log_distance", "exponent": 3.0, "frequency": "868 MHz"}],
    "reception": {
        "kind": "mcs",
        "table": [
            {"kind": "snr_threshold", "rate": "1 Mbps", "threshold": "-5 dB"},
            {"kind": "snr_threshold", "rate": "4 Mbps", "threshold": "40 dB"},
        ],
    },
    "mac": "tdma",
    "compute": {"speed": 1.0},
    "round": {"kind": "first"},
    "broadcast_rate": "1 Mbps",
    "update_size": 8000.0,
}


def test_airtime_is_that_of_the_users_mode_at_its_own_tower():
    """Users 0 and 3 are 100 m from different towers, users 1 and 2 are 1.4 km away."""
    users = 4
    context = AccessContext(users, 1, 0, Streams(1), np.ones(users), 8000.0, 8000.0, NullRecorder())
    access = NetworkAccess.model_validate(SETTINGS)
    config = build_network(access, context)
    assert _airtime_s(config, config.medium, 8000.0) == pytest.approx([0.002, 0.008, 0.008, 0.002])
