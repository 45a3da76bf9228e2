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
        self._rounds_done = self._rounds_kept = 0
        self._diverged: Sequence[Divergence] = ()
        before: Mapping[str, Any] = {}
        with suppress(MachineError):  # a manifest that is damaged
            before = Run(folder).manifest
        warn_of_versions(folder, before)
        machine = {"system": platform.platform(), "processor": platform.machine(), "cores": os.cpu_count()}
        had = [*before.get("versions_before", []), *([before["versions"]] if "versions" in before else [])]
        earlier = [each for place, each in enumerate(had) if each != versions() and each not in had[:place]]
        billing = None
        codecs = ""
        if "flower" not in (facts or {}):  # the messages of an app have their own sizes
            billing = billing_of(scenario)
            codecs = " ".join(filter(None, (codec_note(scenario), recording_note(scenario))))
        self._facts: dict[str, Any] = {
            "format": FORMAT,
            "scenario": scenario.name,
            "seed": scenario.seed,
            "users": scenario.users,
            "replicas": scenario.replicas,
            **({"first": first} if first else {}),
            **({} if scenario.planned_rounds is None else {"rounds": scenario.planned_rounds}),
            **({} if scenario.traffic_s is None else {"duration_s": scenario.traffic_s}),
            **({} if scenario.stop_s is None else {"stop_s": scenario.stop_s}),
            **({"events_thinned": thinned} if (thinned := scenario.recording.thinned(scenario.users)) else {}),
            "learning": learning,
            **({"reported": reported} if (reported := reported_entries(scenario, learning=learning)) else {}),
            "started": datetime.now(UTC).isoformat(timespec="seconds"),
            **({"warnings": [*warnings]} if warnings else {}),
            **({"training": training} if training else {}),
            **({} if billing is None else {"payload": billing.facts}),
            **({"codecs": codecs} if codecs else {}),
            "versions": versions(),
            **({"versions_before": earlier} if earlier else {}),
            "machine": {**machine, **({"gpu": gpu} if gpu else {})},
            **(facts or {}),
        }

    def write(self, status: str, **more: object) -> None:
        """Write the manifest with a new status."""
        seconds, done = round(time.perf_counter() - self._started, 3), self._rounds_done
        pace = round((done - self._rounds_kept) / seconds, 3) if seconds else 0.0
        timings = {
            "total_s": round(self._before_s + seconds, 3),
            "rounds_kept": self._rounds_kept,
            "rounds_per_s": pace,
            **({"tuning_s": self._before_s} if self._before_s else {}),
        }
        diverged = sorted(self._diverged, key=lambda lane: (lane.round, lane.learner, lane.replica))
        state = {"rounds_done": done, "diverged": [asdict(lane) for lane in diverged], "timings": timings}
        write_json(self._path, digests.signed({"status": status, **self._facts, **state, **more}))

    def add_facts(self, **facts: object) -> None:
        """Add facts, or replace them."""
        self._facts |= facts

    def on_start(self, start: RunStart) -> None:
        self._rounds_kept = start.checkpoint_round or 0

    def on_round(self, progress: RunProgress) -> None:
        self._rounds_done, self._diverged = progress.round, progress.diverged

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
        reason = str(error) if isinstance(error, NetflError) else f"{type(error).__name__}: {error}"
        with suppress(OSError):  # a full disk: the manifest on it still has the status "running", which is not "done"
            self.write("failed", error=f"error of the machine: {error}" if isinstance(error, OSError) else reason)


def write_extended(folder: Path, manifest: Mapping[str, Any], part: Mapping[str, Any]) -> None:
    """Write a *manifest* with the replicas of the manifest *part* added, beside the merged files in *folder*."""
    added = {name: part[name] for name in ("first", "replicas", "started", "versions", "machine", "timings")}
    timings = manifest["timings"] | {"total_s": round(manifest["timings"]["total_s"] + part["timings"]["total_s"], 3)}
    more = {
        "replicas": part["replicas"],
        "diverged": [*manifest.get("diverged", []), *part["diverged"]],
        "timings": timings,
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
    made = [(name, was) for manifest in before for name, was in manifest.get("versions", {}).items()]
    changed = dict.fromkeys(f"{name} {was}, now {now[name]}" for name, was in made if now.get(name, was) != was)
    if changed:
        message = "%s was written by other versions (%s): new values may differ in the last bits"
        _LOG.warning(message, folder, "; ".join(changed))
