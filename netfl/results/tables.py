"""Tables of a run directory, written in chunks during the run.

A table grows in ``<name>.arrows.part``, a sequence of Arrow streams that stays readable up to the point of a crash.  At
the end of the run it becomes ``<name>.parquet``, which gets its name when it is complete.  Memory is bounded by the
rows of one round: a chunk is written when the first round closes at which it is full.

Rows are sorted as rounds close (`netfl.results.row_order`), and the rows of a replica are together in the Parquet file,
so that the file does not depend on when chunks were written.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from netfl.core.columns import PLACE_OF_MERGE, REPLICA, ROUND, USER, Column, columns_of, to_arrays
from netfl.core.formats import STAMP, check_stamp
from netfl.files import absolute_path, unreadable_file
from netfl.network.attempt_log import Attempt
from netfl.results.atomic_write import publish_file, temp_path
from netfl.results.metrics import check_declared
from netfl.results.reported_means import ReportedMeans
from netfl.results.row_order import TIMES, row_order, split_by_replica
from netfl.scenario.recording import EventFilter
from netfl.types import (
    KINDS,
    Delivery,
    Event,
    Ints,
    LearnerReport,
    LinkReport,
    Merge,
    MergedModel,
    Round,
    check_kind,
    check_table,
)

if TYPE_CHECKING:
    import pandas as pd

_METRIC = Column("metric", "word", "name of the metric")
_VALUE = Column("value", "double", "value of the metric")
_DELIVERY_KEY = (
    REPLICA,
    ROUND,
    USER,
    Column("base", "int64", "version from which the delivered update started"),
    Column("arrived_s", "double", "arrival of the update"),
)
"""Columns that name a delivery."""

TABLES: Mapping[str, tuple[Column, ...]] = {
    "rounds": (REPLICA, *columns_of(Round)),
    "deliveries": (REPLICA, ROUND, *columns_of(Delivery)),
    "events": (
        REPLICA,
        Column("time_s", "double", "simulated time"),
        Column("kind", "word", "kind of the event"),
        Column("user", "int64", "the user concerned; -1 for none"),
        Column("node", "word", "the tower, router or server concerned, such as ``tower:0``"),
        ROUND,
        Column("value", "double", "a number that depends on the kind"),
        Column("detail", "word", "one more word, such as the cause of a failure"),
        Column("traffic", "word", "class of traffic of a packet; empty for an update", default=""),
    ),
    "attempts": (REPLICA, *columns_of(Attempt)),
    "merges": (REPLICA, ROUND, PLACE_OF_MERGE, *columns_of(Merge)),
    "merged_models": (REPLICA, ROUND, *columns_of(MergedModel)),
    "merged_updates": (
        *_DELIVERY_KEY,
        Column("node", "int64", "the node that it reached"),
        Column("number", "int64", "number of the version that it helped to make there"),
    ),
    "erasures": (
        *_DELIVERY_KEY,
        Column("part", "int64", "number of a part of it that did not arrive, from 0"),
        Column("parts", "int64", "number of its parts"),
    ),
    "delivery_towers": (
        *_DELIVERY_KEY,
        Column("tower", "word", "name of the tower that received it, such as ``tower:0``"),
    ),
    "lost_trainings": (
        *_DELIVERY_KEY,
        Column("place", "int32", "place of the training before that of the update, from 0, in the order of time"),
        Column("lost_base", "int64", "number of the version from which the user trained in vain"),
    ),
    "not_summed": (
        REPLICA,
        ROUND,
        Column("user", "int64", "user whose update the sum in the air of this round left out"),
        Column("base", "int64", "version from which it was trained"),
    ),
    "links": (
        *_DELIVERY_KEY,
        *(
            replace(column, default=None if column.arrow_type == "int32" else math.nan)
            for column in columns_of(LinkReport)
        ),
    ),
    "metrics": (
        Column("learner", "word", "the learner, or the choice among learners; empty for values of the network"),
        REPLICA,
        ROUND,
        Column("time_s", "double", "simulated time at which the round closed"),
        _METRIC,
        Column("group", "word", "the class, user, level or layer concerned; empty for all examples"),
        _VALUE,
    ),
    "final_metrics": (REPLICA, _METRIC, _VALUE),
    "candidates": (
        Column("replica", "int64", "the replica that is tuned by itself; 0 where all have one choice", default=0),
        Column("learner", "word", "the learner"),
        Column("pass", "int64", "number of the pass in which the candidate was trained, from 1"),
        Column("lr", "double", "step size"),
        Column("step", "double", "effective step; empty if the weights have no bound", default=math.nan),
        Column("settings", "word", "values of further keys, such as ``batch_size=8``; empty without any"),
        Column("value", "double", "criterion, mean over validation replicas; empty if it diverged", default=math.nan),
        Column("half", "double", "half width of its 95 % t interval; empty for one replica", default=math.nan),
        Column("replicas", "int64", "number of validation replicas"),
        Column("diverged", "int64", "number of those in which training diverged"),
        Column(
            "over_classes",
            "double",
            "mean of the accuracies of all classes on validation examples; empty if it is not compared",
            default=math.nan,
        ),
        Column(
            "alive",
            "int64",
            "1 for a candidate that has learned something, without which it is never chosen",
            default=1,
        ),
        Column("chosen", "int64", "1 for the candidate that runs, 0 for others"),
    ),
}
"""Columns of the tables; other tables, such as ``users``, have columns that depend on the scenario."""


def _arrow_type(column: Column) -> pa.DataType:
    if column.arrow_type == "word":
        return pa.dictionary(pa.int32(), pa.string())
    return pa.type_for_alias(column.arrow_type)


SCHEMAS = {
    table: pa.schema({column.name: _arrow_type(column) for column in columns}) for table, columns in TABLES.items()
}
"""Arrow schemas of the tables."""

GROWING = (
    "rounds",
    "deliveries",
    "merges",
    "merged_models",
    "merged_updates",
    "erasures",
    "delivery_towers",
    "lost_trainings",
    "not_summed",
    "links",
    "events",
    "attempts",
    "metrics",
)
"""Tables that grow during a run; the others are written at once."""

OF_SOME_RUNS = frozenset(
    {
        "attempts",
        "merges",
        "merged_models",
        "merged_updates",
        "erasures",
        "delivery_towers",
        "lost_trainings",
        "not_summed",
        "links",
    }
)
"""Growing tables of runs whose scenario or access asks for them; they may be missing."""

CHUNK = 1 << 16
"""Number of rows that are gathered before they are written, and of rows in a row group of a Parquet file."""


STREAM_BYTES = 2000
"""Bytes of a stream beside its rows: its schema and the headers of its batches."""

_COMPRESSED = pa.ipc.IpcWriteOptions(compression="lz4")
"""Compression of streams: LZ4 takes little time, and about as much space as Parquet."""


def stream_of(folder: Path, name: str) -> Path:
    """Return the file in which a table grows."""
    return folder / f"{name}.arrows.part"


def read_stream(path: Path) -> pa.Table:
    """Return the rows of an unfinished table, up to where a crash has cut off its file.

    Args:
        path: of `stream_of`.

    Raises:
        MachineError: its columns are not those of the table.
        ScenarioError: a newer netfl wrote it.
    """
    schema = SCHEMAS[path.name.partition(".")[0]]
    batches = []
    with suppress(OSError, pa.ArrowException), pa.OSFile(str(path)) as file:  # rows end where the file is damaged
        while file.tell() < file.size():
            for batch in pa.ipc.open_stream(file):
                batches.append(batch)  # noqa: PERF402 - keeps the batches before the damage
    if batches:
        check_stamp(batches[0].schema.metadata, path)
        if not batches[0].schema.equals(schema):
            columns = ", ".join(batches[0].schema.names)
            raise unreadable_file(path, ValueError(f"its columns are {columns}"))
    rows = pa.Table.from_batches(batches, schema).unify_dictionaries()
    return rows.take(pa.array(np.argsort(rows["replica"].to_numpy(), kind="stable")))


def write_parquet(path: Path, schema: pa.Schema, batches: Iterable[pa.RecordBatch | pa.Table]) -> None:
    """Write rows to a Parquet file with checksums of its pages; the same rows give the same bytes.

    Args:
        path: the file.
        schema: the columns.
        batches: the rows, divided in any way.
    """
    schema = schema.with_metadata({**(schema.metadata or {}), **STAMP})
    held: list[pa.Table] = []
    size = 0
    with pq.ParquetWriter(absolute_path(path), schema, write_page_checksum=True) as writer:
        for batch in batches:
            rows = batch if isinstance(batch, pa.Table) else pa.Table.from_batches([batch])
            held.append(rows)
            size += len(rows)
            while size >= CHUNK:
                gathered = pa.concat_tables(held)
                writer.write_table(_row_group(gathered.slice(0, CHUNK), schema))
                held = [gathered.slice(CHUNK)]
                size -= CHUNK
        if size:
            writer.write_table(_row_group(pa.concat_tables(held), schema))


def _row_group(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return *rows* with dictionaries of the words that occur in them, in the order of their first occurrence."""
    columns = []
    for column, field in zip(rows.columns, schema, strict=True):
        if pa.types.is_dictionary(field.type):
            whole = column.cast(field.type.value_type).combine_chunks()
            columns.append(whole.dictionary_encode().cast(field.type))
        else:
            columns.append(column)
    return pa.Table.from_arrays(columns, schema=schema)


class _GatheredRows:
    """Rows that are gathered until they are sorted.

    Args:
        name: the table.
        schema: its columns.
    """

    def __init__(self, name: str, schema: pa.Schema) -> None:
        self._time = TIMES.get(name)
        self._schema = schema
        self._chunks: list[pa.RecordBatch] = []
        self._closed: list[Ints] = []
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def append(
        self,
        columns: Sequence[pa.Array | NDArray[np.generic]],
        kept: NDArray[np.bool_] | None = None,
        closed: Ints | int = 0,
    ) -> None:
        """Add rows as whole columns in the order of the schema.

        Args:
            columns: the columns.
            kept: mask of the rows that are added; ``None`` for all.
            closed: number of the last round that had closed when the rows were recorded, one for all or one for each.
        """
        arrays = []
        for column, field in zip(columns, self._schema, strict=True):
            if isinstance(column, pa.Array):
                arrays.append(column)
            else:
                arrays.append(pa.array(column, field.type))
        batch = pa.RecordBatch.from_arrays(arrays, schema=self._schema)
        closed_of_rows = np.broadcast_to(np.asarray(closed, np.int64), batch.num_rows)
        if kept is not None and not kept.all():
            batch = batch.filter(pa.array(kept))
            closed_of_rows = closed_of_rows[kept]
        self._chunks.append(batch)
        self._closed.append(closed_of_rows)
        self._size += batch.num_rows

    def sorted_rows(self) -> pa.Table:
        """Return the rows in their order."""
        rows = pa.Table.from_batches(self._chunks, self._schema).unify_dictionaries()
        if self._time is None or not self._size:
            return rows
        rows = rows.combine_chunks()
        return rows.take(pa.array(row_order(rows, self._time, np.concatenate(self._closed))))

    def clear(self) -> None:
        """Remove all rows."""
        self._chunks = []
        self._closed = []
        self._size = 0


class TableWriter:
    """Growing table: a sequence of streams until it is finished, then a Parquet file.

    Each stream holds rows of one replica, in their order.

    Attributes:
        places: place of each stream in the file, by replica.
        rows: number of rows that are written.
        stream_bytes: size of all streams.
    """

    def __init__(self, folder: Path, name: str, schema: pa.Schema) -> None:
        self._final = folder / f"{name}.parquet"
        self._part = temp_path(self._final)
        self._schema = schema
        self._rows = _GatheredRows(name, schema)
        self.append = self._rows.append
        self._path = stream_of(folder, name)
        self._file = pa.OSFile(str(self._path), "wb")
        self.places: dict[int, list[int]] = {}
        self.rows = 0
        self.stream_bytes = 0

    @property
    def is_full(self) -> bool:
        """True if a chunk can be written."""
        return len(self._rows) >= CHUNK

    def flush(self) -> None:
        """Write the gathered rows, which are those of whole rounds."""
        if not len(self._rows):
            return
        for replica, rows in split_by_replica(self._rows.sorted_rows()):
            self.places.setdefault(replica, []).append(self._file.tell())
            with pa.ipc.new_stream(self._file, self._schema.with_metadata(STAMP), options=_COMPRESSED) as stream:
                stream.write_table(rows)
        self._file.flush()
        self.rows += len(self._rows)
        self.stream_bytes = self._file.tell()
        self._rows.clear()

    def finish(self) -> None:
        """Write all rows as a Parquet file, which `publish` gives its name."""
        if self._file.closed:
            return
        self.flush()
        self._file.close()
        write_parquet(self._part, self._schema, self._batches())

    def publish(self) -> None:
        """Give the finished file its name, unless it has it."""
        if self._part.exists():
            publish_file(self._part, self._final)
            self._path.unlink(missing_ok=True)

    def abandon(self) -> None:
        """Remove the unfinished files, for example after a disk error."""
        self._rows.clear()
        with suppress(OSError):  # the disk may fail again
            self._file.close()
        for path in (self._path, self._part):
            path.unlink(missing_ok=True)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows replica by replica."""
        with pa.OSFile(str(self._path)) as file:
            for replica in sorted(self.places):
                for place in self.places[replica]:
                    file.seek(place)
                    yield from pa.ipc.open_stream(file)


class MemoryTable:
    """Table of rows that are kept in memory, in place of a `TableWriter`."""

    def __init__(self, name: str) -> None:
        self._schema = SCHEMAS[name]
        self._rows = _GatheredRows(name, self._schema)
        self.append = self._rows.append

    def __len__(self) -> int:
        return len(self._rows)

    def read(self) -> pa.Table:
        """Return all rows, as they are in the file of a run."""
        return _row_group(self._rows.sorted_rows(), self._schema)


def order_learners(table: pd.DataFrame, learners: Sequence[str]) -> pd.DataFrame:
    """Return a table whose learners are categories in the order of the scenario, which groups and plots then have."""
    if "learner" not in table or table["learner"].dtype != "category":
        return table
    others = [name for name in table["learner"].cat.categories if name not in learners]
    return table.assign(learner=table["learner"].cat.set_categories([*learners, *others]))


def dictionary_column(values: Sequence[str], counts: NDArray[np.int64] | None = None) -> pa.Array:
    """Return a dictionary column in which each of *values* is repeated *counts* times."""
    encoded = pa.array(values, pa.string()).dictionary_encode()
    if counts is None:
        return encoded
    codes = np.repeat(encoded.indices.to_numpy(zero_copy_only=False), counts)
    return pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32()), encoded.dictionary)


def merge_columns(replica: int, rounds: Sequence[Round]) -> list[Any]:
    """Return the columns of the table ``merges`` for *rounds* of a replica: a row for each of ``Round.merges``."""
    rows = [(round_.index, place, merge) for round_ in rounds for place, merge in enumerate(round_.merges)]
    numbers = np.array([(replica, index, place) for index, place, _ in rows], np.int64).reshape(-1, 3)
    return [*numbers.T, *to_arrays(Merge, [merge for _, _, merge in rows]).values()]


def merged_model_columns(replica: int, rounds: Sequence[Round]) -> list[Any]:
    """Return the columns of the table ``merged_models`` for *rounds* of a replica: a row for each model of a merge."""
    rows = [(round_.index, model) for round_ in rounds for merge in round_.merges for model in merge.merged_models()]
    numbers = np.array([(replica, index) for index, _ in rows], np.int64).reshape(-1, 2)
    return [*numbers.T, *to_arrays(MergedModel, [model for _, model in rows]).values()]


def merged_update_columns(replica: int, rounds: Sequence[Round]) -> list[Any]:
    """Return the columns of the table ``merged_updates`` for *rounds*: a row for each delivery below the server."""
    rows = [
        (replica, round_.index, delivery.user, delivery.base, delivery.arrived_s, merge.node, merge.number)
        for round_ in rounds
        for merge in round_.merges
        for delivery in merge.deliveries
    ]
    if not rows:
        return [[] for _ in TABLES["merged_updates"]]
    return [*zip(*rows, strict=True)]


def erasure_columns(replica: int, rounds: Sequence[Round]) -> list[Any]:
    """Return the columns of the table ``erasures`` for *rounds* of a replica: a row for each part that is lost."""
    rows = []
    for round_ in rounds:
        for delivery in round_.all_deliveries():
            if delivery.received is None:  # all parts arrived
                continue
            key = (replica, round_.index, delivery.user, delivery.base, delivery.arrived_s)
            lost = [part for part, is_received in enumerate(delivery.received) if not is_received]
            rows += [(*key, part, len(delivery.received)) for part in lost]
    if not rows:
        return [[] for _ in TABLES["erasures"]]
    return [*zip(*rows, strict=True)]


def delivery_tower_columns(replica: int, rounds: Sequence[Round]) -> list[Any]:
    """Return the columns of the table ``delivery_towers`` for *rounds*: a row for each delivery that has a tower."""
    rows = [
        (replica, round_.index, delivery.user, delivery.base, delivery.arrived_s, delivery.tower)
        for round_ in rounds
        for delivery in round_.all_deliveries()
        if delivery.tower
    ]
    if not rows:
        return [[] for _ in TABLES["delivery_towers"]]
    *key, towers = zip(*rows, strict=True)
    return [*key, dictionary_column(towers)]


def lost_training_columns(replica: int, rounds: Sequence[Round]) -> list[Any]:
    """Return the columns of the table ``lost_trainings`` for *rounds*: a row for each training in vain."""
    rows = [
        (replica, round_.index, delivery.user, delivery.base, delivery.arrived_s, place, lost_base)
        for round_ in rounds
        for delivery in round_.all_deliveries()
        for place, lost_base in enumerate(delivery.lost_bases)
    ]
    if not rows:
        return [[] for _ in TABLES["lost_trainings"]]
    return [*zip(*rows, strict=True)]


def not_summed_columns(replica: int, rounds: Sequence[Round]) -> list[Any]:
    """Return the columns of the table ``not_summed`` for *rounds*: a row for each update that a sum left out."""
    rows = [(replica, round_.index, user, base) for round_ in rounds for user, base in round_.not_summed]
    if not rows:
        return [[] for _ in TABLES["not_summed"]]
    return [*zip(*rows, strict=True)]


def link_columns(replica: int, rounds: Sequence[Round]) -> list[Any]:
    """Return the columns of the table ``links`` for *rounds* of a replica: a row for each delivery that has a link."""
    keys = []
    links = []
    for round_ in rounds:
        for delivery in round_.all_deliveries():
            if delivery.link is not None:
                keys.append((replica, round_.index, delivery.user, delivery.base, delivery.arrived_s))
                links.append(delivery.link)
    if not keys:
        return [[] for _ in TABLES["links"]]
    return [*zip(*keys, strict=True), *to_arrays(LinkReport, links).values()]


def metric_columns(
    report: LearnerReport, lanes: Sequence[tuple[str, int]], closed_s: NDArray[np.float64]
) -> tuple[list[Any], NDArray[np.bool_]]:
    """Return the columns of the table ``metrics`` for a report, and the mask of the rows that lanes have.

    Args:
        report: an evaluation.
        lanes: learner and replica of each lane.
        closed_s: simulated time of each lane, ``[lanes]``.
    """
    learners, replicas = zip(*lanes, strict=True)
    names = [name.partition("/") for name in report.metrics]
    repeated = np.full(len(names), len(lanes))
    values = np.concatenate([np.asarray(of_lanes, float) for of_lanes in report.metrics.values()])
    columns = [
        dictionary_column(learners * len(names)),
        np.tile(np.array(replicas, np.int32), len(names)),
        np.full(len(values), report.round),
        np.tile(closed_s, len(names)),
        dictionary_column([metric for metric, _, _ in names], repeated),
        dictionary_column([group for _, _, group in names], repeated),
        values,
    ]
    return columns, ~np.isnan(values)


def access_metric_columns(report: LearnerReport, replicas: range, closed_s: NDArray[np.float64]) -> list[Any]:
    """Return the columns of the table ``metrics`` for what accesses report, without a learner; NaN has no row.

    Args:
        report: an evaluation, or in a trace a round.
        replicas: the replicas of the run.
        closed_s: simulated time of each replica, ``[replicas]``.
    """
    rows = [
        ("", replica, report.round, closed_s[place], name, "", values[place])
        for name, values in report.of_access.items()
        for place, replica in enumerate(replicas)
        if not np.isnan(values[place])
    ]
    if not rows:
        return [[] for _ in TABLES["metrics"]]
    learners, numbers, rounds, times_s, names, groups, of_rows = zip(*rows, strict=True)
    columns = [dictionary_column(learners), numbers, rounds, times_s, dictionary_column(names)]
    return [*columns, dictionary_column(groups), of_rows]


class _RecordedEvents(NamedTuple):
    """Words of the events of one call of `EventRecorder.record`, their number, and the last round that had closed."""

    size: int
    closed: int
    kind: str
    round: int
    node: str
    detail: str
    traffic: str


class EventRecorder:
    """Recorder of one replica: counts all events, and stores those events and attempts that the filter keeps.

    Args:
        table: the table ``events``.
        replica: number of the replica.
        keeping: the filter.
        attempts: the table ``attempts``; ``None`` if the filter keeps none.
        own_metrics: names of metrics that the access declares, as `AccessInfo.metrics`.

    Attributes:
        counts: number of events of each kind.
        values: metrics of the whole replica.
        by_user: columns ``[users]`` of the tables ``users`` and ``energy`` that are known at the end of the replica.
        closed: number of the last round that has closed.
        reported: what the selection and the allocation have reported.
    """

    def __init__(
        self,
        table: TableWriter | MemoryTable,
        replica: int,
        keeping: EventFilter,
        attempts: TableWriter | MemoryTable | None = None,
        own_metrics: Collection[str] = (),
    ) -> None:
        self._table = table
        self._replica = replica
        self._keeping = keeping
        self._attempts = attempts
        self._own_metrics = own_metrics
        # stored events, gathered until the next flush: numbers of each row, and words of each call of `record`
        self._times_s = array("d")
        self._users = array("q")
        self._values = array("d")
        self._calls = list[_RecordedEvents]()
        self.counts = dict.fromkeys(KINDS, 0)
        self.values: dict[str, float] = {}
        self.by_user: dict[str, Mapping[str, NDArray[Any]]] = {}
        self.closed = 0
        self.reported = ReportedMeans()

    def wants(self, kind: str) -> bool:
        """Return whether events of *kind*, or rows of the table ``attempts``, are recorded."""
        if kind == "attempts":
            return self._attempts is not None
        check_kind(kind)
        return kind in self._keeping.kinds

    def record(self, event: Event) -> None:
        """Count one event or many, and store them if the filter keeps them."""
        check_kind(event.kind)
        times_s = np.asarray(event.time_s, np.float64)
        users = np.asarray(event.user, np.int64)
        values = np.asarray(event.value, np.float64)
        size = int(np.broadcast(times_s, users, values).size)
        self.counts[event.kind] += size
        if not size or not self._keeping.wants(event.kind, event.round):
            return
        if self._keeping.users is not None:
            times_s, users, values = np.broadcast_arrays(times_s, users, values)
            kept = self._keeping.of(users)
            times_s = times_s[kept]
            users = users[kept]
            values = values[kept]
            size = users.size
            if not size:
                return
        for buffer, numbers in ((self._times_s, times_s), (self._users, users), (self._values, values)):
            of_rows = numbers if numbers.size == size else np.full(size, numbers)  # one number for all rows
            buffer.frombytes(of_rows.tobytes())
        call = _RecordedEvents(size, self.closed, event.kind, event.round, event.node, event.detail, event.traffic)
        self._calls.append(call)
        if len(self._users) >= CHUNK:
            self.flush()

    def final_metrics(self, values: Mapping[str, float]) -> None:
        """Keep metrics of the whole replica."""
        check_declared(values, self._own_metrics)
        self.values.update(values)

    def round_metrics(self, round: int, values: Mapping[str, float]) -> None:
        """Add what a selection or an allocation reports to its means."""
        self.reported.add(values)

    def add_rows(self, table: str, columns: Mapping[str, NDArray[Any]]) -> None:
        """Store attempts that the filter keeps; keep columns of other tables until the end."""
        check_table(table)
        if table != "attempts":
            self.by_user[table] = columns
            return
        assert self._attempts is not None, "attempts are recorded only if they are wanted"
        replica = np.full(len(columns["user"]), self._replica)
        kept = self._keeping.of(columns[USER.name]) & self._keeping.of_rounds(columns[ROUND.name])
        self._attempts.append([replica, *(columns[column.name] for column in columns_of(Attempt))], kept, self.closed)

    def flush(self) -> None:
        """Pass the gathered events to the table."""
        if not self._calls:
            return
        sizes, closed, kinds, rounds, nodes, details, traffic = zip(*self._calls, strict=True)
        counts = np.array(sizes)
        self._table.append(
            [
                np.full(counts.sum(), self._replica, np.int32),
                np.array(self._times_s),
                dictionary_column(kinds, counts),
                np.array(self._users),
                dictionary_column(nodes, counts),
                np.repeat(np.array(rounds, np.int64), counts),
                np.array(self._values),
                dictionary_column(details, counts),
                dictionary_column(traffic, counts),
            ],
            closed=np.repeat(np.array(closed, np.int64), counts),
        )
        self._calls = []
        for buffer in (self._times_s, self._users, self._values):
            del buffer[:]
