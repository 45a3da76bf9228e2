"""What a run directory says of its run: manifest and summary."""

from __future__ import annotations

import importlib.metadata
import math
import os
import platform
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from netfl.recording import write_json
from netfl.scenario import Scenario
from netfl.types import FATES, Report, Round

_PACKAGES = ("netfl", "numpy", "simpy", "networkx", "pandas", "pyarrow", "pydantic", "torch")


class Manifest:
    """Writes ``manifest.json`` as the run goes through its states: running, then done, interrupted or failed.

    Args:
        folder: the run directory.
        scenario: what is run.
        learning: whether learners run, or the access alone.

    Attributes:
        rounds_done: how many rounds are over.
        rounds_kept: how many of them a checkpoint brought.
    """

    def __init__(self, folder: Path, scenario: Scenario, *, learning: bool) -> None:
        self._path = folder / "manifest.json"
        self._begun = time.perf_counter()
        self.rounds_done = self.rounds_kept = 0
        self._told: dict[str, Any] = {
            "scenario": scenario.name,
            "seed": scenario.seed,
            "replicas": scenario.replicas,
            "rounds": scenario.rounds,
            "learning": learning,
            "started": datetime.now(UTC).isoformat(timespec="seconds"),
            "versions": {"python": platform.python_version(), **_versions()},
            "machine": {"system": platform.platform(), "processor": platform.machine(), "cores": os.cpu_count()},
        }

    def write(self, status: str, **more: object) -> None:
        """Write the manifest with a new status."""
        seconds, done = round(time.perf_counter() - self._begun, 3), self.rounds_done
        pace = round((done - self.rounds_kept) / seconds, 3) if seconds else 0.0
        timings = {"total_s": seconds, "rounds_kept": self.rounds_kept, "rounds_per_s": pace}
        write_json(self._path, {"status": status, **self._told, "rounds_done": done, "timings": timings, **more})

    def fail(self, reason: str) -> None:
        """Say that the run failed, if the machine still lets that be written."""
        try:
            self.write("failed", error=reason)
        except OSError:
            return  # a full disk: the manifest on it still says "running", which is not "done"


def summarise(
    rounds: Sequence[Round],
    fates: Sequence[Mapping[str, int]],
    lanes: Sequence[tuple[str, int]],
    reports: Sequence[Report],
) -> dict[str, Any]:
    """The figures that a run ends with, flat: sums over replicas for ``fate.<fate>``, else means over them.

    ``<learner>.<metric>`` is the value after the last round, ``<learner>.<metric>.smoothed`` its mean over the
    evaluations of the last tenth of the rounds: with one user heard a round, single values swing with whom it was.
    A figure that is not finite, such as the loss of a learner that diverges in its last round, is ``None``.

    Args:
        rounds: the last round of each replica.
        fates: counts of event kinds of each replica.
        lanes: learner and replica of each lane.
        reports: all evaluations.
    """
    told: dict[str, Any] = {
        "rounds": rounds[0].index if rounds else 0,
        "simulated_s": _mean([one.closed_s for one in rounds]) if rounds else 0.0,
    }
    told |= {f"fate.{fate}": int(sum(counts[fate] for counts in fates)) for fate in FATES}
    if not reports:
        return told
    last = reports[-1]
    late = [report for report in reports if report.round >= 0.9 * last.round]
    for learner in dict.fromkeys(name for name, _ in lanes):
        own = [lane for lane, (name, _) in enumerate(lanes) if name == learner]
        for metric in (name for name in last.metrics if "/user:" not in name):
            told[f"{learner}.{metric}"] = _mean([last.metrics[metric][own]])
            told[f"{learner}.{metric}.smoothed"] = _mean([report.metrics[metric][own] for report in late])
    return told


def _mean(values: Any) -> float | None:
    """The mean of all *values*, which JSON can only hold if it is finite."""
    mean = float(np.mean(values))
    return mean if math.isfinite(mean) else None


def _versions() -> dict[str, str]:
    """Versions of the packages that decide the figures."""
    return {name: importlib.metadata.version(name) for name in _PACKAGES}
