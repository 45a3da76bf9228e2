"""Reading of run directories with damaged or missing files."""

from __future__ import annotations

from collections.abc import Iterable

from netfl.errors import MachineError
from netfl.files import is_present
from netfl.results.run_reader import Run
from netfl.results.tables import OF_SOME_RUNS, SCHEMAS

_DOCUMENTS = {"manifest": "manifest.json", "summary": "summary.json", "scenario": "scenario.yaml"}
"""File of each document, by the attribute of the run."""
_TABLES = (
    *(name for name in SCHEMAS if name not in OF_SOME_RUNS),
    "users",
    "nodes",
    "energy",
    "regions",
    "points",
)
_EFFECTS = {
    "manifest.json": "the status, the seed and the warnings of the run are unknown",
    "summary.json": "the metrics of the access are missing",
    "scenario.yaml": "the settings of the run are unknown",
}
"""Consequence of each lost document; without a table its plots are missing."""


def salvage_run(run: Run) -> tuple[Run, tuple[str, ...]]:
    """Return *run* without its lost files, and a sentence on each: one that is unreadable or missing.

    An intact run is returned as it is, with its tables read.
    """
    problems = _find_problems(run, _DOCUMENTS)
    crashed = "manifest.json" not in problems and run.status == "crashed"
    usable = run
    if problems or crashed:
        usable = Run(run.folder, frozenset(problems), crashed)
    missing = [name for name in _expected_files(usable) if not is_present(run.folder / name)]
    table_problems = _find_problems(usable, _TABLES)
    problems |= table_problems
    if table_problems or missing:
        usable = Run(run.folder, frozenset([*problems, *missing]), crashed)
    if crashed:
        _cut_after_last_complete_round(usable)
    damage = [f"{name} cannot be read, so {_effect(name)}: {problem}." for name, problem in problems.items()]
    damage += [f"{name} is missing from the run, so {_effect(name)}." for name in missing]
    return usable, tuple(damage)


def _expected_files(run: Run) -> list[str]:
    """Return the files that a run has at its end; none of one that has not ended."""
    if run.status not in {"done", "interrupted", "unknown"}:
        return []
    tables = ["rounds", "deliveries", "events", "users"]
    if run.status != "unknown" and run.learners and run.manifest.get("learning", True):
        tables.append("metrics")
    return [*(f"{table}.parquet" for table in tables), "scenario.yaml"]


def _effect(name: str) -> str:
    return _EFFECTS.get(name, "its plots and tables are missing")


def _find_problems(run: Run, names: Iterable[str]) -> dict[str, str]:
    """Read documents or tables; return the reason for each unreadable file in one line."""
    problems = {}
    for name in names:
        try:
            getattr(run, name)
        except MachineError as error:
            lines = str(error.__cause__ or error).strip().splitlines() or ["it is damaged"]
            problems[_DOCUMENTS.get(name) or run.file_of(name).name] = lines[0].rstrip(".")
    return problems


def _cut_after_last_complete_round(run: Run) -> None:
    """Cut the tables of a crashed run at the last round that all of them have, as they were not written together."""
    rounds = run.rounds
    deliveries = run.deliveries
    by = ["replica", "round"]
    counts = deliveries.groupby(by).size().rename("written").reset_index()
    written = rounds.merge(counts, on=by, how="left")["written"].fillna(0)
    incomplete = rounds.loc[written.to_numpy() != rounds["delivered"].to_numpy(), "round"]
    last = 0
    if len(rounds):
        last = int(rounds.groupby("replica")["round"].max().min())  # that all replicas have
    last = min([last, *(incomplete - 1)])
    kept = rounds[rounds["round"] <= last]
    end_s = run.events["replica"].map(kept.groupby("replica")["closed_s"].max())
    tables = {
        "rounds": kept,
        "deliveries": deliveries[deliveries["round"] <= last],
        "metrics": run.metrics[run.metrics["round"] <= last],
        "events": run.events[run.events["time_s"] <= end_s],
    }
    vars(run).update({name: table.reset_index(drop=True) for name, table in tables.items()})
