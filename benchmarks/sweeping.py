"""What a sweep costs, from the command to its tables, beside as many runs of a plain PyTorch loop, one after the other.

It is `scenarios/sweeps/alpha_gamma.yaml`: 20 points of Fig. 2(a) in 5 replicas.  The plain loop trains the one learner
of a point, and neither evaluates nor writes anything; it is timed before and after the sweep, over some of its rounds.
Processor time leaves out what others get of it; what the sweep's workers take of it, two cores take at a time.

    python benchmarks/sweeping.py [--rounds 1000] [--workers 2]
"""

from __future__ import annotations

import argparse
import resource
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


def plain_round_s() -> tuple[float, float]:
    """Seconds that a round of the plain loop takes, and seconds of processor time."""
    turn = plain(FIG2)
    turn()
    begun = time.perf_counter(), time.process_time()
    for _ in range(TIMED):
        turn()
    return (time.perf_counter() - begun[0]) / TIMED, (time.process_time() - begun[1]) / TIMED


def sweep_s(folder: Path, rounds: int, workers: int) -> tuple[float, float]:
    """Seconds that the command takes, and seconds of processor time, of all its processes."""
    words = [str(ALPHA_GAMMA), "--set", f"rounds={rounds}", "--workers", str(workers), "--out", str(folder)]
    begun = time.perf_counter()
    subprocess.run([sys.executable, "-m", "netfl", "sweep", *words, "--quiet", "--device", "cpu"], check=True)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.perf_counter() - begun, used.ru_utime + used.ru_stime


def main() -> None:
    """Print both, and how many times faster the sweep is."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=1000, help="of each run")
    parser.add_argument("--workers", type=int, default=2, help="of the sweep")
    options = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        before = [plain_round_s() for _ in range(3)]
        took_s, used_s = sweep_s(Path(name) / "sweep", options.rounds, options.workers)
        turns = [*before, *(plain_round_s() for _ in range(3))]
        wall, work = (RUNS * options.rounds * statistics.median(one) for one in zip(*turns, strict=True))
        done = netfl.open_sweep(Path(name) / "sweep")
        lanes = int(done.tasks["lanes"].sum())
        if done.status != "done":
            raise SystemExit(f"not all points are done:\n{done.tasks}")
    print(f"{RUNS} runs of a plain loop, {options.rounds} rounds: {wall:.0f} s, {work:.0f} s of processor time")
    print(f"netfl sweep, {options.workers} workers, {lanes} lanes: {took_s:.0f} s, {used_s:.0f} s of processor time")
    print(f"{wall / took_s:.1f} times faster (bar 8), {work / used_s:.1f} times less processor time")


if __name__ == "__main__":
    main()
