"""Participation from files: a run directory, or a table of deliveries that something else wrote."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from netfl.diagnosis.participation import ROOM, Participation, from_table
from netfl.errors import Fault, MachineError, ScenarioError
from netfl.network.files import absolute_path, read_frame
from netfl.results.run_reader import Run, open_run


def read_participation(
    path: Path, *, replica: int | None = None, users: int | None = None, rounds: int | None = None
) -> tuple[Participation, Run | None]:
    """Who was heard, and the run that it is of, if it is of one.

    Args:
        path: a run directory, or a CSV or Parquet file with the columns ``round`` and ``user``.
        replica: which replica; by default the first.
        users: how many users there are; of a table only.
        rounds: how many rounds there were; of a table only.

    Raises:
        ScenarioError: it cannot be read, or cannot be diagnosed.
    """
    if not path.exists():
        raise ScenarioError([Fault("", f"there is no {path}", None, "name a run directory or a table of deliveries")])
    if path.is_file():
        table = _table(path)
        with _of_file(path):
            return participation_of_table(table, replica=replica, users=users, rounds=rounds), None
    for name, value in (("--users", users), ("--rounds", rounds)):
        if value is not None:
            raise ScenarioError([Fault(name, "has no effect: a run knows its own", value, "leave it out")])
    run = open_run(path)
    return participation_of_run(run, replica), run


@contextmanager
def _of_file(path: Path) -> Iterator[None]:
    """Say of faults that are of no column or option that they are of the file."""
    try:
        yield
    except ScenarioError as error:
        raise ScenarioError([one if one.key else replace(one, where=str(path)) for one in error.faults]) from error


def participation_of_run(run: Run, replica: int | None = None) -> Participation:
    """Who was heard in one replica of a run, finished or not; by default in its first."""
    if run.scenario.get("duration") is not None:
        problem = "this run watches traffic for a time: it has no updates, and nobody is heard"
        raise ScenarioError([Fault("", problem, None, "diagnose a run that has rounds")])
    table = run.rounds
    if table.empty:
        problem = f"{run.folder} has no rounds that can be read ({run.status})"
        raise ScenarioError([Fault("", problem, None, "tables can be read when a run has ended or was interrupted")])
    chosen, notes = _replica(table["replica"], replica)
    rounds = table[table["replica"] == chosen].sort_values("round")
    heard = run.deliveries[run.deliveries["replica"] == chosen]
    if heard.empty:
        raise ScenarioError([Fault("", "nobody was heard in any round", None, "there is nothing to diagnose")])
    if not np.array_equal(rounds["round"], np.arange(1, len(rounds) + 1)):
        raise ScenarioError(
            [Fault("", "the rounds of the run are not numbered 1, 2, 3, …", None, "mend the recording")]
        )
    known = run.users if len(run.users) else heard
    users = run.scenario.get("users") or int(known["user"].max()) + 1
    closed_s = rounds["closed_s"].to_numpy(float)
    heard, users, names, left = _few(heard[["round", "user"]], users, len(rounds))
    notes = [*left, *notes]
    seen = from_table(heard, users=users, rounds=len(rounds), closed_s=closed_s)
    if run.status != "done":
        asked = run.scenario.get("rounds")
        notes = [f"The run is not finished ({run.status}): it holds {len(rounds)} of {asked} rounds.", *notes]
    return Participation(seen.heard, names or seen.names, seen.closed_s, tuple(notes))


def _few(heard: pd.DataFrame, users: int, rounds: int) -> tuple[pd.DataFrame, int, tuple[str, ...], list[str]]:
    """Where all *users* would not fit: deliveries, number and names of those most often heard, and a note on that."""
    if users * rounds <= ROOM:
        return heard, users, (), []
    often = np.bincount(heard["user"], minlength=users)
    kept = np.sort(np.argsort(-often, kind="stable")[: max(2, ROOM // 10 // rounds)])
    own = heard[heard["user"].isin(kept)]
    own = own.assign(user=np.searchsorted(kept, own["user"]))
    note = (
        f"Of {users:,} users only the {len(kept):,} heard most often are looked at: all of them in {rounds:,} "
        f"rounds take too much room; the others were heard {int(often.sum() - often[kept].sum()):,} times in all."
    )
    return own, len(kept), tuple(map(str, kept.tolist())), [note]


def participation_of_table(
    table: pd.DataFrame, *, replica: int | None = None, users: int | None = None, rounds: int | None = None
) -> Participation:
    """Who was heard in one replica of a table of deliveries; by default in its first."""
    notes: list[str] = []
    if "replica" in table and len(table):
        chosen, notes = _replica(table["replica"], replica)
        table = table[table["replica"] == chosen]
    elif replica is not None:
        raise ScenarioError([Fault("--replica", "the table has no column replica", replica, "leave it out")])
    seen = from_table(table.reset_index(drop=True), users=users, rounds=rounds)
    return Participation(seen.heard, seen.names, seen.closed_s, (*notes, *seen.notes))


def _replica(column: pd.Series[int], wanted: int | None) -> tuple[int, list[str]]:
    """The replica to look at, and what to say of the others."""
    if not pd.api.types.is_numeric_dtype(column) or column.isna().any():
        raise ScenarioError([Fault("replica", "not a number in each row", None, "number the replicas 0, 1, 2, …")])
    there = sorted(column.unique().tolist())
    if wanted is None:
        more = f"Shown is replica {there[0]}, one of {len(there)}; --replica N shows another."
        return there[0], [more] if len(there) > 1 else []
    if wanted not in there:
        raise ScenarioError([Fault("--replica", "no such replica", wanted, f"there are: {', '.join(map(str, there))}")])
    return wanted, []


def _table(path: Path) -> pd.DataFrame:
    """A table by its ending: Parquet, or else text with commas, semicolons or tabs."""
    try:
        if path.suffix in {".parquet", ".pq"}:
            return read_frame(path)
        with path.open(encoding="utf-8-sig") as file:
            head = file.readline()
        sign = max(",;\t", key=head.count)
        return pd.read_csv(absolute_path(path), sep=sign, encoding="utf-8-sig", skipinitialspace=True).rename(
            columns=str.strip
        )
    except pd.errors.EmptyDataError:
        raise ScenarioError(
            [Fault("", f"{path} is empty", None, "a table with the columns round and user is wanted")]
        ) from None
    except (MachineError, ValueError, pd.errors.ParserError) as error:
        first = str(error.__cause__ or error).strip().splitlines()[0]
        raise ScenarioError([Fault("", f"{path} is no table: {first}", None, "give CSV or Parquet")]) from error
    except OSError as error:
        raise MachineError(f"{path} cannot be read: {error.strerror or error}") from error
