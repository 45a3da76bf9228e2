"""Users that decide when to train: by turns, by their batteries, and by rules of a caller."""

from collections import Counter

import numpy as np
import pytest
from support.small_network import make

from netfl.access.network import NetworkAccess
from netfl.errors import ScenarioError
from netfl.network.trains_when import TrainingOccasion, TrainingRule
from netfl.network.trains_when.every import Every
from netfl.streams import Streams
from netfl.types import OUTCOMES, Law, ScenarioFacts

ROUND_ROBIN = {"mac": {"kind": "round_robin"}}
BATTERY = {"kind": "battery", "capacity": 20.0, "initial": [0.2, 1.0], "charger": {"power": 0.3}, "restart": 0.3}
COSTS = {"per_training": 4.0, "transmit": 0.5}
EXPONENTIAL = {"distribution": "exponential"}
INACTIVE = {"kind": "renewal", "nodes": "users", "up": EXPONENTIAL | {"mean": 9.0}, "down": EXPONENTIAL | {"mean": 5.0}}
PACKETS = {"grain": "packet", "mtu": "40 B", "arq": {"timeout": 2.0}}
DEADLINE = {"kind": "first", "m": 3, "deadline": 20.0, "losses": "unknown"}


def play(users, rounds, **overrides):
    """Return the rounds and the recorder of a network."""
    access, context, log = make(users, rounds, **ROUND_ROBIN | overrides)
    return list(access.rounds(context)), log


def counts(log):
    return Counter(row[0] for row in log.rows)


def skipped(log):
    """Return the user, the version and the time of each update that was not trained."""
    return [(row[3], row[5], row[1]) for row in log.rows if row[0] == "not_trained"]


@pytest.mark.parametrize("rule", ["always", {"every": 1}, {"battery_above": 0}, [{"every": 1}, {"battery_above": 0}]])
@pytest.mark.parametrize(
    "overrides",
    [
        {"round": DEADLINE},
        {"round": DEADLINE, "on_new_version": "finish", "transport": PACKETS},
        {"round": {"kind": "quorum", "quorum": 0.5, "deadline": 20.0}, "on_new_version": "ignore"},
        {"round": {"kind": "available"}},
    ],
    ids=["restart", "finish", "ignore", "available"],
)
def test_rule_that_never_refuses_changes_nothing(rule, overrides):
    """In a network whose users are down at times, and have batteries that run empty."""
    common = {"outages": [BATTERY, INACTIVE], "energy": COSTS} | overrides
    rounds, log = play(5, 12, **common)
    others, other_log = play(5, 12, trains_when=rule, **common)
    assert rounds == others
    assert log.rows == other_log.rows


def test_users_train_in_turns():
    """Each of three groups of two users delivers in the rounds of its turn, in which a round of two closes."""
    rounds, log = play(6, 9, trains_when={"every": 3}, round={"kind": "first", "m": 2})
    delivered = [sorted(delivery.user for delivery in result.deliveries) for result in rounds]
    assert delivered == [[0, 3], [1, 4], [2, 5]] * 3
    assert {version % 3 == user % 3 for user, version, _ in skipped(log)} == {False}
    assert counts(log)["not_trained"] == 9 * 4
    assert counts(log)["trained"] == 9 * 2


@pytest.mark.parametrize("turns", [(2, 3), (3, 2)])
def test_all_rules_of_a_list_must_agree(turns):
    rounds, log = play(6, 12, trains_when=[{"every": k} for k in turns], round={"kind": "first", "m": 1})
    trained = [(delivery.user, delivery.base) for result in rounds for delivery in result.deliveries]
    assert trained == [(version % 6, version) for version in range(12)]
    assert counts(log)["not_trained"] == 5 * 12


@pytest.mark.parametrize("transport", [None, PACKETS], ids=["message", "packet"])
@pytest.mark.parametrize("on_new_version", ["restart", "finish", "ignore"])
@pytest.mark.parametrize(
    "rule",
    [
        {"kind": "first", "m": 4},
        DEADLINE,
        {"kind": "quorum", "quorum": 1.0, "deadline": 60.0, "min_share": 0.5},
        {"kind": "available"},
    ],
    ids=["first", "unknown", "quorum", "available"],
)
def test_each_update_has_one_outcome_and_no_round_hangs(rule, on_new_version, transport):
    """A user that does not train sends nothing, and what begins ends."""
    rounds, log = play(
        4,
        10,
        round=rule,
        on_new_version=on_new_version,
        transport=transport,
        outages=[BATTERY, INACTIVE],
        energy=COSTS,
        trains_when=[{"battery_above": 0.5}, {"every": 2}],
    )
    assert len(rounds) == 10
    count = counts(log)
    assert count["not_trained"] > 0
    assert count["received"] == sum(count[outcome] for outcome in OUTCOMES)
    refused = {(user, version) for user, version, _ in skipped(log)}
    delivered = {(delivery.user, delivery.base) for result in rounds for delivery in result.deliveries}
    assert delivered
    assert not refused & delivered
    if "deadline" in rule:
        lengths_s = [result.closed_s - result.opened_s for result in rounds]
        assert max(lengths_s) <= rule["deadline"] + 1e-6


def test_downlink_that_misses_users():
    """Users that miss a version train again from theirs only if their rule agrees."""
    rounds, log = play(
        4,
        15,
        downlink={"mode": "unicast", "max_attempts": 1, "on_missed_version": "train_again"},
        broadcast_rate=None,
        radio={"power": "20 dBm", "bandwidth": "125 kHz"},
        channel=[{"kind": "log_distance", "exponent": 3.2, "frequency": "868 MHz"},
                 {"kind": "rayleigh", "coherence": "100 ms"}],
        reception={"kind": "snr_threshold", "threshold": "38 dB", "rate": "1 kbps"},
        unreachable="keep",
        topology={"kind": "star", "radius": "200 m"},
        staleness=3,
        round={"kind": "first", "m": 2, "deadline": 30.0},
        trains_when={"every": 2},
    )  # fmt: skip
    assert len(rounds) == 15
    count = counts(log)
    assert count["missed"] > 0
    assert count["not_trained"] > 0
    assert count["received"] == sum(count[outcome] for outcome in OUTCOMES)


def test_user_trains_with_enough_charge():
    """10 J of 20 J, 4 J for a training, 0.25 W: below half of it until the charger has brought 4 J, after 16 s."""
    battery = {"kind": "battery", "capacity": 20.0, "initial": 0.5, "charger": {"power": 0.25}}
    rule = {"kind": "first", "m": 1, "deadline": 10.0, "losses": "unknown"}
    _, log = play(1, 5, outages=[battery], energy={"per_training": 4.0}, round=rule, trains_when={"battery_above": 0.5})
    starts = [(round(row[1]), row[5]) for row in log.rows if row[0] == "received"]
    refused = [version for _, version, _ in skipped(log)]
    first_ends = starts[1][0]  # the first round closes with its delivery, at about 2 s
    assert [at_s for at_s, _ in starts] == [0, first_ends, first_ends + 10, first_ends + 20, first_ends + 22]
    assert refused == [1, 2, 4]


def test_users_train_while_they_charge():
    """From 1 h to 2 h of the day; users without a battery train always."""
    battery = {
        "kind": "battery", "nodes": [0], "capacity": 1e6, "charger": {"power": 5, "opens": "1 h", "closes": "2 h"},
    }  # fmt: skip
    rule = {"kind": "first", "m": 2, "deadline": 600.0, "losses": "unknown"}
    rounds, log = play(2, 24, outages=[battery], energy=COSTS, round=rule, trains_when="charging")
    opened_s = np.array([result.opened_s for result in rounds])
    plugged_in = (opened_s >= 3600.0) & (opened_s < 7200.0)
    delivered = [{delivery.user for delivery in result.deliveries} for result in rounds]
    assert [0 in users for users in delivered] == plugged_in.tolist()
    assert all(1 in users for users in delivered)
    assert plugged_in.any()
    assert not plugged_in.all()
    assert {user for user, *_ in skipped(log)} == {0}


def test_sun_charges_by_day():
    battery = {"kind": "battery", "capacity": 1e6, "solar": {"peak": 1, "sunrise": "1 h", "sunset": "3 h"}}
    rule = {"kind": "first", "m": 1, "deadline": 1200.0, "losses": "unknown"}
    _, log = play(1, 12, outages=[battery], energy=COSTS, round=rule, trains_when="charging")
    trained_s = np.array([row[1] for row in log.rows if row[0] == "trained"])
    assert trained_s.size
    assert trained_s.min() >= 3600.0
    assert max(at_s for *_, at_s in skipped(log)) < 3600.0


def test_training_that_is_refused_costs_nothing():
    _, log = play(4, 8, energy=COSTS, trains_when={"every": 4}, round={"kind": "first", "m": 1})
    assert log.spendings["train_J"].sum() == pytest.approx(8 * COSTS["per_training"])


class Odd(TrainingRule):
    """A user trains if its number is odd.

    Example::

        kind: tests.network.test_trains_when:Odd
    """

    answer: str = "right"

    def trains(self, occasion):
        if self.answer == "fails":
            raise RuntimeError("no idea")
        if self.answer == "short":
            return occasion.users[:1] % 2 == 1
        if self.answer == "numbers":
            return occasion.users % 2
        return occasion.users % 2 == 1

    def laws(self):
        return (Law.none("nothing is drawn"),)


def test_rule_of_a_caller():
    rounds, _ = play(4, 3, trains_when=Odd(), round={"kind": "first", "m": 2})
    assert [{delivery.user for delivery in result.deliveries} for result in rounds] == [{1, 3}] * 3


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ("fails", "fails: RuntimeError: no idea"),
        ("short", "gives 1 values for 4 users"),
        ("numbers", "gives values of type int64"),
    ],
)
def test_wrong_answers_of_a_rule_are_explained(answer, problem):
    with pytest.raises(ScenarioError, match=problem) as error:
        play(4, 3, trains_when=Odd(answer=answer))
    assert error.value.faults[0].key == "trains_when"


def test_draws_of_a_rule_differ_by_user_and_version():
    draws = Streams(3).field("trains_when")
    users, versions = np.array([0, 1, 0]), np.array([4, 4, 5])
    occasion = TrainingOccasion(users, versions, np.zeros(3), np.ones(3), np.ones(3, bool), draws)
    assert len({*occasion.draws.uniform(occasion.users, occasion.versions).tolist()}) == 3
    assert Every(versions=2).trains(occasion).tolist() == [True, False, False]


def faults_of(**overrides):
    """Return the errors of a network with these keys, as texts with their keys."""
    access, *_ = make(2, 2, **ROUND_ROBIN | overrides)
    return [str(fault) for fault in access.faults(ScenarioFacts(users=2, rounds=2)) if fault.key == "trains_when"]


@pytest.mark.parametrize(
    ("overrides", "problem"),
    [
        ({"trains_when": {"battery_above": 0.3}}, "depends on batteries, but no user has one"),
        ({"trains_when": "charging"}, "depends on batteries, but no user has one"),
        (
            {"trains_when": "charging", "energy": COSTS, "outages": [{"kind": "battery", "capacity": 10.0,
             "charger": {"kind": "poisson", "energy": 1, "period": 1}}]},
            "no battery has a source of power",
        ),
        ({"trains_when": {"every": 2}, "round": {"kind": "asynchronous"}}, "without end"),
    ],
)  # fmt: skip
def test_rules_that_cannot_work_are_refused(overrides, problem):
    (fault,) = faults_of(**overrides)
    assert problem in fault


def test_always_is_no_rule_for_a_continuous_round():
    assert not faults_of(trains_when="always", round={"kind": "asynchronous"})


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ({"every": 0}, "greater than or equal to 1"),
        ({"battery_above": 1.5}, "less than or equal to 1"),
        ("chargin", "did you mean 'charging'"),
        ({"evry": 3}, "a model of trains_when is needed"),
    ],
)
def test_invalid_rules_are_rejected(value, problem):
    with pytest.raises(ScenarioError, match=problem):
        NetworkAccess(topology={"kind": "star", "radius": 10}, trains_when=value)
