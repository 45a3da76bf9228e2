"""The cost of a local step of a deep model per lane, relative to a plain PyTorch loop.

As in ``learning.py``, netfl does whole rounds with one delivery per lane; the loop (``nn.Module``,
``optim.SGD``, ``nn.CrossEntropyLoss``) trains one model after the other.  The sides take turns; medians count.

    python benchmarks/models.py [--threads 1] [--turns 15] [--only table1]
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from torch import nn

from netfl.learning.aggregation.relay import Relay
from netfl.learning.data import Dataset
from netfl.learning.learner import BatchedLearner, LearningTask
from netfl.learning.model import Model
from netfl.learning.model.cnn import Cnn
from netfl.learning.model.lstm import Lstm
from netfl.learning.model.resnet8 import Resnet8
from netfl.learning.objective.erm import Erm
from netfl.learning.spec import EvaluateSpec, LearnerSpec
from netfl.learning.user_data import ReplicaData
from netfl.streams import Streams
from netfl.types import Delivery, Round

USERS, SAMPLES = 4, 300


def convolutional(channels: Sequence[int], kernel: int, dense: Sequence[int], activation: type[nn.Module]) -> nn.Module:
    """Return a CNN in plain PyTorch."""
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(channels):
        layers += [nn.Conv2d(inputs, outputs, kernel, padding=kernel // 2), activation(), nn.MaxPool2d(2)]
    layers.append(nn.Flatten())
    for inputs, outputs in pairwise(dense):
        layers += [nn.Linear(inputs, outputs), activation()]
    return nn.Sequential(*layers[:-1])


class Letters(nn.Module):
    """The LSTM of LEAF."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.cells = nn.Embedding(80, 8), nn.LSTM(8, 256, 2, batch_first=True)
        self.last = nn.Linear(256, 80)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the scores of the next letter."""
        return torch.as_tensor(self.last(self.cells(self.embedding(x.long()))[0][:, -1]))


class Block(nn.Module):
    """Two convolutions beside a shortcut."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.way = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.GroupNorm(8, outputs), nn.ReLU(),
            nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False), nn.GroupNorm(8, outputs),
        )  # fmt: skip
        short = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.GroupNorm(8, outputs))
        self.short = short if stride > 1 else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the output of the block."""
        return torch.relu(self.way(x) + self.short(x))


def residual() -> nn.Module:
    """Return ResNet-8."""
    first = nn.Sequential(nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.GroupNorm(8, 16), nn.ReLU())
    blocks = nn.Sequential(Block(16, 16, 1), Block(16, 32, 2), Block(32, 64, 2))
    return nn.Sequential(first, blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


@dataclass(frozen=True)
class Case:
    """A model, the same model in plain PyTorch, and its data; `bar` is the largest relative cost of a lane."""

    name: str
    model: Model
    plain: Callable[[], nn.Module]
    shape: tuple[int, ...]
    classes: int
    batch: int
    lanes: tuple[int, ...]
    steps: int
    bar: float | None = None
    tokens: int | None = None


CASES = (
    Case(
        "table1",
        Cnn(channels=(6, 16), kernel=5, padding=2, hidden=(120, 84), activation="leaky_relu"),
        lambda: convolutional((1, 6, 16), 5, (784, 120, 84, 10), nn.LeakyReLU),
        (1, 28, 28), 10, 128, (1, 4, 8), 10, 0.8,
    ),
    Case(
        "fedau colour",
        Cnn(channels=(32, 32), hidden=(256, 64)),
        lambda: convolutional((3, 32, 32), 3, (2048, 256, 64, 10), nn.ReLU),
        (3, 32, 32), 10, 16, (1, 8), 5,
    ),
    Case(
        "fedau grey",
        Cnn(channels=(32, 32), hidden=(128,)),
        lambda: convolutional((1, 32, 32), 3, (1568, 128, 10), nn.ReLU),
        (1, 28, 28), 10, 16, (1, 8), 5,
    ),
    Case("lstm", Lstm(), Letters, (80,), 80, 10, (1, 4), 5, tokens=80),
    Case("resnet8", Resnet8(), residual, (3, 32, 32), 10, 32, (1, 4), 3),
)  # fmt: skip


def examples(case: Case) -> Dataset:
    """Return random examples, as their values do not change the time."""
    rng = np.random.default_rng(0)
    size = (USERS * SAMPLES, *case.shape)
    x = rng.standard_normal(size) if case.tokens is None else rng.integers(case.tokens, size=size)
    x, y = x.astype(np.float32), rng.integers(case.classes, size=len(x))
    return Dataset(x, y, x[:50], y[:50], case.classes)


def make_learner(case: Case, lanes: int, device: str = "cpu") -> BatchedLearner:
    """Return learners of one replica, each with the model of *case*."""
    data = examples(case)
    amount = {"batch_size": case.batch, "local_steps": case.steps}
    split = np.split(np.arange(len(data.train_y)), USERS)
    return BatchedLearner(
        LearningTask(
            learners={
                f"{lane}": LearnerSpec(objective=Erm(), aggregation=Relay(), lr=1e-3, **amount) for lane in range(lanes)
            },
            model=case.model,
            replicas=[ReplicaData(0, data, split, Streams(0))],
            evaluate=EvaluateSpec(every=10**9),
            rounds=10**9,
            device=device,
            tokens=case.tokens,
        )
    )


def netfl_turn(learner: BatchedLearner) -> Callable[[], None]:
    """Return a function that does one round of all lanes, in which one user is delivered."""
    done = 0

    def turn() -> None:
        nonlocal done
        done += 1
        learner.step(
            [
                Round(
                    index=done,
                    opened_s=0.0,
                    closed_s=1.0,
                    deliveries=(Delivery(user=done % USERS, base=done - 1, sent_s=0.0, arrived_s=1.0),),
                    oldest=done - 1,
                )
            ]
        )

    return turn


def plain_turn(case: Case, lanes: int, device: str = "cpu") -> Callable[[], None]:
    """Return a function that trains the same models one after the other in a plain loop."""
    data = examples(case)
    x, y = torch.from_numpy(data.train_x).to(device), torch.from_numpy(data.train_y).to(device)
    models = [case.plain().to(device) for _ in range(lanes)]
    optimisers = [torch.optim.SGD(model.parameters(), lr=1e-3) for model in models]
    criterion = nn.CrossEntropyLoss()

    def turn() -> None:
        for model, optimiser in zip(models, optimisers, strict=True):
            for _ in range(case.steps):
                rows = torch.randint(len(y), (case.batch,), device=device)
                optimiser.zero_grad()
                criterion(model(x[rows]), y[rows]).backward()
                optimiser.step()

    return turn


def seconds(turn: Callable[[], None]) -> float:
    """Return the duration of one turn in seconds."""
    begin = time.perf_counter()
    turn()
    return time.perf_counter() - begin


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--threads", type=int, default=1, help="torch's threads, on both sides")
    parser.add_argument("--turns", type=int, default=15, help="number of turns of each side")
    parser.add_argument("--only", help="only the model of this name")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    print(f"torch {torch.__version__}, {options.threads} thread(s); medians of {options.turns} turns, ms per step")
    print(f"{'model':14} {'batch':>5} {'lanes':>5} {'plain':>8} {'per lane':>9} {'ratio':>6}   bar")
    for case in CASES:
        for lanes in case.lanes if options.only in {None, case.name} else ():
            sides = (plain_turn(case, lanes), netfl_turn(make_learner(case, lanes)))
            for turn in sides:
                turn()
            pairs = [tuple(seconds(turn) for turn in sides) for _ in range(options.turns)]
            plain, ours = (statistics.median(side) / (lanes * case.steps) for side in zip(*pairs, strict=True))
            verdict = "" if case.bar is None else f"{case.bar:.2f} {'met' if ours / plain <= case.bar else 'MISSED'}"
            print(
                f"{case.name:14} {case.batch:5} {lanes:5} {plain * 1e3:8.2f} {ours * 1e3:9.2f} {ours / plain:6.3f}   "
                f"{verdict}",
                flush=True,
            )


if __name__ == "__main__":
    main()
