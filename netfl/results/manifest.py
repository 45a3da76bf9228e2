"""The manifest of a run directory: its status, its versions and the digests of its tables."""

from __future__ import annotations

import importlib.metadata
import json
import logging
import os
import platform
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from netfl.core.formats import FORMAT
from netfl.errors import MachineError, NetflError, __version__
from netfl.results import digests
from netfl.results.atomic_write import write_json
from netfl.results.payload import billing_of, codec_note, recording_note
from netfl.results.reported import reported_entries
from netfl.results.run_reader import Run
from netfl.scenario.scenario import Scenario
from netfl.types import Divergence, RunObserver, RunProgress, RunStart

_LOG = logging.getLogger(__name__)
_PACKAGES = ("numpy", "simpy", "networkx", "pandas", "pyarrow", "pydantic", "torch")


class Manifest(RunObserver):
    """Writer of ``manifest.json``, whose status is running, then done, interrupted or failed.

    Args:
        folder: the run directory.
        scenario: the scenario of the run.
        learning: whether learners run, or the access alone.
        first: the first replica of the run; those before it exist already.
        warnings: the warnings about the scenario.
        training: a sentence about how models are trained; empty for the usual way.
        gpu: the name of the GPU that trains; empty on a CPU.
        facts: further facts, by key.
        before_s: time of the passes of tuning before the run, which is part of its time.
    """

    def __init__(
        self,
        folder: Path,
        scenario: Scenario,
        *,
        learning: bool,
        first: int = 0,
        warnings: Sequence[str] = (),
        training: str = "",
        gpu: str = "",
        facts: Mapping[str, Any] | None = None,
        before_s: float = 0.0,
    ) -> None:
        self._path = folder / "manifest.json"
        self._before_s = before_s
        self._started = time.perf_counter()
        self._rounds_done = 0
        self._rounds_kept = 0
        self._diverged: Sequence[Divergence] = ()
        before: Mapping[str, Any] = {}
        with suppress(MachineError):  # a manifest that is damaged
            before = Run(folder).manifest
        warn_of_versions(folder, before)
        self._facts = _scenario_facts(scenario, first)
        self._facts["learning"] = learning
        if reported := reported_entries(scenario, learning=learning):
            self._facts["reported"] = reported
        self._facts["started"] = datetime.now(UTC).isoformat(timespec="seconds")
        if warnings:
            self._facts["warnings"] = [*warnings]
        if training:
            self._facts["training"] = training
        if "flower" not in (facts or {}):  # the messages of an app have their own sizes
            self._facts |= _message_facts(scenario)
        self._facts["versions"] = versions()
        if earlier := _earlier_versions(before):
            self._facts["versions_before"] = earlier
        self._facts["machine"] = _machine(gpu)
        self._facts |= facts or {}

    def write(self, status: str, **more: object) -> None:
        """Write the manifest with a new status."""
        seconds = round(time.perf_counter() - self._started, 3)
        new_rounds = self._rounds_done - self._rounds_kept
        timings = {
            "total_s": round(self._before_s + seconds, 3),
            "rounds_kept": self._rounds_kept,
            "rounds_per_s": round(new_rounds / seconds, 3) if seconds else 0.0,
        }
        if self._before_s:
            timings["tuning_s"] = self._before_s
        diverged = sorted(self._diverged, key=lambda lane: (lane.round, lane.learner, lane.replica))
        state = {
            "rounds_done": self._rounds_done,
            "diverged": [asdict(lane) for lane in diverged],
            "timings": timings,
        }
        write_json(self._path, digests.signed({"status": status, **self._facts, **state, **more}))

    def add_facts(self, **facts: object) -> None:
        """Add facts, or replace them."""
        self._facts |= facts

    def on_start(self, start: RunStart) -> None:
        self._rounds_kept = start.checkpoint_round or 0

    def on_round(self, progress: RunProgress) -> None:
        self._rounds_done = progress.round
        self._diverged = progress.diverged

    def on_end(self, status: str, error: BaseException | None = None) -> None:
        """Write the final status; after an error only if the disk permits it."""
        if status == "done":
            folder = self._path.parent
            self.write("done", digests=digests.run_digests(folder), files=digests.file_digests(folder))
            return
        if not isinstance(error, OSError):
            self._rounds_done = max(self._rounds_done, self._rounds_kept)
        if error is None:
            self.write(status)
            return
        if isinstance(error, OSError):
            reason = f"error of the machine: {error}"
        elif isinstance(error, NetflError):
            reason = str(error)
        else:
            reason = f"{type(error).__name__}: {error}"
        with suppress(OSError):  # a full disk: the manifest on it still has the status "running", which is not "done"
            self.write("failed", error=reason)


def _scenario_facts(scenario: Scenario, first: int) -> dict[str, Any]:
    """Return the format of the run directory and the size of the run, whose first replica is *first*."""
    facts: dict[str, Any] = {
        "format": FORMAT,
        "scenario": scenario.name,
        "seed": scenario.seed,
        "users": scenario.users,
        "replicas": scenario.replicas,
    }
    if first:
        facts["first"] = first
    if scenario.planned_rounds is not None:
        facts["rounds"] = scenario.planned_rounds
    if scenario.traffic_s is not None:
        facts["duration_s"] = scenario.traffic_s
    if scenario.stop_s is not None:
        facts["stop_s"] = scenario.stop_s
    if thinned := scenario.recording.thinned(scenario.users):
        facts["events_thinned"] = thinned
    return facts


def _message_facts(scenario: Scenario) -> dict[str, Any]:
    """Return how learners with different payloads are billed, and what codecs save, where there are any."""
    facts: dict[str, Any] = {}
    billing = billing_of(scenario)
    if billing is not None:
        facts["payload"] = billing.facts
    codecs = " ".join(filter(None, (codec_note(scenario), recording_note(scenario))))
    if codecs:
        facts["codecs"] = codecs
    return facts


def _earlier_versions(manifest: Mapping[str, Any]) -> list[Mapping[str, str]]:
    """Return the versions, other than these, that have written the run so far, by its *manifest*; each once."""
    writers = [*manifest.get("versions_before", [])]
    if "versions" in manifest:
        writers.append(manifest["versions"])
    earlier: list[Mapping[str, str]] = []
    for writer in writers:
        if writer != versions() and writer not in earlier:
            earlier.append(writer)
    return earlier


def _machine(gpu: str) -> dict[str, Any]:
    """Return the machine; *gpu* is the name of the GPU that trains, empty on a CPU."""
    machine: dict[str, Any] = {
        "system": platform.platform(),
        "processor": platform.machine(),
        "cores": os.cpu_count(),
    }
    if gpu:
        machine["gpu"] = gpu
    return machine


def write_extended(folder: Path, manifest: Mapping[str, Any], part: Mapping[str, Any]) -> None:
    """Write a *manifest* with the replicas of the manifest *part* added, beside the merged files in *folder*."""
    added = {name: part[name] for name in ("first", "replicas", "started", "versions", "machine", "timings")}
    total_s = manifest["timings"]["total_s"] + part["timings"]["total_s"]
    more = {
        "replicas": part["replicas"],
        "diverged": [*manifest.get("diverged", []), *part["diverged"]],
        "timings": manifest["timings"] | {"total_s": round(total_s, 3)},
        "digests": manifest["digests"] | digests.run_digests(folder),
        "files": manifest["files"] | digests.file_digests(folder),
        "extensions": [*manifest.get("extensions", []), added],
    }
    write_json(folder / "manifest.json", digests.signed({**manifest, **more}))


def add_to_manifest(folder: Path, **facts: object) -> None:
    """Add facts to the manifest of the finished run in *folder*, or replace them."""
    path = folder / "manifest.json"
    write_json(path, digests.signed(json.loads(path.read_text(encoding="utf-8")) | facts))


@cache
def versions() -> Mapping[str, str]:
    """Return what determines the last bits of results: versions of Python and packages, and NumPy's SIMD kernel."""
    kernels = np.lib.introspect.opt_func_info(func_name="^log$", signature="float64")
    simd = str(next(iter(kernels["log"].values()))["current"])
    installed = {name: importlib.metadata.version(name) for name in _PACKAGES}
    return {"python": platform.python_version(), "netfl": __version__, **installed, "simd": simd}


def warn_of_versions(folder: Path, *before: Mapping[str, Any]) -> None:
    """Log a warning where the run in *folder* was made by other versions than these, by its manifests so far."""
    now = versions()
    changed = []
    for manifest in before:
        for name, version in manifest.get("versions", {}).items():
            if name in now and now[name] != version:
                changed.append(f"{name} {version}, now {now[name]}")
    if changed:
        message = "%s was written by other versions (%s): new values may differ in the last bits"
        _LOG.warning(message, folder, "; ".join(dict.fromkeys(changed)))
