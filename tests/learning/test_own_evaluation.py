"""Accuracies of the devices' own models, before and after fine-tuning, each compared with a separate calculation."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from learning.device.test_rules import EPOCHS, HEAD, LR, DittoOf, FedPer, FedRep, Own, Sgd, play
from learning.device.test_scenarios import settings
from learning.test_evaluation import dataset_with_users
from learning.test_exact_updates import batches
from support.learner_factory import CLASSES, DATA, SPLIT, USERS, a_round, learner, network, spec
from support.paper_algorithms import backward

import netfl
from netfl.errors import ScenarioError
from netfl.learning.aggregation.fedawe import Fedawe
from netfl.learning.device.ditto import Ditto
from netfl.learning.device.fedper import Fedper
from netfl.learning.device.fedrep import Fedrep
from netfl.learning.device.local_momentum import LocalMomentum
from netfl.learning.device.mixture import Mixture
from netfl.learning.evaluation import Evaluation
from netfl.learning.spec import EvaluateSpec

TRACE = [*network(0, 5), a_round(6, (1, 5), (0, 2))]
"""Rounds in which user 2 does not deliver."""
RULES = {
    "FedPer": ({"device": Fedper()}, lambda _: FedPer()),
    "FedRep": ({"device": Fedrep(head_epochs=1)}, lambda _: FedRep(epochs=1)),
    "Ditto": ({"device": Ditto(pull=0.7)}, partial(DittoOf, 0.7)),
    "own": ({"base": "own"}, Own),
}
TUNED = 3


def specs():
    return {"FedAvg": spec(**EPOCHS)} | {name: spec(**EPOCHS, **options) for name, (options, _) in RULES.items()}


def run(trace=TRACE, learners=None, *, fine_tune=None, **options):
    """Return the last metrics of a learner that evaluates own models."""
    evaluate = EvaluateSpec(every=1, metrics=("own_models",), fine_tune=fine_tune)
    batched = learner(learners or specs(), evaluate=evaluate, rounds=len(trace), **options)
    batched.start()
    for result in trace:
        report = batched.step([result])
    return report.metrics, batched


def own_model(name, version, kept):
    """Return the model of a user that has kept something."""
    if kept is None:
        return version
    if name in {"FedPer", "FedRep"}:
        return np.concatenate([version[: HEAD.start], kept])
    return kept


def performance(theta, user):
    """Return the expected accuracy and loss of a model for the labels of *user*."""
    losses, _ = backward(theta, DATA.test_x.astype(float), DATA.test_y)
    best = np.argmin([backward(theta, DATA.test_x.astype(float), np.full(30, c))[0] for c in range(CLASSES)], axis=0)
    right = best == DATA.test_y
    mix = np.bincount(DATA.train_y[SPLIT[user]], minlength=CLASSES) / len(SPLIT[user])
    by_class = [[values[DATA.test_y == label].mean() for label in range(CLASSES)] for values in (right, losses)]
    return np.array(by_class) @ mix


def own_models_of_papers(name, start):
    """Return the own model of each user after the trace, as the papers have it."""
    versions, kept = play(start, TRACE, RULES[name][1](start), Sgd(EPOCHS))
    return [own_model(name, versions[-1], kept[user]) for user in range(USERS)]


@pytest.mark.parametrize("name", RULES)
def test_own_models_are_evaluated_on_the_labels_of_their_users(name):
    metrics, batched = run()
    lane = [*specs()].index(name)
    models = own_models_of_papers(name, learner(specs()).version(lane)[:-1])
    expected = np.array([performance(model, user) for user, model in enumerate(models)])
    for place, metric in enumerate(("accuracy", "loss")):
        for user in range(USERS):
            assert metrics[f"own_{metric}/user:{user}"][lane] == pytest.approx(expected[user, place], rel=1e-10)
        assert metrics[f"own_{metric}"][lane] == pytest.approx(expected[:, place].mean(), rel=1e-10)
    assert metrics["own_accuracy_worst10"][lane] == pytest.approx(expected[:, 0].min(), rel=1e-10)
    assert batched.version(lane)[:-1] == pytest.approx(play_version(name), abs=1e-10)


def play_version(name):
    start = learner(specs()).version(0)[:-1]
    return play(start, TRACE, RULES[name][1](start), Sgd(EPOCHS))[0][-1]


@pytest.mark.parametrize("name", RULES)
def test_fine_tuning_makes_steps_of_local_sgd_from_own_models(name):
    """With the mini-batches of an update from the newest version; FedRep trains heads in its first pass."""
    metrics, _ = run(fine_tune=TUNED)
    before, _ = run()
    lane = [*specs()].index(name)
    sgd = Sgd({"batch_size": 8, "local_epochs": 4})
    models = own_models_of_papers(name, learner(specs()).version(lane)[:-1])
    for user, model in enumerate(models):
        passes = -(-len(SPLIT[user]) // 8)

        def part(step, passes=passes):
            return HEAD if step < passes else slice(0, HEAD.start)

        trained = first_steps(sgd, model, user, part if name == "FedRep" else lambda step: slice(None))
        expected = performance(trained, user)
        assert metrics[f"fine_tuned_accuracy/user:{user}"][lane] == pytest.approx(expected[0], rel=1e-10)
        assert metrics[f"fine_tuned_loss/user:{user}"][lane] == pytest.approx(expected[1], rel=1e-10)
    for metric, values in before.items():
        np.testing.assert_array_equal(metrics[metric], values)


def first_steps(sgd, start, user, part):
    """Return the model of *user* after `TUNED` steps from *start*."""
    theta = start.copy()
    for step, (x, y) in enumerate(batches(sgd.amount, user, len(TRACE), 0)[:TUNED]):
        gradient = backward(theta, x, y)[1].mean(0)
        theta[part(step)] -= LR * gradient[part(step)]
    return theta


def test_evaluation_changes_no_training():
    _, plain = run(fine_tune=TUNED)
    without = learner(specs(), rounds=len(TRACE))
    for result in TRACE:
        without.step([result])
    for lane in range(len(specs())):
        np.testing.assert_array_equal(plain.version(lane), without.version(lane))


def test_users_without_own_models_count_with_the_version_that_is_evaluated():
    """So do all users before the first delivery, and all users of a learner without a device rule, as of FedAWE."""
    learners = specs() | {"FedAWE": spec(**EPOCHS, aggregation=Fedawe(), base="last_participation")}
    metrics, _ = run(learners=learners)
    at_start, _ = run([a_round(1)], learners)
    for found, lanes in ((metrics, [0, len(learners) - 1]), (at_start, range(len(learners)))):
        for user in range(USERS):
            for name in ("accuracy", "loss"):
                of_version = found[f"{name}/user:{user}"][lanes]
                assert found[f"own_{name}/user:{user}"][lanes] == pytest.approx(of_version, rel=1e-12)
        assert found["own_accuracy"][lanes] == pytest.approx(found["accuracy_users_mean"][lanes], rel=1e-12)
        assert found["own_accuracy_worst10"][lanes] == pytest.approx(found["accuracy_users_worst10"][lanes])


@pytest.mark.parametrize("has_users", [False, True], ids=["labels", "users"])
def test_a_version_that_all_users_have_is_evaluated_once(monkeypatch, has_users):
    """FedPer has own models after the first delivery, and a rule with a start of its own may have them before."""
    options = {}
    if has_users:
        data = dataset_with_users(3)
        data = replace(data, train_x=data.train_x[:, :2], test_x=data.test_x[:, :2])
        split = [np.flatnonzero(data.train_user == user) for user in range(4)]
        options = {"datasets": [data], "splits": [split], "validation": [None], "rare_classes": ()}
    learners = {
        "FedAvg": spec(),
        "momentum": spec(device=LocalMomentum(), momentum=0.5, local_steps=4),
        "FedPer": spec(device=Fedper(), local_steps=4),
        "own": spec(base="own", local_steps=4),
        "Ditto": spec(device=Ditto(pull=1), local_steps=4),
        "mixture": spec(device=Mixture(share=0.5), local_steps=4),
    }
    evaluated = []
    of_users = Evaluation.of_users

    def count(self, models, replica):
        evaluated.append(len(models))
        return of_users(self, models, replica)

    monkeypatch.setattr(Evaluation, "of_users", count)
    evaluate = EvaluateSpec(every=1, metrics=("own_models",))
    batched = learner(learners, evaluate=evaluate, rounds=2, **options)
    batched.start()
    assert evaluated == [USERS]
    evaluated.clear()
    metrics = batched.step([a_round(1, (0, 0))]).metrics
    assert evaluated == [USERS] * 4
    of_all = batched._metrics._evaluation
    versions = batched._versions.newest
    for lane in (0, 1):
        expected = of_users(of_all, versions[lane, :-1].expand(USERS, -1), 0).numpy()
        for place, name in enumerate(("accuracy", "loss")):
            found = [metrics[f"own_{name}/user:{user}"][lane] for user in range(3)]
            assert found == pytest.approx(expected[place, :3], rel=1e-12)


def test_users_with_test_examples_are_evaluated_on_them():
    """The last user has none, and does not count."""
    data = dataset_with_users(3)
    data = replace(data, train_x=data.train_x[:, :2], test_x=data.test_x[:, :2])
    split = [np.flatnonzero(data.train_user == user) for user in range(4)]
    learners = {"FedAvg": spec(), "FedPer": spec(device=Fedper(), local_steps=4)}
    trace = [a_round(1, (0, 0), (1, 0)), a_round(2, (0, 1), (3, 0))]
    metrics, batched = run(trace, learners, datasets=[data], splits=[split], validation=[None], rare_classes=())
    for lane in range(2):
        models = batched._devices.own_models(batched._versions.newest[lane], lane)[:, :-1].numpy()
        accuracies = []
        for user in range(3):
            rows = data.test_user == user
            x, y = data.test_x[rows].astype(float), data.test_y[rows]
            of_labels = [backward(models[user], x, np.full(len(y), label))[0] for label in range(CLASSES)]
            accuracies.append((np.argmin(of_labels, axis=0) == y).mean())
            assert metrics[f"own_accuracy/user:{user}"][lane] == pytest.approx(accuracies[-1])
            loss = backward(models[user], x, y)[0].mean()
            assert metrics[f"own_loss/user:{user}"][lane] == pytest.approx(loss, rel=1e-10)
        assert np.isnan(metrics["own_accuracy/user:3"][lane])
        assert metrics["own_accuracy"][lane] == pytest.approx(np.mean(accuracies))
    assert np.abs(models[0] - models[2]).max() > 0


def test_users_with_labels_of_their_own_are_evaluated_on_them(tmp_path):
    """A learner whose devices keep nothing has the metrics of its users."""
    scenario = {
        "name": "dialect",
        "users": 40,
        "rounds": 3,
        "access": {"kind": "bernoulli", "probability": 0.8},
        "data": "digits",
        "partition": {
            "kind": "blocks",
            "blocks": {"dialect": {"users": 6, "relabel": {1: 7, 7: 1}}},
        },
        "model": "logistic",
        "learners": {
            "A": {"objective": "erm", "aggregation": "average", "lr": 0.1, "batch_size": 8, "local_epochs": 1}
        },
        "evaluate": {"metrics": ["own_models"]},
    }
    run = netfl.run(scenario, tmp_path / "run", progress=False)
    values = run.metrics[run.metrics["round"] == 3].set_index(["metric", "group"])["value"]
    for user in range(40):
        assert values["own_loss", f"user:{user}"] == pytest.approx(values["loss", f"user:{user}"], rel=1e-5)


def test_fine_tuning_without_own_models_is_an_error():
    with pytest.raises(ScenarioError, match=r"evaluate\.fine_tune: has no effect without the metric 'own_models'"):
        netfl.load(settings(evaluate={"fine_tune": 3}))


@pytest.mark.slow
def test_workers_change_nothing(tmp_path):
    scenario = settings(evaluate={"every": 3, "metrics": ["own_models"], "fine_tune": 2})
    whole = netfl.run(scenario, tmp_path / "whole", progress=False)
    workers = netfl.run(scenario, tmp_path / "workers", progress=False, workers=3)
    assert workers.metrics.equals(whole.metrics)
    assert {"own_accuracy", "fine_tuned_accuracy"} <= {*whole.metrics["metric"]}
