"""Trainings that batteries pay, or cannot pay: outcomes, rounds and energy, worked out by hand."""

import copy
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.small_network import make

import netfl
from netfl.errors import ModelError
from netfl.network.outage.battery import Battery
from netfl.types import OUTCOMES

ROUND_ROBIN = {"mac": {"kind": "round_robin"}}
"""Users send as soon as they have trained, one after the other."""
RATE_BPS = 1000.0
"""Rate of a frame on the air."""
COSTLY = {"kind": "battery", "capacity": 10.0, "restart": 0.5, "charger": {"power": 0.2}}
COSTS = {"per_training": 1000.0}
"""A training costs a hundred times the capacity; from 0 the charger needs 25 s to the restart."""


@pytest.fixture
def batteries(monkeypatch):
    """Collect the batteries of the networks that a test runs."""
    opened, open_battery = [], Battery.open

    def keep(*args):
        opened.append(open_battery(*args))
        return opened[-1]

    monkeypatch.setattr(Battery, "open", keep)
    return opened


def play(users, rounds, **overrides):
    """Return the rounds and the recorder of a network in which a version needs a microsecond."""
    access, context, log = make(users, rounds, **ROUND_ROBIN | overrides)
    return list(access.rounds(context)), log


def about(time_s):
    return pytest.approx(time_s, abs=1e-3)


def events(log, *kinds):
    return [(row[0], row[1], row[3], row[5], row[6]) for row in log.rows if row[0] in kinds]


def outcomes(log):
    return Counter(row[0] for row in log.rows if row[0] in OUTCOMES)


class TestUnpaidTraining:
    def test_nothing_is_delivered(self, batteries):
        """The first training takes the 10 J, each later one the 5 J at which the user is up again."""
        rule = {"kind": "first", "m": 1, "deadline": 10.0, "losses": "unknown"}
        rounds, log = play(1, 100, outages=[COSTLY], energy=COSTS, round=rule)
        assert not any(result.deliveries for result in rounds)
        assert {kind for kind, *_ in events(log, *OUTCOMES)} == {"lost"}
        lost = [(time_s, detail) for _, time_s, _, _, detail in events(log, "lost")]
        assert lost == [(about(25.0 * index), "battery") for index in range(40)]
        assert not events(log, "trained", "sent")
        ledger = batteries[0].ledger(np.zeros(1, int), 1000.0)
        assert ledger.supplied == pytest.approx([200.0])
        assert ledger.failed == pytest.approx([10.0 + 39 * 5.0])
        assert (ledger.paid, ledger.charge) == ([0.0], about([5.0]))

    @pytest.mark.parametrize(
        "rule",
        [
            {"kind": "first", "m": 1},
            {"kind": "first", "m": 2, "deadline": 60.0},
            {"kind": "quorum", "quorum": 1.0, "deadline": 60.0, "min_share": 0.5},
            {"kind": "available"},
            {"kind": "buffered", "size": 2},
            {"kind": "asynchronous"},
        ],
    )
    @pytest.mark.parametrize("transport", [None, {"grain": "packet", "mtu": "40 B", "arq": {"timeout": 2.0}}])
    @pytest.mark.quick_first
    def test_server_does_not_wait(self, rule, transport):
        """User 0 cannot pay for any training; user 1 has no battery, trains for 1 s and sends for about 1 s."""
        rounds, log = play(2, 6, outages=[COSTLY | {"nodes": [0]}], energy=COSTS, round=rule, transport=transport)
        assert {delivery.user for result in rounds for delivery in result.deliveries} == {1}
        assert all(detail == "battery" for *_, detail in events(log, "lost"))
        assert {user for _, _, user, *_ in events(log, "lost")} == {0}
        if "deadline" not in rule:
            assert rounds[-1].closed_s < 6 * 12.0

    @pytest.mark.parametrize("kind", ["first", "available"])
    def test_round_closes_when_training_is_lost(self, kind):
        """Without a deadline a round of the costly user alone ends as the training fails, and the next as it is up."""
        rounds, _ = play(
            1, 3, outages=[COSTLY], energy=COSTS, round={"kind": kind} | ({"m": 1} if kind == "first" else {})
        )
        closed_s = [result.closed_s for result in rounds]
        if kind == "first":
            assert closed_s == about([0.0, 25.0, 50.0])
        else:  # a round without connected users closes at once
            assert closed_s == about([0.0, 0.0, 0.0])

    @pytest.mark.parametrize("rule", [{"kind": "asynchronous"}, {"kind": "buffered", "size": 1}])
    @pytest.mark.quick_first
    def test_endless_failures_end_run(self, rule, monkeypatch):
        monkeypatch.setattr("netfl.network.config._MIN_FAILED_ATTEMPTS", 100.0)
        with pytest.raises(ModelError, match="0 attempts and 101 trainings in a row have failed"):
            play(1, 1, outages=[COSTLY], energy=COSTS, round=rule)

    @pytest.mark.parametrize("on_new_version", ["restart", "finish", "ignore"])
    def test_user_trains_again_from_next_version(self, on_new_version):
        """10 J pay one training of 8 J; the second finds 2 J, and the battery is up again 56.25 s later."""
        battery = {"kind": "battery", "capacity": 10.0, "restart": 0.9, "charger": {"power": 0.16}}
        costs = {"per_training": 8.0}
        rule = {"kind": "first", "m": 1, "deadline": 5.0}
        rounds, log = play(1, 14, outages=[battery], energy=costs, round=rule, on_new_version=on_new_version)
        delivered = [delivery.arrived_s for result in rounds for delivery in result.deliveries]
        (lost_s,) = [time_s for _, time_s, *_ in events(log, "lost")][:1]
        assert delivered[0] == about(2.0)
        assert lost_s == about(2.0)  # with 10 - 8 + 2 · 0.16 J
        assert delivered[1] == about(60.25)  # 9 J are charged in 56.25 s; the newest version waits at the tower

    def test_exempt_user_trains_without_energy(self):
        rounds, _ = play(1, 3, outages=[COSTLY], energy=COSTS, exempt={"outage": [0]})
        assert [len(result.deliveries) for result in rounds] == [1, 1, 1]


class TestExactPayment:
    def test_last_energy_pays_for_training(self):
        """100 J are four trainings of 25 J; the fifth finds nothing."""
        battery = {"kind": "battery", "capacity": 100.0}
        costs = {"per_training": 25.0}
        rounds, log = play(1, 6, outages=[battery], energy=costs, round={"kind": "first", "m": 1, "deadline": 5.0})
        assert [len(result.deliveries) for result in rounds] == [1, 1, 1, 1, 0, 0]
        assert events(log, "lost") == [("lost", about(8.0), 0, 4.0, "battery")]
        assert [time_s for _, time_s, *_ in events(log, "down")] == about([8.0])

    def test_sum_of_decimal_costs_is_exact(self):
        """Ten times 0.1 J are 1 J, though not in binary numbers."""
        battery = {"kind": "battery", "capacity": 1.0}
        costs = {"per_training": 0.1}
        rounds, _ = play(1, 12, outages=[battery], energy=costs, round={"kind": "first", "m": 1, "deadline": 5.0})
        assert sum(len(result.deliveries) for result in rounds) == 10

    def test_last_energy_pays_for_transmission(self):
        """1000 bits cost 50 J: 100 J are two updates; the third attempt fails."""
        battery = {"kind": "battery", "capacity": 100.0}
        costs = {"transmit": 50.0}
        rounds, log = play(1, 4, outages=[battery], energy=costs, round={"kind": "first", "m": 1, "deadline": 5.0})
        assert [len(result.deliveries) for result in rounds] == [1, 1, 0, 0]
        assert [(time_s, detail) for _, time_s, _, _, detail in events(log, "failed")] == [(about(6.0), "lost")]

    def test_nothing_is_left_for_idle_power(self):
        """The training takes all that is left, so the user goes down, and the training with it."""
        battery = {"kind": "battery", "capacity": 100.0}
        costs = {"per_training": 100.0, "idle": 0.001}
        rounds, log = play(1, 1, outages=[battery], energy=costs, round={"kind": "first", "m": 1, "deadline": 5.0})
        assert not rounds[0].deliveries
        assert events(log, "lost") == [("lost", about(0.0), 0, 0.0, "battery")]

    def test_supply_covers_idle_power(self):
        battery = {"kind": "battery", "capacity": 100.0, "charger": {"power": 1}}
        costs = {"per_training": 100.0, "idle": 1.0}
        rounds, _ = play(1, 1, outages=[battery], energy=costs, round={"kind": "first", "m": 1, "deadline": 5.0})
        assert len(rounds[0].deliveries) == 1


class TestUnpaidTransmission:
    @pytest.mark.parametrize("in_progress", ["interrupt", "finish"])
    def test_transmission_takes_what_is_left_and_fails(self, in_progress, batteries):
        """Each attempt of 1000 bits costs 15 J, the battery has 10 J: also an outage that spares uploads loses it."""
        battery = {"kind": "battery", "capacity": 10.0, "in_progress": in_progress}
        costs = {"transmit": 15.0}
        rounds, log = play(1, 2, outages=[battery], energy=costs, round={"kind": "first", "m": 1, "deadline": 5.0})
        assert not any(result.deliveries for result in rounds)
        assert [(row[1], row[6]) for row in log.rows if row[0] == "failed"] == [(about(2.0), "lost")]
        ledger = batteries[0].ledger(np.zeros(1, int), 10.0)
        assert (ledger.failed, ledger.paid, ledger.charge) == ([10.0], [0.0], [0.0])

    @pytest.mark.parametrize("arq", [None, {"timeout": 1.0, "retries": 2}])
    def test_packets_are_paid_one_by_one(self, arq):
        """An update is four packets of 250 bits at 2.5 J: 25 J are ten packets, two updates and a half."""
        battery = {"kind": "battery", "capacity": 25.0}
        costs = {"transmit": 10.0}
        transport = {"grain": "packet", "mtu": 250.0, "header": 0} | ({"arq": arq} if arq else {})
        rule = {"kind": "first", "m": 1, "deadline": 20.0}
        rounds, log = play(1, 3, outages=[battery], energy=costs, round=rule, transport=transport)
        assert [len(result.deliveries) for result in rounds] == [1, 1, 0]
        assert len(events(log, "sent")) == 11

    def test_unpaid_traffic_is_lost(self):
        """Each packet of 100 bits costs 3 J of 10 J."""
        traffic = {"kind": "constant", "every": 1.0, "size": {"distribution": "fixed", "mean": 100.0}}
        battery = {"kind": "battery", "capacity": 10.0}
        costs = {"transmit": 30.0}
        unset = dict.fromkeys(("compute", "broadcast_rate", "update_size", "round"))
        access, context, log = make(1, 1, **unset, **ROUND_ROBIN, traffic=traffic, outages=[battery], energy=costs)
        list(access.rounds(replace(context, duration_s=20.0)))
        assert log.final_values["delivered"] == 3
        assert log.final_values["attempts"] == 4


class TestTrainingUnderWay:
    def test_idle_power_ends_training(self):
        """10 J at 1 W last 10 s of a training of 30 s; 5 J are charged net of nothing at 0.5 W in 10 s more."""
        battery = {"kind": "battery", "capacity": 10.0, "restart": 0.5, "charger": {"power": 0.5}}
        overrides = {"compute": {"speed": 1.0, "samples": 30}, "energy": {"idle": 1.0}}
        rounds, log = play(1, 1, outages=[battery], round={"kind": "first", "m": 1, "deadline": 35.0}, **overrides)
        assert not rounds[0].deliveries
        assert events(log, "lost") == [("lost", about(20.0), 0, 0.0, "battery")]  # 10 J at net 0.5 W
        assert log.spendings["trained"] == pytest.approx([20.0 / 30.0])

    def test_training_that_ends_in_time_counts(self):
        """At net 0.5 W, 10 J last for 20 s."""
        battery = {"kind": "battery", "capacity": 10.0, "restart": 0.5, "charger": {"power": 0.5}}
        costs = {"idle": 1.0}
        overrides = {"compute": {"speed": 1.0, "samples": 19}}
        _, log = play(
            1, 1, outages=[battery], energy=costs, round={"kind": "first", "m": 1, "deadline": 25.0}, **overrides
        )
        assert events(log, "trained") == [("trained", about(19.0), 0, 0.0, "")]

    def test_other_outages_do_not_end_training(self):
        """A user that is disconnected for a minute continues to compute; only its battery can switch it off."""
        maintenance = {"kind": "maintenance", "windows": [{"nodes": [0], "start": 5.0, "duration": 60.0}]}
        battery = {"kind": "battery", "capacity": 100.0}
        costs = {"per_training": 10.0}
        overrides = {"compute": {"speed": 1.0, "samples": 12}}
        rounds, log = play(1, 1, outages=[maintenance, battery], energy=costs, **overrides)
        assert [delivery.arrived_s for delivery in rounds[0].deliveries] == [about(66.0)]
        assert events(log, "trained") == [("trained", about(12.0), 0, 0.0, "")]

    def test_traffic_empties_battery_of_user_in_training(self):
        """The training takes 60 of 100 J; of the packets at 1, 2, … s the fifth finds nothing."""
        traffic = {
            "kind": "constant",
            "every": 1.0,
            "synchronous": True,
            "size": {"distribution": "fixed", "mean": 100.0},
        }
        battery = {"kind": "battery", "capacity": 100.0}
        costs = {"per_training": 60.0, "transmit": 90.0}
        overrides = {"compute": {"speed": 1.0, "samples": 20}, "traffic": traffic, "mac": {"kind": "round_robin"}}
        rule = {"kind": "first", "m": 1, "deadline": 30.0}
        rounds, log = play(1, 1, outages=[battery], energy=costs, round=rule, **overrides)
        assert not rounds[0].deliveries
        ((_, lost_s, _, _, detail),) = events(log, "lost")
        assert detail == "battery"
        assert 3.0 < lost_s < 6.0

    @pytest.mark.parametrize(
        ("downlink", "lost_s"),
        [
            (None, 4.0),  # 10 J less 4 J and 3 s of training are 3 J when the second version has arrived
            ({"mode": "multicast"}, 3.0),  # less 4 J and 2 s they are 4 J when it begins to arrive
        ],
    )
    def test_version_empties_battery_of_user_in_training(self, downlink, lost_s):
        """A version of 1 s costs 4 J, and training 1 W for 8 s; a new version comes every 3 s."""
        battery = {"kind": "battery", "capacity": 10.0}
        overrides = {
            "compute": {"speed": 1.0, "samples": 8},
            "energy": {"per_sample": 1.0, "receive": 4.0},
            "on_new_version": "finish",
            "downlink": downlink,
            "broadcast_rate": 1000.0 if downlink is None else None,
        }
        _, log = play(1, 2, outages=[battery], round={"kind": "first", "m": 1, "deadline": 3.0}, **overrides)
        assert events(log, "lost")[0] == ("lost", about(lost_s), 0, 0.0, "battery")
        assert log.spendings["energy_J"] == pytest.approx([10.0])


class TestMeter:
    def test_meter_counts_what_battery_paid(self, batteries):
        """Uses at once, trainings, and being on are the same joules in both."""
        costs = {"per_training": 4.0, "per_sample": 0.5, "transmit": 2.0, "idle": 0.02}
        battery = {"kind": "battery", "capacity": 12.0, "restart": 0.4, "charger": {"power": 0.1}}
        overrides = {"energy": costs, "compute": {"speed": [1.0, 2.0, 0.7], "samples": 3}}
        rule = {"kind": "first", "deadline": 30.0, "losses": "unknown"}
        rounds, log = play(3, 30, outages=[battery], round=rule, **overrides)
        ledger = batteries[0].ledger(np.arange(3), rounds[-1].closed_s)
        assert log.spendings["energy_J"] == pytest.approx(drained_j(ledger))
        assert log.spendings["idle_J"] == pytest.approx(ledger.idle)
        assert (ledger.computing > 0.0).all()
        assert (ledger.failed > 0.0).all()
        assert (ledger.paid > 0.0).all()


SUPPLIES = [
    {},
    {"charger": {"power": 0.4}},
    {"charger": {"power": 2.0, "opens": 20.0, "closes": 70.0, "spread": 30.0}},
    {"solar": {"peak": 1.5, "sunrise": 0.0, "sunset": 200.0, "clouds": 0.5}},
]
RULES = [
    {"kind": "first", "m": 2, "deadline": 30.0},
    {"kind": "quorum", "quorum": 0.6, "deadline": 25.0, "min_share": 0.3},
    {"kind": "available", "deadline": 40.0},
    {"kind": "buffered", "size": 2},
    {"kind": "asynchronous"},
]


def drained_j(ledger):
    """Return what users have taken from their batteries."""
    return ledger.paid + ledger.failed + ledger.computing + ledger.idle


@st.composite
def batteries_in_networks(draw):
    battery = {
        "kind": "battery",
        "capacity": draw(st.sampled_from([10.0, 40.0])),
        "initial": draw(st.sampled_from([[1.0, 1.0], [0.0, 1.0]])),
        "restart": draw(st.sampled_from([0.05, 0.5, 1.0])),
        "in_progress": draw(st.sampled_from(["interrupt", "finish"])),
    } | draw(st.sampled_from(SUPPLIES))
    costs = {
        "per_training": draw(st.sampled_from([0.0, 2.0, 7.0, 15.0])),
        "per_sample": draw(st.sampled_from([0.0, 1.0])),
        "idle": draw(st.sampled_from([0.0, 0.1, 0.5])),
    }
    per_bit = draw(st.sampled_from([1e-4, 4e-3]))
    costs |= {"transmit": per_bit * RATE_BPS, "receive": draw(st.sampled_from([0.0, 1.0]))}
    renewal = {
        "kind": "renewal",
        "nodes": "users",
        "up": {"distribution": "exponential", "mean": 30.0},
        "down": {"distribution": "exponential", "mean": 5.0},
    }
    overrides = {
        "outages": [battery, *([renewal] if draw(st.booleans()) else [])],
        "round": draw(st.sampled_from(RULES)),
        "compute": {"speed": 1.0, "spread": 0.5, "samples": 4, "jitter": draw(st.sampled_from([0.0, 0.5]))},
        "mac": draw(st.sampled_from([{"kind": "tdma"}, {"kind": "round_robin"}])),
        "energy": costs,
    }
    transports = [None, {"grain": "packet", "mtu": 400.0}, {"grain": "packet", "mtu": 400.0, "arq": {"timeout": 2.0}}]
    overrides["transport"] = draw(st.sampled_from(transports))
    if overrides["round"]["kind"] not in {"buffered", "asynchronous"}:
        overrides["on_new_version"] = draw(st.sampled_from(["restart", "finish", "ignore"]))
    if draw(st.booleans()):
        overrides |= {"broadcast_rate": None, "downlink": {"mode": draw(st.sampled_from(["unicast", "multicast"]))}}
    if draw(st.booleans()):
        size = {"distribution": "exponential", "mean": 200.0}
        overrides["traffic"] = {"kind": "poisson", "rate": 0.1, "size": size}
    return overrides


def check_balance(overrides, seed):
    users, opened, open_battery = 5, [], Battery.open
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("netfl.network.config._MIN_FAILED_ATTEMPTS", 300.0)
        patch.setattr(Battery, "open", lambda *args: opened.append(open_battery(*args)) or opened[-1])
        access, context, log = make(users, 12, seed, **copy.deepcopy(overrides))
        try:
            rounds = [*access.rounds(context)]
        except ModelError:  # every battery is empty for good
            return
    energy, end_s = overrides["energy"], rounds[-1].closed_s
    ledger = opened[-1].ledger(np.arange(users), end_s)
    stored = ledger.charge - ledger.initial
    assert ledger.supplied == pytest.approx(stored + drained_j(ledger) + ledger.refused, abs=1e-6)
    for part in ledger:
        assert (part >= 0.0).all()
    assert log.spendings["energy_J"] == pytest.approx(drained_j(ledger), abs=1e-6), "what is counted is drained"
    ended = [row for row in log.rows if row[0] in OUTCOMES]
    assert log.spendings["begun"].sum() == len(ended), "every update has one outcome"
    training_j = energy["per_training"] + 4 * energy["per_sample"]
    per_bit = energy["transmit"] / RATE_BPS
    trained = Counter(row[3] for row in log.rows if row[0] == "trained")
    sent_bits = Counter()
    for row in log.rows:
        if row[0] == "delivered":
            sent_bits[row[3]] += 1000.0
    needed_j = np.array([trained[user] * training_j + sent_bits[user] * per_bit for user in range(users)])
    assert (needed_j <= ledger.paid + ledger.computing + 1e-6).all(), "what was trained and delivered was paid"


@settings(max_examples=2, deadline=None, derandomize=True, database=None)
@given(batteries_in_networks(), st.integers(0, 99))
def test_energy_balances_in_few_networks(overrides, seed):
    check_balance(overrides, seed)


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(batteries_in_networks(), st.integers(0, 99))
@pytest.mark.slow
@pytest.mark.thorough
def test_energy_balances_in_many_networks(overrides, seed):
    check_balance(overrides, seed)


@pytest.mark.parametrize(("training_s", "capacity_j"), [(1.0, 0.1), (3.3, 0.33), (0.7, 0.07), (0.1 + 0.2, 0.03)])
def test_training_that_ends_as_the_battery_runs_empty_is_complete(tmp_path, training_s, capacity_j):
    """Two sums of one time are one instant; the device is then off, and its update waits for ever."""
    access = {
        "kind": "network",
        "topology": {"kind": "star", "distance": "10 m", "delay": "0 s", "rate": 1e18},
        "radio": {"power": "16 dBm", "bandwidth": "1 MHz"},
        "reception": {"kind": "snr_threshold", "threshold": "5 dB", "rate": "1 Mbps"},
        "mac": "round_robin",
        "broadcast_rate": 1e18,
        "update_size": 1000,
        "compute": {"speed": 1.0, "samples": training_s},
        "round": {"kind": "first", "deadline": "10 s"},
        "outages": [{"kind": "battery", "capacity": capacity_j}],
        "energy": {"idle": 0.1},
    }
    scenario = {"name": "empty", "users": 1, "rounds": 1, "record": ["trained", "lost"], "access": access}
    events = netfl.trace(netfl.load(scenario), tmp_path / "run", progress=False).events
    assert events["kind"].tolist() == ["trained"]


@pytest.mark.slow
def test_frame_that_is_paid_as_its_training_ends_does_not_end_the_update(tmp_path):
    """The frame empties the battery at the instant at which the training is over, up to rounding: nothing is lost."""
    access = {
        "kind": "network",
        "topology": {
            "kind": "grid",
            "rows": 2,
            "columns": 2,
            "spacing": "200 m",
            "towers": [[0, 0], [1, 1]],
            "placement": {"kind": "disk", "radius": "500 m"},
            "rate": 1e6,
        },
        "unreachable": "keep",
        "radio": {"power": "16 dBm", "bandwidth": 125e3, "noise_figure": "6 dB"},
        "channel": [{"kind": "constant", "gain": "-69 dB"}],
        "reception": {"kind": "shannon", "rate": "1 Mbps"},
        "mac": "round_robin",
        "compute": {"speed": 2, "samples": 1},
        "broadcast_rate": 5e5,
        "update_size": 5e4,
        "round": {"kind": "first", "m": 2, "deadline": "5 s"},
        "outages": [{"kind": "battery", "capacity": "10 J", "charger": {"power": "3 W"}}],
        "energy": {"transmit": "5 kW"},
    }
    scenario = {"name": "paid", "users": 6, "rounds": 12, "record": "all", "access": access}
    events = netfl.trace(netfl.load(scenario), tmp_path / "run", progress=False).events
    outcomes = events[events["kind"].isin(netfl.types.OUTCOMES)]
    assert not outcomes.duplicated(["user", "value"]).any()
    assert not ((events["kind"] == "lost") & (events["detail"] == "battery")).any()
