"""The cost of a whole run, from its scenario to its tables, relative to its local training.

The run is Fig. 3 on random examples of MNIST's shape, evaluated every 50 rounds; with one thread, processor time.

    python benchmarks/whole_run.py [--threads 1] [--rounds 400]
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from learning import clock, verdict

import netfl
from netfl.learning.local_training import LearnerGroup

FIG3 = Path(__file__).parents[1] / "scenarios/paper/fig3.yaml"


def fig3(folder: Path, rounds: int, overrides: Mapping[str, Any] | None = None) -> netfl.Scenario:
    """Return Fig. 3 with random examples, 60,000 for training and 10,000 for tests, and with *overrides*."""
    data, rng = folder / "digits.npz", np.random.default_rng(0)
    x = rng.integers(256, size=(70_000, 784)).astype(np.float32)
    np.savez(data, x=x, label=np.arange(len(x)) % 10)
    random_data = {"kind": "arrays", "file": str(data), "features": [784], "labels": 10, "test_share": 1 / 7}
    changes = {"rounds": rounds, "data": random_data, "evaluate.every": 50, "evaluate.sets": {}}
    return netfl.load(FIG3, {**changes, **(overrides or {})})


def whole_run(rounds: int) -> tuple[float, float, float]:
    """Return the seconds of a run of Fig. 3: in total, before the first training, and in training."""
    spent: list[float] = []
    started, updated = 0.0, LearnerGroup.train_cohort

    def timed(*args: Any, **kwargs: Any) -> Any:
        nonlocal started
        entered = clock()
        started = started or entered
        result = updated(*args, **kwargs)
        spent.append(clock() - entered)
        return result

    with tempfile.TemporaryDirectory() as name, patch.object(LearnerGroup, "train_cohort", timed):
        scenario = fig3(Path(name), rounds)
        begin = clock()
        netfl.run(scenario, Path(name) / "run", device="cpu")
        return clock() - begin, started - begin, sum(spent)


def main() -> None:
    """Print the times."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--threads", type=int, default=1, help="torch's threads")
    parser.add_argument("--rounds", type=int, default=400, help="of the run")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    whole, start, training = whole_run(options.rounds)
    print(f"Fig. 3, {options.rounds} rounds: {whole:.1f} s, {start:.1f} s of them before the first; ", end="")
    print(f"local training {training:.1f} s: {whole / training:.3f}  {verdict(whole / training, 1.02)}")


if __name__ == "__main__":
    main()
