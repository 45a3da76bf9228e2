"""Stations that do not all sense each other, compared with timelines, closed forms and an independent simulation.

802.11a at 6 Mb/s, in microseconds: slot 9, SIFS 16, DIFS 34, data 2072, ACK 44, RTS 52, CTS 44, ACK time-out 45.
"""

from dataclasses import replace

import networkx as nx
import numpy as np
import pytest
from support import hidden_reference
from support.wifi_cell import BITS, SaturatedCell, SensingMedium, sensing

import netfl
from netfl.errors import ScenarioError
from netfl.network.channel.constant import Constant
from netfl.network.channel.log_distance import LogDistance
from netfl.network.channel.lognormal_shadowing import LognormalShadowing
from netfl.network.layout import Layout
from netfl.network.mac._dcf import PHYS
from netfl.network.mac.csma_ca import CsmaCa
from netfl.network.radio.link_budget import LinkBudget
from netfl.network.radio.radios import Radio
from netfl.network.traffic.constant import Constant as ConstantTraffic
from netfl.streams import Streams

HIDDEN = CsmaCa(senses="by_power")
HIDDEN_RTS = CsmaCa(senses="by_power", rts=0.0)
PAIR = sensing(2, [(0, 1)])
LINE = sensing(3, [(0, 2)])
RUNS, RUN_S = 6, 2.0
SQUARE = {
    "name": "square",
    "users": 4,
    "duration": "2 s",
    "access": {
        "kind": "network",
        "topology": {
            "kind": "star",
            "placement": {"kind": "listed", "positions": [[-80, 0], [-60, 0], [60, 0], [80, 0]]},
        },
        "radio": {"power": "15 dBm", "bandwidth": "20 MHz", "noise_figure": "7 dB"},
        "channel": [{"kind": "log_distance", "exponent": 3, "frequency": "5 GHz"}],
        "reception": {"kind": "snr_threshold", "threshold": "4 dB", "rate": "6 Mbps"},
        "mac": {"kind": "csma_ca", "senses": "by_power"},
        "traffic": {"kind": "saturated", "size": {"distribution": "fixed", "mean": "1500 B"}, "destination": "tower"},
    },
}


def cell(mac, senses, duration_s=RUN_S, **options):
    """Return a saturated cell of stations that sense each other as stated."""
    return SaturatedCell(mac, len(senses), duration_s, medium=SensingMedium(6e6, senses), **options)


def assert_equal_means(first, second):
    """Check that two samples of runs have equal means; fails by chance with a probability of about 1e-5."""
    error = np.sqrt(np.var(first, ddof=1) / len(first) + np.var(second, ddof=1) / len(second))
    assert abs(np.mean(first) - np.mean(second)) < 5.5 * error, (np.mean(first), np.mean(second))


@pytest.mark.parametrize("rts", [None, 0.0])
@pytest.mark.parametrize("standard", ["802.11a", "802.11b"])
def test_stations_that_sense_each_other_are_as_without_hidden_ones(standard, rts):
    """Two stations draw in the same order, so that both simulations agree to the frame."""
    runs = []
    for senses in ("all", "by_power"):
        mac = CsmaCa(standard=standard, senses=senses, rts=rts)
        runs.append(SaturatedCell(mac, 2, 3.0))
    assert runs[0].received.tolist() == runs[1].received.tolist()
    assert runs[0].failed["collided"] == runs[1].failed["collided"] > 0


@pytest.mark.slow
def test_many_stations_that_sense_each_other_are_as_without_hidden_ones():
    losses = []
    for senses in ("all", "by_power"):
        mac = CsmaCa(senses=senses)
        losses.append([SaturatedCell(mac, 10, RUN_S, seed=seed).loss for seed in range(RUNS)])
    assert_equal_means(*losses)


@pytest.mark.parametrize("has_rts", [False, True])
@pytest.mark.parametrize("senses", [PAIR, pytest.param(LINE, marks=pytest.mark.slow)], ids=["pair", "line"])
def test_loss_matches_independent_simulation(senses, has_rts):
    mac = HIDDEN_RTS if has_rts else HIDDEN
    runs = [cell(mac, senses, seed=seed) for seed in range(RUNS)]
    references = [hidden_reference.simulate(senses.tolist(), RUN_S, seed, has_rts=has_rts) for seed in range(RUNS)]
    assert_equal_means([run.loss for run in runs], [reference.loss for reference in references])
    assert_equal_means([run.received.sum() for run in runs], [sum(reference.successes) for reference in references])


@pytest.mark.slow
@pytest.mark.parametrize("has_rts", [False, True])
@pytest.mark.parametrize(
    "senses", [np.eye(5, dtype=bool), sensing(4, [(0, 2), (0, 3), (1, 3)])], ids=["five", "line of four"]
)
def test_loss_of_more_stations_matches_independent_simulation(senses, has_rts):
    mac = HIDDEN_RTS if has_rts else HIDDEN
    runs = [cell(mac, senses, 4.0, seed=seed) for seed in range(6)]
    references = [hidden_reference.simulate(senses.tolist(), 4.0, seed, has_rts=has_rts) for seed in range(6)]
    assert_equal_means([run.loss for run in runs], [reference.loss for reference in references])


def test_rts_limits_loss_of_hidden_stations():
    """Data are in danger for 2072 µs, and RTS for 52 µs."""
    basic = cell(HIDDEN, PAIR)
    guarded = cell(HIDDEN_RTS, PAIR)
    assert basic.loss > 0.6
    assert guarded.loss < 0.15
    assert guarded.received.sum() > 2 * basic.received.sum()


@pytest.mark.parametrize("window", [255, 1023])
def test_two_hidden_stations_collide_as_in_closed_form(monkeypatch, window):
    """Frames that are ready together collide, and again unless the backoffs of a fixed window differ by a frame.

    Counters begin together and differ by at least k slots with probability (W + 1 - k) (W + 2 - k) / (W + 1)².  The
    first frame is saved if the second begins after its end, and the second if it begins after the begin of the ACK.
    """
    monkeypatch.setitem(PHYS, "802.11a", replace(PHYS["802.11a"], cw=(window, window)))
    frames = 400
    mac = CsmaCa(senses="by_power", max_attempts=2)
    traffic = ConstantTraffic.model_validate({"every": 0.05, "synchronous": True, "size": {"mean": BITS}})
    run = cell(mac, PAIR, 0.05 * frames, traffic=traffic)
    slots = window + 1
    first_saves = -(-2072 // 9)
    second_saves = (2072 + 16) // 9 + 1

    def reaches(gap):
        return (slots - gap) * (slots - gap + 1) / slots**2 if gap < slots else 0.0

    expected = (reaches(first_saves) + reaches(second_saves)) / 2.0
    share = run.received.sum() / (2 * frames)
    if expected == 0.0:
        assert share == 0.0
    else:
        assert abs(share - expected) < 4.5 * np.sqrt(expected / frames)


def test_station_between_two_hidden_ones_gets_most():
    """It collides with the others only as they send at once; they collide with each other at any time."""
    run = cell(HIDDEN, LINE, 4.0)
    assert run.received[1] > 5 * max(run.received[0], run.received[2])


def test_tower_misses_frames_while_it_answers():
    run = cell(HIDDEN_RTS, np.eye(5, dtype=bool))
    assert run.failed["busy"] > 0
    assert run.failed["faded"] == run.failed["lost"] == 0


def collision_probability(data, folder):
    """Return the collisions per attempt of a run."""
    metrics = netfl.trace(netfl.load(data), folder, progress=False).final_metrics
    return float(metrics.set_index("metric")["value"]["collision_probability"])


def with_access(**keys):
    """Return the scenario of four users on a line, the tower in the middle, with other keys of the access."""
    return SQUARE | {"access": SQUARE["access"] | keys}


def test_threshold_and_distance_decide(tmp_path):
    """The loss is 46.4 dB + 30 lg d: users receive -70 dBm over 20 m, and -94 to -98 dBm across the tower."""
    losses = {}
    for threshold in ("-100 dBm", "-82 dBm"):
        mac = {"kind": "csma_ca", "senses": "by_power", "sense_threshold": threshold}
        losses[threshold] = collision_probability(with_access(mac=mac), tmp_path / threshold)
    all_sense = collision_probability(with_access(mac={"kind": "csma_ca"}), tmp_path / "all")
    assert losses["-100 dBm"] == pytest.approx(all_sense, abs=0.05)
    assert losses["-82 dBm"] > 0.6


def test_present_positions_decide(tmp_path):
    """Users that walk are sensed where they are: two that begin apart meet at the tower."""
    motion = {"kind": "trajectory", "file": str(tmp_path / "walk.csv")}
    rows = ["time_s,user,x_m,y_m", "0,0,-80,0", "0,1,80,0", "1,0,-5,0", "1,1,5,0", "2,0,-5,0", "2,1,5,0"]
    (tmp_path / "walk.csv").write_text("\n".join(rows))
    placement = {"kind": "listed", "positions": [[-80, 0], [80, 0]]}
    data = with_access(topology={"kind": "star", "placement": placement}, motion=motion) | {
        "users": 2,
        "record": {"attempts": True},
    }
    attempts = netfl.trace(netfl.load(data), tmp_path / "run", progress=False).attempts
    is_collided = attempts["outcome"] == "collided"
    apart = is_collided[attempts["start_s"] < 0.3].mean()
    together = is_collided[attempts["start_s"] > 1.2].mean()
    assert apart > 0.5
    assert together < 0.2


@pytest.mark.parametrize(
    ("keys", "key", "text"),
    [
        ({"radio": None, "channel": [], "reception": None}, "access.mac.senses", "there is no radio"),
        ({"channel": []}, "access.mac.senses", "no channel has a path loss"),
        ({"channel": [{"kind": "rayleigh", "coherence": "1 s"}]}, "access.mac.senses", "no channel has a path loss"),
        ({"channel": [{"kind": "umi", "frequency": "5 GHz"}]}, "access.mac.senses", "umi does not state"),
        ({"mac": {"kind": "csma_ca", "sense_threshold": "-90 dBm"}}, "access.mac.sense_threshold", "no effect"),
    ],
)
def test_powers_that_are_not_known_are_refused(keys, key, text):
    access = {name: value for name, value in (SQUARE["access"] | keys).items() if value is not None}
    with pytest.raises(ScenarioError) as error:
        netfl.load(SQUARE | {"access": access})
    assert any(fault.key == key and text in str(error.value) for fault in error.value.faults), str(error.value)


TWO_TOWERS = {"kind": "tree", "fanout": [2], "ring": "100 m", "radius": "100 m", "rate": "1 Mbps", "delay": "5 ms"}
WALKS = {"kind": "random_waypoint", "radius": "100 m", "speed": [1, 2]}


def of_rounds(**keys):
    """Return the scenario with rounds in place of traffic, and with other keys of the access."""
    access = {key: value for key, value in SQUARE["access"].items() if key != "traffic"}
    access |= {"update_size": "9 kB", "broadcast_rate": "10 Mbps", "round": {"kind": "first", "m": 3}}
    access["compute"] = {"speed": 1000, "samples": 10}
    return {"name": "rounds", "users": 4, "rounds": 40, "access": access | keys}


@pytest.mark.parametrize(
    ("keys", "key"),
    [
        ({"power_control": {"kind": "inversion", "target": "10 dB"}}, "access.power_control"),
        ({"association": "strongest", "topology": TWO_TOWERS, "motion": WALKS}, "access.association"),
    ],
)
def test_stations_that_sense_by_power_have_full_power_and_stay(keys, key):
    """Where all stations sense each other, powers may be lower, and users may move."""
    with pytest.raises(ScenarioError) as error:
        netfl.load(of_rounds(**keys))
    assert [fault.key for fault in error.value.faults] == [key]
    assert "mac.senses: all" in str(error.value)
    netfl.load(of_rounds(**keys, mac="csma_ca"))


def test_power_between_users_is_that_of_the_path_loss():
    """Friis at 1 m and 5 GHz: 46.4 dB; each user has its own power, and the gains of both antennas count."""
    xy_m = np.array([[0.0, 0.0], [30.0, 40.0], [0.0, 0.1]])
    tower = nx.Graph()
    tower.add_node("tower:0", role="tower", x_m=500.0, y_m=0.0)
    radio = Radio(power=(10.0, 20.0, 0.0), bandwidth=20e6, antenna_gain=(1.0, 2.0, 3.0))
    channels = [LogDistance(exponent=3.0, frequency=5e9), Constant(gain=-4.0), LognormalShadowing(sigma=8.0)]
    budget = LinkBudget(radio, channels, Layout(tower, xy_m), Streams(1))
    friis_db = 20 * np.log10(4 * np.pi * 5e9 / 299_792_458)
    from_first = budget.between_users_dbm(0, np.array([1, 2]), 0.0)
    assert from_first == pytest.approx([10 + 1 + 2 - 4 - friis_db - 30 * np.log10(50), 10 + 1 + 3 - 4 - friis_db])
    from_second = budget.between_users_dbm(1, np.array([0]), 0.0)
    assert from_second == pytest.approx([20 + 2 + 1 - 4 - friis_db - 30 * np.log10(50)])
    assert budget.has_fixed_sensing
    budget.power_offset_db = np.array([-6.0, 0.0, 0.0])
    assert budget.between_users_dbm(0, np.array([1, 2]), 0.0) == pytest.approx(from_first - 6.0)
    assert budget.between_users_dbm(1, np.array([0]), 0.0) == pytest.approx(from_second)
    assert not budget.has_fixed_sensing


def test_stations_that_lower_their_power_are_hidden_from_then_on():
    """The stations that sense a frame are not those of frames that had full power."""

    class Lowered(SensingMedium):
        frames = 0

        @property
        def has_fixed_sensing(self):
            self.frames += 1  # asked once for each frame
            return self.frames <= 100

        def between_users_dbm(self, sender, ids, time_s):
            power_dbm = SensingMedium.between_users_dbm(self, sender, ids, time_s)
            return power_dbm if self.frames <= 100 else power_dbm - 200.0

    lowered = SaturatedCell(HIDDEN, 2, RUN_S, medium=Lowered(6e6, sensing(2)))
    assert lowered.loss > 0.5
    assert SaturatedCell(HIDDEN, 2, RUN_S).loss < 0.2


def test_strong_station_is_sensed_by_a_weak_one_that_it_does_not_sense():
    """The weak one waits, and is sent over: most of its frames collide, and few of the strong one's go on alone."""
    senses = np.array([[True, False], [True, True]])  # the second senses the first
    run = cell(HIDDEN, senses, 4.0)
    reference = hidden_reference.simulate(senses.tolist(), 4.0, 1)
    assert run.received[1] < 0.2 * run.received[0]
    assert run.received.sum() == pytest.approx(sum(reference.successes), rel=0.1)


def test_updates_of_rounds_arrive(tmp_path):
    """Updates of several frames, with RTS, outages and a limit of attempts."""
    keys = {
        "mac": {"kind": "csma_ca", "senses": "by_power", "rts": 0, "max_attempts": 7},
        "outages": [
            {
                "kind": "renewal",
                "nodes": "users",
                "up": {"distribution": "exponential", "mean": "200 ms"},
                "down": {"distribution": "exponential", "mean": "20 ms"},
            }
        ],
    }
    run = netfl.trace(netfl.load(of_rounds(**keys)), tmp_path, progress=False)
    assert len(run.deliveries) == 120
    assert set(run.deliveries["user"]) == {0, 1, 2, 3}
