"""The cost of tuning: a validation pass beside a plain run with as many lanes.

Two learners have seven candidates each, in one validation replica. They train the model of Fig. 3 on random examples of
MNIST's shape, and are evaluated on one twentieth of them. The plain run has the two learners in seven replicas. The two
alternate, with one thread; the ratio is that of the medians of processor time.

    python benchmarks/tuning.py [--rounds 40] [--turns 3]
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from pathlib import Path

import torch
from learning import clock, verdict
from whole_run import fig3

import netfl
from netfl.simulation.tuning import lowest_pass

CANDIDATES = 7
BAR = 1.1


def scenarios(folder: Path, rounds: int) -> tuple[netfl.Scenario, netfl.Scenario]:
    """Return the plain run, and a pass of the tuning of its learners, with the smallest step sizes."""
    evaluate = {"evaluate.validation": 0.05, "evaluate.every": max(1, rounds // 4)}
    plain = fig3(folder, rounds, {**evaluate, "evaluate.on": "validation", "replicas": CANDIDATES})
    tuning = {"by": "rare_accuracy", "trials": CANDIDATES, "replicas": 1}
    return plain, lowest_pass(fig3(folder, rounds, {**evaluate, "tuning": tuning}))


def seconds_of(scenario: netfl.Scenario) -> float:
    """Return the processor time of a run."""
    with tempfile.TemporaryDirectory() as folder:
        begin = clock()
        netfl.run(scenario, Path(folder) / "run", device="cpu", progress=False)
        return clock() - begin


def main() -> None:
    """Print the times and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--turns", type=int, default=3)
    options = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        pair = scenarios(Path(folder), options.rounds)
        times = [[seconds_of(scenario) for scenario in pair] for _ in range(options.turns)]
    plain, tuned = (statistics.median(column) for column in zip(*times, strict=True))
    lanes = 2 * CANDIDATES
    print(f"{lanes} lanes, {options.rounds} rounds: plain run {plain:.1f} s, pass {tuned:.1f} s; ", end="")
    print(f"{tuned / plain:.3f}  {verdict(tuned / plain, BAR)}")


if __name__ == "__main__":
    main()
