"""FedStale: its limits, rounds without deliveries, and where its probabilities and shares come from."""

import numpy as np
import pandas as pd
import pytest
import torch
from support.learner_factory import SPLIT, USERS, a_round, learner, spec
from support.stop_run import StopAfter
from support.tiny_scenarios import TINY

import netfl
from netfl.errors import ScenarioError
from netfl.learning.aggregation import Updates
from netfl.learning.aggregation.fedau import Fedau
from netfl.learning.aggregation.fedstale import Fedstale
from netfl.learning.aggregation.fedvarp import Fedvarp
from netfl.learning.aggregation.known_participation import KnownParticipation
from netfl.learning.objective.cvar import Cvar
from netfl.learning.weight_probe import probe_aggregation
from netfl.scenario.scenario import validate
from netfl.scenario.yaml_document import ScenarioDocument

P = (0.9, 0.5, 0.05, 0.3)
FIRST_PAIRS = [[(0, 0), (3, 0)], [], [(1, 2), (1, 0)], [(2, 3), (0, 1)]]
PAIRS = [*FIRST_PAIRS, [], [(3, 2), (3, 2)], [(1, 6), (0, 3)], [(2, 4), (3, 7)]]
"""Two deliveries, or none, in each round: stale ones, repeated ones, and a user that comes late."""
TRACE = [*PAIRS, [(0, 8)], [(1, 9), (2, 9), (3, 9), (1, 5)]]


def versions(rules, trace, objective=None):
    """Return the versions of a learner with each rule, ``[rounds, parameters + 1]``."""
    specs = {str(number): spec(objective, rule) for number, rule in enumerate(rules)}
    batched = learner(specs, rounds=len(trace))
    batched.start()
    results = []
    for index, deliveries in enumerate(trace, start=1):
        batched.step([a_round(index, *deliveries)])
        results.append([batched.version(lane) for lane in range(len(specs))])
    return np.swapaxes(results, 0, 1)


@pytest.mark.parametrize("objective", [None, Cvar(alpha=0.3, gamma=0.1, lr_t=0.1)], ids=str)
@pytest.mark.parametrize("empty_round", ["move", "keep"])
def test_the_whole_memory_with_the_share_of_deliveries_is_fedvarp(objective, empty_round):
    """Two of four users are delivered: p_k = |S|/N = 1/2."""
    rule = Fedstale(beta=1, probability=(0.5,) * USERS, weights="equal", empty_round=empty_round, server_lr=0.8)
    found, expected = versions([rule, Fedvarp(empty_round=empty_round, server_lr=0.8)], PAIRS, objective)
    assert found == pytest.approx(expected, rel=1e-11, abs=1e-13)


@pytest.mark.parametrize(
    ("probability", "other"),
    [(P, KnownParticipation(probability=P, server_lr=0.3)), ("estimated", Fedau(server_lr=0.3))],
    ids=["known", "estimated"],
)
def test_without_memory_it_is_inverse_participation(probability, other):
    rule = Fedstale(beta=0, probability=probability, weights="equal", server_lr=0.3)
    found, expected = versions([rule, other], TRACE)
    assert found == pytest.approx(expected, rel=1e-11, abs=1e-13)


def test_the_mean_move_does_not_depend_on_beta():
    """Over all 2^N sets of users that may participate, by their probabilities, also the empty one."""
    rng = np.random.default_rng(0)
    alpha = np.array([0.1, 0.4, 0.3, 0.2])
    changes, remembered = torch.tensor(rng.standard_normal((2, USERS, 3)))
    current = torch.zeros(3, dtype=torch.float64)
    ones = torch.ones(USERS, dtype=torch.float64)

    def updates(users, moves):
        bases = current.expand(len(users), -1)
        rates = torch.ones(len(users), 2)
        count = len(users)
        return Updates(2, users, 0 * users, bases, moves[users], ones[:count], ones[:count], rates, rates[0])

    for beta in (0.0, 0.3, 1.0):
        rule = Fedstale(beta=beta, probability=P, weights=tuple(alpha))
        mean = 0.0
        for bits in range(2**USERS):
            users = torch.tensor([user for user in range(USERS) if bits >> user & 1], dtype=torch.int64)
            chance = np.prod([p if bits >> user & 1 else 1 - p for user, p in enumerate(P)])
            _, state = rule.step(rule.open(USERS, current), current, updates(torch.arange(USERS), remembered))
            if len(users):
                following, _ = rule.step(state, current, updates(users, changes))
            else:
                following, _ = rule.idle(state, current, 2, ones[:2])
            mean = mean + chance * following.numpy()
        assert mean == pytest.approx(alpha @ changes.numpy(), abs=1e-12)


def test_weights_by_size_are_those_of_the_users_examples():
    by_size = Fedstale(probability=P)
    listed = Fedstale(probability=P, weights=tuple(float(len(rows)) for rows in SPLIT))
    equal = Fedstale(probability=P, weights="equal")
    found, expected, other = versions([by_size, listed, equal], TRACE)
    assert np.array_equal(found, expected)
    assert not np.allclose(found, other)


@pytest.mark.parametrize("probability", [P, "estimated"])
def test_user_weights_scale_the_next_change(probability):
    """A change that is longer by d moves the version farther by η/N times the weight times d, beside the memory."""
    rule = Fedstale(probability=probability, weights=(3, 1, 2, 4))
    current = torch.zeros(3, dtype=torch.float64)
    ones = torch.ones(1, dtype=torch.float64)
    rates = torch.ones(1, 2)

    def step(state, index, user, change):
        users = torch.tensor([user])
        bases = current[None]
        return rule.step(
            state, current, Updates(index, users, 0 * users, bases, bases + change, ones, ones, rates, rates[0])
        )

    def after_some_rounds():
        state = rule.open(USERS, current)
        for index, user in enumerate([0, 1, 1, 3], start=1):
            _, state = step(state, index, user, 0.5)
            _, state = rule.idle(state, current, index, rates[0])
        return state

    weights = rule.user_weights(after_some_rounds())
    for user in range(USERS):
        near, far = (step(after_some_rounds(), 9, user, change)[0] for change in (1.0, 3.0))
        assert (far - near).tolist() == pytest.approx([2 * weights[user].item() / USERS] * 3)


@pytest.mark.parametrize("probability", [P, "estimated"])
def test_the_whole_memory_has_the_largest_weight_of_the_server_step(probability):
    rule = Fedstale(beta=1, probability=probability, weights=(3, 1, 2, 4), server_lr=0.7)
    probed = probe_aggregation(rule, USERS, 2)
    assert rule.largest_weight(USERS, 2) == 0.7
    assert probed.is_proportional
    assert probed.largest == pytest.approx(0.7)


def scenario(rule, access):
    one = TINY["learners"]["one"] | {"aggregation": rule}
    evaluate = {"every": 2, "metrics": ["weight"]}
    changes = {"access": access, "learners": {"one": one}, "evaluate": evaluate}
    return validate(ScenarioDocument(TINY | changes, "stale"))


@pytest.mark.slow
@pytest.mark.parametrize("rule", ["fedstale", "fedavgm"])
def test_known_probabilities_are_those_of_the_access(rule, tmp_path):
    p = [0.9, 0.8, 0.5, 0.5, 0.4, 0.2]
    options = {"kind": "fedstale", "probability": "known", "weights": "equal"}
    if rule == "fedavgm":
        options = {"kind": "fedavgm", "inner": options}
    run = netfl.run(scenario(options, {"kind": "bernoulli", "probability": p}), tmp_path / "run", device="cpu")
    rows = run.metrics.query("metric == 'weight' and round == 4 and group != ''")
    weights = dict(zip(rows["group"], rows["value"], strict=True))
    assert [weights[f"user:{user}"] for user in range(6)] == pytest.approx(1 / np.array(p), rel=1e-6)


@pytest.mark.slow
def test_a_resumed_run_equals_one_without_a_stop(tmp_path):
    """In all bits, for FedStale and F3AST beside each other."""
    learners = {}
    for rule in ("fedstale", "f3ast"):
        learners[rule] = TINY["learners"]["one"] | {"aggregation": rule}
    access = {"kind": "bernoulli", "probability": {"zipf": 0.7}}
    changes = {"rounds": 12, "replicas": 2, "access": access, "learners": learners, "evaluate": {"every": 2}}
    document = validate(ScenarioDocument(TINY | changes, "stale"))
    whole = netfl.run(document, tmp_path / "whole", device="cpu")
    netfl.run(document, tmp_path / "stopped", device="cpu", observer=StopAfter(5))
    resumed = netfl.resume(tmp_path / "stopped", device="cpu")
    pd.testing.assert_frame_equal(whole.table("metrics"), resumed.table("metrics"), check_exact=True)


@pytest.mark.parametrize(
    ("options", "access", "key", "problem"),
    [
        (
            {"probability": "known"},
            {"kind": "bernoulli", "probability": 0.5, "deliveries": 2},
            "probability",
            "this access does not state the participation rate of each user",
        ),
        ({"probability": [0.5, 0.2]}, "bernoulli", "probability", "2 probabilities for 6 users"),
        ({"weights": [1, 2, 3]}, "bernoulli", "weights", "3 weights for 6 users"),
    ],
)
def test_values_for_other_users_are_errors(options, access, key, problem):
    if access == "bernoulli":
        access = {"kind": "bernoulli", "probability": 0.5}
    with pytest.raises(ScenarioError) as error:
        scenario({"kind": "fedstale", **options}, access)
    (fault,) = error.value.faults
    assert fault.key == f"learners.one.aggregation.{key}"
    assert fault.problem == problem


@pytest.mark.parametrize(
    "options",
    [{"beta": -0.1}, {"beta": 1.1}, {"weights": [1, 0]}, {"probability": [0.0]}, {"probability": "true"}],
)
def test_invalid_settings_are_errors(options):
    with pytest.raises(ScenarioError):
        Fedstale(**options)


def test_what_is_not_known_is_an_error_of_the_outer_rule():
    with pytest.raises(ValueError, match="must forward the call to 'with_examples'"):
        Fedstale().open(USERS, torch.zeros(3))
    with pytest.raises(ValueError, match="must forward the call to 'with_participation'"):
        Fedstale(weights="equal", probability="known").open(USERS, torch.zeros(3))
