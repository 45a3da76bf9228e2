"""References for the speed of local training: a plain PyTorch loop, and the bare arithmetic.

A turn is a function that does the local steps of a round and returns their number.
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
class Workload:
    """A model and the data it is trained on.

    Args:
        name: name in the table.
        sizes: sizes of the layers, from the inputs to the classes.
        batch: examples in a mini-batch.
        samples: examples of each of `USERS` users.
        steps: local steps of a user in a round, as in the experiment that the model is from.
        softmax: whether the model has a softmax output, in addition to that of the cross-entropy.
    """

    name: str
    sizes: tuple[int, ...]
    batch: int
    samples: int
    steps: int
    softmax: bool = False


MLP = Workload("MLP 784-128-128-10, batch 128", (784, 128, 128, 10), 128, 2048, 160)
FIG2 = Workload("Fig 2, 2-64-3, batch 100", (2, 64, 3), 100, 800, 80, True)
LOGISTIC = Workload("logistic 60-10, batch 10", (60, 10), 10, 670, 67)


def examples(workload: Workload, samples: int | None = None) -> Dataset:
    """Return random examples, as their values do not change the time."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((samples or USERS * workload.samples, workload.sizes[0])).astype(np.float32)
    y = rng.integers(workload.sizes[-1], size=len(x))
    return Dataset(x, y, x[:100], y[:100], workload.sizes[-1])


def plain(workload: Workload) -> Turn:
    """Return a turn of a usual PyTorch loop for one model: modules, autograd, an optimiser, mini-batches by index."""
    data = examples(workload)
    x, y = torch.from_numpy(data.train_x), torch.from_numpy(data.train_y)
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(workload.sizes):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    layers[-1:] = [nn.Softmax(1)] if workload.softmax else []
    model, criterion = nn.Sequential(*layers), nn.CrossEntropyLoss()
    optimiser = torch.optim.SGD(model.parameters(), lr=LR)

    def turn() -> int:
        for _ in range(workload.steps):
            rows = torch.randint(len(y), (workload.batch,))
            optimiser.zero_grad()
            criterion(model(x[rows]), y[rows]).backward()
            optimiser.step()
        return workload.steps

    return turn


def floor(workload: Workload, lanes: int, shared: bool = False) -> Turn:
    """Return a turn of forward, backward and update of `lanes` ReLU networks on existing buffers, without autograd.

    Each step gathers its mini-batch from rows drawn in advance, then does only the arithmetic: one product per
    layer forward, one for the gradient of its inputs, and one that is its gradient and its update.  One lane is
    computed by `addmm`, several by `baddbmm`; with *shared* all of them train on one mini-batch.
    """
    data, sizes, batch = examples(workload), workload.sizes, workload.batch
    x, y = torch.from_numpy(data.train_x), torch.from_numpy(data.train_y)
    drawn = [_rows(workload, 1 if shared else lanes, seed) for seed in range(8)]
    rounds, stack = cycle(drawn), () if lanes == 1 else (lanes,)
    forward, product = (torch.baddbmm, torch.bmm) if stack else (torch.addmm, torch.mm)
    weights = [0.05 * torch.randn(*stack, outputs, inputs) for inputs, outputs in pairwise(sizes)]
    biases = [torch.zeros(*stack, 1, outputs) for outputs in sizes[1:]]
    hidden, below = ([torch.empty(*stack, batch, size) for size in sizes[1:-1]] for _ in range(2))
    scores = torch.empty(*stack, sizes[-1], batch)
    buffer, labels = x.new_empty(drawn[0].shape[1], sizes[0]), y.new_zeros(drawn[0].shape[1])
    inputs_ = [buffer.view(-1, batch, sizes[0]).expand(*stack, batch, -1) if stack else buffer, *hidden]
    hot = labels.view(-1, 1, batch).expand(*stack, 1, -1) if stack else labels[None]

    def descend(index: int, grad: Tensor) -> None:
        """Update a layer; *grad* is the gradient of its outputs, ``[lanes, out, batch]``."""
        move = weights[index].baddbmm_ if stack else weights[index].addmm_
        move(grad, inputs_[index], alpha=-1)
        biases[index].sub_(grad.sum(-1).unsqueeze(-2))

    def step(rows: Tensor) -> None:
        """Do one step of all lanes."""
        torch.index_select(x, 0, rows, out=buffer)
        torch.index_select(y, 0, rows, out=labels)
        for index, out in enumerate(hidden):
            forward(biases[index], inputs_[index], weights[index].mT, out=out).relu_()
        forward(biases[-1].mT, weights[-1], inputs_[-1].mT, out=scores)
        log = torch.log_softmax(scores, -2)
        grad = log.exp_().scatter_(-2, hot, -1.0, reduce="add").mul_(LR / batch)
        for index in range(len(hidden), 0, -1):
            above = product(grad.mT, weights[index], out=below[index - 1])
            _ATEN.threshold_backward.grad_input(above, inputs_[index], 0, grad_input=above)
            descend(index, grad)
            grad = above.mT
        descend(0, grad)

    def turn() -> int:
        with torch.inference_mode():
            for rows in next(rounds):
                step(rows)
        return workload.steps * lanes

    return turn


def _rows(workload: Workload, users: int, seed: int) -> Tensor:
    """Draw the rows of the mini-batches of some users, ``[steps, users * batch]``."""
    rng, count = np.random.default_rng(seed), workload.steps * workload.batch
    rows = [
        rng.permuted(np.resize(np.arange(workload.samples), count)).reshape(workload.steps, -1)
        + user * workload.samples
        for user in rng.integers(USERS, size=users)
    ]
    return torch.from_numpy(np.concatenate(rows, axis=1))
