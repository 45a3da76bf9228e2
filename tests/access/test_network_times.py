"""Networks with traffic, for a duration or beside rounds: what is carried against theory, and what is refused.

Statistics: counts within 4.5 standard errors; means of queues within 5 % over runs long enough for that.
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


def network(**said):
    """A network around one tower."""
    return NetworkAccess.model_validate({"topology": STAR} | said)


def watch(make_setting, access, users, duration_s, *, warmup_s=0.0, windows=1, seed=1):
    """The figures, the windows and the events of *duration_s*."""
    log = Memory()
    setting = replace(make_setting(users, windows, seed), recorder=log, duration_s=duration_s, warmup_s=warmup_s)
    rounds = list(access.rounds(setting))
    return log.told, rounds, log.rows


def faults(access, users=4, *, timed=True):
    """The keys of what is wrong before anything runs."""
    facts = ScenarioFacts(users=users, rounds=1, duration_s=10.0 if timed else None)
    return {fault.key for fault in nested_faults(access, "", facts)}


@pytest.mark.parametrize(("law", "wait"), [("exponential", 4.0), ("fixed", 2.0)])
@pytest.mark.slow
def test_one_link_is_mm1_or_md1(make_setting, law, wait):
    """At load 0.8 packets of 1 ms wait for 4 or for 2 of their times."""
    traffic = {"kind": "poisson", "load": 0.8, "size": {"distribution": law, "mean": 1000.0}, "source": "towers"}
    told, *_ = watch(make_setting, network(traffic=traffic), 1, 200.0, warmup_s=10.0)
    assert told["delay_mean_s"] == pytest.approx((1 + wait) * 1e-3, rel=0.06)
    assert told["utilisation.tower:0-server"] == pytest.approx(0.8, rel=0.02)
    assert told["throughput_bps"] == pytest.approx(8e5, rel=0.02)
    assert told["loss_ratio"] == 0


def test_the_order_of_traffic_leaves_its_draws(make_setting):
    size = {"distribution": "exponential", "mean": 1000.0}
    sources = [
        {"kind": "poisson", "rate": 50, "size": size, "source": "towers"},
        {"kind": "on_off", "every": "5 ms", "on": "100 ms", "off": "100 ms", "size": size, "source": "towers"},
    ]
    one, other = (watch(make_setting, network(traffic=traffic), 1, 1.0)[0] for traffic in (sources, sources[::-1]))
    assert one["throughput_bps"] == pytest.approx(other["throughput_bps"], rel=1e-9)


@pytest.mark.slow
def test_two_kinds_with_priorities_wait_as_cobham_says(make_setting):
    """Urgent packets of 1 ms at load 0.3, others of 4 ms at 0.5: W0 = (0.3 · 1 + 0.5 · 4) / 2 = 1.15 ms.

    W = 1.15 / 0.7 = 1.64 ms and 1.15 / (0.7 · 0.2) = 8.21 ms, so that delays are 2.64 and 12.21 ms; in the mean over
    300 and 125 packets a second 5.46 ms.  The other way round W = 1.15 / 0.5 and 1.15 / (0.5 · 0.2), in the mean
    (300 · 12.5 + 125 · 6.3) / 425 = 10.68 ms.  Without priorities all wait 5.75 ms: 7.63 ms.
    """
    short = {"kind": "poisson", "load": 0.3, "size": FIXED, "source": "towers"}
    long = {"kind": "poisson", "load": 0.5, "size": FIXED | {"mean": 4000.0}, "source": "towers"}
    for ranks, expected_s in (((0, 1), 5.46e-3), ((1, 0), 10.68e-3), ((0, 0), 7.63e-3)):
        kinds = [kind | {"priority": rank} for kind, rank in zip((short, long), ranks, strict=True)]
        access = network(traffic=kinds[:: 1 - 2 * ranks[0]], queue={"kind": "priority"})
        told, *_ = watch(make_setting, access, 1, 200.0, warmup_s=10.0)
        assert told["delay_mean_s"] == pytest.approx(expected_s, rel=0.07)


@pytest.mark.slow
def test_routers_and_towers_load_their_own_links(make_setting):
    """A tree with two routers of two towers each; every sender of a kind comes at a load of its own link."""
    tree = {"kind": "tree", "fanout": [2, 2], "radius": "1 km", "ring": "2 km", "rate": "1 Mbps", "delay": "0 s"}
    traffic = {"kind": "poisson", "load": 0.4, "size": FIXED, "source": "routers"}
    told, *_ = watch(make_setting, NetworkAccess.model_validate({"topology": tree, "traffic": traffic}), 3, 80.0)
    assert told["throughput_bps"] == pytest.approx(2 * 4e5, rel=0.03)
    assert told["jain"] == pytest.approx(1, abs=0.01)
    busy = {name: share for name, share in told.items() if name.startswith("utilisation.router")}
    assert list(busy.values()) == pytest.approx([0.4, 0.4], rel=0.05)
    traffic["source"], traffic["load"] = "towers", 0.2
    told, *_ = watch(make_setting, NetworkAccess.model_validate({"topology": tree, "traffic": traffic}), 3, 80.0)
    assert told["throughput_bps"] == pytest.approx(4 * 2e5, rel=0.03)
    assert [told[name] for name in sorted(busy)] == pytest.approx([0.4, 0.4], rel=0.05), "two towers on each"


@pytest.mark.slow
def test_users_load_the_air_and_then_the_link(make_setting):
    """CSMA/CA: 5 users of 2 % of 6 Mb/s each; the tower's link is of 1 Mb/s, which 600 kb/s load by 0.6."""
    traffic = {"kind": "poisson", "load": 0.02, "size": {"distribution": "fixed", "mean": 12_000.0}}
    mac = {"kind": "csma_ca", "standard": "802.11a"}
    told, *_ = watch(make_setting, network(traffic=traffic, mac=mac), 5, 120.0)
    assert told["throughput_bps"] == pytest.approx(6e5, rel=0.05)
    assert told["utilisation.tower:0-server"] == pytest.approx(0.6, rel=0.05)
    assert told["delay_mean_s"] > 14e-3
    early, *_ = watch(make_setting, network(traffic=traffic | {"destination": "tower"}, mac=mac), 5, 120.0)
    assert early["throughput_bps"] == pytest.approx(told["throughput_bps"], rel=0.001)
    assert early["utilisation.tower:0-server"] == 0
    assert early["delay_mean_s"] < 3e-3


def test_what_leaves_at_the_tower_is_only_the_kind_that_says_so(make_setting):
    """Users' packets go on to the server though the kind that the towers send has a say of its own."""
    users = {"kind": "constant", "every": 0.1, "size": {"mean": 12_000.0}}
    towers = {"kind": "constant", "every": 0.1, "size": {"mean": 1000.0}, "source": "towers"}
    mac = {"kind": "csma_ca"}
    _, _, rows = watch(make_setting, network(traffic=[users | {"destination": "tower"}, towers], mac=mac), 2, 10.0)
    ends = Counter((row[3] >= 0, row[4]) for row in rows if row[0] == "delivered")
    assert set(ends) == {(True, "tower:0"), (False, "server")}


@pytest.mark.parametrize(
    ("said", "key"),
    [
        ({"source": "towers", "destination": "tower"}, "destination"),
        ({"source": "routers", "destination": "tower"}, "destination"),
        ({"source": "towers", "buffer": 3}, "buffer"),
    ],
)
def test_what_has_no_effect_on_traffic_is_a_fault(said, key):
    traffic = {"kind": "constant", "every": 0.1, **said}
    [found] = faults(network(traffic=traffic))
    assert found == f"traffic.0.{key}"


def test_a_priority_that_no_queue_looks_at_is_a_fault():
    traffic = {"kind": "poisson", "rate": 1, "source": "towers", "priority": 2}
    assert faults(network(traffic=traffic)) == {"traffic.0.priority"}
    assert faults(network(traffic=traffic, queue="priority")) == set()
    assert faults(network(traffic=traffic, queues={"tower:0": {"kind": "relay", "policy": "priority"}})) == set()
    assert faults(network(traffic=traffic, queue={"kind": "drr", "quantum": "1 kB"})) == {"traffic.0.priority"}


def test_what_is_behind_the_towers_has_no_effect_where_nothing_goes():
    traffic = {"kind": "poisson", "rate": 1, "destination": "tower", "priority": 2}
    said = {
        "queue": "priority",
        "queues": {"tower:0": "priority"},
        "routing": {"kind": "shortest_path", "metric": "hops"},
    }
    early = network(traffic=traffic, mac={"kind": "csma_ca"}, **said)
    assert faults(early) == {"queue", "queues", "routing", "traffic.0.priority"}
    towers = {"kind": "poisson", "rate": 1, "source": "towers"}
    assert faults(network(traffic=[traffic, towers], mac={"kind": "csma_ca"}, **said)) == set()
    assert faults(network(traffic=traffic | {"destination": "server"}, mac={"kind": "csma_ca"}, **said)) == set()


def test_motion_needs_a_radio_and_shared_air_a_neighbour(make_setting):
    users = {"traffic": {"kind": "saturated"}, "mac": {"kind": "tdma"}}
    motion = {"kind": "random_waypoint", "speed": [1, 2], "radius": "100 m"}
    assert faults(network(**users, **RADIO, motion=motion)) == set()
    towers = {"kind": "poisson", "rate": 1, "source": "towers"}
    assert faults(network(traffic=towers, motion=motion)) == {"motion"}
    with pytest.raises(ScenarioError, match="shared_air: has no effect with one tower"):
        watch(make_setting, network(**users, **RADIO, shared_air=True, interference="sinr"), 2, 1.0)


def test_a_probe_looks_on_for_its_lag():
    said = {"traffic": {"kind": "saturated"}, "mac": {"kind": "tdma"}} | RADIO
    assert faults(network(**said, probe={"every": 0.1, "lag": 9.9})) == set()
    assert faults(network(**said, probe={"every": 1.0, "lag": 10.0})) == {"probe.lag"}


def test_traffic_that_nobody_can_send_is_a_fault(make_setting):
    traffic = {"kind": "constant", "every": 0.1, "source": "routers"}
    with pytest.raises(ScenarioError) as caught:
        watch(make_setting, network(traffic=traffic), 3, 10.0)
    assert [fault.key for fault in caught.value.faults] == ["traffic.0.source"]


def test_faults_of_a_timed_network():
    good = {"traffic": {"kind": "saturated"}, "mac": {"kind": "csma_ca"}}
    assert faults(network(**good)) == set()
    assert faults(network(**good, round={"kind": "first", "m": 3}, update_size="1 kB")) == {"round", "update_size"}
    assert faults(network(**good, capture="3 dB")) == {"capture"}
    assert faults(network(**good, interference="sinr")) == {"interference"}
    assert faults(network(**good, shared_air=True)) == {"shared_air"}
    assert faults(
        network(traffic=[{"kind": "saturated"}, {"kind": "poisson", "rate": 1}], mac={"kind": "csma_ca"})
    ) == {"traffic"}
    assert faults(network(traffic={"kind": "saturated"})) == {"radio", "reception", "mac"}
    towers = {"kind": "poisson", "rate": 1, "source": "towers"}
    assert faults(network(traffic=towers, mac={"kind": "csma_ca"}, **RADIO)) >= {"mac", "radio", "reception"}
    wrong = {"kind": "snr_threshold", "threshold": "0 dB", "rate": "5 Mbps"}
    assert faults(network(**good, **(RADIO | {"reception": wrong}))) == {"mac"}


@pytest.mark.slow
def test_windows_add_up_and_their_number_changes_nothing(make_setting):
    traffic = {"kind": "poisson", "rate": 40.0, "size": FIXED, "buffer": 2}
    access = network(traffic=traffic, mac={"kind": "slotted_aloha", "probability": 0.1}, **RADIO)
    one, [all_], rows = watch(make_setting, access, 8, 20.0)
    many, rounds, split = watch(make_setting, access, 8, 20.0, windows=7)
    assert one == many
    assert (rounds[0].opened_s, rounds[-1].closed_s, len(rounds)) == (0.0, 20.0, 7)
    assert [one.opened_s for one in rounds[1:]] == [one.closed_s for one in rounds[:-1]]
    assert sum(each.uplink_bits for each in rounds) == all_.uplink_bits == 1000.0 * one["attempts"]
    plain = [sorted(row[:2] + row[3:] for row in told) for told in (rows, split)]
    assert plain[0] == plain[1]


@pytest.mark.parametrize("mac", [{"kind": "slotted_aloha", "probability": 0.2}, {"kind": "csma_ca", "rate": 6e6}])
@pytest.mark.parametrize("outages", [False, True])
@pytest.mark.slow
def test_what_came_is_delivered_lost_or_still_there(make_setting, mac, outages):
    """Each offered packet has one recorded outcome, or is still in the network at the end."""
    traffic = {"kind": "poisson", "rate": 60.0, "size": FIXED, "buffer": 3}
    down = {
        "kind": "renewal",
        "up": {"distribution": "exponential", "mean": 3},
        "down": {"distribution": "exponential", "mean": 1},
    }
    said = {"outages": [down | {"nodes": "users"}, down | {"nodes": "towers"}] if outages else []}
    said |= RADIO | {
        "queue": {"kind": "drop_tail", "capacity": 1},
        "mac": mac | {"max_attempts": 2},
        "traffic": traffic,
    }
    if mac["kind"] == "csma_ca":
        del said["radio"], said["reception"]
    told, _, rows = watch(make_setting, network(**said), 10, 30.0)
    outcomes = Counter(row[0] for row in rows if row[0] in OUTCOMES)
    assert outcomes["delivered"] == told["delivered"]
    lost = {outcome: told[f"lost.{outcome}"] for outcome in ("collided", "dropped", "faded", "given_up", "lost")}
    assert {outcome: count for outcome, count in lost.items() if count} == {
        k: n for k, n in outcomes.items() if k != "delivered"
    }
    offered = round(told["offered_bps"] * 30.0 / 1000.0)
    assert abs(offered - 60 * 10 * 30) < 4.5 * np.sqrt(60 * 10 * 30)
    assert 0 <= offered - sum(outcomes.values()) <= 10 * 3 + 2
    assert {row[3] for row in rows if row[0] in OUTCOMES} == set(range(10))
    delays_s = np.array([row[5] for row in rows if row[0] == "delivered"])
    assert told["delay_mean_s"] == pytest.approx(delays_s.mean())
    assert told["delay_p95_s"] == pytest.approx(np.quantile(delays_s, 0.95))


def two_cells(**said):
    """Towers at 0 and 1000 m, a user 100 m from each and 900 m from the other; loss 40 + 30 log d."""
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
    told = {
        "topology": topology,
        "channel": [loss],
        "traffic": traffic,
        "mac": {"kind": "slotted_aloha", "probability": 1},
    }
    radio = RADIO | {"radio": RADIO["radio"] | {"power": "30 dBm"}}
    return NetworkAccess.model_validate(told | radio | {"shared_air": True} | said)


@pytest.mark.parametrize(("ratio", "good"), [("28 dB", True), ("29 dB", False)])
@pytest.mark.slow
def test_cells_disturb_each_other_by_known_gains(make_setting, ratio, good):
    """30 log(900 / 100) = 28.63 dB between wanted and other; noise is far below."""
    for said in ({"interference": "sinr", "reception": RADIO["reception"] | {"threshold": ratio}}, {"capture": ratio}):
        told, *_ = watch(make_setting, two_cells(**said), 2, 9.5)
        assert told["delivered"] == (20 if good else 0)
        if not good:
            assert told["collision_probability"] == pytest.approx(1, abs=1e-3), "all but those on the air at the end"
        alone, *_ = watch(make_setting, two_cells(**said, shared_air=False), 2, 9.5)
        assert alone["delivered"] == 20


@pytest.mark.parametrize("said", [{"interference": "sinr"}, {"capture": 6.0}], ids=str)
def test_cells_that_would_have_to_sense_each_other_are_refused(said):
    """Where each cell senses its own users alone, neighbours on one channel would send into each other's frames."""
    listening = {"kind": "csma_ca", "standard": "802.11a"}
    told = nested_faults(two_cells(**said, mac=listening), "", ScenarioFacts(2, 1, duration_s=1.0))
    (fault,) = [fault for fault in told if fault.key == "shared_air"]
    assert fault.value is True
    assert "sense" in fault.problem
    assert "leave it out" in fault.remedy
    assert faults(two_cells(**said), 2) == set(), "a MAC that does not listen may share"
    assert "shared_air" not in faults(two_cells(mac=listening, shared_air=False), 2)


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


@pytest.mark.parametrize("close", [{"m": 3}, {"deadline": 0.7}, {"m": 4, "deadline": 0.6}], ids=str)
@pytest.mark.parametrize("outages", [(), ("users",), ("users", "towers")], ids=str)
@pytest.mark.parametrize("limit", [None, 2])
@pytest.mark.quick_first
def test_rounds_over_csma_beside_traffic(make_setting, close, outages, limit):
    """Every update has one outcome, rounds hold what is theirs, and packets are carried beside them."""
    traffic = {"kind": "poisson", "rate": 20.0, "size": {"distribution": "fixed", "mean": 12_000.0}, "buffer": 5}
    access = network(
        **SERVICE,
        round={"kind": "first", **close},
        traffic=traffic,
        mac={"kind": "csma_ca", "max_attempts": limit},
        topology=STAR | {"rate": "10 Mbps"},
        outages=[DOWN | {"nodes": nodes} for nodes in outages],
    )
    assert faults(access, 10, timed=False) == set()
    log = Memory()
    setting = replace(make_setting(10, 12, 3), recorder=log, downlink_bits=1e3)
    rounds = list(access.rounds(setting))
    begun = Counter((row[3], row[5]) for row in log.rows if row[0] == "received")
    ended = Counter((row[3], row[5]) for row in log.rows if row[0] in OUTCOMES)
    assert begun == ended
    assert set(begun.values()) == {1}
    heard = [(one.user, one.base, one.arrived_s) for each in rounds for one in each.deliveries]
    assert [(row[3], row[5], row[1]) for row in log.rows if row[0] == "delivered"] == heard
    assert len(heard) > 12
    span_s = rounds[-1].closed_s
    assert log.told["traffic.offered_bps"] == pytest.approx(20 * 10 * 12e3, rel=4.5 / np.sqrt(200 * span_s))
    if not outages and limit is None:
        assert log.told["traffic.throughput_bps"] == pytest.approx(log.told["traffic.offered_bps"], rel=0.1)
    assert log.told["traffic.delivered"] > 0


def test_a_saturated_neighbourhood_does_not_shut_rounds_out(make_setting):
    access = network(
        **SERVICE,
        round={"kind": "first", "m": 5},
        traffic={"kind": "saturated"},
        mac={"kind": "csma_ca"},
        topology=STAR | {"rate": "1 Gbps"},
    )
    log = Memory()
    rounds = list(access.rounds(replace(make_setting(5, 6, 3), recorder=log, downlink_bits=1e3)))
    assert [len(one.deliveries) for one in rounds] == [5] * 6
    assert log.told["traffic.throughput_bps"] > 3e6
