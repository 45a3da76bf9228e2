"""The speed of lanes shared by two workers, compared with a plain PyTorch loop that trains them in sequence.

The workload is eight replicas of one learner, an MLP 784-128-128-10 with batches of 128 and 10 local steps for the one
delivered user of a round.  Both sides take turns with one thread per process.  Medians over the turns are printed,
without the start of the processes, and the bar of the ratio.  Other load on the machine makes the ratio unreliable.

    python benchmarks/workers.py --workers 2
"""

from __future__ import annotations

import argparse
import statistics
import time

import numpy as np
import torch
from torch import nn

from netfl.learning.aggregation.relay import Relay
from netfl.learning.data import Dataset
from netfl.learning.learner import BatchedLearner, LearningTask
from netfl.learning.model.mlp import Mlp
from netfl.learning.objective.erm import Erm
from netfl.learning.parallel_learner import ParallelLearner
from netfl.learning.spec import EvaluateSpec, LearnerSpec
from netfl.learning.user_data import ReplicaData
from netfl.simulation.workers.process import process_workers
from netfl.streams import Streams
from netfl.types import Delivery, Round

REPLICAS, STEPS, BATCH, SAMPLES, USERS, CLASSES, BAR = 8, 10, 128, 2000, 10, 10, 0.45


def examples() -> Dataset:
    """Return random examples, as their values do not change the time."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((USERS * SAMPLES, 784)).astype(np.float32)
    y = rng.integers(CLASSES, size=len(x))
    return Dataset(x, y, x[:1000], y[:1000], CLASSES)


def task(data: Dataset) -> LearningTask:
    """Return the task of the learner."""
    spec = LearnerSpec(objective=Erm(), aggregation=Relay(), lr=1e-3, batch_size=BATCH, local_steps=STEPS)
    split = np.split(np.arange(len(data.train_y)), USERS)
    return LearningTask(
        learners={"FedAvg": spec},
        model=Mlp(hidden=(128, 128)),
        replicas=[ReplicaData(replica, data, split, Streams(replica)) for replica in range(REPLICAS)],
        evaluate=EvaluateSpec(every=10**9),
        rounds=10**9,
        device="cpu",
    )


class Netfl:
    """The learner of netfl."""

    def __init__(self, learner: ParallelLearner | BatchedLearner) -> None:
        self._learner, self._done, self._rng = learner, 0, np.random.default_rng(1)

    def turn(self, rounds: int) -> None:
        """Train a number of rounds."""
        for _ in range(rounds):
            self._done += 1
            users = self._rng.integers(USERS, size=REPLICAS)
            deliveries = [(Delivery(user=int(user), base=self._done - 1, sent_s=0.0, arrived_s=1.0),) for user in users]
            self._learner.step(
                [
                    Round(index=self._done, opened_s=0.0, closed_s=1.0, deliveries=delivery, oldest=self._done - 1)
                    for delivery in deliveries
                ]
            )
        self._learner.version(0)


class Plain:
    """Plain PyTorch models, one per replica, trained one after the other."""

    def __init__(self, data: Dataset) -> None:
        self._x, self._y = torch.from_numpy(data.train_x), torch.from_numpy(data.train_y)
        self._models = [
            nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, CLASSES))
            for _ in range(REPLICAS)
        ]
        self._optimisers = [torch.optim.SGD(model.parameters(), lr=1e-3) for model in self._models]

    def turn(self, rounds: int) -> None:
        """Train the same number of rounds."""
        criterion = nn.CrossEntropyLoss()
        for model, optimiser in zip(self._models, self._optimisers, strict=True):
            for _ in range(rounds * STEPS):
                rows = torch.randint(len(self._y), (BATCH,))
                optimiser.zero_grad()
                criterion(model(self._x[rows]), self._y[rows]).backward()
                optimiser.step()


def seconds(side: Netfl | Plain, rounds: int) -> float:
    """Return the duration of a turn in seconds."""
    begin = time.perf_counter()
    side.turn(rounds)
    return time.perf_counter() - begin


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--workers", type=int, default=2, help="number of processes; 1 for this one only")
    parser.add_argument("--turns", type=int, default=11, help="number of turns of each side")
    parser.add_argument("--rounds", type=int, default=15, help="rounds in a turn")
    options = parser.parse_args()
    torch.set_num_threads(1)
    data = examples()
    work = task(data)
    learner = ParallelLearner(options.workers, work, process_workers) if options.workers > 1 else BatchedLearner(work)
    with learner.working():
        netfl_side, plain = Netfl(learner), Plain(data)
        for side in (plain, netfl_side):
            side.turn(5)
        pairs = [(seconds(plain, options.rounds), seconds(netfl_side, options.rounds)) for _ in range(options.turns)]
    slow, fast = (statistics.median(side) for side in zip(*pairs, strict=True))
    ratio = statistics.median(netfl_s / plain_s for plain_s, netfl_s in pairs)
    scale_us = 1e6 / (options.rounds * STEPS * REPLICAS)
    print(
        f"torch {torch.__version__}; {REPLICAS} replicas, {options.workers} worker(s), medians of {options.turns} turns"
    )
    print(f"plain loop {slow * scale_us:6.1f} us a step, ours {fast * scale_us:6.1f} us a step of a lane")
    print(f"ratio {ratio:.3f}, bar {BAR:.2f}: {'met' if ratio <= BAR else 'MISSED'}")


if __name__ == "__main__":
    main()
