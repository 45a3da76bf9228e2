"""Arrivals from files: a table of transfer and training times, or a run directory."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from netfl.access.network import NetworkAccess
from netfl.core.kinds import kind_of
from netfl.core.remedies import call
from netfl.diagnosis.timeout.arrivals import Arrivals
from netfl.errors import Fault, ScenarioError, suggest
from netfl.files.cells import as_text
from netfl.files.schema import COUNT, NAME, SPAN, FileColumn, FileSchema
from netfl.files.tables import UserTable, read_csv, read_table
from netfl.network.sizes import transport_of
from netfl.results.run_reader import open_run
from netfl.scenario.scenario import Scenario, load
from netfl.types import Bools, Floats, Ints

_LOST = "the server does not learn how long it took, or that it was lost"
PARTS = ("download_s", "training_s", "upload_s")
"""Columns of parts of the time of an update, which add up."""
SCHEMA = FileSchema(
    "times of updates (`timeout`)",
    FileColumn("round", COUNT),
    FileColumn("user", NAME),
    FileColumn("replica", COUNT, is_needed=False),
    FileColumn("total_s", SPAN, is_needed=False, empty=_LOST),
    *(FileColumn(name, SPAN, is_needed=False, empty=_LOST) for name in PARTS),
    FileColumn("outcome", NAME, is_needed=False),
    FileColumn("attempts", replace(COUNT, lowest=1.0), is_needed=False),
)
"""Declared columns of a table of times."""
DELIVERED = "delivered"
"""Outcome of an update that arrived; any other word is a failure."""
_TOLERANCE = 1e-3
"""Relative difference of a total and the sum of its parts that rounding explains."""


def read_log(path: Path) -> Arrivals:
    """Read a table with a row for each user that took part in a round.

    Raises:
        ScenarioError: the table cannot be read, or a row is wrong.
    """
    if path.suffix.lower() in {".parquet", ".pq"}:
        table = read_table(path)
    else:
        table = read_csv(path, separators=",;\t", is_limited=False)
    return _arrivals_of_table(table)


def _arrivals_of_table(table: UserTable) -> Arrivals:
    table.check_headings(SCHEMA)
    _check_units(table)
    numbers = table.integers(SCHEMA["round"])
    names, user = np.unique(as_text(table.columns["user"]).to_numpy(zero_copy_only=False), return_inverse=True)
    table.names(SCHEMA["user"])
    replica = np.zeros(len(table), np.int64)
    if "replica" in table:
        replica = table.integers(SCHEMA["replica"])
    ended_s = _ends_s(table)
    is_delivered = np.isfinite(ended_s)
    if "outcome" in table:
        is_delivered = _are_delivered(table, ended_s)
    attempts = None
    if "attempts" in table:
        attempts = table.integers(SCHEMA["attempts"])
    is_repeated = pd.DataFrame({"replica": replica, "round": numbers, "user": user}).duplicated().to_numpy()
    table.refuse(
        is_repeated,
        lambda row: Fault("", f"user {names[user[row]]} occurs twice in round {numbers[row]}", None, "leave one out"),
    )
    table.check()

    _, rounds = np.unique(np.column_stack([replica, numbers]), axis=0, return_inverse=True)
    rounds = rounds.ravel()
    over_s = np.zeros(rounds.max(initial=-1) + 1)
    np.maximum.at(over_s, rounds, ended_s)  # infinite if one row has no time
    return Arrivals(
        round=rounds[is_delivered],
        user=user[is_delivered],
        arrived_s=ended_s[is_delivered],
        sizes=np.bincount(rounds),
        over_s=over_s,
        names=[str(name) for name in names],
        attempts=None if attempts is None else attempts[is_delivered],
    )


def _check_units(table: UserTable) -> None:
    """Check that the table has times, and no time in a unit that is not read.

    Raises:
        ScenarioError: it has none, or one.
    """
    known = ("total_s", *PARTS)
    words = tuple(name.removesuffix("s") for name in known)
    for name in table.columns:
        if name.startswith(words) and name not in known:
            problem = f"{table.path.name} has the column {name}, which is not read"
            raise ScenarioError([Fault("", problem, None, f"write seconds; {suggest(name, known)}")])
    if not any(name in table for name in known):
        problem = f"{table.path.name} has no column of times"
        remedy = f"add total_s, or some of {', '.join(PARTS)}; its columns: {', '.join(table.columns)}"
        raise ScenarioError([Fault("", problem, None, remedy)])


def _ends_s(table: UserTable) -> Floats:
    """Return the time from the opening of its round to the end of each update, infinite for an empty cell, ``[rows]``.

    It is the total, or the sum of the parts that the table has.
    """
    parts = [table.numbers(SCHEMA[name], empty=np.inf) for name in PARTS if name in table]
    if "total_s" not in table:
        return np.asarray(np.sum(parts, axis=0))
    total_s = table.numbers(SCHEMA["total_s"], empty=np.inf)
    if parts:
        sum_s = np.sum([np.where(np.isfinite(part), part, 0.0) for part in parts], axis=0)
        table.refuse(
            np.isfinite(total_s) & (sum_s > total_s * (1.0 + _TOLERANCE)),
            lambda row: Fault(
                "",
                f"total_s is less than the sum of its parts, {sum_s[row]:g} s",
                float(total_s[row]),
                "check that all are in seconds, and that the total begins with the download",
            ),
        )
    return total_s


def _are_delivered(table: UserTable, ended_s: Floats) -> Bools:
    """Return which updates arrived, ``[rows]``; those need a time."""
    table.names(SCHEMA["outcome"])
    words = as_text(table.columns["outcome"]).to_numpy(zero_copy_only=False)
    is_delivered = np.asarray(words == DELIVERED, bool)
    if len(words) and not is_delivered.any():
        others = ", ".join(sorted({*map(str, words)})[:5])
        problem = f"{table.path.name}: column outcome: no update is '{DELIVERED}'"
        raise ScenarioError([Fault("", problem, others, f"write '{DELIVERED}' for updates that arrived")])
    table.refuse(
        is_delivered & ~np.isfinite(ended_s),
        lambda row: Fault("", "a delivered update without a time", None, "fill it in, or correct the outcome"),
    )
    return is_delivered


def read_run(folder: Path) -> Arrivals:
    """Read the rounds of a run whose rule waits for all users, with a deadline or without.

    Raises:
        ScenarioError: the run has no such rounds.
    """
    run = open_run(folder)
    scenario = load(run.folder / "scenario.yaml")
    network = timed_network(scenario)
    assert network.round is not None
    size = network.selection.max_selected(scenario.users)
    remedy = f"let the network be simulated with another rule: {call('timeout', run.folder / 'scenario.yaml')}"
    if any(network.round.is_complete(updates, size) for updates in range(1, size)):
        problem = "the rounds of this run close before all updates arrive, and the others are not in it"
        raise ScenarioError([Fault("access.round", problem, kind_of(type(network.round)), remedy)])
    if run.deliveries.empty:
        problem = f"no update was delivered in {run.folder}"
        raise ScenarioError([Fault("", problem, None, "give a run with deliveries")])
    rounds = run.rounds.reset_index(drop=True)
    rounds["place"] = rounds.index
    deliveries = run.deliveries.merge(rounds[["replica", "round", "opened_s", "place"]], on=["replica", "round"])
    lasted_s = (rounds["closed_s"] - rounds["opened_s"]).to_numpy(float)
    deadline_s = network.round.deadline_s or np.inf
    return Arrivals(
        round=deliveries["place"].to_numpy(np.int64),
        user=(deliveries["replica"] * scenario.users + deliveries["user"]).to_numpy(np.int64),
        arrived_s=np.maximum((deliveries["arrived_s"] - deliveries["opened_s"]).to_numpy(float), 0.0),
        sizes=np.full(len(rounds), size),
        over_s=np.where(lasted_s < deadline_s * (1.0 - 1e-9), lasted_s, np.inf),
        names=user_names(scenario, range(int(rounds["replica"].max()) + 1)),
        attempts=attempts_of(scenario, network, deliveries["attempts"].to_numpy(np.int64)),
    )


def timed_network(scenario: Scenario) -> NetworkAccess:
    """Return the network of a scenario in whose rounds a deadline has a meaning.

    Raises:
        ScenarioError: it has none.
    """
    network = scenario.access
    if not isinstance(network, NetworkAccess):
        problem = "no network: nothing here takes time"
        raise ScenarioError([Fault("access.kind", problem, kind_of(type(network)), "use 'kind: network'")])
    if network.round is None:
        raise ScenarioError([Fault("access.round", "a network of traffic has no rounds", None, "add a round")])
    kind = kind_of(type(network.round))
    if network.round.is_continuous:
        problem = "users do not wait for rounds here, so that a deadline has no effect"
        raise ScenarioError([Fault("access.round.kind", problem, kind, "use quorum")])
    if network.selection.sets_deadline:
        problem = "this selection gives each round a deadline of its own"
        selection = kind_of(type(network.selection))
        raise ScenarioError([Fault("access.selection.kind", problem, selection, "use another selection")])
    return network


def user_names(scenario: Scenario, replicas: range) -> list[str]:
    """Return names of the users of all *replicas*, each of which has users of its own."""
    if len(replicas) == 1:
        return [str(user) for user in range(scenario.users)]
    return [f"{user} of replica {replica}" for replica in replicas for user in range(scenario.users)]


def attempts_of(scenario: Scenario, network: NetworkAccess, attempts: Ints) -> Ints | None:
    """Return *attempts* of updates, ``[updates]``; ``None`` where they are those of all packets of an update."""
    bits = network.update_size or scenario.update_bits
    return attempts if transport_of(network, bits).grain == "message" else None
