"""Memory of aggregations that keep state per user: 250 users of FedAU's colour CNN, 8 lanes.

Each aggregation trains in its own process until all users have delivered, writes a checkpoint, and then aggregates all
users in one round.  The peak memory of the process is printed, including examples of the size of CIFAR-10.

    python benchmarks/memory.py [--rule scaffold]
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from netfl.learning import checkpoint_file
from netfl.learning.aggregation.fedvarp import Fedvarp
from netfl.learning.aggregation.mifa import Mifa
from netfl.learning.aggregation.scaffold import Scaffold
from netfl.learning.data import Dataset
from netfl.learning.learner import BatchedLearner, LearningTask
from netfl.learning.model.cnn import Cnn
from netfl.learning.objective.erm import Erm
from netfl.learning.spec import EvaluateSpec, LearnerSpec
from netfl.learning.user_data import ReplicaData
from netfl.streams import Streams
from netfl.types import Delivery, Round

USERS, LANES, PER_ROUND, BAR = 250, 8, 10, 6.0
CNN = Cnn(channels=(32, 32), hidden=(256, 64), weights="kaiming_normal")
RULES = {"mifa": Mifa(), "scaffold": Scaffold(), "fedvarp": Fedvarp()}


def learn(rule: str) -> None:
    """Deliver all users over several rounds, write a checkpoint, then deliver all users in one round."""
    rng = np.random.default_rng(0)
    x, y = np.zeros((50_000, 3, 32, 32), np.float32), rng.integers(10, size=50_000)
    x[:] = rng.standard_normal(32, np.float32)
    data = Dataset(x, y, x[:10_000].copy(), y[:10_000], 10)
    spec = LearnerSpec(objective=Erm(), aggregation=RULES[rule], lr=1e-3, batch_size=16, local_steps=2)
    split = np.array_split(np.arange(len(y)), USERS)
    learner = BatchedLearner(
        LearningTask(
            learners={rule: spec},
            model=CNN,
            replicas=[ReplicaData(lane, data, split, Streams(lane)) for lane in range(LANES)],
            evaluate=EvaluateSpec(every=100),
            rounds=100,
            device="cpu",
        )
    )
    with learner.working(), TemporaryDirectory() as folder:
        rounds = USERS // PER_ROUND
        for index in range(1, rounds + 1):
            deliver(learner, index, range((index - 1) * PER_ROUND, index * PER_ROUND))
        several = _peak()
        path = Path(folder) / "checkpoint.pt"
        checkpoint_file.save(path, {"learner": learner.state()})
        saved, size = _peak(), path.stat().st_size / 1e9
        deliver(learner, rounds + 1, range(USERS))
        print(f"{rule:10} {several:12.2f} {saved:16.2f} {size:15.2f} {_peak():10.2f}", flush=True)


def deliver(learner: BatchedLearner, index: int, users: range) -> None:
    """Do a round in which *users* deliver in every lane."""
    deliveries = tuple(Delivery(user=user, base=index - 1, sent_s=0.0, arrived_s=1.0) for user in users)
    learner.step([Round(index=index, opened_s=0.0, closed_s=1.0, deliveries=deliveries, oldest=index)] * LANES)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rule", choices=RULES, help="only this aggregation, in this process")
    rule = parser.parse_args().rule
    if rule is not None:
        learn(rule)
        return
    print(f"{USERS} users, {LANES} lanes, 551,786 parameters; GB; bar {BAR:.1f}")
    print(
        f"{'rule':10} {f'{PER_ROUND} deliveries':>12} {'with checkpoint':>16} {'the checkpoint':>15} {'all users':>10}",
        flush=True,
    )
    begin = time.perf_counter()
    for name in RULES:
        subprocess.run([sys.executable, __file__, "--rule", name], check=True)
    print(f"{time.perf_counter() - begin:.0f} s")


def _peak() -> float:
    """Return the peak memory of this process in GB."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e9


if __name__ == "__main__":
    main()
