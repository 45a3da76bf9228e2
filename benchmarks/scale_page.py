"""Tables and plot of docs/background/scale.md, written from the values that benchmarks/scale.py measured."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from scale_curves import CURVES, LANE_ROUNDS

PAGE = Path(__file__).parent.parent / "docs/background/scale.md"
ACCELERATORS = 1_000
"""Number of workers in the last table."""
LAST = 3
"""Number of last points that give the slope of a curve."""


def steepness(points: Sequence[Mapping[str, float]], metric: str) -> float:
    """Return the slope of the line through the last points on logarithmic axes, by least squares."""
    last = points[-LAST:]
    x, y = (np.log([point[name] for point in last]) for name in ("x", metric))
    return float(np.polyfit(x, y, 1)[0])


def each(points: Sequence[Mapping[str, float]], metric: str) -> float:
    """Return the cost of one more: the difference between the last two points, at least 0."""
    before, last = points[-2:]
    return max(0.0, (last[metric] - before[metric]) / (last["x"] - before["x"]))


def tables(stored: Mapping[str, Any]) -> str:
    """Return the generated part of the page."""
    head = (
        "| curve | at | CPU s | peak MB | time ~ x^ | memory ~ x^ | one more takes | before that | memory of one more |"
    )
    lines = [head, "|---|---|---|---|---|---|---|---|---|"]
    for name, points in stored["curves"].items():
        unit, last = CURVES[name].unit, points[-1]
        cells = [
            f"{name}: {CURVES[name].of}",
            f"{last['x']:,} {_plural(unit)}",
            f"{last['cpu_s']:.3g}",
            f"{last['peak_mb']:,.0f}",
            *(f"{steepness(points, metric):.2f}" for metric in ("cpu_s", "peak_mb")),
            *(_time(each(part, "cpu_s")) for part in (points, points[:-1])),
            _bytes(1e6 * each(points, "peak_mb")),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    machine = stored["machine"]
    smallest = [
        min(point["peak_mb"] for point in stored["curves"][f"{kind}, users"]) for kind in ("direct", "learning")
    ]
    cores, size, load = machine["cores"], f"{machine['memory_gb']:.0f} GB", f"{machine['load']:.1f}"
    lines += [
        "",
        f"The machine has {cores} shared cores, {size} of memory, and a load of {load} at the end ({machine['when']}).",
        "Each run uses one thread. Times are processor time, not wall time.",
        f"The smallest run takes {smallest[0]:.0f} MB. With learners, and thus torch, it takes {smallest[1]:.0f} MB.",
        "",
    ]
    lines += [*extrapolated(stored["curves"]), "", *limits(stored["curves"], machine["memory_gb"])]
    return "\n".join(lines)


def limits(curves: Mapping[str, Sequence[Mapping[str, float]]], memory_gb: float) -> list[str]:
    """Return the table of limits: users that fit into memory, and lanes that keep many workers busy."""
    lines = ["| limit (extrapolated) | value |", "|---|---|"]
    for name in ("direct, users", "emergent, users", "learning, users"):
        if name in curves:
            points = curves[name]
            users = points[-1]["x"] + (1e3 * memory_gb - points[-1]["peak_mb"]) / each(points, "peak_mb")
            lines.append(f"| {name}: {memory_gb:.0f} GB of memory are full at | {users:.2g} users |")
    network, lane = curves.get("emergent, a million users, rounds"), curves.get("learning, lanes")
    if network and lane:
        round_s, lane_s = each(network, "cpu_s"), each(lane, "cpu_s") / LANE_ROUNDS
        lines += [
            f"| time of a round of a network of a million users, on one processor | {_time(round_s)} |",
            f"| time of a round of one lane (10 users, MLP 2-64-3), on one processor core | {_time(lane_s)} |",
            f"| lanes on each of {ACCELERATORS:,} workers above which the network waits for them, if a worker is "
            f"as fast as this core | {math.ceil(round_s / lane_s):,} |",
            f"| the same, if a worker is a hundred times as fast | {math.ceil(100 * round_s / lane_s):,} |",
        ]
    return lines


def extrapolated(curves: Mapping[str, Sequence[Mapping[str, float]]]) -> list[str]:
    """Return the table of larger runs, extrapolated by the cost between the last two points."""
    lines = ["| extrapolated, not measured | processor time | memory |", "|---|---|---|"]
    for name, x in PLANS:
        if name in curves:
            points, unit = curves[name], CURVES[name].unit
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
"""Extrapolated curves, and up to which x."""


def write(stored: Mapping[str, Any]) -> None:
    """Draw the plot, and write the tables between the marks of the page."""
    draw(stored)
    begin, end = "<!-- scale: begin -->\n", "<!-- scale: end -->"
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(begin)
    PAGE.write_text(f"{before}{begin}\n{tables(stored)}\n\n{end}{rest.partition(end)[2]}", encoding="utf-8")


def draw(stored: Mapping[str, Any]) -> None:
    """Draw time and memory over users and over rounds, on logarithmic axes."""
    figure = Figure(figsize=(9.6, 6.4), layout="constrained")
    for column, unit in enumerate(("user", "round")):
        shown = {name: points for name, points in stored["curves"].items() if CURVES[name].unit == unit}
        for row, (metric, label) in enumerate((("cpu_s", "processor time (s)"), ("peak_mb", "peak memory (MB)"))):
            ax = figure.add_subplot(2, 2, 1 + 2 * row + column)
            for name, points in shown.items():
                ax.loglog([point["x"] for point in points], [point[metric] for point in points], "o-", label=name)
            ax.set(xlabel=f"{unit}s", ylabel=label)
            ax.grid(alpha=0.3)
            if not row:
                ax.legend(fontsize=8)
    figure.savefig(PAGE.with_suffix(".png"), dpi=110)


def _plural(unit: str) -> str:
    """Return the plural of a unit, as ``bytes of model``."""
    first, *rest = unit.split(" ")
    return " ".join([f"{first}s", *rest])


def _time(seconds: float) -> str:
    """Return a time in a suitable unit."""
    for scale, unit in ((86400.0, "d"), (3600.0, "h"), (60.0, "min"), (1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds * 1e9:.0f} ns"


def _bytes(size: float) -> str:
    """Return a size in a suitable unit."""
    for scale, unit in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if size >= scale:
            return f"{size / scale:.3g} {unit}"
    return f"{size:.3g} B"
