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
import math
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import netfl
from netfl.document import Document
from netfl.scenario import Scenario, checked

HERE = Path(__file__).parent
KEPT = HERE.parent / "docs/background/scale.json"
PAGE, PICTURE = KEPT.with_suffix(".md"), KEPT.with_suffix(".png")
ACCELERATORS = 1_000
"""Workers that are planned for."""
LANE_ROUNDS = 50
"""Rounds that each lane of the curve of lanes learns."""
LAST = 3
"""Points of a curve that say how steep it is."""
_BLOBS = {"kind": "blobs", "centers": [[1, 1], [2, 3], [2.3, 1.5]], "std": 0.1, "test_share": 0.2}
_LEARNER = {"objective": "erm", "aggregation": "average", "local_steps": 5, "batch_size": 1, "lr": 0.001}


def direct(users: int, rounds: int) -> Scenario:
    """One user of many heard in each round, by rates."""
    return _scenario(users, rounds, {"kind": "stationary", "rho": {"zipf": 0.5}, "first": 1})


def emergent(users: int, rounds: int) -> Scenario:
    """The network of benchmarks/million_users.yaml, in whose cells one user tries in each slot, in the mean."""
    changes = {"users": users, "rounds": rounds, "access.mac.probability": min(0.5, 40.0 / users)}
    return netfl.load(HERE / "million_users.yaml", changes)


def learning(users: int, rounds: int = 20, hidden: int = 64, replicas: int = 1) -> Scenario:
    """Ten of many users heard in each round, each with an example or two, who train a small network."""
    access = {"kind": "stationary", "rho": {"zipf": 0.5}, "first": min(10, users)}
    parts = {
        "data": {**_BLOBS, "samples": max(1000, users // 2)},
        "partition": {"kind": "iid"},
        "model": {"kind": "mlp", "hidden": [hidden]},
        "learners": {"FedAvg": _LEARNER},
        "evaluate": {"every": rounds},
    }
    return _scenario(users, rounds, access, replicas=replicas, **parts)


def packets(number: int) -> Scenario:
    """Packets through one queue and one link, loaded to 0.8 (1 kB each at 10 Mbps)."""
    changes = {"duration": number * 0.001, "warmup": 0.0}
    return netfl.load(HERE.parent / "scenarios/validation/mm1.yaml", changes)


def _scenario(users: int, rounds: int, access: Mapping[str, Any], **more: Any) -> Scenario:
    """A scenario that records no events."""
    said = {"name": "scale", "seed": 1, "users": users, "rounds": rounds, "record": "none", "access": access, **more}
    return checked(Document(said))


POINTS: dict[str, tuple[str, str, Callable[[int], Scenario], Sequence[int], Sequence[int]]] = {
    "direct, users": (
        "user",
        "1,000 rounds of `first: 1`",
        lambda x: direct(x, 1000),
        (10**3, 10**4, 10**5, 10**6, 10**7),
        (10, 100),
    ),
    "direct, rounds": (
        "round",
        "`first: 1`, 1,000 users",
        lambda x: direct(1000, x),
        (10**3, 10**4, 10**5, 10**6),
        (10, 100),
    ),
    "direct, a million users, rounds": (
        "round",
        "`first: 1`, 1,000,000 users",
        lambda x: direct(10**6, x),
        (10**3, 10**4, 10**5, 10**6),
        (10, 100),
    ),
    "emergent, users": (
        "user",
        "10 rounds of slotted ALOHA in 40 cells",
        lambda x: emergent(x, 10),
        (10**3, 10**4, 10**5, 10**6),
        (80, 160),
    ),
    "emergent, rounds": (
        "round",
        "slotted ALOHA, 100,000 users in 40 cells",
        lambda x: emergent(10**5, x),
        (10, 30, 100, 300),
        (2, 4),
    ),
    "emergent, a million users, rounds": (
        "round",
        "slotted ALOHA, 1,000,000 users in 40 cells",
        lambda x: emergent(10**6, x),
        (10, 30, 100),
        (1, 2),
    ),
    "learning, users": (
        "user",
        "20 rounds, 10 users heard in each, MLP 2-64-3",
        learning,
        (10**3, 10**4, 10**5, 10**6),
        (20, 40),
    ),
    "learning, rounds": (
        "round",
        "10 of 1,000 users heard in each, MLP 2-64-3",
        lambda x: learning(1000, x),
        (30, 100, 300, 1000),
        (2, 4),
    ),
    "learning, lanes": (
        "lane",
        "50 rounds, 10 of 1,000 users heard in each, MLP 2-64-3",
        lambda x: learning(1000, LANE_ROUNDS, replicas=x),
        (1, 4, 16, 64),
        (1, 2),
    ),
    "learning, model bytes": (
        "byte of model",
        "20 rounds, 10 of 1,000 users heard in each, MLP 2-h-3",
        lambda x: learning(1000, 20, hidden=x // 24),
        (24 * 10**3, 24 * 10**4, 24 * 10**5, 24 * 10**6),
        (24 * 8, 24 * 16),
    ),
    "packets": ("packet", "one queue, one link, load 0.8", packets, (10**4, 10**5, 10**6), (200, 400)),
}
"""Of each curve the unit, what is run, its scenario at a point, the points, and those of a quick look."""


def point(curve: str, x: int) -> dict[str, float]:
    """What a run takes, in this process; its imports, and a first tiny run, are left out of the time."""
    scenario = POINTS[curve][2](x)
    play = netfl.run if scenario.learners else netfl.trace
    with TemporaryDirectory() as folder:
        small = POINTS.get(f"{curve.partition(',')[0]}, users", POINTS[curve])
        play(small[2](small[4][0]), Path(folder) / "first")
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


def steepness(points: Sequence[Mapping[str, float]], figure: str) -> float:
    """The slope of the straight line through the last points on logarithmic axes, by least squares."""
    last = points[-LAST:]
    x, y = (np.log([one[name] for one in last]) for name in ("x", figure))
    return float(np.polyfit(x, y, 1)[0])


def each(points: Sequence[Mapping[str, float]], figure: str) -> float:
    """What one more costs: the difference between the last two points, 0 where there is none."""
    before, last = points[-2:]
    return max(0.0, (last[figure] - before[figure]) / (last["x"] - before["x"]))


def tables(kept: Mapping[str, Any]) -> str:
    """The part of the page that is written from the figures."""
    head = (
        "| curve | at | CPU s | peak MB | time ~ x^ | memory ~ x^ | one more takes | one more took before | and takes |"
    )
    lines = [head, "|---|---|---|---|---|---|---|---|---|"]
    for name, points in kept["curves"].items():
        unit, last = POINTS[name][0], points[-1]
        cells = [
            f"{name}: {POINTS[name][1]}",
            f"{last['x']:,} {_plural(unit)}",
            f"{last['cpu_s']:.3g}",
            f"{last['peak_mb']:,.0f}",
            *(f"{steepness(points, figure):.2f}" for figure in ("cpu_s", "peak_mb")),
            *(_time(each(part, "cpu_s")) for part in (points, points[:-1])),
            _bytes(1e6 * each(points, "peak_mb")),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    machine = kept["machine"]
    least = [min(one["peak_mb"] for one in kept["curves"][f"{kind}, users"]) for kind in ("direct", "learning")]
    cores, size, load = machine["cores"], f"{machine['memory_gb']:.0f} GB", f"{machine['load']:.1f}"
    lines += [
        "",
        f"{cores} shared cores, {size}, one thread, {machine['when']}; the load was {load} at the end:",
        "processor time is told, not the wall's.",
        f"The smallest run takes {least[0]:.0f} MB; one that learns, with torch, takes {least[1]:.0f} MB.",
        "",
    ]
    lines += [*extrapolated(kept["curves"]), "", *limits(kept["curves"], machine["memory_gb"])]
    return "\n".join(lines)


def limits(curves: Mapping[str, Sequence[Mapping[str, float]]], memory_gb: float) -> list[str]:
    """The table of where it breaks: users that the memory holds, and what a network asks of many accelerators."""
    lines = ["| where it breaks: extrapolated | at |", "|---|---|"]
    for name in ("direct, users", "emergent, users", "learning, users"):
        if name in curves:
            points = curves[name]
            most = points[-1]["x"] + (1e3 * memory_gb - points[-1]["peak_mb"]) / each(points, "peak_mb")
            lines.append(f"| {name}: {memory_gb:.0f} GB of memory are full | {most:.2g} users |")
    network, lane = curves.get("emergent, a million users, rounds"), curves.get("learning, lanes")
    if network and lane:
        round_s, lane_s = each(network, "cpu_s"), each(lane, "cpu_s") / LANE_ROUNDS
        lines += [
            f"| a round of a network of a million users, which one processor plays | {_time(round_s)} |",
            f"| a round of one lane (10 users, MLP 2-64-3) on one processor core | {_time(lane_s)} |",
            f"| lanes on each of {ACCELERATORS:,} workers from which on these are waited for, not the network, if a "
            f"worker is as fast as this core | {math.ceil(round_s / lane_s):,} |",
            f"| the same, if it is a hundred times as fast | {math.ceil(100 * round_s / lane_s):,} |",
        ]
    return lines


def extrapolated(curves: Mapping[str, Sequence[Mapping[str, float]]]) -> list[str]:
    """The table of what was not measured: what larger runs would take if the last two points' costs held."""
    lines = ["| not measured: extrapolated | processor time | memory |", "|---|---|---|"]
    for name, x in PLANS:
        if name in curves:
            points, unit = curves[name], POINTS[name][0]
            more = x - points[-1]["x"]
            seconds = points[-1]["cpu_s"] + more * each(points, "cpu_s")
            size = 1e6 * (points[-1]["peak_mb"] + more * each(points, "peak_mb"))
            lines.append(f"| {name}: {x:,} {_plural(unit)} | {_time(seconds)} | {_bytes(size)} |")
    return lines


PLANS = (
    ("direct, users", 10**8),
    ("direct, a million users, rounds", 10**8),
    ("emergent, users", 10**7),
    ("emergent, a million users, rounds", 10**4),
    ("learning, users", 10**7),
    ("learning, lanes", 10**4),
    ("packets", 10**9),
)
"""What is extrapolated: a curve, and how far."""


def write_page(kept: Mapping[str, Any]) -> None:
    """Put the tables between the page's marks."""
    begin, end = "<!-- scale: begin -->\n", "<!-- scale: end -->"
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(begin)
    PAGE.write_text(f"{before}{begin}\n{tables(kept)}\n\n{end}{rest.partition(end)[2]}", encoding="utf-8")


def draw(kept: Mapping[str, Any]) -> None:
    """The picture: time and memory against users and against rounds, on logarithmic axes."""
    from matplotlib.figure import Figure  # noqa: PLC0415 - a point needs no pictures

    figure = Figure(figsize=(9.6, 6.4), layout="constrained")
    for column, unit in enumerate(("user", "round")):
        own = {name: points for name, points in kept["curves"].items() if POINTS[name][0] == unit}
        for row, (figure_name, label) in enumerate((("cpu_s", "processor time (s)"), ("peak_mb", "peak memory (MB)"))):
            ax = figure.add_subplot(2, 2, 1 + 2 * row + column)
            for name, points in own.items():
                ax.loglog([one["x"] for one in points], [one[figure_name] for one in points], "o-", label=name)
            ax.set(xlabel=f"{unit}s", ylabel=label)
            ax.grid(alpha=0.3)
            if not row:
                ax.legend(fontsize=8)
    figure.savefig(PICTURE, dpi=110)


def _plural(unit: str) -> str:
    """Several of a unit: bytes of model."""
    first, *rest = unit.split(" ")
    return " ".join([f"{first}s", *rest])


def _time(seconds: float) -> str:
    """A time with a unit that suits it."""
    for scale, unit in ((86400.0, "d"), (3600.0, "h"), (60.0, "min"), (1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds * 1e9:.0f} ns"


def _bytes(size: float) -> str:
    """A size with a unit that suits it."""
    for scale, unit in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if size >= scale:
            return f"{size / scale:.3g} {unit}"
    return f"{size:.3g} B"


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", action="append", choices=[*POINTS], help="a curve; by default all")
    parser.add_argument("--small", action="store_true", help="a quick look at tiny points; nothing is kept")
    parser.add_argument("--page", action="store_true", help="write picture and tables from what is kept")
    parser.add_argument("--point", nargs=2, help=argparse.SUPPRESS)
    told = parser.parse_args()
    if told.point:
        print(json.dumps(point(told.point[0], int(told.point[1]))))
        return
    kept = json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.exists() else {"curves": {}}
    if not told.page:
        loads = []
        for name in told.only or POINTS:
            kept["curves"][name] = measured(name, POINTS[name][4 if told.small else 3])
            loads.append(os.getloadavg()[0])
            if not told.small:
                memory_gb = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
                machine = {"cores": os.cpu_count(), "memory_gb": memory_gb, "load": float(np.mean(loads))}
                kept["machine"] = {**machine, "when": time.strftime("%Y-%m")}
                kept["curves"] = {one: kept["curves"][one] for one in POINTS if one in kept["curves"]}
                KEPT.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    if not told.small:
        draw(kept)
        write_page(kept)


if __name__ == "__main__":
    main()
