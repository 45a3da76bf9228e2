"""Models of links together: moving users of several towers, devices and outages, against formulas for each frame.

`tests/test_compositions.py` checks what every scenario has in common; here the numbers are recomputed from positions,
files and tables, and counts of losses are compared with the sums of their probabilities (± 4.5 errors).
"""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.interpolate import RegularGridInterpolator
from scipy.special import k1

import netfl
from netfl.network.build import build_layout
from netfl.network.radio.link_budget import LinkBudget
from netfl.scenario.scenario import validate
from netfl.scenario.yaml_document import ScenarioDocument
from netfl.simulation.setup import access_context

MAP = Path(__file__).parents[2] / "scenarios/files/street_map.csv"
PATH_LOSS = {"kind": "log_distance", "exponent": 3.5, "frequency": "868 MHz"}
THRESHOLD = 10**0.0023
"""Threshold of the waterfall bound, 0.023 dB."""
OUTAGES = [
    {
        "kind": "renewal",
        "nodes": "users",
        "up": {"distribution": "exponential", "mean": 10},
        "down": {"distribution": "exponential", "mean": 5},
    }
]
SECTION = {
    "kind": "network",
    "topology": {"kind": "tree", "fanout": [2], "ring": "300 m", "radius": "400 m"},
    "radio": {"power": "20 dBm", "bandwidth": "1 MHz", "noise_figure": "6 dB"},
    "channel": [PATH_LOSS],
    "unreachable": "keep",
}
SENDERS = {
    "mac": {"kind": "tdma", "max_attempts": 1},
    "traffic": {"kind": "saturated", "size": {"mean": "625 B"}, "destination": "tower"},
}
MOTION = {"kind": "random_waypoint", "radius": "500 m", "speed": [10, 30], "pause": [0, 1]}
SHARED = {"shared_air": True, "interference": "sinr"}


@pytest.fixture
def traced(tmp_path):
    """Return a function that traces a network with its attempts; it returns the run, the layout and the link budget."""

    def run(users, access, **keys):
        data = {"name": "composed", "seed": 3, "users": users, "record": {"attempts": True}, **keys}
        scenario = validate(ScenarioDocument({**data, "access": {**SECTION, **access}}))
        context = access_context(scenario, 0)
        layout = build_layout(scenario.access, context)
        budget = LinkBudget(scenario.access.radio, scenario.access.channel, layout, context.streams)
        return netfl.trace(scenario, tmp_path / "run"), layout, budget

    return run


def ended(run):
    """Return the attempts that ended."""
    attempts = run.table("attempts")
    return attempts[attempts["outcome"] != "unfinished"].reset_index(drop=True)


def check_count(outcomes, outcome, probability):
    """Check a number of outcomes against the sum of their probabilities, one for each attempt."""
    spread = np.sqrt((probability * (1.0 - probability)).sum())
    assert abs((outcomes == outcome).sum() - probability.sum()) < 4.5 * spread


def interference(attempts, layout, budget):
    """Return the power of the users of other cells over the noise at the tower of each attempt.

    All frames take one slot of 5 ms.
    """
    slots = attempts.assign(slot=np.round(attempts["start_s"] / 5e-3).astype(int), row=attempts.index)
    pairs = slots.merge(slots, on="slot", suffixes=("", "_other"))
    pairs = pairs[pairs["node"] != pairs["node_other"]]
    total = np.zeros(len(attempts))
    for tower in layout.towers:
        here = pairs[pairs["node"] == tower]
        snr_db = budget.snr_db(here["user_other"].to_numpy(), here["start_s_other"].to_numpy(), tower)
        np.add.at(total, here["row"].to_numpy(), 10 ** (snr_db / 10))
    return total


SHADOWING = {"kind": "correlated_shadowing", "sigma": "6 dB", "decorrelation_distance": "50 m"}
WATERFALL = {"kind": "waterfall", "threshold": "0.023 dB", "rate": "1 Mbps"}


@pytest.mark.parametrize(
    ("channel", "reception"),
    [
        ([PATH_LOSS, SHADOWING, {"kind": "rayleigh", "frequency": "868 MHz"}], WATERFALL),
        ([PATH_LOSS, SHADOWING], WATERFALL | {"fading": "rayleigh"}),
        ([PATH_LOSS, {"kind": "lognormal_shadowing", "sigma": "6 dB"}], WATERFALL),
    ],
    ids=["fading by motion", "fading within frames", "fixed shadowing"],
)
@pytest.mark.slow
def test_losses_of_moving_users_of_several_towers_are_those_at_their_sinr(traced, channel, reception):
    access = {**SENDERS, **SHARED, "motion": MOTION, "channel": channel, "reception": reception}
    run, layout, budget = traced(6, access, duration=4)
    attempts = ended(run)
    snr_db = budget.snr_db(attempts["user"].to_numpy(), attempts["start_s"].to_numpy())
    assert snr_db == pytest.approx(attempts["snr_db"])

    def received(noise):
        lost = THRESHOLD * noise / 10 ** (snr_db / 10)
        if "fading" not in reception:
            return np.exp(-lost)
        z = np.minimum(2 * np.sqrt(lost), 600.0)
        return z * k1(z)

    alone = received(1.0)
    disturbed = received(1.0 + interference(attempts, layout, budget))
    check_count(attempts["outcome"], "faded", 1.0 - alone)
    check_count(attempts["outcome"], "collided", alone - disturbed)
    assert (attempts["outcome"] == "collided").sum() > 50


@pytest.mark.slow
def test_a_map_around_each_tower_has_fading_that_follows_the_motion(traced):
    """Power of 10 dBm, 3 dB of antenna, noise of -108 dBm; what remains of the SNR is the fading of mean 1."""
    access = {
        **SENDERS,
        **SHARED,
        "topology": {"kind": "tree", "fanout": [2], "towers": [[-150, 0], [150, 0]], "radius": "150 m"},
        "motion": MOTION | {"radius": "200 m"},
        "radio": SECTION["radio"] | {"power": "10 dBm", "tower": {"antenna_gain": "3 dB"}},
        "channel": [
            {"kind": "radio_map", "file": str(MAP), "relative": True},
            {"kind": "rayleigh", "frequency": "868 MHz"},
        ],
        "reception": {"kind": "snr_threshold", "threshold": "10 dB", "rate": "1 Mbps"},
    }
    run, layout, budget = traced(6, access, duration=10)
    attempts = ended(run)
    users = attempts["user"].to_numpy()
    towers_m = np.array([[-150, 0], [150, 0]])[layout.tower_at_start[users]]
    table = pd.read_csv(MAP).pivot_table(index="x_m", columns="y_m", values="gain_db")
    gain = RegularGridInterpolator((table.index.to_numpy(), table.columns.to_numpy()), table.to_numpy())
    mean_db = 10 + 3 + 108 + gain(layout.paths.xy_m(users, attempts["start_s"].to_numpy()) - towers_m)
    fading = 10 ** ((attempts["snr_db"] - mean_db) / 10)
    assert fading.mean() == pytest.approx(1.0, abs=0.12)  # some 200 independent fades for each user
    assert (fading < 0.1).mean() == pytest.approx(-np.expm1(-0.1), abs=0.04)

    snr = 10 ** (attempts["snr_db"].to_numpy() / 10)
    sinr = snr / (1.0 + interference(attempts, layout, budget))
    expected = np.where(sinr >= 10.0, "received", np.where(snr >= 10.0, "collided", "faded"))
    assert (attempts["outcome"] == expected).all()


@pytest.mark.slow
def test_traces_to_each_tower_are_mean_gains_of_signal_and_interference(traced, tmp_path):
    """A frame needs an SINR of 10: with the mean ratios s and i it gets through with exp(-10 / s) / (1 + 10 i / s)."""
    draws = np.random.default_rng(1)
    times_s = np.arange(0.0, 42.0, 2.0)
    gains_db = {
        (user, tower): draws.normal(-100 - 15 * (user != tower), 4, len(times_s)).round(2)
        for user in range(2)
        for tower in range(2)
    }
    lines = ["user,time_s,tower,gain_db"]
    for (user, tower), values in gains_db.items():
        lines += [f"{user},{time_s},tower:{tower},{value}" for time_s, value in zip(times_s, values, strict=True)]
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")
    access = {
        **SENDERS,
        **SHARED,
        "topology": {
            "kind": "tree",
            "fanout": [2],
            "towers": [[0, 0], [1000, 0]],
            "placement": {"kind": "listed", "positions": [[100, 0], [900, 0]]},
        },
        "radio": SECTION["radio"] | {"power": "10 dBm"},
        "channel": [{"kind": "trace", "file": str(tmp_path / "t.csv")}, {"kind": "rayleigh", "coherence": "5 ms"}],
        "reception": {"kind": "snr_threshold", "threshold": "10 dB", "rate": "1 Mbps"},
    }
    run, *_ = traced(2, access, duration=40)
    attempts = ended(run)
    at_s = attempts["start_s"].to_numpy()
    users = attempts["user"].to_numpy()

    def mean(is_signal):
        own, other = (
            np.interp(at_s, times_s, gains_db[tower if is_signal else 1 - tower, tower]) for tower in range(2)
        )
        return 10 ** ((10 + 108 + np.where(users == 0, own, other)) / 10)

    alone = np.exp(-10.0 / mean(True))
    received = alone / (1.0 + 10.0 * mean(False) / mean(True))
    check_count(attempts["outcome"], "faded", 1.0 - alone)
    check_count(attempts["outcome"], "received", received)


@pytest.mark.parametrize("division", ["equal", "equal among users", "need", "water_filling"])
@pytest.mark.slow
def test_a_divided_band_is_never_exceeded_by_moving_users_with_outages(traced, division):
    """The share follows from the SNR in the share; each frame has the capacity of its share."""
    mac = {"kind": "fdma", "division": division}
    if division == "equal among users":
        mac = {"kind": "fdma", "among": "users"}
    access = {
        "motion": MOTION,
        "outages": OUTAGES,
        "reception": {"kind": "shannon"},
        "mac": mac,
        "traffic": SENDERS["traffic"] | {"size": {"mean": "20 kB"}},
    }
    run, layout, budget = traced(6, access, duration=60)
    attempts = ended(run)
    snr_db = budget.snr_db(attempts["user"].to_numpy(), attempts["start_s"].to_numpy())
    share = 10 ** ((snr_db - attempts["snr_db"]) / 10)
    rate_bps = share * 1e6 * np.log2(1 + 10 ** (attempts["snr_db"] / 10))
    whole = attempts["outcome"] == "received"
    assert (attempts["bits"] / rate_bps)[whole].to_numpy() == pytest.approx(attempts["airtime_s"][whole].to_numpy())
    assert {"received", "lost"} <= set(attempts["outcome"])
    for tower in layout.towers:
        here = attempts["node"] == tower
        starts_s = attempts["start_s"][here].to_numpy()
        ends_s = starts_s + attempts["airtime_s"][here].to_numpy() * (1 - 1e-9)
        on_air = (starts_s[:, None] <= starts_s) & (starts_s < ends_s[:, None])  # [frame, moment]
        assert (share[here].to_numpy() @ on_air).max() <= 1.0 + 1e-9
    if division == "equal among users":
        users = np.bincount(layout.tower_at_start)[layout.tower_at_start]
        assert share.to_numpy() == pytest.approx(1.0 / users[attempts["user"]])


@pytest.mark.slow
def test_classes_of_devices_meet_the_deadline_with_the_energies_of_their_class(traced):
    """Fast devices train for 0.25 s, slow ones for 1 s; all end at the deadline of 6 s after the download of 0.4 s."""
    access = {
        "radio": SECTION["radio"] | {"devices": {"fast": {"power": "23 dBm"}, "slow": {"power": "14 dBm"}}},
        "reception": {"kind": "shannon"},
        "mac": {"kind": "fdma", "division": "allocated"},
        "allocation": {"kind": "least_energy", "deadline": "6 s"},
        "energy": {
            "efficiency": 0.3,
            "capacitance": 1e-27,
            "devices": {"slow": {"efficiency": 0.2, "capacitance": 3e-27, "per_training": "0.1 J"}},
        },
        "compute": {
            "devices": {"fast": {"users": 5, "speed": 400}, "slow": {"users": 3, "speed": 100}},
            "cycles": 1e6,
            "samples": 100,
        },
        "broadcast_rate": "1 Mbps",
        "update_size": "50 kB",
        "round": "available",
    }
    run, _, budget = traced(8, access, rounds=1)
    attempts = ended(run).sort_values("user")
    is_slow = run.table("users")["device"].to_numpy() == "slow"
    assert is_slow.sum() == 3
    assert attempts["end_s"].to_numpy() == pytest.approx(0.4 + 0.005 + 0.4e-3 + 6.0, abs=1e-3)

    # a training takes as long as is left, and its energy follows from its frequency
    energy = run.table("energy").sort_values("user")
    train_s = attempts["start_s"].to_numpy() - (attempts["end_s"].to_numpy() - 6.0)
    frequency_hz = 1e8 / train_s
    train_j = np.where(is_slow, 0.1 + 3e-27 * 1e8 * frequency_hz**2, 1e-27 * 1e8 * frequency_hz**2)
    assert energy["train_J"].to_numpy() == pytest.approx(train_j, rel=1e-6)

    # the power is that of the SNR in the share: bits = t s B log2(1 + snr), with the shares of a cell summing to 1
    snr = 10 ** (attempts["snr_db"].to_numpy() / 10)
    share = 400_000 / (attempts["airtime_s"].to_numpy() * 1e6 * np.log2(1 + snr))
    for tower in ("tower:0", "tower:1"):
        assert share[(attempts["node"] == tower).to_numpy()].sum() == pytest.approx(1.0)
    full = 10 ** (budget_of_devices(budget, is_slow) / 10)
    radiated_w = np.where(is_slow, 10**-1.6, 10**-0.7)
    send_j = radiated_w / np.where(is_slow, 0.2, 0.3) * snr * share / full * attempts["airtime_s"].to_numpy()
    assert energy["send_J"].to_numpy() == pytest.approx(send_j, rel=1e-6)


def budget_of_devices(budget, is_slow):
    """Return the SNR in the whole band of devices of 23 and 14 dBm, from the *budget* of 20 dBm."""
    return budget.snr_db(np.arange(len(is_slow)), 0.0) + np.where(is_slow, -6.0, 3.0)
