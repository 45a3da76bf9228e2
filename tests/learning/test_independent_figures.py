"""What is told of lanes and what they come to, held against counts and calculations that are made here."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from learning.test_independent_lanes import CLASSES, MODELS, ROUNDS, World, dataset, play
from support.learner_factory import learning_task

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
from netfl.types import Delivery, Round

PLAIN = LearnerSpec(objective=Erm(), aggregation=Average(), lr=0.1, batch_size=4, local_steps=3)


def a_round(index, *lines):
    return Round(index, index - 1.0, float(index), tuple(Delivery(*one, 0.0, 1.0) for one in lines), 0)


def small(specs, users=3, rounds=4, seed=1, every=1, **changes):
    rng = np.random.default_rng(seed)
    data = dataset(rng, "logistic", (3,))
    said = {
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
    return BatchedLearner(learning_task(**(said | changes))), data, said["splits"][0]


@pytest.mark.quick_first
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_one_user_alone_never_strays_whatever_the_model(name, dtype):
    world = World(61, name)
    world.replicas = 1
    world.splits = [[np.random.default_rng(3).permutation(60)[:37]]]
    own = world.validation[0]
    world.validation = [Examples(own.x, own.y, own.user * 0)]
    like = {"momentum": 0.5, "weight_decay": 0.1, "schedule": Halving(every=2)}
    world.specs = {
        "plain": PLAIN,
        "cvar": PLAIN.model_copy(update={"objective": Cvar(alpha=0.3, gamma=0.2, lr_t=0.1), **like}),
        "near": PLAIN.model_copy(update={"objective": Proximal(mu=0.5), "aggregation": Relay()}),
    }
    world.rounds = [[a_round(index, (0, index - 1)) for index in range(1, ROUNDS + 1)]]
    for metrics, _ in play(world, world.learner(dtype=dtype)):
        for metric, values in metrics.items():
            if metric.startswith("weight_divergence"):
                assert values.tolist() == [0.0] * 3, metric


def test_users_of_several_replicas_stray_by_rounding_alone():
    """Twins of replicas of other sizes are multiplied side by side: then it is 0 but for the last bits."""
    world = World(51, "mlp")
    world.replicas, rng = 3, np.random.default_rng(0)
    world.data = [world.data[0]] * 3
    world.splits = [[rng.permutation(60)[:size]] for size in (41, 7, 23)]
    own = world.validation[0]
    world.validation = [Examples(own.x, own.y, own.user * 0)] * 3
    world.streams = [Streams(51).at(replica) for replica in range(3)]
    world.specs = {"a": PLAIN.model_copy(update={"local_steps": None, "local_epochs": 2})}
    world.rounds = [[a_round(index, (0, index - 1)) for index in range(1, ROUNDS + 1)]] * 3
    for metrics, _ in play(world, world.learner()):
        for metric, values in metrics.items():
            if metric.startswith("weight_divergence"):
                assert values.max() < 1e-12, metric


@pytest.mark.parametrize("known", [1, 4, 9, 10, 12, 19, 20, 57])
def test_the_worst_and_the_best_are_a_tenth_rounded_down_and_one_at_least(known):
    rng = np.random.default_rng(known)
    accuracy, there = rng.random((2, 60)), rng.permutation(60) < known
    told = dict(accuracy_spread(UserPerformance(accuracy, accuracy, np.broadcast_to(there * 5.0, (2, 60)))))
    for lane in range(2):
        users = sorted(accuracy[lane][there])
        tenth = max(1, int(known / 10))
        assert told["accuracy_users_worst10"][lane] == pytest.approx(sum(users[:tenth]) / tenth)
        assert told["accuracy_users_best10"][lane] == pytest.approx(sum(users[-tenth:]) / tenth)
        assert told["accuracy_users_mean"][lane] == pytest.approx(sum(users) / known)
        assert told["accuracy_users_variance"][lane] == pytest.approx(np.var(users))


def test_who_is_heard_twice_in_a_round_counts_twice_in_the_objective():
    """ρ is the share of the deliveries: 3, 1 and 0 of 4; users hold one label each."""
    one, data, _ = small({"a": PLAIN})
    split = [np.flatnonzero(data.train_y == label) for label in range(CLASSES)]
    one, _, _ = small({"a": PLAIN}, splits=[split])
    one.step([a_round(1, (0, 0), (0, 0), (1, 0))])
    told = one.step([a_round(2, (0, 1))]).metrics
    loss = [told[f"loss/user:{user}"][0] for user in range(3)]
    assert told["objective"][0] == pytest.approx(0.75 * loss[0] + 0.25 * loss[1], rel=1e-12)


def test_a_lost_lane_hears_nothing_any_more():
    """Its later updates would be finite: it stays where it was for all that, after a stop too."""
    wild = PLAIN.model_copy(update={"lr": 1e308, "schedule": Step(milestones=(1,), factor=1e-309)})
    (one, _, _), (rest, _, _) = (small({"calm": PLAIN, "wild": wild}) for _ in range(2))
    before = one.version(1)
    one.step([a_round(1, (0, 0), (2, 0))])
    assert [(lost.learner, lost.round) for lost in one.diverged] == [("wild", 1)]
    rest.restore(one.state())
    for learner in (one, rest):
        for index in (2, 3):
            told = learner.step([a_round(index, (1, index - 1))]).metrics
        assert np.array_equal(learner.version(1), before)
        assert np.isnan(told["accuracy"]).tolist() == [False, True]
        assert [(lost.learner, lost.round) for lost in learner.diverged] == [("wild", 1)]
    assert np.array_equal(one.version(0), rest.version(0))


def test_what_is_kept_to_validate_with_is_not_trained_on():
    rng = np.random.default_rng(4)
    x = np.arange(50, dtype=np.float32)[:, None]
    data = Dataset(x, rng.integers(2, size=50), x[:4], np.array([0, 1, 0, 1]), 2)
    split = np.array_split(rng.permutation(50)[:47], [9, 13, 30])
    trained, apart = split_validation(EvaluateSpec(validation=0.3), data, split, Streams(2))
    for user, rows in enumerate(split):
        own = apart.x[apart.user == user, 0].astype(int)
        assert len(own) == int(0.3 * len(rows))
        assert sorted([*own, *trained[user]]) == sorted(rows)
        assert np.array_equal(apart.y[apart.user == user], data.train_y[own])


def test_predictions_are_those_that_accuracies_count():
    world = World(2)
    world.specs["near"] = PLAIN
    one = world.learner()
    metrics = play(world, one)[-1][0]
    seen = 0
    for lane, (name, replica) in enumerate(one.lanes):
        if not isinstance(world.specs[name].aggregation, Afl):  # it reports the mean of its versions
            data, seen = world.data[replica], seen + 1
            right = one.predict(lane, data.test_x) == data.test_y
            assert metrics["accuracy"][lane] == pytest.approx(right.mean())
            for label in range(CLASSES):
                own = data.test_y == label
                assert metrics[f"accuracy/class:{label}"][lane] == pytest.approx(right[own].mean())
    assert seen


@pytest.mark.parametrize("by", ["validation_accuracy", "validation_loss"])
def test_among_equals_the_one_that_is_named_first_is_kept(by):
    lanes, of = [(name, 0) for name in "abc"], ("c", "b", "a")
    figures = {
        **{name: np.array([0.5, 0.5, 0.5]) for name in ("accuracy", "loss", "validation_accuracy", "validation_loss")},
        **{
            f"{name}/user:{user}": np.array([0.2, 0.4, 0.4] if name == "validation_accuracy" else [0.4, 0.2, 0.2])
            for name in ("accuracy", "loss", "validation_accuracy", "validation_loss")
            for user in range(2)
        },
    }
    each = {"all": ChoiceSpec(learners=of, by=by), "own": ChoiceSpec(learners=of, by=by, per="user")}
    told = ModelSelection(each, lanes, [np.ones(2)]).extend_metrics(figures)
    assert told["chosen"][3] == 0
    assert [told[f"chosen/user:{user}"][4] for user in range(2)] == [0, 0]


def test_training_at_the_broadcast_is_training_at_the_delivery(monkeypatch):
    """SCAFFOLD with a schedule: each update made as soon as its base is there, with what the server had sent by then.

    No user has two updates under way, so that each knows its own control variate.
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
    one, eager = (small({"a": spec}, rounds=6)[0] for _ in range(2))
    seen, made = [], {}
    step = Scaffold.step

    def watched(self, state, current, updates):
        seen.extend(zip(updates.users.tolist(), updates.base_rounds.tolist(), updates.models.clone(), strict=True))
        return step(self, state, current, updates)

    monkeypatch.setattr(Scaffold, "step", watched)
    for index, lines in enumerate(rounds):
        for user in range(3):
            eager.restore(copy.deepcopy(one.state()))
            eager.step([a_round(index + 1, (user, index))])
            _, _, made[user, index] = seen.pop()
        one.step([a_round(index + 1, *lines)])
    assert [line[:2] for line in seen] == [line for lines in rounds for line in lines]
    for user, base, model in seen:
        assert torch.allclose(model, made[user, base], rtol=1e-12, atol=1e-14), (user, base)
