"""Optional metrics, each compared with a separate calculation."""

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


def learner_with_metrics(specs, *metrics, every=1, **changes):
    return learner(specs, evaluate=EvaluateSpec(every=every, metrics=metrics), **changes)


def test_gradient_norm_equals_autograd():
    replicas, data = (0, 1), [DATA, examples(4)]
    batched = learner_with_metrics({"a": spec(), "b": spec(lr=0.3)}, "gradient_norm", replicas=replicas, datasets=data)
    batched.start()
    for rounds in zip(*(network(replica, 4) for replica in replicas), strict=True):
        found = batched.step(rounds).metrics["gradient_norm"]
    for lane in range(4):
        module = torch_model(batched.version(lane)[:-1])
        dataset = data[lane % 2]
        nn.functional.cross_entropy(
            module(torch.tensor(dataset.train_x).double()), torch.tensor(dataset.train_y)
        ).backward()
        expected = torch.cat([parameter.grad.ravel() for parameter in module.parameters()]).norm()
        assert found[lane] == pytest.approx(float(expected), rel=1e-9)


def test_gradient_norm_is_accurate_in_single_precision():
    batched = learner_with_metrics({"a": spec()}, "gradient_norm", dtype=torch.float32)
    found = batched.start().metrics["gradient_norm"][0]
    module = torch_model(batched.version(0)[:-1])
    x, y = torch.tensor(DATA.train_x).double(), torch.tensor(DATA.train_y)
    nn.functional.cross_entropy(module(x), y).backward()
    assert found == pytest.approx(
        float(torch.cat([parameter.grad.ravel() for parameter in module.parameters()]).norm()), rel=1e-9
    )


def test_staleness_covers_deliveries_since_the_last_evaluation():
    batched = learner_with_metrics({"a": spec()}, "staleness", every=2, replicas=(0, 1))
    assert np.isnan(batched.start().metrics["staleness_mean"]).all()
    batched.step([a_round(1, (0, 0)), a_round(1)])
    found = batched.step([a_round(2, (1, 0), (2, 1)), a_round(2)]).metrics
    assert found["staleness_mean"].tolist()[0] == pytest.approx(1 / 3)
    assert found["staleness_max"].tolist()[0] == 1
    assert np.isnan([found["staleness_mean"][1], found["staleness_max"][1]]).all()
    batched.step([a_round(3, (0, 2)), a_round(3, (3, 0))])
    found = batched.step([a_round(4, (1, 1), (1, 3)), a_round(4, (2, 3))]).metrics
    assert found["staleness_mean"].tolist() == [pytest.approx(2 / 3), 1.0]
    assert found["staleness_max"].tolist() == [2, 2]


def test_weights_equal_those_of_the_server():
    batched = learner_with_metrics({"fedau": spec(aggregation=Fedau()), "plain": spec()}, "weight")
    for index, users in enumerate([(0,), (1,), (1,), (0, 1)], start=1):
        found = batched.step([a_round(index, *((user, index - 1) for user in users))]).metrics
    # users 0 and 1 first deliver in rounds 1 and 2; their last intervals have 3 rounds and 1 round
    assert found["weight/user:0"][0] == pytest.approx((1 + 3) / 2)
    assert found["weight/user:1"][0] == pytest.approx((2 + 1 + 1) / 3)
    assert all(np.isnan(found[f"weight/user:{user}"][1]) for user in range(USERS))


@pytest.mark.parametrize(
    "learner_spec",
    [
        spec(),
        spec(batch_size="full", local_steps=3),
        spec(Cvar(alpha=0.3, gamma=0.2, lr_t=0.1), Relay(), lr=0.3, momentum=0.9, local_epochs=2),
        spec(local_steps=17, weight_decay=0.1),
    ],
    ids=["epochs", "full", "cvar", "steps"],
)
def test_a_single_user_equals_its_twin(learner_spec):
    alone = {"splits": [[np.arange(30, 90)], [np.arange(10, 70)]], "replicas": (0, 1)}
    batched = learner_with_metrics(
        {"a": learner_spec, "b": learner_spec.model_copy(update={"lr": 0.1})}, "weight_divergence", **alone
    )
    batched.start()
    for index in range(1, 6):
        found = batched.step([a_round(index, (0, index - 1)), a_round(index, (0, index - 1))]).metrics
        for name in ("weight_divergence", *(f"weight_divergence/layer:{layer}" for layer in LAYERS)):
            assert found[name].tolist() == [0.0] * 4


def test_a_twin_is_sgd_on_the_data_of_all_users():
    """Users have different sizes and some deliver. PyTorch trains the twin by hand, one mini-batch at a time."""
    batched = learner_with_metrics({"a": spec(batch_size=8, local_epochs=2, lr=0.1)}, "weight_divergence")
    module = torch_model(batched.version(0)[:-1])
    optimiser = torch.optim.SGD(module.parameters(), lr=0.1)
    pooled, shuffles = np.concatenate(SPLIT), BatchSampler([Streams(5).at(0)])
    for index, users in enumerate([(0, 3), (), (1,), (0, 1, 2, 3)], start=1):
        found = batched.step([a_round(index, *((user, index - 1) for user in users))]).metrics
        if users:
            steps = round(np.mean([2 * -(-len(SPLIT[user]) // 8) for user in users]))
            work = LocalWork(8 * len(users), None, steps)
            batches = draw_batches(shuffles, [(0, 0, index - 1, 90)], work)
            for indices, count in zip(batches.places[0], batches.counts[0], strict=True):
                rows = pooled[indices[:count]]
                optimiser.zero_grad()
                out = module(torch.tensor(DATA.train_x[rows]).double())
                nn.functional.cross_entropy(out, torch.tensor(DATA.train_y[rows])).backward()
                optimiser.step()
        twin = nn.utils.parameters_to_vector(module.parameters()).detach().numpy()
        difference = batched.version(0)[:-1] - twin
        expected = np.linalg.norm(difference) / np.linalg.norm(twin)
        assert found["weight_divergence"][0] == pytest.approx(expected, rel=1e-9)
        ends = np.cumsum([*LAYERS.values()])
        for name, part, whole in zip(LAYERS, np.split(difference, ends[:-1]), np.split(twin, ends[:-1]), strict=True):
            expected = np.linalg.norm(part) / np.linalg.norm(whole)
            assert found[f"weight_divergence/layer:{name}"][0] == pytest.approx(expected, rel=1e-9)
    assert found["weight_divergence"][0] > 1e-3


def test_twins_of_several_lanes_equal_those_of_single_runs():
    specs = {"a": spec(), "b": spec(lr=0.2, aggregation=Average(weights="equal")), "c": spec(local_steps=5)}
    data = [DATA, examples(4)]
    together = learner_with_metrics(specs, "weight_divergence", replicas=(0, 1), datasets=data)
    found = [together.step(rounds).metrics for rounds in zip(network(0), network(1), strict=True)][-1]
    for lane, (name, replica) in enumerate(together.lanes):
        streams = [Streams(5).at(replica)]
        alone = learner_with_metrics(
            {name: specs[name]}, "weight_divergence", datasets=[data[replica]], streams=streams
        )
        last = [alone.step([current]).metrics for current in network(replica)][-1]
        assert found["weight_divergence"][lane] == pytest.approx(last["weight_divergence"][0], rel=1e-9)


def test_metrics_continue_from_a_restored_state():
    metrics = ("staleness", "weight", "gradient_norm", "weight_divergence")
    whole, stopped, restored = (learner_with_metrics({"a": spec()}, *metrics, every=4) for _ in range(3))
    rounds = list(network(0, 4))
    for current in rounds[:3]:
        whole.step([current])
        stopped.step([current])
    restored.restore(stopped.state())
    expected, found = (batched.step([rounds[3]]).metrics for batched in (whole, restored))
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        assert found[name].tolist() == pytest.approx(values.tolist(), nan_ok=True, abs=0), name
    assert found["weight_divergence"][0] > 0


@pytest.mark.slow
def test_weight_divergence_grows_with_label_skew(real_data, tmp_path):
    """MNIST, after Zhao et al., arXiv:1806.00582: rounds 1 and 2, for the whole model and for each layer."""
    real_data("mnist")
    path = Path(__file__).parents[2] / "scenarios/learning/weight_divergence.yaml"
    found = []
    for variants in ((), ("two_class",), ("one_class",)):
        scenario = netfl.load(path, {"rounds": 2}, variants)
        metrics = netfl.run(scenario, tmp_path / "-".join(("run", *variants)), device="cpu").metrics
        rows = metrics[(metrics["metric"] == "weight_divergence") & (metrics["round"] > 0)]
        found.append(rows.set_index(["round", "group"])["value"])
    iid, two_classes, one_class = found
    assert (iid < two_classes).all()
    assert (two_classes < one_class).all()
    assert iid[1, ""] < 0.1 < two_classes[1, ""]


def test_optional_metrics_are_off_by_default():
    metrics = learner({"a": spec()}, model=TANH).start().metrics
    assert not [name for name in metrics if name.startswith(("weight", "gradient", "stale", "validation"))]
    assert f"accuracy/class:{CLASSES - 1}" in metrics
