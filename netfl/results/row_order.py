"""Order of the rows of tables: by replica, round and time, then by all other columns from left to right.

Words are ordered by their characters, and NaN comes last.  The order is that of the content alone: it depends neither
on when rows were written, nor on the processes that computed them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from netfl.core.columns import REPLICA, ROUND
from netfl.types import OUTCOMES, Ints

TIMES: Mapping[str, str] = {
    "rounds": "opened_s",
    "deliveries": "arrived_s",
    "events": "time_s",
    "attempts": "start_s",
    "merges": "time_s",
    "merged_models": ROUND.name,
    "merged_updates": "arrived_s",
    "erasures": "arrived_s",
    "delivery_towers": "arrived_s",
    "lost_trainings": "arrived_s",
    "not_summed": ROUND.name,
    "links": "arrived_s",
    "metrics": "time_s",
}
"""Column of each growing table that is its time."""

_CAUSES = (
    "up",
    "down",
    "failed",
    "forwarded",
    *OUTCOMES,
    "moved",
    "broadcast",
    "missed",
    "held",
    "received",
    "trained",
    "queued",
    "sent",
)
"""Kinds of events in the order in which those of one instant follow from one another."""


def row_order(rows: pa.Table, time: str, closed: Ints) -> Ints:
    """Return the places of *rows* in their order, ``[rows]``.

    Rows are sorted by replica, *closed*, round and time, and only those that are equal in these by the other columns,
    which takes less time than to sort all by all columns.

    Args:
        rows: the rows of a table, in one chunk.
        time: the column that is the time.
        closed: number of the last round that had closed when each row was recorded, ``[rows]``.
    """
    first = [REPLICA.name, ROUND.name, time]
    replica, round_, time_s = (_sort_key(rows[name]) for name in first)
    keys = [replica, closed, round_, time_s]
    order = np.lexsort(keys[::-1])
    is_tie = np.ones(len(order) - 1, bool)  # with the row before
    for key in keys:
        sorted_key = key[order]
        is_tie &= sorted_key[1:] == sorted_key[:-1]
    tied = np.flatnonzero(np.append(is_tie, False) | np.append(False, is_tie))
    if tied.size:
        places = order[tied]
        number = np.cumsum(np.append(True, ~is_tie))[tied]  # equal for rows that are tied with each other
        others = [_sort_key(rows[name])[places] for name in rows.column_names if name not in first]
        order[tied] = places[np.lexsort([*others[::-1], number])]
    return order


def sort_by_cause(events: pd.DataFrame) -> pd.DataFrame:
    """Return the *events* of a replica in the order of time, and those of one instant from causes to effects."""
    ranks = {kind: rank for rank, kind in enumerate(_CAUSES)}
    rank = events["kind"].astype(str).map(ranks).fillna(len(ranks)).to_numpy()
    return events.iloc[np.lexsort((rank, events["time_s"].to_numpy()))].reset_index(drop=True)


def split_by_replica(rows: pa.Table) -> Iterator[tuple[int, pa.Table]]:
    """Yield the rows of each replica, where those of a replica follow one another."""
    replicas = rows[REPLICA.name].to_numpy()
    begins = [0, *(np.flatnonzero(np.diff(replicas)) + 1).tolist(), len(replicas)]
    for begin, end in pairwise(begins):
        yield int(replicas[begin]), rows.slice(begin, end - begin)


def _sort_key(column: pa.ChunkedArray) -> NDArray[np.generic]:
    """Return an array whose order is that of the column: for words, their ranks."""
    whole = column.combine_chunks()
    if isinstance(whole, pa.DictionaryArray):
        words = whole.dictionary.to_pylist()
        _, ranks = np.unique(np.array(words, object), return_inverse=True)
        return np.asarray(ranks[whole.indices.to_numpy()])
    return np.asarray(whole.to_numpy(zero_copy_only=False))
