"""Networks with traffic, for a duration or beside rounds: throughput and delay against theory, and errors.

Tolerances: 4.5 standard errors for counts; about 5 % for means of queues over long runs.
"""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from support.recorders import Memory

from netfl.access.network import NetworkAccess
from netfl.errors import ScenarioError
from netfl.scenario.validation import nested_faults
from netfl.types import OUTCOMES, ScenarioFacts

STAR = {"kind": "star", "distance": "10 m", "rate": "1 Mbps", "delay": "0 s"}
RADIO = {
    "radio": {"power": "0 dBm", "bandwidth": "1 MHz", "noise_figure": "0 dB"},  # noise of -114 dBm
    "reception": {"kind": "snr_threshold", "threshold": "0 dB", "rate": "1 Mbps"},
}
FIXED = {"distribution": "fixed", "mean": 1000.0}


def network(**overrides):
    """Return a network with one tower."""
    return NetworkAccess.model_validate({"topology": STAR} | overrides)


def run_timed(make_context, access, users, duration_s, *, warmup_s=0.0, windows=1, seed=1):
    """Run *access* for *duration_s* and return the metrics, the windows and the events."""
    log = Memory()
    context = replace(make_context(users, windows, seed), recorder=log, duration_s=duration_s, warmup_s=warmup_s)
    rounds = list(access.rounds(context))
    return log.final_values, rounds, log.rows


def error_keys(access, users=4, *, timed=True):
    """Return the keys of the errors that validation reports."""
    facts = ScenarioFacts(users=users, rounds=1, duration_s=10.0 if timed else None)
    return {fault.key for fault in nested_faults(access, "", facts)}


@pytest.mark.parametrize(("law", "wait"), [("exponential", 4.0), ("fixed", 2.0)])
@pytest.mark.slow
def test_one_link_is_mm1_or_md1(make_context, law, wait):
    """At load 0.8, packets of 1 ms wait 4 ms (exponential sizes) or 2 ms (fixed sizes) on average."""
    traffic = {"kind": "poisson", "load": 0.8, "size": {"distribution": law, "mean": 1000.0}, "source": "towers"}
    metrics, *_ = run_timed(make_context, network(traffic=traffic), 1, 200.0, warmup_s=10.0)
    assert metrics["delay_mean_s"] == pytest.approx((1 + wait) * 1e-3, rel=0.06)
    assert metrics["utilisation.tower:0-server"] == pytest.approx(0.8, rel=0.02)
    assert metrics["throughput_bps"] == pytest.approx(8e5, rel=0.02)
    assert metrics["loss_ratio"] == 0


def test_order_of_traffic_sources_does_not_change_their_draws(make_context):
    size = {"distribution": "exponential", "mean": 1000.0}
    sources = [
        {"kind": "poisson", "rate": 50, "size": size, "source": "towers"},
        {"kind": "on_off", "every": "5 ms", "on": "100 ms", "off": "100 ms", "size": size, "source": "towers"},
    ]
    first, other = (
        run_timed(make_context, network(traffic=traffic), 1, 1.0)[0] for traffic in (sources, sources[::-1])
    )
    assert first["throughput_bps"] == pytest.approx(other["throughput_bps"], rel=1e-9)


@pytest.mark.slow
def test_mean_delay_with_priorities_matches_cobhams_formula(make_context):
    """Urgent packets of 1 ms at load 0.3, others of 4 ms at 0.5: W0 = (0.3 · 1 + 0.5 · 4) / 2 = 1.15 ms.

    W = 1.15 / 0.7 = 1.64 ms and 1.15 / (0.7 · 0.2) = 8.21 ms. The delays are 2.64 and 12.21 ms. Their mean over 300
    and 125 packets per second is 5.46 ms. With the priorities swapped, W = 1.15 / 0.5 and 1.15 / (0.5 · 0.2), and the
    mean is (300 · 12.5 + 125 · 6.3) / 425 = 10.68 ms. Without priorities the wait is 5.75 ms and the mean 7.63 ms.
    """
    short = {"kind": "poisson", "load": 0.3, "size": FIXED, "source": "towers"}
    long = {"kind": "poisson", "load": 0.5, "size": FIXED | {"mean": 4000.0}, "source": "towers"}
    for ranks, expected_s in (((0, 1), 5.46e-3), ((1, 0), 10.68e-3), ((0, 0), 7.63e-3)):
        kinds = [kind | {"priority": rank} for kind, rank in zip((short, long), ranks, strict=True)]
        access = network(traffic=kinds[:: 1 - 2 * ranks[0]], queue={"kind": "priority"})
        metrics, *_ = run_timed(make_context, access, 1, 200.0, warmup_s=10.0)
        assert metrics["delay_mean_s"] == pytest.approx(expected_s, rel=0.07)


@pytest.mark.slow
def test_routers_and_towers_load_their_own_links(make_context):
    """A tree of two routers with two towers each; each source loads its own link."""
    tree = {"kind": "tree", "fanout": [2, 2], "radius": "1 km", "ring": "2 km", "rate": "1 Mbps", "delay": "0 s"}
    traffic = {"kind": "poisson", "load": 0.4, "size": FIXED, "source": "routers"}
    metrics, *_ = run_timed(make_context, NetworkAccess.model_validate({"topology": tree, "traffic": traffic}), 3, 80.0)
    assert metrics["throughput_bps"] == pytest.approx(2 * 4e5, rel=0.03)
    assert metrics["jain"] == pytest.approx(1, abs=0.01)
    loads = {name: share for name, share in metrics.items() if name.startswith("utilisation.router")}
    assert list(loads.values()) == pytest.approx([0.4, 0.4], rel=0.05)
    traffic["source"], traffic["load"] = "towers", 0.2
    metrics, *_ = run_timed(make_context, NetworkAccess.model_validate({"topology": tree, "traffic": traffic}), 3, 80.0)
    assert metrics["throughput_bps"] == pytest.approx(4 * 2e5, rel=0.03)
    assert [metrics[name] for name in sorted(loads)] == pytest.approx([0.4, 0.4], rel=0.05), "two towers at each router"


@pytest.mark.slow
def test_users_load_the_channel_and_the_link(make_context):
    """CSMA/CA: 5 users send 2 % of 6 Mb/s each; 600 kb/s load the tower's link of 1 Mb/s by 0.6."""
    traffic = {"kind": "poisson", "load": 0.02, "size": {"distribution": "fixed", "mean": 12_000.0}}
    mac = {"kind": "csma_ca", "standard": "802.11a"}
    metrics, *_ = run_timed(make_context, network(traffic=traffic, mac=mac), 5, 120.0)
    assert metrics["throughput_bps"] == pytest.approx(6e5, rel=0.05)
    assert metrics["utilisation.tower:0-server"] == pytest.approx(0.6, rel=0.05)
    assert metrics["delay_mean_s"] > 14e-3
    to_tower, *_ = run_timed(make_context, network(traffic=traffic | {"destination": "tower"}, mac=mac), 5, 120.0)
    assert to_tower["throughput_bps"] == pytest.approx(metrics["throughput_bps"], rel=0.001)
    assert to_tower["utilisation.tower:0-server"] == 0
    assert to_tower["delay_mean_s"] < 3e-3


def test_destination_tower_applies_to_its_own_traffic_source(make_context):
    """The users' packets end at the tower; the towers' packets end at the server."""
    users = {"kind": "constant", "every": 0.1, "size": {"mean": 12_000.0}}
    towers = {"kind": "constant", "every": 0.1, "size": {"mean": 1000.0}, "source": "towers"}
    mac = {"kind": "csma_ca"}
    _, _, rows = run_timed(make_context, network(traffic=[users | {"destination": "tower"}, towers], mac=mac), 2, 10.0)
    ends = Counter((row[3] >= 0, row[4]) for row in rows if row[0] == "delivered")
    assert set(ends) == {(True, "tower:0"), (False, "server")}


@pytest.mark.parametrize(
    ("overrides", "key"),
    [
        ({"source": "towers", "destination": "tower"}, "destination"),
        ({"source": "routers", "destination": "tower"}, "destination"),
        ({"source": "towers", "buffer": 3}, "buffer"),
    ],
)
def test_traffic_keys_without_effect_are_errors(overrides, key):
    traffic = {"kind": "constant", "every": 0.1, **overrides}
    [error_key] = error_keys(network(traffic=traffic))
    assert error_key == f"traffic.0.{key}"


def test_priority_without_a_priority_queue_is_an_error():
    traffic = {"kind": "poisson", "rate": 1, "source": "towers", "priority": 2}
    assert error_keys(network(traffic=traffic)) == {"traffic.0.priority"}
    assert error_keys(network(traffic=traffic, queue="priority")) == set()
    assert error_keys(network(traffic=traffic, queues={"tower:0": {"kind": "relay", "policy": "priority"}})) == set()
    assert error_keys(network(traffic=traffic, queue={"kind": "drr", "quantum": "1 kB"})) == {"traffic.0.priority"}


def test_backhaul_settings_without_backhaul_traffic_are_errors():
    traffic = {"kind": "poisson", "rate": 1, "destination": "tower", "priority": 2}
    overrides = {
        "queue": "priority",
        "queues": {"tower:0": "priority"},
        "routing": {"kind": "shortest_path", "metric": "hops"},
    }
    to_tower = network(traffic=traffic, mac={"kind": "csma_ca"}, **overrides)
    assert error_keys(to_tower) == {"queue", "queues", "routing", "traffic.0.priority"}
    towers = {"kind": "poisson", "rate": 1, "source": "towers"}
    assert error_keys(network(traffic=[traffic, towers], mac={"kind": "csma_ca"}, **overrides)) == set()
    assert (
        error_keys(network(traffic=traffic | {"destination": "server"}, mac={"kind": "csma_ca"}, **overrides)) == set()
    )


def test_motion_needs_a_radio_and_shared_air_needs_two_towers(make_context):
    users = {"traffic": {"kind": "saturated"}, "mac": {"kind": "tdma"}}
    motion = {"kind": "random_waypoint", "speed": [1, 2], "radius": "100 m"}
    assert error_keys(network(**users, **RADIO, motion=motion)) == set()
    towers = {"kind": "poisson", "rate": 1, "source": "towers"}
    assert error_keys(network(traffic=towers, motion=motion)) == {"motion"}
    with pytest.raises(ScenarioError, match="shared_air: has no effect with one tower"):
        run_timed(make_context, network(**users, **RADIO, shared_air=True, interference="sinr"), 2, 1.0)


def test_probe_lag_must_be_shorter_than_the_duration():
    overrides = {"traffic": {"kind": "saturated"}, "mac": {"kind": "tdma"}} | RADIO
    assert error_keys(network(**overrides, probe={"every": 0.1, "lag": 9.9})) == set()
    assert error_keys(network(**overrides, probe={"every": 1.0, "lag": 10.0})) == {"probe.lag"}
    assert error_keys(network(**overrides, probe={"every": 1e-5, "lag": 9.0})) == {"probe.lag"}  # too many samples
    assert error_keys(network(**overrides, probe={"every": 1e-308, "lag": 9.0})) == {"probe.lag"}


def test_traffic_without_a_sender_is_an_error(make_context):
    traffic = {"kind": "constant", "every": 0.1, "source": "routers"}
    with pytest.raises(ScenarioError) as error:
        run_timed(make_context, network(traffic=traffic), 3, 10.0)
    assert [fault.key for fault in error.value.faults] == ["traffic.0.source"]


def test_errors_of_a_timed_network():
    valid = {"traffic": {"kind": "saturated"}, "mac": {"kind": "csma_ca"}}
    assert error_keys(network(**valid)) == set()
    assert error_keys(network(**valid, round={"kind": "first", "m": 3}, update_size="1 kB")) == {"round", "update_size"}
    capture = {"kind": "capture", "margin": "3 dB"}
    assert error_keys(network(**valid, interference=capture)) == {"interference"}
    assert error_keys(network(**valid, interference="sinr")) == {"interference"}
    assert error_keys(network(**valid, shared_air=True)) == {"shared_air"}
    classes = [{"kind": "saturated"}, {"kind": "poisson", "rate": 1, "name": "saturated"}]
    assert error_keys(network(traffic=classes, mac={"kind": "csma_ca"})) == {"traffic.1.name"}
    assert error_keys(network(traffic={"kind": "saturated"})) == {"radio", "reception", "mac"}
    towers = {"kind": "poisson", "rate": 1, "source": "towers"}
    assert error_keys(network(traffic=towers, mac={"kind": "csma_ca"}, **RADIO)) >= {"mac", "radio", "reception"}
    wrong = {"kind": "snr_threshold", "threshold": "0 dB", "rate": "5 Mbps"}
    assert error_keys(network(**valid, **(RADIO | {"reception": wrong}))) == {"mac"}


@pytest.mark.slow
def test_windows_sum_to_the_run_and_their_number_changes_nothing(make_context):
    traffic = {"kind": "poisson", "rate": 40.0, "size": FIXED, "buffer": 2}
    access = network(traffic=traffic, mac={"kind": "slotted_aloha", "probability": 0.1}, **RADIO)
    first, [all_], rows = run_timed(make_context, access, 8, 20.0)
    many, rounds, split = run_timed(make_context, access, 8, 20.0, windows=7)
    assert first == many
    assert (rounds[0].opened_s, rounds[-1].closed_s, len(rounds)) == (0.0, 20.0, 7)
    assert [round_.opened_s for round_ in rounds[1:]] == [round_.closed_s for round_ in rounds[:-1]]
    assert sum(round_.uplink_bits for round_ in rounds) == all_.uplink_bits == 1000.0 * first["attempts"]
    plain = [sorted(row[:2] + row[3:] for row in events) for events in (rows, split)]
    assert plain[0] == plain[1]


@pytest.mark.parametrize("mac", [{"kind": "slotted_aloha", "probability": 0.2}, {"kind": "csma_ca", "rate": 6e6}])
@pytest.mark.parametrize("outages", [False, True])
@pytest.mark.slow
def test_each_offered_packet_is_delivered_lost_or_in_flight(make_context, mac, outages):
    """Each offered packet has one recorded outcome or is in the network at the end."""
    traffic = {"kind": "poisson", "rate": 60.0, "size": FIXED, "buffer": 3}
    down = {
        "kind": "renewal",
        "up": {"distribution": "exponential", "mean": 3},
        "down": {"distribution": "exponential", "mean": 1},
    }
    overrides = {"outages": [down | {"nodes": "users"}, down | {"nodes": "towers"}] if outages else []}
    overrides |= RADIO | {
        "queue": {"kind": "drop_tail", "capacity": 1},
        "mac": mac | {"max_attempts": 2},
        "traffic": traffic,
    }
    if mac["kind"] == "csma_ca":
        del overrides["radio"], overrides["reception"]
    metrics, _, rows = run_timed(make_context, network(**overrides), 10, 30.0)
    outcomes = Counter(row[0] for row in rows if row[0] in OUTCOMES)
    assert outcomes["delivered"] == metrics["delivered"]
    lost = {outcome: metrics[f"lost.{outcome}"] for outcome in ("collided", "dropped", "faded", "given_up", "lost")}
    assert {outcome: count for outcome, count in lost.items() if count} == {
        k: n for k, n in outcomes.items() if k != "delivered"
    }
    offered = round(metrics["offered_bps"] * 30.0 / 1000.0)
    assert abs(offered - 60 * 10 * 30) < 4.5 * np.sqrt(60 * 10 * 30)
    assert 0 <= offered - sum(outcomes.values()) <= 10 * 3 + 2
    assert {row[3] for row in rows if row[0] in OUTCOMES} == set(range(10))
    delays_s = np.array([row[5] for row in rows if row[0] == "delivered"])
    assert metrics["delay_mean_s"] == pytest.approx(delays_s.mean())
    assert metrics["delay_p95_s"] == pytest.approx(np.quantile(delays_s, 0.95))


def two_cells(**overrides):
    """Return two towers 1000 m apart, each with a user at 100 m; the path loss is 40 + 30 log d."""
    nodes = {
        "core": {"role": "server", "position": [500, 500]},
        "west": {"role": "tower", "position": [0, 0]},
        "east": {"role": "tower", "position": [1000, 0]},
    }
    topology = {
        "kind": "inline",
        "nodes": nodes,
        "links": [{"between": ["west", "core"]}, {"between": ["east", "core"]}],
        "placement": {"kind": "listed", "positions": [[100, 0], [900, 0]]},
    }
    loss = {"kind": "log_distance", "exponent": 3.0, "reference_loss": "40 dB"}
    traffic = {"kind": "constant", "every": 1.0, "synchronous": True, "size": FIXED, "destination": "tower"}
    settings = {
        "topology": topology,
        "channel": [loss],
        "traffic": traffic,
        "mac": {"kind": "slotted_aloha", "probability": 1},
    }
    radio = RADIO | {"radio": RADIO["radio"] | {"power": "30 dBm"}}
    return NetworkAccess.model_validate(settings | radio | {"shared_air": True} | overrides)


@pytest.mark.parametrize(("ratio", "valid"), [("28 dB", True), ("29 dB", False)])
@pytest.mark.slow
def test_interference_between_cells_follows_the_path_gains(make_context, ratio, valid):
    """The SINR is 30 log(900 / 100) = 28.63 dB; noise is negligible."""
    for overrides in (
        {"interference": "sinr", "reception": RADIO["reception"] | {"threshold": ratio}},
        {"interference": {"kind": "capture", "margin": ratio}},
    ):
        metrics, *_ = run_timed(make_context, two_cells(**overrides), 2, 9.5)
        assert metrics["delivered"] == (20 if valid else 0)
        if not valid:
            assert metrics["collision_probability"] == pytest.approx(1, abs=1e-3), (
                "all frames but those on air at the end"
            )
        alone, *_ = run_timed(make_context, two_cells(**overrides, shared_air=False), 2, 9.5)
        assert alone["delivered"] == 20


@pytest.mark.parametrize("interference", ["sinr", {"kind": "capture", "margin": 6.0}], ids=str)
def test_shared_air_is_refused_with_carrier_sensing(interference):
    """Each cell senses its own users only, so neighbours on one channel would collide undetected."""
    sensing_mac = {"kind": "csma_ca", "standard": "802.11a"}
    faults = nested_faults(
        two_cells(interference=interference, mac=sensing_mac), "", ScenarioFacts(2, 1, duration_s=1.0)
    )
    (fault,) = [fault for fault in faults if fault.key == "shared_air"]
    assert fault.value is True
    assert "sense" in fault.problem
    assert "leave it out" in fault.remedy
    assert error_keys(two_cells(interference=interference), 2) == set(), (
        "a MAC without carrier sensing may share the channel"
    )
    assert "shared_air" not in error_keys(two_cells(mac=sensing_mac, shared_air=False), 2)


SERVICE = {
    "compute": {"speed": 100.0, "samples": 50, "spread": 0.5},
    "broadcast_rate": "1 Mbps",
    "update_size": 12_000.0,
}
DOWN = {
    "kind": "renewal",
    "up": {"distribution": "exponential", "mean": 3},
    "down": {"distribution": "exponential", "mean": 0.5},
}


@pytest.mark.parametrize("closing_rule", [{"m": 3}, {"deadline": 0.7}, {"m": 4, "deadline": 0.6}], ids=str)
@pytest.mark.parametrize("outages", [(), ("users",), ("users", "towers")], ids=str)
@pytest.mark.parametrize("limit", [None, 2])
@pytest.mark.quick_first
def test_rounds_over_csma_beside_traffic(make_context, closing_rule, outages, limit):
    """Each update has one outcome, rounds contain their own deliveries, and packets are delivered beside them."""
    traffic = {"kind": "poisson", "rate": 20.0, "size": {"distribution": "fixed", "mean": 12_000.0}, "buffer": 5}
    access = network(
        **SERVICE,
        round={"kind": "first", **closing_rule},
        traffic=traffic,
        mac={"kind": "csma_ca", "max_attempts": limit},
        topology=STAR | {"rate": "10 Mbps"},
        outages=[DOWN | {"nodes": nodes} for nodes in outages],
    )
    assert error_keys(access, 10, timed=False) == set()
    log = Memory()
    context = replace(make_context(10, 12, 3), recorder=log, downlink_bits=1e3)
    rounds = list(access.rounds(context))
    started = Counter((row[3], row[5]) for row in log.rows if row[0] == "received")
    ended = Counter((row[3], row[5]) for row in log.rows if row[0] in OUTCOMES)
    assert started == ended
    assert set(started.values()) == {1}
    delivered = [(first.user, first.base, first.arrived_s) for round_ in rounds for first in round_.deliveries]
    assert [(row[3], row[5], row[1]) for row in log.rows if row[0] == "delivered"] == delivered
    assert len(delivered) > 12
    span_s = rounds[-1].closed_s
    assert log.final_values["traffic.offered_bps"] == pytest.approx(20 * 10 * 12e3, rel=4.5 / np.sqrt(200 * span_s))
    if not outages and limit is None:
        assert log.final_values["traffic.throughput_bps"] == pytest.approx(
            log.final_values["traffic.offered_bps"], rel=0.1
        )
    assert log.final_values["traffic.delivered"] > 0


def test_rounds_complete_beside_saturated_traffic(make_context):
    access = network(
        **SERVICE,
        round={"kind": "first", "m": 5},
        traffic={"kind": "saturated"},
        mac={"kind": "csma_ca"},
        topology=STAR | {"rate": "1 Gbps"},
    )
    log = Memory()
    rounds = list(access.rounds(replace(make_context(5, 6, 3), recorder=log, downlink_bits=1e3)))
    assert [len(round_.deliveries) for round_ in rounds] == [5] * 6
    assert log.final_values["traffic.throughput_bps"] > 3e6
