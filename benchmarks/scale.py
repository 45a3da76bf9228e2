"""How time and memory grow: with users, rounds, lanes, packets and the size of the model.

Each point is a run in a process of its own, of which the processor time of the run alone and the most memory that the
process ever had are taken.  A curve is as steep as the straight line through its last points is on logarithmic axes;
what one more costs is the difference between its last two points.  Kept are docs/background/scale.json, which holds
every figure, docs/background/scale.png, and the tables of docs/background/scale.md, which are written from it.

    python benchmarks/scale.py [--only CURVE]... [--small]     measures, and writes all three
    python benchmarks/scale.py --page                          writes the picture and the tables again
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
    """What a run takes, in this process; its imports, and a first tiny run, are left out of the time."""
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
    """The points of a curve, each in a process of its own."""
    found = []
    for x in xs:
        command = [sys.executable, str(Path(__file__)), "--point", curve, str(x)]
        told = subprocess.run(command, capture_output=True, check=True, text=True).stdout.splitlines()[-1]
        found.append(json.loads(told))
        print(curve, told, f"load {os.getloadavg()[0]:.1f}", flush=True)
    return found


def measure(names: Sequence[str], small: bool) -> None:
    """Measure the curves, each of which is kept at once, unless they are *small*."""
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
    """Measure and write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", action="append", choices=[*CURVES], help="a curve; by default all")
    parser.add_argument("--small", action="store_true", help="a quick look at tiny points; nothing is kept")
    parser.add_argument("--page", action="store_true", help="write picture and tables from what is kept")
    parser.add_argument("--point", nargs=2, help=argparse.SUPPRESS)
    told = parser.parse_args()
    if told.point:
        print(json.dumps(point(told.point[0], int(told.point[1]))))
        return
    if not told.page:
        measure(told.only or [*CURVES], told.small)
    if not told.small:
        import scale_page

        scale_page.write(json.loads(KEPT.read_text(encoding="utf-8")))


if __name__ == "__main__":
    main()
