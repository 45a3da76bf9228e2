"""Users exempt from a cause of loss: effects on them, effects on other users, and settings without effect."""

import copy
import re
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from support import small_network as small
from support.recorders import Memory
from support.small_network import FADES, PLAIN, RULES, make

from netfl.access.network import NetworkAccess
from netfl.errors import ModelError
from netfl.network import counterfactual
from netfl.network.backhaul.port import Link, OutputPort
from netfl.network.build import build_network
from netfl.network.clock import Clock, call_after
from netfl.network.counterfactual import CAUSES, NO_EXEMPTIONS
from netfl.network.counterfactual.cells import IsolatedStreams
from netfl.network.counterfactual.connection import UninterruptedConnection
from netfl.network.counterfactual.medium import UnfadedMedium
from netfl.network.counterfactual.port import BypassPort
from netfl.network.event_log import EventLog
from netfl.network.layout import NodeId
from netfl.network.message import BroadcastCopy, Packet
from netfl.network.outage._combined import CombinedOutages
from netfl.network.outage._state import NodeState
from netfl.network.queue.drop_tail import DropTail
from netfl.network.radio.connection import Connection
from netfl.network.radio.fading_medium import FadingMedium
from netfl.network.validation import inactive_causes
from netfl.scenario.validation import nested_faults
from netfl.streams import Streams
from netfl.types import OUTCOMES, ScenarioFacts

RENEWAL = {
    "kind": "renewal",
    "up": {"distribution": "exponential", "mean": 25},
    "down": {"distribution": "fixed", "mean": 6},
}


def run_rounds(users, rounds, seed=1, **overrides):
    """Return the rounds and the recorded rows."""
    results, log = small.play(users, rounds, seed, **overrides)
    return results, log.rows


def rows_of(rows, users, *kinds):
    """Return the rows of *users*, sorted, optionally of some kinds only."""
    return sorted(row for row in rows if row[3] in users and (not kinds or row[0] in kinds))


def delivery_counts(rounds):
    """Return the number of deliveries of each user."""
    return Counter(delivery.user for result in rounds for delivery in result.deliveries)


DEADLINE = {"round": {"kind": "first", "deadline": 30.0, "losses": "unknown"}}  # rounds of fixed length
SETTINGS = DEADLINE | {
    "topology": {"kind": "tree", "fanout": [2], "ring": "1 km", "radius": "600 m", "rate": "1 Gbps", "delay": 0},
    "radio": {"power": "0 dBm", "bandwidth": "125 kHz"},
    "channel": FADES,
    "compute": {"speed": 1.0, "spread": 1.0, "samples": 4},
    "outages": [RENEWAL | {"nodes": "users"}, RENEWAL | {"nodes": "towers"}, RENEWAL | {"nodes": "links"}],
}


@pytest.mark.parametrize("cause", CAUSES)
@pytest.mark.quick_first
def test_draws_of_other_users_are_unchanged(cause):
    """With TDMA and fixed rounds, users do not interact, so the others are unaffected."""
    base_exemptions = {}
    if cause == "contention":  # users without contention may queue at a port
        base_exemptions = {"backhaul": [2, 5]}
    plain_rounds, plain_rows = run_rounds(8, 25, **SETTINGS, exempt=base_exemptions or None)
    exempt_rounds, exempt_rows = run_rounds(8, 25, **SETTINGS, exempt=base_exemptions | {cause: [2, 5]})
    others = {0, 1, 3, 4, 6, 7}
    assert rows_of(plain_rows, others) == rows_of(exempt_rows, others)
    gain = (
        delivery_counts(exempt_rounds)[2]
        + delivery_counts(exempt_rounds)[5]
        - delivery_counts(plain_rounds)[2]
        - delivery_counts(plain_rounds)[5]
    )
    assert gain >= 0 or cause == "superseded"  # without the deadline, older updates are finished and come too late
    is_changed = rows_of(plain_rows, {2, 5}) != rows_of(exempt_rows, {2, 5})
    assert is_changed == (cause != "selection"), "all users are selected anyway"


@pytest.mark.slow
def test_empty_exemption_equals_plain_run():
    access, setting, log = make(8, 25, **SETTINGS)
    other_log = Memory(unknown=None)
    rounds = list(access.model_copy(update={"exempt": NO_EXEMPTIONS}).rounds(replace(setting, recorder=other_log)))
    assert rounds == list(access.rounds(setting))
    assert other_log.rows == log.rows
    assert other_log.final_values == log.final_values


def test_user_exempt_from_contention_never_collides():
    """All users send in every slot and collide, except the exempt one; the others are unaffected."""
    collisions = {"mac": {"kind": "slotted_aloha", "probability": 1.0}} | DEADLINE
    plain_rounds, plain_rows = run_rounds(5, 4, **collisions)
    exempt_rounds, exempt_rows = run_rounds(5, 4, **collisions, exempt={"contention": 3})
    assert not delivery_counts(plain_rounds)
    assert delivery_counts(exempt_rounds) == {3: 4}
    assert rows_of(plain_rows, {0, 1, 2, 4}) == rows_of(exempt_rows, {0, 1, 2, 4})


@pytest.mark.parametrize("mac", ["tdma", "round_robin", "max_snr", "pure_aloha", "slotted_aloha"])
def test_users_exempt_from_contention_do_not_wait(mac):
    """With every MAC, five users with a medium of their own deliver in every round."""
    mac_settings = {"pure_aloha": {"backoff": 3.0}, "slotted_aloha": {"adaptive": "known"}}
    overrides = {"mac": {"kind": mac} | mac_settings.get(mac, {}), "round": {"kind": "first", "deadline": 3.5}}
    rounds, rows = run_rounds(5, 6, **overrides, exempt={"contention": [*range(5)]})
    assert delivery_counts(rounds) == dict.fromkeys(range(5), 6)
    assert not rows_of(rows, range(5), "failed", "collided")


@pytest.mark.parametrize(
    ("division", "duration_s"), [({"among": "users"}, 4.0), ({}, 3.0), ({"division": "need"}, 3.0)], ids=str
)
def test_user_exempt_from_contention_has_the_whole_divided_band(division, duration_s):
    """Fixed shares of the others stay a quarter; a band that the backlog divides is divided among the three others."""
    overrides = {"mac": {"kind": "fdma", **division}, "round": {"kind": "first", "m": 4}}
    rounds, _ = run_rounds(4, 3, **overrides, exempt={"contention": 2})
    for result in rounds:
        times_s = {delivery.user: delivery.arrived_s - result.opened_s - 1.0 for delivery in result.deliveries}
        assert times_s == pytest.approx({user: 1.0 if user == 2 else duration_s for user in range(4)}, rel=1e-5)


def test_isolated_streams_share_fields_and_separate_generators():
    streams = Streams(3).at("mac", 0)
    first, second = (IsolatedStreams(streams.seed, streams.path, user) for user in (4, 5))
    assert first.field("gap") == second.field("gap") == streams.field("gap")
    assert len({each_streams.rng("backoff").random() for each_streams in (first, second, streams)}) == 3


@pytest.mark.parametrize("name", ["contention", "backhaul"])
def test_csma_ca_with_isolated_users(name):
    mac_settings = {"mac": {"kind": "csma_ca"}, "radio": None, "reception": None, "channel": []}
    access, setting, log = make(6, 5, **mac_settings, **DEADLINE, exempt={name: [0, 1]})
    assert delivery_counts(list(access.rounds(setting))) == dict.fromkeys(range(6), 5)
    assert (log.final_values["attempts"] == 30) == (not rows_of(log.rows, range(6), "failed"))


def test_user_exempt_from_fading_is_always_received():
    """At 1 dB below the threshold only the exempt user delivers, and it uses the fastest mode."""
    noise_dbm = -174 + 10 * np.log10(125e3)
    weak = {"channel": [{"kind": "constant", "gain": -(20 - noise_dbm) + 1.0}], "unreachable": "keep"} | DEADLINE
    mcs = {"reception": {"kind": "mcs", "standard": "lte"}}
    plain_rounds, _ = run_rounds(4, 5, **weak)
    assert set(delivery_counts(plain_rounds)) == {0, 1, 2, 3}
    too_weak = weak | {"channel": [{"kind": "constant", "gain": -(20 - noise_dbm) - 1.0}]}
    assert not delivery_counts(run_rounds(4, 5, **too_weak)[0])
    assert delivery_counts(run_rounds(4, 5, **too_weak, exempt={"fading": [2]})[0]) == {2: 5}
    rows = run_rounds(4, 5, **weak, **mcs, exempt={"fading": [2]})[1]
    delivered_s = {row[3]: row[1] for row in rows if row[0] == "delivered" and row[2] == 1}
    sent_s = {row[3]: row[1] for row in reversed(rows) if row[0] == "sent" and row[2] == 1}
    assert delivered_s[2] - sent_s[2] < 0.2 * (delivered_s[1] - sent_s[1])


def test_user_exempt_from_fading_still_collides():
    """Without noise the SINR depends on interference, which is as strong as the signal."""
    collisions = {"mac": {"kind": "slotted_aloha", "probability": 1.0}} | DEADLINE
    for interference in ("sinr", {"kind": "capture", "margin": "3 dB"}, "collide"):
        rounds, rows = run_rounds(3, 3, **collisions, interference=interference, exempt={"fading": [1]})
        assert not delivery_counts(rounds)
        assert {row[6] for row in rows_of(rows, {1}, "failed")} == {"collided"}


def test_stronger_signal_is_received_without_noise():
    """Both users are 10 dB below the threshold with noise; without noise the stronger one is received at -6 dB."""
    noise_dbm = -174 + 10 * np.log10(125e3)
    overrides = {
        "mac": {"kind": "slotted_aloha", "probability": 1.0},
        "channel": [{"kind": "constant", "gain": -(20 - noise_dbm) - 16.0}],
        "reception": {"kind": "snr_threshold", "threshold": "-6 dB", "rate": "1 kbps"},
        "interference": "sinr",
        "unreachable": "keep",
    } | DEADLINE
    assert not delivery_counts(run_rounds(2, 3, **overrides)[0])
    assert delivery_counts(run_rounds(2, 3, **overrides, exempt={"fading": [1]})[0]) == {1: 3}


def write_outages(tmp_path, *rows):
    path = tmp_path / "away.csv"
    path.write_text("node,start_s,end_s\n" + "\n".join(",".join(map(str, row)) for row in rows) + "\n")
    return {"outages": [{"kind": "calendar", "file": str(path)}]}


@pytest.mark.parametrize("routing", [{}, {"routing": {"kind": "shortest_path", "convergence": 0.1}}])
@pytest.mark.parametrize("node", ["1", "tower:0", "tower:0-server"])
def test_outage_does_not_affect_exempt_user(tmp_path, node, routing):
    """A node goes down at 20 s: user 1 continues as before, the others as with the outage."""
    overrides = (
        write_outages(tmp_path, (node, 20.0, 1e6))
        | {"round": {"kind": "first", "deadline": 10.0, "losses": "unknown"}}
        | routing
    )
    plain_rounds, plain_rows = run_rounds(3, 8, **overrides)
    exempt_rounds, exempt_rows = run_rounds(3, 8, **overrides, exempt={"outage": [1]})
    assert delivery_counts(plain_rounds)[1] == 2
    assert delivery_counts(exempt_rounds)[1] == 8
    assert rows_of(plain_rows, {0, 2}) == rows_of(exempt_rows, {0, 2})


def test_exempt_update_crosses_link_during_outage(tmp_path):
    """The link goes down during the transmission time of 1 s and during the delay of 2 s."""
    slow = {"topology": {"kind": "star", "radius": "100 m", "rate": "1 kbps", "delay": 2.0}, **DEADLINE}
    free_rounds, _ = run_rounds(1, 1, **slow, mac={"kind": "round_robin"})
    at_s = free_rounds[0].deliveries[0].arrived_s
    for start_s in (at_s - 2.5, at_s - 1.0):
        overrides = write_outages(tmp_path, ("tower:0-server", start_s, 1e6)) | slow
        assert not delivery_counts(run_rounds(1, 1, **overrides, mac={"kind": "round_robin"})[0])
        exempt_rounds, _ = run_rounds(1, 1, **overrides, mac={"kind": "round_robin"}, exempt={"outage": [0]})
        assert exempt_rounds[0].deliveries[0].arrived_s == pytest.approx(at_s)


def test_update_of_user_exempt_from_backhaul_is_at_server_at_once():
    """Ten updates leave a cell at once for a link that takes 1 s for each and stores two."""
    overrides = {
        "topology": {"kind": "star", "radius": "100 m", "rate": "1 kbps", "delay": 0.5},
        "queue": {"kind": "drop_tail", "capacity": 2},
        "exempt": None,
    } | DEADLINE
    base_exemptions = {"contention": [*range(10)]}
    plain_rounds, plain_rows = run_rounds(10, 1, **overrides | {"exempt": base_exemptions})
    assert len(delivery_counts(plain_rounds)) == 3
    exempt_rounds, exempt_rows = run_rounds(10, 1, **overrides | {"exempt": base_exemptions | {"backhaul": [8, 9]}})
    first_s = min(delivery.arrived_s for delivery in plain_rounds[0].deliveries)
    arrived_s = {delivery.user: delivery.arrived_s for delivery in exempt_rounds[0].deliveries if delivery.user > 7}
    assert arrived_s == pytest.approx(dict.fromkeys((8, 9), first_s - 1.5))
    assert rows_of(plain_rows, range(8)) == rows_of(exempt_rows, range(8))


@pytest.mark.parametrize("mode", ["unicast", "multicast", None])
def test_user_exempt_from_downlink_has_versions_at_once(mode):
    """Copies cross a link that takes 1 s for each and stores two; the ideal downlink takes 1 s."""
    overrides = {
        "topology": {"kind": "star", "radius": "100 m", "rate": "1 kbps", "delay": 0},
        "queue": {"kind": "drop_tail", "capacity": 2},
        "reception": PLAIN["reception"] | {"rate": "1 Mbps"},
    } | DEADLINE
    if mode is not None:
        overrides |= {"broadcast_rate": None, "downlink": {"mode": mode}}
    received = rows_of(run_rounds(10, 1, **overrides, exempt={"downlink": [9]})[1], range(10), "received")
    times_s = {row[3]: round(row[1], 1) for row in received}
    assert times_s[9] == 0.0
    expected_s = {"unicast": [1.0, 2.0, 3.0], "multicast": [1.0] * 9, None: [1.0] * 9}
    assert sorted(time_s for user, time_s in times_s.items() if user != 9) == expected_s[mode]


def test_outage_of_link_does_not_concern_user_exempt_from_backhaul(tmp_path):
    overrides = write_outages(tmp_path, ("tower:0-server", 2.5, 1e6)) | DEADLINE
    overrides |= {
        "topology": {"kind": "star", "radius": "100 m", "rate": "1 kbps", "delay": 0},
        "mac": {"kind": "round_robin"},
    }
    assert not delivery_counts(run_rounds(1, 1, **overrides)[0])
    assert delivery_counts(run_rounds(1, 1, **overrides, exempt={"backhaul": [0]})[0]) == {0: 1}


def test_user_exempt_from_selection_takes_part_in_every_round():
    overrides = {"selection": {"kind": "uniform", "m": 2}} | DEADLINE
    plain_rounds, plain_rows = run_rounds(6, 20, **overrides)
    exempt_rounds, exempt_rows = run_rounds(6, 20, **overrides, exempt={"selection": [4]})
    assert delivery_counts(plain_rounds)[4] < 15
    assert delivery_counts(exempt_rounds)[4] == 20
    others = {0, 1, 2, 3, 5}
    assert rows_of(plain_rows, others, "received") == rows_of(exempt_rows, others, "received")


@pytest.mark.parametrize("transport", [None, {"grain": "packet", "mtu": 400.0}])
def test_user_exempt_from_airtime_sends_one_short_frame(transport):
    """An update of 1000 bits takes 1 s at 1 kbit/s, too long for a round of 0.9 s."""
    overrides = {
        "reception": PLAIN["reception"] | {"rate": "1 kbps"},
        "mac": {"kind": "round_robin"},
        "compute": {"speed": 100.0, "samples": 1},
        "round": {"kind": "first", "deadline": 0.9},
        "transport": transport,
    }
    rounds, _ = run_rounds(1, 5, **overrides)
    assert not delivery_counts(rounds)
    rounds, rows = run_rounds(1, 5, **overrides, exempt={"airtime": [0]})
    assert delivery_counts(rounds) == {0: 5}
    assert {row[5] for row in rows_of(rows, {0}, "sent")} == {1000.0 / 100}


SLOW = {
    "compute": {"speed": [1.0, 1.0, 0.2], "samples": 1},
    "mac": {"kind": "tdma"},
    "round": {"kind": "first", "deadline": 4.0},
}
"""User 2 trains for 5 s, longer than a round."""


def test_user_exempt_from_newer_versions_finishes_its_update():
    """Its updates come too late, unless older ones count."""
    assert 2 not in delivery_counts(run_rounds(3, 12, **SLOW)[0])
    rounds, rows = run_rounds(3, 12, **SLOW, exempt={"superseded": [2]})
    assert 2 not in delivery_counts(rounds)
    assert {row[0] for row in rows_of(rows, {2}, *OUTCOMES)} == {"late", "unfinished"}
    rounds, rows = run_rounds(3, 12, **SLOW, staleness=2, exempt={"superseded": [2]})
    assert delivery_counts(rounds)[2] >= 5
    assert not rows_of(rows, {2}, "superseded")
    assert rows_of(rows, {0, 1}) == rows_of(run_rounds(3, 12, **SLOW, staleness=2)[1], {0, 1})


def test_updates_of_user_exempt_from_deadlines_count_whenever_they_come():
    rounds, rows = run_rounds(3, 12, **SLOW, exempt={"deadline": [2]})
    assert delivery_counts(rounds)[2] >= 5
    assert not rows_of(rows, {2}, "late", "superseded")
    assert rows_of(rows, {0, 1}) == rows_of(run_rounds(3, 12, **SLOW)[1], {0, 1})


def test_user_exempt_from_compute_is_as_fast_as_fastest():
    access, setting, _ = make(4, 1, compute={"speed": [1, 2, 4, 0.5], "samples": 4}, exempt={"compute": [0, 3]})
    assert build_network(access, setting).service.compute_s.tolist() == [1.0, 2.0, 1.0, 1.0]


def find_problems(facts=None, **overrides):
    access = NetworkAccess.model_validate(copy.deepcopy(PLAIN) | overrides)
    return {fault.key: fault.problem for fault in nested_faults(access, "", facts or ScenarioFacts(4, 3))}


def test_exemption_without_effect_is_rejected():
    problems = find_problems(exempt={"outage": [1], "compute": [1]})
    assert problems == {
        "exempt.outage": "has no effect because there are no outages",
        "exempt.compute": "has no effect because all users train for the same time",
    }
    assert [*find_problems(exempt={})] == ["exempt"]
    assert [*find_problems(exempt={"backhaul": [1, 7]})] == ["exempt.backhaul"]
    assert [*find_problems(exempt={"selection": [1]})] == ["exempt.selection"]
    ignoring = {"on_new_version": "ignore"}
    assert [*find_problems(**ignoring, exempt={"deadline": [1]})] == ["exempt.deadline"]
    assert [*find_problems(**ignoring, staleness=0, exempt={"superseded": [1]})] == ["exempt.superseded"]
    assert "exempt.contention" in find_problems(ScenarioFacts(1, 3), exempt={"contention": 0})
    given = {"kind": "fdma", "division": "given", "shares": [0.1, 0.2, 0.3, 0.4]}
    assert [*find_problems(mac=given, exempt={"contention": [1]})] == ["exempt.contention"]
    without_radio = {"radio": None, "reception": None, "channel": [], "mac": {"kind": "csma_ca"}}
    assert [*find_problems(**without_radio, exempt={"fading": 0})] == ["exempt.fading"]
    assert not find_problems(exempt={"contention": [0], "fading": 2, "backhaul": [3]})
    assert find_problems(ScenarioFacts(4, 3, duration_s=9.0), exempt={"backhaul": [1]})["exempt"].startswith(
        "has no effect without round"
    )


def test_single_user_is_accepted_as_list():
    exempt = NetworkAccess.model_validate(copy.deepcopy(PLAIN) | {"exempt": {"contention": [3, 5], "fading": 3}}).exempt
    assert (exempt.contention, exempt.fading, exempt.backhaul) == ((3, 5), (3,), ())
    assert exempt.among("contention", np.array([5, 0, 3])).tolist() == [True, False, True]


# the other parts of a counterfactual network


def build(**overrides):
    access, setting, _ = make(4, 1, **overrides)
    return build_network(access, setting)


def test_parts_are_the_usual_ones_unless_users_are_exempt():
    usual = build(exempt={"compute": [1]}, compute={"speed": [1, 2, 4, 0.5], "samples": 4})
    assert (type(usual.medium), type(usual.medium.connection)) == (FadingMedium, Connection)
    other = build(exempt={"fading": [1], "outage": [2]})
    assert (type(other.medium), type(other.medium.connection)) == (UnfadedMedium, UninterruptedConnection)


def test_user_exempt_from_fading_succeeds_with_probability_1():
    """The mean airtime that a selection uses is that of one attempt."""
    config = build(exempt={"fading": [1]})
    tower = NodeId("tower:0", config.layout.number("tower:0"))
    users = np.arange(4)
    probability = config.medium.success_probability(users, tower, 0.0, 1000.0, np.zeros(4, np.int64))
    assert probability[1] == 1.0


def test_part_is_chosen_by_any_of_its_causes():
    exemptions = NO_EXEMPTIONS.model_copy(update={"backhaul": (1,)})
    assert exemptions.choose(OutputPort, BypassPort, "outage", "backhaul").args == (exemptions,)
    assert exemptions.choose(OutputPort, BypassPort, "outage") is OutputPort
    usual, other = [], []
    assert exemptions.divert("outage", usual.append, other.append) == usual.append
    take = exemptions.divert("backhaul", usual.append, other.append)
    for user in range(3):
        take(Packet(user, 1.0))
    assert [[packet.user for packet in packets] for packets in (usual, other)] == [[0, 2], [1]]


def test_message_is_exempt_if_all_its_users_are():
    exemptions = NO_EXEMPTIONS.model_copy(update={"backhaul": (1, 3)})
    for ids, is_exempt in (([1, 3], True), ([3], True), ([1, 2], False)):
        copy_of_version = BroadcastCopy(
            -1, 1.0, version=0, ids=np.array(ids), users=np.arange(9), route=("server",),
            on_arrival=print, on_loss=print, on_supersede=print,
        )  # fmt: skip
        assert exemptions.cover("backhaul", copy_of_version) == is_exempt


def test_every_cause_is_explained_in_one_place():
    explained = re.findall(r"^- ``(\w+)``", counterfactual.__doc__, re.MULTILINE)
    assert explained == [*CAUSES]


def test_connection_of_user_exempt_from_outages(planned_outages):
    """User 0 and the tower are down from 2 to 6; user 1, who is exempt, is down from 3 to 5."""
    outages = CombinedOutages([planned_outages({0: [(2, 6)], 100: [(2, 6)], 1: [(3, 5)]})])
    exemptions = NO_EXEMPTIONS.model_copy(update={"outage": (1,)})
    connection = UninterruptedConnection(exemptions, NodeState(outages, 101))
    users = np.arange(2)
    assert connection.interrupted(users, 100, 1.0, 2.5, 2.5) == [True, False]
    assert connection.listening_during(users, 1.0, 2.5, is_tower_up=False).tolist() == [False, True]
    assert connection.connected(users, 100, 4.0).tolist() == [False, True]
    assert connection.connected_from(users, 100, 4.0) == pytest.approx([6.0, 4.0])
    assert not connection.is_node_up(100, 4.0)


def test_port_is_bypassed(recorder, planned_outages):
    """Each message takes 4 s and a delay of 3 s; the node is down from 6 to 20 and from 30 on.

    That of user 0 passes.  User 1, exempt from outages, waits until 4, and half of its message is sent by 6: the rest
    follows beside the link.  The message of user 3, which waits, is lost.  Nothing stops user 4, who is exempt.  The
    message of user 5 is lost at 30.
    """
    env, arrived_s = Clock(), {}
    log = EventLog(recorder, 9, nodes=9)
    node_state = NodeState(CombinedOutages([planned_outages({7: [(6, 20), (30, 99)]})]), 9)
    exemptions = NO_EXEMPTIONS.model_copy(update={"outage": (1, 4)})
    link = Link(NodeId("router:0", 7), NodeId("router:0-server", 8), rate_bps=1.0, delay_s=3.0)
    port = BypassPort(
        exemptions, env, log, node_state, Streams(5).field("tie"), link, DropTail().open(1.0, Streams(1)),
        lambda message: arrived_s.setdefault(message.user, env.now),
    )  # fmt: skip
    for user, at_s in ((0, 0.0), (1, 1.0), (3, 2.0), (4, 10.0), (5, 28.0)):
        call_after(env, at_s, lambda _, user=user: port.enter(Packet(user, 4.0)))
    env.run()
    assert arrived_s == {0: 7.0, 1: 11.0, 4: 17.0}
    assert log.packets.lost == {"lost": 2}


MACS = [{"kind": "slotted_aloha", "probability": 0.3}, {"kind": "tdma"}, {"kind": "round_robin"}]
GRAINS = [
    None,
    {"grain": "packet", "mtu": "40 B"},
    {"grain": "packet", "mtu": "40 B", "arq": {"timeout": 2.0, "retries": 2}},
]


@st.composite
def network_overrides(draw):
    """Draw networks with many causes of loss, and users exempt from some of them."""
    rule = draw(st.sampled_from(RULES))
    continuous = rule == "asynchronous" or rule["kind"] == "buffered"
    overrides = {
        "round": rule,
        "on_new_version": "restart" if continuous else draw(st.sampled_from(["restart", "finish", "ignore"])),
    }
    if draw(st.booleans()):
        downlink = {"mode": draw(st.sampled_from(["unicast", "multicast"])), "max_attempts": draw(st.integers(1, 2))}
        overrides |= {"broadcast_rate": None, "downlink": downlink}
    overrides["selection"] = draw(st.sampled_from(["all", {"kind": "uniform", "m": 3}]))
    overrides["mac"] = draw(st.sampled_from(MACS)) | {"max_attempts": draw(st.sampled_from([None, 2]))}
    overrides["outages"] = [
        RENEWAL | {"nodes": nodes} for nodes in ("users", "towers", "links")[: draw(st.integers(1, 3))]
    ]
    overrides["queue"] = {"kind": "drop_tail", "capacity": draw(st.integers(0, 3))}
    overrides["compute"] = {"speed": 1.0, "spread": 1.0, "samples": 4.0}
    overrides["topology"] = SETTINGS["topology"] | {"rate": draw(st.sampled_from(["500 bps", "20 kbps"]))}
    overrides["channel"], overrides["transport"] = FADES, draw(st.sampled_from(GRAINS))
    overrides["interference"] = draw(st.sampled_from(["collide", "sinr"]))
    overrides["shared_air"] = overrides["interference"] == "sinr" and draw(st.booleans())
    user_lists = st.lists(st.integers(0, 6), unique=True, max_size=7)
    exempt = {cause: draw(user_lists) for cause in CAUSES}
    exempt["outage"] = exempt["outage"] or [draw(st.integers(0, 6))]  # someone is exempt from something
    access = NetworkAccess.model_validate(copy.deepcopy(PLAIN) | overrides)
    for cause in inactive_causes(access, ScenarioFacts(7, 6), selects_all=access.selects_all):
        exempt.pop(cause)
    overrides["exempt"] = exempt
    return overrides


@settings(max_examples=50, deadline=None, derandomize=True, database=None)
@given(network_overrides(), st.integers(0, 5))
@pytest.mark.slow
def test_every_update_has_one_outcome_for_any_exemption(overrides, seed):
    access, setting, log = make(7, 6, seed, **overrides)
    assert not [*nested_faults(access, "", ScenarioFacts(7, 6))]
    try:
        rounds = list(access.rounds(setting))
    except ModelError:
        reject()
    ended = Counter((row[3], row[5]) for row in log.rows if row[0] in OUTCOMES)
    delivered = [(row[3], row[5], row[1]) for row in log.rows if row[0] == "delivered"]
    assert sorted(delivered) == sorted(
        (delivery.user, delivery.base, delivery.arrived_s) for result in rounds for delivery in result.deliveries
    )
    exempt = overrides["exempt"]
    all_restart = overrides["on_new_version"] == "restart" and not (exempt.get("superseded") or exempt.get("deadline"))
    if all_restart and "downlink" not in overrides and isinstance(overrides["round"], dict):
        received = Counter((row[3], row[5]) for row in log.rows if row[0] == "received")
        assert overrides["round"]["kind"] == "buffered" or received == ended
    for cause, kinds in (
        ("contention", {"collided"}),
        ("fading", {"faded"}),
        ("outage", {"lost"}),
        ("backhaul", {"dropped"}),
        ("deadline", {"late", "superseded"}),
    ):
        of_updates = [row for row in log.rows if row[0] != "missed"]  # a multicast may be for others, too
        assert not [row for row in of_updates if row[3] in exempt.get(cause, ()) and kinds & {row[0], row[6]}]
    same_access, setting, same_log = make(7, 6, seed, **overrides)
    assert list(same_access.rounds(setting)) == rounds
    assert same_log.rows == log.rows


def test_versions_of_users_exempt_from_deadlines_are_kept():
    """User 2 trains for 5 s in rounds of 4 s, so that its updates start from versions that are too old for others."""
    rounds, _ = run_rounds(3, 12, **SLOW, exempt={"deadline": [2]})
    late = [(played.index, each.base) for played in rounds for each in played.deliveries if each.user == 2]
    assert any(base < index - 1 for index, base in late)
    oldest = [0, *(played.oldest for played in rounds)]
    assert all(base >= oldest[index - 1] for index, base in late)
