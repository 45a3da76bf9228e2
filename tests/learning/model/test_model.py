"""Dense models: gradients compared with autograd, and their initial values."""

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
    """Return the same model as a PyTorch module in float64."""
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
def test_gradients_equal_autograd(activation, output, inputs, hidden):
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


def test_models_outside_the_batch_stay_constant():
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


def test_a_shared_batch_may_be_an_expanded_view():
    theta = torch.stack([flat(reference(3, (5,), 2)) for _ in range(3)])
    x = torch.randn(1, 4, 3, dtype=torch.float64).expand(3, 4, 3)
    network = Mlp(hidden=(5,)).open((3,), 2)
    together, alone = (
        network.open(theta).scores(x),
        [network.open(model_theta[None]).scores(x[:1])[0] for model_theta in theta],
    )
    assert torch.allclose(together, torch.stack(alone), rtol=0, atol=1e-13)


def test_opening_does_not_change_the_parameters():
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
def test_the_number_of_parameters_equals_pytorch(model, shape, classes):
    hidden = getattr(model, "hidden", ())
    expected = sum(part.numel() for part in reference(math.prod(shape), hidden, classes).parameters())
    network = model.open(shape, classes)
    assert model.parameters(shape, classes) == network.size == len(network.start(Streams(0))) == expected


def test_zero_weights_keep_the_default_biases():
    default, zeros = (
        Mlp(hidden=(64,), weights=weights).open((2,), 3).start(Streams(3)) for weights in ("default", "zeros")
    )
    sizes = [2 * 64, 64, 64 * 3, 3]
    for number, (part, zeros_part) in enumerate(
        zip(*(np.split(x, np.cumsum(sizes)[:-1]) for x in (default, zeros)), strict=True)
    ):
        bound = 1 / math.sqrt(2 if number < 2 else 64)
        assert np.abs(part).max() <= bound
        assert (zeros_part == 0).all() if number % 2 == 0 else np.array_equal(part, zeros_part)


def test_biases_start_at_zero_or_at_another_draw_with_the_same_weights():
    starts = {
        biases: np.split(Mlp(hidden=(64,), biases=biases).open((2,), 3).start(Streams(3)), [128, 192, 384])
        for biases in ("default", "zeros", 0, 7)
    }
    for other in ("zeros", 0, 7):
        for weights in (0, 2):
            np.testing.assert_array_equal(starts[other][weights], starts["default"][weights])
    for layer, bound in ((1, 2**-0.5), (3, 1 / 8)):
        assert (starts["zeros"][layer] == 0).all()
        drawn = [starts[name][layer] for name in ("default", 0, 7)]
        assert all(0 < np.abs(values).max() <= bound for values in drawn)
        assert not any(
            np.isin(a, b).any() for a, b in ((drawn[0], drawn[1]), (drawn[0], drawn[2]), (drawn[1], drawn[2]))
        )


def test_initial_values_depend_only_on_their_streams():
    network = Mlp(hidden=(4,)).open((2,), 3)
    assert np.array_equal(network.start(Streams(3)), network.start(Streams(3)))
    assert not np.array_equal(network.start(Streams(3)), network.start(Streams(4)))


@pytest.mark.slow
def test_reading_a_scenario_does_not_import_torch():
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


def test_single_layers_may_start_at_zero():
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
