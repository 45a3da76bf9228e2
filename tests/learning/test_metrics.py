"""Figures that are told where they are asked for, each against a calculation of its own."""

from pathlib import Path

import numpy as np
import pytest
import torch
from support.learner_factory import (
    CLASSES,
    DATA,
    SPLIT,
    TANH,
    USERS,
    a_round,
    draw_batches,
    examples,
    learner,
    network,
    spec,
    torch_model,
)
from torch import nn

import netfl
from netfl.learning.aggregation.average import Average
from netfl.learning.aggregation.fedau import Fedau
from netfl.learning.aggregation.relay import Relay
from netfl.learning.minibatches import BatchSampler
from netfl.learning.objective.cvar import Cvar
from netfl.learning.spec import EvaluateSpec, LocalWork
from netfl.streams import Streams

LAYERS = {"layers.0.weight": 10, "layers.0.bias": 5, "layers.1.weight": 15, "layers.1.bias": 3}


def judged(specs, *metrics, every=1, **changes):
    return learner(specs, evaluate=EvaluateSpec(every=every, metrics=metrics), **changes)


def test_the_gradient_norm_is_autograds():
    replicas, data = (0, 1), [DATA, examples(4)]
    told = judged({"a": spec(), "b": spec(lr=0.3)}, "gradient_norm", replicas=replicas, datasets=data)
    told.start()
    for rounds in zip(*(network(replica, 4) for replica in replicas), strict=True):
        found = told.step(rounds).metrics["gradient_norm"]
    for lane in range(4):
        module = torch_model(told.version(lane)[:-1])
        own = data[lane % 2]
        nn.functional.cross_entropy(module(torch.tensor(own.train_x).double()), torch.tensor(own.train_y)).backward()
        expected = torch.cat([one.grad.ravel() for one in module.parameters()]).norm()
        assert found[lane] == pytest.approx(float(expected), rel=1e-9)


def test_the_gradient_norm_is_whole_in_single_precision_too():
    told = judged({"a": spec()}, "gradient_norm", dtype=torch.float32)
    found = told.start().metrics["gradient_norm"][0]
    module = torch_model(told.version(0)[:-1])
    x, y = torch.tensor(DATA.train_x).double(), torch.tensor(DATA.train_y)
    nn.functional.cross_entropy(module(x), y).backward()
    assert found == pytest.approx(float(torch.cat([one.grad.ravel() for one in module.parameters()]).norm()), rel=1e-9)


def test_staleness_is_that_of_deliveries_since_the_last_evaluation():
    told = judged({"a": spec()}, "staleness", every=2, replicas=(0, 1))
    assert np.isnan(told.start().metrics["staleness_mean"]).all()
    told.step([a_round(1, (0, 0)), a_round(1)])
    found = told.step([a_round(2, (1, 0), (2, 1)), a_round(2)]).metrics
    assert found["staleness_mean"].tolist()[0] == pytest.approx(1 / 3)
    assert found["staleness_max"].tolist()[0] == 1
    assert np.isnan([found["staleness_mean"][1], found["staleness_max"][1]]).all()
    told.step([a_round(3, (0, 2)), a_round(3, (3, 0))])
    found = told.step([a_round(4, (1, 1), (1, 3)), a_round(4, (2, 3))]).metrics
    assert found["staleness_mean"].tolist() == [pytest.approx(2 / 3), 1.0]
    assert found["staleness_max"].tolist() == [2, 2]


def test_weights_are_those_of_the_server():
    told = judged({"fedau": spec(aggregation=Fedau()), "plain": spec()}, "weight")
    for index, users in enumerate([(0,), (1,), (1,), (0, 1)], start=1):
        found = told.step([a_round(index, *((user, index - 1) for user in users))]).metrics
    # users 0 and 1 were first heard in rounds 1 and 2; their last intervals, of 3 rounds and of 1, count from now on
    assert found["weight/user:0"][0] == pytest.approx((1 + 3) / 2)
    assert found["weight/user:1"][0] == pytest.approx((2 + 1 + 1) / 3)
    assert all(np.isnan(found[f"weight/user:{user}"][1]) for user in range(USERS))


@pytest.mark.parametrize(
    "only",
    [
        spec(),
        spec(batch_size="full", local_steps=3),
        spec(Cvar(alpha=0.3, gamma=0.2, lr_t=0.1), Relay(), lr=0.3, momentum=0.9, local_epochs=2),
        spec(local_steps=17, weight_decay=0.1),
    ],
    ids=["epochs", "full", "cvar", "steps"],
)
def test_one_user_alone_never_strays_from_its_twin(only):
    alone = {"splits": [[np.arange(30, 90)], [np.arange(10, 70)]], "replicas": (0, 1)}
    told = judged({"a": only, "b": only.model_copy(update={"lr": 0.1})}, "weight_divergence", **alone)
    told.start()
    for index in range(1, 6):
        found = told.step([a_round(index, (0, index - 1)), a_round(index, (0, index - 1))]).metrics
        for name in ("weight_divergence", *(f"weight_divergence/layer:{layer}" for layer in LAYERS)):
            assert found[name].tolist() == [0.0] * 4


def test_a_twin_is_sgd_on_what_all_users_hold():
    """Uneven users, of whom some are heard; the twin by hand in PyTorch, mini-batch by mini-batch."""
    told = judged({"a": spec(batch_size=8, local_epochs=2, lr=0.1)}, "weight_divergence")
    module = torch_model(told.version(0)[:-1])
    optimiser = torch.optim.SGD(module.parameters(), lr=0.1)
    pooled, shuffles = np.concatenate(SPLIT), BatchSampler([Streams(5).at(0)])
    for index, users in enumerate([(0, 3), (), (1,), (0, 1, 2, 3)], start=1):
        found = told.step([a_round(index, *((user, index - 1) for user in users))]).metrics
        if users:
            steps = round(np.mean([2 * -(-len(SPLIT[user]) // 8) for user in users]))
            how = LocalWork(8 * len(users), None, steps)
            batches = draw_batches(shuffles, [(0, 0, index - 1, 90)], how)
            for places, count in zip(batches.places[0], batches.counts[0], strict=True):
                rows = pooled[places[:count]]
                optimiser.zero_grad()
                out = module(torch.tensor(DATA.train_x[rows]).double())
                nn.functional.cross_entropy(out, torch.tensor(DATA.train_y[rows])).backward()
                optimiser.step()
        twin = nn.utils.parameters_to_vector(module.parameters()).detach().numpy()
        apart = told.version(0)[:-1] - twin
        expected = np.linalg.norm(apart) / np.linalg.norm(twin)
        assert found["weight_divergence"][0] == pytest.approx(expected, rel=1e-9)
        ends = np.cumsum([*LAYERS.values()])
        for name, part, whole in zip(LAYERS, np.split(apart, ends[:-1]), np.split(twin, ends[:-1]), strict=True):
            expected = np.linalg.norm(part) / np.linalg.norm(whole)
            assert found[f"weight_divergence/layer:{name}"][0] == pytest.approx(expected, rel=1e-9)
    assert found["weight_divergence"][0] > 1e-3


def test_twins_of_several_lanes_are_those_of_each_alone():
    specs = {"a": spec(), "b": spec(lr=0.2, aggregation=Average(weights="equal")), "c": spec(local_steps=5)}
    data = [DATA, examples(4)]
    together = judged(specs, "weight_divergence", replicas=(0, 1), datasets=data)
    found = [together.step(rounds).metrics for rounds in zip(network(0), network(1), strict=True)][-1]
    for lane, (name, replica) in enumerate(together.lanes):
        streams = [Streams(5).at(replica)]
        alone = judged({name: specs[name]}, "weight_divergence", datasets=[data[replica]], streams=streams)
        last = [alone.step([one]).metrics for one in network(replica)][-1]
        assert found["weight_divergence"][lane] == pytest.approx(last["weight_divergence"][0], rel=1e-9)


def test_all_of_it_goes_on_from_a_kept_state():
    asked = ("staleness", "weight", "gradient_norm", "weight_divergence")
    whole, begun, rest = (judged({"a": spec()}, *asked, every=4) for _ in range(3))
    rounds = list(network(0, 4))
    for one in rounds[:3]:
        whole.step([one])
        begun.step([one])
    rest.restore(begun.state())
    expected, found = (one.step([rounds[3]]).metrics for one in (whole, rest))
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        assert found[name].tolist() == pytest.approx(values.tolist(), nan_ok=True, abs=0), name
    assert found["weight_divergence"][0] > 0


@pytest.mark.slow
def test_users_of_one_class_stray_farther_than_those_of_two_and_those_farther_than_users_of_all(real_data, tmp_path):
    """MNIST, after Zhao et al., arXiv:1806.00582: after the first round and after the second, whole and by layer."""
    real_data("mnist")
    path = Path(__file__).parents[2] / "scenarios/learning/weight_divergence.yaml"
    found = []
    for named in ((), ("two_class",), ("one_class",)):
        scenario = netfl.load(path, {"rounds": 2}, named)
        metrics = netfl.run(scenario, tmp_path / "-".join(("run", *named)), device="cpu").metrics
        rows = metrics[(metrics["metric"] == "weight_divergence") & (metrics["round"] > 0)]
        found.append(rows.set_index(["round", "group"])["value"])
    same, two, one = found
    assert (same < two).all()
    assert (two < one).all()
    assert same[1, ""] < 0.1 < two[1, ""]


def test_nothing_more_is_told_than_is_asked_for():
    told = learner({"a": spec()}, model=TANH).start().metrics
    assert not [name for name in told if name.startswith(("weight", "gradient", "stale", "validation"))]
    assert f"accuracy/class:{CLASSES - 1}" in told
