"""Extension of a finished run by more replicas.

The new replicas run in a folder of the run directory, and are then appended to its tables.  Until then the run reads as
before; after a stop, a crash or a full disk the same call continues.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from netfl.errors import Fault, MachineError, ScenarioError
from netfl.files import read_batches
from netfl.results.atomic_write import publish_file, write_json, write_text
from netfl.results.locking import locked
from netfl.results.manifest import warn_of_versions, write_extended
from netfl.results.model_snapshots import VERSIONS
from netfl.results.run_reader import EXTENSION, Run, open_run
from netfl.results.run_writer import append_replicas, summarize_run
from netfl.results.tables import CHUNK, GROWING
from netfl.results.tracking import open_trackers
from netfl.scenario import yaml_document as documents
from netfl.scenario.scenario import Scenario, validate
from netfl.simulation.learners import open_learner
from netfl.simulation.progress import python_display
from netfl.simulation.run import FINAL_FILES, check_repeatable, note_continuation, perform_run
from netfl.simulation.setup import prepare_run
from netfl.types import RunObserver


def extend(
    folder: str | Path,
    replicas: int,
    *,
    device: str = "auto",
    observer: RunObserver | None = None,
    progress: bool = True,
) -> Run:
    """Add replicas to the finished run in *folder*, without repeating those that it has.

    The result equals a run with that many replicas from the start: the network's tables row for row, in another order;
    learning within a float tolerance, as its batches differ, and so the network where the loop is closed.

    Args:
        folder: a run directory.
        replicas: the number of replicas in all.
        device: ``auto``, ``cpu``, ``cuda`` or ``cuda:N``.
        observer: an observer; if it stops the extension, the run stays as it was, and the same call continues.
        progress: show the progress on a terminal or in a notebook; an observer replaces it.

    Raises:
        ScenarioError: there is no such run, it is not finished, has as many replicas, or replays fewer.
        NetflError: as `netfl.run`.
    """
    finished = open_run(folder)
    folder = finished.folder
    part = folder / EXTENSION
    command = f"netfl extend {folder} --replicas {replicas}"
    with locked(folder), python_display(observer, progress=progress) as display:
        check_repeatable(finished, "extended")
        first = _first_new_replica(finished, replicas)
        document = documents.read(folder / "scenario.yaml")
        document.put("replicas", replicas, f"--replicas {replicas}")
        scenario = validate(document)
        learning = bool(finished.manifest["learning"])
        _check_tables(finished)
        try:
            if not _is_extension(part, scenario, first):
                shutil.rmtree(part, ignore_errors=True)
                part.mkdir(exist_ok=True)
            if _manifest(part).get("status") != "done":
                warn_of_versions(folder, finished.manifest)
                added = range(first, replicas)
                setup = prepare_run(scenario, learning=learning, replicas=added, pulse=display.on_progress)
                with open_learner(setup, device, learning=learning) as learner, locked(part):
                    perform_run(setup, learner, part, display, command)
            if _manifest(part).get("status") == "done":  # and not stopped by the observer
                with note_continuation(folder, command):
                    merge_replicas(folder, part, scenario, first, command)
        except ScenarioError:
            shutil.rmtree(part, ignore_errors=True)
            raise
        except OSError as error:
            problem = f"cannot continue to extend {folder}: {error.strerror or error}"
            remedy = f"Fix this, then repeat: {command}"
            raise MachineError(f"{problem}; its {first} replicas are unchanged. {remedy}") from error
    return open_run(folder)


def _first_new_replica(run: Run, replicas: int) -> int:
    """Return the first replica that *run* does not have, if it can be extended to *replicas*."""
    if run.status != "done":
        problem = f"the run in {run.folder} is not finished ({run.status})"
        remedy = f"finish it first: netfl resume {run.folder}"
        raise ScenarioError([Fault("", problem, None, remedy)])
    existing = int(run.manifest["replicas"])
    if replicas <= existing:
        problem = f"the run in {run.folder} already has {existing}"
        remedy = f"give more than {existing}: it is the total number"
        raise ScenarioError([Fault("--replicas", problem, replicas, remedy)])
    return existing


def _check_tables(run: Run) -> None:
    """Read all tables of *run* before new replicas are computed for them.

    Raises:
        MachineError: a table is missing or damaged.
    """
    for name in run.manifest.get("digests", GROWING):
        for _ in read_batches(run.file_of(name), CHUNK):
            pass


def _is_extension(part: Path, scenario: Scenario, first: int) -> bool:
    """Return whether *part* has begun to extend a run to this *scenario*, from its replica *first* on."""
    file = part / "scenario.yaml"
    if not file.exists() or file.read_text(encoding="utf-8") != scenario.to_yaml():
        return False
    return _manifest(part).get("first") == first


def _manifest(part: Path) -> dict[str, object]:
    """Return the manifest of an extension; empty if it has not begun."""
    try:
        return open_run(part).manifest
    except (ScenarioError, MachineError):
        return {}


def merge_replicas(folder: Path, part: Path, scenario: Scenario, first: int, command: str) -> None:
    """Append the new replicas to the tables of the run; the manifest, written last, makes them count.

    All new tables are complete before the first replaces one of the run, as a full disk or damage then changes nothing.

    Args:
        folder: the run directory.
        part: the finished run of the new replicas, which is removed at the end.
        scenario: the scenario with all replicas.
        first: the first of the new replicas.
        command: the command that continues after a failure of the machine.
    """
    added = Run(part)
    metrics = [
        *Run(folder).final_metrics_of(range(first)),
        *added.final_metrics_of(range(first, scenario.replicas)),
    ]

    # complete tables, which then replace those of the run
    merged = part / "merged"
    merged.mkdir(exist_ok=True)
    tables = sorted(part.glob("*.parquet"))
    for table in tables:
        append_replicas(folder / table.name, table, first, merged / table.name)
    for table in tables:
        publish_file(merged / table.name, folder / table.name)
    for file in (part / VERSIONS).glob("*.safetensors"):
        publish_file(file, folder / VERSIONS / file.name)
    for name in FINAL_FILES:
        if not name.endswith((".json", ".parquet")):  # reports and plots of the old replicas
            (folder / name).unlink(missing_ok=True)

    # the summary, and the manifest last
    summary = summarize_run(scenario, metrics)
    trackers = open_trackers(scenario.track, folder, scenario.plain(), (), command)
    trackers.log_summary(summary)
    trackers.on_end("done")
    write_text(folder / "scenario.yaml", scenario.to_yaml())
    write_json(folder / "summary.json", summary)
    write_extended(folder, added.manifest)
    shutil.rmtree(part, ignore_errors=True)
