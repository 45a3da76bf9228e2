"""Users who are spared a cause: what it does to them, what it leaves as it was, and what has no effect."""

import copy
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from support import small_network as small
from support.recorders import Memory
from support.small_network import FADES, PLAIN, RULES, make

from netfl.access._builder import build_network
from netfl.access.network import NetworkAccess
from netfl.errors import ModelError
from netfl.network.counterfactual import CAUSES, NO_EXEMPTIONS, IsolatedStreams
from netfl.scenario.validation import nested_faults
from netfl.streams import Streams
from netfl.types import OUTCOMES, ScenarioFacts

RENEWAL = {
    "kind": "renewal",
    "up": {"distribution": "exponential", "mean": 25},
    "down": {"distribution": "fixed", "mean": 6},
}


def play(users, rounds, seed=1, **said):
    """The rounds, and the rows that were recorded."""
    found, log = small.play(users, rounds, seed, **said)
    return found, log.rows


def of(rows, users, *kinds):
    """What happened to some users."""
    return sorted(row for row in rows if row[3] in users and (not kinds or row[0] in kinds))


def heard(rounds):
    return Counter(one.user for each in rounds for one in each.deliveries)


DEADLINE = {"round": {"kind": "first", "deadline": 30.0}}
WORLD = DEADLINE | {
    "topology": {"kind": "tree", "fanout": [2], "ring": "1 km", "radius": "600 m", "rate": "1 Gbps", "delay": 0},
    "radio": {"power": "0 dBm", "bandwidth": "125 kHz"},
    "channel": FADES,
    "compute": {"speed": 1.0, "spread": 1.0, "samples": 4},
    "outages": [RENEWAL | {"nodes": "users"}, RENEWAL | {"nodes": "towers"}, RENEWAL | {"nodes": "links"}],
}


@pytest.mark.parametrize("cause", CAUSES)
@pytest.mark.quick_first
def test_what_is_drawn_for_others_stays(cause):
    """TDMA, rounds of fixed length, room on the links: nobody meets anybody, and the others live as they did."""
    apart = {"queue": [2, 5]} if cause == "contention" else {}  # who meet in a slot no more may meet at a port
    plain, was = play(8, 25, **WORLD, exempt=apart or None)
    spared, now = play(8, 25, **WORLD, exempt=apart | {cause: [2, 5]})
    others = {0, 1, 3, 4, 6, 7}
    assert of(was, others) == of(now, others)
    gain = heard(spared)[2] + heard(spared)[5] - heard(plain)[2] - heard(plain)[5]
    assert gain >= 0
    assert (of(was, {2, 5}) != of(now, {2, 5})) == (cause != "queue"), "a queue that never fills costs nobody anything"


@pytest.mark.slow
def test_nobody_spared_is_the_plain_run():
    access, setting, log = make(8, 25, **WORLD)
    log_of_nobody = Memory(unknown=None)
    same = list(access.model_copy(update={"exempt": NO_EXEMPTIONS}).rounds(replace(setting, recorder=log_of_nobody)))
    assert same == list(access.rounds(setting))
    assert log_of_nobody.rows == log.rows
    assert log_of_nobody.told == log.told


def test_alone_on_its_medium_a_user_meets_nobody():
    """Everybody sends in every slot: all collide for ever but one who is alone, and the others never know."""
    crowd = {"mac": {"kind": "slotted_aloha", "probability": 1.0}} | DEADLINE
    plain, was = play(5, 4, **crowd)
    spared, now = play(5, 4, **crowd, exempt={"contention": 3})
    assert not heard(plain)
    assert heard(spared) == {3: 4}
    assert of(was, {0, 1, 2, 4}) == of(now, {0, 1, 2, 4})


@pytest.mark.parametrize("mac", ["tdma", "round_robin", "max_snr", "pure_aloha", "slotted_aloha"])
def test_who_are_alone_never_wait_for_each_other(mac):
    """All MACs: of five users with a medium of their own everybody is heard in every round."""
    how = {"pure_aloha": {"backoff": 3.0}, "slotted_aloha": {"adaptive": "known"}}
    said = {"mac": {"kind": mac} | how.get(mac, {}), "round": {"kind": "first", "deadline": 3.5}}
    rounds, rows = play(5, 6, **said, exempt={"contention": [*range(5)]})
    assert heard(rounds) == dict.fromkeys(range(5), 6)
    assert not of(rows, range(5), "failed", "collided")


def test_what_a_mac_draws_for_a_user_stays_and_what_it_draws_for_the_next_is_its_own():
    streams = Streams(3).at("mac", 0)
    one, other = (IsolatedStreams(streams.seed, streams.path, user) for user in (4, 5))
    assert one.field("gap") == other.field("gap") == streams.field("gap")
    assert len({each.rng("backoff").random() for each in (one, other, streams)}) == 3


@pytest.mark.parametrize("name", ["contention", "queue"])
def test_csma_with_users_on_a_medium_of_their_own(name):
    how = {"mac": {"kind": "csma_ca"}, "radio": None, "reception": None, "channel": []}
    access, setting, log = make(6, 5, **how, **DEADLINE, exempt={name: [0, 1]})
    assert heard(list(access.rounds(setting))) == dict.fromkeys(range(6), 5)
    assert (log.told["attempts"] == 30) == (not of(log.rows, range(6), "failed"))


def test_a_signal_that_is_always_enough():
    """At 0 dB below what is needed nobody is heard; one is, and in the fastest mode."""
    noise_dbm = -174 + 10 * np.log10(125e3)
    weak = {"channel": [{"kind": "constant", "gain": -(20 - noise_dbm) + 1.0}], "unreachable": "keep"} | DEADLINE
    mcs = {"reception": {"kind": "mcs", "standard": "lte"}}
    plain, _ = play(4, 5, **weak)
    assert set(heard(plain)) == {0, 1, 2, 3}
    low = weak | {"channel": [{"kind": "constant", "gain": -(20 - noise_dbm) - 1.0}]}
    assert not heard(play(4, 5, **low)[0])
    assert heard(play(4, 5, **low, exempt={"fading": [2]})[0]) == {2: 5}
    rows = play(4, 5, **weak, **mcs, exempt={"fading": [2]})[1]
    took = {row[3]: row[1] for row in rows if row[0] == "delivered" and row[2] == 1}
    sent = {row[3]: row[1] for row in reversed(rows) if row[0] == "sent" and row[2] == 1}
    assert took[2] - sent[2] < 0.2 * (took[1] - sent[1])


def test_a_strong_signal_still_collides():
    """Without noise it is held against what it meets: as strong as that, and so not received."""
    crowd = {"mac": {"kind": "slotted_aloha", "probability": 1.0}} | DEADLINE
    for how in ({"interference": "sinr"}, {"capture": "3 dB"}, {}):
        rounds, rows = play(3, 3, **crowd, **how, exempt={"fading": [1]})
        assert not heard(rounds)
        assert {row[6] for row in of(rows, {1}, "failed")} == {"collided"}


def test_without_noise_the_stronger_is_heard():
    """Both are 10 dB below what noise lets through; 3 dB apart, one of them is heard over the other at -6 dB."""
    noise_dbm = -174 + 10 * np.log10(125e3)
    said = {
        "mac": {"kind": "slotted_aloha", "probability": 1.0},
        "channel": [{"kind": "constant", "gain": -(20 - noise_dbm) - 16.0}],
        "reception": {"kind": "snr_threshold", "threshold": "-6 dB", "rate": "1 kbps"},
        "interference": "sinr",
        "unreachable": "keep",
    } | DEADLINE
    assert not heard(play(2, 3, **said)[0])
    assert heard(play(2, 3, **said, exempt={"fading": [1]})[0]) == {1: 3}


def away(tmp_path, *rows):
    file = tmp_path / "away.csv"
    file.write_text("node,start_s,end_s\n" + "\n".join(",".join(map(str, row)) for row in rows) + "\n")
    return {"outages": [{"kind": "calendar", "file": str(file)}]}


@pytest.mark.parametrize("routing", [{}, {"routing": {"kind": "shortest_path", "convergence": 0.1}}])
@pytest.mark.parametrize("node", ["1", "tower:0", "tower:0-server"])
def test_nothing_is_down_for_who_is_spared_that(tmp_path, node, routing):
    """Whatever is down from 20 s on: user 1 goes on as before, the others as with the outage."""
    said = away(tmp_path, (node, 20.0, 1e6)) | {"round": {"kind": "first", "deadline": 10.0}} | routing
    plain, was = play(3, 8, **said)
    spared, now = play(3, 8, **said, exempt={"outage": [1]})
    assert heard(plain)[1] == 2
    assert heard(spared)[1] == 8
    assert of(was, {0, 2}) == of(now, {0, 2})


def test_what_an_outage_cuts_on_a_link_arrives_all_the_same_as_if_nothing_had_been(tmp_path):
    """1 s on the link, which goes down in the middle of that and of the 2 s of its delay."""
    slow = {"topology": {"kind": "star", "radius": "100 m", "rate": "1 kbps", "delay": 2.0}, **DEADLINE}
    free, _ = play(1, 1, **slow, mac={"kind": "round_robin"})
    at_s = free[0].deliveries[0].arrived_s
    for start_s in (at_s - 2.5, at_s - 1.0):
        said = away(tmp_path, ("tower:0-server", start_s, 1e6)) | slow
        assert not heard(play(1, 1, **said, mac={"kind": "round_robin"})[0])
        spared, _ = play(1, 1, **said, mac={"kind": "round_robin"}, exempt={"outage": [0]})
        assert spared[0].deliveries[0].arrived_s == pytest.approx(at_s)


def test_who_does_not_queue_is_neither_kept_waiting_nor_dropped():
    """Ten updates at once from a cell with as many channels onto a link that takes 1 s for each and keeps two."""
    said = {
        "topology": {"kind": "star", "radius": "100 m", "rate": "1 kbps", "delay": 0.5},
        "queue": {"kind": "drop_tail", "capacity": 2},
        "exempt": None,
    } | DEADLINE
    apart = {"contention": [*range(10)]}
    plain, was = play(10, 1, **said | {"exempt": apart})
    assert len(heard(plain)) == 3
    spared, now = play(10, 1, **said | {"exempt": apart | {"queue": [8, 9]}})
    assert {one.user: one.arrived_s for one in spared[0].deliveries if one.user > 7} == pytest.approx(
        dict.fromkeys((8, 9), min(one.arrived_s for one in plain[0].deliveries))
    )
    assert of(was, range(8)) == of(now, range(8))


def test_copies_of_a_version_for_one_user_do_not_queue_either():
    """Ten unicast copies over a link that takes 1 s for each and keeps two: 0 to 2 have one, and 9, who is spared."""
    said = {
        "topology": {"kind": "star", "radius": "100 m", "rate": "1 kbps", "delay": 0},
        "queue": {"kind": "drop_tail", "capacity": 2},
        "broadcast_rate": None,
        "reception": PLAIN["reception"] | {"rate": "1 Mbps"},
        "downlink": {"mode": "unicast"},
        "round": {"kind": "first", "m": 1},
    }
    received = of(play(10, 1, **said, exempt={"queue": [9]})[1], range(10), "received")
    assert {row[3]: round(row[1], 1) for row in received} == {0: 1.0, 1: 2.0, 2: 3.0, 9: 1.0}


def test_an_outage_still_ends_what_does_not_queue(tmp_path):
    said = away(tmp_path, ("tower:0-server", 2.5, 1e6)) | DEADLINE
    said |= {
        "topology": {"kind": "star", "radius": "100 m", "rate": "1 kbps", "delay": 0},
        "mac": {"kind": "round_robin"},
    }
    rounds, rows = play(1, 1, **said, exempt={"queue": [0]})
    assert not heard(rounds)
    assert of(rows, {0}, *OUTCOMES)[0][0] == "lost"


def test_who_is_spared_computing_is_as_fast_as_the_fastest():
    access, setting, _ = make(4, 1, compute={"speed": [1, 2, 4, 0.5], "samples": 4}, exempt={"compute": [0, 3]})
    assert build_network(access, setting).service.compute_s.tolist() == [1.0, 2.0, 1.0, 1.0]


def faults(facts=None, **said):
    access = NetworkAccess.model_validate(copy.deepcopy(PLAIN) | said)
    return {one.key: one.problem for one in nested_faults(access, "", facts or ScenarioFacts(4, 3))}


def test_what_has_no_effect_is_a_fault():
    found = faults(exempt={"outage": [1], "compute": [1]})
    assert found == {
        "exempt.outage": "has no effect because there are no outages",
        "exempt.compute": "has no effect because all users train for the same time",
    }
    assert [*faults(exempt={})] == ["exempt"]
    assert [*faults(exempt={"queue": [1, 7]})] == ["exempt.queue"]
    assert "exempt.contention" in faults(ScenarioFacts(1, 3), exempt={"contention": 0})
    bare = {"radio": None, "reception": None, "channel": [], "mac": {"kind": "csma_ca"}}
    assert [*faults(**bare, exempt={"fading": 0})] == ["exempt.fading"]
    assert not faults(exempt={"contention": [0], "fading": 2, "queue": [3]})
    assert faults(ScenarioFacts(4, 3, duration_s=9.0), exempt={"queue": [1]})["exempt"].startswith(
        "has no effect with a duration"
    )


def test_one_user_is_a_list_of_one():
    spare = NetworkAccess.model_validate(copy.deepcopy(PLAIN) | {"exempt": {"contention": [3, 5], "fading": 3}}).exempt
    assert (spare.contention, spare.fading, spare.queue) == ((3, 5), (3,), ())
    assert spare.among("contention", np.array([5, 0, 3])).tolist() == [True, False, True]


MACS = [{"kind": "slotted_aloha", "probability": 0.3}, {"kind": "tdma"}, {"kind": "round_robin"}]
GRAINS = [
    None,
    {"grain": "packet", "mtu": "40 B"},
    {"grain": "packet", "mtu": "40 B", "arq": {"timeout": 2.0, "retries": 2}},
]


@st.composite
def what_ifs(draw):
    """Networks in which all goes wrong that can, and users who are spared some of it."""
    rule = draw(st.sampled_from(RULES))
    continuous = rule == "asynchronous" or rule["kind"] == "buffered"
    said = {
        "round": rule,
        "on_new_version": "restart" if continuous else draw(st.sampled_from(["restart", "finish", "ignore"])),
    }
    if draw(st.booleans()):
        down = {"mode": draw(st.sampled_from(["unicast", "multicast"])), "max_attempts": draw(st.integers(1, 2))}
        said |= {"broadcast_rate": None, "downlink": down}
    said["selection"] = draw(st.sampled_from(["all", {"kind": "uniform", "m": 3}]))
    said["mac"] = draw(st.sampled_from(MACS)) | {"max_attempts": draw(st.sampled_from([None, 2]))}
    said["outages"] = [RENEWAL | {"nodes": nodes} for nodes in ("users", "towers", "links")[: draw(st.integers(1, 3))]]
    said["queue"] = {"kind": "drop_tail", "capacity": draw(st.integers(0, 3))}
    said["compute"] = {"speed": 1.0, "spread": 1.0, "samples": 4.0}
    said["topology"] = WORLD["topology"] | {"rate": draw(st.sampled_from(["500 bps", "20 kbps"]))}
    said["channel"], said["transport"] = FADES, draw(st.sampled_from(GRAINS))
    said["interference"] = draw(st.sampled_from(["collide", "sinr"]))
    said["shared_air"] = said["interference"] == "sinr" and draw(st.booleans())
    some = st.lists(st.integers(0, 6), unique=True, max_size=7)
    said["exempt"] = {cause: draw(some) for cause in CAUSES} | {
        draw(st.sampled_from(CAUSES)): [draw(st.integers(0, 6))]
    }
    return said


@settings(max_examples=50, deadline=None, derandomize=True, database=None)
@given(what_ifs(), st.integers(0, 5))
@pytest.mark.slow
def test_whoever_is_spared_whatever_every_update_has_one_fate(said, seed):
    access, setting, log = make(7, 6, seed, **said)
    assert not [*nested_faults(access, "", ScenarioFacts(7, 6))]
    try:
        rounds = list(access.rounds(setting))
    except ModelError:
        reject()
    ended = Counter((row[3], row[5]) for row in log.rows if row[0] in OUTCOMES)
    told = [(row[3], row[5], row[1]) for row in log.rows if row[0] == "delivered"]
    assert sorted(told) == sorted((one.user, one.base, one.arrived_s) for each in rounds for one in each.deliveries)
    if said["on_new_version"] == "restart" and "downlink" not in said and isinstance(said["round"], dict):
        begun = Counter((row[3], row[5]) for row in log.rows if row[0] == "received")
        assert said["round"]["kind"] == "buffered" or begun == ended
    spared = said["exempt"]
    for cause, kinds in (
        ("contention", {"collided"}),
        ("fading", {"faded"}),
        ("outage", {"lost"}),
        ("queue", {"dropped"}),
    ):
        assert not [row for row in log.rows if row[3] in spared[cause] and kinds & {row[0], row[6]}]
    again, setting, other = make(7, 6, seed, **said)
    assert list(again.rounds(setting)) == rounds
    assert other.rows == log.rows
