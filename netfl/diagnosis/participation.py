"""Participation: the users whose updates were delivered in each round."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from netfl.core.remedies import given
from netfl.errors import Fault, ScenarioError
from netfl.results.formatting import format_count

MAX_BYTES = 2 * 10**9
"""Memory limit of participation, one byte for each user in each round."""
_MAX_ROUNDS = 10_000_000
"""Largest number of a round."""
TIME_COLUMNS = ("closed_s", "arrived_s", "time_s")
"""Time columns of a table of deliveries, in order of preference."""


@dataclass(frozen=True)
class Participation:
    """The deliveries of all users in all rounds.

    Args:
        delivered: ``[rounds, users]``, true if the user's update was delivered.
        names: names of the users.
        closed_s: end of each round in seconds; ``None`` if unknown.
        notes: assumptions made while reading, in sentences.
        repeated: number of deliveries that do not count, as their user has another in the same round.

    Raises:
        ScenarioError: fewer than two rounds or users, no delivery at all, or times that decrease.
    """

    delivered: NDArray[np.bool_]
    names: tuple[str, ...]
    closed_s: NDArray[np.float64] | None = None
    notes: tuple[str, ...] = ()
    repeated: int = 0

    def __post_init__(self) -> None:
        faults = []
        rounds, users = self.delivered.shape
        if users < 2:
            problem = "there is only one user, so there is no selection"
            faults.append(Fault("user", problem, None, "diagnose two users or more"))
        if rounds < 2:
            problem = "there is only one round, so order cannot be tested"
            faults.append(Fault("round", problem, None, "give more rounds"))
        if not self.delivered.any():
            faults.append(Fault("", "no round has a delivery", None, "diagnose a run with deliveries"))
        if faults:
            raise ScenarioError(faults)
        if self.closed_s is not None:
            _check_order(self.closed_s, np.arange(1, rounds + 1), "closed_s")

    @property
    def rounds(self) -> int:
        """The number of rounds."""
        return len(self.delivered)

    @property
    def users(self) -> int:
        """The number of users."""
        return len(self.names)

    @property
    def span_s(self) -> NDArray[np.float64] | None:
        """Duration of each round; the first is assumed to have the mean duration of the others."""
        if self.closed_s is None:
            return None
        after_first_s = np.diff(self.closed_s)
        return np.append(after_first_s.mean(), after_first_s)

    @property
    def round_s(self) -> float | None:
        """Mean duration of a round."""
        span_s = self.span_s
        return None if span_s is None else float(span_s.mean())


def from_matrix(delivered: ArrayLike) -> Participation:
    """Build participation from a table of true and false, ``[rounds, users]``."""
    table = np.asarray(delivered)
    if table.ndim != 2 or not (table.dtype == bool or ((table == 0) | (table == 1)).all()):
        raise ScenarioError([Fault("", "participation is not a Boolean array", None, "give [rounds, users]")])
    return Participation(table.astype(bool), tuple(map(str, range(table.shape[1]))))


def participation_from_sequence(sequence: ArrayLike, users: int | None = None) -> Participation:
    """Build participation from one user for each round, ``[rounds]``, -1 for none; *users* are counted from 0."""
    order = np.asarray(sequence)
    if order.ndim != 1 or not np.issubdtype(order.dtype, np.integer):
        remedy = "give whole numbers from 0 on, one for each round"
        raise ScenarioError([Fault("", "not a sequence of users", None, remedy)])
    if users is None:
        users = int(order.max()) + 1
    rounds = len(order)
    table = pd.DataFrame({"round": np.arange(rounds), "user": order})[order >= 0]
    return from_table(table, users=users, rounds=rounds)


def from_table(
    deliveries: pd.DataFrame,
    *,
    users: int | None = None,
    rounds: int | None = None,
    closed_s: ArrayLike | None = None,
) -> Participation:
    """Build participation from a table of deliveries, one row each, with the columns ``round`` and ``user``.

    Args:
        deliveries: the table; a column ``closed_s``, ``arrived_s`` or ``time_s`` gives times.
        users: the number of users, then numbered from 0; by default the users in the table, with any names.
        rounds: the number of rounds; by default up to the last one in the table.
        closed_s: end of each round.

    Raises:
        ScenarioError: with all problems of the table.
    """
    faults = list(_table_faults(deliveries, users))
    if faults:
        raise ScenarioError(faults)
    # the size of participation
    numbers = pd.to_numeric(deliveries["round"]).to_numpy(np.int64)
    first = 0 if numbers.min() == 0 else 1
    length = int(numbers.max()) - first + 1
    if rounds is not None:
        if rounds < length:
            remedy = f"the last round in the table is {numbers.max()}; rounds are counted from {first}"
            raise ScenarioError([Fault("rounds", "fewer than in the table", rounds, remedy)])
        length = rounds
    names, user_of_row = _number_users(deliveries["user"], users)
    if length * len(names) > MAX_BYTES:
        problem = f"{length} rounds of {len(names)} users would take {length * len(names) / 1e9:.1f} GB"
        remedy = f"diagnose fewer rounds or users: up to {MAX_BYTES // 10**9} GB, one byte per user and round"
        raise ScenarioError([Fault("round", problem, None, remedy)])

    delivered = np.zeros((length, len(names)), bool)
    delivered[numbers - first, user_of_row] = True
    repeated = len(deliveries) - int(np.count_nonzero(delivered))
    if closed_s is None:
        closed_s = _closing_times(deliveries, numbers - first, length, first)
    if closed_s is not None:
        closed_s = np.asarray(closed_s, float)

    # what was assumed
    notes = []
    if first == 0:
        notes.append("Rounds are counted from 0.")
    empty = int((~delivered.any(axis=1)).sum())
    if rounds is None and empty:
        notes.append(
            f"{empty} of {length} rounds are missing from the table and count as rounds without deliveries. "
            "If they were not recorded, number the rounds without gaps."
        )
    if users is None:
        notes.append(
            f"The table has {len(names)} users, taken as all users; {given('users', 'K')} sets another number."
        )
    if repeated:
        which = f"{format_count(repeated)} of {format_count(len(deliveries))} deliveries"
        notes.append(f"{which} repeat a user of the same round: a user counts once in a round.")
    return Participation(delivered, names, closed_s, tuple(notes), repeated)


def _table_faults(table: pd.DataFrame, users: int | None) -> Iterator[Fault]:
    missing = [name for name in ("round", "user") if name not in table]
    if missing:
        remedy = f"the columns round and user are needed; it has: {', '.join(map(str, table.columns)) or 'none'}"
        yield Fault(", ".join(missing), "no such column", None, remedy)
        return
    if table.empty:
        yield Fault("", "the table has no rows", None, "give a table with deliveries")
        return
    blank = table[["round", "user"]].isna().any(axis=1)
    if blank.any():
        row = int(blank.to_numpy().argmax()) + 1
        yield Fault("", f"row {row} has an empty round or user", None, "fill it or drop it")
        return
    numbers = pd.to_numeric(table["round"], errors="coerce").to_numpy(np.float64, na_value=np.nan)
    is_wrong = (numbers != np.round(numbers)) | (numbers < 0) | (numbers > _MAX_ROUNDS)  # NaN differs from itself
    if is_wrong.any():
        remedy = "rounds are counted 1, 2, 3, … or from 0"
        yield Fault("round", "not the number of a round", table["round"][is_wrong].tolist()[0], remedy)
        return
    column = table["user"]
    if users is not None and pd.api.types.is_integer_dtype(column):
        outside = column[(column < 0) | (column >= users)]
        if len(outside):
            yield Fault("user", "no such user", int(outside.iloc[0]), f"{users} users are numbered 0 to {users - 1}")
    elif users is not None and column.nunique() > users:
        yield Fault("users", f"the table has {column.nunique()} users", users, "give at least as many")


def _number_users(column: pd.Series[Any], users: int | None) -> tuple[tuple[str, ...], NDArray[np.int64]]:
    """Return the names of all users, and the number of each row's user."""
    if users is not None and pd.api.types.is_integer_dtype(column):
        return tuple(map(str, range(users))), column.to_numpy(np.int64)
    numbers, names = pd.factorize(column, sort=pd.api.types.is_numeric_dtype(column))
    missing = (users or 0) - len(names)  # users that were never delivered
    unheard = [f"unheard {number}" for number in range(1, 1 + missing)]
    return (*map(str, names), *unheard), numbers.astype(np.int64)


def _closing_times(
    table: pd.DataFrame, index: NDArray[np.int64], rounds: int, first: int
) -> NDArray[np.float64] | None:
    """Return the end of each round: the last time of its rows, interpolated for rounds without rows.

    Args:
        table: deliveries; times are in the first of `TIME_COLUMNS` that it has.
        index: the round of each row, counted from 0.
        rounds: the number of rounds.
        first: the number of the first round, for messages.
    """
    column = next((name for name in TIME_COLUMNS if name in table), None)
    if column is None:
        return None
    times_s = pd.to_numeric(table[column], errors="coerce").to_numpy(float)
    is_time = np.isfinite(times_s)
    if not is_time.all():
        first_wrong = table[column][~is_time].tolist()[0]
        remedy = f"write numbers, or leave the column {column} out"
        raise ScenarioError([Fault(column, "not a time in seconds", first_wrong, remedy)])
    last_s = pd.Series(times_s).groupby(index).max()
    recorded = last_s.index.to_numpy()  # rounds with rows
    _check_order(last_s.to_numpy(), recorded + first, column)
    if len(recorded) < 2:
        return None
    # before and after the recorded rounds, at their mean distance
    round_s = (last_s.iloc[-1] - last_s.iloc[0]) / (recorded[-1] - recorded[0])
    every_round = np.arange(rounds)
    rounds_outside = np.minimum(every_round - recorded[0], 0) + np.maximum(every_round - recorded[-1], 0)
    within_s = np.interp(every_round, recorded, last_s.to_numpy())
    return np.asarray(within_s + round_s * rounds_outside)


def _check_order(times_s: NDArray[np.float64], rounds: NDArray[np.int64], key: str) -> None:
    """Raise a ScenarioError if one of *rounds* ends before the previous one."""
    decreasing = np.flatnonzero(np.diff(times_s) < 0)
    if len(decreasing):
        before = decreasing[0]
        end = f"round {rounds[before + 1]} ends at {times_s[before + 1]:g} s"
        problem = f"times are not ascending: {end}, after one at {times_s[before]:g} s"
        raise ScenarioError([Fault(key, problem, None, "sort the rounds by time, or correct the times")])
