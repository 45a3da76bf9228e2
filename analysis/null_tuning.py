"""How often the interval of two equal, tuned rules covers zero: python analysis/null_tuning.py [SEEDS].

The rules differ by the batch size alone, 16 and 15, so that their mini-batches do; each replica tunes itself.  A 95 %
interval covers zero in 182 to 197 of 200 seeds with a probability of 99 %.
"""

import sys
import tempfile
from pathlib import Path

from scipy import stats

import netfl

RULE = {"objective": "erm", "aggregation": "average", "lr": 0.1, "local_steps": 5}
REPLICAS = 4
SCENARIO = {
    "name": "null",
    "users": 6,
    "rounds": 12,
    "replicas": REPLICAS,
    "access": {"kind": "bernoulli", "probability": [0.9, 0.8, 0.7, 0.5, 0.3, 0.2]},
    "data": {"kind": "blobs", "centers": [[0, 0], [1.5, 0], [0, 1.5]], "std": 1, "samples": 200},
    "partition": "iid",
    "model": "logistic",
    "learners": {"A": {**RULE, "batch_size": 16}, "B": {**RULE, "batch_size": 15}},
    "evaluate": {"every": 3, "validation": 0.3},
    "tuning": {"by": "loss", "trials": 3, "factor": 4, "replicas": 1, "per": "replica"},
    "record": "none",
    "checkpoint": "none",
}


def covers_zero(seed: int, folder: Path) -> bool:
    """Return whether the 95 % interval of the difference of the final losses covers zero."""
    run = netfl.run(SCENARIO | {"seed": seed}, folder, device="cpu", progress=False)
    values = run.final_metrics.pivot_table(index="replica", columns="metric", values="value")
    gap = (values["A.loss.last_tenth"] - values["B.loss.last_tenth"]).to_numpy()
    half = stats.t.ppf(0.975, REPLICAS - 1) * gap.std(ddof=1) / REPLICAS**0.5
    return bool(abs(gap.mean()) <= half)


def main(seeds: int) -> None:
    """Print the number of seeds whose interval covers zero, and the central 99 % of the binomial."""
    with tempfile.TemporaryDirectory() as folder:
        covered = [covers_zero(seed, Path(folder) / str(seed)) for seed in range(seeds)]
    low, high = stats.binom.ppf([0.005, 0.995], seeds, 0.95)
    print(f"{sum(covered)} of {seeds} intervals cover zero; expected {low:g} to {high:g}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200)
