"""The bound of the weight divergence equals its formula as a loop, and holds where its assumptions do."""

import divergence_bound
import numpy as np
import pytest
from divergence_bound import LabelledExamples, Users

import netfl

RNG = np.random.default_rng(5)
EXAMPLES = LabelledExamples([RNG.normal(label, 1 + label, (7 + label, 4)) for label in range(3)])
WEIGHTS = RNG.normal(size=(3, 4))


def mean_loss(weights, label):
    """Return the mean cross-entropy of the examples of a label, as a loop."""
    losses = []
    for x in EXAMPLES.x[label]:
        chances = np.exp(weights @ x)
        losses.append(-np.log(chances[label] / chances.sum()))
    return np.mean(losses)


def test_gradients_of_labels_equal_finite_differences():
    found, step = EXAMPLES.gradients(WEIGHTS), 1e-6
    for label, gradient in enumerate(found):
        for place in np.ndindex(WEIGHTS.shape):
            shift = np.zeros_like(WEIGHTS)
            shift[place] = step
            slope = (mean_loss(WEIGHTS + shift, label) - mean_loss(WEIGHTS - shift, label)) / (2 * step)
            assert gradient[place] == pytest.approx(slope, rel=1e-5, abs=1e-7)


def test_lipschitz_constants_bound_the_change_of_gradients():
    constants = EXAMPLES.lipschitz_constants()
    assert constants == pytest.approx([np.linalg.norm(x, 2) ** 2 / len(x) / 2 for x in EXAMPLES.x])
    for scale in (1e-3, 0.1, 1.0):
        other = WEIGHTS + scale * RNG.normal(size=WEIGHTS.shape)
        changes = EXAMPLES.gradients(other) - EXAMPLES.gradients(WEIGHTS)
        assert (np.sqrt(np.square(changes).sum((1, 2))) <= constants * np.linalg.norm(other - WEIGHTS)).all()


def test_central_training_is_gradient_descent():
    weights, largest = divergence_bound.train_centrally(EXAMPLES, WEIGHTS, 0.01, 2)
    expected = WEIGHTS
    for index in range(2):
        gradients = EXAMPLES.gradients(expected)
        assert largest[index] == pytest.approx(max(np.linalg.norm(gradient) for gradient in gradients))
        expected = expected - 0.01 * (7 * gradients[0] + 8 * gradients[1] + 9 * gradients[2]) / 24
    assert weights == pytest.approx(expected)


def test_bound_equals_the_theorem_as_a_loop():
    users = Users(np.array([0.2, 0.8]), np.array([[1.0, 0.0, 0.0], [0.1, 0.4, 0.5]]))
    shares, constants, largest = np.array([0.3, 0.3, 0.4]), np.array([1.0, 2.0, 5.0]), np.array([3.0, 7.0, 2.0])
    rate, steps, before = 0.05, 3, 0.6
    expected = 0.0
    for share, labels in zip(users.shares, users.labels, strict=True):
        growth = 1 + rate * sum(p * constant for p, constant in zip(labels, constants, strict=True))
        expected += share * growth**steps * before
        difference = sum(abs(p - mean) for p, mean in zip(labels, shares, strict=True))
        expected += rate * share * difference * sum(growth**j * largest[steps - 1 - j] for j in range(steps))
    assert divergence_bound.bound(before, users, shares, constants, rate, largest) == pytest.approx(expected)


SCENARIO = """
name: bound
users: 10
rounds: 3
access: {kind: bernoulli, probability: 1}
data: digits
partition: by_class
model: logistic
learners: {FedAvg: {objective: erm, aggregation: average, lr: 0.05, batch_size: full, local_steps: 3}}
evaluate: {every: 1, metrics: [weight_divergence]}
record: {events: none, versions: true}
"""


def test_bound_holds_for_users_with_one_label(tmp_path):
    """Each user holds all examples of one label, so that its gradient is that of the label, as the theorem assumes."""
    run = netfl.run(netfl.load(SCENARIO), tmp_path / "run")
    found = divergence_bound.compare_with_bound(run, 0)
    assert found["error"] < 1e-3  # of a run in float32
    for index in (1, 2, 3):
        assert 0 < found[f"measured {index}"] < found[f"bound {index}"] <= found[f"sum {index}"]
    assert found["bound 1"] == found["sum 1"]
