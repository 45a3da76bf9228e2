"""Extension of a finished run by more replicas.

The new replicas run in the folder `EXTENSION` of the run directory.  All files of the extended run are then written
there, and the folder that holds them becomes `MERGED` by one rename: before it the run reads as it was, and after it as
extended, while the files take the places of the old ones.  After a stop, a crash or a full disk the same call
continues.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from netfl.core.remedies import argument, call, given
from netfl.errors import Fault, MachineError, ScenarioError
from netfl.files import is_present
from netfl.learning.devices import check_device
from netfl.results.atomic_write import publish_file, publish_folder, sync, write_json, write_text
from netfl.results.digests import check_files
from netfl.results.locking import locked
from netfl.results.manifest import warn_of_versions, write_extended
from netfl.results.model_snapshots import VERSIONS
from netfl.results.run_reader import EXTENSION, MERGED, Run, open_run
from netfl.results.run_writer import append_replicas, summarize_run
from netfl.results.tracking import open_trackers
from netfl.scenario import yaml_document as documents
from netfl.scenario.scenario import Scenario, validate
from netfl.simulation.progress import python_display
from netfl.simulation.replica_runs import join_facts
from netfl.simulation.run import FINAL_FILES, RunPerformer, check_repeatable, note_continuation, perform_replicas
from netfl.simulation.tuning import TunedRun, finished_tuning
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
    check_device(device)
    finished = open_run(folder)
    folder = finished.folder
    part = folder / EXTENSION
    command = call("extend", folder, replicas=replicas)
    with (
        note_continuation(folder, command),
        locked(folder),
        python_display(observer, progress=progress) as display,
    ):
        if is_present(folder / MERGED):  # a stop has interrupted the last step of an extension
            _replace_files(folder, command)
            finished = open_run(folder)
            if finished.fact("replicas") == replicas:
                return finished
        check_repeatable(finished, "extended")
        first = _first_new_replica(finished, replicas)
        document = documents.read(folder / "scenario.yaml")
        document.put("replicas", replicas, given("replicas", replicas))
        scenario = validate(document)
        learning = bool(finished.fact("learning"))
        check_files(finished)
        try:
            if not _is_extension(part, scenario, first):
                shutil.rmtree(part, ignore_errors=True)
                part.mkdir(exist_ok=True)
            is_done = _manifest(part).get("status") == "done"
            if not is_done:
                warn_of_versions(folder, finished.manifest)
                performer = RunPerformer(display, device, 1, command, finished.warnings)
                added = range(first, replicas)
                with locked(part):
                    if learning and scenario.tuning is not None and scenario.tuning.per == "replica":
                        added_run = perform_replicas(scenario, part, added, performer, home=folder)
                    else:
                        tuned = TunedRun(scenario, scenario)
                        if learning and scenario.tuning is not None:
                            tuned = replace(finished_tuning(scenario, folder), candidates=None, seconds=0.0)
                        added_run = performer.run(tuned, part, added, learning=learning)
                is_done = added_run.fact("status") == "done"
            if is_done:  # and not stopped by the observer
                facts: Mapping[str, object] = {}
                if learning and scenario.tuning is not None and scenario.tuning.per == "replica":
                    facts = join_facts(scenario, [finished.manifest, open_run(part).manifest])
                merge_replicas(finished, scenario, first, command, facts)
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
        remedy = f"finish it first: {call('resume', run.folder)}"
        raise ScenarioError([Fault("", problem, None, remedy)])
    existing = int(run.fact("replicas"))
    if isinstance(replicas, bool) or not isinstance(replicas, int):
        remedy = f"give a number above {existing}: it is the total number"
        raise ScenarioError([Fault(argument("replicas"), "not a number of replicas", replicas, remedy)])
    if replicas <= existing:
        problem = f"the run in {run.folder} already has {existing}"
        remedy = f"give more than {existing}: it is the total number"
        raise ScenarioError([Fault(argument("replicas"), problem, replicas, remedy)])
    return existing


def _is_extension(part: Path, scenario: Scenario, first: int) -> bool:
    """Return whether *part* has begun to extend a run to this *scenario*, from its replica *first* on."""
    file = part / "scenario.yaml"
    if not is_present(file) or file.read_text(encoding="utf-8") != scenario.to_yaml():
        return False
    return _manifest(part).get("first") == first


def _manifest(part: Path) -> dict[str, object]:
    """Return the manifest of an extension; empty if it has not begun."""
    try:
        return open_run(part).manifest
    except (ScenarioError, MachineError):
        return {}


def merge_replicas(
    run: Run, scenario: Scenario, first: int, command: str, facts: Mapping[str, object] = MappingProxyType({})
) -> None:
    """Add the finished run in the folder `EXTENSION` of *run*; one rename decides that the extended run counts.

    Args:
        run: the run.
        scenario: the scenario with all replicas.
        first: the first of the new replicas.
        command: the command that continues after a failure of the machine.
        facts: facts for the manifest, beside those of every extension.
    """
    part = run.folder / EXTENSION
    added = Run(part)
    merged = part / MERGED
    shutil.rmtree(merged, ignore_errors=True)
    (merged / VERSIONS).mkdir(parents=True)
    for table in sorted(part.glob("*.parquet")):
        append_replicas(run.folder / table.name, table, first, merged / table.name)
    for file in (part / VERSIONS).glob("*.safetensors"):
        shutil.copyfile(file, merged / VERSIONS / file.name)
    metrics = [*run.final_metrics_of(range(first)), *added.final_metrics_of(range(first, scenario.replicas))]
    summary = summarize_run(scenario, metrics)
    write_text(merged / "scenario.yaml", scenario.to_yaml())
    write_json(merged / "summary.json", summary)
    write_extended(merged, {**run.manifest, **facts}, added.manifest)
    trackers = open_trackers(scenario.track, run.folder, scenario.plain(), (), command)
    trackers.log_summary(summary)
    trackers.on_end("done")
    sync(*(path for path in merged.rglob("*") if path.is_file()))
    publish_folder(merged, run.folder / MERGED)
    _replace_files(run.folder, command)


def _replace_files(folder: Path, command: str) -> None:
    """Give the files of an extended run their places; from the rename on, readers take them from where they are.

    Raises:
        MachineError: a file cannot be replaced; the run reads as extended.
    """
    merged = folder / MERGED
    try:
        for name in FINAL_FILES:
            if not name.endswith((".json", ".parquet")):  # reports and plots of the old replicas
                (folder / name).unlink(missing_ok=True)
        for file in sorted(merged.rglob("*")):
            if file.is_file():
                place = folder / file.relative_to(merged)
                place.parent.mkdir(exist_ok=True)
                publish_file(file, place)
    except OSError as error:
        problem = f"cannot finish to extend {folder}: {error.strerror or error}; its new replicas are complete"
        raise MachineError(f"{problem}. Fix this, then repeat: {command}") from error
    shutil.rmtree(folder / EXTENSION, ignore_errors=True)
    shutil.rmtree(merged, ignore_errors=True)  # the last step, as it marks that there is something left to do
