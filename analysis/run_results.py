"""Results of runs, stored as small JSON files, and the statistics that the page computes from them."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from reproduction import Experiment, Order, Published, Result, Row

from netfl.results.run_reader import Run
from netfl.results.statistics import ConfidenceInterval, interval

WINDOW = 250
"""Metrics of learning are means over the evaluations of so many last rounds, or of the last quarter of a shorter run.

A single evaluation depends on the user whose update was delivered last.
"""


def extract_result(experiment: Experiment, part: str, run: Run) -> dict[str, Any]:
    """Return the stored form of *run*: the metrics that rows and orders of this part need, versions, and time.

    Raises:
        KeyError: the run has no such metric.
    """
    needed = {(row.learner, row.metric) for row in experiment.rows if part in row.parts}
    for order in experiment.orders:
        needed |= {(order.above, order.metric)} if part in order.parts else set()
        needed |= {(order.below, order.metric)} if part in (order.against or order.parts) else set()
    metrics: dict[str, dict[str, Any]] = {}
    for learner, metric in sorted(needed):
        metrics.setdefault(learner, {})[metric] = _metric_of_replicas(run, learner, metric)
    manifest, timings = run.manifest, run.manifest["timings"]
    pace = timings["rounds_per_s"] or manifest["rounds_done"] / max(timings["total_s"], 1e-3)
    return {
        "seed": manifest["seed"],
        "replicas": manifest["replicas"],
        "rounds": manifest["rounds"],
        "wall_s": round(manifest["rounds_done"] / pace),
        "cores": manifest["machine"]["cores"],
        "versions": {name: manifest["versions"][name] for name in ("netfl", "torch")},
        "diverged": run.diverged,
        "figures": metrics,
        "more": {} if (extra := experiment.parts[part].extra) is None else dict(extra(run)),
    }


def estimate(results: Mapping[str, Result], row: Row, *, last: bool = False) -> ConfidenceInterval:
    """Return the metric of a row, as mean and interval over the replicas of all its parts."""
    found = [value for part in row.parts for value in results[part].values(row.learner, row.metric, last=last)]
    return interval([row.scale * value for value in found])


def difference(results: Mapping[str, Result], order: Order) -> ConfidenceInterval:
    """Return the paired difference of the two learners of an order over replicas."""
    pairs = zip(order.parts, order.against or order.parts, strict=True)
    found = []
    for part, other in pairs:
        above, below = results[part].values(order.above, order.metric), results[other].values(order.below, order.metric)
        found += [order.scale * (a - b) for a, b in zip(above, below, strict=False)]
    return interval(found)


def agreement(found: ConfidenceInterval, published: Published) -> str:
    """Return "yes" if our interval overlaps the published one, else "no", or "open" if our runs cannot decide.

    "Open" means that our half width exceeds our mean, or that a single replica lies outside the published interval.
    """
    half = 0.0 if math.isnan(found.half) else found.half
    if math.isnan(found.mean) or half > abs(found.mean):
        return "open"
    low, high = published.span
    if found.mean + half >= low and found.mean - half <= high:
        return "yes"
    return "open" if math.isnan(found.half) else "no"


def verdict(found: ConfidenceInterval) -> str:
    """Return "yes" or "no" for a claimed order if the interval of the difference excludes 0, else "open"."""
    if not found.clear:
        return "open"
    return "yes" if found.mean > 0 else "no"


def result_path(experiment: Experiment, part: str, folder: Path) -> Path:
    """Return the file of the stored result of a part."""
    return folder / f"{experiment.stem(part)}.json"


def read_results(experiment: Experiment, folder: Path) -> dict[str, Result]:
    """Read the stored results of an experiment, by part; parts without a run are absent."""
    found = {}
    for name in experiment.parts:
        path = result_path(experiment, name, folder)
        if path.exists():
            found[name] = Result(json.loads(path.read_text(encoding="utf-8")))
    return found


def write_results(experiment: Experiment, runs: Mapping[str, Run], folder: Path) -> None:
    """Store the results of *runs*, by the names of their parts."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, run in runs.items():
        text = json.dumps(extract_result(experiment, name, run), indent=1, ensure_ascii=False)
        path = result_path(experiment, name, folder)
        path.write_text(text + "\n", encoding="utf-8")


def _metric_of_replicas(run: Run, learner: str, metric: str) -> dict[str, list[float | None]]:
    """Return a metric of a learner for each replica: its last value, and its mean over the last rounds."""
    name, _, group = metric.partition("/")
    table = run.metrics
    rows = table[(table["learner"] == learner) & (table["metric"] == name) & (table["group"] == group)]
    if rows.empty:
        raise KeyError(f"{run.folder} has no {metric} of {learner}")
    found: dict[str, list[float | None]] = {"mean": [], "last": []}
    rounds = run.manifest["rounds"]
    for replica in range(run.manifest["replicas"]):
        values = rows[rows["replica"] == replica].sort_values("round")
        late = values[values["round"] > rounds - min(WINDOW, rounds / 4)]["value"]
        is_complete = len(values) and values["round"].iloc[-1] == rounds
        found["mean"].append(round(float(late.mean()), 8) if is_complete else None)
        found["last"].append(round(float(values["value"].iloc[-1]), 8) if is_complete else None)
    return found
