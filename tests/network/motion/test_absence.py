"""Absence from a file with time steps: it is the outage `availability`, in every part of a network."""

import copy
from collections import Counter

import numpy as np
import pytest
from support.small_network import RULES, make

import netfl
from netfl.errors import ModelError, ScenarioError
from netfl.network.motion.sumo_fcd import SumoFcd
from netfl.network.motion.trajectory import Trajectory
from netfl.network.topology.star import Star
from netfl.network.validation import inactive_causes
from netfl.simulation.setup import warnings
from netfl.streams import Streams
from netfl.types import ScenarioFacts

USERS, STEPS_S = 5, np.arange(0.0, 90.0, 3.0)
PRESENT = {
    # half-open intervals in time steps; user 0 makes two trips, user 3 comes late, user 4 comes last and stays
    0: [(0, 4), (9, 20)],
    1: [(0, 30)],
    2: [(0, 6), (7, 8), (12, 27)],
    3: [(5, 16)],
    4: [(11, 30)],
}
"""Time steps of the file that have each user."""
EXPONENTIAL, FIXED = {"distribution": "exponential"}, {"distribution": "fixed"}


def position_m(user, step):
    """Return where a user is; it moves 6 m in a time step."""
    return 40.0 + 6.0 * step, 25.0 * user


def write_fcd(path):
    """Write the time steps as SUMO does, each vehicle as ``v`` and its number."""
    lines = ["<fcd-export>"]
    for step, time_s in enumerate(STEPS_S):
        lines.append(f'<timestep time="{time_s:.2f}">')
        for user, spans in PRESENT.items():
            if any(start <= step < end for start, end in spans):
                x_m, y_m = position_m(user, step)
                lines.append(f'<vehicle id="v{user}" x="{x_m:.2f}" y="{y_m:.2f}" speed="2.00"/>')
        lines.append("</timestep>")
    path.write_text("\n".join([*lines, "</fcd-export>"]))
    return {"kind": "sumo_fcd", "file": str(path), "ids": [f"v{user}" for user in range(USERS)]}


def write_presence(path):
    """Write the same presence as a file of the outage `availability`, whose last time step lasts 3 s."""
    rows = [f"{user},{3.0 * start},{3.0 * end}" for user, spans in PRESENT.items() for start, end in spans]
    path.write_text("\n".join(["user,start,end", *rows]))
    return {"kind": "availability", "file": str(path)}


def network(**overrides):
    """Return a network on which many things are lost."""
    return {
        "mac": {"kind": "slotted_aloha", "probability": 0.3, "max_attempts": 4},
        "channel": [
            {"kind": "log_distance", "exponent": 3.0, "frequency": "868 MHz"},
            {"kind": "rayleigh", "coherence": "1 s"},
        ],
        "radio": {"power": "14 dBm", "bandwidth": "125 kHz", "noise_figure": "6 dB"},
        "reception": {"kind": "snr_threshold", "threshold": "3 dB", "rate": "20 kbps"},
        "compute": {"speed": 1.0, "samples": 1, "spread": 0.5},
        "broadcast_rate": "50 kbps",
        "update_size": "10 kbit",
        "round": {"kind": "first", "m": 2, "deadline": 8.0},
    } | overrides


ENERGY = {"per_training": 0.3, "efficiency": 0.4, "receive": 0.05, "idle": 0.001}
BATTERY = {"kind": "battery", "capacity": 3.0, "initial": 0.5, "charger": {"power": 0.05}}
RENEWAL = {"kind": "renewal", "nodes": "users", "up": EXPONENTIAL | {"mean": 30}, "down": FIXED | {"mean": 4}}
COMPOSITIONS = [
    {},
    *({"round": rule} for rule in RULES),
    *({"on_new_version": rule} for rule in ("finish", "ignore")),
    {"energy": ENERGY},
    {"outages": [RENEWAL]},
    {"outages": [RENEWAL | {"in_progress": "finish"}]},
    {"exempt": {"outage": [0, 3]}},
    {"exempt": {"fading": [0], "contention": [2]}, "round": {"kind": "first", "m": 2, "deadline": 8.0}},
    {"broadcast_rate": None, "downlink": {"mode": "unicast"}},
    {"broadcast_rate": None, "downlink": {"mode": "multicast"}, "energy": ENERGY},
    {"transport": {"mtu": "2 kbit", "grain": "packet", "loss": "erase"}},
    {"mac": {"kind": "tdma", "slot": "600 ms"}},
    {"mac": {"kind": "round_robin"}},
    {"mac": {"kind": "fdma"}},
    {"mac": {"kind": "max_snr"}},
    {"mac": {"kind": "pure_aloha", "backoff": "2 s"}},
    {"mac": {"kind": "csma_ca"}, "shared_air": False},
    {"selection": {"kind": "uniform", "m": 3}},
]
"""Networks in which the absence meets another model, by what differs."""


def play_both(folder, rounds=20, **overrides):
    """Return rounds, events and recorded values with an absence and with the outage in its place."""
    motion = write_fcd(folder / "town.fcd.xml")
    outage = write_presence(folder / "presence.csv")
    topology = {"kind": "star", "rate": "1 Gbps", "delay": 0, "placement": motion}
    section = network(topology=topology, **overrides)
    results = []
    for absent, outages in (("away", []), ("rest", [outage])):
        parts = copy.deepcopy(section)
        parts["motion"] = motion | {"absent": absent}
        parts["outages"] = [*parts.get("outages", []), *outages]
        access, context, log = make(USERS, rounds, 7, **parts)
        try:
            played, problem = [*access.rounds(context)], ""
        except ModelError as error:  # a round that waits for users who never come back
            played, problem = [], str(error)
        records = (log.rows, log.final_values, log.spendings, log.attempts, log.attempts_by_user)
        results.append((repr(played), repr(records), problem, Counter(row[0] for row in log.rows)))
    return results


@pytest.mark.quick_first
@pytest.mark.parametrize("overrides", COMPOSITIONS, ids=lambda overrides: repr(overrides)[:60])
def test_absence_is_the_outage_availability(tmp_path, overrides):
    away, outage = play_both(tmp_path, **overrides)
    assert away == outage
    counts = away[-1]
    assert counts["down"] > 1
    assert counts["up"] > 1


def test_batteries_of_absent_users(tmp_path):
    """A battery is charged while its user is away, as under an outage."""
    overrides = {"energy": ENERGY | {"idle": 0.02}, "outages": [BATTERY]}
    away, outage = play_both(tmp_path, **overrides)
    assert away == outage
    assert away[-1]["down"] > 5


def test_observations_see_absent_users(tmp_path):
    """The server that selects users sees who is away, as under an outage."""
    motion = write_fcd(tmp_path / "town.fcd.xml")
    section = network(
        kind="network",
        topology={"kind": "star", "rate": "1 Gbps", "delay": 0, "placement": motion},
        motion=motion,
        round={"kind": "available", "deadline": 3.0},
    )
    scenario = {"name": "n", "users": USERS, "rounds": 12, "access": section}
    seen = []
    with netfl.Simulation(scenario, observe={"user_up": "present"}) as simulation:
        for _ in range(12):
            seen.append((simulation.time_s, simulation.observe().values["user_up"].tolist()))
            simulation.step()
    for time_s, up in seen:
        expected = [any(3 * a <= time_s < 3 * b for a, b in PRESENT[user]) for user in range(USERS)]
        assert up == expected
    assert len({tuple(up) for _, up in seen}) > 3


def facts_of(section):
    return inactive_causes(section, ScenarioFacts(users=USERS, rounds=5), selects_all=True)


def test_exemption_from_absence_has_an_effect(tmp_path):
    motion = write_fcd(tmp_path / "town.fcd.xml")
    topology = {"kind": "star", "placement": motion}
    access, _, _ = make(USERS, 5, 1, **network(topology=topology, motion=motion))
    assert "outage" not in facts_of(access)
    access, _, _ = make(USERS, 5, 1, **network(topology=topology, motion=motion | {"absent": "rest"}))
    assert facts_of(access)["outage"] == "there are no outages"
