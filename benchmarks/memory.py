"""How much memory rules take that keep something of every user: 250 users of FedAU's colour CNN, 8 lanes.

Each rule learns, in a process of its own, until everyone has been heard, writes a checkpoint, and then hears all users
in one round.  What is told is the most memory that the process ever had, examples of the size of CIFAR-10 included.

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

USERS, LANES, HEARD, BAR = 250, 8, 10, 6.0
CNN = Cnn(channels=(32, 32), hidden=(256, 64), weights="kaiming_normal")
RULES = {"mifa": Mifa(), "scaffold": Scaffold(), "fedvarp": Fedvarp()}


def learn(rule: str) -> None:
    """Hear everyone, keep a checkpoint, and hear everyone at once."""
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
        rounds = USERS // HEARD
        for index in range(1, rounds + 1):
            hear(learner, index, range((index - 1) * HEARD, index * HEARD))
        ten = _peak()
        kept = Path(folder) / "checkpoint.pt"
        checkpoint_file.save(kept, {"learner": learner.state()})
        saved, size = _peak(), kept.stat().st_size / 1e9
        hear(learner, rounds + 1, range(USERS))
        print(f"{rule:10} {ten:10.2f} {saved:16.2f} {size:15.2f} {_peak():10.2f}", flush=True)


def hear(learner: BatchedLearner, index: int, users: range) -> None:
    """A round in which *users* are heard in every lane."""
    heard = tuple(Delivery(user, index - 1, 0.0, 1.0) for user in users)
    learner.step([Round(index, 0.0, 1.0, heard, index)] * LANES)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rule", choices=RULES, help="this one alone, in this process")
    rule = parser.parse_args().rule
    if rule is not None:
        learn(rule)
        return
    print(f"{USERS} users, {LANES} lanes, 551,786 parameters; GB; bar {BAR:.1f}")
    print(
        f"{'rule':10} {f'{HEARD} heard':>10} {'with checkpoint':>16} {'the checkpoint':>15} {'all heard':>10}",
        flush=True,
    )
    begin = time.perf_counter()
    for one in RULES:
        subprocess.run([sys.executable, __file__, "--rule", one], check=True)
    print(f"{time.perf_counter() - begin:.0f} s")


def _peak() -> float:
    """The most memory that this process ever had, in GB."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e9


if __name__ == "__main__":
    main()
