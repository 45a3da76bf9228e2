"""Reduced precision of products in training, and the names of devices."""

import numpy as np
import pytest
import torch
from support.learner_factory import DATA, SPLIT, learner, learning_task, network, spec

from netfl.errors import ScenarioError
from netfl.learning.data import Dataset
from netfl.learning.learner import BatchedLearner
from netfl.learning.model.cnn import Cnn
from netfl.learning.model.mlp import Mlp
from netfl.learning.model.svm import Svm
from netfl.learning.spec import EvaluateSpec
from netfl.learning.tensors import device_of
from netfl.streams import Streams

IMAGES = np.random.default_rng(1).standard_normal((120, 1, 8, 8)).astype(np.float32)
MODELS = {
    "mlp": (Mlp(hidden=(16,), activation="tanh"), DATA),
    "svm": (Svm(), DATA),
    "cnn": (Cnn(channels=(2,)), Dataset(IMAGES[:90], DATA.train_y, IMAGES[90:], DATA.test_y, 3)),
}


def versions(model, data, products):
    task = learning_task(
        learners={"a": spec(), "b": spec(lr=0.1)}, model=model, datasets=[data], splits=[SPLIT], streams=[Streams(5)],
        evaluate=EvaluateSpec(every=99), rounds=99, device="cpu", products=products,
    )  # fmt: skip
    batched = BatchedLearner(task)
    start = batched.version(0)
    with batched.working():
        for current in network(0):
            batched.step([current])
    return start, np.stack([batched.version(lane) for lane in range(2)])


@pytest.mark.quick_first
@pytest.mark.parametrize("name", MODELS)
def test_bf16_changes_the_training_by_its_rounding_only(name):
    """A factor in bfloat16 has a relative error of at most 2**-8, the change of θ of some per cent."""
    start, exact = versions(*MODELS[name], None)
    _, rounded = versions(*MODELS[name], "bf16")
    change = np.linalg.norm(exact - start, axis=1)
    error = np.linalg.norm(rounded - exact, axis=1) / change
    assert (error > 1e-5).all()
    assert (error < 0.1).all()
    assert not np.array_equal(exact, rounded)


def test_tf32_has_no_effect_on_a_cpu():
    allowed = torch.backends.cuda.matmul.allow_tf32
    assert np.array_equal(versions(*MODELS["mlp"], None)[1], versions(*MODELS["mlp"], "tf32")[1])
    assert torch.backends.cuda.matmul.allow_tf32 == allowed
    sentence = "products are computed in float32, because only GPUs have TF32"
    assert learner({"a": spec()}, products="tf32").training_method == sentence
    assert learner({"a": spec()}, products="bf16").training_method == ""


def test_gradient_norms_are_exact_with_bf16():
    """Numbers are computed in float64."""
    norms = []
    for products in (None, "bf16"):
        evaluate = EvaluateSpec(every=1, metrics=("gradient_norm",))
        batched = learner({"a": spec()}, dtype=torch.float32, evaluate=evaluate, products=products)
        norms.append(batched.start().metrics["gradient_norm"])
    assert np.array_equal(*norms)


@pytest.mark.parametrize(
    ("name", "count", "problem"),
    [
        ("cuda", 0, "this machine has no CUDA device"),
        ("cuda:0", 0, "this machine has no CUDA device"),
        ("cuda:2", 2, r"no such device on this machine .*write cuda:0 to cuda:1"),
        ("cuda:x", 2, "no such device"),
    ],
)
def test_missing_devices_are_refused(name, count, problem, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: count > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
    with pytest.raises(ScenarioError, match=problem):
        device_of(name)


def test_devices_have_numbers(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    found = [str(device_of(name)) for name in ("cpu", "auto", "cuda", "cuda:1")]
    assert found == ["cpu", "cuda", "cuda", "cuda:1"]
