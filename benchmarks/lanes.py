"""What a local step costs per lane, as a multiple of the same step in a plain PyTorch loop.

Both sides do all that a run does between two evaluations: netfl draws shuffles, looks up bases, gathers mini-batches,
trains, aggregates and makes the next version; the loop (``nn.Module``, ``optim.SGD``, tensors in memory, one process)
draws each mini-batch by index, trains and goes on.  The sides take turns, many times, and medians are compared, so
that another load on the machine meets both.

    python benchmarks/lanes.py [--threads 1] [--turns 30]
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from torch import nn

from netfl.learning.aggregation.relay import Relay
from netfl.learning.data import Dataset
from netfl.learning.learner import Learner
from netfl.learning.model.mlp import Mlp
from netfl.learning.objective.cvar import Cvar
from netfl.learning.objective.erm import Erm
from netfl.learning.settings import EvaluateSpec, LearnerSpec
from netfl.streams import Streams
from netfl.types import Delivery, Round

STEPS = 10
USERS = 10


@dataclass(frozen=True)
class World:
    """A model and the data it is trained on."""

    name: str
    inputs: int
    hidden: tuple[int, ...]
    classes: int
    batch: int
    held: int
    softmax: bool


FIG2 = World("Fig 2, 2-64-3, batch 100", 2, (64,), 3, 100, 800, True)
MNIST = World("MLP 784-128-128-10, batch 128", 784, (128, 128), 10, 128, 2000, False)
CASES = (
    (FIG2, 1, 1, 1.0),
    (FIG2, 2, 16, 0.25),
    (FIG2, 32, 1, 0.25),
    (FIG2, 1, 32, 0.25),
    (MNIST, 1, 1, 1.0),
    (MNIST, 2, 4, 0.85),
    (MNIST, 8, 1, 0.85),
    (MNIST, 1, 8, 0.85),
)


def examples(world: World) -> Dataset:
    """Made-up examples: what they are does not change the time."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((USERS * world.held, world.inputs)).astype(np.float32)
    y = rng.integers(world.classes, size=len(x))
    return Dataset(x, y, x[:100], y[:100], world.classes)


def netfl_turn(world: World, learners: int, replicas: int) -> Callable[[], int]:
    """A function that does one round of all lanes and returns how many local steps that was."""
    data = examples(world)
    objectives = [Cvar(alpha=0.1, gamma=0.1, lr_t=1e-3) if i % 2 else Erm() for i in range(learners)]
    specs = {
        f"learner {i}": LearnerSpec(
            objective=one, aggregation=Relay(), lr=1e-3, batch_size=world.batch, local_steps=STEPS
        )
        for i, one in enumerate(objectives)
    }
    split = np.split(np.arange(len(data.train_y)), USERS)
    learner = Learner(
        learners=specs,
        model=Mlp(hidden=world.hidden, output="softmax" if world.softmax else "logits"),
        datasets=[data] * replicas,
        splits=[split] * replicas,
        evaluate=EvaluateSpec(every=10**9),
        rare_classes=(),
        rounds=10**9,
        streams=[Streams(i) for i in range(replicas)],
        device="cpu",
    )
    rng, done = np.random.default_rng(1), 0

    def turn() -> int:
        nonlocal done
        done += 1
        users = rng.integers(USERS, size=replicas)
        heard = [(Delivery(int(user), done - 1, 0.0, 1.0),) for user in users]
        learner.step([Round(done, 0.0, 1.0, one, done - 1) for one in heard])
        return STEPS * learners * replicas

    return turn


def plain_turn(world: World) -> Callable[[], int]:
    """The same for a plain loop of one model."""
    data = examples(world)
    x, y = torch.from_numpy(data.train_x), torch.from_numpy(data.train_y)
    sizes = (world.inputs, *world.hidden, world.classes)
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(sizes):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    layers[-1:] = [nn.Softmax(1)] if world.softmax else []
    model, criterion = nn.Sequential(*layers), nn.CrossEntropyLoss()
    optimiser = torch.optim.SGD(model.parameters(), lr=1e-3)

    def turn() -> int:
        for _ in range(STEPS):
            rows = torch.randint(len(y), (world.batch,))
            optimiser.zero_grad()
            criterion(model(x[rows]), y[rows]).backward()
            optimiser.step()
        return STEPS

    return turn


def seconds(turn: Callable[[], int], at_least: float = 0.02) -> float:
    """Time per local step, over enough turns to measure."""
    steps, begin = 0, time.perf_counter()
    while (spent := time.perf_counter() - begin) < at_least:
        steps += turn()
    return spent / steps


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--threads", type=int, default=1, help="torch's threads, on both sides")
    parser.add_argument("--turns", type=int, default=30, help="how often the sides take turns")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    print(f"torch {torch.__version__}, {options.threads} thread(s); medians of {options.turns} turns")
    print(f"{'model':30} {'lanes':>5}  {'learners x replicas':19} {'plain':>9} {'per lane':>9} {'ratio':>6}   bar")
    for world, learners, replicas, bar in CASES:
        plain, ours = plain_turn(world), netfl_turn(world, learners, replicas)
        for turn in (plain, ours):
            seconds(turn, 0.1)
        pairs = [(seconds(plain), seconds(ours)) for _ in range(options.turns)]
        slow, fast = (statistics.median(side) for side in zip(*pairs, strict=True))
        shape = f"{learners} x {replicas}"
        verdict = "met" if fast / slow <= bar else "MISSED"
        print(
            f"{world.name:30} {learners * replicas:5}  {shape:19} {slow * 1e6:6.1f} us {fast * 1e6:6.1f} us "
            f"{fast / slow:6.3f}   {bar:.2f} {verdict}"
        )


if __name__ == "__main__":
    main()
