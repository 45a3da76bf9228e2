"""Tracker for Weights & Biases."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal
from uuid import uuid4

from pydantic import AfterValidator, Field

from netfl.tracker import Lane, RunLog, TrackedRun, Tracker


class Wandb(Tracker):
    """Weights & Biases (W&B): a group for the run, with a W&B run for each learner and replica and one for the summary.

    The step of a W&B run is the round.  The simulated time is the metric ``time_s``.  With ``mode: offline`` nothing is
    sent: each W&B run is a folder, which ``wandb sync`` uploads.  A resumed run writes these folders again.  With
    ``mode: online`` a resumed run continues its W&B runs and skips rounds that they have; use ``wandb login`` first.

    Example::

        kind: wandb
        project: outages
    """

    packages: ClassVar[tuple[str, ...]] = ("wandb",)
    requirement: ClassVar[str] = "netfl-sim[wandb]"
    project: Annotated[str, Field(min_length=1)] | None = None
    """Name of the project; the scenario's name by default."""
    entity: Annotated[str, Field(min_length=1)] | None = None
    """User or team that owns the project; by default that of the login."""
    mode: Literal["offline", "online"] = "offline"
    """Write to files only, or also send to the W&B server."""
    folder: Annotated[Path, AfterValidator(Path.absolute)] | None = None
    """Folder in which W&B makes its folder ``wandb``; by default the run directory."""

    def open(self, run: TrackedRun) -> RunLog:
        if not run.memory:
            run.memory["group"] = f"{run.name}-{uuid4().hex[:6]}"
            run.memory["folder"] = str(self.folder or run.folder)
            run.memory["summary"] = _new_id()
            run.memory["lanes"] = {}
        options = {
            "project": self.project or str(run.scenario["name"]),
            "entity": self.entity,
            "mode": self.mode,
        }
        return _WandbLog(run, options)


class _WandbLog(RunLog):
    def __init__(self, run: TrackedRun, options: Mapping[str, Any]) -> None:
        self._run = run
        self._options = options
        self._lanes: dict[Lane, Any] = {}
        self._is_offline = options["mode"] == "offline"
        Path(run.memory["folder"]).mkdir(parents=True, exist_ok=True)
        for lane in run.lanes:
            learner, replica = lane
            name = f"{learner}-{replica}"
            run_id = run.memory["lanes"].setdefault(name, _new_id())
            config = {
                "learner": learner,
                "replica": replica,
                **run.scenario["learners"].get(learner, {}),
                "scenario": run.scenario,
            }
            self._lanes[lane] = self._open(run_id, name, "learner", config)

    def log_metrics(self, lane: Lane, round: int, time_s: float, values: Mapping[str, float]) -> None:
        wandb_run = self._lanes[lane]
        if round >= wandb_run.starting_step:
            wandb_run.log({**values, "time_s": time_s}, step=round)

    def log_summary(self, values: Mapping[str, float], replicas: int) -> None:
        whole = self._open(self._run.memory["summary"], self._run.name, "summary", self._run.scenario)
        whole.log({**values, "replicas": replicas}, step=replicas)
        whole.finish()

    def close(self, status: str) -> None:
        for wandb_run in self._lanes.values():
            wandb_run.finish(exit_code=int(status == "failed"))

    def _open(self, run_id: str, name: str, kind: str, config: Mapping[str, Any]) -> Any:
        os.environ.setdefault("WANDB_ERROR_REPORTING", "false")  # read on import
        import wandb

        memory = self._run.memory
        if self._is_offline:  # the files of before a stop; an offline run cannot be continued
            for old in (Path(memory["folder"]) / "wandb").glob(f"offline-run-*-{run_id}"):
                shutil.rmtree(old)
        quiet = wandb.Settings(
            silent=True,
            console="off",
            symlink=False,
            disable_git=True,
            disable_code=True,
            x_disable_stats=True,
            x_disable_meta=True,
            x_save_requirements=False,
        )
        with _exit_hooks_restored():
            return wandb.init(
                **self._options,
                dir=memory["folder"],
                group=memory["group"],
                job_type=kind,
                name=name,
                id=run_id,
                resume=None if self._is_offline else "allow",
                reinit="create_new",
                config=dict(config),
                settings=quiet,
            )


def _new_id() -> str:
    return uuid4().hex[:8]


@contextmanager
def _exit_hooks_restored() -> Iterator[None]:
    """Restore the functions by which W&B notices the end of a program: netfl ends the log of a run itself."""
    excepthook = sys.excepthook
    exit_function = sys.exit
    try:
        yield
    finally:
        sys.excepthook = excepthook
        sys.exit = exit_function
