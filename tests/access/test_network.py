"""The network access: invariants in random scenarios, errors, and independence of the models' draws."""

import copy
import re
from collections import Counter, defaultdict
from dataclasses import replace

import numpy as np
import pytest
from support.recorders import Memory

from netfl.access.network import NetworkAccess
from netfl.errors import ScenarioError
from netfl.network.build import build_layout
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


def network(**overrides):
    """Return the plain network with overrides."""
    return NetworkAccess(**copy.deepcopy(PLAIN) | overrides)


def run_access(access, make_context, users=12, rounds=8, seed=1):
    """Run *access* and return its rounds and events."""
    log = Memory(unknown=None)
    context = replace(make_context(users, rounds, seed), recorder=log, downlink_bits=1e4)
    return list(access.rounds(context)), log.rows


def random_scenarios():
    """Yield 15 random scenarios with all kinds of losses, some of them very frequent."""
    rng = np.random.default_rng(99)
    for seed in range(15):
        mac = {"kind": "slotted_aloha", "probability": float(rng.choice([0.05, 0.3, 0.9]))}
        mac = {"kind": "tdma"} if rng.random() < 0.3 else mac
        overrides = {
            "mac": mac | {"max_attempts": int(rng.choice([1, 2, 5])) if rng.random() < 0.7 else None},
            "queue": {"kind": "drop_tail", "capacity": int(rng.integers(0, 3))},
            "outages": OUTAGES[: rng.integers(1, 4)],
            "compute": {"speed": 10.0, "spread": 1.0, "samples": float(rng.choice([0, 5, 100]))},
        }
        closing_rule = rng.integers(3)
        m, deadline = int(rng.integers(1, 7)) if closing_rule != 0 else None, 8.0 if closing_rule != 1 else None
        overrides |= {"round": {"kind": "first", "m": m, "deadline": deadline}}
        yield pytest.param(overrides, seed, id=f"scenario{seed}")


@pytest.mark.parametrize(("overrides", "seed"), list(random_scenarios()))
def test_every_update_has_exactly_one_outcome(overrides, seed, make_context):
    rounds, rows = run_access(network(**overrides), make_context, users=14, rounds=12, seed=seed)
    started = Counter((row[3], row[5]) for row in rows if row[0] == "received")
    ended = Counter((row[3], row[5]) for row in rows if row[0] in OUTCOMES)
    assert started == ended
    assert set(started.values()) == {1}
    recorded = [(row[3], row[5], row[1]) for row in rows if row[0] == "delivered"]
    delivered = [
        (delivery.user, delivery.base, delivery.arrived_s) for round_ in rounds for delivery in round_.deliveries
    ]
    assert recorded == delivered


@pytest.mark.parametrize(("overrides", "seed"), list(random_scenarios()))
def test_rounds_are_consecutive_and_contain_their_own_events(overrides, seed, make_context):
    access = network(**overrides)
    rounds, rows = run_access(access, make_context, users=14, rounds=12, seed=seed)
    assert [round_.index for round_ in rounds] == list(range(1, 13))
    assert [round_.opened_s for round_ in rounds] == [0.0, *(round_.closed_s for round_ in rounds[:-1])]
    for round_ in rounds:
        assert all(delivery.base == round_.index - 1 for delivery in round_.deliveries)
        assert all(
            round_.opened_s < delivery.sent_s < delivery.arrived_s <= round_.closed_s for delivery in round_.deliveries
        )
        assert len(round_.deliveries) <= (access.round.m or 14)
        assert len({delivery.user for delivery in round_.deliveries}) == len(round_.deliveries)
        if access.round.deadline is not None:
            assert round_.closed_s <= round_.opened_s + access.round.deadline
        own_rows = [row for row in rows if row[2] == round_.index]
        assert all(round_.opened_s <= row[1] <= round_.closed_s for row in own_rows)
        assert round_.uplink_bits == sum(row[5] for row in own_rows if row[0] == "sent")


@pytest.mark.parametrize(("overrides", "seed"), list(random_scenarios()))
def test_events_of_an_update_are_in_order(overrides, seed, make_context):
    """The order is received, trained, queued, sent, failed, sent, …, with at most max_attempts attempts.

    An attempt of the update before may fail until the first attempt.
    """
    access = network(**overrides)
    _, rows = run_access(access, make_context, users=14, rounds=12, seed=seed)
    steps = ["received", "trained", "queued", "failed", "sent"]
    events_by_user = defaultdict(list)
    for row in sorted((row for row in rows if row[0] in steps), key=lambda row: (row[1], steps.index(row[0]))):
        events_by_user[row[3]].append(row)
    for events in events_by_user.values():
        updates = "".join(row[0][0] for row in events).split("r")
        assert all(re.fullmatch("f?(tqf?(sf)*s?)?", update) for update in updates), updates
        sent = [row[1] for row in events if row[0] == "sent"]
        assert (np.diff(sent) >= 0.5 - 1e-9).all()
        limit = access.mac.max_attempts
        if limit is not None:
            assert max(update.count("s") for update in updates) <= limit


def test_run_is_reproducible_and_independent_of_recording(make_context):
    access = network(outages=OUTAGES)
    rounds, rows = run_access(access, make_context)
    assert run_access(access, make_context) == (rounds, rows)
    log = Memory("delivered", unknown=None)
    assert list(access.rounds(replace(make_context(12, 8), recorder=log, downlink_bits=1e4))) == rounds
    outcomes = [row for row in rows if row[0] in OUTCOMES]
    assert [row for row in log.rows if row[0] in OUTCOMES] == outcomes, (
        "outcomes are always recorded because they are counted"
    )
    assert len(log.rows) == len(outcomes)
    assert run_access(access, make_context, seed=2)[0] != rounds


def test_mac_does_not_change_the_draws_of_other_models(make_context):
    """Positions, shadowing, training times and outages are bitwise equal under both MACs."""
    seen = []
    for mac in ({"kind": "slotted_aloha", "probability": 0.2}, {"kind": "tdma"}):
        access = network(mac=mac, outages=OUTAGES, round={"kind": "first", "deadline": 30.0, "losses": "unknown"})
        context = make_context(12, 4)
        _, rows = run_access(access, make_context, rounds=4)
        trained = {(row[3], row[5]): row[1] for row in rows if row[0] == "trained"}
        received = {(row[3], row[5]): row[1] for row in rows if row[0] == "received"}
        sites = build_layout(access, context)
        air, outages = (
            LinkBudget(access.radio, access.channel, sites, context.streams),
            CombinedOutages.open(access.outages, sites, context.streams),
        )
        seen.append(
            (
                {name: column.tolist() for name, column in access.user_columns(context).items()},
                air.snr_db(np.arange(12), 77.0).tolist(),
                outages.changes(np.arange(sites.nodes), 0.0, 120.0)[0].tolist(),
                [row[1:5] for row in rows if row[0] in {"down", "up"}],
                {key: time_s - received[key] for key, time_s in trained.items()},
            )
        )
    assert seen[0] == seen[1]
    assert len(seen[0][4]) > 20


@pytest.mark.slow
def test_training_time_is_samples_over_speed(make_context):
    """Speeds are lognormal around 10 samples/s: log times have mean ln 5 and standard deviation 0.5 (± 4.5 errors)."""
    _, rows = run_access(network(round={"kind": "first", "deadline": 200.0}), make_context, users=1500, rounds=1)
    trained = {row[3]: row[1] for row in rows if row[0] == "trained"}
    received = {row[3]: row[1] for row in rows if row[0] == "received"}
    log_time = np.log([trained[user] - received[user] for user in trained])
    assert len(trained) == 1500
    assert abs(log_time.mean() - np.log(5.0)) < 4.5 * 0.5 / np.sqrt(1500)
    assert abs(log_time.std() - 0.5) < 4.5 * 0.5 / np.sqrt(2 * 1500)


def test_training_time_uses_samples_of_the_learner_and_speed_per_user(make_context):
    access = network(compute={"speed": [1.0, 2.0, 4.0]}, round={"kind": "first", "m": 3, "deadline": 60.0})
    assert access.info.needs_samples
    assert not network().info.needs_samples
    log = Memory(unknown=None)
    context = replace(make_context(3, 1), recorder=log, samples=np.array([10.0, 10.0, 60.0]), downlink_bits=0.0)
    list(access.rounds(context))
    spans = defaultdict(list)
    for kind, time_s, _, user, *_ in log.rows:
        if kind in {"received", "trained"}:
            spans[user].append(time_s)
    assert {user: round(end - begin, 9) for user, (begin, end) in spans.items()} == {0: 10.0, 1: 5.0, 2: 15.0}


def test_update_size_defaults_to_the_size_of_the_model(make_context):
    access = network(update_size=None, round={"kind": "first", "m": 1})
    [round_], rows = run_access(access, make_context, rounds=1)
    assert {row[5] for row in rows if row[0] == "sent"} == {100.0}, "the size in the context"
    [round_], rows = run_access(network(round={"kind": "first", "m": 1}), make_context, rounds=1)
    assert {row[5] for row in rows if row[0] == "sent"} == {1e4}
    assert round_.downlink_bits == 4e4, "four towers"


def test_user_columns_contain_positions_and_nearest_towers(make_context):
    context = make_context(30)
    places = network().user_columns(context)
    assert network().info.has_positions
    towers = 2000 * np.array([(1, 0), (0, 1), (-1, 0), (0, -1)])
    distance = np.hypot(*(np.column_stack([places["x_m"], places["y_m"]])[:, None] - towers).transpose(2, 0, 1))
    np.testing.assert_allclose(places["distance_m"], distance.min(axis=1))
    np.testing.assert_array_equal(places["tower"], distance.argmin(axis=1))
    assert places["node"].tolist() == [f"tower:{index}" for index in places["tower"]]


def test_users_have_the_names_of_their_towers(make_context):
    nodes = {
        "core": {"role": "server", "position": [0, 0]},
        "mast": {"role": "tower", "position": [100, 0]},
        "roof": {"role": "tower", "position": [-100, 0]},
    }
    links = [{"between": [name, "core"]} for name in ("mast", "roof")]
    placement = {"kind": "listed", "positions": [[-90, 0], [80, 5], [-70, 3]]}
    topology = {"kind": "inline", "nodes": nodes, "links": links, "placement": placement}
    access = network(topology=topology)
    context = make_context(3)
    assert access.user_columns(context)["node"].tolist() == ["roof", "mast", "roof"]
    assert set(access.user_columns(context)["node"]) <= set(access.node_columns(context)["node"])


def test_error_names_users_out_of_range(make_context):
    """The error names the SNR of user 1, the farthest at 40 km; a slot that is too short is reported as well."""
    topology = {"kind": "star", "distances": [100.0, 40000.0, 200.0, 30000.0]}
    access = network(topology=topology, channel=PLAIN["channel"][:1], mac={"kind": "tdma", "slot": 0.1})
    with pytest.raises(ScenarioError) as error:
        next(access.rounds(make_context(4, 1)))
    faults = {fault.key: fault for fault in error.value.faults}
    assert set(faults) == {"channel", "mac.slot"}
    loss_db = 20 * np.log10(4 * np.pi * 868e6 / 299792458) + 30 * np.log10(40000)
    snr_db = 20 - loss_db - (-174 + 10 * np.log10(125e3) + 6)
    assert faults["channel"].value == [1, 3]
    problem = f"users that can never be received: the worst, user 1, reaches an SNR of {snr_db:.1f} dB at its best"
    assert problem in faults["channel"].problem
    assert faults["channel"].remedy


def test_errors_of_nested_models_have_their_paths(make_context):
    with pytest.raises(ScenarioError) as error:
        next(network(outages=[OUTAGES[0], OUTAGES[1] | {"nodes": ["tower:9"]}]).rounds(make_context(4, 1)))
    assert [fault.key for fault in error.value.faults] == ["outages.1.nodes"]
    disconnected = {"kind": "random_geometric", "routers": 5, "towers": 5, "side": "100 km", "max_distance": "10 m"}
    with pytest.raises(ScenarioError) as error:
        next(network(topology=disconnected).rounds(make_context(4, 1)))
    assert [fault.key for fault in error.value.faults] == ["topology.max_distance"]


def test_selection_and_mac_that_ask_learners_close_the_loop():
    mac = {"kind": "adaptive_aloha", "channels": 2, "metric": "norm"}
    selection = {"kind": "power_of_choice", "m": 1, "d": 2}
    assert [*network(mac=mac, selection=selection).closed_loop_parts] == ["selection", "mac"]
    assert network(mac=mac).info.is_closed_loop
    assert not network().info.is_closed_loop


def test_settings_that_do_not_fit_the_scenario_are_errors():
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
    (fault,) = nested_faults(network(round="first"), "", ScenarioFacts(users=5, rounds=1))
    assert "no condition closes a round" in fault.problem
    access = network(compute={"speed": 3}, update_size=None)
    assert list(nested_faults(access, "", ScenarioFacts(5, 1, sized=True, trained=True))) == []


@pytest.mark.parametrize(
    ("overrides", "problem"),
    [
        ({"capture": "3 dB"}, "write interference: {kind: capture, margin: 3 dB}"),
        ({"downlink": {"mode": "multicast"}, "broadcast_rate": 1}, "broadcast_rate: has no effect with downlink"),
        ({"compute": {"speed": 0}}, "greater than 0"),
        ({"broadcast_rate": "5 s"}, "instead of a bit rate"),
        ({"mac": {"kind": "slotted_aloha", "probability": 1.5}}, "less than or equal to 1"),
        ({"mac": "slotted"}, "no such mac"),
        ({"rounds": 3}, "unknown key"),
    ],
)
def test_invalid_settings_raise_an_error(overrides, problem):
    with pytest.raises(ScenarioError, match=problem):
        network(**overrides)


def test_max_deliveries_depends_on_the_round():
    assert network().max_deliveries(7, 99) == 3
    assert network(round={"kind": "first", "deadline": 1.0}).max_deliveries(7, 99) == 7
    assert network().rates(7, Streams(1)) is None


def test_update_size_applies_to_the_broadcast(make_context):
    slow_rounds, fast_rounds = (
        list(network(broadcast_rate=rate, update_size="10 kB").rounds(make_context(users=3, rounds=2)))
        for rate in ("1 kbps", "100 Gbps")
    )
    cells = network().user_columns(make_context(users=3, rounds=2))["tower"]
    assert slow_rounds[0].downlink_bits == 80_000.0 * len(set(cells.tolist())), "towers without users send nothing"
    assert slow_rounds[0].closed_s - fast_rounds[0].closed_s > 79.0
