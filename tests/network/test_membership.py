"""Membership: who asks for the tower of a user gets that of the time, or says that it is the one of the start."""

import re
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from support.small_network import make

import netfl
from netfl.network.build import build_layout, build_network, open_budget
from netfl.network.channel.log_distance import LogDistance
from netfl.network.channel.rayleigh import Rayleigh
from netfl.network.channel.underwater import Underwater
from netfl.network.clock import Clock
from netfl.network.layout import Layout, NodeId, Trajectories
from netfl.network.membership import Membership
from netfl.network.radio.link_budget import LinkBudget
from netfl.network.radio.radios import Radio
from netfl.streams import Streams

PACKAGE = Path(netfl.__file__).parent
TOWERS = ("tower:0", "tower:1")
USERS_M = [[3.0, 4.0], [1000.0, 0.0], [6.0, 8.0], [1000.0, 30.0]]


class East(Trajectories):
    """Users that go east by 1 m each second."""

    def xy_m(self, users, time_s):
        time_s = np.broadcast_to(time_s, np.shape(users))
        return np.array(USERS_M)[users] + np.column_stack([time_s, np.zeros(len(users))])


def two_towers(paths=None):
    """Return a layout of four users and two towers at (0, 0) and (1000, 0) m; the odd users start at the second."""
    graph = nx.Graph()
    graph.add_node("server", role="server", x_m=0.0, y_m=0.0)
    for index, name in enumerate(TOWERS):
        graph.add_node(name, role="tower", x_m=1000.0 * index, y_m=0.0)
        graph.add_edge("server", name, rate_bps=1e6, delay_s=0.0)
    return Layout(graph, np.array(USERS_M), paths)


def links(channels, *, paths=None, **radio):
    settings = {"power": "20 dBm", "bandwidth": "125 kHz", "noise_figure": "6 dB"}
    return LinkBudget(Radio(**settings | radio), channels, two_towers(paths), Streams(1))


def test_users_are_at_the_nearest_tower_of_the_start():
    membership = Membership(two_towers(), Clock())
    users = np.array([3, 0, 1])
    assert membership.users == 4
    assert membership.tower_at(users, 0.0).tolist() == membership.tower_at(users, 9e9).tolist() == [1, 0, 1]
    assert [membership.candidates(tower).tolist() for tower in (0, 1)] == [[0, 2], [1, 3]]
    assert membership.slots(np.array([3, 1]), 1).tolist() == [1, 0]
    assert membership.is_member(0).tolist() == [True, True]
    assert membership.members(1).tolist() == [0, 1]
    assert membership.distances_m(users, 0.0).tolist() == [30.0, 5.0, 0.0]


@pytest.mark.parametrize(("paths", "time_s"), [(None, 0.0), (East(), 40.0)])
def test_distances_are_those_of_pairs_of_user_and_tower(paths, time_s):
    layout = two_towers(paths)
    users = np.array([0, 1, 2, 3])
    for tower, x_m in enumerate((0.0, 1000.0)):
        expected_m = [np.hypot(x + time_s - x_m, y) for x, y in USERS_M]
        assert layout.distances_to_m(np.full(4, tower), users, time_s) == pytest.approx(expected_m)
    expected_m = layout.distances_to_m(layout.tower_at_start, users, time_s)
    assert layout.distances_m(users, time_s).tolist() == expected_m.tolist()


@pytest.mark.parametrize(("paths", "time_s"), [(None, 0.0), (East(), 40.0)])
def test_sound_to_a_tower_takes_the_time_of_that_way(paths, time_s):
    """Whoever has the user: it is the distance between both over 1500 m/s, with a depth of 40 m."""
    channel = Underwater(frequency="20 kHz", depth=40)
    air = links([channel], paths=paths, bandwidth="1 kHz")
    users = np.array([0, 1, 3])
    for name, x_m in zip(TOWERS, (0.0, 1000.0), strict=True):
        way_m = [np.hypot(np.hypot(USERS_M[user][0] + time_s - x_m, USERS_M[user][1]), 40.0) for user in users]
        assert air.delay_s(users, time_s, name) == pytest.approx(np.array(way_m) / 1500.0)


def test_noise_and_unit_snr_are_those_of_the_receiving_tower():
    """-174 dBm/Hz + 10 log10(125 kHz) + NF, and 20 dBm over it."""
    air = links([LogDistance(exponent=2, reference_loss=40)], towers={"tower:1": {"noise_figure": "10 dB"}})
    users = np.array([0, 1])
    for name, noise_figure_db in zip(TOWERS, (6.0, 10.0), strict=True):
        noise_dbm = -174.0 + 10.0 * np.log10(125e3) + noise_figure_db
        assert air.noise_dbm(users, name) == pytest.approx([noise_dbm] * 2)
        assert air.unit_snr_db(users, name) == pytest.approx([20.0 - noise_dbm] * 2)


def test_best_snr_is_that_at_the_tower_that_sends():
    """Without fading it is the SNR: 20 dBm - 40 - 20 log10(d) + antenna - noise, at the start and at another tower."""
    air = links([LogDistance(exponent=2, reference_loss=40)], towers={"tower:1": {"antenna_gain": "9 dB"}})
    users = np.array([0, 2, 3])
    noise_dbm = -174.0 + 10.0 * np.log10(125e3) + 6.0
    for name, x_m, antenna_db in zip(TOWERS, (0.0, 1000.0), (0.0, 9.0), strict=True):
        distance_m = np.array([np.hypot(USERS_M[user][0] - x_m, USERS_M[user][1]) for user in users])
        expected_db = 20.0 - 40.0 - 20.0 * np.log10(distance_m) + antenna_db - noise_dbm
        assert air.best_snr_db(users, name) == pytest.approx(expected_db)
        assert air.snr_db(users, 3.0, name) == pytest.approx(expected_db)


def test_fading_of_a_user_to_each_tower_is_a_process_of_its_own():
    """The key of its draws has the tower, but for that of the start, whoever is heard there."""
    channel = Rayleigh(coherence="1 s")
    air = links([channel])
    user = np.array([0])
    times_s = np.arange(0.5, 2000.0)
    fading_db = {}
    for tower in TOWERS:
        base_db = air.unit_snr_db(user, tower)[0]
        fading_db[tower] = np.array([air.snr_db(user, time_s, tower)[0] - base_db for time_s in times_s])
    layout = two_towers()
    of_start = channel.open(layout, Streams(1).at("channel", 0, "rayleigh"))
    of_other = channel.open(layout.towards("tower:1"), Streams(1).at("towards", "tower:1").at("channel", 0, "rayleigh"))
    for tower, gain in zip(TOWERS, (of_start, of_other), strict=True):
        expected_db = [gain.gain_db(user, time_s)[0] for time_s in times_s]
        np.testing.assert_allclose(fading_db[tower], expected_db, atol=1e-9)
    correlation = np.corrcoef(*(10 ** (each / 10) for each in fading_db.values()))[0, 1]
    assert abs(correlation) < 4 / len(times_s) ** 0.5  # that of independent draws is within it but for 1 in 16,000


@pytest.mark.parametrize("tower_power", [None, 43.0])
def test_boost_of_a_downlink_has_the_power_of_the_sending_tower(tower_power):
    """P_tower - P_user + NF_tower - NF_user, for each pair; a tower without a power has that of the downlink."""
    powers_dbm = [10.0, 14.0, 17.0, 20.0]
    towers = {"tower:1": {"power": "30 dBm", "noise_figure": "2 dB"}}
    channel = [LogDistance(exponent=2, reference_loss=40)]
    air = links(channel, power=[f"{power} dBm" for power in powers_dbm], towers=towers)
    boost = air.downlink_boost(tower_power)
    users = np.array([3, 0])
    user_dbm = np.array(powers_dbm)[users]
    default_dbm = user_dbm if tower_power is None else tower_power
    assert boost.of(users, "tower:0") == pytest.approx(default_dbm - user_dbm + 0 * user_dbm)
    assert boost.of(users, "tower:1") == pytest.approx(30.0 - user_dbm + 2.0 - 6.0)
    assert boost.at(users, np.array([1, 0])).tolist() == [
        boost.of(users, "tower:1")[0],
        np.broadcast_to(boost.of(users, "tower:0"), 2)[1],
    ]


def test_equal_radios_have_one_boost():
    boost = links([Rayleigh(coherence=1.0)], tower={"power": "33 dBm"}).downlink_boost(None)
    assert boost.of(np.array([0, 3]), "tower:1") == boost.of(np.array([2]), "tower:0") == 13.0


TREE = {"kind": "tree", "fanout": [2], "ring": "1 km", "radius": "300 m", "rate": "1 Gbps", "delay": 0}


def test_state_tells_the_tower_of_each_user():
    access, context, _ = make(6, 2, topology=TREE)
    opened = access.open(context)
    assert opened.network.state().tower.tolist() == build_layout(access, context).tower_at_start.tolist()
    assert set(opened.network.state().tower.tolist()) == {0, 1}


BEFORE_THE_RUN = {
    "access/_admission.py": "airtimes that a selection plans with",
    "network/build.py": "errors of links that are too weak",
    "network/channel/": "the links of one layout",
    "network/layout.py": "where it is stated",
    "network/mac/fdma.py": "errors of shares, and bounds of them",
    "network/membership.py": "where users start",
    "network/radio/link_budget.py": "the draws of a pair of user and tower",
    "network/theory/": "closed forms of networks in which nobody moves",
    "network/warnings.py": "warnings before a run",
    "gym/environment.py": "the scale of distances",
}
"""Files, or folders, that may read facts of the start from a layout, and what for."""


def test_only_what_is_of_the_start_reads_the_towers_of_the_start():
    """All other code asks the membership, so that it gets the tower of its time."""
    reads = re.compile(r"layout\.(tower_at_start|distance_m|distances_m)\b|layout\(.*\)\.tower_at_start")
    readers = set()
    for path in PACKAGE.rglob("*.py"):
        if reads.search(path.read_text()):
            readers.add(path.relative_to(PACKAGE).as_posix())
    others = {name for name in readers if not name.startswith(tuple(BEFORE_THE_RUN))}
    assert not others
    unread = {part for part in BEFORE_THE_RUN if not any(name.startswith(part) for name in readers)}
    assert unread <= {"network/layout.py"}, "the list names a file that reads nothing"


def test_a_pair_of_user_and_tower_has_one_delay_in_the_medium():
    channel = [{"kind": "underwater", "frequency": "20 kHz"}]
    radio = {"power": "120 dBm", "bandwidth": "1 kHz"}
    access, context, _ = make(6, 1, topology=TREE, channel=channel, radio=radio)
    layout = build_layout(access, context)
    medium = build_network(access, context).medium
    air = open_budget(access, context, layout)
    for name in layout.towers:
        tower = NodeId(name, layout.number(name))
        assert medium.delay_s(np.arange(6), tower, 1.0).tolist() == air.delay_s(np.arange(6), 1.0, name).tolist()
