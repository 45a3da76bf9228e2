"""Blocks that see images turned: whatever reads an example of a user reads it as this user sees it.

The references turn images by transposing and reversing them, and evaluate a logistic model by hand.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from support.learner_factory import a_round, learning_task

from netfl.errors import ScenarioError
from netfl.learning.blocks import Block, Concepts
from netfl.learning.data import Dataset
from netfl.learning.learner import BatchedLearner
from netfl.learning.partition.blocks import Blocks
from netfl.scenario.scenario import load
from netfl.simulation.learners import build_learner
from netfl.simulation.setup import prepare_run
from netfl.types import ScenarioFacts

SCENARIO = """
name: turned
users: 6
rounds: 2
replicas: 2
seed: 5
precision: float64
access: {kind: bernoulli, probability: {zipf: 0.3}}
data: {kind: digits, test_share: 0.4}
partition:
  kind: blocks
  by: prerun
  blocks:
    tilted: {users: 2, rotate: 90}
    contrary: {users: 1, rotate: 180, relabel: {3: 5, 5: 3}}
model: logistic
learners:
  average: {objective: erm, aggregation: average, lr: 0.1, batch_size: 16, local_epochs: 2}
evaluate: {every: 1, validation: 0.3, metrics: [validation]}
"""


def turn(images, degrees):
    """Turn images, ``[images, 1, 8, 8]``, against the clock, without `numpy.rot90`."""
    if degrees == 90:
        return images.transpose(0, 1, 3, 2)[:, :, ::-1]
    if degrees == 180:
        return images[:, :, ::-1, ::-1]
    if degrees == 270:
        return images.transpose(0, 1, 3, 2)[:, :, :, ::-1]
    return images


def as_seen(setup, replica, user, x, y):
    """Return examples of the data as *user* sees and labels them."""
    tilted, contrary = setup.datasets[replica].blocks
    if user in tilted.users:
        return turn(x, 90), y
    if user in contrary.users:
        return turn(x, 180), np.where(y == 3, 5, np.where(y == 5, 3, y))
    return x, y


@pytest.fixture(scope="module")
def setup():
    return prepare_run(load(SCENARIO))


def run_rounds(learner):
    """Return the last metrics, and the versions, after two rounds of both replicas."""
    learner.start()
    learner.step([a_round(1, (0, 0), (3, 0), (5, 0)), a_round(1, (1, 0), (2, 0), (4, 0))])
    report = learner.step([a_round(2, (2, 1), (1, 1), (4, 1)), a_round(2, (0, 1), (5, 1), (3, 0))])
    return report.metrics, [learner.version(lane) for lane in range(len(learner.lanes))]


@pytest.mark.parametrize("degrees", [90, 180, 270])
def test_images_are_turned_against_the_clock(degrees):
    (block,) = Blocks(blocks={"a": {"users": [1], "rotate": degrees}}).user_blocks(2, None)
    x = np.random.default_rng(0).random((3, 1, 8, 8), np.float32)
    concepts = Concepts.of([block], 2, 10)
    np.testing.assert_array_equal(concepts.seen_by(1, x), turn(x, degrees))
    assert concepts.seen_by(0, x) is x


def test_users_hold_examples_as_they_see_them(setup):
    assert setup.datasets[0].blocks[0].users.tolist() != setup.datasets[1].blocks[0].users.tolist()
    for replica, data in enumerate(setup.datasets):
        validation = setup.validation[replica]
        for user, rows in enumerate(setup.splits[replica]):
            x, y = as_seen(setup, replica, user, data.data_x[rows], data.data_y[rows])
            np.testing.assert_array_equal(data.train_x[rows], x)
            assert data.train_y[rows].tolist() == y.tolist()
            own = validation.user == user
            x, y = as_seen(setup, replica, user, validation.data_x[own], validation.data_y[own])
            np.testing.assert_array_equal(validation.x[own], x)
            assert validation.y[own].tolist() == y.tolist()
    assert not np.array_equal(setup.datasets[0].train_x, setup.datasets[0].data_x)


def test_models_train_as_on_images_turned_by_hand(setup):
    metrics, versions = run_rounds(build_learner(setup, "cpu"))
    plain = []
    for replica, data in enumerate(setup.datasets):
        x, y = data.data_x.copy(), data.data_y.copy()
        for user, rows in enumerate(setup.splits[replica]):
            x[rows], y[rows] = as_seen(setup, replica, user, data.data_x[rows], data.data_y[rows])
        plain.append(Dataset(x, y, data.test_x, data.test_y, data.classes))
    learner = BatchedLearner(
        learning_task(
            learners=setup.scenario.learners,
            model=setup.scenario.model,
            datasets=plain,
            splits=setup.splits,
            streams=[setup.scenario.streams_of(replica).at("learning") for replica in range(2)],
            validation=[replace(examples, data_x=None, data_y=None) for examples in setup.validation],
            evaluate=setup.scenario.evaluation,
            rounds=2,
            device="cpu",
            dtype=torch.float64,
        )
    )
    expected_metrics, expected_versions = run_rounds(learner)
    np.testing.assert_array_equal(versions, expected_versions)
    for name in ("accuracy", "loss", "validation_accuracy", "validation_loss", "validation_accuracy/user:4"):
        np.testing.assert_array_equal(metrics[name], expected_metrics[name], err_msg=name)


def accuracy_by_hand(setup, replica, user, version, x, y):
    """Return the accuracy of *user*, the mean over its mix of labels, on examples *x* of labels *y* in the data."""
    seen, given = as_seen(setup, replica, user, x, y)
    outputs = seen.reshape(len(seen), 64).astype(float) @ version[:640].reshape(10, 64).T + version[640:650]
    right = outputs.argmax(1) == given
    labels = setup.datasets[replica].data_y[setup.splits[replica][user]]
    mix = np.bincount(labels, minlength=10) / len(labels)
    return float(mix @ [right[y == label].mean() for label in range(10)])


@pytest.mark.parametrize("on", ["test", "validation"])
def test_users_and_blocks_are_evaluated_on_what_they_see(on):
    setup = prepare_run(load(SCENARIO, {"evaluate.on": on, "evaluate.metrics": []}))
    metrics, versions = run_rounds(build_learner(setup, "cpu"))
    for replica, version in enumerate(versions):
        x, y = setup.dataset.test_x, setup.dataset.test_y
        if on == "validation":
            x, y = setup.validation[replica].data_x, setup.validation[replica].data_y
        accuracies = np.array([accuracy_by_hand(setup, replica, user, version, x, y) for user in range(6)])
        for user, accuracy in enumerate(accuracies):
            assert metrics[f"accuracy/user:{user}"][replica] == pytest.approx(accuracy, rel=1e-9)
        sizes = np.array([len(rows) for rows in setup.splits[replica]])
        for block in setup.datasets[replica].blocks:
            expected = np.average(accuracies[block.users], weights=sizes[block.users])
            assert metrics[f"accuracy/block:{block.name}"][replica] == pytest.approx(expected, rel=1e-9)
        assert metrics["accuracy_users_mean"][replica] == pytest.approx(accuracies.mean(), rel=1e-9)


def test_users_with_test_examples_of_their_own_see_them_turned():
    rng = np.random.default_rng(3)
    x, y = rng.random((90, 1, 2, 2), np.float32), rng.integers(3, size=90)
    data = Dataset(x[:60], y[:60], x[60:], y[60:], 3, np.arange(60) % 3, np.arange(30) % 3)
    split = [np.flatnonzero(data.train_user == number) for number in range(3)]
    held = data.held_by(split, [Block("tilted", np.array([1]), quarter_turns=1)])
    scenario = load(SCENARIO, {"evaluate": {"every": 1}})
    task = learning_task(
        learners=scenario.learners,
        model=scenario.model,
        datasets=[held],
        splits=[split],
        streams=[scenario.streams_of(0)],
        evaluate=scenario.evaluation,
        rounds=1,
        device="cpu",
        dtype=torch.float64,
    )
    learner = BatchedLearner(task)
    learner.start()
    metrics = learner.step([a_round(1, (0, 0), (1, 0), (2, 0))]).metrics
    for number in range(3):
        own = data.test_user == number
        seen = turn(data.test_x[own], 90 if number == 1 else 0)
        expected = (learner.predict(0, np.ascontiguousarray(seen)) == data.test_y[own]).mean()
        assert metrics[f"accuracy/user:{number}"][0] == pytest.approx(expected)


def test_examples_are_made_of_those_in_the_data_however_often(setup):
    once = setup.datasets[0]
    again = once.held_by(setup.splits[0], once.blocks)
    for user, rows in enumerate(setup.splits[0]):
        np.testing.assert_array_equal(again.train_x[rows], once.train_x[rows], err_msg=str(user))
    assert again.data_x is once.data_x


@pytest.mark.parametrize(
    ("shape", "degrees", "problem"),
    [
        ((12,), 180, "turns images, and the examples have the shape 12"),
        ((3, 4, 6), 90, "3 x 4 x 6"),
        ((3, 4, 6), 180, ""),
    ],
)
def test_images_that_cannot_be_turned_are_errors(shape, degrees, problem):
    facts = ScenarioFacts(6, 10, classes=10, example_shape=shape, rho_known=True)
    faults = [*Blocks(blocks={"a": {"users": 1, "rotate": degrees}}).faults(facts)]
    assert [fault.key for fault in faults] == ["blocks.a.rotate"] * bool(problem)
    assert all(problem in fault.problem and fault.value == degrees and fault.remedy for fault in faults)


def test_a_scenario_states_the_place_of_an_angle():
    with pytest.raises(
        ScenarioError, match=r"the text:14: partition.blocks.tilted.rotate: unknown value \(45\); known: 90, 180, 270"
    ):
        load(SCENARIO.replace("rotate: 90", "rotate: 45"))
