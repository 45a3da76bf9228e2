"""Participation from files: a run directory, or any table of deliveries."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from netfl.access.replay import find_recording
from netfl.core.remedies import argument, given
from netfl.diagnosis.participation import MAX_BYTES, TIME_COLUMNS, Participation, from_table
from netfl.diagnosis.recordings import participation_of_recording
from netfl.errors import Fault, ScenarioError
from netfl.files import is_present, unreadable_file
from netfl.files.cells import parse_identifiers
from netfl.files.schema import COUNT, NAME, TIME, FileColumn, FileSchema
from netfl.files.tables import read_csv, read_table
from netfl.results.formatting import format_count
from netfl.results.run_reader import Run, open_run
from netfl.scenario.path_errors import find_place, wrong_path
from netfl.types import Ints

SCHEMA = FileSchema(
    "classification (`ram`)",
    FileColumn("round", COUNT),
    FileColumn("user", NAME),
    FileColumn("replica", COUNT, is_needed=False),
    *(FileColumn(name, TIME, is_needed=False) for name in TIME_COLUMNS),
)
"""Declared columns of a table of deliveries."""


def read_participation(
    path: Path, *, replica: int | None = None, users: int | None = None, rounds: int | None = None
) -> tuple[Participation, Run | None]:
    """Read participation, and the run it belongs to, if any.

    Args:
        path: a run directory, a recording or the name of a built-in one, or a CSV or Parquet file with the columns
            ``round`` and ``user``.
        replica: the replica to read; by default the first.
        users: the number of users; for tables only.
        rounds: the number of rounds; for tables, and the first ones of a recording.

    Raises:
        ScenarioError: the input cannot be read, or cannot be diagnosed.
        MachineError: a table of the run is missing or damaged.
    """
    recording = find_recording(path)
    if recording is not None:
        return participation_of_recording(recording, replica=replica, users=users, rounds=rounds), None
    kind_of_path = find_place(path)
    is_other_table = kind_of_path == "file of a run" and path.stem != "deliveries"
    if kind_of_path in {"missing", "example", "sweep", "scenario", "folder"} or is_other_table:
        raise ScenarioError([wrong_path(path, "table")])

    # a table
    if not path.is_dir():
        table = _read_table(path)
        try:
            return participation_of_table(table, replica=replica, users=users, rounds=rounds), None
        except ScenarioError as error:  # an error without a column or an option concerns the file
            faults = [fault if fault.key else replace(fault, where=str(path)) for fault in error.faults]
            raise ScenarioError(faults) from error

    # a run
    for option, value in ((argument("users"), users), (argument("rounds"), rounds)):
        if value is not None:
            raise ScenarioError([Fault(option, "has no effect: a run stores its own value", value, "leave it out")])
    run = open_run(path)
    if run.status in {"done", "interrupted"}:  # another may not have written its tables yet
        for name in ("rounds", "deliveries"):
            if not is_present(run.file_of(name)):
                raise unreadable_file(run.file_of(name), FileNotFoundError())
    return participation_of_run(run, replica), run


def participation_of_run(run: Run, replica: int | None = None) -> Participation:
    """Return participation in one replica of a run, finished or not; by default in the first replica."""
    if run.duration_s is not None:
        problem = "this run is one of traffic: it has no updates and no deliveries"
        raise ScenarioError([Fault("", problem, None, "diagnose a run that has rounds")])
    table = run.rounds
    if table.empty:
        problem = f"{run.folder} has no readable rounds ({run.status})"
        raise ScenarioError([Fault("", problem, None, "wait until the run ends or is interrupted")])
    number, notes = _choose_replica(table["replica"], replica)
    rounds = table[table["replica"] == number].sort_values("round")
    deliveries = run.deliveries[run.deliveries["replica"] == number]
    if deliveries.empty:
        raise ScenarioError([Fault("", "no round has a delivery", None, "diagnose a run with deliveries")])
    users = _count_users(run)
    analysed, names = _limit_users(deliveries[["round", "user"]], users, len(rounds))
    closed_s = rounds["closed_s"].to_numpy(float)
    participation = from_table(analysed, users=len(names) or users, rounds=len(rounds), closed_s=closed_s)

    # the notes, the most important first
    if names:
        others = len(deliveries) - len(analysed)
        notes.insert(
            0,
            f"Of {format_count(users)} users only the {format_count(len(names))} with the most deliveries are "
            f"analysed: all of them in {format_count(len(rounds))} rounds take too much memory; the others have "
            f"{format_count(others)} deliveries in total.",
        )
    if run.status not in {"done", "unknown"}:
        planned = run.scenario.get("rounds") or run.manifest.get("rounds")
        length = f"{len(rounds)} of {planned} rounds" if planned else f"{len(rounds)} rounds so far"
        notes.insert(0, f"The run is not finished ({run.status}): it has {length}.")
    return replace(
        participation,
        names=names or participation.names,
        notes=(*notes, *participation.notes),
    )


def delivers_nothing(path: Path) -> bool:
    """Return whether *path* is the folder of a finished run of rounds in which no update was delivered."""
    if not (is_present(path) and path.is_dir()):
        return False
    run = open_run(path)
    return run.status == "done" and not run.rounds.empty and run.deliveries.empty


def pooled_deliveries(run: Run, participation: Participation) -> Ints | None:
    """Return the rounds in which each user of *participation* is delivered, in all replicas of *run*, ``[users]``.

    ``None`` for a run with one replica, and where only some users are analysed.
    """
    if run.rounds["replica"].nunique() < 2 or participation.users != _count_users(run):
        return None
    counted = run.deliveries[["replica", "round", "user"]].drop_duplicates()
    return np.bincount(counted["user"], minlength=participation.users)


def _count_users(run: Run) -> int:
    """Return the number of users of the scenario; if that is lost, as far as the tables tell."""
    stated = run.scenario.get("users")
    if stated:
        return int(stated)
    table = run.users if len(run.users) else run.deliveries
    return int(table["user"].max() + 1)


def participation_of_table(
    table: pd.DataFrame, *, replica: int | None = None, users: int | None = None, rounds: int | None = None
) -> Participation:
    """Return participation in one replica of a table of deliveries; by default in the first replica."""
    notes: list[str] = []
    if "replica" in table and len(table):
        number, notes = _choose_replica(table["replica"], replica)
        table = table[table["replica"] == number]
    elif replica is not None:
        raise ScenarioError([Fault(argument("replica"), "the table has no column replica", replica, "leave it out")])
    participation = from_table(table.reset_index(drop=True), users=users, rounds=rounds)
    return replace(participation, notes=(*notes, *participation.notes))


def _limit_users(deliveries: pd.DataFrame, users: int, rounds: int) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Keep only the users with the most deliveries if all need too much memory; return deliveries and their names."""
    if users * rounds <= MAX_BYTES:
        return deliveries, ()
    limit = max(2, MAX_BYTES // 10 // rounds)
    counts = np.bincount(deliveries["user"], minlength=users)
    by_deliveries = np.argsort(-counts, kind="stable")
    kept_users = np.sort(by_deliveries[:limit])
    kept = deliveries[deliveries["user"].isin(kept_users)]
    renumbered = kept.assign(user=np.searchsorted(kept_users, kept["user"]))
    return renumbered, tuple(map(str, kept_users.tolist()))


def _choose_replica(column: pd.Series[int], wanted: int | None) -> tuple[int, list[str]]:
    """Return the number of the replica, and a note if there are others."""
    if not pd.api.types.is_numeric_dtype(column) or column.isna().any():
        raise ScenarioError([Fault("replica", "not a number in each row", None, "number the replicas 0, 1, 2, …")])
    numbers = sorted(column.unique().tolist())
    if wanted is not None:
        if wanted not in numbers:
            remedy = f"there are: {', '.join(map(str, numbers))}"
            raise ScenarioError([Fault(argument("replica"), "no such replica", wanted, remedy)])
        return wanted, []
    first = numbers[0]
    if len(numbers) == 1:
        return first, []
    note = f"This is replica {first} of {len(numbers)} replicas; {given('replica', 'N')} selects another."
    return first, [note]


def _read_table(path: Path) -> pd.DataFrame:
    """Read the columns that a diagnosis uses: from Parquet by its suffix, else from text.

    Cells of text are separated by commas, semicolons or tabs.
    """
    if path.suffix.lower() in {".parquet", ".pq"}:
        table = read_table(path)
    else:
        table = read_csv(path, separators=",;\t", is_limited=False)
    table.check_headings(SCHEMA)
    columns: dict[str, NDArray[Any]] = {
        "round": table.integers(SCHEMA["round"]),
        "user": table.names(SCHEMA["user"]),
    }
    if "replica" in table:
        columns["replica"] = table.integers(SCHEMA["replica"])
    columns |= {name: table.numbers(SCHEMA[name]) for name in TIME_COLUMNS if name in table}
    table.check()
    try:
        columns["user"] = parse_identifiers(columns["user"])
    except ValueError as error:
        raise ScenarioError([Fault("user", str(error), None, "name users by whole numbers or text")]) from error
    return pd.DataFrame(columns)
