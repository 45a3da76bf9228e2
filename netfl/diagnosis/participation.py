"""Participation: the users whose updates were delivered in each round."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from netfl.errors import Fault, ScenarioError

MAX_BYTES = 2 * 10**9
"""Memory limit of participation, one byte for each user in each round."""
_MAX_ROUNDS = 10_000_000
_TIME_COLUMNS = ("closed_s", "arrived_s", "time_s")
"""Time columns of a table of deliveries, in order of preference."""


@dataclass(frozen=True)
class Participation:
    """The deliveries of all users in all rounds.

    Args:
        delivered: ``[rounds, users]``, true if the user's update was delivered.
        names: names of the users.
        closed_s: end of each round in seconds; ``None`` if unknown.
        notes: assumptions made while reading, in sentences.

    Raises:
        ScenarioError: fewer than two rounds or users, no delivery at all, or times that decrease.
    """

    delivered: NDArray[np.bool_]
    names: tuple[str, ...]
    closed_s: NDArray[np.float64] | None = None
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        faults = list(self._faults())
        if faults:
            raise ScenarioError(faults)

    def _faults(self) -> Iterator[Fault]:
        rounds, users = self.delivered.shape
        if users < 2:
            yield Fault("user", "there is one user alone, so there is no selection", None, "diagnose two users or more")
        if rounds < 2:
            yield Fault("round", "there is one round alone, so nothing can be said of order", None, "give more rounds")
        if not self.delivered.any():
            yield Fault("", "nobody was heard in any round", None, "there is nothing to diagnose")
        if self.closed_s is not None:
            yield from _order_faults(self.closed_s, np.arange(1, rounds + 1), "closed_s")

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
        rest = np.diff(self.closed_s)
        return np.append(rest.mean(), rest)


def from_matrix(delivered: ArrayLike) -> Participation:
    """Build participation from a table of true and false, ``[rounds, users]``."""
    table = np.asarray(delivered)
    if table.ndim != 2 or not (table.dtype == bool or ((table == 0) | (table == 1)).all()):
        raise ScenarioError([Fault("", "participation is no table of true and false", None, "give [rounds, users]")])
    return Participation(table.astype(bool), tuple(map(str, range(table.shape[1]))))


def participation_from_sequence(sequence: ArrayLike, users: int | None = None) -> Participation:
    """Build participation from one user for each round, ``[rounds]``, -1 for none; *users* are counted from 0."""
    order = np.asarray(sequence)
    if order.ndim != 1 or not len(order) or not np.issubdtype(order.dtype, np.integer):
        remedy = "give whole numbers from 0 on, one for each round"
        raise ScenarioError([Fault("", "no sequence of users", None, remedy)])
    table = pd.DataFrame({"round": np.arange(len(order)), "user": order})[order >= 0]
    return from_table(table, users=int(order.max()) + 1 if users is None else users, rounds=len(order))


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
    index = _to_numbers(deliveries["round"]).astype(np.int64)
    first = 0 if index.min() == 0 else 1
    length = int(index.max()) - first + 1
    if rounds is not None and rounds < length:
        remedy = f"the last round in the table is {index.max()}, and rounds are counted from {first}"
        raise ScenarioError([Fault("rounds", "fewer than there are in the table", rounds, remedy)])
    names, place = _number_users(deliveries["user"], users)
    delivered = _no_deliveries(length if rounds is None else rounds, len(names))
    delivered[index - first, place] = True
    notes = list(_assumptions(delivered, first, users, rounds))
    repeated = len(deliveries) - int(np.count_nonzero(delivered))
    if repeated:
        notes.append(
            f"{repeated} deliveries are of users that had one in the same round: a user counts once in a round."
        )
    if closed_s is None:
        times_s = _closing_times(deliveries, index - first, len(delivered), first)
    else:
        times_s = np.asarray(closed_s, float)
    return Participation(delivered, names, times_s, tuple(notes))


def _table_faults(table: pd.DataFrame, users: int | None) -> Iterator[Fault]:
    missing = [name for name in ("round", "user") if name not in table]
    if missing:
        remedy = f"columns round and user are wanted; there are: {', '.join(map(str, table.columns)) or 'none'}"
        yield Fault(", ".join(missing), "no such column", None, remedy)
        return
    if table.empty:
        yield Fault("", "the table has no rows", None, "there is nothing to diagnose")
        return
    blank = table[["round", "user"]].isna().any(axis=1)
    if blank.any():
        row = int(blank.to_numpy().argmax()) + 1
        yield Fault("", f"row {row} has an empty round or user", None, "fill it or drop it")
        return
    index = _to_numbers(table["round"])
    invalid = ~np.isfinite(index) | (index != np.round(index)) | (index < 0)
    if invalid.any():
        remedy = "rounds are counted 1, 2, 3, … or from 0"
        yield Fault("round", "no round's number", _first_value(table["round"][invalid]), remedy)
        return
    if index.max() > _MAX_ROUNDS:
        yield Fault("round", "too far a round", int(index.max()), "number the rounds 1, 2, 3, …")
        return
    yield from _user_faults(table["user"], users)


def _user_faults(column: pd.Series[Any], users: int | None) -> Iterator[Fault]:
    """Yield a fault if the table has more users than stated."""
    if users is None:
        return
    if not pd.api.types.is_integer_dtype(column):
        if column.nunique() > users:
            yield Fault("users", f"the table has {column.nunique()} users", users, "give at least as many")
        return
    outside = column[(column < 0) | (column >= users)]
    if len(outside):
        yield Fault("user", "no such user", int(outside.iloc[0]), f"{users} users are numbered 0 to {users - 1}")


def _to_numbers(column: pd.Series[Any]) -> NDArray[np.float64]:
    """Convert a column to numbers, NaN if a value is no number."""
    return np.asarray(pd.to_numeric(column, errors="coerce").to_numpy(np.float64, na_value=np.nan))


def _first_value(column: pd.Series[Any]) -> object:
    value = column.iloc[0]
    return value.item() if isinstance(value, np.generic) else value


def _no_deliveries(rounds: int, users: int) -> NDArray[np.bool_]:
    """Return a table without deliveries; raise a ScenarioError if it is too large."""
    if rounds * users > MAX_BYTES:
        problem = f"{rounds} rounds of {users} users would take {rounds * users / 1e9:.1f} GB"
        remedy = f"diagnose fewer rounds or users: up to {MAX_BYTES // 10**9} GB, a byte for each of each"
        raise ScenarioError([Fault("round", problem, None, remedy)])
    return np.zeros((rounds, users), bool)


def _number_users(column: pd.Series[Any], users: int | None) -> tuple[tuple[str, ...], NDArray[np.int64]]:
    """Return the names of all users, and the number of each row's user."""
    if users is not None and pd.api.types.is_integer_dtype(column):
        return tuple(map(str, range(users))), column.to_numpy(np.int64)
    codes, names = pd.factorize(column, sort=pd.api.types.is_numeric_dtype(column))
    unheard = [f"unheard {number}" for number in range(1, 1 + (users or 0) - len(names))]
    return (*map(str, names), *unheard), codes.astype(np.int64)


def _assumptions(delivered: NDArray[np.bool_], first: int, users: int | None, rounds: int | None) -> Iterator[str]:
    if first == 0:
        yield "Rounds are counted from 0."
    empty = int((~delivered.any(axis=1)).sum())
    if rounds is None and empty:
        yield (
            f"{empty} of {len(delivered)} rounds are not in the table: they are taken as rounds in which nobody was "
            "heard. If they were not recorded instead, number the rounds without gaps."
        )
    if users is None:
        yield f"The {delivered.shape[1]} users in the table are taken to be all there are; --users K says otherwise."


def _closing_times(
    table: pd.DataFrame, index: NDArray[np.int64], rounds: int, first: int
) -> NDArray[np.float64] | None:
    """Return the end of each round: the last time of its rows, interpolated for rounds without rows."""
    name = next((name for name in _TIME_COLUMNS if name in table), None)
    if name is None:
        return None
    value = pd.to_numeric(table[name], errors="coerce").to_numpy(float)
    if not np.isfinite(value).all():
        raise ScenarioError([Fault(name, "no time in seconds", _first_value(table[name][~np.isfinite(value)]))])
    last = pd.Series(value).groupby(index).max()
    known = last.index.to_numpy()
    faults = [*_order_faults(last.to_numpy(), known + first, name)]
    if faults:
        raise ScenarioError(faults)
    if len(known) < 2:
        return None
    slope = (last.iloc[-1] - last.iloc[0]) / (known[-1] - known[0])
    at = np.arange(rounds)
    within = np.interp(at, known, last.to_numpy())
    return np.asarray(within + slope * (np.minimum(at - known[0], 0) + np.maximum(at - known[-1], 0)))


def _order_faults(times_s: NDArray[np.float64], rounds: NDArray[np.int64], key: str) -> Iterator[Fault]:
    """Yield a fault at the first of *rounds* that ends before the previous one."""
    decreasing = np.flatnonzero(np.diff(times_s) < 0)
    if len(decreasing):
        before, after = times_s[decreasing[0]], times_s[decreasing[0] + 1]
        number = rounds[decreasing[0] + 1]
        problem = f"time goes back: round {number} ends at {after:g} s, after one at {before:g} s"
        yield Fault(key, problem, None, "sort the rounds by time, or mend the clock")
