"""What a run directory says of its run: manifest and summary."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from netfl import statistics
from netfl.recording import write_json
from netfl.scenario import Scenario
from netfl.types import Divergence

_PACKAGES = ("netfl", "numpy", "simpy", "networkx", "pandas", "pyarrow", "pydantic", "torch")


class Manifest:
    """Writes ``manifest.json`` as the run goes through its states: running, then done, interrupted or failed.

    Args:
        folder: the run directory.
        scenario: what is run.
        learning: whether learners run, or the access alone.
        first: the first replica that is run, where those before it are there already.

    Attributes:
        rounds_done: how many rounds are over.
        rounds_kept: how many of them a checkpoint brought.
        diverged: the lanes whose training has diverged, as far as that is known.
    """

    def __init__(self, folder: Path, scenario: Scenario, *, learning: bool, first: int = 0) -> None:
        self._path = folder / "manifest.json"
        self._begun = time.perf_counter()
        self.rounds_done = self.rounds_kept = 0
        self.diverged: Sequence[Divergence] = ()
        self._told: dict[str, Any] = {
            "scenario": scenario.name,
            "seed": scenario.seed,
            "replicas": scenario.replicas,
            **({"first": first} if first else {}),
            "rounds": scenario.steps,
            **({} if scenario.duration is None else {"duration_s": scenario.duration}),
            **({"events_thinned": thinned} if (thinned := scenario.recording.thinned(scenario.users)) else {}),
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
        lost = sorted(self.diverged, key=lambda one: (one.round, one.learner, one.replica))
        stands = {"rounds_done": done, "diverged": [asdict(one) for one in lost], "timings": timings}
        write_json(self._path, {"status": status, **self._told, **stands, **more})

    def fail(self, reason: str) -> None:
        """Say that the run failed, if the machine still lets that be written."""
        try:
            self.write("failed", error=reason)
        except OSError:
            return  # a full disk: the manifest on it still says "running", which is not "done"


def summarise(scenario: Scenario, figures: Sequence[Mapping[str, float]]) -> dict[str, Any]:
    """The figures that a finished run ends with, flat: how long it was, and what its replicas came to.

    Args:
        scenario: what was run.
        figures: of each replica; see `netfl.statistics.summary`.
    """
    told: dict[str, Any] = {"rounds": scenario.rounds}
    if scenario.duration is not None:
        told = {"duration_s": scenario.duration}
        told |= {"warmup_s": scenario.warmup} if scenario.warmup else {}
    return {**told, "replicas": len(figures), **statistics.summary(figures)}


def write_extended(folder: Path, part: Mapping[str, Any]) -> None:
    """Say in the manifest of *folder* that it has the replicas too that the manifest *part* tells of."""
    path = folder / "manifest.json"
    told = json.loads(path.read_text(encoding="utf-8"))
    added = {name: part[name] for name in ("first", "replicas", "started", "versions", "machine", "timings")}
    timings = told["timings"] | {"total_s": round(told["timings"]["total_s"] + part["timings"]["total_s"], 3)}
    lost = [*told.get("diverged", []), *part["diverged"]]
    more = {
        "replicas": part["replicas"],
        "diverged": lost,
        "timings": timings,
        "extensions": [*told.get("extensions", []), added],
    }
    write_json(path, told | more)


def _versions() -> dict[str, str]:
    """Versions of the packages that decide the figures."""
    return {name: importlib.metadata.version(name) for name in _PACKAGES}
