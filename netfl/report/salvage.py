"""Reading of run directories with damaged or missing files."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd
import pyarrow as pa
from pydantic import BaseModel, TypeAdapter, ValidationError

from netfl.errors import MachineError
from netfl.results.run_reader import Run
from netfl.results.tables import SCHEMAS

_NUMBERS = {
    **{
        name: [field.name for field in schema if not pa.types.is_dictionary(field.type)]
        for name, schema in SCHEMAS.items()
    },
    "users": ["replica", "user"],
    "nodes": ["replica", "x_m", "y_m"],
    "spent": ["replica", "user"],
    "regions": ["replica", "x", "y", "label"],
    "points": ["x", "y", "label"],
}
_WORDS = {
    **{
        name: [field.name for field in schema if pa.types.is_dictionary(field.type)] for name, schema in SCHEMAS.items()
    },
    "nodes": ["node", "role"],
    "regions": ["learner"],
}
"""Columns of numbers and of words that a report needs, by table."""

_REQUIRED_TABLES = ("rounds", "deliveries", "events")
"""Tables that every ended run has."""


class _Divergence(BaseModel):
    learner: str
    replica: int
    user: int | None
    problem: str


class _Manifest(BaseModel):
    status: str
    replicas: int = 1
    diverged: list[_Divergence] = []
    warnings: list[str] = []


class _Choice(BaseModel):
    of: list[str]
    by: str
    per: str


class _Evaluate(BaseModel):
    rare_classes: list[int] | None = None
    choose: dict[str, _Choice] | None = None


class _Partition(BaseModel):
    classes: Any = None


class _Scenario(BaseModel):
    users: int | None = None
    rounds: int | None = None
    duration: float | None = None
    warmup: float | None = None
    learners: dict[Any, Any] | None = None
    evaluate: _Evaluate | None = None
    partition: _Partition | None = None


_DOCUMENTS: dict[str, tuple[str, TypeAdapter[Any]]] = {
    "manifest.json": ("manifest", TypeAdapter(_Manifest)),
    "summary.json": ("summary", TypeAdapter(dict[str, float | None])),
    "scenario.yaml": ("scenario", TypeAdapter(_Scenario)),
}
"""Attribute of the run and form of each document."""


def salvage_run(run: Run) -> tuple[Run, tuple[str, ...]]:
    """Return *run* without unusable files, and a sentence on each unusable or missing one.

    An intact run is returned as it is, with its tables read.
    """
    damaged = dict(_damaged_documents(run))
    crashed = "manifest.json" not in damaged and run.status == "crashed"
    usable = Run(run.folder, run.without | set(damaged), crashed) if damaged or crashed else run
    damaged_tables = dict(_damaged_tables(usable))
    if damaged_tables:
        usable = Run(run.folder, usable.without | set(damaged_tables), crashed)
    if crashed:
        _cut_after_last_complete_round(usable)
    problems = [
        f"{name} cannot be used, and what it would show is left out: {problem}."
        for name, problem in (damaged | damaged_tables).items()
    ]
    missing = [name for name in _missing_files(usable) if name not in usable.without]
    problems += [f"There is no {name}, which such a run writes: what it would show is left out." for name in missing]
    return usable, tuple(problems)


def _cut_after_last_complete_round(run: Run) -> None:
    """Cut the tables of a crashed run at the last round that all of them have, as they were not written together."""
    rounds, deliveries = run.rounds, run.deliveries
    by = ["replica", "round"]
    counts = deliveries.groupby(by).size().rename("written").reset_index()
    written = rounds.merge(counts, on=by, how="left")["written"].fillna(0)
    incomplete = rounds.loc[written.to_numpy() != rounds["delivered"].to_numpy(), "round"]
    last = int(rounds.groupby("replica")["round"].max().min()) if len(rounds) else 0
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


def _damaged_documents(run: Run) -> Iterator[tuple[str, str]]:
    for name, (attribute, form) in _DOCUMENTS.items():
        try:
            form.validate_python(getattr(run, attribute))
        except MachineError as error:
            yield name, _cause(error)
        except ValidationError as error:
            first = error.errors()[0]
            yield name, f"{'.'.join(map(str, first['loc']))}: {first['msg']}".removeprefix(": ")


def _damaged_tables(run: Run) -> Iterator[tuple[str, str]]:
    for name, numbers in _NUMBERS.items():
        file = run.file_of(name).name
        try:
            table: pd.DataFrame = getattr(run, name)
        except MachineError as error:
            yield file, _cause(error)
            continue
        except KeyError as error:
            yield file, f"its column {error.args[0]} is missing"
            continue
        if not len(table):
            continue
        columns = [*numbers, *_WORDS.get(name, ())]
        problems = [f"{column} is missing" for column in columns if column not in table]
        present = [column for column in numbers if column in table]
        problems += [f"{column} holds no numbers" for column in present if not _is_numeric(table[column])]
        if problems:
            yield file, "its column " + ", ".join(problems)


def _is_numeric(column: pd.Series[Any]) -> bool:
    return pd.api.types.is_numeric_dtype(column)


def _missing_files(run: Run) -> Iterator[str]:
    if run.status not in {"done", "interrupted"}:
        return
    learns = bool(run.learners) and run.manifest.get("learning", True)
    files = [f"{name}.parquet" for name in (*_REQUIRED_TABLES, *(["metrics"] if learns else []))]
    yield from (name for name in (*files, "scenario.yaml") if not (run.folder / name).exists())


def _cause(error: MachineError) -> str:
    """Return the reason of an unreadable file in one line."""
    lines = str(error.__cause__ or error).strip().splitlines() or ["it is damaged"]
    return lines[0].rstrip(".")
