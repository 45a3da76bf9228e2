"""Modules of many kinds are trained as in a loop of plain PyTorch, or refused with the reason."""

import contextlib

import numpy as np
import pytest
import torch
from support.learner_factory import a_round, spec
from support.plain_loops import (
    DATA,
    SIZES,
    average,
    keys_of,
    learners_of,
    module,
    shuffles_of,
    start_module,
    train_plainly,
    values_of,
)
from support.training_modules import focal
from torch.nn import functional

import netfl
from netfl.errors import ScenarioError
from netfl.learning.module_training import KeyedDropout, ModuleParts
from netfl.streams import Streams

PLACE = "support.backward_modules"
CHECKPOINTED = "its backward pass runs its code again, as in gradient checkpointing"


def backward_module(name, **args):
    return module(name, place=PLACE, **args)


@contextlib.contextmanager
def drawing(key, *, has_keyed_dropout):
    """Let a step draw as a learner does: from PyTorch's generator at *key*, or its dropout by a hash of *key*."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(key)
        with KeyedDropout(torch.tensor(key)) if has_keyed_dropout else contextlib.nullcontext():
            yield


@pytest.mark.quick_first
@pytest.mark.filterwarnings("ignore:There is a performance drop:UserWarning")
@pytest.mark.parametrize(
    ("model", "has_keyed_dropout"),
    [
        (backward_module("Checkpointed"), False),
        (backward_module("Checkpointed", normed=True), False),
        (backward_module("Checkpointed", normed=True, dropout=0.5), False),
        (backward_module("CheckpointedDropout"), False),
        (backward_module("ScaledBackward"), False),
        (backward_module("Recurrent"), False),
        (backward_module("TiedRows"), False),
        (backward_module("Attention"), False),
        (backward_module("WeightNormed"), False),
        (module("Normed"), False),
        (module("Dropped"), True),
        (module("Noisy"), False),
        (module("HalfFrozen"), False),
        (module("HalfFrozen", "support.training_modules:focal"), False),
    ],
)
def test_three_rounds_equal_a_loop_in_pytorch(model, has_keyed_dropout):
    assert not [*model.misfits((4,), 3, None)]
    made = learners_of(model, {"A": spec(lr=0.1, batch_size=6, local_epochs=2)})
    work = spec(batch_size=6, local_epochs=2).local_work
    net = start_module(model, Streams(5).at(0).at("start"))
    fixed = {name: part.double() for name, part in ModuleParts.of(made._architecture.module).fixed.items()}
    net.load_state_dict({**net.state_dict(), **fixed})
    loss = functional.cross_entropy
    if model.loss != "cross_entropy":

        def loss(scores, y):
            return focal(scores, y).mean()

    made.start()
    for index, users in enumerate(((0, 1, 3), (1, 2), (3, 0)), start=1):
        made.step([a_round(index, *((user, index - 1) for user in users))])
        nets = [
            train_plainly(
                net,
                shuffles_of(made, user, index - 1, work),
                DATA,
                loss,
                draws=[
                    drawing(key, has_keyed_dropout=has_keyed_dropout) for key in keys_of(made, user, index - 1, work)
                ],
            )
            for user in users
        ]
        net = average(nets, [SIZES[user] for user in users], net)
        assert made.version(0)[:-1] == pytest.approx(values_of(net), abs=1e-10)


@pytest.mark.parametrize(
    ("name", "method"),
    [
        ("Checkpointed", CHECKPOINTED),
        ("CheckpointedDropout", CHECKPOINTED),
        ("ScaledBackward", CHECKPOINTED),
        ("TiedRows", None),
    ],
)
def test_modules_with_code_in_their_backward_pass_are_trained_one_by_one(name, method):
    found = learners_of(backward_module(name), {"A": spec(batch_size=6)}).training_method
    assert found == ("" if method is None else f"its models are trained one after the other: {method}")


@pytest.mark.parametrize(
    ("name", "problem", "remedy"),
    [
        ("Hooked", "has a hook on its parameter '0.weight'", "register_full_backward_hook"),
        ("HookedAfter", "has a hook on its parameter '0.bias'", "register_full_backward_hook"),
        ("ClippedBackward", "has a backward pass that is not proportional to the gradient", "clips or rounds"),
        ("NoisyBackward", "draws at random in its backward pass", "draw in its forward"),
        ("Closed", "trains 'layer.weight' differently from loss.backward()", "from the module, as self.weight"),
        ("Remembering", "keeps state from one batch to the next, in its attribute 'hidden'", "on the batch alone"),
        ("Annealed", "keeps state from one batch to the next, in its attribute 'batches'", "on the batch alone"),
    ],
)
def test_modules_that_cannot_be_trained_rightly_are_refused(name, problem, remedy):
    (fault,) = backward_module(name).misfits((4,), 3, None)
    assert (fault.key, fault.value) == ("module", f"{PLACE}:{name}")
    assert fault.problem.startswith(problem)
    assert remedy in fault.remedy


def test_reentrant_checkpoints_are_refused_with_the_option():
    (fault,) = backward_module("Checkpointed", reentrant=True).misfits((4,), 3, None)
    assert fault.problem.startswith("fails when it is trained: RuntimeError: When use_reentrant=True")
    assert fault.remedy == "call checkpoint(…, use_reentrant=False)"


def test_an_instance_with_a_hook_is_refused_as_a_file_would_lose_the_hook():
    from support.backward_modules import Hooked

    scenario = {
        "name": "hooked", "users": 2, "rounds": 1, "access": {"kind": "bernoulli", "probability": 1.0},
        "data": (DATA.train_x, DATA.train_y), "partition": "iid", "model": Hooked(),
    }  # fmt: skip
    with pytest.raises(ScenarioError, match=r"model\.module: a Hooked has a hook on its parameter '0\.weight'"):
        netfl.load(scenario)


@pytest.mark.slow
def test_gradient_checkpointing_changes_no_version(tmp_path):
    from support.backward_modules import Checkpointed

    versions = []
    for checkpointed in (False, True):
        torch.manual_seed(0)
        scenario = {
            "name": "c", "users": 2, "rounds": 3, "access": {"kind": "bernoulli", "probability": 1.0},
            "data": {"examples": (DATA.train_x, DATA.train_y), "test": (DATA.test_x, DATA.test_y)},
            "partition": "iid", "model": {"module": Checkpointed(checkpointed)}, "record": {"versions": True},
            "learners": {"A": {"objective": "erm", "aggregation": "average", "lr": 0.1, "batch_size": "full",
                               "local_epochs": 3}},
        }  # fmt: skip
        run = netfl.run(scenario, tmp_path / str(checkpointed), progress=False)
        versions.append(run.versions("A")[3]["second.weight"])
    np.testing.assert_allclose(*versions, atol=1e-6)
    assert np.ptp(versions[0]) > 0.1
