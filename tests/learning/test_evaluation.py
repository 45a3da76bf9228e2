"""Evaluation metrics, each compared with its definition as a loop."""

import warnings
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch
from torch import nn

from netfl.learning import batch_limits
from netfl.learning.batch_limits import evaluation_slices
from netfl.learning.data import Dataset, Examples
from netfl.learning.evaluation import Evaluation, EvaluationSet, Grouping
from netfl.learning.model._manual_conv import Convolutional, ConvShape
from netfl.learning.model.cnn import Cnn
from netfl.learning.model.mlp import Mlp
from netfl.learning.model.resnet8 import Resnet8
from netfl.learning.objective.cvar import Cvar
from netfl.learning.objective.erm import Erm
from netfl.learning.performance import (
    UserPerformance,
    accuracy_spread,
    class_metrics,
    cvar,
    objective_metrics,
    user_metrics,
)
from netfl.learning.tensors import read_together
from netfl.learning.user_data import ReplicaData, UserDatasets
from netfl.streams import Streams

CLASSES = 3


def make_dataset(seed, test=700):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((40 + test, 4)).astype(np.float32)
    y = rng.integers(CLASSES, size=40 + test)
    return Dataset(x[:40], y[:40], x[40:], y[40:], CLASSES)


def evaluation_of(network, datasets, splits, rare=(), validation=None):
    """Return the evaluation of two learners."""
    columns = zip(datasets, splits, validation or [None] * len(datasets), strict=True)
    replicas = [
        ReplicaData(number, data, split, Streams(number), examples)
        for number, (data, split, examples) in enumerate(columns)
    ]
    pool = UserDatasets(replicas, torch.device("cpu"), torch.float32)
    return Evaluation(network, pool, replicas, 2, rare)


def test_metrics_of_two_replicas_equal_pytorch():
    """Two replicas with different data, one learner with t and one without."""
    datasets = [make_dataset(1), make_dataset(2)]
    split = [np.arange(0, 10), np.arange(10, 13), np.arange(13, 40)]
    network = Mlp(hidden=(5,)).open((4,), CLASSES)
    versions = torch.randn(4, network.size + 1, generator=torch.Generator().manual_seed(1))
    objectives = [Cvar(alpha=0.3, gamma=0.2, lr_t=1)] * 2 + [Erm()] * 2
    counts = np.array([[0, 0, 0], [3, 1, 4]])
    evaluation = evaluation_of(network, datasets, [split, split], (0, 2))
    metrics = evaluation.metrics(read_together(evaluation.measure(versions)), objectives, counts, (0.1, 0.3))

    for lane, replica in enumerate((0, 1, 0, 1)):
        data, theta = datasets[replica], versions[lane]
        module = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, CLASSES))
        nn.utils.vector_to_parameters(theta[:-1], module.parameters())
        y = torch.from_numpy(data.test_y)
        with torch.no_grad():
            out = module(torch.from_numpy(data.test_x))
        correct = (out.argmax(1) == y).double().numpy()
        loss = nn.functional.cross_entropy(out, y, reduction="none").double().numpy()
        expected = {"accuracy": correct.mean(), "loss": loss.mean(), "t": float(theta[-1])}
        expected["rare_accuracy"] = correct[data.test_y != 1].mean()
        users = {}
        for name, values in (("accuracy", correct), ("loss", loss)):
            by_class = [values[data.test_y == label].mean() for label in range(CLASSES)]
            expected |= {f"{name}/class:{label}": by_class[label] for label in range(CLASSES)}
            users[name] = [np.mean([by_class[label] for label in data.train_y[rows]]) for rows in split]
            expected |= {f"{name}/user:{user}": users[name][user] for user in range(3)}
        expected["accuracy_users_mean"] = np.mean(users["accuracy"])
        rho = np.array([1 / 3] * 3 if replica == 0 else [3 / 8, 1 / 8, 4 / 8])
        expected["objective"] = objectives[lane].value(np.array(users["loss"]), rho, float(theta[-1]))
        expected["cvar/alpha:0.3"] = minimum_over_t(np.array(users["loss"]), rho, 0.3)
        for name, value in expected.items():
            assert metrics[name][lane] == pytest.approx(value, rel=1e-5), name
    assert metrics["accuracy"].shape == (4,)


def torch_metrics(theta, x, y):
    """Return the correctness and the loss of each example, computed by PyTorch."""
    module = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, CLASSES))
    nn.utils.vector_to_parameters(theta[:-1], module.parameters())
    with torch.no_grad():
        out = module(torch.from_numpy(x))
    loss = nn.functional.cross_entropy(out, torch.from_numpy(y), reduction="none")
    return (out.argmax(1).numpy() == y).astype(float), loss.double().numpy()


def test_a_label_missing_from_the_test_set_has_no_metrics():
    data = make_dataset(1)
    is_present = data.test_y != 1
    short = Dataset(data.train_x, data.train_y, data.test_x[is_present], data.test_y[is_present], CLASSES)
    other_rows, ones_rows = (np.flatnonzero((data.train_y == 1) == is_one) for is_one in (False, True))
    split = [other_rows[:5], np.concatenate([other_rows[5:], ones_rows[2:]]), ones_rows[:2]]
    network = Mlp(hidden=(5,)).open((4,), CLASSES)
    versions = torch.randn(2, network.size + 1, generator=torch.Generator().manual_seed(2))
    evaluation = evaluation_of(network, [short], [split], (0,))
    metrics = evaluation.metrics(
        read_together(evaluation.measure(versions)), [Cvar(alpha=0.3, lr_t=1), Erm()], np.array([[2, 3, 5]]), (0.3,)
    )

    assert "accuracy/class:1" not in metrics
    for lane in range(2):
        correct, loss = torch_metrics(versions[lane], short.test_x, short.test_y)
        for name, values in (("accuracy", correct), ("loss", loss)):
            assert metrics[name][lane] == pytest.approx(values.mean(), rel=1e-5)
            mean = {label: values[short.test_y == label].mean() for label in (0, 2)}
            for user in (0, 1):
                expected = np.mean([mean[label] for label in data.train_y[split[user]] if label != 1])
                assert metrics[f"{name}/user:{user}"][lane] == pytest.approx(expected, rel=1e-5)
            assert np.isnan(metrics[f"{name}/user:2"][lane])
        losses = np.array([metrics[f"loss/user:{user}"][lane] for user in (0, 1)])
        assert metrics["cvar/alpha:0.3"][lane] == pytest.approx(minimum_over_t(losses, np.array([0.4, 0.6]), 0.3))
        accuracies = [metrics[f"accuracy/user:{user}"][lane] for user in (0, 1)]
        assert metrics["accuracy_users_mean"][lane] == pytest.approx(np.mean(accuracies))
        assert metrics["accuracy_users_variance"][lane] == pytest.approx(np.var(accuracies))
        assert metrics["accuracy_users_worst10"][lane] == min(accuracies)
    assert metrics["objective"][1] == pytest.approx(0.4 * losses[0] + 0.6 * losses[1])


def dataset_with_users(seed, users=4, test=90, validation=60):
    """Return a data set whose users have test and validation examples, except for the last user."""
    rng = np.random.default_rng(seed)
    dataset = make_dataset(seed, test)
    owners = [rng.integers(users - 1, size=size) for size in (test, validation)]
    x, y = rng.standard_normal((validation, 4)).astype(np.float32), rng.integers(CLASSES, size=validation)
    train = np.sort(np.concatenate([np.arange(users), rng.integers(users, size=40 - users)]))
    combined = Dataset(dataset.train_x, dataset.train_y, dataset.test_x, dataset.test_y, CLASSES, train, owners[0])
    return replace(combined, validation=Examples(x, y, owners[1]))


def test_users_of_the_data_have_separate_test_and_validation_examples():
    data = dataset_with_users(3)
    split = [np.flatnonzero(data.train_user == user) for user in range(4)]
    network = Mlp(hidden=(5,)).open((4,), CLASSES)
    versions = torch.randn(2, network.size + 1, generator=torch.Generator().manual_seed(3))
    evaluation = evaluation_of(network, [data], [split], (), [data.validation])
    metrics = evaluation.metrics(
        read_together(evaluation.measure(versions)), [Erm(), Erm()], np.array([[1, 1, 2, 9]]), ()
    )

    validation = data.validation
    for lane, (prefix, x, y, user) in product(
        range(2),
        [("", data.test_x, data.test_y, data.test_user), ("validation_", validation.x, validation.y, validation.user)],
    ):
        correct, loss = torch_metrics(versions[lane], x, y)
        for name, values in ((f"{prefix}accuracy", correct), (f"{prefix}loss", loss)):
            assert metrics[name][lane] == pytest.approx(values.mean(), rel=1e-5)
            for owner in range(3):
                assert metrics[f"{name}/user:{owner}"][lane] == pytest.approx(values[user == owner].mean(), rel=1e-5)
            assert np.isnan(metrics[f"{name}/user:3"][lane])
        accuracies = [metrics[f"accuracy/user:{owner}"][lane] for owner in range(3)]
        assert metrics["accuracy_users_best10"][lane] == max(accuracies)
        assert metrics["accuracy_users_jain"][lane] == pytest.approx(
            sum(accuracies) ** 2 / (3 * np.square(accuracies).sum())
        )
        losses = [metrics[f"loss/user:{owner}"][lane] for owner in range(3)]
        assert metrics["objective"][lane] == pytest.approx(np.dot(losses, [0.25, 0.25, 0.5]))

    mixed = evaluation_of(network, [data], [[rows[::2] for rows in np.array_split(np.arange(40), 4)]])
    assert np.isfinite(
        mixed.metrics(read_together(mixed.measure(versions)), [Erm()] * 2, np.ones((1, 4)), ())["accuracy/user:3"]
    ).all()


def test_replicas_with_different_data_equal_single_evaluations():
    first, second = dataset_with_users(3), dataset_with_users(4)
    splits = [[np.flatnonzero(data.train_user == user) for user in range(4)] for data in (first, second)]
    network = Mlp(hidden=(5,)).open((4,), CLASSES)
    versions = torch.randn(4, network.size + 1, generator=torch.Generator().manual_seed(3))
    both = evaluation_of(network, [first, second], splits, (), [first.validation, second.validation])
    found = both.metrics(read_together(both.measure(versions)), [Erm()] * 4, np.ones((2, 4), int), ())
    for replica, data in enumerate((first, second)):
        alone = evaluation_of(network, [data], [splits[replica]], (), [data.validation])
        expected = alone.metrics(
            read_together(alone.measure(versions[replica::2])), [Erm()] * 2, np.ones((1, 4), int), ()
        )
        for name, values in expected.items():
            assert found[name][replica::2] == pytest.approx(values, nan_ok=True, rel=1e-5), name


@pytest.mark.parametrize(
    ("model", "shape"),
    [
        (Cnn(channels=(32, 32), kernel=3, padding=1, hidden=(256, 64)), (3, 32, 32)),
        (Cnn(channels=(6, 40), kernel=5, padding=0), (1, 28, 28)),
        (Resnet8(width=8), (3, 20, 12)),
    ],
)
def test_the_largest_layer_is_that_of_a_forward_pass(model, shape):
    """The outputs of all modules are counted by hooks."""
    architecture = model.open(shape, 10)
    if isinstance(model, Cnn):
        module = Convolutional(ConvShape(model._windows(shape), model.padding, model._sizes(shape, 10), "relu"))
    else:
        module = architecture.module
    sizes = []
    for part in module.modules():
        part.register_forward_hook(lambda _module, _inputs, output: sizes.append(output[0].numel()))
    with torch.device("meta"):
        module.to("meta")(torch.empty(2, *shape))
    assert architecture.largest_layer == max(sizes)


@pytest.mark.parametrize(
    ("models", "layer_bytes", "size"),
    [(None, 0, 512), (None, 1 << 17, 128), (None, 1000, 512), (None, 1 << 30, 1), (4, 1 << 17, 1 << 18)],
)
def test_slices_are_limited_by_the_largest_layer(models, layer_bytes, size):
    """At most 16 MiB of one layer, 512 examples and at least one; on a GPU the number of models decides."""
    found = [*evaluation_slices(1000, models, layer_bytes)]
    assert [part.stop - part.start for part in found] == [size] * -(-1000 // size)


def test_slices_change_no_metric(monkeypatch):
    shape, rng = (1, 8, 8), np.random.default_rng(0)
    architecture = Cnn(channels=(4,), hidden=(5,)).open(shape, CLASSES)
    theta = torch.tensor(np.stack([architecture.start(Streams(seed)) for seed in (1, 2)]), dtype=torch.float32)
    y = rng.integers(CLASSES, size=50)
    x = rng.random((50, *shape)).astype(np.float32)
    found = []
    for limit in (1 << 24, 7 * 4 * architecture.largest_layer):
        monkeypatch.setattr(batch_limits, "_LAYER_BYTES", limit)
        (sums,) = EvaluationSet([Grouping(x, y, y, CLASSES)], theta).sums(architecture, theta)
        found.append(sums.numpy())
    np.testing.assert_array_equal(found[0][0], found[1][0])
    np.testing.assert_allclose(found[0], found[1], rtol=1e-6)


def minimum_over_t(losses, rho, alpha):
    """Return min over t of t + E[f - t]_+ / α, which is piecewise linear with corners at the losses."""
    return min(t + rho @ np.maximum(losses - t, 0) / alpha for t in losses)


@pytest.mark.parametrize("alpha", [0.01, 0.1, 0.35, 0.8, 1.0])
def test_cvar_is_the_minimum_of_rockafellar_and_uryasev(alpha):
    rng = np.random.default_rng(5)
    losses, rho = rng.exponential(size=(4, 7)), rng.dirichlet(np.ones(7), size=4)
    losses[1, :4] = losses[1, 4]
    expected = [minimum_over_t(f, weights, alpha) for f, weights in zip(losses, rho, strict=True)]
    assert cvar(losses, rho, alpha) == pytest.approx(expected, rel=1e-12)


def test_spread_of_accuracies_over_users():
    accuracy = np.array([np.arange(20) / 20, np.zeros(20), np.ones(20)])
    performance = UserPerformance({"accuracy": accuracy, "loss": 1 - accuracy}, np.ones_like(accuracy))
    found = dict(accuracy_spread(performance)) | dict(user_metrics(performance))
    assert found["accuracy_users_worst10"].tolist() == [0.025, 0, 1]
    assert found["accuracy_users_best10"].tolist() == [pytest.approx(0.925), 0, 1]
    assert found["accuracy_users_mean"].tolist() == [pytest.approx(0.475), 0, 1]
    assert found["accuracy_users_variance"].tolist() == [pytest.approx((20**2 - 1) / 12 / 400), 0, 0]
    assert found["accuracy_users_jain"].tolist() == [pytest.approx(9.5**2 / (20 * 2470 / 400)), 1, 1]
    assert found["loss/user:3"].tolist() == [pytest.approx(0.85), 1, 0]
    few = dict(accuracy_spread(UserPerformance({"accuracy": accuracy[:, 5:8]}, np.ones((3, 3)))))
    assert few["accuracy_users_worst10"][0] == 0.25


def test_the_whole_weights_groups_by_their_counts():
    """(0.5 · 1 + 0.9 · 3) / 4 = 0.8 and (2 · 1 + 1 · 3) / 4 = 1.25. A group may have less than one example."""
    counts = np.array([[1.0, 3.0], [0.0, 0.0], [0.0, 0.25]])
    accuracy, loss = np.array([[0.5, 0.9]] * 3), np.array([[2.0, 1.0]] * 3)
    groups = UserPerformance({"accuracy": accuracy, "loss": loss}, counts)
    assert groups.whole()["accuracy"] == pytest.approx([0.8, np.nan, 0.9], nan_ok=True)
    assert groups.whole()["loss"] == pytest.approx([1.25, np.nan, 1.0], nan_ok=True)
    assert groups.by_group()["accuracy"] == pytest.approx(
        np.array([[0.5, 0.9], [np.nan] * 2, [np.nan, 0.9]]), nan_ok=True
    )
    assert groups.by_group()["loss"] == pytest.approx(np.array([[2.0, 1.0], [np.nan] * 2, [np.nan, 1.0]]), nan_ok=True)


def test_class_metrics_include_classes_of_any_lane():
    """Only the second lane has class 1, and none has class 3. Rare classes are 0 and 2: (0.5 · 4 + 1 · 1) / 5 = 0.6."""
    counts = np.array([[4.0, 0.0, 1.0, 0.0], [2.0, 2.0, 2.0, 0.0]])
    accuracy = np.array([[0.5, 0.0, 1.0, 0.0], [0.25, 1.0, 0.75, 0.0]])
    classes = UserPerformance({"accuracy": accuracy, "loss": 1 - accuracy}, counts)
    metrics = dict(class_metrics(classes, (0, 2)))
    names = [f"{name}{suffix}" for name in ("accuracy", "loss") for suffix in ("", "/class:0", "/class:1", "/class:2")]
    assert [*metrics] == [*names, "rare_accuracy"]
    assert metrics["rare_accuracy"] == pytest.approx([0.6, 0.5])
    assert metrics["accuracy"] == pytest.approx([0.6, 4 / 6])
    assert metrics["loss/class:1"] == pytest.approx([np.nan, 0.0], nan_ok=True)
    assert [*dict(class_metrics(classes, ()))] == names


def test_jain_index_of_small_examples():
    """0.1, 0.2, 0.3: 0.6² / (3 · 0.14) = 6/7; (0.2, 0): 1/2; all 0 or one user: 1; no user: NaN."""
    accuracy = np.array([[0.1, 0.2, 0.3], [0.2, 0.0, 0.9], [0.0] * 3, [0.7, 0.4, 0.4], [0.5] * 3, [0.9, 0.9, 0.0]])
    counts = np.array([[1, 1, 1], [2, 2, 0], [1, 1, 1], [0, 0.5, 0], [0, 0, 0], [0, 0, 1]])
    metrics = dict(accuracy_spread(UserPerformance({"accuracy": accuracy}, counts)))
    assert metrics["accuracy_users_jain"] == pytest.approx([6 / 7, 1 / 2, 1, 1, np.nan, 1], nan_ok=True)
    assert metrics["accuracy_users_mean"] == pytest.approx([0.2, 0.1, 0, 0.4, np.nan, 0], nan_ok=True)
    assert metrics["accuracy_users_variance"] == pytest.approx([0.02 / 3, 0.01, 0, 0, np.nan, 0], nan_ok=True)
    for end, expected in (("worst10", [0.1, 0, 0, 0.4, np.nan, 0]), ("best10", [0.3, 0.2, 0, 0.4, np.nan, 0])):
        assert metrics[f"accuracy_users_{end}"] == pytest.approx(expected, nan_ok=True)


def test_cvar_uses_the_last_axis():
    """The worst half of losses 1, 2, 4 with probabilities 0.5, 0.4, 0.1 is (0.1 · 4 + 0.4 · 2) / 0.5 = 2.4."""
    losses, rho = np.array([1.0, 2.0, 4.0]), np.array([0.5, 0.4, 0.1])
    assert cvar(losses, rho, 0.5) == pytest.approx(2.4)
    order = np.array([[[0, 1, 2], [2, 0, 1]], [[1, 2, 0], [2, 1, 0]]])
    assert cvar(losses[order], rho[order], 0.5) == pytest.approx(np.full((2, 2), 2.4))
    assert cvar(losses[order], rho, 1.0) == pytest.approx(losses[order] @ rho)


def test_objectives_of_lanes_that_diverge_have_no_warnings():
    """A weight of 0 times an infinite loss is no number."""
    users = UserPerformance({"loss": np.array([[np.inf, 1.0], [np.inf, np.nan]])}, np.ones((2, 2)))
    objectives = [Erm(), Cvar(alpha=0.5, gamma=0.1, lr_t=1)]
    rho = np.array([[0.0, 1.0], [0.0, 1.0]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        metrics = dict(objective_metrics(objectives, users, rho, np.zeros(2), (0.5, 1)))
    assert not np.isfinite(metrics["objective"]).any()


def test_objectives_weight_users_by_their_deliveries():
    """A user without metrics has no weight. A lane with only such users has no objective."""
    counts = np.array([[1, 1, 1], [1, 1, 0], [0.5, 1, 0], [0, 0, 0], [1, 1, 1]])
    losses = np.array([[3.0, 1.0, 2.0], [3.0, 1.0, 9.0], [3.0, 1.0, 9.0], [3.0, 1.0, 9.0], [0.3, 0.1, 0.2]])
    rho = np.array([[0.2, 0.2, 0.6], [0.1, 0.3, 0.6], [0.0, 0.0, 1.0], [0.5, 0.5, 0.0], [0.0, 0.0, 0.0]])
    t, tail = np.array([0.0, 1.5, 0.0, 0.0, 0.0]), Cvar(alpha=0.5, gamma=0.0, lr_t=1)
    metrics = dict(
        objective_metrics(
            [Erm(), tail, Erm(), Erm(), Erm()], UserPerformance({"loss": losses}, counts), rho, t, (0.5, 1)
        )
    )
    assert [*metrics] == ["t", "objective", "cvar/alpha:0.5", "cvar/alpha:1"]
    assert metrics["t"].tolist() == t.tolist()
    # 0.2 · 3 + 0.2 · 1 + 0.6 · 2; 1.5 + (3 - 1.5) / 4 / 0.5 with weights 1/4 and 3/4; then equal weights
    assert metrics["objective"] == pytest.approx([2.0, 2.25, 2.0, np.nan, 0.2], nan_ok=True)
    assert metrics["cvar/alpha:1"] == pytest.approx([2.0, 1.5, 2.0, np.nan, 0.2], nan_ok=True)
    worst = [(0.2 * 3 + 0.3 * 2) / 0.5, (3 / 4 + 1 / 4) / 0.5, 3.0, np.nan, (0.3 / 3 + 0.2 / 6) / 0.5]
    assert metrics["cvar/alpha:0.5"] == pytest.approx(worst, nan_ok=True)
