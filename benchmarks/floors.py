"""What local training is compared with: a plain PyTorch loop, and the same arithmetic with nothing around it.

A turn is a function that does a round's local steps and returns how many those were.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import cycle, pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from netfl.learning.data import Dataset

USERS = 10
LR = 1e-3
Turn = Callable[[], int]
_ATEN: Any = torch.ops.aten


@dataclass(frozen=True)
class World:
    """A model and the data it is trained on.

    Args:
        name: in the table.
        sizes: of the layers, from the inputs to the classes.
        batch: examples in a mini-batch.
        held: examples of each of `USERS` users.
        steps: local steps of a user in a round, as in the experiment that the model is from.
        softmax: whether the model's output is one, under the cross-entropy's own.
    """

    name: str
    sizes: tuple[int, ...]
    batch: int
    held: int
    steps: int
    softmax: bool = False


MLP = World("MLP 784-128-128-10, batch 128", (784, 128, 128, 10), 128, 2048, 160)
FIG2 = World("Fig 2, 2-64-3, batch 100", (2, 64, 3), 100, 800, 80, True)
LOGISTIC = World("logistic 60-10, batch 10", (60, 10), 10, 670, 67)


def examples(world: World, held: int | None = None) -> Dataset:
    """Made-up examples: what they are does not change the time."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((held or USERS * world.held, world.sizes[0])).astype(np.float32)
    y = rng.integers(world.sizes[-1], size=len(x))
    return Dataset(x, y, x[:100], y[:100], world.sizes[-1])


def plain(world: World) -> Turn:
    """A loop of one model as it is usually written: modules, autograd, an optimiser, each mini-batch drawn by index."""
    data = examples(world)
    x, y = torch.from_numpy(data.train_x), torch.from_numpy(data.train_y)
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(world.sizes):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    layers[-1:] = [nn.Softmax(1)] if world.softmax else []
    model, criterion = nn.Sequential(*layers), nn.CrossEntropyLoss()
    optimiser = torch.optim.SGD(model.parameters(), lr=LR)

    def turn() -> int:
        for _ in range(world.steps):
            rows = torch.randint(len(y), (world.batch,))
            optimiser.zero_grad()
            criterion(model(x[rows]), y[rows]).backward()
            optimiser.step()
        return world.steps

    return turn


def floor(world: World, lanes: int, shared: bool = False) -> Turn:
    """Forward, backward and update of `lanes` ReLU networks, on buffers that are there, without autograd.

    Each step gathers its mini-batch, of rows drawn long before, then does nothing but the arithmetic: one product a
    layer forward, one for the gradient of its inputs, and one that is its gradient and its update.  One lane is
    computed by `addmm`, several by `baddbmm`; with *shared* all of them train on one mini-batch.
    """
    data, sizes, batch = examples(world), world.sizes, world.batch
    x, y = torch.from_numpy(data.train_x), torch.from_numpy(data.train_y)
    drawn = [_rows(world, 1 if shared else lanes, seed) for seed in range(8)]
    rounds, stack = cycle(drawn), () if lanes == 1 else (lanes,)
    forward, product = (torch.baddbmm, torch.bmm) if stack else (torch.addmm, torch.mm)
    weights = [0.05 * torch.randn(*stack, outputs, inputs) for inputs, outputs in pairwise(sizes)]
    biases = [torch.zeros(*stack, 1, outputs) for outputs in sizes[1:]]
    hidden, below = ([torch.empty(*stack, batch, size) for size in sizes[1:-1]] for _ in range(2))
    scores = torch.empty(*stack, sizes[-1], batch)
    room, labels = x.new_empty(drawn[0].shape[1], sizes[0]), y.new_zeros(drawn[0].shape[1])
    given = [room.view(-1, batch, sizes[0]).expand(*stack, batch, -1) if stack else room, *hidden]
    hot = labels.view(-1, 1, batch).expand(*stack, 1, -1) if stack else labels[None]

    def descend(index: int, grad: Tensor) -> None:
        """Update a layer; *grad* is that of its outputs, ``[lanes, out, batch]``."""
        move = weights[index].baddbmm_ if stack else weights[index].addmm_
        move(grad, given[index], alpha=-1)
        biases[index].sub_(grad.sum(-1).unsqueeze(-2))

    def step(rows: Tensor) -> None:
        """One step of all lanes."""
        torch.index_select(x, 0, rows, out=room)
        torch.index_select(y, 0, rows, out=labels)
        for index, out in enumerate(hidden):
            forward(biases[index], given[index], weights[index].mT, out=out).relu_()
        forward(biases[-1].mT, weights[-1], given[-1].mT, out=scores)
        log = torch.log_softmax(scores, -2)
        grad = log.exp_().scatter_(-2, hot, -1.0, reduce="add").mul_(LR / batch)
        for index in range(len(hidden), 0, -1):
            above = product(grad.mT, weights[index], out=below[index - 1])
            _ATEN.threshold_backward.grad_input(above, given[index], 0, grad_input=above)
            descend(index, grad)
            grad = above.mT
        descend(0, grad)

    def turn() -> int:
        with torch.inference_mode():
            for rows in next(rounds):
                step(rows)
        return world.steps * lanes

    return turn


def _rows(world: World, users: int, seed: int) -> Tensor:
    """Rows of a round's mini-batches for some users, drawn at random, ``[steps, users * batch]``."""
    rng, wanted = np.random.default_rng(seed), world.steps * world.batch
    own = [
        rng.permuted(np.resize(np.arange(world.held), wanted)).reshape(world.steps, -1) + user * world.held
        for user in rng.integers(USERS, size=users)
    ]
    return torch.from_numpy(np.concatenate(own, axis=1))
