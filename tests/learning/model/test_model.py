"""Dense models: their gradients against autograd, their start against its claim."""

import math
import subprocess
import sys

import numpy as np
import pytest
import torch
from support.learner_factory import flat, stored
from torch import nn

from netfl.errors import ScenarioError
from netfl.learning.model.logistic import Logistic
from netfl.learning.model.mlp import Mlp
from netfl.streams import Streams

MODULES = {"relu": nn.ReLU, "leaky_relu": lambda: nn.LeakyReLU(0.01), "tanh": nn.Tanh}


def reference(inputs, hidden, classes, activation="relu", output="logits"):
    """The same model in PyTorch's own words, in float64."""
    layers, width = [], inputs
    for out in hidden:
        layers += [nn.Linear(width, out), MODULES[activation]()]
        width = out
    layers.append(nn.Linear(width, classes))
    if output == "softmax":
        layers.append(nn.Softmax(1))
    return nn.Sequential(*layers).double()


@pytest.mark.parametrize("activation", MODULES)
@pytest.mark.parametrize("output", ["logits", "softmax"])
@pytest.mark.parametrize(("inputs", "hidden"), [(3, (9,)), (9, (4,)), (5, (7, 6)), (4, ())])
def test_descent_is_the_gradient_of_autograd(activation, output, inputs, hidden):
    jobs, batch, classes = 3, 8, 4
    rng = torch.Generator().manual_seed(1)
    modules = [reference(inputs, hidden, classes, activation, output if hidden else "logits") for _ in range(jobs)]
    model = Mlp(hidden=hidden, activation=activation, output=output) if hidden else Logistic()
    x = torch.randn(jobs, batch, inputs, generator=rng, dtype=torch.float64)
    y = torch.randint(classes, (jobs, batch), generator=rng)
    weights = torch.rand(jobs, batch, generator=rng, dtype=torch.float64)
    theta = torch.stack([flat(module) for module in modules])

    with torch.inference_mode():
        stack = model.open((inputs,), classes).open(theta)
        scores = stack.scores(x)
        losses = stack.losses(y)
        stack.descend(weights)
        moved = theta - stored(stack, theta)

    for job, module in enumerate(modules):
        out = module(x[job])
        loss = nn.functional.cross_entropy(out, y[job], reduction="none")
        (weights[job] * loss).sum().backward()
        gradient = torch.cat([part.grad.flatten() for part in module.parameters()])
        assert torch.allclose(moved[job], gradient, rtol=0, atol=1e-10)
        assert torch.allclose(losses[job], loss, rtol=0, atol=1e-12)
        assert (scores[job].argmax(1) == out.argmax(1)).all()


def test_models_that_have_stopped_stay_where_they_are():
    theta = torch.stack([flat(reference(3, (5,), 2)) for _ in range(3)])
    x, y = torch.randn(3, 4, 3, dtype=torch.float64), torch.ones(3, 4, dtype=torch.int64)
    with torch.inference_mode():
        stack = Mlp(hidden=(5,)).open((3,), 2).open(theta)
        for models in (3, 2):
            stack.scores(x[:models])
            stack.losses(y[:models])
            stack.descend(torch.full((models, 4), 0.1, dtype=torch.float64))
            if models == 3:
                before = stored(stack, theta)
        after = stored(stack, theta)
    assert torch.equal(after[2], before[2])
    assert not torch.isclose(after[:2], before[:2]).all(1).any()


def test_one_batch_for_all_models_may_be_an_expanded_view():
    theta = torch.stack([flat(reference(3, (5,), 2)) for _ in range(3)])
    x = torch.randn(1, 4, 3, dtype=torch.float64).expand(3, 4, 3)
    network = Mlp(hidden=(5,)).open((3,), 2)
    together, alone = network.open(theta).scores(x), [network.open(one[None]).scores(x[:1])[0] for one in theta]
    assert torch.allclose(together, torch.stack(alone), rtol=0, atol=1e-13)


def test_opening_leaves_the_given_parameters_alone():
    theta = torch.stack([flat(reference(2, (), 2)) for _ in range(2)])
    kept = theta.clone()
    stack = Logistic().open((2,), 2).open(theta)
    stack.scores(torch.randn(2, 3, 2, dtype=torch.float64))
    stack.losses(torch.zeros(2, 3, dtype=torch.int64))
    stack.descend(torch.ones(2, 3, dtype=torch.float64))
    assert torch.equal(theta, kept)


@pytest.mark.parametrize(
    ("model", "shape", "classes"),
    [(Logistic(), (4, 4), 10), (Mlp(hidden=(64,)), (2,), 3), (Mlp(hidden=(8, 6)), (3, 2), 5)],
)
def test_parameters_are_counted_as_pytorch_counts_them(model, shape, classes):
    hidden = getattr(model, "hidden", ())
    expected = sum(part.numel() for part in reference(math.prod(shape), hidden, classes).parameters())
    network = model.open(shape, classes)
    assert model.parameters(shape, classes) == network.size == len(network.start(Streams(0))) == expected


def test_weights_that_start_at_zero_leave_the_biases_where_they_are():
    default, zeros = (Mlp(hidden=(64,), weights=how).open((2,), 3).start(Streams(3)) for how in ("default", "zeros"))
    sizes = [2 * 64, 64, 64 * 3, 3]
    for at, (one, other) in enumerate(
        zip(*(np.split(x, np.cumsum(sizes)[:-1]) for x in (default, zeros)), strict=True)
    ):
        bound = 1 / math.sqrt(2 if at < 2 else 64)
        assert np.abs(one).max() <= bound
        assert (other == 0).all() if at % 2 == 0 else np.array_equal(one, other)


def test_a_start_depends_on_its_streams_alone():
    network = Mlp(hidden=(4,)).open((2,), 3)
    assert np.array_equal(network.start(Streams(3)), network.start(Streams(3)))
    assert not np.array_equal(network.start(Streams(3)), network.start(Streams(4)))


@pytest.mark.slow
def test_a_scenario_is_read_without_torch():
    code = (
        "import sys, netfl.learning.spec\n"
        "from netfl.learning.spec import LearnerSpec\n"
        "from netfl.learning.model.mlp import Mlp\n"
        "LearnerSpec.model_validate(dict(objective=dict(kind='cvar', alpha=0.1, lr_t=0.1), aggregation='relay',"
        " lr=0.1, batch_size=1, local_steps=1))\n"
        "Mlp(hidden=(3,)).parameters((2,), 3)\n"
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_weights_may_start_at_zero_in_some_layers_only():
    start = Mlp(hidden=(4, 3), weights=("zeros", "default", "zeros")).open((2,), 5).start(Streams(3))
    sizes = (2 * 4, 4, 4 * 3, 3, 3 * 5, 5)
    assert [bool(part.any()) for part in np.split(start, np.cumsum(sizes)[:-1])] == [
        False,
        True,
        True,
        True,
        False,
        True,
    ]
    with pytest.raises(ScenarioError, match="2 entries for 3 layers"):
        Mlp(hidden=(4, 3), weights=("zeros", "default"))
