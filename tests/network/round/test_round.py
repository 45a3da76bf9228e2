"""When rounds close, what users do meanwhile, and how versions get down to them."""

import copy
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from support.small_network import FADES, PLAIN, RULES, make, play

from netfl.access._builder import build_network
from netfl.access.network import NetworkAccess
from netfl.errors import ModelError
from netfl.network.round.quorum import Quorum
from netfl.network.simulator import NetworkSimulator
from netfl.scenario.validation import nested_faults
from netfl.types import OUTCOMES, ScenarioFacts


def heard(rounds):
    """Who was heard in each round, and from which version."""
    return [[(one.user, one.base) for one in each.deliveries] for each in rounds]


def alone(**said):
    """A MAC on which nobody meets anybody: as many channels as there are users."""
    return {"mac": {"kind": "slotted_aloha", "probability": 1.0, "slot": 1.0}} | said


SPEEDS = {"speed": [1.0, 0.5, 0.2], "samples": 1.0}
"""Training takes 1, 2 and 5 s; the slots of the three users, 1 s each, come in turn."""
TURNS = {"mac": {"kind": "round_robin", "poll": 0}}


def test_who_is_busy_restarts():
    """User 0 wins all rounds: at 2 s, 4 s, … the others begin again; user 1, trained at 2 s, is never first."""
    rounds, _log = play(3, 4, compute=SPEEDS, **TURNS)
    assert heard(rounds) == [[(0, 0)], [(0, 1)], [(0, 2)], [(0, 3)]]
    assert all(one.oldest == one.index and one.needed is None for one in rounds)


def test_who_is_busy_finishes_and_sends_what_it_has():
    """1, trained at 2 s, is heard at 3 s from version 0, and goes on with version 1, which came at 2 s: until 5 s.

    0 is heard at 2 s, and from version 1 at 4 s, and goes on with version 2, which came at 3 s, until 5 s.  Then all
    have something to send, and are asked in turn after 0: 1 is heard at 6 s, 2 at 7 s, from version 0, and 0 at 8 s.
    """
    rounds, _ = play(3, 6, compute=SPEEDS, on_new_version="finish", **TURNS)
    assert heard(rounds) == [[(0, 0)], [(1, 0)], [(0, 1)], [(1, 1)], [(2, 0)], [(0, 2)]]
    assert [one.closed_s for one in rounds] == pytest.approx([2, 3, 4, 6, 7, 8], abs=1e-3)
    for one in rounds:
        assert one.oldest <= one.index
        for later in rounds[one.index :]:
            for delivery in later.deliveries:
                assert delivery.base >= one.index or delivery.base in one.needed


def test_who_is_busy_ignores_what_comes():
    """1 trains from version 0 until 2 s; it takes no version that comes before it is through at 3 s, then 2."""
    rounds, log = play(3, 5, compute=SPEEDS, on_new_version="ignore", **TURNS)
    received = [(row[3], row[5]) for row in log.rows if row[0] == "received"]
    assert (1, 1) not in received
    assert (1, 2) in received
    assert heard(rounds)[:2] == [[(0, 0)], [(1, 0)]]


def test_old_updates_count_as_far_as_staleness_says():
    """With 0 allowed, what 1 and 2 finish from older versions is late; with 1, an update one version behind counts."""
    none, log = play(3, 6, compute=SPEEDS, on_new_version="finish", staleness=0, **TURNS)
    assert all(base == one.index - 1 for one in none for _, base in heard([one])[0])
    assert any(row[0] == "late" and row[3] == 1 for row in log.rows)
    one, _ = play(3, 9, compute=SPEEDS, on_new_version="finish", staleness=1, **TURNS)
    ages = {each.index - 1 - delivery.base for each in one for delivery in each.deliveries}
    assert ages == {0, 1}


def test_a_buffer_is_filled_by_users_at_their_own_pace():
    """Training takes 1 and 10 s: 0 is heard at 2, 4, 6, … s and begins anew at once; two updates make a version."""
    rounds, _ = play(2, 6, compute={"speed": [1.0, 0.1], "samples": 1}, round={"kind": "buffered", "size": 2}, **TURNS)
    assert heard(rounds)[:3] == [[(0, 0), (0, 0)], [(0, 1), (0, 1)], [(0, 2), (1, 0)]]
    assert [one.closed_s for one in rounds][:3] == pytest.approx([4.0, 8.0, 11.0], abs=1e-3)
    assert rounds[0].needed == (0,), "user 1 is still at version 0"


def test_every_update_makes_a_version():
    rounds, _ = play(2, 7, compute={"speed": [1.0, 0.1], "samples": 1}, round="asynchronous", **TURNS)
    assert [each[0] for each in heard(rounds)][:5] == [(0, 0), (0, 1), (0, 2), (0, 3), (0, 4)]
    assert (1, 0) in [each[0] for each in heard(rounds)]


def test_a_version_is_sent_to_who_was_heard_alone():
    """All get version 0; after that one copy of the newest goes to each who was heard."""
    rounds, log = play(2, 4, round="asynchronous", **TURNS)
    assert [one.downlink_bits for one in rounds] == [1000.0] * 4
    assert Counter(row[3] for row in log.rows if row[0] == "received")[0] >= 2


def test_a_quorum_closes_a_round_and_too_few_void_it():
    rounds, log = play(
        4,
        3,
        compute={"speed": [1, 1, 1, 0.01], "samples": 1},
        round={"kind": "quorum", "quorum": 0.75, "deadline": 50},
        **TURNS,
    )
    assert [len(one.deliveries) for one in rounds] == [3, 3, 3]
    few = {"kind": "quorum", "quorum": 1.0, "deadline": 6, "min_share": 1.0}
    rounds, log = play(4, 3, compute={"speed": [1, 1, 1, 0.01], "samples": 1}, round=few, **TURNS)
    assert [one.deliveries for one in rounds] == [()] * 3
    assert [one.closed_s for one in rounds] == [6.0, 12.0, 18.0]
    assert sum(row[0] == "discarded" for row in log.rows) == 9
    assert not any(row[0] == "delivered" for row in log.rows)
    assert log.told["rounds_abandoned"] == 3


def test_a_quorum_is_a_share_rounded_up():
    rule = Quorum(quorum=0.7, deadline=1, min_share=0.31)
    assert [rule.is_complete(n, 10) for n in (6, 7, 8)] == [False, True, True]
    assert [rule.is_valid(n, 10) for n in (3, 4)] == [False, True]
    assert (rule.max_updates(10), rule.max_updates(1)) == (7, 1)
    assert [one.key for one in Quorum(quorum=0.2, deadline=1, min_share=0.3).faults(ScenarioFacts(5, 1))] == [
        "min_share"
    ]


def away(tmp_path, *rows):
    """Outages of users, ``user, from, to``."""
    file = tmp_path / "away.csv"
    file.write_text("node,start_s,end_s\n" + "\n".join(",".join(map(str, row)) for row in rows) + "\n")
    return [{"kind": "calendar", "file": str(file)}]


def test_all_who_are_there_are_waited_for(tmp_path):
    """User 2 is away until 50 s: round 1 closes with the others at 3 s; a round in which nobody is there is empty."""
    rounds, _ = play(3, 3, outages=away(tmp_path, (2, 0, 50)), round="available", **TURNS)
    assert heard(rounds)[0] == [(0, 0), (1, 0)]
    assert rounds[0].closed_s == pytest.approx(3.0, abs=1e-3)
    assert play(3, 2, outages=away(tmp_path, (0, 0, 9), (1, 0, 9), (2, 0, 9)), round="available")[0][0].deliveries == ()
    waited, _ = play(3, 1, outages=away(tmp_path, (2, 0, 50)), round={"kind": "first", "m": 3}, **TURNS)
    assert waited[0].closed_s > 50


def test_only_the_chosen_try():
    """The server lets two of five try; those who are not chosen any more stop what they are at."""
    chosen = {"kind": "uniform", "m": 2}
    rounds, log = play(5, 30, selection=chosen, round={"kind": "first", "m": 2}, **TURNS)
    assert {len(one.deliveries) for one in rounds} == {2}
    for one in rounds:
        received = {row[3] for row in log.rows if row[0] == "received" and row[2] == one.index}
        assert received == {delivery.user for delivery in one.deliveries}
    assert len({delivery.user for one in rounds for delivery in one.deliveries}) == 5
    kept, _ = play(
        5,
        30,
        selection=chosen,
        round={"kind": "first", "m": 1},
        compute={"speed": [1] * 4 + [0.1], "samples": 1},
        **TURNS,
    )
    assert {len(one.deliveries) for one in kept} == {1}


LOSSY = {"broadcast_rate": None, "downlink": {"mode": "multicast"}}


def test_a_multicast_takes_its_airtime_and_reaches_all():
    """1 s on the air down, 1 s of training, 1 s each up."""
    rounds, log = play(2, 2, round={"kind": "first", "m": 2}, **TURNS, **LOSSY)
    received = [row[1] for row in log.rows if row[0] == "received" and row[2] == 1]
    assert received == pytest.approx([1.0, 1.0], abs=1e-3)
    assert [one.closed_s for one in rounds] == pytest.approx([4.0, 8.0], abs=1e-3)
    assert [one.downlink_bits for one in rounds] == [1000.0, 1000.0]


def test_a_unicast_takes_an_airtime_for_each():
    rounds, log = play(
        3, 1, round={"kind": "first", "m": 3}, **TURNS, broadcast_rate=None, downlink={"mode": "unicast"}
    )
    received = [row[1] for row in log.rows if row[0] == "received"]
    assert received == pytest.approx([1.0, 2.0, 3.0], abs=1e-3)
    assert rounds[0].downlink_bits == 3000.0


def test_who_misses_a_version_works_from_the_one_that_it_has(tmp_path):
    """User 1 is away while version 1 is sent, from 3.5 to 4.5 s; it has version 0 and sends an update from that."""
    kept = {"round": {"kind": "first", "m": 2}, **TURNS, **LOSSY}
    rounds, log = play(2, 3, outages=away(tmp_path, (1, 4.0000015, 4.9)), **kept)
    assert heard(rounds) == [[(0, 0), (1, 0)], [(0, 1), (1, 0)], [(0, 2), (1, 2)]]
    assert rounds[0].needed == (0,)
    assert not any(row[0] == "received" and row[3] == 1 and row[5] == 1 for row in log.rows)


def test_a_second_try_reaches_who_missed_the_first(tmp_path):
    kept = {"round": {"kind": "first", "m": 2}, **TURNS}
    down = {"broadcast_rate": None, "downlink": {"mode": "multicast", "max_attempts": 2}}
    rounds, _ = play(2, 2, outages=away(tmp_path, (1, 4.0000015, 4.9)), **kept, **down)
    assert set(heard(rounds)[1]) == {(0, 1), (1, 1)}
    assert [one.downlink_bits for one in rounds] == [1000.0, 2000.0]


def test_who_never_had_a_version_cannot_work(tmp_path):
    rounds, _ = play(2, 2, outages=away(tmp_path, (1, 0, 0.5)), round={"kind": "first", "m": 2}, **TURNS, **LOSSY)
    assert heard(rounds)[0] == [(0, 0)], "and the round does not wait for it"


def test_towers_may_send_stronger_than_users():
    """A loss that users are just heard over: a tower with 3 dB less is not."""
    noise_dbm = -174 + 10 * np.log10(125e3)
    loss = {"channel": [{"kind": "constant", "gain": -(20 - noise_dbm - 1)}]}
    near, _ = play(2, 2, **loss, **TURNS, **LOSSY)
    assert [len(one.deliveries) for one in near] == [1, 1]
    weak = {"broadcast_rate": None, "downlink": {"mode": "multicast", "power": "17 dBm"}}
    deadline = {"round": {"kind": "first", "m": 1, "deadline": 20}}
    assert [one.deliveries for one in play(2, 2, **loss, **TURNS, **weak, **deadline)[0]] == [(), ()]


def test_a_congested_link_delays_and_drops_versions():
    """Ten unicast copies of 1 kbit over 1 kbps, with room for two: seven users never have a version."""
    slow = {"topology": {"kind": "star", "radius": "100 m", "rate": "1 kbps", "delay": 0}}
    down = {"broadcast_rate": None, "downlink": {"mode": "unicast"}, "queue": {"kind": "drop_tail", "capacity": 2}}
    _, log = play(10, 1, **slow, **down, round={"kind": "first", "m": 3})
    received = sorted((row[1], row[3]) for row in log.rows if row[0] == "received")
    assert [user for _, user in received] == [0, 1, 2]
    assert [at_s for at_s, _ in received] == pytest.approx([2.0, 3.0, 4.0])


OUTAGE = {
    "kind": "renewal",
    "up": {"distribution": "exponential", "mean": 25},
    "down": {"distribution": "fixed", "mean": 6},
}


@st.composite
def conducts(draw):
    """All ways of running rounds in networks in which all goes wrong that can."""
    rule = draw(st.sampled_from(RULES))
    continuous = rule == "asynchronous" or rule["kind"] == "buffered"
    said = {
        "round": rule,
        "on_new_version": "restart" if continuous else draw(st.sampled_from(["restart", "finish", "ignore"])),
    }
    said["staleness"] = draw(st.sampled_from([None, 0, 2]))
    said["selection"] = draw(st.sampled_from(["all", {"kind": "uniform", "m": 3}, "oldest3"]))
    if said["selection"] == "oldest3":
        said["selection"] = {"kind": "oldest", "m": 3}
    if draw(st.booleans()):
        mode, tries = draw(st.sampled_from(["unicast", "multicast"])), draw(st.integers(1, 2))
        said |= {"broadcast_rate": None, "downlink": {"mode": mode, "max_attempts": tries}}
    said["mac"] = draw(st.sampled_from([{"kind": "slotted_aloha", "probability": 0.3}, {"kind": "tdma"}, TURNS["mac"]]))
    said["mac"] = said["mac"] | {"max_attempts": draw(st.sampled_from([None, 2]))}
    said["outages"] = [
        OUTAGE | {"nodes": nodes} for nodes in draw(st.sampled_from([(), ("users",), ("users", "towers")]))
    ]
    said["queue"] = {"kind": "drop_tail", "capacity": draw(st.integers(0, 3))}
    said["compute"] = {"speed": 1.0, "spread": 1.0, "samples": draw(st.sampled_from([0.0, 4.0]))}
    said["topology"] = {"kind": "tree", "fanout": [2], "ring": "1 km", "radius": "600 m", "rate": "20 kbps"}
    said["channel"] = FADES
    said["transport"] = draw(
        st.sampled_from(
            [
                None,
                {"grain": "packet", "mtu": "40 B"},
                {"grain": "packet", "mtu": "40 B", "arq": {"timeout": 2.0, "retries": 2}},
            ]
        )
    )
    return said


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(conducts(), st.integers(0, 5))
@pytest.mark.slow
def test_whatever_the_conduct_rounds_and_fates_are_whole(said, seed):
    access, setting, log = make(7, 6, seed, **said)
    assert not [*nested_faults(access, "", ScenarioFacts(7, 6, classes=2))]
    try:
        rounds = list(access.rounds(setting))
    except ModelError:
        reject()
    ended = Counter((row[3], row[5]) for row in log.rows if row[0] in OUTCOMES)
    told = [(row[3], row[5], row[1]) for row in log.rows if row[0] == "delivered"]
    assert sorted(told) == sorted((one.user, one.base, one.arrived_s) for each in rounds for one in each.deliveries)
    limit = 0 if said["staleness"] is None and access.is_punctual else said["staleness"]
    for one in rounds:
        assert len(one.deliveries) <= access.max_deliveries(7, 6)
        for delivery in one.deliveries:
            age = one.index - 1 - delivery.base
            assert 0 <= age <= (np.inf if limit is None else limit)
            assert delivery.base >= 0
            for before in rounds[: one.index - 1]:
                assert delivery.base >= before.oldest
                assert before.needed is None or delivery.base >= before.index or delivery.base in before.needed
    begun = Counter((row[3], row[5]) for row in log.rows if row[0] == "trained")
    assert all(ended[key] >= 1 for key in begun), "what was trained has a outcome"
    if access.on_new_version == "restart" and access.downlink is None and not access.round.is_continuous:
        received = Counter((row[3], row[5]) for row in log.rows if row[0] == "received")
        assert received == ended


@settings(max_examples=40, deadline=None, derandomize=True, database=None)
@given(conducts(), st.integers(0, 2))
@pytest.mark.slow
def test_every_update_that_begins_ends_once(said, seed):
    access, setting, _ = make(7, 6, seed, **said)
    world = NetworkSimulator(build_network(access, setting), setting.streams, setting.recorder)
    try:
        list(world.rounds(6))
    except ModelError:
        reject()
    assert not +world._outstanding.open_updates
    assert not -world._outstanding.open_updates


@pytest.mark.parametrize(
    ("said", "keys"),
    [
        ({"round": None}, {"round"}),
        ({"round": "first"}, {"round"}),
        ({"round": {"kind": "first", "m": 9}}, {"round.m"}),
        ({"round": "asynchronous", "on_new_version": "finish"}, {"on_new_version"}),
        ({"broadcast_rate": None}, {"broadcast_rate"}),
        (
            {
                "broadcast_rate": None,
                "downlink": {"mode": "unicast", "power": 3},
                "radio": None,
                "channel": [],
                "reception": None,
                "mac": {"kind": "csma_ca"},
            },
            {"downlink.power"},
        ),
        ({"learner": "a"}, {"learner"}),
    ],
)
def test_what_does_not_fit(said, keys):
    access = NetworkAccess.model_validate(copy.deepcopy(PLAIN) | said)
    assert {
        fault.key for fault in nested_faults(access, "", ScenarioFacts(users=5, rounds=3, learners=("a", "b")))
    } == keys


def test_what_is_refused():
    with pytest.raises(ValidationError, match="no such network/round"):
        NetworkAccess.model_validate(PLAIN | {"round": "fist"})
    with pytest.raises(ValidationError, match="unknown key"):
        NetworkAccess.model_validate(PLAIN | {"first": 1})
    with pytest.raises(ValidationError, match="on_new_version"):
        NetworkAccess.model_validate(PLAIN | {"on_new_version": "sleep"})
    with pytest.raises(ValidationError, match=r"broadcast_rate\n.*no effect with downlink"):
        NetworkAccess.model_validate(PLAIN | {"downlink": {"mode": "unicast"}})


def test_the_same_seed_gives_the_same_rounds():
    said = {"round": {"kind": "buffered", "size": 2}, "channel": FADES, "topology": {"kind": "star", "radius": "300 m"}}
    said["compute"] = {"speed": 1.0, "spread": 1.0, "samples": 4}
    one, two = (play(6, 12, **said)[0] for _ in range(2))
    assert one == two
    assert play(6, 12, seed=2, **said)[0] != one


def test_a_way_down_that_may_fail_leaves_the_other_draws_as_they_were():
    """Common random numbers: training times and places are the same with and without."""
    access, setting, _ = make(6, 2, compute={"speed": 1.0, "spread": 1.0, "samples": 4})
    lossy = access.model_copy(update={"downlink": NetworkAccess.model_validate(PLAIN | LOSSY).downlink})
    one, two = (build_network(each, replace(setting)).service.compute_s for each in (access, lossy))
    assert (one == two).all()


@pytest.mark.parametrize("grain", [None, {"grain": "packet", "mtu": "40 B"}], ids=["whole", "packets"])
@pytest.mark.parametrize("mode", ["unicast", "multicast"])
@pytest.mark.parametrize("busy", ["restart", "finish", "ignore"])
@pytest.mark.parametrize("rule", [{"kind": "first", "m": 2}, "available"], ids=["first", "available"])
def test_nobody_waits_for_who_is_cut_off_for_good(tmp_path, grain, mode, busy, rule):
    """User 0 goes down at 3 s, trained or not, and never comes back: rounds go on with user 1."""
    gone = away(tmp_path, (0, 3, ""))
    said = {
        "broadcast_rate": None,
        "downlink": {"mode": mode},
        "on_new_version": busy,
        "round": rule,
        "transport": grain,
    }
    rounds, _ = play(2, 3, compute={"speed": [0.2, 1.0], "samples": 1}, outages=gone, **said, **TURNS)
    assert [user for each in heard(rounds) for user, _ in each] == [1, 1, 1]
