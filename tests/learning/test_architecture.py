"""Stacks of every model compared with PyTorch modules in float64: scores, losses, gradients, layouts, counts."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch
from support import plugin_modules
from support.learner_factory import flat, stored
from torch import nn

from netfl.learning.architecture import SequentialModels, VmappedModels
from netfl.learning.model.cnn import Cnn
from netfl.learning.model.lstm import Lstm
from netfl.learning.model.module import Module
from netfl.learning.model.resnet8 import Resnet8
from netfl.learning.model.svm import Svm
from netfl.streams import Streams

TABLE_1 = Cnn(channels=(6, 16), kernel=5, padding=2, hidden=(120, 84), activation="leaky_relu")
COLOUR = Cnn(channels=(32, 32), hidden=(256, 64), weights="kaiming_normal")
GREY = Cnn(channels=(32, 32), hidden=(128,), weights="kaiming_normal")
JOBS, BATCH = 3, 5


def convolutional(channels, kernel, padding, dense, activation):
    convolutions = [
        part
        for into, out in itertools.pairwise(channels)
        for part in (nn.Conv2d(into, out, kernel, padding=padding), activation(), nn.MaxPool2d(2))
    ]
    layers = [part for into, out in itertools.pairwise(dense) for part in (nn.Linear(into, out), activation())]
    return nn.Sequential(*convolutions, nn.Flatten(), *layers[:-1])


class LetterLstm(nn.Module):
    def __init__(self, tokens, embedding, hidden, layers, classes):
        super().__init__()
        self.embed, self.lstm = nn.Embedding(tokens, embedding), nn.LSTM(embedding, hidden, layers)
        self.out = nn.Linear(hidden, classes)

    def forward(self, x):
        outputs, _ = self.lstm(self.embed(x).transpose(0, 1))
        return self.out(outputs[-1])


class Block(nn.Module):
    def __init__(self, into, out, groups, stride):
        super().__init__()
        self.c1, self.n1 = nn.Conv2d(into, out, 3, stride, 1, bias=False), nn.GroupNorm(groups, out)
        self.c2, self.n2 = nn.Conv2d(out, out, 3, 1, 1, bias=False), nn.GroupNorm(groups, out)
        self.down = None
        if stride == 2:
            self.down = nn.Sequential(nn.Conv2d(into, out, 1, stride, bias=False), nn.GroupNorm(groups, out))

    def forward(self, x):
        y = self.n2(self.c2(torch.relu(self.n1(self.c1(x)))))
        return torch.relu(y + (x if self.down is None else self.down(x)))


def residual(channels, width, groups, classes):
    return nn.Sequential(
        nn.Conv2d(channels, width, 3, 1, 1, bias=False),
        nn.GroupNorm(groups, width),
        nn.ReLU(),
        Block(width, width, groups, 1),
        Block(width, 2 * width, groups, 2),
        Block(2 * width, 4 * width, groups, 2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(4 * width, classes),
    )


def cross_entropy(scores, labels):
    return torch.logsumexp(scores, 1) - scores.gather(1, labels[:, None])[:, 0]


def multiclass_hinge(scores, labels):
    rivals = scores.masked_fill(nn.functional.one_hot(labels, scores.shape[1]).bool(), -torch.inf)
    return torch.relu(1 + rivals.amax(1) - scores.gather(1, labels[:, None])[:, 0])


def binary_hinge(scores, labels):
    return torch.relu(1 - scores[:, 0] * (2 * labels - 1))


def flat_linear(inputs, classes):
    return nn.Sequential(nn.Flatten(), nn.Linear(inputs, classes))


CASES = {
    "cnn": (
        Cnn(channels=(3, 4), kernel=3, hidden=(6,), activation="tanh"),
        ((2, 9, 7), 4, None),
        lambda: convolutional((2, 3, 4), 3, 1, (4 * 2 * 1, 6, 4), nn.Tanh),
        cross_entropy,
    ),
    "cnn without padding or hidden layers": (
        Cnn(channels=(5,), kernel=4, padding=0, activation="leaky_relu"),
        ((1, 8, 8), 3, None),
        lambda: convolutional((1, 5), 4, 0, (5 * 2 * 2, 3), nn.LeakyReLU),
        cross_entropy,
    ),
    "cnn relu": (
        Cnn(channels=(2, 3, 2), kernel=3, hidden=(5, 4)),
        ((1, 12, 12), 3, None),
        lambda: convolutional((1, 2, 3, 2), 3, 1, (2, 5, 4, 3), nn.ReLU),
        cross_entropy,
    ),
    "lstm": (Lstm(embedding=3, hidden=4, layers=2), ((7,), 5, 6), lambda: LetterLstm(6, 3, 4, 2, 5), cross_entropy),
    "resnet8": (Resnet8(width=4, groups=2), ((3, 8, 8), 5, None), lambda: residual(3, 4, 2, 5), cross_entropy),
    "svm": (Svm(), ((2, 3), 4, None), lambda: flat_linear(6, 4), multiclass_hinge),
    "svm of two classes": (Svm(), ((6,), 2, None), lambda: flat_linear(6, 1), binary_hinge),
    "module": (
        Module(module="support.plugin_modules:Small", args={"width": 3, "inputs": 6, "classes": 4}),
        ((2, 3), 4, None),
        lambda: plugin_modules.Small(3, 6, 4),
        cross_entropy,
    ),
    "module with tied weights": (
        Module(module="support.plugin_modules:Tied"),
        ((4,), 5, 5),
        plugin_modules.Tied,
        cross_entropy,
    ),
}
MODULAR = [name for name in CASES if "svm" not in name]
ALL_CASES = pytest.mark.parametrize("name", CASES)


class Case:
    """Modules, examples, labels and weights of a case. The last examples of each model have weight 0."""

    def __init__(self, name, shared=False):
        self.model, self.examples, make, self.loss = CASES[name]
        shape, classes, tokens = self.examples
        self.modules = [make().double() for _ in range(JOBS)]
        self.theta = torch.stack([flat(module) for module in self.modules])
        generator = torch.Generator().manual_seed(3)
        size = (1 if shared else JOBS, BATCH, *shape)
        x = torch.randn(size, generator=generator, dtype=torch.float64)
        if tokens is not None:
            x = torch.randint(tokens, size, generator=generator).double()
        self.x = x.expand(JOBS, *size[1:])
        self.y = torch.randint(classes, (JOBS, BATCH), generator=generator)
        self.weights = torch.rand((JOBS, BATCH), generator=generator, dtype=torch.float64)
        self.weights *= torch.arange(BATCH) < torch.tensor([[BATCH], [3], [2]])

    def network(self):
        return self.model.open(*self.examples)

    def scores(self, job):
        x = self.x[job] if self.examples[2] is None else self.x[job].long()
        return self.modules[job](x)

    def gradient(self, job, weights):
        """Return the gradient of the weighted losses, computed by autograd."""
        module = self.modules[job]
        module.zero_grad()
        (weights * self.loss(self.scores(job), self.y[job])).sum().backward()
        return torch.cat([part.grad.flatten() for part in module.parameters()])

    def check(self, stack, steps=2):
        """Compare two steps with autograd, the second without the last model."""
        theta = self.theta
        for models in (JOBS, JOBS - 1)[:steps]:
            scores = stack.scores(self.x[:models])
            losses = stack.losses(self.y[:models])
            stack.descend(self.weights[:models])
            moved = stored(stack, self.theta)
            assert torch.equal(moved[models:], theta[models:])
            for job in range(models):
                expected = self.scores(job).detach()
                with torch.inference_mode(False):
                    assert_close(losses[job], self.loss(expected, self.y[job]))
                    if expected.shape[1] == 1:
                        expected = expected * torch.tensor([-0.5, 0.5], dtype=torch.float64)
                    assert_close(scores[job], expected)
                    with torch.enable_grad():
                        gradient = self.gradient(job, self.weights[job])
                    assert_close(theta[job] - moved[job], gradient)
                    nn.utils.vector_to_parameters(moved[job].clone(), self.modules[job].parameters())
            theta = moved


def assert_close(found, expected):
    assert torch.allclose(found, expected, rtol=0, atol=1e-12)


@ALL_CASES
@pytest.mark.parametrize("shared", [False, True])
def test_two_steps_equal_autograd(name, shared):
    case = Case(name, shared)
    with torch.inference_mode():
        case.check(case.network().open(case.theta))


def function_of(network, kind):
    return replace(network.function, module=network.vmap_module) if kind is VmappedModels else network.function


@pytest.mark.parametrize("name", MODULAR)
@pytest.mark.parametrize("kind", [SequentialModels, VmappedModels])
@pytest.mark.parametrize("shared", [False, True])
def test_two_steps_of_other_stacks_equal_autograd(name, kind, shared):
    case = Case(name, shared)
    network = case.network()
    with torch.inference_mode():
        case.check(kind(case.theta, function_of(network, kind)))


@ALL_CASES
def test_models_with_weight_0_stay_constant(name):
    case = Case(name)
    case.weights[1] = 0
    with torch.inference_mode():
        stack = case.network().open(case.theta)
        stack.scores(case.x)
        stack.losses(case.y)
        stack.descend(case.weights)
        moved = stored(stack, case.theta)
    assert torch.equal(moved[1], case.theta[1])
    assert not torch.equal(moved[0], case.theta[0])
    assert_close(case.theta[2] - moved[2], case.gradient(2, case.weights[2]))


@ALL_CASES
def test_values_are_changed_in_place(name):
    case = Case(name)
    with torch.inference_mode():
        stack, other_stack = (case.network().open(theta) for theta in (case.theta, torch.ones_like(case.theta)))
        for value, added in zip(stack.values(2), other_stack.values(2), strict=True):
            value.add_(added, alpha=0.5)
        moved = stored(stack, case.theta)
    assert torch.equal(moved[:2], case.theta[:2] + 0.5)
    assert torch.equal(moved[2], case.theta[2])


@ALL_CASES
def test_stacks_without_training_have_the_same_scores(name):
    case = Case(name)
    with torch.inference_mode():
        scored = [case.network().open(case.theta, trained=trained).scores(case.x) for trained in (True, False)]
        assert torch.equal(*scored)


@pytest.mark.parametrize("name", MODULAR)
@pytest.mark.parametrize("kind", [SequentialModels, VmappedModels])
def test_other_stacks_without_training_have_the_same_scores(name, kind):
    case = Case(name)
    network = case.network()
    with torch.inference_mode():
        scored = [kind(case.theta, function_of(network, kind), trained).scores(case.x) for trained in (True, False)]
        assert_close(*scored)


@ALL_CASES
def test_layouts_and_counts_equal_pytorch(name):
    case = Case(name)
    network, (shape, classes, tokens) = case.network(), case.examples
    assert [*network.layout.values()] == [tuple(part.shape) for part in case.modules[0].parameters()]
    assert network.size == case.model.parameters(shape, classes, tokens) == len(case.theta[0])
    assert len(network.start(Streams(0))) == network.size
    assert len(network.layout) == len([*case.modules[0].parameters()])


@pytest.mark.parametrize(
    ("model", "examples", "parameters"),
    [
        (TABLE_1, ((1, 28, 28), 10), 107_786),
        (COLOUR, ((3, 32, 32), 10), 551_786),
        (GREY, ((1, 28, 28), 10), 211_690),
        (Lstm(), ((80,), 80, 80), 819_920),
        (Resnet8(), ((3, 32, 32), 10), 78_042),
        (Svm(), ((100,), 2), 101),
    ],
)
def test_published_models_have_their_number_of_parameters(model, examples, parameters):
    assert model.parameters(*examples) == model.open(*examples).size == parameters


def test_layouts_name_all_parameters():
    assert [*Cnn(channels=(2,), hidden=(3,)).open((1, 4, 4), 2).layout] == [
        "convolutions.0.weight", "convolutions.0.bias",
        "layers.0.weight", "layers.0.bias", "layers.1.weight", "layers.1.bias",
    ]  # fmt: skip
    assert [*Lstm(layers=1).open((4,), 3, 3).layout] == [
        "embedding.weight", "cells.weight_ih_l0", "cells.weight_hh_l0", "cells.bias_ih_l0", "cells.bias_hh_l0",
        "last.weight", "last.bias",
    ]  # fmt: skip


def test_the_hinge_loss_has_gradient_0_at_its_kink():
    theta = torch.tensor([[1.0, 0.0]], dtype=torch.float64)
    stack = Svm().open((1,), 2).open(theta)
    stack.scores(torch.tensor([[[1.0], [-1.0]]], dtype=torch.float64))
    assert stack.losses(torch.tensor([[1, 0]])).tolist() == [[0.0, 0.0]]
    stack.descend(torch.ones((1, 2), dtype=torch.float64))
    assert torch.equal(stored(stack, theta), theta)


def test_max_pooling_breaks_ties_as_pytorch_does():
    module = convolutional((1, 1), 1, 0, (4, 2), nn.ReLU).double()
    theta = flat(module)[None]
    x = torch.ones((1, 1, 1, 4, 4), dtype=torch.float64).requires_grad_()
    with torch.no_grad():
        stack = Cnn(channels=(1,), kernel=1, padding=0).open((1, 4, 4), 2).open(theta)
        stack.scores(x.detach())
        stack.losses(torch.tensor([[1]]))
        stack.descend(torch.ones((1, 1), dtype=torch.float64))
    cross_entropy(module(x[0]), torch.tensor([1])).sum().backward()
    gradient = torch.cat([part.grad.flatten() for part in module.parameters()])
    assert_close(theta[0] - stored(stack, theta)[0], gradient)


@pytest.mark.parametrize("model", [TABLE_1, COLOUR, Lstm(), Resnet8(), Svm()])
def test_single_precision_is_close_to_double_precision(model):
    shape, tokens = ((8,), 5) if isinstance(model, Lstm) else ((3, 20, 20), None)
    network = model.open(shape, 4, tokens)
    theta = torch.from_numpy(np.stack([network.start(Streams(i)) for i in range(2)]))
    generator = torch.Generator().manual_seed(0)
    x = torch.randint(5, (2, 6, *shape), generator=generator).double()
    moved = []
    for dtype in (torch.float32, torch.float64):
        with torch.inference_mode():
            stack = network.open(theta.to(dtype))
            stack.scores(x.to(dtype))
            stack.losses(torch.zeros((2, 6), dtype=torch.int64))
            stack.descend(torch.full((2, 6), 0.01, dtype=dtype))
            moved.append(theta - stored(stack, theta.to(dtype)).double())
    assert torch.allclose(*moved, rtol=1e-3, atol=1e-5)
    assert moved[1].abs().max() > 1e-4
