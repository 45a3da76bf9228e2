"""The access that emerges: laws that hold in every world, what is refused, and independence of the models' draws."""

import copy
import re
from collections import Counter, defaultdict
from dataclasses import replace

import numpy as np
import pytest
from support.recorders import Memory

from netfl.access._builder import build_layout
from netfl.access.network import NetworkAccess
from netfl.errors import ScenarioError
from netfl.network.outage._combined import CombinedOutages
from netfl.network.radio.link_budget import LinkBudget
from netfl.scenario.validation import nested_faults
from netfl.streams import Streams
from netfl.types import OUTCOMES, ScenarioFacts

PLAIN = {
    "topology": {"kind": "tree", "fanout": [2, 2], "ring": "2 km", "radius": "3 km", "rate": "20 kbps"},
    "radio": {"power": "20 dBm", "bandwidth": "125 kHz", "noise_figure": "6 dB"},
    "channel": [
        {"kind": "log_distance", "exponent": 3.0, "frequency": "868 MHz"},
        {"kind": "lognormal_shadowing", "sigma": "3 dB"},
        {"kind": "rayleigh", "coherence": "1 s"},
    ],
    "reception": {"kind": "snr_threshold", "threshold": "3 dB", "rate": "20 kbps"},
    "mac": {"kind": "slotted_aloha", "probability": 0.2},
    "compute": {"speed": 10.0, "spread": 0.5, "samples": 50},
    "broadcast_rate": "50 kbps",
    "update_size": "10 kbit",
    "round": {"kind": "first", "m": 3},
}
EXPONENTIAL, FIXED = {"distribution": "exponential"}, {"distribution": "fixed"}
OUTAGES = [
    {"kind": "renewal", "nodes": "users", "up": EXPONENTIAL | {"mean": 30}, "down": FIXED | {"mean": 9}},
    {"kind": "renewal", "nodes": "towers", "up": EXPONENTIAL | {"mean": 60}, "down": FIXED | {"mean": 5}},
    {"kind": "renewal", "nodes": "routers", "up": EXPONENTIAL | {"mean": 40}, "down": EXPONENTIAL | {"mean": 3}},
]


def network(**said):
    """The plain network with some keys said otherwise."""
    return NetworkAccess(**copy.deepcopy(PLAIN) | said)


def play(access, make_setting, users=12, rounds=8, seed=1):
    """The rounds and the events of one run."""
    log = Memory(unknown=None)
    setting = replace(make_setting(users, rounds, seed), recorder=log, downlink_bits=1e4)
    return list(access.rounds(setting)), log.rows


def worlds():
    """Fifteen worlds with everything that can go wrong in them, some of it far too often."""
    rng = np.random.default_rng(99)
    for seed in range(15):
        mac = {"kind": "slotted_aloha", "probability": float(rng.choice([0.05, 0.3, 0.9]))}
        mac = {"kind": "tdma"} if rng.random() < 0.3 else mac
        said = {
            "mac": mac | {"max_attempts": int(rng.choice([1, 2, 5])) if rng.random() < 0.7 else None},
            "queue": {"kind": "drop_tail", "capacity": int(rng.integers(0, 3))},
            "outages": OUTAGES[: rng.integers(1, 4)],
            "compute": {"speed": 10.0, "spread": 1.0, "samples": float(rng.choice([0, 5, 100]))},
        }
        close = rng.integers(3)
        m, deadline = int(rng.integers(1, 7)) if close != 0 else None, 8.0 if close != 1 else None
        said |= {"round": {"kind": "first", "m": m, "deadline": deadline}}
        yield pytest.param(said, seed, id=f"world{seed}")


@pytest.mark.parametrize(("said", "seed"), list(worlds()))
def test_every_update_has_exactly_one_fate(said, seed, make_setting):
    rounds, rows = play(network(**said), make_setting, users=14, rounds=12, seed=seed)
    begun = Counter((row[3], row[5]) for row in rows if row[0] == "received")
    ended = Counter((row[3], row[5]) for row in rows if row[0] in OUTCOMES)
    assert begun == ended
    assert set(begun.values()) == {1}
    told = [(row[3], row[5], row[1]) for row in rows if row[0] == "delivered"]
    heard = [(one.user, one.base, one.arrived_s) for each in rounds for one in each.deliveries]
    assert told == heard


@pytest.mark.parametrize(("said", "seed"), list(worlds()))
def test_rounds_follow_each_other_and_what_they_hold_is_theirs(said, seed, make_setting):
    access = network(**said)
    rounds, rows = play(access, make_setting, users=14, rounds=12, seed=seed)
    assert [one.index for one in rounds] == list(range(1, 13))
    assert [one.opened_s for one in rounds] == [0.0, *(one.closed_s for one in rounds[:-1])]
    for one in rounds:
        assert all(delivery.base == one.index - 1 for delivery in one.deliveries)
        assert all(one.opened_s < delivery.sent_s < delivery.arrived_s <= one.closed_s for delivery in one.deliveries)
        assert len(one.deliveries) <= (access.round.m or 14)
        assert len({delivery.user for delivery in one.deliveries}) == len(one.deliveries)
        if access.round.deadline is not None:
            assert one.closed_s <= one.opened_s + access.round.deadline
        own = [row for row in rows if row[2] == one.index]
        assert all(one.opened_s <= row[1] <= one.closed_s for row in own)
        assert one.uplink_bits == sum(row[5] for row in own if row[0] == "sent")


@pytest.mark.parametrize(("said", "seed"), list(worlds()))
def test_the_life_of_an_update_is_in_order(said, seed, make_setting):
    """Received, trained, queued, sent, failed, sent, …; one airtime each; never more attempts than permitted."""
    access = network(**said)
    _, rows = play(access, make_setting, users=14, rounds=12, seed=seed)
    steps = ["received", "trained", "queued", "failed", "sent"]
    lives = defaultdict(list)
    for row in sorted((row for row in rows if row[0] in steps), key=lambda row: (row[1], steps.index(row[0]))):
        lives[row[3]].append(row)
    for life in lives.values():
        updates = "".join(row[0][0] for row in life).split("r")
        assert all(re.fullmatch("(tq(sf)*s?)?", update) for update in updates), updates
        sent = [row[1] for row in life if row[0] == "sent"]
        assert (np.diff(sent) >= 0.5 - 1e-9).all()
        limit = access.mac.max_attempts
        if limit is not None:
            assert max(update.count("s") for update in updates) <= limit


def test_the_same_setting_gives_the_same_run_and_recording_less_changes_nothing(make_setting):
    access = network(outages=OUTAGES)
    rounds, rows = play(access, make_setting)
    assert play(access, make_setting) == (rounds, rows)
    log = Memory("delivered", unknown=None)
    assert list(access.rounds(replace(make_setting(12, 8), recorder=log, downlink_bits=1e4))) == rounds
    outcomes = [row for row in rows if row[0] in OUTCOMES]
    assert [row for row in log.rows if row[0] in OUTCOMES] == outcomes, (
        "outcomes are always recorded, because they are counted"
    )
    assert len(log.rows) == len(outcomes)
    assert play(access, make_setting, seed=2)[0] != rounds


def test_another_mac_leaves_all_other_draws_as_they_were(make_setting):
    """Places, shadowing, training times and outages are the same, to the last bit, under both MACs."""
    seen = []
    for mac in ({"kind": "slotted_aloha", "probability": 0.2}, {"kind": "tdma"}):
        access = network(mac=mac, outages=OUTAGES, round={"kind": "first", "deadline": 30.0})
        setting = make_setting(12, 4)
        _, rows = play(access, make_setting, rounds=4)
        trained = {(row[3], row[5]): row[1] for row in rows if row[0] == "trained"}
        received = {(row[3], row[5]): row[1] for row in rows if row[0] == "received"}
        sites = build_layout(access, setting)
        air, outages = (
            LinkBudget(access.radio, access.channel, sites, setting.streams),
            CombinedOutages.open(access.outages, sites, setting.streams),
        )
        seen.append(
            (
                {name: column.tolist() for name, column in access.user_columns(setting).items()},
                air.snr_db(np.arange(12), 77.0).tolist(),
                outages.changes(np.arange(sites.nodes), 0.0, 120.0)[0].tolist(),
                [row[1:5] for row in rows if row[0] in {"down", "up"}],
                {key: time_s - received[key] for key, time_s in trained.items()},
            )
        )
    assert seen[0] == seen[1]
    assert len(seen[0][4]) > 20


@pytest.mark.slow
def test_training_takes_samples_over_speed(make_setting):
    """Speeds are lognormal around 10 samples/s: the log of the time has mean ln 5 and deviation 0.5 (± 4.5 errors)."""
    _, rows = play(network(round={"kind": "first", "deadline": 200.0}), make_setting, users=1500, rounds=1)
    trained = {row[3]: row[1] for row in rows if row[0] == "trained"}
    received = {row[3]: row[1] for row in rows if row[0] == "received"}
    log_time = np.log([trained[user] - received[user] for user in trained])
    assert len(trained) == 1500
    assert abs(log_time.mean() - np.log(5.0)) < 4.5 * 0.5 / np.sqrt(1500)
    assert abs(log_time.std() - 0.5) < 4.5 * 0.5 / np.sqrt(2 * 1500)


def test_the_learners_own_work_and_a_speed_for_each(make_setting):
    access = network(compute={"speed": [1.0, 2.0, 4.0]}, round={"kind": "first", "m": 3, "deadline": 60.0})
    assert access.info.needs_samples
    assert not network().info.needs_samples
    log = Memory(unknown=None)
    setting = replace(make_setting(3, 1), recorder=log, samples=np.array([10.0, 10.0, 60.0]), downlink_bits=0.0)
    list(access.rounds(setting))
    spans = defaultdict(list)
    for kind, time_s, _, user, *_ in log.rows:
        if kind in {"received", "trained"}:
            spans[user].append(time_s)
    assert {user: round(end - begin, 9) for user, (begin, end) in spans.items()} == {0: 10.0, 1: 5.0, 2: 15.0}


def test_the_size_of_an_update_is_the_models_unless_given(make_setting):
    access = network(update_size=None, round={"kind": "first", "m": 1})
    [one], rows = play(access, make_setting, rounds=1)
    assert {row[5] for row in rows if row[0] == "sent"} == {100.0}, "as the setting says"
    [one], rows = play(network(round={"kind": "first", "m": 1}), make_setting, rounds=1)
    assert {row[5] for row in rows if row[0] == "sent"} == {1e4}
    assert one.downlink_bits == 4e4, "four towers"


def test_where_users_stand(make_setting):
    setting = make_setting(30)
    places = network().user_columns(setting)
    assert network().info.has_positions
    towers = 2000 * np.array([(1, 0), (0, 1), (-1, 0), (0, -1)])
    distance = np.hypot(*(np.column_stack([places["x_m"], places["y_m"]])[:, None] - towers).transpose(2, 0, 1))
    np.testing.assert_allclose(places["distance_m"], distance.min(axis=1))
    np.testing.assert_array_equal(places["tower"], distance.argmin(axis=1))


def test_users_who_can_never_be_heard_are_named_before_anything_runs(make_setting):
    """User 1 at 40 km is the worst, and the fault tells by how much; a slot too short is told along with it."""
    topology = {"kind": "star", "distances": [100.0, 40000.0, 200.0, 30000.0]}
    access = network(topology=topology, channel=PLAIN["channel"][:1], mac={"kind": "tdma", "slot": 0.1})
    with pytest.raises(ScenarioError) as caught:
        next(access.rounds(make_setting(4, 1)))
    faults = {fault.key: fault for fault in caught.value.faults}
    assert set(faults) == {"channel", "mac.slot"}
    loss_db = 20 * np.log10(4 * np.pi * 868e6 / 299792458) + 30 * np.log10(40000)
    snr_db = 20 - loss_db - (-174 + 10 * np.log10(125e3) + 6)
    assert faults["channel"].value == [1, 3]
    problem = f"users that can never be received: the worst, user 1, reaches an SNR of {snr_db:.1f} dB at its best"
    assert problem in faults["channel"].problem
    assert faults["channel"].remedy


def test_faults_of_parts_have_their_places(make_setting):
    with pytest.raises(ScenarioError) as caught:
        next(network(outages=[OUTAGES[0], OUTAGES[1] | {"nodes": ["tower:9"]}]).rounds(make_setting(4, 1)))
    assert [fault.key for fault in caught.value.faults] == ["outages.1.nodes"]
    lonely = {"kind": "random_geometric", "routers": 5, "towers": 5, "side": "100 km", "max_distance": "10 m"}
    with pytest.raises(ScenarioError) as caught:
        next(network(topology=lonely).rounds(make_setting(4, 1)))
    assert [fault.key for fault in caught.value.faults] == ["topology.max_distance"]


def test_what_does_not_fit_the_scenario_is_a_fault():
    access = network(
        round={"kind": "first", "m": 9},
        compute={"speed": [1.0, 2.0]},
        update_size=None,
        topology={"kind": "star", "distances": [1.0, 2.0]},
        outages=[OUTAGES[0] | {"nodes": [7]}],
    )
    assert {fault.key for fault in nested_faults(access, "", ScenarioFacts(users=5, rounds=1))} == {
        "round.m",
        "update_size",
        "topology.distances",
        "compute.speed",
        "compute.samples",
        "outages.0.nodes",
    }
    assert list(nested_faults(network(), "", ScenarioFacts(users=5, rounds=1))) == []
    (endless,) = nested_faults(network(round="first"), "", ScenarioFacts(users=5, rounds=1))
    assert "no condition closes a round" in endless.problem
    needy = network(compute={"speed": 3}, update_size=None)
    assert list(nested_faults(needy, "", ScenarioFacts(5, 1, sized=True, trained=True))) == []


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ({"interference": "sinr", "capture": "3 dB"}, "capture: has no effect with interference: sinr"),
        ({"downlink": {"mode": "multicast"}, "broadcast_rate": 1}, "broadcast_rate: has no effect with downlink"),
        ({"compute": {"speed": 0}}, "greater than 0"),
        ({"broadcast_rate": "5 kg"}, "instead of a bit rate"),
        ({"mac": {"kind": "slotted_aloha", "probability": 1.5}}, "less than or equal to 1"),
        ({"mac": "slotted"}, "no such network/mac"),
        ({"rounds": 3}, "unknown key"),
    ],
)
def test_what_is_refused(said, problem):
    with pytest.raises(ScenarioError, match=problem):
        network(**said)


def test_how_many_a_round_can_bring():
    assert network().max_deliveries(7, 99) == 3
    assert network(round={"kind": "first", "deadline": 1.0}).max_deliveries(7, 99) == 7
    assert network().rates(7, Streams(1)) is None


def test_a_given_size_is_that_of_the_broadcast_too(make_setting):
    slow, fast = (
        list(network(broadcast_rate=rate, update_size="10 kB").rounds(make_setting(users=3, rounds=2)))
        for rate in ("1 kbps", "100 Gbps")
    )
    cells = network().user_columns(make_setting(users=3, rounds=2))["tower"]
    assert slow[0].downlink_bits == 80_000.0 * len(set(cells.tolist())), "towers without users send nothing"
    assert slow[0].closed_s - fast[0].closed_s > 79.0
