"""The cost of a sweep, from the command to its tables, compared with as many runs of a plain PyTorch loop in sequence.

The sweep is `scenarios/sweeps/alpha_gamma.yaml`: 20 points of Fig. 2(a) in 5 replicas.  The plain loop trains the
learner of a point and neither evaluates nor writes; some of its rounds are timed before and after the sweep.

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
"""Runs of the plain loop, and number of timed rounds."""


def plain_round_s() -> tuple[float, float]:
    """Return the wall-clock and processor time of a round of the plain loop, in seconds."""
    turn = plain(FIG2)
    turn()
    start_s = time.perf_counter(), time.process_time()
    for _ in range(TIMED):
        turn()
    return (time.perf_counter() - start_s[0]) / TIMED, (time.process_time() - start_s[1]) / TIMED


def sweep_s(folder: Path, rounds: int, workers: int) -> tuple[float, float]:
    """Return the wall-clock time of the command and the processor time of its processes, in seconds."""
    words = [str(ALPHA_GAMMA), "--set", f"rounds={rounds}", "--workers", str(workers), "--out", str(folder)]
    start_s = time.perf_counter()
    subprocess.run([sys.executable, "-m", "netfl", "sweep", *words, "--quiet", "--device", "cpu"], check=True)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.perf_counter() - start_s, used.ru_utime + used.ru_stime


def main() -> None:
    """Print both times and the ratio."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=1000, help="of each run")
    parser.add_argument("--workers", type=int, default=2, help="of the sweep")
    options = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        before = [plain_round_s() for _ in range(3)]
        took_s, used_s = sweep_s(Path(name) / "sweep", options.rounds, options.workers)
        turns = [*before, *(plain_round_s() for _ in range(3))]
        wall, work = (RUNS * options.rounds * statistics.median(times) for times in zip(*turns, strict=True))
        sweep = netfl.open_sweep(Path(name) / "sweep")
        lanes = int(sweep.tasks["lanes"].sum())
        if sweep.status != "done":
            raise SystemExit(f"not all points are done:\n{sweep.tasks}")
    print(f"{RUNS} runs of a plain loop, {options.rounds} rounds: {wall:.0f} s, {work:.0f} s of processor time")
    print(f"netfl sweep, {options.workers} workers, {lanes} lanes: {took_s:.0f} s, {used_s:.0f} s of processor time")
    print(f"{wall / took_s:.1f} times faster (bar 8), {work / used_s:.1f} times less processor time")


if __name__ == "__main__":
    main()
