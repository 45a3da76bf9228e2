"""Training of one module in plain PyTorch, with the mini-batches of a learner, for comparisons."""

import contextlib
import copy
import itertools

import numpy as np
import torch

from netfl.learning.cohort import Cohort
from netfl.learning.data import Dataset
from netfl.learning.model._user_module import create_module
from netfl.learning.model.module import Module
from netfl.learning.module_training import ModuleParts
from support.learner_factory import learner

PLACE = "support.training_modules"
USERS = 4
SIZES = [23, 8, 2, 57]
SPLIT = np.split(np.arange(90), np.cumsum(SIZES)[:-1])


def dataset(shape=(4,), outputs=None):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((120, *shape)).astype(np.float32)
    y = rng.integers(3, size=120) if outputs is None else rng.normal(size=(120, outputs)).astype(np.float32)
    return Dataset(x[:90], y[:90], x[90:], y[90:], 3 if outputs is None else outputs)


DATA = dataset()


def module(name, loss="cross_entropy", place=PLACE, **args):
    return Module(module=f"{place}:{name}", args=args, loss=loss)


def learners_of(model, specs, data=DATA, **options):
    return learner(specs, model=model, datasets=[data] * len(options.get("replicas", (0,))), **_options(options))


def _options(options):
    replicas = options.get("replicas", (0,))
    return {"splits": [SPLIT] * len(replicas), "rare_classes": ()} | options


def start_module(model, streams):
    """Return the module with its initial weights in float64."""
    return create_module(model.module, model.args, int(streams.rng("module").integers(2**63))).double()


def shuffles_of(made, user, base, work, repeat=0):
    """Return the examples of each mini-batch of an update."""
    arrays = (np.array([0]), np.array([user]), np.array([base]))
    batches = made._sampler.draw(Cohort(*arrays, ()), np.array([SIZES[user]]), work)
    return [SPLIT[user][places[:count]] for places, count in zip(batches.places[0], batches.counts[0], strict=True)]


def keys_of(made, user, base, work):
    """Return the random number of each step of an update."""
    cohort = Cohort(np.array([0]), np.array([user]), np.array([base]), ())
    batches = made._sampler.draw(cohort, np.array([SIZES[user]]), work)
    return made._sampler.draw_keys(cohort, batches)[:, 0].tolist()


def train_plainly(net, batches, data, loss, lr=0.1, draws=()):
    """Train a copy of a module in training mode by SGD, as a PyTorch user would.

    *draws* are contexts in which the steps run.
    """
    net = copy.deepcopy(net).train()
    optimiser = torch.optim.SGD([part for part in net.parameters() if part.requires_grad], lr=lr)
    for rows, drawing in itertools.zip_longest(batches, draws, fillvalue=contextlib.nullcontext()):
        optimiser.zero_grad()
        y = torch.from_numpy(data.train_y[rows])
        y = y if y.dtype == torch.int64 else y.double()
        with drawing:
            loss(net(torch.from_numpy(data.train_x[rows]).double()), y).backward()
        optimiser.step()
    return net


def average(nets, weights, like):
    """Average everything in the state of modules, as FedAvg on their state_dict does."""
    total, result = sum(weights), copy.deepcopy(like)
    states = [net.state_dict() for net in nets]
    mean = {
        name: sum(weight / total * state[name] for weight, state in zip(weights, states, strict=True))
        if value.is_floating_point()
        else value
        for name, value in like.state_dict().items()
    }
    result.load_state_dict(mean)
    return result


def values_of(net):
    return torch.cat([part.detach().flatten() for part in ModuleParts.of(net).sent.values()]).numpy()
