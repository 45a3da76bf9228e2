"""Warm-up of users: the times and joules of first trainings, worked out by hand."""

import copy

import numpy as np
import pytest
from support.recorders import Memory

from netfl.access.network import NetworkAccess
from netfl.errors import ScenarioError
from netfl.network.compute import Compute
from netfl.scenario.validation import nested_faults
from netfl.streams import Streams
from netfl.types import AccessContext, ScenarioFacts

PLAIN = {
    "topology": {"kind": "star", "distance": "10 m", "rate": "1 Gbps"},
    "radio": {"power": "20 dBm", "bandwidth": "1 MHz", "noise_figure": "6 dB"},
    "channel": [{"kind": "constant", "gain": "0 dB"}],
    "reception": {"kind": "snr_threshold", "threshold": "0 dB", "rate": "1 Mbps"},
    "mac": {"kind": "round_robin"},
    "compute": {"speed": 10.0, "samples": 50},
    "broadcast_rate": "1 Mbps",
    "update_size": "1 kbit",
    "round": {"kind": "available"},
}
TRAIN_S = 5.0


def run_rounds(users=3, rounds=4, seed=3, **overrides):
    """Return the rounds and the recorder of a run of the plain network with *overrides*."""
    settings = copy.deepcopy(PLAIN) | overrides
    settings["compute"] = PLAIN["compute"] | overrides.get("compute", {})
    access = NetworkAccess.model_validate(settings)
    log = Memory(unknown=None)
    setting = AccessContext(users, rounds, 0, Streams(seed), np.full(users, 50.0), 1e3, 1e3, log)
    return [*access.rounds(setting)], log


def training_times(log, users=3):
    """Return the time from the reception of each version to the end of the training from it, by user, in order."""
    times = {user: [] for user in range(users)}
    received = {}
    for kind, time_s, _, user, _, version, _ in sorted(log.rows, key=lambda row: row[1]):
        if kind == "received":
            received[user, version] = time_s
        if kind == "trained":
            times[user].append(time_s - received[user, version])
    return times


def finals(log):
    return log.final_values


class TestTimes:
    def test_first_training_only_is_longer(self):
        _, log = run_rounds(compute={"warm_up": "9 s"})
        for times in training_times(log).values():
            assert times == pytest.approx([TRAIN_S + 9.0, TRAIN_S, TRAIN_S, TRAIN_S])

    def test_each_user_and_each_class_has_its_own(self):
        _, log = run_rounds(compute={"warm_up": ["0 s", "4 s", "1 min"]})
        assert [times[0] for times in training_times(log).values()] == pytest.approx([5.0, 9.0, 65.0])
        devices = {"a": {"users": [0, 1], "speed": 10}, "b": {"users": [2], "speed": 5, "warm_up": "1 s"}}
        _, log = run_rounds(compute={"speed": None, "devices": devices, "warm_up": "3 s"})
        assert [times[0] for times in training_times(log).values()] == pytest.approx([8.0, 8.0, 11.0])
        assert [times[1] for times in training_times(log).values()] == pytest.approx([5.0, 5.0, 10.0])

    def test_no_warm_up_is_the_network_without_the_key(self):
        assert run_rounds()[0] == run_rounds(compute={"warm_up": 0})[0]

    def test_jitter_leaves_it_as_it_is(self):
        _, without = run_rounds(compute={"jitter": 0.4})
        _, with_warm_up = run_rounds(compute={"jitter": 0.4, "warm_up": "9 s"})
        for user, times in training_times(without).items():
            later = training_times(with_warm_up)[user]
            assert later == pytest.approx(np.array(times) + np.array([9.0, 0.0, 0.0, 0.0]))

    def test_abandoned_training_leaves_the_rest_to_the_next_one(self):
        """The slow users abandon a training in each round, until the sum of these times is their warm-up."""
        rounds, _ = run_rounds(round={"kind": "first", "m": 1}, compute={"speed": [10, 4, 4], "warm_up": [0, 7, 7]})
        assert rounds[0].closed_s == pytest.approx(TRAIN_S, abs=0.05)
        assert {delivery.user for each in rounds for delivery in each.deliveries} == {0}
        rounds, _ = run_rounds(
            rounds=6, round={"kind": "first", "m": 1}, compute={"speed": [10, 40, 4], "warm_up": [0, 12, 7]}
        )
        # user 1 trains for 1.25 s; it has 12 s of warm-up, of which rounds 1 and 2 take 5 s each, and round 3 the rest
        assert [each.deliveries[0].user for each in rounds] == [0, 0, 1, 1, 1, 1]
        lasted = np.diff([0.0, *(each.closed_s for each in rounds)])
        assert lasted[:2] == pytest.approx([5.0, 5.0], abs=0.05)
        assert lasted[2] == pytest.approx(2.0 + 1.25, abs=0.05)
        assert lasted[3:] == pytest.approx([1.25] * 3, abs=0.05)


class TestOutages:
    def test_disconnection_costs_no_second_one(self):
        """A user that is disconnected trains, and its program goes on: all later trainings are warm."""
        outage = {
            "kind": "renewal",
            "nodes": "users",
            "up": {"distribution": "exponential", "mean": 20},
            "down": {"distribution": "fixed", "mean": 6},
        }
        _, log = run_rounds(rounds=12, compute={"warm_up": "9 s"}, outages=[outage])
        downs = [row for row in log.rows if row[0] == "down"]
        assert len(downs) > 5
        for times in training_times(log).values():
            assert times[0] == pytest.approx(TRAIN_S + 9.0)
            assert times[1:] == pytest.approx([TRAIN_S] * (len(times) - 1))

    def test_battery_that_switches_a_user_off_makes_it_cold(self):
        battery = {
            "kind": "battery",
            "capacity": "20 J",
            "initial": 1.0,
            "restart": 0.9,
            "charger": {"power": "0.3 W"},
        }
        _, log = run_rounds(
            rounds=14,
            round={"kind": "first", "m": 1},
            users=1,
            compute={"warm_up": "2 s"},
            energy={"compute": "1 W"},
            outages=[battery],
        )
        times = training_times(log, users=1)[0]
        downs = sorted(row[1] for row in log.rows if row[0] == "down" and row[3] == 0)
        trained = sorted(row[1] for row in log.rows if row[0] == "trained")
        assert len(downs) >= 2
        cold = [0] + [int(np.searchsorted(trained, down)) for down in downs if down < trained[-1]]
        expected = [TRAIN_S + (2.0 if place in cold else 0.0) for place in range(len(times))]
        assert times == pytest.approx(expected)
        assert 0 < len(set(cold)) - 1 < len(times) - 1


class TestEnergy:
    def test_costs_the_power_of_training_for_its_time(self):
        energy = {"compute": "8 W", "per_sample": "10 mJ", "per_training": "1 J"}
        _, cold = run_rounds(compute={"warm_up": "9 s"}, energy=energy)
        _, warm = run_rounds(energy=energy)
        plain_j = 3 * 4 * (1.0 + 50 * 0.01 + 8.0 * TRAIN_S)
        assert finals(warm)["energy_train_J"] == pytest.approx(plain_j)
        assert finals(cold)["energy_train_J"] == pytest.approx(plain_j + 3 * 8.0 * 9.0)

    def test_battery_pays_what_the_meter_counts(self):
        battery = {"kind": "battery", "capacity": "10 kJ", "initial": 1.0}
        _, log = run_rounds(compute={"warm_up": "9 s"}, energy={"compute": "8 W"}, outages=[battery])
        assert finals(log)["energy_train_J"] == pytest.approx(3 * 8.0 * (9.0 + 4 * TRAIN_S))


def find_faults(**overrides):
    access = NetworkAccess.model_validate(copy.deepcopy(PLAIN) | overrides)
    facts = ScenarioFacts(users=3, rounds=5, sized=True)
    return {fault.key: fault for fault in nested_faults(access, "access", facts)}


class TestErrors:
    def test_list_of_other_length(self):
        faults = find_faults(compute=PLAIN["compute"] | {"warm_up": [1, 2]})
        assert "2 times for 3 users" in faults["access.compute.warm_up"].problem

    def test_negative(self):
        with pytest.raises(ScenarioError, match="greater than or equal to 0"):
            Compute(speed=1, warm_up=-1)

    def test_allocation_that_plans_energy(self):
        faults = find_faults(
            allocation={"kind": "least_energy", "deadline": "20 s"},
            mac={"kind": "fdma"},
            reception={"kind": "shannon"},
            energy={"compute": "1 W", "transmit": "1 W"},
            round={"kind": "available", "deadline": "20 s"},
        )
        assert "not with a power while training" in faults["access.energy.compute"].problem
