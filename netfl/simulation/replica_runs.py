"""Runs whose replicas have settings of their own: each replica runs in a folder of its own, and all are joined.

The lanes of a batch are learners times replicas, so that replicas with other settings of the same learner do not share
one.  Their work may differ as well, and with it the trace of their network.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from netfl.files.parquet import open_parquet
from netfl.results import digests
from netfl.results.atomic_write import sync, write_json
from netfl.results.chosen_settings import join_chosen
from netfl.results.model_snapshots import VERSIONS
from netfl.results.run_reader import Run, open_run
from netfl.results.run_schema import read_rows
from netfl.results.run_writer import summarize_run
from netfl.results.tables import write_parquet
from netfl.scenario.scenario import Scenario
from netfl.simulation.tuning import tuning_facts


def replica_folder(folder: Path, replica: int) -> Path:
    """Return the folder in which one replica of the run in *folder* runs, until all are joined."""
    return folder / "tuning" / f"replica-{replica}" / "run"


def join_replicas(scenario: Scenario, folder: Path, parts: Sequence[Path]) -> Run:
    """Write the run in *folder* from the finished runs of its replicas, which are removed; its manifest comes last.

    Args:
        scenario: the scenario as written, which *folder* has.
        folder: the run directory.
        parts: the folders of the replicas, in their order.
    """
    runs = [open_run(part) for part in parts]
    for name in sorted({name for run in runs for name in run.tables}):
        paths = [run.path_of(f"{name}.parquet") for run in runs if name in run.tables]
        _join_tables(paths, folder / f"{name}.parquet")
    for part in parts:
        for file in (part / VERSIONS).glob("*.safetensors"):
            (folder / VERSIONS).mkdir(exist_ok=True)
            shutil.copyfile(file, folder / VERSIONS / file.name)
    metrics = [values for run in runs for values in run.final_metrics_of([run.manifest.get("first", 0)])]
    write_json(folder / "summary.json", summarize_run(scenario, metrics))
    sync(*(path for path in folder.iterdir() if path.is_file()))
    write_json(folder / "manifest.json", digests.signed(_join_manifests(scenario, folder, runs)))
    for part in parts:
        shutil.rmtree(part, ignore_errors=True)
    return open_run(folder)


def _join_tables(paths: Sequence[Path], out: Path) -> None:
    """Write the rows of a table of several replicas one after the other; one without replicas is that of the first."""
    with open_parquet(paths[0]) as file:
        schema = file.schema_arrow
    if "replica" not in schema.names:
        paths = paths[:1]

    def rows() -> Iterator[pa.Table]:
        for path in paths:
            for batch in read_rows(path):
                yield pa.Table.from_batches([batch]).select(schema.names).cast(schema)

    write_parquet(out, schema, rows())


def _join_manifests(scenario: Scenario, folder: Path, runs: Sequence[Run]) -> dict[str, Any]:
    """Return the manifest of the run in *folder* from those of the runs of its replicas."""
    manifests = [run.manifest for run in runs]
    timings = [manifest["timings"] for manifest in manifests]
    joined_timings = {
        "total_s": round(sum(each["total_s"] for each in timings), 3),
        "rounds_kept": 0,
        "rounds_per_s": timings[-1]["rounds_per_s"],
        "tuning_s": round(sum(each.get("tuning_s", 0.0) for each in timings), 3),
    }
    return {
        **manifests[0],
        "replicas": scenario.replicas,
        "diverged": [lane for manifest in manifests for lane in manifest["diverged"]],
        "timings": joined_timings,
        **join_facts(scenario, manifests),
        "digests": digests.run_digests(folder),
        "files": digests.file_digests(folder),
    }


def join_facts(scenario: Scenario, manifests: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the facts on the learners of replicas that were tuned by themselves: lists, with an entry for each.

    Args:
        scenario: the scenario as written.
        manifests: of one replica each, or of several that are joined.
    """
    tunings = [manifest["tuning"] for manifest in manifests]
    steps = [manifest["steps"] for manifest in manifests]
    chosen = join_chosen(tunings)
    lists = {key: _flat([each[key] for each in tunings]) for key in ("passes", "candidates", "problems")}
    return {
        "steps": {name: _flat([each[name] for each in steps]) for name in steps[0]},
        "tuning": {**tunings[0], **lists, **tuning_facts(scenario, lists, tunings[0]["evaluations"]), "chosen": chosen},
    }


def _flat(values: Sequence[Any]) -> list[Any]:
    """Return entries and lists of entries as one list.

    >>> _flat([1, [2, 3]])
    [1, 2, 3]
    """
    return [entry for value in values for entry in (value if isinstance(value, list) else [value])]
