"""Figures of merit, each against its definition written out as a loop."""

import numpy as np
import pytest
import torch
from torch import nn

from netfl.errors import ModelError
from netfl.learning.data import Dataset
from netfl.learning.evaluation import Evaluation
from netfl.learning.figures import cvar, over_users
from netfl.learning.model.mlp import Mlp
from netfl.learning.objective.cvar import Cvar
from netfl.learning.objective.erm import Erm

CLASSES = 3


def world(seed, test=700):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((40 + test, 4)).astype(np.float32)
    y = rng.integers(CLASSES, size=40 + test)
    return Dataset(x[:40], y[:40], x[40:], y[40:], CLASSES)


def test_figures_of_two_replicas_against_pytorch():
    """Two replicas with data of their own, a learner with and one without t."""
    datasets = [world(1), world(2)]
    split = [np.arange(0, 10), np.arange(10, 13), np.arange(13, 40)]
    network = Mlp(hidden=(5,)).open((4,), CLASSES)
    versions = torch.randn(4, network.size + 1, generator=torch.Generator().manual_seed(1))
    objectives = [Cvar(alpha=0.3, gamma=0.2, lr_t=1)] * 2 + [Erm()] * 2
    heard = np.array([[0, 0, 0], [3, 1, 4]])
    evaluation = Evaluation(datasets, [split, split], [0, 1, 0, 1], (0, 2), torch.empty(0))
    metrics = evaluation.metrics(network, versions, objectives, heard)

    for lane, replica in enumerate((0, 1, 0, 1)):
        data, theta = datasets[replica], versions[lane]
        module = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, CLASSES))
        nn.utils.vector_to_parameters(theta[:-1], module.parameters())
        y = torch.from_numpy(data.test_y)
        with torch.no_grad():
            out = module(torch.from_numpy(data.test_x))
        right = (out.argmax(1) == y).double().numpy()
        loss = nn.functional.cross_entropy(out, y, reduction="none").double().numpy()
        expected = {"accuracy": right.mean(), "loss": loss.mean(), "t": float(theta[-1])}
        expected["rare_accuracy"] = right[data.test_y != 1].mean()
        users = {}
        for name, figure in (("accuracy", right), ("loss", loss)):
            by_class = [figure[data.test_y == label].mean() for label in range(CLASSES)]
            expected |= {f"{name}/class:{label}": by_class[label] for label in range(CLASSES)}
            users[name] = [np.mean([by_class[label] for label in data.train_y[rows]]) for rows in split]
            expected |= {f"{name}/user:{user}": users[name][user] for user in range(3)}
        expected["accuracy_users_mean"] = np.mean(users["accuracy"])
        rho = np.array([1 / 3] * 3 if replica == 0 else [3 / 8, 1 / 8, 4 / 8])
        expected["objective"] = objectives[lane].value(np.array(users["loss"]), rho, float(theta[-1]))
        expected["cvar/alpha:0.3"] = by_minimum(np.array(users["loss"]), rho, 0.3)
        for name, value in expected.items():
            assert metrics[name][lane] == pytest.approx(value, rel=1e-5), name
    assert metrics["accuracy"].shape == (4,)


def test_a_test_set_without_some_class_is_refused():
    data = world(1)
    short = Dataset(data.train_x, data.train_y, data.test_x[data.test_y != 1], data.test_y[data.test_y != 1], CLASSES)
    with pytest.raises(ModelError, match="no example of class 1"):
        Evaluation([short], [[np.arange(40)]], [0], (), torch.empty(0))


def by_minimum(losses, rho, alpha):
    """min over t of t + E[f - t]_+ / α, which is piecewise linear with its corners at the losses."""
    return min(t + rho @ np.maximum(losses - t, 0) / alpha for t in losses)


@pytest.mark.parametrize("alpha", [0.01, 0.1, 0.35, 0.8, 1.0])
def test_cvar_is_rockafellar_and_uryasevs_minimum(alpha):
    rng = np.random.default_rng(5)
    losses, rho = rng.exponential(size=(4, 7)), rng.dirichlet(np.ones(7), size=4)
    losses[1, :4] = losses[1, 4]
    expected = [by_minimum(f, weights, alpha) for f, weights in zip(losses, rho, strict=True)]
    assert cvar(losses, rho, alpha) == pytest.approx(expected, rel=1e-12)


def test_how_accuracies_spread_over_users():
    accuracy = np.array([np.arange(20) / 20, np.zeros(20), np.ones(20)])
    found = dict(over_users(accuracy, 1 - accuracy))
    assert found["accuracy_users_worst10"].tolist() == [0.025, 0, 1]
    assert found["accuracy_users_best10"].tolist() == [pytest.approx(0.925), 0, 1]
    assert found["accuracy_users_mean"].tolist() == [pytest.approx(0.475), 0, 1]
    assert found["accuracy_users_variance"].tolist() == [pytest.approx((20**2 - 1) / 12 / 400), 0, 0]
    assert found["accuracy_users_jain"].tolist() == [pytest.approx(9.5**2 / (20 * 2470 / 400)), 1, 1]
    assert found["loss/user:3"].tolist() == [pytest.approx(0.85), 1, 0]
    few = dict(over_users(accuracy[:, 5:8], accuracy[:, 5:8]))
    assert few["accuracy_users_worst10"][0] == 0.25
