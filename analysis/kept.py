"""What runs gave, kept as small JSON files, and the figures that are made of it."""

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
"""Figures of learning swing with the user heard last: they are means over the evaluations of so many last rounds.

Of runs shorter than four times that it is their last quarter.
"""


def told(experiment: Experiment, part: str, run: Run) -> dict[str, Any]:
    """What is kept of *run*: each figure that a row or a claim asks for of this part, its versions, its time.

    Raises:
        KeyError: the run has no such figure.
    """
    asked = {(row.learner, row.metric) for row in experiment.rows if part in row.parts}
    for order in experiment.orders:
        asked |= {(order.above, order.metric)} if part in order.parts else set()
        asked |= {(order.below, order.metric)} if part in (order.against or order.parts) else set()
    figures: dict[str, dict[str, Any]] = {}
    for learner, metric in sorted(asked):
        figures.setdefault(learner, {})[metric] = _figure(run, learner, metric)
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
        "figures": figures,
        "more": {} if (more := experiment.parts[part].more) is None else dict(more(run)),
    }


def spread(results: Mapping[str, Result], row: Row, *, last: bool = False) -> ConfidenceInterval:
    """The figure of a row over the replicas of all its parts, with its interval."""
    found = [value for part in row.parts for value in results[part].values(row.learner, row.metric, last=last)]
    return interval([row.scale * value for value in found])


def difference(results: Mapping[str, Result], order: Order) -> ConfidenceInterval:
    """How far one learner lies above another, replica by replica."""
    pairs = zip(order.parts, order.against or order.parts, strict=True)
    found = []
    for part, other in pairs:
        above, below = results[part].values(order.above, order.metric), results[other].values(order.below, order.metric)
        found += [order.scale * (a - b) for a, b in zip(above, below, strict=False)]
    return interval(found)


def agreement(found: ConfidenceInterval, published: Published) -> str:
    """Whether our interval and the published one meet.

    Open where ours is wider than its mean, and so says little; and where one replica, which has none, lies outside.
    """
    half = 0.0 if math.isnan(found.half) else found.half
    if math.isnan(found.mean) or half > abs(found.mean):
        return "open"
    low, high = published.span
    if found.mean + half >= low and found.mean - half <= high:
        return "yes"
    return "open" if math.isnan(found.half) else "no"


def path_of(experiment: Experiment, part: str, folder: Path) -> Path:
    """The file of what is kept of a part."""
    return folder / f"{experiment.stem(part)}.json"


def read(experiment: Experiment, folder: Path) -> dict[str, Result]:
    """What is kept of an experiment's parts, by name; only of those that were run."""
    found = {}
    for name in experiment.parts:
        path = path_of(experiment, name, folder)
        if path.exists():
            found[name] = Result(json.loads(path.read_text(encoding="utf-8")))
    return found


def keep(experiment: Experiment, runs: Mapping[str, Run], folder: Path) -> None:
    """Keep what *runs*, by the names of their parts, gave."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, run in runs.items():
        text = json.dumps(told(experiment, name, run), indent=1, ensure_ascii=False)
        path = path_of(experiment, name, folder)
        path.write_text(text + "\n", encoding="utf-8")


def _figure(run: Run, learner: str, metric: str) -> dict[str, list[float | None]]:
    """A metric of a learner in each replica: after the last round, and as a mean over the last rounds."""
    name, _, group = metric.partition("/")
    table = run.metrics
    rows = table[(table["learner"] == learner) & (table["metric"] == name) & (table["group"] == group)]
    if rows.empty:
        raise KeyError(f"{run.folder} has no {metric} of {learner}")
    found: dict[str, list[float | None]] = {"mean": [], "last": []}
    rounds = run.manifest["rounds"]
    for replica in range(run.manifest["replicas"]):
        own = rows[rows["replica"] == replica].sort_values("round")
        late = own[own["round"] > rounds - min(WINDOW, rounds / 4)]["value"]
        whole = len(own) and own["round"].iloc[-1] == rounds
        found["mean"].append(round(float(late.mean()), 8) if whole else None)
        found["last"].append(round(float(own["value"].iloc[-1]), 8) if whole else None)
    return found
