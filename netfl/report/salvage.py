"""What can still be read of a run directory in which files are damaged or missing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pandas as pd
import pyarrow as pa
from pydantic import BaseModel, TypeAdapter, ValidationError

from netfl.errors import MachineError
from netfl.results.run_reader import Run
from netfl.results.tables import SCHEMAS

_NUMBERS = {
    **{name: [one.name for one in schema if not pa.types.is_dictionary(one.type)] for name, schema in SCHEMAS.items()},
    "users": ["replica", "user"],
    "nodes": ["replica", "x_m", "y_m"],
    "spent": ["replica", "user"],
    "regions": ["replica", "x", "y", "label"],
    "points": ["x", "y", "label"],
}
_WORDS = {
    **{name: [one.name for one in schema if pa.types.is_dictionary(one.type)] for name, schema in SCHEMAS.items()},
    "nodes": ["node", "role"],
    "regions": ["learner"],
}
"""The columns of each table that a report cannot do without: those of numbers, and of words."""

_ALWAYS = ("rounds", "deliveries", "events")
"""The tables that every run has written when it has ended."""


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


def salvage_run(run: Run) -> tuple[Run, tuple[str, ...]]:
    """*run* without the files that cannot be used, and in a sentence each what is wrong with them, and what is missing.

    A run that is whole comes back as it is, with its tables read.
    """
    broken = dict(_papers(run))
    crashed = "manifest.json" not in broken and run.status == "crashed"
    sound = Run(run.folder, run.without | set(broken), crashed) if broken or crashed else run
    broken_tables = dict(_tables(sound))
    if broken_tables:
        sound = Run(run.folder, sound.without | set(broken_tables), crashed)
    if crashed:
        _trim(sound)
    told = [
        f"{name} cannot be used, and what it would show is left out: {why}."
        for name, why in (broken | broken_tables).items()
    ]
    absent = [name for name in _missing(sound) if name not in sound.without]
    told += [f"There is no {name}, which such a run writes: what it would show is left out." for name in absent]
    return sound, tuple(told)


def _trim(run: Run) -> None:
    """Cut the tables of a run that crashed at its last whole round: they were not written at the same instant."""
    rounds, deliveries = run.rounds, run.deliveries
    by = ["replica", "round"]
    counts = deliveries.groupby(by).size().rename("written").reset_index()
    written = rounds.merge(counts, on=by, how="left")["written"].fillna(0)
    torn = rounds.loc[written.to_numpy() != rounds["delivered"].to_numpy(), "round"]
    last = int(rounds.groupby("replica")["round"].max().min()) if len(rounds) else 0
    last = min([last, *(torn - 1)])
    kept = rounds[rounds["round"] <= last]
    end_s = run.events["replica"].map(kept.groupby("replica")["closed_s"].max())
    found = {
        "rounds": kept,
        "deliveries": deliveries[deliveries["round"] <= last],
        "metrics": run.metrics[run.metrics["round"] <= last],
        "events": run.events[run.events["time_s"] <= end_s],
    }
    vars(run).update({name: table.reset_index(drop=True) for name, table in found.items()})


def _papers(run: Run) -> Iterator[tuple[str, str]]:
    """Each of the manifest, the summary and the scenario that cannot be used, and why."""
    papers: dict[str, tuple[Callable[[], dict[str, Any]], TypeAdapter[Any]]] = {
        "manifest.json": (lambda: run.manifest, TypeAdapter(_Manifest)),
        "summary.json": (lambda: run.summary, TypeAdapter(dict[str, float | None])),
        "scenario.yaml": (lambda: run.scenario, TypeAdapter(_Scenario)),
    }
    for name, (read, form) in papers.items():
        try:
            form.validate_python(read())
        except MachineError as error:
            yield name, _cause(error)
        except ValidationError as error:
            first = error.errors()[0]
            yield name, f"{'.'.join(map(str, first['loc']))}: {first['msg']}".removeprefix(": ")


def _tables(run: Run) -> Iterator[tuple[str, str]]:
    """The file of each table that cannot be used, and why."""
    for name, numbers in _NUMBERS.items():
        try:
            table: pd.DataFrame = getattr(run, name)
        except MachineError as error:
            yield run.file_of(name).name, _cause(error)
            continue
        except KeyError as error:
            yield run.file_of(name).name, f"its column {error.args[0]} is missing"
            continue
        if not len(table):
            continue
        lacking = [one for one in (*numbers, *_WORDS.get(name, ())) if one not in table]
        strange = [one for one in numbers if one in table and not pd.api.types.is_numeric_dtype(table[one])]
        if lacking or strange:
            told = [*(f"{one} is missing" for one in lacking), *(f"{one} holds no numbers" for one in strange)]
            yield run.file_of(name).name, "its column " + ", ".join(told)


def _missing(run: Run) -> Iterator[str]:
    """The files that a run which has ended should have, and this one has not."""
    if run.status not in {"done", "interrupted"}:
        return
    learns = bool(run.learners) and run.manifest.get("learning", True)
    for name in (*_ALWAYS, *(["metrics"] if learns else [])):
        if not (run.folder / f"{name}.parquet").exists():
            yield f"{name}.parquet"
    if not (run.folder / "scenario.yaml").exists():
        yield "scenario.yaml"


def _cause(error: MachineError) -> str:
    """Why a file cannot be read, in one line."""
    lines = str(error.__cause__ or error).strip().splitlines() or ["it is damaged"]
    return lines[0].rstrip(".")
