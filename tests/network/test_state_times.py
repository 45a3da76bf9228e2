"""Times of the states of devices and their joules: sums, hand-made values and an independent calculation."""

import copy

import numpy as np
import pytest
from support.recorders import Memory

from netfl.access.network import NetworkAccess
from netfl.network.outage._combined import CombinedOutages
from netfl.network.state_times import DownTimes, StateTimes
from netfl.scenario.validation import nested_faults
from netfl.streams import Streams
from netfl.types import AccessContext, ScenarioFacts

PLAIN = {
    "topology": {"kind": "star", "distance": "10 m", "rate": "1 Gbps", "delay": 0},
    "radio": {"power": "20 dBm", "bandwidth": "1 MHz", "noise_figure": "6 dB"},
    "channel": [{"kind": "constant", "gain": "0 dB"}],
    "reception": {"kind": "snr_threshold", "threshold": "0 dB", "rate": "1 Mbps"},
    "mac": {"kind": "round_robin"},
    "compute": {"speed": [10.0, 20.0, 40.0], "samples": 20, "warm_up": "1 s"},
    "broadcast_rate": "1 Mbps",
    "update_size": "500 kbit",
    "round": {"kind": "available"},
}
STATES = ("computing", "evaluating", "receiving", "sending", "down", "waiting")
POWERS = {"idle": "2 W", "compute": "7 W", "transmit": "3 W", "receive": "1 W", "states": True}
OUTAGE = {
    "kind": "renewal",
    "nodes": "users",
    "up": {"distribution": "exponential", "mean": 12},
    "down": {"distribution": "fixed", "mean": 4},
}


def run_rounds(users=3, rounds=4, seed=3, **overrides):
    """Return the rounds and the recorder of a run of the plain network with *overrides*."""
    access = NetworkAccess.model_validate(copy.deepcopy(PLAIN) | overrides)
    log = Memory(unknown=None)
    setting = AccessContext(users, rounds, 0, Streams(seed), np.full(users, 20.0), 5e5, 5e5, log)
    return [*access.rounds(setting)], log


def state_times(log):
    return {name: log.spendings[f"{name}_state_s"] for name in STATES}


def covered_by_samples(spans, end_s, step_s=1e-3):
    """Return the time that spans cover together, from samples in the middle of each step."""
    times_s = np.arange(step_s / 2, end_s, step_s)
    is_covered = np.zeros(len(times_s), np.bool_)
    for from_s, until_s in spans:
        is_covered |= (times_s >= from_s) & (times_s < until_s)
    return is_covered.sum() * step_s


class TestSums:
    def test_times_of_one_user_by_hand(self):
        """Each round: 0.5 s of receiving, 2 s of computing (1 s of warm-up once), 0.5 s of sending; then waiting."""
        rounds, log = run_rounds(users=1, compute={"speed": 10, "samples": 20, "warm_up": "1 s"}, energy=POWERS)
        times_s = {name: time_s[0] for name, time_s in state_times(log).items()}
        waiting_s = rounds[-1].closed_s - 4 * 3.0 - 1.0
        assert times_s == pytest.approx(
            {"receiving": 2.0, "computing": 9.0, "sending": 2.0, "evaluating": 0.0, "down": 0.0, "waiting": waiting_s}
        )
        assert 0 < waiting_s < 0.1

    @pytest.mark.parametrize(
        "overrides",
        [
            {},
            {"outages": [OUTAGE]},
            {"evaluation": {"samples": 60, "answer": "10 kB"}},
            {"round": {"kind": "first", "m": 1}, "on_new_version": "finish", "rounds": 20},
            {"downlink": {"mode": "unicast", "power": "30 dBm"}, "broadcast_rate": None},
        ],
        ids=["plain", "outages", "evaluation", "first", "downlink"],
    )
    def test_states_add_up_to_the_run(self, overrides):
        rounds, log = run_rounds(energy=POWERS, **overrides)
        total_s = sum(state_times(log).values()) - log.spendings["overlap_s"]
        assert total_s == pytest.approx(np.full(3, rounds[-1].closed_s), rel=1e-12)

    @pytest.mark.parametrize("down", [None, "0 W", "0.5 W"])
    def test_joules_are_powers_times_times(self, down):
        """All rounds end with nobody on the air, so that no airtime lies after the end."""
        energy = POWERS if down is None else POWERS | {"down": down}
        rounds, log = run_rounds(rounds=8, energy=energy, outages=[OUTAGE], evaluation={"samples": 60})
        times_s = state_times(log)
        end_s = rounds[-1].closed_s
        down_w = 2.0 if down is None else float(down.split()[0])
        joules = 2.0 * (end_s - times_s["down"]) + down_w * times_s["down"] + 3.0 * times_s["sending"]
        joules += 7.0 * (times_s["computing"] + times_s["evaluating"]) + 1.0 * times_s["receiving"]
        assert (times_s["down"] > 0).all()
        assert log.spendings["energy_J"] == pytest.approx(joules, rel=1e-12)
        assert log.final_values["energy_J"] == pytest.approx(rounds[-1].energy_j)

    def test_down_times_are_those_of_the_events(self):
        rounds, log = run_rounds(rounds=60, energy=POWERS, outages=[OUTAGE])
        end_s = rounds[-1].closed_s
        down_s = np.zeros(3)
        since = {}
        for kind, time_s, _, user, *_ in sorted(log.rows, key=lambda row: (row[1], row[0] == "down")):
            if kind == "down":
                since[user] = time_s
            elif kind == "up":
                down_s[user] += time_s - since.pop(user)
        for user, time_s in since.items():
            down_s[user] += end_s - time_s
        assert state_times(log)["down"] == pytest.approx(down_s)

    def test_union_equals_that_of_samples(self):
        rng = np.random.default_rng(129)
        states = StateTimes(DownTimes(CombinedOutages(), 4))
        spans = [[] for _ in range(4)]
        for activity in ("computing", "sending", "receiving"):
            users = rng.integers(0, 4, 30)
            from_s = rng.uniform(-1.0, 10.0, 30)
            until_s = from_s + rng.exponential(0.3, 30)
            states.add(activity, users, from_s, until_s)
            for user, span in zip(users, zip(from_s, until_s, strict=True), strict=True):
                spans[user].append(span)
        columns = states.columns(4, 0.0, 10.0)
        covered_s = [covered_by_samples(each, 10.0) for each in spans]
        assert 10.0 - columns["waiting_state_s"] == pytest.approx(covered_s, abs=0.05)


class TestSwitches:
    def test_times_and_no_draws_change_the_run(self):
        plain, log = run_rounds(energy={key: value for key, value in POWERS.items() if key != "states"})
        recorded, with_states = run_rounds(energy=POWERS)
        assert plain == recorded
        assert "waiting_state_s" not in log.spendings
        assert (with_states.spendings["energy_J"] == log.spendings["energy_J"]).all()

    def test_battery_that_is_off_is_down_and_costs_nothing(self):
        battery = {"kind": "battery", "capacity": "60 J", "initial": 1.0, "nodes": [0]}
        rounds, log = run_rounds(rounds=6, energy=POWERS, outages=[battery])
        times_s = {name: time_s[0] for name, time_s in state_times(log).items()}
        assert times_s["down"] > 1.0
        idle_j = log.spendings["idle_J"][0]
        assert idle_j == pytest.approx(2.0 * (rounds[-1].closed_s - times_s["down"]), rel=1e-6)
        assert log.spendings["energy_J"][0] == pytest.approx(60.0)


class TestErrors:
    def test_down_needs_outages_and_no_battery(self):
        def find_faults(**overrides):
            access = NetworkAccess.model_validate(copy.deepcopy(PLAIN) | overrides)
            facts = ScenarioFacts(users=3, rounds=5, sized=True)
            return {fault.key: fault for fault in nested_faults(access, "access", facts)}

        assert "no user is ever down" in find_faults(energy={"down": "0 W"})["access.energy.down"].problem
        battery = {"kind": "battery", "capacity": "1 kJ"}
        faults = find_faults(energy={"idle": "1 W", "down": "0 W"}, outages=[battery])
        assert "a battery states" in faults["access.energy.down"].problem
