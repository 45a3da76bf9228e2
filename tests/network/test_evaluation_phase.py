"""Evaluations at the end of rounds: their time, bits, joules and users, worked out by hand."""

import copy

import numpy as np
import pytest
from support.recorders import Memory

from netfl.access.network import NetworkAccess
from netfl.network.evaluation_rounds import EvaluationRounds
from netfl.scenario.validation import nested_faults
from netfl.streams import Streams
from netfl.types import AccessContext, ScenarioFacts

BITS, ANSWER_BITS = 1e6, 800.0
PLAIN = {
    "topology": {"kind": "star", "distance": "10 m", "rate": "1 Gbps", "delay": 0},
    "radio": {"power": "20 dBm", "bandwidth": "10 MHz", "noise_figure": "6 dB"},
    "channel": [{"kind": "constant", "gain": "0 dB"}],
    "reception": {"kind": "snr_threshold", "threshold": "0 dB", "rate": "10 Mbps"},
    "mac": {"kind": "round_robin"},
    "compute": {"speed": 10.0, "samples": 20},
    "broadcast_rate": "10 Mbps",
    "update_size": BITS,
    "round": {"kind": "available"},
}
USERS = 4
WIRE_S, AIR_S, ANSWER_S = BITS / 1e9, BITS / 1e7, ANSWER_BITS / 1e7
DOWN_S = WIRE_S + AIR_S
EVALUATE_S = 30 / 3 / 10.0
ROUND_S = DOWN_S + 2.0 + USERS * AIR_S + WIRE_S
EVALUATION = {"samples": 30, "answer": "100 B"}


def run_rounds(users=USERS, rounds=4, seed=3, **overrides):
    """Return the rounds and the recorder of a run of the plain network with *overrides*."""
    access = NetworkAccess.model_validate(copy.deepcopy(PLAIN) | overrides)
    log = Memory(unknown=None)
    setting = AccessContext(users, rounds, 0, Streams(seed), np.full(users, 20.0), BITS, BITS, log)
    return [*access.rounds(setting)], log


def lasted(rounds):
    """Return the time from the last delivery of each round to its close."""
    return np.array([each.closed_s - max(one.arrived_s for one in each.deliveries) for each in rounds])


class TestTime:
    def test_round_closes_after_the_last_answer(self):
        """The model comes to all at once; four answers follow each other on the air."""
        rounds, log = run_rounds(evaluation=EVALUATION)
        expected_s = DOWN_S + EVALUATE_S + USERS * ANSWER_S + ANSWER_BITS / 1e9
        assert lasted(rounds) == pytest.approx([expected_s] * 4, abs=1e-3)
        durations = [each.closed_s - each.opened_s for each in rounds]
        assert durations == pytest.approx([ROUND_S + expected_s] * 4, abs=1e-2)
        assert [each.opened_s for each in rounds[1:]] == [each.closed_s for each in rounds[:-1]]
        assert log.final_values["evaluations"] == 4
        assert log.final_values["evaluation_answers"] == 4 * USERS
        assert log.final_values["evaluation_missed"] == 0
        assert log.final_values["evaluation_s"] == pytest.approx(4 * expected_s, abs=1e-3)

    def test_without_answer_it_waits_for_the_computation(self):
        rounds, _ = run_rounds(evaluation={"samples": [30, 60, 90, 0]})
        assert lasted(rounds) == pytest.approx([DOWN_S + 3 * EVALUATE_S] * 4, abs=1e-3)

    def test_every_and_cost(self):
        rounds, log = run_rounds(rounds=7, evaluation={"samples": 30, "every": 3, "cost": 1.0})
        assert lasted(rounds) == pytest.approx([0, 0, DOWN_S + 3.0, 0, 0, DOWN_S + 3.0, 0], abs=1e-3)
        assert log.final_values["evaluations"] == 2

    def test_deadline_closes_the_round(self):
        evaluation = EVALUATION | {"samples": [30, 30, 3000, 30], "deadline": "2 s"}
        rounds, log = run_rounds(evaluation=evaluation)
        assert lasted(rounds) == pytest.approx([2.0] * 4)
        assert log.final_values["evaluation_answers"] == 4 * 3
        assert log.final_values["evaluation_missed"] == 4
        assert [len(each.deliveries) for each in rounds] == [USERS] * 4

    def test_rounds_themselves_stay_as_they_are(self):
        plain, _ = run_rounds()
        evaluated, _ = run_rounds(evaluation=EVALUATION)
        assert [[each.user for each in one.deliveries] for one in plain] == [
            [each.user for each in one.deliveries] for one in evaluated
        ]
        closed_s = np.array([each.closed_s - each.opened_s for each in evaluated]) - lasted(evaluated)
        assert closed_s == pytest.approx([each.closed_s - each.opened_s for each in plain])

    def test_share_is_a_number_of_users_drawn_each_time(self):
        _, log = run_rounds(users=10, rounds=200, evaluation={"samples": 30, "share": 0.3}, energy={"compute": 1})
        assert log.final_values["evaluation_answers"] == 200 * 3
        counts = log.spendings["evaluate_J"] / EVALUATE_S
        assert counts.sum() == pytest.approx(600)
        assert np.abs(counts - 60).max() < 4 * np.sqrt(200 * 0.3 * 0.7)

    def test_server_link_carries_models_and_answers(self):
        """Four models at 1 Mbit/s take 4 s; answers are updates of no size beside that."""
        rounds, log = run_rounds(evaluation=EVALUATION, server_link={"rate_down": "1 Mbps"})
        assert lasted(rounds) == pytest.approx([4.0 + DOWN_S + EVALUATE_S] * 4, abs=2e-3)
        total_s = rounds[-1].closed_s
        assert log.final_values["utilisation.server_link_down"] == pytest.approx(8 * 4.0 / total_s, rel=1e-3)

    @pytest.mark.parametrize("mode", ["multicast", "unicast"])
    def test_downlink_over_the_network(self, mode):
        downlink = {"mode": mode, "power": "30 dBm"}
        rounds, log = run_rounds(downlink=downlink, broadcast_rate=None, evaluation={"samples": 30})
        copies = USERS if mode == "unicast" else 1
        assert lasted(rounds) == pytest.approx([copies * AIR_S + WIRE_S + EVALUATE_S] * 4, abs=5e-3)
        assert log.final_values["evaluation_answers"] == 4 * USERS

    def test_old_deadline_of_the_round_ends_no_evaluation(self):
        """The round closes after 2.5 s, and its deadline of 3 s passes while users evaluate until 3.6 s."""
        plain = {"kind": "available", "deadline": "3 s"}
        rounds, log = run_rounds(round=plain, evaluation=EVALUATION)
        assert lasted(rounds) == pytest.approx([DOWN_S + EVALUATE_S] * 4, abs=2e-3)
        assert log.final_values["evaluation_answers"] == 4 * USERS


class TestBitsAndJoules:
    def test_models_and_answers_are_counted(self):
        rounds, _ = run_rounds(evaluation=EVALUATION)
        assert [each.downlink_bits for each in rounds] == [2 * BITS] * 4
        assert [each.uplink_bits for each in rounds] == [USERS * (BITS + ANSWER_BITS)] * 4

    def test_energy_of_evaluation_is_its_own(self):
        energy = {"compute": "8 W", "per_sample": "30 mJ", "receive": "2 W", "transmit": "1 W", "idle": "0.5 W"}
        rounds, log = run_rounds(evaluation=EVALUATION, energy=energy)
        values = log.final_values
        assert values["energy_evaluate_J"] == pytest.approx(4 * USERS * (8.0 * EVALUATE_S + 10 * 0.03))
        assert values["energy_train_J"] == pytest.approx(4 * USERS * (8.0 * 2.0 + 20 * 0.03))
        assert values["energy_receive_J"] == pytest.approx(2 * 4 * USERS * 2.0 * AIR_S)
        assert values["energy_send_J"] == pytest.approx(4 * USERS * (AIR_S + ANSWER_S))
        assert values["energy_idle_J"] == pytest.approx(0.5 * USERS * rounds[-1].closed_s)
        parts = [values[f"energy_{name}_J"] for name in ("train", "evaluate", "send", "receive", "idle")]
        assert values["energy_J"] == pytest.approx(sum(parts))
        assert rounds[-1].energy_j == pytest.approx(values["energy_J"])

    def test_battery_pays_or_the_user_misses(self):
        """3.3 rounds of 17 J: after three of them the battery has not enough for the next evaluation."""
        battery = {"kind": "battery", "capacity": "54 J", "initial": 1.0, "nodes": [0]}
        energy = {"compute": "8 W"}
        _, log = run_rounds(rounds=3, evaluation={"samples": 30}, energy=energy, outages=[battery])
        # trainings of 16 J and evaluations of 8 J: 24, 48, then 6 J of the third training
        assert log.spendings["evaluate_J"] == pytest.approx([16.0, 24.0, 24.0, 24.0])
        assert log.spendings["energy_J"][0] == pytest.approx(54.0)
        assert log.final_values["evaluation_missed"] == 1


class TestOutages:
    def test_disconnected_user_does_not_evaluate(self):
        outage = {"kind": "maintenance", "windows": [{"nodes": [1], "start": "2.55 s", "duration": "10 s"}]}
        rounds, log = run_rounds(rounds=2, evaluation=EVALUATION, outages=[outage])
        assert log.final_values["evaluation_missed"] >= 1
        assert lasted(rounds)[0] == pytest.approx(DOWN_S + EVALUATE_S, abs=2e-3)

    def test_user_that_is_gone_for_good_is_not_waited_for(self):
        """User 1 goes down while it evaluates, and never comes back with its answer."""
        outage = {"kind": "maintenance", "windows": [{"nodes": [1], "start": "3 s", "duration": "1000 day"}]}
        rounds, log = run_rounds(rounds=3, evaluation=EVALUATION, outages=[outage])
        assert log.final_values["evaluations"] == 3
        assert len(rounds) == 3

    def test_tower_that_is_down_ends_the_evaluation_at_once(self):
        outage = {"kind": "maintenance", "windows": [{"nodes": "towers", "start": "2.56 s", "duration": "3 s"}]}
        _, log = run_rounds(rounds=1, evaluation=EVALUATION, outages=[outage])
        assert log.final_values["evaluation_missed"] == USERS


def find_faults(**overrides):
    access = NetworkAccess.model_validate(copy.deepcopy(PLAIN) | overrides)
    facts = ScenarioFacts(users=USERS, rounds=5, sized=True)
    return {fault.key: fault for fault in nested_faults(access, "access", facts)}


class TestErrors:
    def test_list_of_other_length(self):
        faults = find_faults(evaluation={"samples": [1, 2]})
        assert "2 numbers for 4 users" in faults["access.evaluation.samples"].problem

    def test_continuous_rounds(self):
        faults = find_faults(evaluation=EVALUATION, round={"kind": "asynchronous"})
        assert "rounds have no end" in faults["access.evaluation"].problem

    def test_users_that_move(self):
        motion = {"kind": "random_waypoint", "speed": [1, 2], "radius": "1 km"}
        faults = find_faults(evaluation=EVALUATION, association="nearest_now", motion=motion)
        assert "stays at the tower" in faults["access.evaluation"].problem

    def test_answer_larger_than_a_frame(self):
        faults = find_faults(
            evaluation=EVALUATION | {"answer": "10 kB"},
            mac={"kind": "csma_ca", "standard": "802.11g", "rate": "24 Mbps"},
            radio=None,
            channel=[],
            reception=None,
        )
        assert "larger than a frame" in faults["access.evaluation.answer"].problem

    def test_defaults(self):
        spec = EvaluationRounds(samples=300)
        assert spec.work(3).tolist() == pytest.approx([100.0] * 3)
        assert [spec.count(users) for users in (1, 10)] == [1, 10]
        assert EvaluationRounds(samples=1, share=0.01).count(10) == 1
