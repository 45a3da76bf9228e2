"""Rules of a scenario: simulated arrivals, checks, and measured progress."""

import numpy as np
import pytest
from diagnosis.timeout.test_logs import SCENARIO

import netfl
from netfl.diagnosis.timeout import TimeoutOptions, TimeoutRule, Trial, advise_scenario, progress
from netfl.diagnosis.timeout.trials import ScenarioTrials, _choose, fit_progress
from netfl.errors import ScenarioError

LEARNING = {
    "data": {"kind": "blobs", "centers": [[0, 0], [3, 3], [0, 6], [-3, 3]], "samples": 240},
    "partition": "iid",
    "model": "logistic",
    "rounds": 60,
    "learners": {
        "FedAvg": {"objective": "erm", "aggregation": "average", "lr": 0.1, "batch_size": 4, "local_steps": 1}
    },
}


@pytest.mark.parametrize(("critical", "exponent"), [(6.0, 1.0), (40.0, 1.5)])
def test_progress_is_found_from_rounds_to_the_same_target(critical, exponent):
    """With c = 6, a round with 4 of 20 updates makes (4/10) / (20/26) of the progress of a full one."""
    trials = []
    for updates in (20, 10, 4, 2):
        made = progress(np.array([updates]), np.array([20]), critical, exponent)[0]
        rounds = np.round(np.array([900, 1000, 1100]) / made).astype(int)
        counts = [np.full(each, updates) for each in rounds]
        trials.append(Trial(TimeoutRule(1.0), np.ones(3), counts, 20, 0.0))
    missed = Trial(TimeoutRule(1.0), np.array([np.nan, 1.0, 1.0]), [np.full(7, 1)] * 3, 20, 0.0)
    found = fit_progress([*trials, missed], TimeoutOptions(quorum=0.5))
    assert found.critical == pytest.approx(critical, rel=0.15)
    assert found.exponent == exponent
    assert found.quorum == 0.5


def test_critical_number_is_0_if_fewer_updates_do_no_harm():
    trials = [Trial(TimeoutRule(1.0), np.ones(1), [np.full(50, updates)], 20, 0.0) for updates in (20, 2)]
    assert fit_progress(trials, TimeoutOptions()) == TimeoutOptions(critical=0.0)


def trial(deadline_s, times_s):
    return Trial(TimeoutRule(deadline_s), np.array(times_s), [np.full(10, 5)] * len(times_s), 20, 0.0)


def test_expected_rule_is_chosen_unless_another_is_faster_beyond_chance():
    slow = trial(100.0, [50.0, 60.0, 70.0, 80.0])
    expected = trial(10.0, [20.0, 31.0, 22.0, 33.0])
    by_chance = trial(8.0, [21.0, 24.0, 25.0, 26.0])
    missed = trial(5.0, [1.0, 1.0, np.nan, 1.0])
    trials = [slow, expected, by_chance, missed]
    assert _choose(trials, TimeoutRule(10.2)) is expected
    assert _choose(trials, TimeoutRule(100.0)) is by_chance
    assert _choose(trials, TimeoutRule(5.0)) is by_chance
    assert _choose(trials, TimeoutRule(50.0)) is by_chance
    assert _choose(trials, None) is by_chance


def test_users_that_the_server_does_not_select_do_not_count():
    scenario = netfl.load(SCENARIO, {"access.selection": {"kind": "uniform", "m": 3}})
    arrivals = ScenarioTrials(scenario, 8).arrivals(TimeoutRule(3600.0))
    assert set(arrivals.sizes) == {3}
    assert len(arrivals.arrived_s) == 3 * arrivals.rounds
    assert len(arrivals.names) == 4 * 6


@pytest.mark.slow
def test_check_by_simulation_agrees_with_the_advice():
    found = advise_scenario(netfl.load(SCENARIO), rounds=200)
    assert found.checked_s == pytest.approx(found.advice.best.time_s, rel=0.05)
    assert found.round == {"kind": "quorum", "quorum": found.rule.quorum, "deadline": found.rule.deadline_s}
    assert found.max_attempts == found.advice.max_attempts
    unknown = {"access.round.losses": "unknown", "access.mac.max_attempts": 9}
    found = advise_scenario(netfl.load(SCENARIO, unknown), TimeoutOptions(quorum=1.0), rounds=40)
    assert found.round["losses"] == "unknown"
    assert found.max_attempts is None  # the MAC has a limit already


@pytest.mark.slow
def test_target_accuracy_is_measured_under_a_few_rules():
    scenario = netfl.load({**SCENARIO, **LEARNING})
    steps = []
    found = advise_scenario(scenario, rounds=100, accuracy=0.8, on_trial=steps.append)
    assert 2 <= len(found.trials) <= 5
    assert found.chosen in found.trials
    assert found.chosen.estimate.mean < found.trials[0].estimate.mean
    assert len(steps) == len(found.trials) + 2
    assert found.rule == found.chosen.rule
    with pytest.raises(ScenarioError, match=r"accuracy: not reached by all replicas in 2 rounds.*at best.*lower it"):
        advise_scenario(scenario.at({"rounds": 2}), rounds=20, accuracy=1.0)
    with pytest.raises(ScenarioError, match="accuracy: the model has it before it is trained"):
        advise_scenario(scenario, rounds=20, accuracy=0.01)


@pytest.mark.parametrize(
    ("changes", "key", "problem"),
    [
        ({"access": {"kind": "bernoulli", "probability": 0.5}}, "access.kind", "no network"),
        ({"access.round": {"kind": "asynchronous"}}, "access.round.kind", "do not wait for rounds"),
        ({}, "learners", "no learners"),
    ],
)
def test_scenarios_without_deadlines_are_refused(changes, key, problem):
    with pytest.raises(ScenarioError, match=problem) as raised:
        advise_scenario(netfl.load(SCENARIO, changes), accuracy=0.5)
    assert [fault.key for fault in raised.value.faults] == [key]
