"""The rounds of a recorded run."""

from __future__ import annotations

import json
import math
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
from pydantic import AfterValidator

from netfl.access import Access, AccessInfo
from netfl.columns import REPLICA, ROUND, USER, Column, columns_of, missing_defaults
from netfl.errors import Fault, ScenarioError, prefix_faults
from netfl.files.parquet import open_parquet
from netfl.files.schema import COUNT, DATA, ENERGY, LEVEL, SPAN, TIME, FileColumn, FileSchema, Quantity
from netfl.files.schema import USER as USER_NUMBER
from netfl.files.tables import UserTable, read_table
from netfl.network.periods import after_rounding
from netfl.types import (
    AccessContext,
    Bools,
    Delivery,
    Event,
    Floats,
    Ints,
    Law,
    LearnerReport,
    LinkReport,
    Round,
    ScenarioFacts,
)

_RANK = Column("rank", "int64", "place of the user in the ranking, from 0")
_ERASURES = "erasures"
"""Table of the parts of deliveries that are lost, which some runs have."""
_Key = tuple[int, int, int, float]
"""Round, user, base and time of arrival of a delivery."""
_DELIVERY_KEY = ["round", "user", "base", "arrived_s"]
"""Columns that name a delivery of a replica."""
_KEY_COLUMNS = (REPLICA, ROUND, USER, Column("base", "int64", ""), Column("arrived_s", "double", ""))
"""These columns, and that of the replica."""
_ERASURE_COLUMNS = (
    *_KEY_COLUMNS,
    Column("part", "int64", ""),
    Column("parts", "int64", ""),
)
_LINKS = "links"
"""Table of how deliveries came over the air, which some runs have."""
_LINK_COLUMNS = (
    *_KEY_COLUMNS,
    *(replace(column, default=math.nan) for column in columns_of(LinkReport) if column.arrow_type == "double"),
    Column("mode", "int32", "", field="mode"),
)
"""Columns of this table, in any order; quantities may be unknown."""
_FROM_ONE = replace(COUNT, lowest=1.0, remedy="write a whole number from 1 on")
_QUANTITIES = {
    "user": USER_NUMBER,
    "round": _FROM_ONE,
    "attempts": _FROM_ONE,
    "parts": _FROM_ONE,
    "airtime_s": SPAN,
    "energy_J": ENERGY,
    "snr_db": LEVEL,
    "gain_db": LEVEL,
    "uplink_bits": DATA,
    "downlink_bits": DATA,
}
"""Contents of columns; all others are whole numbers from 0 on or, with the unit in their names, times."""


def _file_column(column: Column) -> FileColumn:
    """Return the declaration of a *column* in a file."""
    quantity: Quantity = replace(TIME, form="number") if column.name.endswith("_s") else COUNT
    return FileColumn(
        column.name,
        _QUANTITIES.get(column.name, quantity),
        is_needed=column.default is None,
        empty="not known" if column.can_be_empty else "",
        takes_infinity=column.can_be_empty,
    )


def _schema(table: str, *columns: Column) -> FileSchema:
    return FileSchema(f"access `replay`, {table}", *map(_file_column, columns))


SCHEMAS = {
    "rounds": _schema("rounds", REPLICA, *columns_of(Round)),
    "deliveries": _schema("deliveries", REPLICA, ROUND, *columns_of(Delivery)),
    _ERASURES: _schema(_ERASURES, *_ERASURE_COLUMNS),
    _LINKS: _schema(_LINKS, *_LINK_COLUMNS),
    "users": _schema("users", REPLICA, USER, _RANK),
}
"""Declared columns of the tables that are read."""


class Replay(Access):
    """The exact rounds and deliveries of a recorded run; replica r replays the recorded replica r.

    Reads ``rounds.parquet`` and ``deliveries.parquet``, so that a recording of real devices, or of another simulator,
    can be put in their place: ``rounds`` holds replica, round, opened_s, closed_s, delivered and oldest, and perhaps
    uplink_bits, downlink_bits and energy_J; ``deliveries`` holds replica, round, user, base, sent_s and arrived_s, and
    perhaps attempts, in the order of arrival.  The defaults of columns that are missing are those of `Round` and
    `Delivery`.  If there is a table ``erasures``, it holds the parts of deliveries that were lost: replica, round,
    user, base and arrived_s of the delivery, the number of the part, and the number of the parts of the update.  A
    table ``links`` holds how each delivery came over the air: replica, round, user, base and arrived_s of the delivery,
    mode, and perhaps snr_db, gain_db, airtime_s and energy_J.

    A recording has to be possible: rounds are numbered 1, 2, 3, … in each replica; times are finite and ordered; an
    update is sent before it arrives, within its round, with at least one attempt; and its base is a version before the
    round that is not older than ``oldest`` of the round before.  A delivery has lost some of its parts, but not all.

    Example::

        kind: replay
        run: runs/bernoulli-001
    """

    run: Annotated[Path, AfterValidator(Path.absolute)]
    """The run directory, or any folder with the two tables; a relative path starts at the current directory."""

    def rounds(self, context: AccessContext) -> Generator[Round, LearnerReport | None, None]:
        recording = _Recording(self.run)
        faults = [*recording.faults([context.replica], context.users, context.rounds, context.stop_s)]
        if faults:
            raise ScenarioError(faults)
        rounds, deliveries = recording.replica(context.replica)
        received = recording.received(context.replica)
        links: Mapping[_Key, LinkReport] = {}
        if context.reports_links:
            links = recording.links(context.replica)
        if context.stop_s is not None:
            rounds = rounds[rounds["closed_s"] <= after_rounding(context.stop_s)]
        updates = _fields(deliveries, Delivery)
        # the last round in which an update from each version arrives
        last_round = dict(zip(deliveries["base"].tolist(), deliveries["round"].tolist(), strict=True))
        for values in islice(_fields(rounds, Round), context.rounds):
            index = values["index"]
            delivered = values["deliveries"]  # the column holds their number
            deliveries_of_round = [Delivery(**update) for update in islice(updates, delivered)]
            if received or links:
                deliveries_of_round = [_with_parts(each, index, received, links) for each in deliveries_of_round]
            values["deliveries"] = tuple(deliveries_of_round)
            if math.isnan(values["energy_j"]):
                values["energy_j"] = None
            needed = None
            if values["oldest"] != index:  # older versions are needed, but perhaps not all from the oldest on
                needed = tuple(sorted(base for base, last in last_round.items() if base < index < last))
            recorded = Round(**values, needed=needed)
            _record(context, recorded)
            yield recorded

    def max_deliveries(self, users: int, rounds: int) -> int:
        """Return the largest recorded number; 1 if the recording cannot be read, which is an error elsewhere."""
        try:
            table, _ = _read_columns(self.run, "rounds", (REPLICA, *columns_of(Round)))
            return int(table["delivered"][table["round"] <= rounds].max())
        except (ScenarioError, ValueError):
            return 1

    @property
    def info(self) -> AccessInfo:
        return replace(
            super().info,
            has_ranking=self._has_ranking,
            billing="recorded",
            can_stop=True,
            has_delays=self._has_delays,
            can_erase=self._has_erasures,
            link_values=self._link_values,
        )

    @property
    def _link_values(self) -> frozenset[str]:
        """Fields of ``Delivery.link`` that all recorded deliveries have; none if the table cannot be read."""
        if not (self.run / f"{_LINKS}.parquet").is_file():
            return frozenset()
        try:
            table, _ = _read_columns(self.run, _LINKS, _LINK_COLUMNS)
        except ScenarioError:  # an error of `faults`
            return frozenset()
        return frozenset(column.field for column in columns_of(LinkReport) if not table[column.name].isna().any())

    @property
    def _has_delays(self) -> bool:
        """True unless the recorded run has a summary without delays, as that of a direct access."""
        try:
            summary = json.loads((self.run / "summary.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):  # a table of another program, or an unfinished run
            return True
        return "delay_mean_s" in summary

    @property
    def _has_erasures(self) -> bool:
        return (self.run / f"{_ERASURES}.parquet").is_file()

    @property
    def _has_ranking(self) -> bool:
        path = self.run / "users.parquet"
        if not path.is_file():
            return False
        with open_parquet(path) as file:
            return _RANK.name in file.schema_arrow.names

    def ranking(self, context: AccessContext) -> Ints | None:
        """Return the ranking of the recorded run, so that the same users hold the same data."""
        if not self._has_ranking:
            return None
        table, read = _read_columns(self.run, "users", (REPLICA, USER, _RANK))
        with prefix_faults("run"):
            read.check()
        ranked = table[table["replica"] == context.replica].sort_values("rank")
        return np.asarray(ranked["user"], np.int64)

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        try:
            recording = _Recording(self.run)
        except ScenarioError as error:
            yield from error.faults
            return
        recorded = int(recording.rounds["replica"].nunique())
        if 0 < recorded < facts.replicas:
            problem = f"{recorded} replicas are recorded, the scenario needs {facts.replicas}"
            yield Fault("run", problem, remedy="set fewer replicas")
        replicas = range(max(1, min(recorded, facts.replicas)))
        yield from recording.faults(replicas, facts.users, facts.rounds, facts.stop_s)

    def warnings(self, context: AccessContext) -> Iterator[str]:
        """Yield a warning about a recording that ends more than its longest round before ``context.stop_s``."""
        if context.stop_s is None:
            return
        rounds, _ = _Recording(self.run).replica(context.replica)
        end_s = float(rounds["closed_s"].iloc[-1])
        longest_s = float((rounds["closed_s"] - rounds["opened_s"]).max())
        if len(rounds) < context.rounds and end_s + longest_s < context.stop_s:
            yield f"short recording: {self.run} ends at {end_s:.6g} s, before the duration of {context.stop_s:.6g} s"

    def laws(self) -> tuple[Law, ...]:
        return (Law.none("a recording: nothing is drawn"),)


def _fields(table: pd.DataFrame, rows: type) -> Iterator[dict[str, Any]]:
    """Yield the values of each row by the fields of the dataclass *rows* that hold them, as Python objects."""
    columns = columns_of(rows)
    names = [column.field for column in columns]
    for row in zip(*(table[column.name].tolist() for column in columns), strict=True):
        yield dict(zip(names, row, strict=True))


def _with_parts(
    delivery: Delivery, index: int, received: Mapping[_Key, tuple[bool, ...]], links: Mapping[_Key, LinkReport]
) -> Delivery:
    """Return a delivery of round *index* with the parts that arrived, and with its link if there are *links*."""
    key = _key(index, delivery)
    link = None
    if links:
        link = links[key]
    return replace(delivery, received=received.get(key), link=link)


def _key(index: int, delivery: Delivery) -> _Key:
    """Return the values of `_DELIVERY_KEY` of a delivery in round *index*.

    A user may deliver twice in a round from one base, but not at one time.
    """
    return index, delivery.user, delivery.base, delivery.arrived_s


class _Recording:
    """The rounds and deliveries of all replicas, by replica and round, with their rows in the files as index.

    Raises:
        ScenarioError: a table cannot be read; the key is ``run``.
    """

    def __init__(self, folder: Path) -> None:
        order = ["replica", "round"]
        rounds, self._round_rows = _read_columns(folder, "rounds", (REPLICA, *columns_of(Round)))
        deliveries, self._delivery_rows = _read_columns(folder, "deliveries", (REPLICA, ROUND, *columns_of(Delivery)))
        self.rounds = rounds.sort_values(order, kind="stable")
        self.deliveries = deliveries.sort_values(order, kind="stable")
        self._erasures = pd.DataFrame()
        self._erasure_rows: UserTable | None = None
        if (folder / f"{_ERASURES}.parquet").is_file():
            self._erasures, self._erasure_rows = _read_columns(folder, _ERASURES, _ERASURE_COLUMNS)

        self._links = pd.DataFrame()
        self._link_rows: UserTable | None = None
        if (folder / f"{_LINKS}.parquet").is_file():
            self._links, self._link_rows = _read_columns(folder, _LINKS, _LINK_COLUMNS)

    def links(self, replica: int) -> dict[_Key, LinkReport]:
        """Return ``Delivery.link`` of the deliveries of a replica, by their `_key`; empty if there is no such table."""
        if self._link_rows is None:
            return {}
        of_replica = self._links[self._links["replica"] == replica]
        keys = zip(*(of_replica[name].tolist() for name in _DELIVERY_KEY), strict=True)
        reports = (LinkReport(**report) for report in _fields(of_replica, LinkReport))
        return dict(zip(keys, reports, strict=True))

    def received(self, replica: int) -> dict[_Key, tuple[bool, ...]]:
        """Return ``Delivery.received`` of the deliveries of a replica that lack parts, by their `_key`."""
        if self._erasure_rows is None:
            return {}
        of_replica = self._erasures[self._erasures["replica"] == replica]
        received: dict[_Key, list[bool]] = {}
        columns = (of_replica[name].tolist() for name in (*_DELIVERY_KEY, "part", "parts"))
        for index, user, base, arrived_s, part, parts in zip(*columns, strict=True):
            received.setdefault((index, user, base, arrived_s), [True] * parts)[part] = False
        return {key: tuple(parts) for key, parts in received.items()}

    def replica(self, replica: int) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Return the rounds and the deliveries of a replica."""
        parts = []
        for table in (self.rounds, self.deliveries):
            first, last = np.searchsorted(table["replica"], [replica, replica + 1])
            parts.append(table.iloc[first:last])
        return parts[0], parts[1]

    def faults(self, replicas: Iterable[int], users: int, wanted: int, stop_s: float | None) -> Iterator[Fault]:
        """Yield the reasons why *replicas* cannot serve this number of *users* and *wanted* rounds.

        With *stop_s*, fewer rounds than *wanted* may close in time, so that any number is enough.
        """
        for replica in replicas:
            rounds, deliveries = self.replica(replica)
            if rounds.empty:
                yield Fault("run", "no such replica is recorded", remedy="set fewer replicas")
                continue
            if stop_s is None and len(rounds) < wanted:
                problem = f"{len(rounds)} rounds are recorded, the scenario has {wanted}"
                yield Fault("run", problem, remedy="set fewer rounds")
            self._check_rounds(rounds, deliveries)
            self._check_deliveries(rounds, deliveries, users)
            self._check_erasures(replica, deliveries)
            self._check_links(replica, deliveries)
        tables = (self._round_rows, self._delivery_rows, self._erasure_rows, self._link_rows)
        for table in (table for table in tables if table is not None):
            yield from (fault.under("run") for fault in table.faults)

    def _check_rounds(self, rounds: pd.DataFrame, deliveries: pd.DataFrame) -> None:
        table = _Rows(self._round_rows, rounds)
        number = rounds["round"].to_numpy()
        table.refuse(number != np.arange(1, len(number) + 1), "rounds are not numbered 1, 2, 3, …", "round")
        opened_s = rounds["opened_s"].to_numpy()
        closed_s = rounds["closed_s"].to_numpy()
        before_s = np.concatenate([[-np.inf], closed_s[:-1]])
        table.refuse(opened_s < before_s, "times are not ascending: it opens before the last one closed", "opened_s")
        table.refuse(closed_s < opened_s, "times are not ascending: it closes before it opens", "closed_s")
        table.refuse(rounds["oldest"].to_numpy() > number, "oldest is a later version", "oldest")
        first, last = (np.searchsorted(deliveries["round"], number, side) for side in ("left", "right"))
        table.refuse(
            rounds["delivered"].to_numpy() != last - first,
            "rounds and deliveries disagree on the number of deliveries",
            "delivered",
        )

    def _check_deliveries(self, rounds: pd.DataFrame, deliveries: pd.DataFrame, users: int) -> None:
        table = _Rows(self._delivery_rows, deliveries)
        round_ = deliveries["round"].to_numpy()
        is_known = (round_ >= 1) & (round_ <= len(rounds))
        table.refuse(~is_known, "no such round is recorded", "round")
        place = np.where(is_known, round_ - 1, 0)
        table.refuse(deliveries["user"].to_numpy() >= users, f"no such user: there are {users} users", "user")
        base = deliveries["base"].to_numpy()
        table.refuse(base >= round_, "it starts from a version later than its round", "base")
        oldest = np.maximum.accumulate(rounds["oldest"].to_numpy())
        kept = np.concatenate([[0], oldest[:-1]])  # the oldest version that the rounds before have left
        table.refuse(base < kept[place], "it starts from a version older than oldest of the round before", "base")
        sent_s = deliveries["sent_s"].to_numpy()
        arrived_s = deliveries["arrived_s"].to_numpy()
        table.refuse(arrived_s < sent_s, "it arrives before it is sent", "arrived_s")
        closed_s = rounds["closed_s"].to_numpy()
        called_s = np.minimum(rounds["opened_s"].to_numpy(), np.append(0.0, closed_s[:-1]))
        # an update may arrive while users answer the call before its round
        is_outside = (arrived_s < called_s[place]) | (arrived_s > closed_s[place])
        table.refuse(is_outside, "it arrives outside of its round", "arrived_s")
        is_earlier = np.diff(arrived_s, prepend=-np.inf) < 0.0
        is_same_round = np.diff(round_, prepend=0) == 0
        table.refuse(
            is_earlier & is_same_round, "it arrives before the row above: times are not ascending", "arrived_s"
        )

    def _check_erasures(self, replica: int, deliveries: pd.DataFrame) -> None:
        if self._erasure_rows is None:
            return
        erasures = self._erasures[self._erasures["replica"] == replica]
        table = _Rows(self._erasure_rows, erasures)
        part = erasures["part"].to_numpy()
        parts = erasures["parts"].to_numpy()
        table.refuse(part >= parts, "no such part", "part")
        is_delivered = pd.MultiIndex.from_frame(erasures[_DELIVERY_KEY]).isin(
            pd.MultiIndex.from_frame(deliveries[_DELIVERY_KEY])
        )
        table.refuse(~is_delivered, "no such delivery of the user is recorded in this round", "user")
        of_delivery = erasures.groupby(_DELIVERY_KEY)
        first = of_delivery["parts"].transform("first").to_numpy()
        table.refuse(parts != first, "a row above has another number of parts for this delivery", "parts")
        table.refuse(erasures.duplicated([*_DELIVERY_KEY, "part"]).to_numpy(), "it occurs twice", "part")
        lost = of_delivery["part"].transform("size").to_numpy()
        table.refuse(lost >= parts, "all parts are lost, but such an update is not delivered", "parts")

    def _check_links(self, replica: int, deliveries: pd.DataFrame) -> None:
        if self._link_rows is None:
            return
        links = self._links[self._links["replica"] == replica]
        table = _Rows(self._link_rows, links)
        link_keys = pd.MultiIndex.from_frame(links[_DELIVERY_KEY])
        delivery_keys = pd.MultiIndex.from_frame(deliveries[_DELIVERY_KEY])
        table.refuse(~link_keys.isin(delivery_keys), "no such delivery of the user is recorded in this round", "user")
        table.refuse(link_keys.duplicated(), "it occurs twice", "user")
        of_deliveries = _Rows(self._delivery_rows, deliveries)
        of_deliveries.refuse(~delivery_keys.isin(link_keys), f"{_LINKS}.parquet has no row for this delivery", "user")


class _Rows:
    """Some rows of a table, in another order; their index is the row in the table."""

    def __init__(self, table: UserTable, rows: pd.DataFrame) -> None:
        self._table = table
        self._rows = rows

    def refuse(self, is_wrong: Bools, problem: str, column: str) -> None:
        """Refuse rows for their value in *column*."""
        wrong = np.zeros(len(self._table), bool)
        wrong[self._rows.index[is_wrong]] = True
        self._table.refuse(
            wrong,
            lambda row: Fault("", f"{column}: {problem}", self._rows[column].loc[row].item(), "correct the recording"),
        )


def _read_columns(folder: Path, name: str, columns: Sequence[Column]) -> tuple[pd.DataFrame, UserTable]:
    """Read *columns* of a table as numbers, and the table with the errors of its cells.

    Columns that the file does not have get their defaults.

    Raises:
        ScenarioError: the file cannot be read, or a column is missing; the key is ``run``.
    """
    path = folder / f"{name}.parquet"
    if not path.is_file():
        problem = f"there is no folder {folder}"
        if folder.is_dir():
            problem = f"there is no file {path}"
        raise ScenarioError([Fault("run", problem, remedy="name the folder of a finished run")])
    schema = SCHEMAS[name]
    with prefix_faults("run"):
        table = read_table(path)
        table.require(*(column.name for column in columns if column.default is None))
    present = [column for column in columns if column.name in table]
    values = {column.name: _read_column(table, schema[column.name]) for column in present}
    return pd.DataFrame(values).assign(**missing_defaults(columns, values)), table


def _read_column(table: UserTable, column: FileColumn) -> Floats | Ints:
    if column.quantity.form == "user":
        return table.users(column)
    if column.quantity.form == "whole number":
        return table.integers(column)
    if column.empty:  # netfl writes NaN where there is no value
        return table.numbers(column, empty=math.nan)
    return table.numbers(column)


def _record(context: AccessContext, recorded: Round) -> None:
    """Record the broadcast and the deliveries; a recording does not hold the outcomes of other updates."""
    if context.recorder.wants("broadcast"):
        bits = recorded.downlink_bits
        context.recorder.record(Event("broadcast", recorded.opened_s, round=recorded.index, node="server", value=bits))
    users = [delivery.user for delivery in recorded.deliveries]
    times_s = [delivery.arrived_s for delivery in recorded.deliveries]
    context.recorder.record(Event("delivered", times_s, round=recorded.index, user=users, node="server"))
