"""What a sweep costs, from the command to its tables, beside as many runs of a plain PyTorch loop, one after the other.

It is `scenarios/sweeps/alpha_gamma.yaml`: 20 points of Fig. 2(a) in 5 replicas.  The plain loop trains the one learner
of a point, and neither evaluates nor writes anything; it is timed before and after the sweep, over some of its rounds.

    python benchmarks/sweeping.py [--rounds 1000] [--workers 2]
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
from floors import FIG2, plain

import netfl

ALPHA_GAMMA = Path(__file__).parents[1] / "scenarios/sweeps/alpha_gamma.yaml"
RUNS, TIMED = 100, 40
"""Runs of the plain loop, and rounds of it that are timed."""


def plain_round_s() -> float:
    """Seconds that a round of the plain loop takes."""
    turn = plain(FIG2)
    turn()
    begun = time.perf_counter()
    for _ in range(TIMED):
        turn()
    return (time.perf_counter() - begun) / TIMED


def sweep_s(folder: Path, rounds: int, workers: int) -> float:
    """Seconds that the command takes."""
    words = [str(ALPHA_GAMMA), "--set", f"rounds={rounds}", "--workers", str(workers), "--out", str(folder)]
    begun = time.perf_counter()
    subprocess.run([sys.executable, "-m", "netfl", "sweep", *words, "--quiet", "--device", "cpu"], check=True)
    return time.perf_counter() - begun


def main() -> None:
    """Print both, and how many times faster the sweep is."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=1000, help="of each run")
    parser.add_argument("--workers", type=int, default=2, help="of the sweep")
    options = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        before = [plain_round_s() for _ in range(3)]
        took_s = sweep_s(Path(name) / "sweep", options.rounds, options.workers)
        each = statistics.median([*before, *(plain_round_s() for _ in range(3))])
        done = netfl.open_sweep(Path(name) / "sweep")
        lanes = int(done.tasks["lanes"].sum())
        assert done.status == "done", done.tasks
    apart_s = RUNS * options.rounds * each
    print(f"{RUNS} runs of a plain loop, {options.rounds} rounds: {apart_s:.0f} s ({1e3 * each:.2f} ms a round)")
    print(f"netfl sweep, {options.workers} workers, {lanes} lanes: {took_s:.0f} s")
    print(f"{apart_s / took_s:.1f} times faster (bar 8)")


if __name__ == "__main__":
    main()
