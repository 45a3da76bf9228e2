"""Absence from a file with time steps: it is the outage `availability`, in every part of a network."""

import copy
from collections import Counter

import numpy as np
import pytest
from support.small_network import RULES, make

import netfl
from netfl.errors import ModelError, ScenarioError
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


class TestTrajectory:
    """Tables of positions: points of ways or, with ``absent``, time steps."""

    SAMPLES = "user,time_s,x_m,y_m\n" + "".join(
        f"{user},{time_s},{10 * time_s},{user}\n"
        for time_s in range(8)
        for user in (0, 1)
        if not (user and 3 <= time_s < 6)
    )

    def open(self, folder, text=None, users=2, **settings):
        (folder / "walks.csv").write_text(text or self.SAMPLES)
        layout = Star(placement={"kind": "table", "file": str(folder / "walks.csv")}).open(users, Streams(1))
        model = Trajectory(file=folder / "walks.csv", **settings)
        return model, model.open(layout, Streams(1))

    def test_points_of_ways_are_joined(self, tmp_path):
        model, paths = self.open(tmp_path)
        assert not model.has_absences
        assert paths.stays is None
        assert paths.xy_m(np.array([1]), 4.0).tolist() == [[40.0, 1.0]]

    @pytest.mark.parametrize("absent", ["away", "rest"])
    def test_user_rests_where_it_was_last_seen(self, tmp_path, absent):
        model, paths = self.open(tmp_path, absent=absent)
        assert paths.xy_m(np.array([1, 1, 1]), [2.0, 5.999, 6.0]).tolist() == [[20.0, 1.0], [20.0, 1.0], [60.0, 1.0]]
        assert model.has_absences == (absent == "away")
        assert (paths.stays is None) == (absent == "rest")

    def test_user_is_away_at_times_without_its_line(self, tmp_path):
        _, paths = self.open(tmp_path, absent="away")
        stays = paths.stays
        rows = sorted(zip(stays.users.tolist(), stays.starts_s.tolist(), stays.ends_s.tolist(), strict=True))
        assert rows == [(0, 0.0, 8.0), (1, 0.0, 3.0), (1, 6.0, 8.0)]

    def test_table_that_looks_sampled_is_a_doubt(self, tmp_path):
        model, _ = self.open(tmp_path)
        (warning,) = model.warnings(2, 5.0)
        assert warning.startswith(
            "1 of 2 users lack lines at times of the file between others, and move straight there"
        )
        assert (
            "user 1; if the times are time steps at which they are absent, set absent: away or absent: rest" in warning
        )
        ways = "user,time_s,x_m,y_m\n0,0,0,0\n0,50,9,0\n0,100,0,0\n1,0,0,0\n1,100,5,5\n"
        assert [*self.open(tmp_path, ways)[0].warnings(2, 5.0)] == []

    def test_user_without_a_line_is_away(self, tmp_path):
        (tmp_path / "walks.csv").write_text(self.SAMPLES.replace(",1\n", ",0\n"))
        model = Trajectory(file=tmp_path / "walks.csv", relative=True, absent="away")
        layout = Star(placement={"kind": "listed", "positions": [[0, 0], [5, 5], [7, 0]]}).open(3, Streams(1))
        stays = model.open(layout, Streams(1)).stays
        assert stays.starts_s[stays.users == 2].tolist() == [np.inf]
        never, end = model.warnings(3, 50.0)
        assert never.startswith("1 of 3 users are away for the whole run, as no time step of it has them: user 2;")
        assert end.startswith("all users are away from 8 s on")

    def test_faster_than_the_limit(self, tmp_path):
        text = "user,time_s,x_m,y_m\n1,15,8150,0\n0,0,0,0\n1,4,40,0\n"
        with pytest.raises(
            ScenarioError, match=r"walks.csv:2: user 1 moves 8110 m in 11 s, at 737.273 m/s, faster"
        ) as e:
            self.open(tmp_path, text)
        assert e.value.faults[0].key == "file"
        assert "set max_speed: 738 m/s" in e.value.faults[0].remedy
        self.open(tmp_path, text, max_speed="738 m/s")


def test_warnings_reach_the_check(tmp_path):
    motion = write_fcd(tmp_path / "town.fcd.xml")
    section = network(
        kind="network", topology={"kind": "star", "rate": "1 Gbps", "placement": motion}, motion=motion,
        round={"kind": "available", "deadline": 9.0},
    )  # fmt: skip
    found = [*warnings(netfl.load({"name": "n", "users": USERS, "rounds": 20, "access": section}))]
    texts = [text for text in found if text.startswith("access.motion, sumo_fcd: ")]
    assert len(texts) == 2
    assert "2 of 5 users lack time steps between others" in texts[0]
    assert "all users are away from 90 s on" in texts[1]
