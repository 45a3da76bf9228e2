"""F3AST: its rates beside those of the selection, and the largest weight after an absence."""

import numpy as np
import pytest
import torch

import netfl
from netfl.access.selection import RoundInfo, UserInfo
from netfl.access.selection.f3ast import F3ast as F3astSelection
from netfl.learning.aggregation import Updates
from netfl.learning.aggregation.f3ast import F3ast
from netfl.scenario.scenario import validate
from netfl.scenario.yaml_document import ScenarioDocument
from netfl.simulation.setup import prepare_run
from netfl.streams import Streams

USERS = 6
SAMPLES = np.array([10.0, 20.0, 30.0, 40.0, 50.0, 60.0])
CURRENT = torch.zeros(2, dtype=torch.float64)
NOW = torch.ones(2)


def updates(index, users):
    """Return updates with a change of 1."""
    count = len(users)
    zeros = torch.zeros(count, 2, dtype=torch.float64)
    users = torch.tensor(users)
    return Updates(index, users, users * 0, zeros, zeros + 1, zeros[:, 0] + 1, zeros[:, 0] + 1, zeros + 1, NOW)


def test_rates_equal_those_of_the_selection_if_the_selected_users_deliver():
    rng = np.random.default_rng(0)
    rule = F3ast(beta=0.02).with_examples(SAMPLES.astype(int))
    state = rule.open(USERS, CURRENT)
    selector = F3astSelection(m=2, beta=0.02).open(UserInfo(USERS, Streams(1), SAMPLES, np.ones(USERS)))
    share = SAMPLES / SAMPLES.sum()
    for index in range(1, 60):
        check_in = rng.random(USERS) < 0.3
        selected = selector.choose(RoundInfo(USERS, {"check_in": check_in, "samples": SAMPLES}, index))
        if selected.size:
            following, state = rule.step(state, CURRENT, updates(index, selected))
            expected = (share[selected] / selector._rate[selected]).sum()
            assert following.numpy() == pytest.approx(expected, rel=1e-12)
        else:
            _, state = rule.idle(state, CURRENT, index, NOW)
        assert state["rates"].numpy() == pytest.approx(selector._rate, rel=1e-12)


def test_an_absence_lifts_the_weight_to_the_share_over_beta_at_most():
    beta = 0.1
    rule = F3ast(beta=beta, weights="equal")
    state = rule.open(USERS, CURRENT)
    before = 0.0
    for index in range(1, 200):
        following, state = rule.step(state, CURRENT, updates(index, [0]))
        weight = rule.user_weights(state)[1].item() / USERS
        assert before < weight < 1 / USERS / beta
        before = weight
    assert weight == pytest.approx(1 / USERS / beta, rel=1e-6)
    assert following.tolist() == pytest.approx([1 / USERS] * 2)  # user 0 has a rate of 1


def test_several_deliveries_of_a_user_count_once_in_its_rate():
    rule = F3ast(beta=0.5, weights="equal")
    following, state = rule.step(rule.open(USERS, CURRENT), CURRENT, updates(1, [2, 2, 2]))
    rate = 0.5 / USERS + 0.5
    assert state["rates"].tolist() == pytest.approx([0.5 / USERS] * 2 + [rate] + [0.5 / USERS] * 3)
    assert following.tolist() == pytest.approx([3 / USERS / rate] * 2)


def test_a_user_without_examples_has_no_weight():
    rule = F3ast().with_examples(np.array([0, 5, 5]))
    state = rule.open(3, CURRENT)
    assert rule.user_weights(state)[0] == 0
    following, _ = rule.step(state, CURRENT, updates(1, [0]))
    assert following.tolist() == [0.0, 0.0]


@pytest.mark.slow
def test_a_selection_takes_the_users_of_the_largest_weights(tmp_path):
    """All users check in, and the selected ones deliver: p/r before a round, from the weights, decides on them."""
    beta = 0.05
    rule = {"kind": "f3ast", "beta": beta}
    learner = {"objective": "erm", "aggregation": rule, "lr": 0.1, "batch_size": 4, "local_steps": 2}
    selection = {"kind": "f3ast", "m": 2, "beta": beta, "observe": {"check_in": {}}}
    settings = {
        "name": "f3ast", "users": 8, "rounds": 40,
        "access": {"kind": "bernoulli", "probability": 1, "selection": selection},
        "data": {"kind": "blobs", "centers": [[0, 0], [3, 3], [0, 3]], "samples": 90}, "model": "logistic",
        "partition": {"kind": "dirichlet", "concentration": 0.3, "by": "mixes"}, "learners": {"F3AST": learner},
        "evaluate": {"every": 1, "metrics": ["weight"]},
    }  # fmt: skip
    scenario = validate(ScenarioDocument(settings, "f3ast"))
    (split,) = prepare_run(scenario).splits
    share = np.array([len(rows) for rows in split], float)
    share /= share.sum()
    assert len({*share}) > 3
    run = netfl.run(scenario, tmp_path / "run", device="cpu")
    rows = run.metrics.query("metric == 'weight' and group != ''")
    rates = share.copy()
    for index in range(1, 41):
        delivered = run.deliveries.query("round == @index")["user"].to_numpy()
        scores = share / rates
        assert len(delivered) == 2
        assert scores[delivered].min() >= np.delete(scores, delivered).max() * (1 - 1e-5)
        of_round = rows[rows["round"] == index].set_index("group")["value"]
        weights = np.array([of_round[f"user:{user}"] for user in range(8)])  # N p / ((1 - β) r + β)
        rates = (8 * share / weights - beta) / (1 - beta)
