"""Measure how time and memory grow with users, rounds, lanes, packets and the size of the model.

Each point is a run in its own process. It records the processor time of the run alone and the maximum memory of the
process. The slope of a curve is that of the line through its last points on logarithmic axes. The cost of one more is
the difference between the last two points. All values are written to docs/background/scale.json. The plot
docs/background/scale.png and the tables of docs/background/scale.md are written from it.

    python benchmarks/scale.py [--only CURVE]... [--small]     measure, and write all three
    python benchmarks/scale.py --page                          write only the plot and the tables
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from scale_curves import CURVES

import netfl

KEPT = Path(__file__).parent.parent / "docs/background/scale.json"


def point(curve: str, x: int) -> dict[str, float]:
    """Run one point in this process and return its time and memory; imports and a first tiny run do not count."""
    scenario = CURVES[curve].scenario(x)
    play = netfl.run if scenario.learners else netfl.trace
    with TemporaryDirectory() as folder:
        first = CURVES.get(f"{curve.partition(',')[0]}, users", CURVES[curve])
        play(first.scenario(first.small[0]), Path(folder) / "first")
        begin, begin_s = time.process_time(), time.perf_counter()
        play(scenario, Path(folder) / "run")
        cpu_s, wall_s = time.process_time() - begin, time.perf_counter() - begin_s
        disk = sum(file.stat().st_size for file in (Path(folder) / "run").iterdir())
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0
    return {"x": x, "cpu_s": cpu_s, "wall_s": wall_s, "peak_mb": peak_mb, "disk_mb": disk / 1e6}


def measured(curve: str, xs: Sequence[int]) -> list[dict[str, float]]:
    """Run the points of a curve, each in its own process, and return their values."""
    found = []
    for x in xs:
        command = [sys.executable, str(Path(__file__)), "--point", curve, str(x)]
        line = subprocess.run(command, capture_output=True, check=True, text=True).stdout.splitlines()[-1]
        found.append(json.loads(line))
        print(curve, line, f"load {os.getloadavg()[0]:.1f}", flush=True)
    return found


def measure(names: Sequence[str], small: bool) -> None:
    """Measure the curves and store each at once, unless they are *small*."""
    loads = []
    for name in names:
        points = measured(name, CURVES[name].small if small else CURVES[name].points)
        loads.append(os.getloadavg()[0])
        if not small:
            kept = json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.exists() else {"curves": {}}
            curves = {**kept["curves"], name: points}
            memory_gb = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
            machine = {"cores": os.cpu_count(), "memory_gb": memory_gb, "load": float(np.mean(loads))}
            machine["when"] = time.strftime("%Y-%m")
            ordered = {one: curves[one] for one in CURVES if one in curves}
            KEPT.write_text(json.dumps({"curves": ordered, "machine": machine}, indent=1) + "\n", encoding="utf-8")


def main() -> None:
    """Read the command line, measure, and write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", action="append", choices=[*CURVES], help="a curve; by default all")
    parser.add_argument("--small", action="store_true", help="measure tiny points as a quick test; store nothing")
    parser.add_argument("--page", action="store_true", help="write the plot and the tables from stored values")
    parser.add_argument("--point", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.point:
        print(json.dumps(point(options.point[0], int(options.point[1]))))
        return
    if not options.page:
        measure(options.only or [*CURVES], options.small)
    if not options.small:
        import scale_page

        scale_page.write(json.loads(KEPT.read_text(encoding="utf-8")))


if __name__ == "__main__":
    main()
