"""Labels that users give: whatever reads a label of a user reads the one that this user gives.

The references are models that are trained on labels swapped by hand, and counts in this file.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from support.learner_factory import a_round, learning_task

import netfl
from netfl.learning.blocks import Block, Concepts
from netfl.learning.data import Dataset
from netfl.learning.evaluation_sets import on_validation
from netfl.learning.learner import BatchedLearner
from netfl.learning.validation_split import split_validation
from netfl.scenario.scenario import load
from netfl.simulation.learners import build_learner, open_session
from netfl.simulation.setup import prepare_run

SCENARIO = """
name: concepts
users: 6
rounds: 4
replicas: 2
seed: 5
precision: float64
access: {kind: bernoulli, probability: {zipf: 0.3}}
data: {kind: digits, test_share: 0.4}
partition:
  kind: blocks
  by: prerun
  blocks:
    remote: {users: 1, classes: [9]}
    dialect: {users: 2, relabel: {3: 5, 5: 3, 7: 0}}
model: logistic
learners:
  average: {objective: erm, aggregation: average, lr: 0.1, batch_size: 16, local_epochs: 2}
  fair: {objective: erm, aggregation: {kind: qfedavg, q: 2}, lr: 0.1, batch_size: 16, local_epochs: 1}
evaluate: {every: 2, validation: 0.3, metrics: [validation, gradient_norm, weight_divergence]}
"""
RELABEL = {3: 5, 5: 3, 7: 0}


@pytest.fixture(scope="module")
def setup():
    return prepare_run(load(SCENARIO))


def given_labels(setup, replica):
    """Return the training labels of one replica, swapped by hand at the users of the dialect."""
    labels = np.array(setup.dataset.data_y)  # of the data
    (dialect,) = [block for block in setup.datasets[replica].blocks if block.name == "dialect"]
    held = [*setup.splits[replica]]
    for user in dialect.users.tolist():
        own = np.concatenate([held[user], held_for_validation(setup, replica, user)])
        labels[own] = [RELABEL.get(label, label) for label in labels[own].tolist()]
    return labels


def held_for_validation(setup, replica, user):
    """Return the rows of a user that are validation examples, found by their pixels."""
    examples = setup.validation[replica]
    rows = {row.tobytes(): number for number, row in enumerate(setup.dataset.train_x)}
    return np.array([rows[x.tobytes()] for x in examples.x[examples.user == user]], np.int64)


def run_rounds(learner):
    """Return the metrics at the start and after each evaluation of some rounds of both replicas, and all versions."""
    reports = [learner.start()]
    reports += [learner.step([a_round(1, (0, 0), (3, 0), (5, 0)), a_round(1, (1, 0), (4, 0))])]
    reports += [learner.step([a_round(2, (2, 1), (1, 1)), a_round(2, (0, 1), (5, 1), (2, 0))])]
    reports += [learner.step([a_round(3, (4, 2), (5, 2)), a_round(3, (3, 2))])]
    reports += [learner.step([a_round(4, *((user, 3) for user in range(6))) for _ in range(2)])]
    return [dict(report.metrics) for report in reports if report.metrics], [
        learner.version(lane) for lane in range(len(learner.lanes))
    ]


def test_replicas_rank_other_users_last(setup):
    """So that the labels of the replicas differ, and with them the places of labels behind those of examples."""
    assert setup.datasets[0].train_x is setup.datasets[1].train_x
    assert setup.datasets[0].blocks[1].users.tolist() != setup.datasets[1].blocks[1].users.tolist()


def test_training_data_have_the_labels_of_their_users(setup):
    for replica in range(2):
        assert setup.datasets[replica].train_y.tolist() == given_labels(setup, replica).tolist()
        counts = np.stack([setup.users(replica)[f"class:{label}"] for label in range(10)], axis=1)
        for user, rows in enumerate(setup.splits[replica]):
            expected = np.bincount(given_labels(setup, replica)[rows], minlength=10)
            assert counts[user].tolist() == expected.tolist()
        validation = setup.validation[replica]
        for user in range(6):
            rows = held_for_validation(setup, replica, user)
            assert validation.y[validation.user == user].tolist() == given_labels(setup, replica)[rows].tolist()
            assert validation.data_y[validation.user == user].tolist() == setup.dataset.data_y[rows].tolist()


def test_models_train_as_on_labels_swapped_by_hand(setup):
    """Local training, q-FedAvg's losses of users, the central model of the divergence, and the norm of the gradient."""
    metrics, versions = run_rounds(build_learner(setup, "cpu"))
    plain = [
        Dataset(data.train_x, given_labels(setup, replica), data.test_x, data.test_y, data.classes)
        for replica, data in enumerate(setup.datasets)
    ]
    learner = BatchedLearner(
        learning_task(
            learners=setup.scenario.learners,
            model=setup.scenario.model,
            datasets=plain,
            splits=setup.splits,
            streams=[setup.scenario.streams_of(replica).at("learning") for replica in range(2)],
            validation=[replace(examples, data_y=None) for examples in setup.validation],
            evaluate=setup.scenario.evaluation,
            rare_classes=(9,),
            rounds=4,
            device="cpu",
            dtype=torch.float64,
        )
    )
    expected_metrics, expected_versions = run_rounds(learner)
    np.testing.assert_array_equal(versions, expected_versions)
    for found, expected in zip(metrics, expected_metrics, strict=True):
        shared = [name for name in expected if name.startswith(("validation", "gradient", "weight"))]
        assert len(shared) > 15
        for name in shared:
            np.testing.assert_allclose(found[name], expected[name], rtol=1e-12, err_msg=name)
        for name in ("accuracy", "loss", "rare_accuracy", *(f"accuracy/class:{label}" for label in range(10))):
            np.testing.assert_array_equal(found[name], expected[name])  # on the labels of the data
    without = run_rounds(build_learner(replace(setup, datasets=[without_concepts(each) for each in setup.datasets])))
    assert not np.allclose(versions, without[1])


def without_concepts(dataset):
    return replace(dataset, train_y=dataset.data_y, data_y=None, blocks=(), concepts=None)


def scores(version, x):
    """Return the outputs of a logistic model, from its parameters."""
    weights = version[: 64 * 10].reshape(10, 64)
    return x.reshape(len(x), 64).astype(float) @ weights.T + version[640:650]


def performance(version, x, labels):
    """Return accuracy and cross-entropy of each example."""
    outputs = scores(version, x)
    log = outputs - np.log(np.exp(outputs - outputs.max(1, keepdims=True)).sum(1, keepdims=True))
    log -= outputs.max(1, keepdims=True)
    return outputs.argmax(1) == labels, -log[np.arange(len(labels)), labels]


def expected_metrics(setup, replica, version, x, y):
    """Return the metrics of one model that depend on users, from the test examples *x* of labels *y* in the data."""
    data_y = setup.dataset.data_y
    dialect = setup.datasets[replica].blocks[1].users.tolist()
    accuracies, losses, sizes = [], [], []
    for user, rows in enumerate(setup.splits[replica]):
        given = np.array([RELABEL.get(label, label) for label in y.tolist()]) if user in dialect else y
        right, loss = performance(version, x, given)
        mix = np.bincount(data_y[rows], minlength=10) / len(rows)
        by_class = np.array([[right[y == label].mean(), loss[y == label].mean()] for label in range(10)])
        accuracy, mean_loss = mix @ by_class
        accuracies.append(accuracy)
        losses.append(mean_loss)
        sizes.append(len(rows))
    accuracies, losses, sizes = np.array(accuracies), np.array(losses), np.array(sizes)
    remote = setup.datasets[replica].blocks[0].users.tolist()
    members = {"remote": remote, "dialect": dialect, "others": sorted({*range(6)} - {*remote, *dialect})}
    found = {"accuracy_users_mean": accuracies.mean(), "accuracy_users_worst10": accuracies.min()}
    found |= {f"accuracy/user:{user}": value for user, value in enumerate(accuracies)}
    found |= {f"loss/user:{user}": value for user, value in enumerate(losses)}
    for name, users in members.items():
        found[f"accuracy/block:{name}"] = np.average(accuracies[users], weights=sizes[users])
        found[f"loss/block:{name}"] = np.average(losses[users], weights=sizes[users])
    return found


def test_metrics_of_users_and_blocks_have_their_labels(setup):
    metrics, versions = run_rounds(build_learner(setup, "cpu"))
    for lane, version in enumerate(versions):
        replica = lane % 2
        for name, value in expected_metrics(
            setup, replica, version, setup.dataset.test_x, setup.dataset.test_y
        ).items():
            assert metrics[-1][name][lane] == pytest.approx(value, rel=1e-9), name
    assert metrics[-1]["accuracy/block:dialect"][0] != metrics[-1]["accuracy/block:others"][0]


def test_the_objective_is_that_of_the_losses_of_users(setup):
    metrics, versions = run_rounds(build_learner(setup, "cpu"))
    deliveries = np.array([[2, 2, 2, 2, 2, 3], [2, 2, 2, 2, 2, 2]])
    for replica in range(2):
        known = expected_metrics(setup, replica, versions[replica], setup.dataset.test_x, setup.dataset.test_y)
        losses = np.array([known[f"loss/user:{user}"] for user in range(6)])
        expected = np.average(losses, weights=deliveries[replica])
        assert metrics[-1]["objective"][replica] == pytest.approx(expected, rel=1e-9)


def test_validation_examples_in_place_of_test_examples_have_the_labels_of_users():
    """As in the passes of a tuning: `accuracy` has the labels of the data there, too."""
    setup = prepare_run(load(SCENARIO, {"evaluate.on": "validation", "evaluate.metrics": ["gradient_norm"]}))
    metrics, versions = run_rounds(build_learner(setup, "cpu"))
    for lane, version in enumerate(versions):
        replica = lane % 2
        examples = setup.validation[replica]
        for name, value in expected_metrics(setup, replica, version, examples.x, examples.data_y).items():
            assert metrics[-1][name][lane] == pytest.approx(value, rel=1e-9), name
        right, loss = performance(version, examples.x, examples.data_y)
        assert metrics[-1]["accuracy"][lane] == pytest.approx(right.mean(), rel=1e-9)
        assert metrics[-1]["loss"][lane] == pytest.approx(loss.mean(), rel=1e-9)


def test_further_test_sets_have_the_labels_of_users():
    changes = {"data.test_share": 0.3, "evaluate.sets": {"more": {"test_share": 0.5}}, "evaluate.metrics": []}
    setup = prepare_run(load(SCENARIO, changes))
    metrics, versions = run_rounds(build_learner(setup, "cpu"))
    more = setup.dataset.test_sets["more"]
    for lane, version in enumerate(versions):
        for name, value in expected_metrics(setup, lane % 2, version, more.x, more.y).items():
            metric, slash, group = name.partition("/")
            assert metrics[-1][f"{metric}@more{slash}{group}"][lane] == pytest.approx(value, rel=1e-9), name


def test_users_with_test_examples_of_their_own_judge_them_by_their_labels():
    rng = np.random.default_rng(3)
    x, y, user = rng.standard_normal((90, 2)).astype(np.float32), rng.integers(3, size=90), np.repeat(np.arange(3), 30)
    data = Dataset(x[:60:], y[:60], x[60:], y[60:], 3, user[:60] * 0 + np.arange(60) % 3, np.arange(30) % 3)
    split = [np.flatnonzero(data.train_user == number) for number in range(3)]
    held = data.held_by(split, [Block("swapped", np.array([1]), {0: 2, 2: 0})])
    task = learning_task(
        learners=load(SCENARIO).learners,
        model=load(SCENARIO).model,
        datasets=[held],
        splits=[split],
        streams=[load(SCENARIO).streams_of(0)],
        evaluate=load(SCENARIO, {"evaluate": {"every": 1}}).evaluation,
        rounds=1,
        device="cpu",
        dtype=torch.float64,
    )
    learner = BatchedLearner(task)
    metrics = learner.start().metrics
    predicted = learner.predict(0, data.test_x)
    for number in range(3):
        own = data.test_user == number
        given = data.test_y[own] if number != 1 else 2 - data.test_y[own]
        assert metrics[f"accuracy/user:{number}"][0] == pytest.approx((predicted[own] == given).mean())
    assert metrics["accuracy"][0] == pytest.approx((predicted == data.test_y).mean())
    assert metrics["accuracy/block:swapped"][0] == metrics["accuracy/user:1"][0]


def test_choices_have_the_blocks_of_their_replica(tmp_path):
    choose = {"own": {"learners": ["average", "fair"], "per": "user"}}
    setup = prepare_run(load(SCENARIO, {"evaluate.choose": choose, "evaluate.metrics": []}))
    learner = build_learner(setup, "cpu")
    session, _ = open_session(setup, learner, tmp_path, "resume")
    metrics = session.start().metrics
    weights = [np.array([len(rows) for rows in rows_of_users]) for rows_of_users in setup.splits]
    for replica in range(2):
        lane = 4 + replica
        users = setup.datasets[replica].blocks[1].users
        values = np.array([metrics[f"accuracy/user:{user}"][lane] for user in users])
        expected = np.average(values, weights=weights[replica][users])
        assert metrics["accuracy/block:dialect"][lane] == pytest.approx(expected)


def test_labels_are_made_of_those_in_the_data_however_often():
    data = Dataset(
        np.zeros((4, 1), np.float32), np.array([0, 1, 2, 0]), np.zeros((1, 1), np.float32), np.zeros(1, int), 3
    )
    block = [Block("b", np.array([1]), {0: 1, 1: 0})]
    once = data.held_by([np.array([1]), np.array([0, 2])], block)
    assert once.train_y.tolist() == [1, 1, 2, 0]
    assert once.train_groups.tolist() == [0, 1, 2, 0]
    assert once.train_labels.tolist() == [1, 1, 2, 0]
    assert once.held_by([np.array([1]), np.array([0, 2])], block).train_y.tolist() == [1, 1, 2, 0]
    assert once.held_by([np.array([0]), np.array([1, 3])], block).train_y.tolist() == [0, 0, 2, 1]
    assert data.train_y.tolist() == [0, 1, 2, 0]


def test_equal_relabellings_are_one_concept():
    blocks = [Block("a", np.array([0]), {0: 1}), Block("b", np.array([2]), {0: 1}), Block("c", np.array([3]))]
    concepts = Concepts.of(blocks, 5, 3)
    assert concepts.labels.tolist() == [[0, 1, 2], [1, 1, 2]]
    assert concepts.of_user.tolist() == [1, 0, 1, 0, 0]
    assert concepts.labels_by(2, np.array([2, 0])).tolist() == [2, 1]
    assert concepts.labels_by(np.array([0, 1]), np.array([0, 0])).tolist() == [1, 0]


def test_validation_examples_of_the_data_keep_their_labels():
    """They belong to no user where the partition ignores the users of the data."""
    setup = prepare_run(load(SCENARIO, {"evaluate": None}))
    given = netfl.learning.data.Examples(np.ones((2, 1, 8, 8), np.float32), np.array([3, 5]))
    dataset = replace(setup.datasets[0], validation=given)
    options = load(SCENARIO, {"evaluate": {"metrics": ["validation"], "validation": None}}).evaluation
    _, examples = split_validation(options, dataset, setup.splits[0], setup.scenario.streams_of(0))
    assert examples.y.tolist() == [3, 5]
    assert on_validation(dataset, examples).test_y.tolist() == [3, 5]


@pytest.mark.slow
def test_workers_and_a_stop_change_nothing(tmp_path):
    scenario = load(SCENARIO)
    one = netfl.run(scenario, out=tmp_path / "one", progress=False)
    two = netfl.run(scenario, out=tmp_path / "two", workers=2, progress=False)
    assert one.metrics["value"].to_numpy() == pytest.approx(two.metrics["value"].to_numpy(), rel=1e-9, nan_ok=True)
    assert {"block:remote", "block:dialect", "block:others"} <= {*one.metrics["group"].astype(str)}
    assert one.users["block"].value_counts().to_dict() == {"": 6, "dialect": 4, "remote": 2}
