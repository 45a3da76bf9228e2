"""Results of runs, stored as small JSON files, and the statistics that the page computes from them.

A file holds the results of one part, by the number of the replica. A run adds the replicas that it has, so that the
replicas of a part can come from many runs on several machines.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from agreement import MOST_REPLICAS, Comparison, order_answer
from reproduction import Experiment, Order, Result, Row, settings_of

from netfl.results.atomic_write import atomic_write
from netfl.results.run_reader import Run
from netfl.results.same_settings import is_same
from netfl.results.statistics import MIN_REPLICAS, ConfidenceInterval, interval, t_factor

WINDOW = 250
"""Metrics of learning are means over the evaluations of so many last rounds, or of the last quarter of a shorter run.

A single evaluation depends on the user whose update was delivered last.
"""

_CURVE_POINTS = 100
"""Maximum number of points of a stored curve."""


def extract_result(experiment: Experiment, part: str, run: Run) -> dict[str, Any]:
    """Return the stored form of *run*.

    It has the settings, the number of rounds, and of each replica the metrics that rows and orders of this part need,
    as ``[mean over the last rounds, last evaluation]``, thinned curves of them, versions, time, and the values of
    `Part.extra` under ``more``.

    Raises:
        KeyError: the run has no such metric.
    """
    manifest, timings, extra = run.manifest, run.manifest["timings"], experiment.parts[part].extra
    first = manifest.get("first", 0)
    pace = timings["rounds_per_s"] or manifest["rounds_done"] / max(timings["total_s"], 1e-3)
    timed = _timed_replicas(manifest)
    gpu = manifest["machine"].get("gpu")
    words = [(lane["replica"], text) for lane, text in zip(manifest["diverged"], run.diverged, strict=True)]
    replicas = {}
    for replica in range(first, manifest["replicas"]):
        rows = _metric_rows(run, replica, experiment.needed_metrics(part))
        replicas[str(replica)] = {
            "wall_s": round(manifest["rounds_done"] / pace / timed, 1),
            "cores": manifest["machine"]["cores"],
            **({"gpu": gpu} if gpu else {}),
            "versions": {name: manifest["versions"][name] for name in ("netfl", "torch")},
            "diverged": [text for lane, text in words if lane == replica],
            "metrics": _nested({key: _final_values(table, manifest["rounds"]) for key, table in rows.items()}),
            "more": {} if extra is None else dict(extra(run, replica)),
            "curves": _curves(rows),
        }
    settings = settings_of(run.scenario)
    return {"rounds": manifest["rounds"], "settings": settings, "replicas": replicas}


def merge_results(stored: Result | None, added: Mapping[str, Any]) -> dict[str, Any]:
    """Return a stored result with the replicas of another; the latter replaces results with other settings."""
    if stored is None or not is_same(stored.content["settings"], added["settings"]):
        return dict(added)
    replicas = {**stored.content["replicas"], **added["replicas"]}
    return {**added, "replicas": {str(number): replicas[str(number)] for number in sorted(map(int, replicas))}}


def estimate(results: Mapping[str, Result], row: Row, *, last: bool = False) -> ConfidenceInterval:
    """Return the metric of a row, as mean and interval over the replicas of those of its parts that have results."""
    return interval(_values(results, row, last=last))


def difference(results: Mapping[str, Result], order: Order) -> ConfidenceInterval:
    """Return the paired difference of the two learners of an order, over the replicas in which neither diverged."""
    return interval(_paired(results, order))


def lost_pairs(results: Mapping[str, Result], order: Order) -> int:
    """Return the number of replicas in which a learner of an order diverged, of those that both have."""
    return sum(map(math.isnan, _paired(results, order)))


def compare(results: Mapping[str, Result], row: Row, effect: float = math.nan) -> Comparison:
    """Return our values of a row beside the published one.

    Args:
        results: the results that exist, by part.
        row: the row.
        effect: the effect that the paper claims on its metric; NaN if it claims none.

    Raises:
        ValueError: the row has no published value.
    """
    if row.published is None:
        raise ValueError(f"{row.label} has no published value")
    return Comparison(_values(results, row), row.published, effect)


def holds(results: Mapping[str, Result], order: Order) -> str:
    """Return the verdict on a claimed order: "yes", "no" or "open"."""
    return order_answer(_paired(results, order))


def _values(results: Mapping[str, Result], row: Row, *, last: bool = False) -> list[float]:
    """Return the metric of a row in each replica of those of its parts that have results; NaN where it diverged."""
    known = [results[part] for part in row.parts if part in results]
    return [row.scale * value for result in known for value in result.values(row.learner, row.metric, last=last)]


def _paired(results: Mapping[str, Result], order: Order) -> list[float]:
    """Return the difference of the two learners in each replica that both have; NaN where one diverged."""
    pairs = zip(order.parts, order.against or order.parts, strict=True)
    found: list[float] = []
    for part, other in pairs:
        if part not in results or other not in results:
            continue
        above = results[part].by_replica(order.above, order.metric)
        below = results[other].by_replica(order.below, order.metric)
        found += [order.scale * (above[number] - below[number]) for number in above if number in below]
    return found


def replicas_to_decide(found: ConfidenceInterval) -> int | None:
    """Return the number of replicas at which the interval would exclude 0, for the mean and the spread observed.

    Returns:
        ``None`` for a single replica, or for more than `MOST_REPLICAS`.
    """
    if found.replicas < 2 or not found.mean:
        return None
    deviation = found.half / t_factor(found.replicas)
    sizes = range(MIN_REPLICAS, MOST_REPLICAS + 1)
    return next((size for size in sizes if deviation * t_factor(size) < abs(found.mean)), None)


def result_path(experiment: Experiment, part: str, folder: Path) -> Path:
    """Return the file of the stored result of a part."""
    return folder / f"{experiment.stem(part)}.json"


def read_results(experiment: Experiment, folder: Path) -> dict[str, Result]:
    """Read the stored results of an experiment, by part; parts without a run at today's settings are absent."""
    found = {}
    for name, part in experiment.parts.items():
        path = result_path(experiment, name, folder)
        if path.exists():
            content = json.loads(path.read_text(encoding="utf-8"))
            if part.has_settings(content["settings"]):
                found[name] = Result(content)
    return found


def write_results(experiment: Experiment, runs: Mapping[str, Sequence[Run]], folder: Path) -> None:
    """Add the replicas of *runs* to the stored results: for each part its runs, of which later ones count more."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, runs_of_part in runs.items():
        for run in runs_of_part:
            stored = read_results(experiment, folder).get(name)
            write_result(
                result_path(experiment, name, folder), merge_results(stored, extract_result(experiment, name, run))
            )


def write_result(path: Path, content: Mapping[str, Any]) -> None:
    """Write a stored result, with one line for each replica, so that differences between versions are small."""
    lines = {"rounds": content["rounds"], "settings": content["settings"]}
    head = [f"{json.dumps(name)}: {_one_line(value)}" for name, value in lines.items()]
    replicas = [f"  {json.dumps(number)}: {_one_line(value)}" for number, value in content["replicas"].items()]
    text = ",\n ".join([*head, '"replicas": {\n' + ",\n".join(replicas) + "\n }"])
    with atomic_write(path) as part:
        part.write_text(f"{{\n {text}\n}}\n", encoding="utf-8")


def _one_line(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _timed_replicas(manifest: Mapping[str, Any]) -> int:
    """Return the number of replicas that the time in the manifest is of; that of an extended run is of the first."""
    extensions = manifest.get("extensions", [])
    return int((extensions[0]["first"] if extensions else manifest["replicas"]) - manifest.get("first", 0))


def _metric_rows(
    run: Run, replica: int, needed: Iterable[tuple[str, str]]
) -> dict[tuple[str, str], tuple[list[int], list[float]]]:
    """Return the evaluated rounds and the values of each needed learner and metric of one replica."""
    table = run.metrics[run.metrics["replica"] == replica]
    found = {}
    for learner, metric in sorted(needed):
        name, _, group = metric.partition("/")
        rows = table[(table["learner"] == learner) & (table["metric"] == name) & (table["group"] == group)]
        if rows.empty:
            raise KeyError(f"{run.folder} has no {metric} of {learner} in replica {replica}")
        rows = rows.sort_values("round")
        found[learner, metric] = rows["round"].tolist(), rows["value"].tolist()
    return found


def _final_values(rows: tuple[list[int], list[float]], rounds: int) -> list[float | None]:
    """Return the mean over the last rounds, and the last evaluation."""
    late = [value for index, value in zip(*rows, strict=True) if index > rounds - min(WINDOW, rounds / 4)]
    if rows[0][-1] != rounds:
        return [None, None]
    return [_rounded(sum(late) / len(late), 8), _rounded(rows[1][-1], 8)]


def _curves(rows: Mapping[tuple[str, str], tuple[list[int], list[float]]]) -> dict[str, Any]:
    """Return thinned curves: the rounds, and the values of each learner and metric, of the same evaluations."""
    if not rows:
        return {"round": [], "values": {}}
    rounds = max((indices for indices, _ in rows.values()), key=len)
    shown = rounds[:: -(-len(rounds) // _CURVE_POINTS)]
    shown += [rounds[-1]] if shown[-1] != rounds[-1] else []
    values = {}
    for key, (indices, found) in rows.items():
        known = dict(zip(indices, found, strict=True))
        values[key] = [_rounded(known.get(index, math.nan), 4) for index in shown]
    return {"round": shown, "values": _nested(values)}


def _nested(values: Mapping[tuple[str, str], Any]) -> dict[str, dict[str, Any]]:
    """Return values of learners and metrics, by learner and then by metric."""
    found: dict[str, dict[str, Any]] = {}
    for (learner, metric), value in values.items():
        found.setdefault(learner, {})[metric] = value
    return found


def _rounded(value: float, digits: int) -> float | None:
    return round(float(value), digits) if math.isfinite(value) else None
