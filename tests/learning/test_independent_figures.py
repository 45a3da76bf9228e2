"""Metrics of lanes, compared with counts and calculations in this file."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from learning.test_independent_lanes import CLASSES, MODELS, ROUNDS, RandomSetup, dataset, run_rounds
from support.learner_factory import a_round, learning_task

from netfl.learning.aggregation.afl import Afl
from netfl.learning.aggregation.average import Average
from netfl.learning.aggregation.relay import Relay
from netfl.learning.aggregation.scaffold import Scaffold
from netfl.learning.data import Dataset, Examples
from netfl.learning.learner import BatchedLearner
from netfl.learning.model.logistic import Logistic
from netfl.learning.model_selection import ModelSelection
from netfl.learning.objective.cvar import Cvar
from netfl.learning.objective.erm import Erm
from netfl.learning.objective.proximal import Proximal
from netfl.learning.performance import UserPerformance, accuracy_spread
from netfl.learning.schedule.halving import Halving
from netfl.learning.schedule.step import Step
from netfl.learning.spec import ChoiceSpec, EvaluateSpec, LearnerSpec
from netfl.learning.validation_split import split_validation
from netfl.streams import Streams

PLAIN = LearnerSpec(objective=Erm(), aggregation=Average(), lr=0.1, batch_size=4, local_steps=3)


def make_learner(specs, users=3, rounds=4, seed=1, every=1, **changes):
    rng = np.random.default_rng(seed)
    data = dataset(rng, "logistic", (3,))
    task = {
        "learners": specs,
        "model": Logistic(),
        "datasets": [data],
        "splits": [np.array_split(np.arange(60), [9, 31, 40, 52][: users - 1])],
        "evaluate": EvaluateSpec(every=every),
        "rare_classes": (),
        "rounds": rounds,
        "streams": [Streams(seed)],
        "device": "cpu",
        "dtype": torch.float64,
    }
    return BatchedLearner(learning_task(**(task | changes))), data, task["splits"][0]


@pytest.mark.quick_first
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_single_user_has_no_weight_divergence(name, dtype):
    setup = RandomSetup(61, name)
    setup.replicas = 1
    setup.splits = [[np.random.default_rng(3).permutation(60)[:37]]]
    validation = setup.validation[0]
    setup.validation = [Examples(validation.x, validation.y, validation.user * 0)]
    options = {"momentum": 0.5, "weight_decay": 0.1, "schedule": Halving(every=2)}
    setup.specs = {
        "plain": PLAIN,
        "cvar": PLAIN.model_copy(update={"objective": Cvar(alpha=0.3, gamma=0.2, lr_t=0.1), **options}),
        "near": PLAIN.model_copy(update={"objective": Proximal(mu=0.5), "aggregation": Relay()}),
    }
    setup.rounds = [[a_round(index, (0, index - 1)) for index in range(1, ROUNDS + 1)]]
    for metrics, _ in run_rounds(setup, setup.learner(dtype=dtype)):
        for metric, values in metrics.items():
            if metric.startswith("weight_divergence"):
                assert values.tolist() == [0.0] * 3, metric


def test_single_users_of_replicas_diverge_only_by_rounding():
    """Twins of replicas of different sizes train in one batch, which changes the last bits."""
    setup = RandomSetup(51, "mlp")
    setup.replicas, rng = 3, np.random.default_rng(0)
    setup.data = [setup.data[0]] * 3
    setup.splits = [[rng.permutation(60)[:size]] for size in (41, 7, 23)]
    validation = setup.validation[0]
    setup.validation = [Examples(validation.x, validation.y, validation.user * 0)] * 3
    setup.streams = [Streams(51).at(replica) for replica in range(3)]
    setup.specs = {"a": PLAIN.model_copy(update={"local_steps": None, "local_epochs": 2})}
    setup.rounds = [[a_round(index, (0, index - 1)) for index in range(1, ROUNDS + 1)]] * 3
    for metrics, _ in run_rounds(setup, setup.learner()):
        for metric, values in metrics.items():
            if metric.startswith("weight_divergence"):
                assert values.max() < 1e-12, metric


@pytest.mark.parametrize("known_users", [1, 4, 9, 10, 12, 19, 20, 57])
def test_worst_and_best_tenths_round_down_to_at_least_one_user(known_users):
    rng = np.random.default_rng(known_users)
    accuracy, is_known = rng.random((2, 60)), rng.permutation(60) < known_users
    metrics = dict(accuracy_spread(UserPerformance({"accuracy": accuracy}, np.broadcast_to(is_known * 5.0, (2, 60)))))
    for lane in range(2):
        users = sorted(accuracy[lane][is_known])
        tenth = max(1, int(known_users / 10))
        assert metrics["accuracy_users_worst10"][lane] == pytest.approx(sum(users[:tenth]) / tenth)
        assert metrics["accuracy_users_best10"][lane] == pytest.approx(sum(users[-tenth:]) / tenth)
        assert metrics["accuracy_users_mean"][lane] == pytest.approx(sum(users) / known_users)
        assert metrics["accuracy_users_variance"][lane] == pytest.approx(np.var(users))


def test_two_deliveries_of_a_user_count_twice_in_the_objective():
    """The shares ρ of deliveries are 3, 1 and 0 of 4. Each user has one label."""
    batched, data, _ = make_learner({"a": PLAIN})
    split = [np.flatnonzero(data.train_y == label) for label in range(CLASSES)]
    batched, _, _ = make_learner({"a": PLAIN}, splits=[split])
    batched.step([a_round(1, (0, 0), (0, 0), (1, 0))])
    metrics = batched.step([a_round(2, (0, 1))]).metrics
    loss = [metrics[f"loss/user:{user}"][0] for user in range(3)]
    assert metrics["objective"][0] == pytest.approx(0.75 * loss[0] + 0.25 * loss[1], rel=1e-12)


def test_a_diverged_lane_ignores_later_updates():
    """Later updates would be finite, but the version stays constant, also after a restart."""
    wild = PLAIN.model_copy(update={"lr": 1e308, "schedule": Step(milestones=(1,), factor=1e-309)})
    (batched, _, _), (restored, _, _) = (make_learner({"calm": PLAIN, "wild": wild}) for _ in range(2))
    before = batched.version(1)
    batched.step([a_round(1, (0, 0), (2, 0))])
    assert [(lost.learner, lost.round) for lost in batched.diverged] == [("wild", 1)]
    restored.restore(batched.state())
    for learner in (batched, restored):
        for index in (2, 3):
            metrics = learner.step([a_round(index, (1, index - 1))]).metrics
        assert np.array_equal(learner.version(1), before)
        assert np.isnan(metrics["accuracy"]).tolist() == [False, True]
        assert [(lost.learner, lost.round) for lost in learner.diverged] == [("wild", 1)]
    assert np.array_equal(batched.version(0), restored.version(0))


def test_validation_examples_are_not_training_examples():
    rng = np.random.default_rng(4)
    x = np.arange(50, dtype=np.float32)[:, None]
    data = Dataset(x, rng.integers(2, size=50), x[:4], np.array([0, 1, 0, 1]), 2)
    split = np.array_split(rng.permutation(50)[:47], [9, 13, 30])
    trained, validation = split_validation(EvaluateSpec(validation=0.3), data, split, Streams(2))
    for user, rows in enumerate(split):
        validation_rows = validation.x[validation.user == user, 0].astype(int)
        assert len(validation_rows) == int(0.3 * len(rows))
        assert sorted([*validation_rows, *trained[user]]) == sorted(rows)
        assert np.array_equal(validation.y[validation.user == user], data.train_y[validation_rows])


def test_accuracies_count_the_predictions():
    setup = RandomSetup(2)
    setup.specs["near"] = PLAIN
    batched = setup.learner()
    metrics = run_rounds(setup, batched)[-1][0]
    compared = 0
    for lane, (name, replica) in enumerate(batched.lanes):
        if not isinstance(setup.specs[name].aggregation, Afl):  # AFL reports the mean of its versions
            data, compared = setup.data[replica], compared + 1
            correct = batched.predict(lane, data.test_x) == data.test_y
            assert metrics["accuracy"][lane] == pytest.approx(correct.mean())
            for label in range(CLASSES):
                has_label = data.test_y == label
                assert metrics[f"accuracy/class:{label}"][lane] == pytest.approx(correct[has_label].mean())
    assert compared


@pytest.mark.parametrize("by", ["validation_accuracy", "validation_loss"])
def test_ties_select_the_first_learner(by):
    lanes, order = [(name, 0) for name in "abc"], ("c", "b", "a")
    metrics = {
        **{name: np.array([0.5, 0.5, 0.5]) for name in ("accuracy", "loss", "validation_accuracy", "validation_loss")},
        **{
            f"{name}/user:{user}": np.array([0.2, 0.4, 0.4] if name == "validation_accuracy" else [0.4, 0.2, 0.2])
            for name in ("accuracy", "loss", "validation_accuracy", "validation_loss")
            for user in range(2)
        },
    }
    choices = {"own": ChoiceSpec(learners=order, by=by, per="user")}
    found = ModelSelection(choices, lanes, [np.ones(2)]).extend_metrics(metrics)
    assert [found[f"chosen/user:{user}"][3] for user in range(2)] == [0, 0]


def test_training_at_the_broadcast_equals_training_at_the_delivery(monkeypatch):
    """Compute each update of SCAFFOLD right after the broadcast of its base, with the server's message of that round.

    No user has two outstanding updates, so each update uses the user's current control variate.
    """
    spec = LearnerSpec(
        objective=Cvar(alpha=0.5, gamma=0.2, lr_t=0.05),
        aggregation=Scaffold(server_lr=0.9),
        schedule=Halving(every=2),
        lr=0.1,
        batch_size=5,
        local_epochs=2,
    )
    rounds = [[(0, 0)], [(2, 0), (0, 1)], [], [(1, 0), (2, 2)], [(0, 2), (1, 4)], [(2, 4)]]
    lazy, eager = (make_learner({"a": spec}, rounds=6)[0] for _ in range(2))
    trained, expected = [], {}
    step = Scaffold.step

    def recording_step(self, state, current, updates):
        trained.extend(zip(updates.users.tolist(), updates.base_rounds.tolist(), updates.models.clone(), strict=True))
        return step(self, state, current, updates)

    monkeypatch.setattr(Scaffold, "step", recording_step)
    for index, deliveries in enumerate(rounds):
        for user in range(3):
            eager.restore(copy.deepcopy(lazy.state()))
            eager.step([a_round(index + 1, (user, index))])
            _, _, expected[user, index] = trained.pop()
        lazy.step([a_round(index + 1, *deliveries)])
    assert [update[:2] for update in trained] == [update for deliveries in rounds for update in deliveries]
    for user, base, model in trained:
        assert torch.allclose(model, expected[user, base], rtol=1e-12, atol=1e-14), (user, base)
