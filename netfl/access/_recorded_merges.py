"""The merges of other nodes than the server in a recorded run, as `netfl.access.replay` reads them."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from netfl.access._recorded_tables import (
    DELIVERY_KEY,
    MERGE_COLUMNS,
    MERGED_MODEL_COLUMNS,
    MERGED_MODELS,
    MERGED_UPDATE_COLUMNS,
    MERGED_UPDATES,
    MERGES,
    Key,
    Rows,
    key_of,
    read_columns,
    row_values,
)
from netfl.errors import Fault
from netfl.types import SERVER, Bools, Delivery, Merge, MergedModel

_MERGE_KEY = ["round", "node", "number"]
"""Columns that name a merge of a replica."""


class RecordedMerges:
    """The merges of all replicas; none if the recording has no table of them.

    Raises:
        ScenarioError: a table cannot be read; the key is ``run``.
    """

    def __init__(self, folder: Path) -> None:
        self._has_tables = (folder / f"{MERGES}.parquet").is_file()
        if self._has_tables:
            self._merges, self._merge_rows = read_columns(folder, MERGES, MERGE_COLUMNS)
            self._models, self._model_rows = read_columns(folder, MERGED_MODELS, MERGED_MODEL_COLUMNS)
            self._updates, self._update_rows = read_columns(folder, MERGED_UPDATES, MERGED_UPDATE_COLUMNS)

    @property
    def nodes(self) -> int:
        """Number of nodes besides the server."""
        if not self._has_tables or self._merges.empty:
            return 0
        return int(self._merges["node"].max())

    def are_below(self, replica: int, deliveries: pd.DataFrame) -> Bools:
        """Return which *deliveries* of a replica reached another node than the server, ``[deliveries]``."""
        if not self._has_tables:
            return np.zeros(len(deliveries), np.bool_)
        updates = self._updates[self._updates["replica"] == replica]
        return np.asarray(_numbered_keys(deliveries).isin(_numbered_keys(updates)))

    def last_uses(self, replica: int) -> dict[int, int]:
        """Return the last round in which a merge of a replica takes each version of the server, by its number."""
        if not self._has_tables:
            return {}
        models = self._models[(self._models["replica"] == replica) & (self._models["source"] == SERVER)]
        last = models.groupby("source_number")["round"].max()
        return dict(zip(last.index.tolist(), last.tolist(), strict=True))

    def faults(self, replica: int, deliveries: pd.DataFrame) -> Iterator[Fault]:
        """Yield the errors of the tables for a replica with these *deliveries*."""
        if not self._has_tables:
            return
        merges, models, updates = (
            table[table["replica"] == replica] for table in (self._merges, self._models, self._updates)
        )
        of_updates = Rows(self._update_rows, updates)
        is_delivered = _numbered_keys(updates).isin(_numbered_keys(deliveries))
        of_updates.refuse(~is_delivered, "no such delivery of the user is recorded in this round", "user")
        of_merges = Rows(self._merge_rows, merges)
        of_merges.refuse(merges.duplicated(_MERGE_KEY).to_numpy(), "it occurs twice", "number")
        parts = ((updates, of_updates, "delivered"), (models, Rows(self._model_rows, models), "models"))
        for table, rows, column in parts:
            is_known = pd.MultiIndex.from_frame(table[_MERGE_KEY]).isin(pd.MultiIndex.from_frame(merges[_MERGE_KEY]))
            rows.refuse(~is_known, f"{MERGES}.parquet has no such merge", "number")
            counted = table.groupby(_MERGE_KEY).size().reindex(pd.MultiIndex.from_frame(merges[_MERGE_KEY]))
            is_wrong = counted.fillna(0).to_numpy() != merges[column].to_numpy()
            of_merges.refuse(is_wrong, "the tables disagree on their number", column)
        for rows_of_file in (self._merge_rows, self._model_rows, self._update_rows):
            yield from (fault.under("run") for fault in rows_of_file.faults)

    def of(self, replica: int) -> ReplicaMerges:
        """Return the merges of a replica."""
        return ReplicaMerges(*self._rows_of(replica))

    def _rows_of(self, replica: int) -> Iterator[pd.DataFrame]:
        """Yield the rows of a replica in each table; empty tables if there are none."""
        if not self._has_tables:
            return
        yield self._merges[self._merges["replica"] == replica].sort_values(["round", "place"])
        yield self._models[self._models["replica"] == replica].sort_values(["round", "place"])
        yield self._updates[self._updates["replica"] == replica]


class ReplicaMerges:
    """The merges of a replica, round by round.

    Args:
        merges: rows of the table ``merges``, by round and place; ``None`` without any.
        models: rows of the table ``merged_models``, by round and place.
        updates: rows of the table ``merged_updates``.
    """

    def __init__(
        self,
        merges: pd.DataFrame | None = None,
        models: pd.DataFrame | None = None,
        updates: pd.DataFrame | None = None,
    ) -> None:
        self._of_rounds: defaultdict[int, list[dict[str, Any]]] = defaultdict(list)
        self._models: defaultdict[tuple[int, int, int], list[tuple[int, int, float]]] = defaultdict(list)
        self._merges_of: defaultdict[Key, list[tuple[int, int]]] = defaultdict(list)
        if merges is None or models is None or updates is None:
            return
        for index, values in zip(merges["round"].tolist(), row_values(merges, Merge), strict=True):
            self._of_rounds[index].append(values)
        for index, values in zip(models["round"].tolist(), row_values(models, MergedModel), strict=True):
            key = (index, values["node"], values["number"])
            self._models[key].append((values["source"], values["source_number"], values["weight"]))
        keys = zip(*(updates[name].tolist() for name in DELIVERY_KEY), strict=True)
        for key_of_update, node, number in zip(keys, updates["node"].tolist(), updates["number"].tolist(), strict=True):
            self._merges_of[key_of_update].append((node, number))

    def split(self, index: int, deliveries: Sequence[Delivery]) -> tuple[tuple[Delivery, ...], tuple[Merge, ...]]:
        """Return what the server got of the *deliveries* of round *index*, and the merges with the others."""
        if index not in self._of_rounds:
            return tuple(deliveries), ()
        of_merges: defaultdict[tuple[int, int], list[Delivery]] = defaultdict(list)
        of_server = []
        for delivery in deliveries:
            of_delivery = self._merges_of[key_of(index, delivery)]
            if of_delivery:
                of_merges[of_delivery.pop(0)].append(delivery)
            else:
                of_server.append(delivery)
        merges = []
        for values in self._of_rounds[index]:
            node, number, oldest = values["node"], values["number"], values["oldest"]
            values["deliveries"] = tuple(of_merges[node, number])
            values["models"] = tuple(self._models[index, node, number])
            values["oldest"] = None if math.isnan(oldest) else int(oldest)
            merges.append(Merge(**values))
        return tuple(of_server), tuple(merges)


def _numbered_keys(rows: pd.DataFrame) -> pd.MultiIndex:
    """Return the key of the delivery of each row, with the number of rows before it that have the same key.

    A user may deliver to two nodes at one instant, from versions of the same number.
    """
    repeats = rows.groupby(DELIVERY_KEY).cumcount()
    return pd.MultiIndex.from_frame(rows[DELIVERY_KEY].assign(repeat=repeats))
