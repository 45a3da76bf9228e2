"""Replicas that are added to a finished run later: only they are run, and then put behind those that are there.

They are run in a folder of the run directory.  Until all of them are in, the run reads as it was; after a stop, a
crash or a full disk the same call goes on where that one ended.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from netfl.errors import Fault, MachineError, ScenarioError
from netfl.network.files import open_parquet
from netfl.results.atomic_write import publish_file
from netfl.results.locking import locked
from netfl.results.manifest import note_versions, summarise, write_extended
from netfl.results.model_snapshots import VERSIONS
from netfl.results.run_reader import EXTENSION, Run, open_run
from netfl.results.run_writer import append_replicas, write_json, write_text
from netfl.results.tracking.tracker import log_summary_again
from netfl.scenario import yaml_document as documents
from netfl.scenario.scenario import Scenario, checked
from netfl.simulation.learners import open_learner
from netfl.simulation.observers import NullObserver, RunObserver
from netfl.simulation.run import AT_THE_END, perform_run
from netfl.simulation.setup import prepare_run

_NEEDED = ("rounds", "deliveries", "events", "figures")


def extend(folder: str | Path, replicas: int, *, device: str = "auto", watch: RunObserver | None = None) -> Run:
    """Give the finished run in *folder* more replicas, without doing those again that it has.

    It becomes what it would be, had it been run with so many from the start: the network's tables row for row, if in
    another order; learning within a float tolerance, as its batches are others, and with it the network where who is
    heard depends on what is learned.

    Args:
        folder: a run directory.
        replicas: how many it shall have in all.
        device: ``auto``, ``cpu`` or ``cuda``.
        watch: who looks on; if it stops the extension, the run is as it was, and the same call goes on.

    Raises:
        ScenarioError: there is no such run, it is not finished, has as many replicas, or replays fewer.
        NetflError: as `netfl.run`.
    """
    found = open_run(folder)
    with locked(found.folder):
        first = _first(found, replicas)
        document = documents.read(found.folder / "scenario.yaml")
        document.put("replicas", replicas, f"--replicas {replicas}")
        scenario, part = checked(document), found.folder / EXTENSION
        try:
            if not _begun(part, scenario, first):
                shutil.rmtree(part, ignore_errors=True)
                part.mkdir(exist_ok=True)
            if _manifest(part).get("status") != "done":
                note_versions(found.folder, found.manifest)
                _play(scenario, first, found, device, watch or NullObserver())
            if _manifest(part).get("status") == "done":
                _merge(found.folder, part, scenario, first)
        except ScenarioError:
            shutil.rmtree(part, ignore_errors=True)
            raise
        except OSError as error:
            problem = f"cannot go on extending {found.folder}: {error.strerror or error}; it is as it was"
            raise MachineError(f"{problem}. When that is mended: {_again(found.folder, replicas)}") from error
    return open_run(found.folder)


def _first(run: Run, replicas: int) -> int:
    """The first replica that *run* does not have, if it can be extended to *replicas*."""
    if run.status != "done":
        problem, remedy = f"the run in {run.folder} is not finished ({run.status})", f"netfl resume {run.folder}"
        raise ScenarioError([Fault("", problem, None, f"finish it first: {remedy}")])
    there = int(run.manifest["replicas"])
    if replicas <= there:
        problem = f"the run in {run.folder} has {there} already"
        raise ScenarioError([Fault("--replicas", problem, replicas, f"name more than {there}: it is how many in all")])
    missing = [name for name in _NEEDED if not (run.folder / f"{name}.parquet").exists()]
    if missing:
        problem = f"the run in {run.folder} has no table {missing[0]}"
        raise ScenarioError([Fault("", problem, None, "run it again, with all the replicas")])
    for table in sorted(run.folder.glob("*.parquet")):  # a damaged one is told of before all is run, not after
        with open_parquet(table):
            pass
    return there


def _begun(part: Path, scenario: Scenario, first: int) -> bool:
    """Whether *part* holds this very extension, begun before."""
    path = part / "scenario.yaml"
    same = path.exists() and path.read_text(encoding="utf-8") == scenario.to_yaml()
    return same and _manifest(part).get("first") == first


def _manifest(part: Path) -> dict[str, object]:
    """What is known of an extension; nothing where it has not begun."""
    try:
        return open_run(part).manifest
    except (ScenarioError, MachineError):
        return {}


def _play(scenario: Scenario, first: int, run: Run, device: str, watch: RunObserver) -> None:
    """Run the new replicas into the extension's folder."""
    learning = bool(run.manifest["learning"])
    staged = prepare_run(scenario, learning=learning, first=first, pulse=watch.within)
    with open_learner(staged, device, learning=learning) as learner, locked(run.folder / EXTENSION):
        perform_run(staged, learner, run.folder / EXTENSION, watch, _again(run.folder, scenario.replicas))


def _merge(folder: Path, part: Path, scenario: Scenario, first: int) -> None:
    """Put the new replicas behind the old ones; the manifest comes last, and makes them count."""
    old, new = Run(folder), Run(part)
    figures = [*old.figures_of(range(first)), *new.figures_of(range(first, scenario.replicas))]
    for table in sorted(part.glob("*.parquet")):
        append_replicas(folder / table.name, table, first)
    for file in (part / VERSIONS).glob("*.safetensors"):
        publish_file(file, folder / VERSIONS / file.name)
    for name in AT_THE_END:
        if not name.endswith((".json", ".parquet")):
            (folder / name).unlink(missing_ok=True)
    summary = summarise(scenario, figures)
    again = _again(folder, scenario.replicas)
    log_summary_again(scenario.track, folder, scenario.plain(), summary, again)
    write_text(folder / "scenario.yaml", scenario.to_yaml())
    write_json(folder / "summary.json", summary)
    write_extended(folder, new.manifest)
    shutil.rmtree(part, ignore_errors=True)


def _again(folder: Path, replicas: int) -> str:
    """The command that goes on with an extension."""
    return f"netfl extend {folder} --replicas {replicas}"
