"""Closing of rounds, updates of busy users, and downlink of versions."""

import copy
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from support.small_network import FADES, PLAIN, RULES, make, play

from netfl.access.network import NetworkAccess
from netfl.errors import ModelError, ScenarioError
from netfl.network.build import build_network
from netfl.network.round.quorum import Quorum
from netfl.network.simulator import NetworkSimulator
from netfl.scenario.validation import nested_faults
from netfl.types import OUTCOMES, ScenarioFacts


def deliveries_of(rounds):
    """Return (user, base) of the deliveries of each round."""
    return [[(delivery.user, delivery.base) for delivery in result.deliveries] for result in rounds]


def separate_channels(**overrides):
    return {"mac": {"kind": "slotted_aloha", "probability": 1.0, "slot": 1.0}} | overrides


SPEEDS = {"speed": [1.0, 0.5, 0.2], "samples": 1.0}
"""Training takes 1, 2 and 5 s; the round robin gives users slots of 1 s in turn."""
ROUND_ROBIN = {"mac": {"kind": "round_robin", "poll": 0}}


def test_busy_users_restart():
    """User 0 delivers first in each round, at 2 s, 4 s, …; the others restart."""
    rounds, _log = play(3, 4, compute=SPEEDS, **ROUND_ROBIN)
    assert deliveries_of(rounds) == [[(0, 0)], [(0, 1)], [(0, 2)], [(0, 3)]]
    assert all(result.oldest == result.index and result.needed is None for result in rounds)


def test_busy_users_finish_and_send():
    """User 1 delivers its update of version 0 at 3 s and trains version 1 until 5 s.

    User 0 delivers at 2 s and 4 s and trains version 2 until 5 s. Then all users are polled after 0: user 1 delivers
    at 6 s, user 2 at 7 s from version 0, and user 0 at 8 s.
    """
    rounds, _ = play(3, 6, compute=SPEEDS, on_new_version="finish", **ROUND_ROBIN)
    assert deliveries_of(rounds) == [[(0, 0)], [(1, 0)], [(0, 1)], [(1, 1)], [(2, 0)], [(0, 2)]]
    assert [result.closed_s for result in rounds] == pytest.approx([2, 3, 4, 6, 7, 8], abs=1e-3)
    for result in rounds:
        assert result.oldest <= result.index
        for later in rounds[result.index :]:
            for delivery in later.deliveries:
                assert delivery.base >= result.index or delivery.base in result.needed


def test_busy_users_ignore_new_versions():
    """User 1 trains from version 0 until 2 s and delivers at 3 s; it ignores version 1 and receives version 2."""
    rounds, log = play(3, 5, compute=SPEEDS, on_new_version="ignore", **ROUND_ROBIN)
    received = [(row[3], row[5]) for row in log.rows if row[0] == "received"]
    assert (1, 1) not in received
    assert (1, 2) in received
    assert deliveries_of(rounds)[:2] == [[(0, 0)], [(1, 0)]]


def test_staleness_limits_age_of_updates():
    """With a limit of 0, updates of older versions are late; with 1, updates that are one version behind count."""
    strict, log = play(3, 6, compute=SPEEDS, on_new_version="finish", staleness=0, **ROUND_ROBIN)
    assert all(base == result.index - 1 for result in strict for _, base in deliveries_of([result])[0])
    assert any(row[0] == "late" and row[3] == 1 for row in log.rows)
    lenient, _ = play(3, 9, compute=SPEEDS, on_new_version="finish", staleness=1, **ROUND_ROBIN)
    ages = {result.index - 1 - delivery.base for result in lenient for delivery in result.deliveries}
    assert ages == {0, 1}


def test_buffer_collects_updates_of_fast_and_slow_users():
    """Training takes 1 and 10 s: user 0 delivers at 2, 4, 6, … s; two updates make a version."""
    rounds, _ = play(
        2, 6, compute={"speed": [1.0, 0.1], "samples": 1}, round={"kind": "buffered", "size": 2}, **ROUND_ROBIN
    )
    assert deliveries_of(rounds)[:3] == [[(0, 0), (0, 0)], [(0, 1), (0, 1)], [(0, 2), (1, 0)]]
    assert [result.closed_s for result in rounds][:3] == pytest.approx([4.0, 8.0, 11.0], abs=1e-3)
    assert rounds[0].needed == (0,), "user 1 still trains version 0"


def test_asynchronous_round_closes_with_each_update():
    rounds, _ = play(2, 7, compute={"speed": [1.0, 0.1], "samples": 1}, round="asynchronous", **ROUND_ROBIN)
    assert [deliveries[0] for deliveries in deliveries_of(rounds)][:5] == [(0, 0), (0, 1), (0, 2), (0, 3), (0, 4)]
    assert (1, 0) in [deliveries[0] for deliveries in deliveries_of(rounds)]


def test_asynchronous_version_is_sent_to_last_deliverer():
    """All users get version 0; later versions are sent to the users who delivered."""
    rounds, log = play(2, 4, round="asynchronous", **ROUND_ROBIN)
    assert [result.downlink_bits for result in rounds] == [1000.0] * 4
    assert Counter(row[3] for row in log.rows if row[0] == "received")[0] >= 2


def test_quorum_closes_round_and_min_share_discards_it():
    rounds, log = play(
        4,
        3,
        compute={"speed": [1, 1, 1, 0.01], "samples": 1},
        round={"kind": "quorum", "quorum": 0.75, "deadline": 50},
        **ROUND_ROBIN,
    )
    assert [len(result.deliveries) for result in rounds] == [3, 3, 3]
    strict_quorum = {"kind": "quorum", "quorum": 1.0, "deadline": 6, "min_share": 1.0}
    rounds, log = play(4, 3, compute={"speed": [1, 1, 1, 0.01], "samples": 1}, round=strict_quorum, **ROUND_ROBIN)
    assert [result.deliveries for result in rounds] == [()] * 3
    assert [result.closed_s for result in rounds] == [6.0, 12.0, 18.0]
    assert sum(row[0] == "discarded" for row in log.rows) == 9
    assert not any(row[0] == "delivered" for row in log.rows)
    assert log.final_values["rounds_abandoned"] == 3


def test_quorum_is_rounded_up():
    rule = Quorum(quorum=0.7, deadline=1, min_share=0.31)
    assert [rule.is_complete(updates, 10) for updates in (6, 7, 8)] == [False, True, True]
    assert [rule.is_valid(updates, 10) for updates in (3, 4)] == [False, True]
    assert (rule.max_updates(10), rule.max_updates(1)) == (7, 1)
    assert [fault.key for fault in Quorum(quorum=0.2, deadline=1, min_share=0.3).faults(ScenarioFacts(5, 1))] == [
        "min_share"
    ]


def write_outages(tmp_path, *rows):
    """Write outages of users as ``user, from, to`` to a calendar."""
    path = tmp_path / "away.csv"
    path.write_text("node,start_s,end_s\n" + "\n".join(",".join(map(str, row)) for row in rows) + "\n")
    return [{"kind": "calendar", "file": str(path)}]


def test_available_rule_waits_for_available_users(tmp_path):
    """User 2 is down until 50 s, so round 1 closes with the others at 3 s; a round without users is empty."""
    rounds, _ = play(3, 3, outages=write_outages(tmp_path, (2, 0, 50)), round="available", **ROUND_ROBIN)
    assert deliveries_of(rounds)[0] == [(0, 0), (1, 0)]
    assert rounds[0].closed_s == pytest.approx(3.0, abs=1e-3)
    assert (
        play(3, 2, outages=write_outages(tmp_path, (0, 0, 9), (1, 0, 9), (2, 0, 9)), round="available")[0][0].deliveries
        == ()
    )
    with_first, _ = play(
        3, 1, outages=write_outages(tmp_path, (2, 0, 50)), round={"kind": "first", "m": 3}, **ROUND_ROBIN
    )
    assert with_first[0].closed_s > 50


def test_only_selected_users_deliver():
    """The server selects two of five users; users that are no longer selected stop."""
    selection = {"kind": "uniform", "m": 2}
    rounds, log = play(5, 30, selection=selection, round={"kind": "first", "m": 2}, **ROUND_ROBIN)
    assert {len(result.deliveries) for result in rounds} == {2}
    for result in rounds:
        received = {row[3] for row in log.rows if row[0] == "received" and row[2] == result.index}
        assert received == {delivery.user for delivery in result.deliveries}
    assert len({delivery.user for result in rounds for delivery in result.deliveries}) == 5
    slow_user_rounds, _ = play(
        5,
        30,
        selection=selection,
        round={"kind": "first", "m": 1},
        compute={"speed": [1] * 4 + [0.1], "samples": 1},
        **ROUND_ROBIN,
    )
    assert {len(result.deliveries) for result in slow_user_rounds} == {1}


MULTICAST = {"broadcast_rate": None, "downlink": {"mode": "multicast"}}


def test_multicast_takes_one_airtime():
    """The downlink takes 1 s, training 1 s, and each update 1 s."""
    rounds, log = play(2, 2, round={"kind": "first", "m": 2}, **ROUND_ROBIN, **MULTICAST)
    received = [row[1] for row in log.rows if row[0] == "received" and row[2] == 1]
    assert received == pytest.approx([1.0, 1.0], abs=1e-3)
    assert [result.closed_s for result in rounds] == pytest.approx([4.0, 8.0], abs=1e-3)
    assert [result.downlink_bits for result in rounds] == [1000.0, 1000.0]


def test_unicast_takes_one_airtime_per_user():
    rounds, log = play(
        3, 1, round={"kind": "first", "m": 3}, **ROUND_ROBIN, broadcast_rate=None, downlink={"mode": "unicast"}
    )
    received = [row[1] for row in log.rows if row[0] == "received"]
    assert received == pytest.approx([1.0, 2.0, 3.0], abs=1e-3)
    assert rounds[0].downlink_bits == 3000.0


def test_user_that_misses_version_trains_older_one_on_request(tmp_path):
    """User 1 is down while version 1 is sent, from 3.5 to 4.5 s; it sends an update of version 0."""
    downlink = {"mode": "multicast", "on_missed_version": "train_again"}
    overrides = {"round": {"kind": "first", "m": 2}, **ROUND_ROBIN, **MULTICAST, "downlink": downlink}
    rounds, log = play(2, 3, outages=write_outages(tmp_path, (1, 4.0000015, 4.9)), **overrides)
    assert deliveries_of(rounds) == [[(0, 0), (1, 0)], [(0, 1), (1, 0)], [(0, 2), (1, 2)]]
    assert rounds[0].needed == (0,)
    assert not any(row[0] == "received" and row[3] == 1 and row[5] == 1 for row in log.rows)


def test_second_multicast_reaches_user_that_missed_first(tmp_path):
    overrides = {"round": {"kind": "first", "m": 2}, **ROUND_ROBIN}
    downlink = {"broadcast_rate": None, "downlink": {"mode": "multicast", "max_attempts": 2}}
    rounds, _ = play(2, 2, outages=write_outages(tmp_path, (1, 4.0000015, 4.9)), **overrides, **downlink)
    assert set(deliveries_of(rounds)[1]) == {(0, 1), (1, 1)}
    assert [result.downlink_bits for result in rounds] == [1000.0, 2000.0]


def test_user_without_version_does_not_train(tmp_path):
    rounds, _ = play(
        2, 2, outages=write_outages(tmp_path, (1, 0, 0.5)), round={"kind": "first", "m": 2}, **ROUND_ROBIN, **MULTICAST
    )
    assert deliveries_of(rounds)[0] == [(0, 0)], "the round does not wait for user 1"


def test_downlink_power_can_differ_from_uplink():
    """Users are 1 dB above the threshold; a tower with 3 dB less is below it."""
    noise_dbm = -174 + 10 * np.log10(125e3)
    loss = {"channel": [{"kind": "constant", "gain": -(20 - noise_dbm - 1)}]}
    strong, _ = play(2, 2, **loss, **ROUND_ROBIN, **MULTICAST)
    assert [len(result.deliveries) for result in strong] == [1, 1]
    weak = {"broadcast_rate": None, "downlink": {"mode": "multicast", "power": "17 dBm"}}
    deadline = {"round": {"kind": "first", "m": 1, "deadline": 20}}
    with pytest.raises(ScenarioError, match=r"users that can never receive a version: .* 2\.0 dB below"):
        play(2, 2, **loss, **ROUND_ROBIN, **weak, **deadline)
    weak["unreachable"] = "keep"
    assert [result.deliveries for result in play(2, 2, **loss, **ROUND_ROBIN, **weak, **deadline)[0]] == [(), ()]


def test_congested_link_delays_and_drops_versions():
    """Ten unicast copies of 1 kbit cross a link of 1 kbps with room for two: seven users receive no version.

    The server sends them in a drawn order.
    """
    slow = {"topology": {"kind": "star", "radius": "100 m", "rate": "1 kbps", "delay": 0}}
    downlink = {"broadcast_rate": None, "downlink": {"mode": "unicast"}, "queue": {"kind": "drop_tail", "capacity": 2}}
    _, log = play(10, 1, **slow, **downlink, round={"kind": "first", "m": 3})
    received = sorted((row[1], row[3]) for row in log.rows if row[0] == "received")
    assert len({user for _, user in received}) == 3
    assert [at_s for at_s, _ in received] == pytest.approx([2.0, 3.0, 4.0])
    missed = [(row[3], row[6]) for row in log.rows if row[0] == "missed"]
    assert len(missed) == 7
    assert {cause for _, cause in missed} == {"dropped"}
    assert {user for user, _ in missed}.isdisjoint({user for _, user in received})


OUTAGE = {
    "kind": "renewal",
    "up": {"distribution": "exponential", "mean": 25},
    "down": {"distribution": "fixed", "mean": 6},
}


@st.composite
def round_overrides(draw):
    """Draw settings of rounds in networks with many causes of loss."""
    rule = draw(st.sampled_from(RULES))
    continuous = rule == "asynchronous" or rule["kind"] == "buffered"
    overrides = {
        "round": rule,
        "on_new_version": "restart" if continuous else draw(st.sampled_from(["restart", "finish", "ignore"])),
    }
    overrides["staleness"] = draw(st.sampled_from([None, 0, 2]))
    overrides["selection"] = draw(st.sampled_from(["all", {"kind": "uniform", "m": 3}, "oldest3"]))
    if overrides["selection"] == "oldest3":
        overrides["selection"] = {"kind": "oldest", "m": 3}
    if draw(st.booleans()):
        mode, max_attempts = draw(st.sampled_from(["unicast", "multicast"])), draw(st.integers(1, 2))
        overrides |= {"broadcast_rate": None, "downlink": {"mode": mode, "max_attempts": max_attempts}}
    overrides["mac"] = draw(
        st.sampled_from([{"kind": "slotted_aloha", "probability": 0.3}, {"kind": "tdma"}, ROUND_ROBIN["mac"]])
    )
    overrides["mac"] = overrides["mac"] | {"max_attempts": draw(st.sampled_from([None, 2]))}
    overrides["outages"] = [
        OUTAGE | {"nodes": nodes} for nodes in draw(st.sampled_from([(), ("users",), ("users", "towers")]))
    ]
    overrides["queue"] = {"kind": "drop_tail", "capacity": draw(st.integers(0, 3))}
    overrides["compute"] = {"speed": 1.0, "spread": 1.0, "samples": draw(st.sampled_from([0.0, 4.0]))}
    overrides["topology"] = {"kind": "tree", "fanout": [2], "ring": "1 km", "radius": "600 m", "rate": "20 kbps"}
    overrides["channel"] = FADES
    overrides["transport"] = draw(
        st.sampled_from(
            [
                None,
                {"grain": "packet", "mtu": "40 B"},
                {"grain": "packet", "mtu": "40 B", "arq": {"timeout": 2.0, "retries": 2}},
            ]
        )
    )
    return overrides


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(round_overrides(), st.integers(0, 5))
@pytest.mark.slow
def test_rounds_and_outcomes_are_consistent(overrides, seed):
    access, setting, log = make(7, 6, seed, **overrides)
    assert not [*nested_faults(access, "", ScenarioFacts(7, 6, classes=2))]
    try:
        rounds = list(access.rounds(setting))
    except ModelError:
        reject()
    ended = Counter((row[3], row[5]) for row in log.rows if row[0] in OUTCOMES)
    delivered = [(row[3], row[5], row[1]) for row in log.rows if row[0] == "delivered"]
    assert sorted(delivered) == sorted(
        (result.user, result.base, result.arrived_s) for result_ in rounds for result in result_.deliveries
    )
    limit = 0 if overrides["staleness"] is None and access.is_punctual else overrides["staleness"]
    for result in rounds:
        assert len(result.deliveries) <= access.max_deliveries(7, 6)
        for delivery in result.deliveries:
            age = result.index - 1 - delivery.base
            assert 0 <= age <= (np.inf if limit is None else limit)
            assert delivery.base >= 0
            for earlier in rounds[: result.index - 1]:
                assert delivery.base >= earlier.oldest
                assert earlier.needed is None or delivery.base >= earlier.index or delivery.base in earlier.needed
    trained = Counter((row[3], row[5]) for row in log.rows if row[0] == "trained")
    assert all(ended[key] >= 1 for key in trained), "every trained update has an outcome"
    if access.on_new_version == "restart" and access.downlink is None and not access.round.is_continuous:
        received = Counter((row[3], row[5]) for row in log.rows if row[0] == "received")
        assert received == ended


@settings(max_examples=40, deadline=None, derandomize=True, database=None)
@given(round_overrides(), st.integers(0, 2))
@pytest.mark.slow
def test_every_started_update_ends_once(overrides, seed):
    access, setting, _ = make(7, 6, seed, **overrides)
    simulation = NetworkSimulator(build_network(access, setting), setting.streams, setting.recorder)
    try:
        list(simulation.rounds(6))
    except ModelError:
        reject()
    assert not +simulation._outstanding.open_updates
    assert not -simulation._outstanding.open_updates


@pytest.mark.parametrize(
    ("overrides", "keys"),
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
def test_inconsistent_settings_are_rejected(overrides, keys):
    access = NetworkAccess.model_validate(copy.deepcopy(PLAIN) | overrides)
    assert {
        fault.key for fault in nested_faults(access, "", ScenarioFacts(users=5, rounds=3, learners=("a", "b")))
    } == keys


def test_invalid_settings_are_rejected():
    with pytest.raises(ValidationError, match="no such round"):
        NetworkAccess.model_validate(PLAIN | {"round": "fist"})
    with pytest.raises(ValidationError, match="unknown key"):
        NetworkAccess.model_validate(PLAIN | {"first": 1})
    with pytest.raises(ValidationError, match="on_new_version"):
        NetworkAccess.model_validate(PLAIN | {"on_new_version": "sleep"})
    with pytest.raises(ValidationError, match=r"broadcast_rate\n.*no effect with downlink"):
        NetworkAccess.model_validate(PLAIN | {"downlink": {"mode": "unicast"}})


def test_same_seed_gives_same_rounds():
    overrides = {
        "round": {"kind": "buffered", "size": 2},
        "channel": FADES,
        "topology": {"kind": "star", "radius": "300 m"},
    }
    overrides["compute"] = {"speed": 1.0, "spread": 1.0, "samples": 4}
    first, second = (play(6, 12, **overrides)[0] for _ in range(2))
    assert first == second
    assert play(6, 12, seed=2, **overrides)[0] != first


def test_lossy_downlink_keeps_other_draws():
    """Training times and positions are the same with and without losses (common random numbers)."""
    access, setting, _ = make(6, 2, compute={"speed": 1.0, "spread": 1.0, "samples": 4})
    lossy = access.model_copy(update={"downlink": NetworkAccess.model_validate(PLAIN | MULTICAST).downlink})
    first, second = (build_network(network, replace(setting)).service.compute_s for network in (access, lossy))
    assert (first == second).all()


@pytest.mark.parametrize("grain", [None, {"grain": "packet", "mtu": "40 B"}], ids=["whole", "packets"])
@pytest.mark.parametrize("mode", ["unicast", "multicast"])
@pytest.mark.parametrize("on_new_version", ["restart", "finish", "ignore"])
@pytest.mark.parametrize("rule", [{"kind": "first", "m": 2}, "available"], ids=["first", "available"])
def test_rounds_do_not_wait_for_user_that_is_down_for_ever(tmp_path, grain, mode, on_new_version, rule):
    """User 0 goes down at 3 s for ever; rounds continue with user 1."""
    outages = write_outages(tmp_path, (0, 3, ""))
    overrides = {
        "broadcast_rate": None,
        "downlink": {"mode": mode},
        "on_new_version": on_new_version,
        "round": rule,
        "transport": grain,
    }
    rounds, _ = play(2, 3, compute={"speed": [0.2, 1.0], "samples": 1}, outages=outages, **overrides, **ROUND_ROBIN)
    assert [user for deliveries in deliveries_of(rounds) for user, _ in deliveries] == [1, 1, 1]
