"""Scenarios in which the cause of a user's missing deliveries is known: it is named, and no other is invented."""

import copy
from pathlib import Path

import pytest

import netfl
from netfl.diagnosis.explanation import explain
from netfl.scenario import yaml_document as documents

STAR = {"kind": "star", "radius": "100 m", "rate": "1 Gbps", "delay": 0}
NEAR, FAR = 100, 1500
BASE = {
    "kind": "network",
    "topology": STAR,
    "mac": {"kind": "tdma"},
    "radio": {"power": "0 dBm", "bandwidth": "125 kHz"},
    "channel": [{"kind": "log_distance", "exponent": 3.0, "frequency": "868 MHz"}],
    "reception": {"kind": "snr_threshold", "threshold": "0 dB", "rate": "1 kbps"},
    "compute": {"speed": 1.0, "samples": 1},
    "broadcast_rate": "1000 Gbps",
    "update_size": 1000.0,
    "round": {"kind": "first", "deadline": 20.3, "losses": "unknown"},
}
"""Eight users train for 1 s, and each has a turn of 1 s in a frame of 8 s: all are delivered in rounds of 20.3 s."""
RAYLEIGH = {"kind": "rayleigh", "coherence": "1 s"}
USER = 3


def speeds(slow):
    """Return the speeds of eight users, that of user 3 being *slow*."""
    return {"speed": [1, 1, 1, slow, 1, 1, 1, 1], "samples": 1}


def distances(far):
    """Return a star in which user 3 is at a distance of its own."""
    return {"kind": "star", "distances": [100, 100, 100, far, 100, 100, 100, 100], "rate": "1 Gbps", "delay": 0}


def away(folder: Path, away_s=52):
    """User 3 has an outage for 52 s of every minute."""
    file = folder / "away.csv"
    rows = [f"3,{start},{start + away_s}" for start in range(0, 3000, 60)]
    file.write_text("node,start_s,end_s\n" + "\n".join(rows) + "\n")
    return {"outages": [{"kind": "calendar", "file": str(file)}]}


def avoided(folder: Path):
    return {"selection": {"kind": "support.avoiding_selection:Avoiding", "user": 3}}


def slow(folder: Path):
    """User 3 trains for 18.5 s of 20 s."""
    return {"compute": speeds(1 / 18.5)}


def long_frames(folder: Path):
    """User 3 sends with SF12: two packets of 2.8 s at a duty cycle of 1 % take more than four minutes."""
    return {
        "topology": distances(3000),
        "radio": {"power": "14 dBm", "bandwidth": "125 kHz", "noise_figure": "6 dB"},
        "channel": [{"kind": "log_distance", "exponent": 3.4, "frequency": "868 MHz"}],
        "reception": "lora",
        "mac": "lorawan",
        "update_size": "90 B",
        "transport": {"grain": "packet", "mtu": "51 B"},
        "round": {"kind": "first", "deadline": 90.0},
    }


def crowded(folder: Path, far=50):
    """User 3 shares its cell with three others that send all the time; the other cell has its turns."""
    positions = {"server": [0, 0], "quiet": [0, 0], "crowded": [9000, 0]}
    nodes = {
        name: {"role": "server" if name == "server" else "tower", "position": at} for name, at in positions.items()
    }
    links = [{"between": [name, "server"], "rate": "1 Gbps"} for name in ("quiet", "crowded")]
    places = [[9000, 50], [9000, 50], [9000, 50], [9000, far]] + [[0, 50]] * 2 + [[9000, 50]] * 2
    return {
        "topology": {
            "kind": "inline", "nodes": nodes, "links": links, "placement": {"kind": "listed", "positions": places},
        },
        "mac": {"kind": "slotted_aloha", "probability": 0.35},
        "round": {"kind": "first", "deadline": 9.0},
        "compute": {"speed": 1.0, "samples": 1, "jitter": 0.3},
    }  # fmt: skip


def distant(folder: Path):
    return {
        "topology": distances(FAR),
        "channel": [*BASE["channel"], RAYLEIGH],
        "mac": {"kind": "tdma", "max_attempts": 1},
    }


def narrow_link(folder: Path):
    """User 3 has its own tower with a slow link (1 s per packet), overloaded by traffic; the queue holds one packet."""
    positions = {"server": [0, 0], "near": [0, 0], "narrow": [5000, 0]}
    nodes = {
        name: {"role": "server" if name == "server" else "tower", "position": at} for name, at in positions.items()
    }
    links = [{"between": [name, "server"], "rate": rate} for name, rate in (("near", "1 Gbps"), ("narrow", "1 kbps"))]
    placement = {"kind": "listed", "positions": [[0, 50]] * 3 + [[5000, 50]] + [[0, 50]] * 4}
    size = {"distribution": "fixed", "mean": 1000}
    return {
        "topology": {"kind": "inline", "nodes": nodes, "links": links, "placement": placement},
        "traffic": {"kind": "poisson", "source": "towers", "rate": 5.0, "size": size},
        "queue": {"kind": "drop_tail", "capacity": 1},
    }


def weak_tower(folder: Path):
    """The tower sends with 30 dB less than the users, so that user 3 misses most versions."""
    return {
        "topology": distances(1000),
        "radio": {"power": "30 dBm", "bandwidth": "125 kHz"},
        "channel": [*BASE["channel"], RAYLEIGH],
        "broadcast_rate": None,
        "downlink": {"mode": "unicast", "power": "-4 dBm"},
        "round": {"kind": "first", "deadline": 30.0},
    }


def abandons(folder: Path):
    """User 3 trains for longer than a round, and abandons its update for each version; older ones would count."""
    return {"compute": speeds(1 / 25), "staleness": 3}


def too_late(folder: Path):
    """User 3 trains for longer than a round and finishes its updates, but only those of the newest version count."""
    return {"compute": speeds(1 / 25), "on_new_version": "finish", "staleness": 0}


def crowded_and_distant(folder: Path):
    return crowded(folder, far=1300) | {"channel": [*BASE["channel"], RAYLEIGH]}


def slow_and_away(folder: Path):
    """User 3 trains for 18.5 s of 20 s, and is away for 59 s of every minute."""
    return away(folder, 59) | {"compute": speeds(1 / 18.5)}


def lossless(folder: Path):
    return {}


def equal_contention(folder: Path):
    return {"mac": {"kind": "slotted_aloha", "probability": 0.1}, "round": {"kind": "first", "m": 2}}


PLANTED = {
    "outage": (away, {"outage"}, set()),
    "selection": (avoided, {"selection"}, set()),
    "compute": (slow, {"compute"}, {"deadline", "contention"}),
    "airtime with deadline": (long_frames, {"airtime", "deadline"}, set()),
    "contention": (crowded, {"contention"}, {"deadline"}),
    "fading": (distant, {"fading"}, set()),
    "backhaul": (narrow_link, {"backhaul"}, set()),
    "downlink": (weak_tower, {"downlink"}, {"fading"}),
    "superseded": (abandons, {"superseded"}, {"compute", "deadline"}),
    "deadline": (too_late, {"deadline"}, {"compute"}),
    "contention and fading": (crowded_and_distant, {"contention", "fading"}, {"deadline"}),
    "compute and outage": (slow_and_away, {"compute", "outage"}, {"contention"}),
    "none": (lossless, set(), set()),
    "none, contention": (equal_contention, set(), set()),
}
"""Scenarios, their causes, and causes without which the user would deliver as well.

A slow user would deliver without the deadline.  One that finishes its training 1.8 s before it would deliver if its
turn came at once.
"""


@pytest.mark.parametrize("name", PLANTED)
@pytest.mark.slow
def test_planted_cause_is_named_and_none_invented(tmp_path, name):
    make_overrides, planted, also_true = PLANTED[name]
    access = copy.deepcopy(BASE) | make_overrides(tmp_path)
    path = tmp_path / "planted.yaml"
    path.write_text(documents.dump({"name": "planted", "seed": 9, "users": 8, "rounds": 100, "access": access}))
    run = netfl.trace(netfl.load(path), tmp_path / "run")
    user = explain(run, rare=1).users[0]
    if planted:
        user = explain(run, [USER]).users[0]
    assert planted <= {*user.named} <= planted | also_true, user.sentence
