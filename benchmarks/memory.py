"""How much memory rules take that keep something of every user: 250 users, 552,000 parameters, 8 lanes.

Each rule learns, in a process of its own, until everyone has been heard, and writes a checkpoint; what is told is the
most memory that the process ever had, examples of the size of CIFAR-10 included.

    python benchmarks/memory.py
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

from netfl.learning import checkpoint
from netfl.learning.aggregation.fedvarp import Fedvarp
from netfl.learning.aggregation.mifa import Mifa
from netfl.learning.aggregation.scaffold import Scaffold
from netfl.learning.data import Dataset
from netfl.learning.learner import Learner
from netfl.learning.model.mlp import Mlp
from netfl.learning.objective.erm import Erm
from netfl.learning.settings import EvaluateSpec, LearnerSpec
from netfl.streams import Streams
from netfl.types import Delivery, Round

USERS, LANES, HEARD, BAR = 250, 8, 10, 6.0
RULES = {"mifa": Mifa(), "scaffold": Scaffold(), "fedvarp": Fedvarp()}


def learn(rule: str) -> None:
    """Hear everyone, twice, and keep a checkpoint."""
    rng = np.random.default_rng(0)
    x, y = np.zeros((50_000, 3, 32, 32), np.float32), rng.integers(10, size=50_000)
    x[:] = rng.standard_normal(32, np.float32)
    data = Dataset(x, y, x[:10_000].copy(), y[:10_000], 10)
    spec = LearnerSpec(objective=Erm(), aggregation=RULES[rule], lr=1e-3, batch_size=50, local_steps=2)
    learner = Learner(
        learners={rule: spec},
        model=Mlp(hidden=(179,)),
        datasets=[data] * LANES,
        splits=[np.array_split(np.arange(len(y)), USERS)] * LANES,
        evaluate=EvaluateSpec(every=25),
        rare_classes=(),
        rounds=50,
        streams=[Streams(lane) for lane in range(LANES)],
        device="cpu",
    )
    with learner.working(), TemporaryDirectory() as folder:
        for index in range(1, 51):
            first = (index - 1) * HEARD % USERS
            heard = tuple(Delivery(user, index - 1, 0.0, 1.0) for user in range(first, first + HEARD))
            learner.step([Round(index, 0.0, 1.0, heard, index)] * LANES)
        before = _peak()
        kept = Path(folder) / "checkpoint.pt"
        checkpoint.save(kept, {"learner": learner.state()})
        print(f"{rule:10} {before:6.2f} {_peak():16.2f} {kept.stat().st_size / 1e9:15.2f}", flush=True)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rule", choices=RULES, help="this one alone, in this process")
    rule = parser.parse_args().rule
    if rule is not None:
        learn(rule)
        return
    print(f"{USERS} users, {LANES} lanes, 551,867 parameters, {HEARD} heard a round; GB; bar {BAR:.1f}")
    print(f"{'rule':10} {'peak':>6} {'with checkpoint':>16} {'the checkpoint':>15}", flush=True)
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
