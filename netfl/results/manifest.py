"""What a run directory says of its run: manifest and summary."""

from __future__ import annotations

import importlib.metadata
import json
import logging
import os
import platform
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from netfl.errors import MachineError, __version__
from netfl.results import digests, statistics
from netfl.results.run_reader import Run
from netfl.results.run_writer import write_json
from netfl.scenario.scenario import Scenario
from netfl.types import FORMAT, Divergence

_LOG = logging.getLogger(__name__)
_PACKAGES = ("numpy", "simpy", "networkx", "pandas", "pyarrow", "pydantic", "torch")


class Manifest:
    """Writes ``manifest.json`` as the run goes through its states: running, then done, interrupted or failed.

    Args:
        folder: the run directory.
        scenario: what is run.
        learning: whether learners run, or the access alone.
        first: the first replica that is run, where those before it are there already.
        warnings: what was said of the scenario before it ran.

    Attributes:
        rounds_done: how many rounds are over.
        rounds_kept: how many of them a checkpoint brought.
        diverged: the lanes whose training has diverged, as far as that is known.
    """

    def __init__(
        self, folder: Path, scenario: Scenario, *, learning: bool, first: int = 0, warnings: Sequence[str] = ()
    ) -> None:
        self._path = folder / "manifest.json"
        self._begun = time.perf_counter()
        self.rounds_done = self.rounds_kept = 0
        self.diverged: Sequence[Divergence] = ()
        before = _before(folder)
        note_versions(folder, before)
        self._told: dict[str, Any] = {
            "format": FORMAT,
            "scenario": scenario.name,
            "seed": scenario.seed,
            "replicas": scenario.replicas,
            **({"first": first} if first else {}),
            "rounds": scenario.steps,
            **({} if scenario.duration is None else {"duration_s": scenario.duration}),
            **({"events_thinned": thinned} if (thinned := scenario.recording.thinned(scenario.users)) else {}),
            "learning": learning,
            "started": datetime.now(UTC).isoformat(timespec="seconds"),
            **({"warnings": [*warnings]} if warnings else {}),
            "versions": versions(),
            **({"versions_before": earlier} if (earlier := _earlier(before)) else {}),
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

    def finish(self) -> None:
        """Say that the run is done, and what its tables hold."""
        self.write("done", digests=digests.run_digests(self._path.parent))

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
        figures: of each replica; see `netfl.results.statistics.summary`.
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
        "digests": digests.run_digests(folder),
        "extensions": [*told.get("extensions", []), added],
    }
    write_json(path, told | more)


def versions() -> dict[str, str]:
    """What decides the last bits of figures: the versions of Python and packages, and which logarithm NumPy takes."""
    return {"python": platform.python_version(), "netfl": __version__, **_installed(), "simd": _simd()}


@cache
def _installed() -> Mapping[str, str]:
    """The versions of the packages, which are read from their metadata once for each process."""
    return {name: importlib.metadata.version(name) for name in _PACKAGES}


def note_versions(folder: Path, *before: Mapping[str, Any]) -> None:
    """Warn, in one line, where what is in *folder* was made by other versions than go on with it.

    Args:
        folder: that the message names.
        before: the manifests of what is there.
    """
    now = versions()
    made = [(name, was) for one in before for name, was in one.get("versions", {}).items()]
    changed = dict.fromkeys(f"{name} {was}, now {now[name]}" for name, was in made if now.get(name, was) != was)
    if changed:
        told = "%s was made by other versions (%s): what comes now may differ in the last bits of its figures"
        _LOG.warning(told, folder, "; ".join(changed))


def _simd() -> str:
    """The kernel that NumPy chose on this machine, such as ``X86_V4`` or ``AVX512_SKX``."""
    kernels = np.lib.introspect.opt_func_info(func_name="^log$", signature="float64")
    return str(next(iter(kernels["log"].values()))["current"])


def _before(folder: Path) -> dict[str, Any]:
    """The manifest of the run in *folder* that is gone on with; empty for a new one, or if it is damaged."""
    try:
        return Run(folder).manifest
    except MachineError:
        return {}


def _earlier(before: Mapping[str, Any]) -> list[dict[str, str]]:
    """The versions other than those of now that a run has had so far, the first ones first."""
    had = [*before.get("versions_before", []), *([before["versions"]] if "versions" in before else [])]
    return [one for place, one in enumerate(had) if one != versions() and one not in had[:place]]
