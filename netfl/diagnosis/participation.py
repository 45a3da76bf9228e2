"""Who was heard in which round: what every diagnosis starts from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from netfl.errors import Fault, ScenarioError

# What can be wrong with a table of deliveries.


_FARTHEST = 10_000_000
"""No recording has more rounds."""


def deliveries_faults(table: pd.DataFrame, users: int | None) -> Iterator[Fault]:
    """What is wrong with a table of deliveries."""
    missing = [name for name in ("round", "user") if name not in table]
    if missing:
        there = ", ".join(map(str, table.columns)) or "none"
        yield Fault(
            ", ".join(missing), "no such column", None, f"columns round and user are wanted; there are: {there}"
        )
        return
    if table.empty:
        yield Fault("", "the table has no rows", None, "there is nothing to diagnose")
        return
    blank = table[["round", "user"]].isna().any(axis=1)
    if blank.any():
        yield Fault(
            "", f"row {int(blank.to_numpy().argmax()) + 1} has an empty round or user", None, "fill it or drop it"
        )
        return
    index = numeric_column(table["round"])
    odd = ~np.isfinite(index) | (index != np.round(index)) | (index < 0)
    if odd.any():
        yield Fault(
            "round", "no round's number", first_value(table["round"][odd]), "rounds are counted 1, 2, 3, … or from 0"
        )
        return
    if index.max() > _FARTHEST:
        yield Fault("round", "too far a round", int(index.max()), "number the rounds 1, 2, 3, …")
        return
    yield from _strangers(table["user"], users)


def numeric_column(column: pd.Series[Any]) -> NDArray[np.float64]:
    """*column* as numbers, however they are written; NaN for what is none."""
    return np.asarray(pd.to_numeric(column, errors="coerce").to_numpy(np.float64, na_value=np.nan))


def first_value(column: pd.Series[Any]) -> object:
    """The first value of *column*, as Python says it."""
    value = column.iloc[0]
    return value.item() if isinstance(value, np.generic) else value


def _strangers(column: pd.Series[Any], users: int | None) -> Iterator[Fault]:
    """Users beyond those that there are said to be."""
    if users is None:
        return
    if not pd.api.types.is_integer_dtype(column):
        if column.nunique() > users:
            yield Fault("users", f"the table has {column.nunique()} users", users, "give at least as many")
        return
    outside = column[(column < 0) | (column >= users)]
    if len(outside):
        yield Fault("user", "no such user", int(outside.iloc[0]), f"{users} users are numbered 0 to {users - 1}")


_TIMES = ("closed_s", "arrived_s", "time_s")
"""Columns of a table of deliveries that say when, the first that there is counts."""

ROOM = 2 * 10**9
"""Bytes that participation may take, one for each user in each round."""


@dataclass(frozen=True)
class Participation:
    """Who was heard in which round.

    Args:
        heard: ``[rounds, users]``.
        names: what the users are called.
        closed_s: when each round closed, in seconds; ``None`` where that is not known.
        notes: what was assumed in reading it, in sentences.

    Raises:
        ScenarioError: there are fewer than two rounds or users, nobody is heard, or time goes back.
    """

    heard: NDArray[np.bool_]
    names: tuple[str, ...]
    closed_s: NDArray[np.float64] | None = None
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        found = list(self._faults())
        if found:
            raise ScenarioError(found)

    def _faults(self) -> Iterator[Fault]:
        """What keeps it from being diagnosed."""
        rounds, users = self.heard.shape
        if users < 2:
            yield Fault("user", "there is one user alone, so there is no selection", None, "diagnose two users or more")
        if rounds < 2:
            yield Fault("round", "there is one round alone, so nothing can be said of order", None, "give more rounds")
        if not self.heard.any():
            yield Fault("", "nobody was heard in any round", None, "there is nothing to diagnose")
        if self.closed_s is not None and (back := _goes_back(self.closed_s)) is not None:
            yield _back(back, self.closed_s)

    @property
    def rounds(self) -> int:
        """How many rounds there are."""
        return len(self.heard)

    @property
    def users(self) -> int:
        """How many users there are."""
        return len(self.names)

    @property
    def span_s(self) -> NDArray[np.float64] | None:
        """How long each round took; the first is taken to have been as long as the others are in the mean."""
        if self.closed_s is None:
            return None
        rest = np.diff(self.closed_s)
        return np.append(rest.mean(), rest)


def from_matrix(heard: ArrayLike) -> Participation:
    """Participation given as such: true and false, ``[rounds, users]``."""
    table = np.asarray(heard)
    if table.ndim != 2 or not (table.dtype == bool or ((table == 0) | (table == 1)).all()):
        raise ScenarioError([Fault("", "participation is no table of true and false", None, "give [rounds, users]")])
    return Participation(table.astype(bool), tuple(map(str, range(table.shape[1]))))


def participation_from_sequence(who: ArrayLike, users: int | None = None) -> Participation:
    """One user in each round: who it was, ``[rounds]``, -1 for nobody; *users* are counted from 0."""
    order = np.asarray(who)
    if order.ndim != 1 or not len(order) or not np.issubdtype(order.dtype, np.integer):
        raise ScenarioError(
            [Fault("", "no sequence of users", None, "give whole numbers from 0 on, one for each round")]
        )
    table = pd.DataFrame({"round": np.arange(len(order)), "user": order})[order >= 0]
    return from_table(table, users=int(order.max()) + 1 if users is None else users, rounds=len(order))


def from_table(
    deliveries: pd.DataFrame,
    *,
    users: int | None = None,
    rounds: int | None = None,
    closed_s: ArrayLike | None = None,
) -> Participation:
    """Participation from a table of deliveries, one row each, with at least the columns ``round`` and ``user``.

    Args:
        deliveries: the table; a column ``closed_s``, ``arrived_s`` or ``time_s`` says when.
        users: how many users there are, then numbered from 0; by default those in the table, whatever they are called.
        rounds: how many rounds there were; by default up to the last in the table.
        closed_s: when each of the rounds closed.

    Raises:
        ScenarioError: with all that is wrong with it.
    """
    faults = list(deliveries_faults(deliveries, users))
    if faults:
        raise ScenarioError(faults)
    index = numeric_column(deliveries["round"]).astype(np.int64)
    first = 0 if index.min() == 0 else 1
    length = int(index.max()) - first + 1
    if rounds is not None and rounds < length:
        remedy = f"the last round in the table is {index.max()}, and rounds are counted from {first}"
        raise ScenarioError([Fault("rounds", "fewer than there are in the table", rounds, remedy)])
    names, place = _named(deliveries["user"], users)
    heard = _nobody(length if rounds is None else rounds, len(names))
    heard[index - first, place] = True
    notes = list(_assumed(heard, first, users, rounds))
    again = len(deliveries) - int(np.count_nonzero(heard))
    if again:
        notes.append(f"{again} deliveries are of users that had one in the same round: a user counts once in a round.")
    times = (
        np.asarray(closed_s, float) if closed_s is not None else _times(deliveries, index - first, len(heard), first)
    )
    return Participation(heard, names, times, tuple(notes))


def _nobody(rounds: int, users: int) -> NDArray[np.bool_]:
    """Nobody heard in any round, where there is room for a table of that.

    Raises:
        ScenarioError: there is none.
    """
    if rounds * users > ROOM:
        problem = f"{rounds} rounds of {users} users would take {rounds * users / 1e9:.1f} GB"
        remedy = f"diagnose fewer rounds or users: up to {ROOM // 10**9} GB, a byte for each of each"
        raise ScenarioError([Fault("round", problem, None, remedy)])
    return np.zeros((rounds, users), bool)


def _named(column: pd.Series[Any], users: int | None) -> tuple[tuple[str, ...], NDArray[np.int64]]:
    """The users' names, and the place of each row's user among them."""
    if users is not None and pd.api.types.is_integer_dtype(column):
        return tuple(map(str, range(users))), column.to_numpy(np.int64)
    codes, found = pd.factorize(column, sort=pd.api.types.is_numeric_dtype(column))
    unheard = [f"unheard {number}" for number in range(1, 1 + (users or 0) - len(found))]
    return (*map(str, found), *unheard), codes.astype(np.int64)


def _assumed(heard: NDArray[np.bool_], first: int, users: int | None, rounds: int | None) -> Iterator[str]:
    """What a table of deliveries leaves open, and how it was taken."""
    if first == 0:
        yield "Rounds are counted from 0."
    empty = int((~heard.any(axis=1)).sum())
    if rounds is None and empty:
        what = (
            f"{empty} of {len(heard)} rounds are not in the table: they are taken as rounds in which nobody was heard"
        )
        yield f"{what}. If they were not recorded instead, number the rounds without gaps."
    if users is None:
        yield f"The {heard.shape[1]} users in the table are taken to be all there are; --users K says otherwise."


def _times(table: pd.DataFrame, index: NDArray[np.int64], rounds: int, first: int) -> NDArray[np.float64] | None:
    """When each round closed, from the rows: the last time in each; between rounds with rows it is interpolated."""
    name = next((name for name in _TIMES if name in table), None)
    if name is None:
        return None
    value = pd.to_numeric(table[name], errors="coerce").to_numpy(float)
    if not np.isfinite(value).all():
        raise ScenarioError([Fault(name, "no time in seconds", first_value(table[name][~np.isfinite(value)]))])
    last = pd.Series(value).groupby(index).max()
    if (back := _goes_back(last.to_numpy())) is not None:
        raise ScenarioError([_back(int(last.index[back]) + first, last.to_numpy(), back, name)])
    known = last.index.to_numpy()
    if len(known) < 2:
        return None
    slope = (last.iloc[-1] - last.iloc[0]) / (known[-1] - known[0])
    at = np.arange(rounds)
    within = np.interp(at, known, last.to_numpy())
    return np.asarray(within + slope * (np.minimum(at - known[0], 0) + np.maximum(at - known[-1], 0)))


def _goes_back(times_s: NDArray[np.float64]) -> int | None:
    """Where time first goes back; ``None`` if nowhere."""
    back = np.flatnonzero(np.diff(times_s) < 0)
    return int(back[0]) + 1 if len(back) else None


def _back(round: int, times_s: NDArray[np.float64], place: int | None = None, key: str = "closed_s") -> Fault:
    """The fault of a round that ends before the one before it."""
    at = round if place is None else place
    problem = (
        f"time goes back: round {round + (place is None)} ends at {times_s[at]:g} s, after one at {times_s[at - 1]:g} s"
    )
    return Fault(key, problem, None, "sort the rounds by time, or mend the clock")
