"""Extension of a finished run by more replicas.

The new replicas run in a folder of the run directory, and are then appended to its tables.  Until then the run reads as
before; after a stop, a crash or a full disk the same call continues.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from netfl.errors import Fault, MachineError, ScenarioError
from netfl.network.files import open_parquet
from netfl.results.atomic_write import publish_file
from netfl.results.locking import locked
from netfl.results.manifest import warn_of_versions, write_extended
from netfl.results.model_snapshots import VERSIONS
from netfl.results.run_reader import EXTENSION, Run, open_run
from netfl.results.run_writer import append_replicas, summarize_run, write_json, write_text
from netfl.results.tracking.tracker import log_summary_again
from netfl.scenario import yaml_document as documents
from netfl.scenario.scenario import Scenario, checked
from netfl.simulation.learners import open_learner
from netfl.simulation.run import FINAL_FILES, perform_run
from netfl.simulation.setup import prepare_run
from netfl.types import RunObserver

_NEEDED = ("rounds", "deliveries", "events", "figures")


def extend(folder: str | Path, replicas: int, *, device: str = "auto", watch: RunObserver | None = None) -> Run:
    """Add replicas to the finished run in *folder*, without repeating those that it has.

    The result equals a run with that many replicas from the start: the network's tables row for row, in another order;
    learning within a float tolerance, as its batches differ, and so the network where the loop is closed.

    Args:
        folder: a run directory.
        replicas: the number of replicas in all.
        device: ``auto``, ``cpu`` or ``cuda``.
        watch: an observer; if it stops the extension, the run stays as it was, and the same call continues.

    Raises:
        ScenarioError: there is no such run, it is not finished, has as many replicas, or replays fewer.
        NetflError: as `netfl.run`.
    """
    finished = open_run(folder)
    with locked(finished.folder):
        first = _first_new_replica(finished, replicas)
        document = documents.read(finished.folder / "scenario.yaml")
        document.put("replicas", replicas, f"--replicas {replicas}")
        scenario, part = checked(document), finished.folder / EXTENSION
        try:
            if not _has_begun(part, scenario, first):
                shutil.rmtree(part, ignore_errors=True)
                part.mkdir(exist_ok=True)
            if _manifest(part).get("status") != "done":
                warn_of_versions(finished.folder, finished.manifest)
                _run_new_replicas(scenario, first, finished, device, watch or RunObserver())
            if _manifest(part).get("status") == "done":
                _merge(finished.folder, part, scenario, first)
        except ScenarioError:
            shutil.rmtree(part, ignore_errors=True)
            raise
        except OSError as error:
            problem = f"cannot go on extending {finished.folder}: {error.strerror or error}; it is as it was"
            raise MachineError(f"{problem}. When that is mended: {_command(finished.folder, replicas)}") from error
    return open_run(finished.folder)


def _first_new_replica(run: Run, replicas: int) -> int:
    """Return the first replica that *run* does not have, if it can be extended to *replicas*."""
    if run.status != "done":
        problem, remedy = f"the run in {run.folder} is not finished ({run.status})", f"netfl resume {run.folder}"
        raise ScenarioError([Fault("", problem, None, f"finish it first: {remedy}")])
    existing = int(run.manifest["replicas"])
    if replicas <= existing:
        problem, remedy = f"the run in {run.folder} has {existing} already", f"name more than {existing}"
        raise ScenarioError([Fault("--replicas", problem, replicas, f"{remedy}: it is how many in all")])
    missing = [name for name in _NEEDED if not (run.folder / f"{name}.parquet").exists()]
    if missing:
        problem = f"the run in {run.folder} has no table {missing[0]}"
        raise ScenarioError([Fault("", problem, None, "run it again, with all the replicas")])
    for table in sorted(run.folder.glob("*.parquet")):  # report a damaged table before the run, not after
        with open_parquet(table):
            pass
    return existing


def _has_begun(part: Path, scenario: Scenario, first: int) -> bool:
    """Return whether *part* holds the beginning of this extension."""
    path = part / "scenario.yaml"
    is_same = path.exists() and path.read_text(encoding="utf-8") == scenario.to_yaml()
    return is_same and _manifest(part).get("first") == first


def _manifest(part: Path) -> dict[str, object]:
    """Return the manifest of an extension; empty if it has not begun."""
    try:
        return open_run(part).manifest
    except (ScenarioError, MachineError):
        return {}


def _run_new_replicas(scenario: Scenario, first: int, run: Run, device: str, watch: RunObserver) -> None:
    part, learning = run.folder / EXTENSION, bool(run.manifest["learning"])
    replicas = range(first, scenario.replicas)
    setup = prepare_run(scenario, learning=learning, replicas=replicas, pulse=watch.on_progress)
    with open_learner(setup, device, learning=learning) as learner, locked(part):
        perform_run(setup, learner, part, watch, _command(run.folder, scenario.replicas))


def _merge(folder: Path, part: Path, scenario: Scenario, first: int) -> None:
    """Append the new replicas to the tables of the run; the manifest, written last, makes them count."""
    old, new = Run(folder), Run(part)
    figures = [*old.figures_of(range(first)), *new.figures_of(range(first, scenario.replicas))]
    for table in sorted(part.glob("*.parquet")):
        append_replicas(folder / table.name, table, first)
    for file in (part / VERSIONS).glob("*.safetensors"):
        publish_file(file, folder / VERSIONS / file.name)
    for name in FINAL_FILES:
        if not name.endswith((".json", ".parquet")):
            (folder / name).unlink(missing_ok=True)
    summary = summarize_run(scenario, figures)
    command = _command(folder, scenario.replicas)
    log_summary_again(scenario.track, folder, scenario.plain(), summary, command)
    write_text(folder / "scenario.yaml", scenario.to_yaml())
    write_json(folder / "summary.json", summary)
    write_extended(folder, new.manifest)
    shutil.rmtree(part, ignore_errors=True)


def _command(folder: Path, replicas: int) -> str:
    """Return the command that continues an extension."""
    return f"netfl extend {folder} --replicas {replicas}"
