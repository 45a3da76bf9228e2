"""The rounds of a recorded run."""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import pyarrow as pa
from pydantic import AfterValidator

from netfl.access import Access, AccessInfo
from netfl.columns import REPLICA, ROUND, USER, Column, columns_of, missing_defaults
from netfl.errors import Fault, MachineError, ScenarioError
from netfl.files import open_parquet
from netfl.types import AccessContext, Delivery, Event, Ints, Law, LearnerReport, Round, ScenarioFacts

if TYPE_CHECKING:
    import pandas as pd

_RANK = Column("rank", "int64", "place of the user in the ranking, from 0")


class Replay(Access):
    """The exact rounds and deliveries of a recorded run; replica r replays the recorded replica r.

    Reads ``rounds.parquet`` and ``deliveries.parquet``, so that a recording of real devices, or of another simulator,
    can be put in their place: ``rounds`` holds replica, round, opened_s, closed_s, delivered and oldest, and perhaps
    uplink_bits, downlink_bits and energy_J; ``deliveries`` holds replica, round, user, base, sent_s and arrived_s, and
    perhaps attempts, in the order of arrival.  The defaults of columns that are missing are those of `Round` and
    `Delivery`.

    Example::

        kind: replay
        run: runs/bernoulli-001
    """

    run: Annotated[Path, AfterValidator(Path.absolute)]
    """The run directory, or any folder with the two tables; a relative path starts at the current directory."""

    def rounds(self, context: AccessContext) -> Generator[Round, LearnerReport | None, None]:
        rounds, deliveries = self._replica(context.replica)
        faults = [*_recording_faults(rounds, deliveries, context.users, context.rounds)]
        if faults:
            raise ScenarioError(faults)
        updates = _rows(deliveries, columns_of(Delivery))
        # the last round in which an update from each version arrives
        last_round = dict(zip(deliveries["base"].tolist(), deliveries["round"].tolist(), strict=True))
        for row in islice(_rows(rounds, columns_of(Round)), context.rounds):
            values = {column.field: value for column, value in zip(columns_of(Round), row, strict=True)}
            delivered = values["deliveries"]  # the column holds their number
            values["deliveries"] = tuple(Delivery(*update) for update in islice(updates, delivered))
            if math.isnan(values["energy_j"]):
                values["energy_j"] = None
            index = values["index"]
            needed = None
            if values["oldest"] != index:  # older versions are needed, but perhaps not all from the oldest on
                needed = tuple(sorted(base for base, last in last_round.items() if base < index < last))
            recorded = Round(**values, needed=needed)
            _record(context, recorded)
            yield recorded

    def max_deliveries(self, users: int, rounds: int) -> int:
        """Return the largest recorded number; 1 if the recording cannot be read, which is an error elsewhere."""
        try:
            table = self._table("rounds", columns_of(Round))
            return int(table["delivered"][table["round"] <= rounds].max())
        except (ScenarioError, MachineError, ValueError):
            return 1

    @property
    def info(self) -> AccessInfo:
        return replace(super().info, has_ranking=self._has_ranking, billing="recorded")

    @property
    def _has_ranking(self) -> bool:
        path = self.run / "users.parquet"
        if not path.is_file():
            return False
        with open_parquet(path) as file:
            return "rank" in file.schema_arrow.names

    def ranking(self, context: AccessContext) -> Ints | None:
        """Return the ranking of the recorded run, so that the same users hold the same data."""
        if not self._has_ranking:
            return None
        table = self._table("users", (REPLICA, USER, _RANK))
        ranked = table[table["replica"] == context.replica].sort_values("rank")
        return np.asarray(ranked["user"], np.int64)

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        """Check the number of replicas and the first replica; others are checked when they are opened."""
        try:
            recorded = int(self._table("rounds", (REPLICA,))["replica"].nunique())
            if 0 < recorded < facts.replicas:
                problem = f"{recorded} replicas are recorded, the scenario has {facts.replicas}"
                yield Fault("run", problem, remedy="set fewer replicas")
            yield from _recording_faults(*self._replica(0), facts.users, facts.rounds)
        except ScenarioError as error:
            yield from error.faults
        except MachineError as error:
            yield Fault("run", str(error), remedy="name another recording")

    def laws(self) -> tuple[Law, ...]:
        return (Law.none("a recording: nothing is drawn"),)

    def _replica(self, replica: int) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Return the rounds and the deliveries of a replica, in the order of the rounds."""
        rounds = self._table("rounds", (REPLICA, *columns_of(Round)))
        deliveries = self._table("deliveries", (REPLICA, ROUND, *columns_of(Delivery)))
        rounds = rounds[rounds["replica"] == replica].sort_values("round", kind="stable")
        deliveries = deliveries[deliveries["replica"] == replica].sort_values("round", kind="stable")
        return rounds, deliveries

    def _table(self, name: str, columns: Sequence[Column]) -> pd.DataFrame:
        """Read *columns* of a table; those that the file does not have get their defaults."""
        path = self.run / f"{name}.parquet"
        if not path.is_file():
            problem = f"there is no folder {self.run}"
            if self.run.is_dir():
                problem = f"there is no file {path}"
            raise ScenarioError([Fault("run", problem, remedy="name the folder of a finished run")])
        try:
            with open_parquet(path) as file:
                names = file.schema_arrow.names
                present = [column for column in columns if column.name in names]
                missing = [column.name for column in columns if column.default is None and column.name not in names]
                if missing:
                    raise MachineError(f"{path} has no column {', '.join(missing)}")
                read = file.read(columns=[column.name for column in present])
            read = read.cast(pa.schema({column.name: pa.from_numpy_dtype(column.dtype) for column in present}))
        except (OSError, pa.ArrowException) as error:
            raise MachineError(f"{path} cannot be read: {error}") from error
        # only a column whose default is NaN may have rows without a value
        full = [column.name for column in present if not column.can_be_empty]
        if any(read[name].null_count for name in full):
            raise MachineError(f"{path} has empty cells")
        table: pd.DataFrame = read.to_pandas()
        return table.assign(**missing_defaults(columns, names))


def _rows(table: pd.DataFrame, columns: Sequence[Column]) -> Iterator[tuple[Any, ...]]:
    """Yield the values of *columns* in each row, as Python objects."""
    return zip(*(table[column.name].tolist() for column in columns), strict=True)


def _recording_faults(rounds: pd.DataFrame, deliveries: pd.DataFrame, users: int, wanted: int) -> Iterator[Fault]:
    """Yield the reasons why a replica's recording cannot serve this number of *users* and *wanted* rounds."""
    index = rounds["round"].to_numpy()
    if not len(index):
        yield Fault("run", "no such replica is recorded", remedy="set fewer replicas")
        return
    if len(index) < wanted:
        yield Fault("run", f"{len(index)} rounds are recorded, the scenario has {wanted}", remedy="set fewer rounds")
    if not np.array_equal(index, np.arange(1, len(index) + 1)):
        yield Fault("run", "the recorded rounds are not numbered 1, 2, 3, …", remedy="correct the recording")
        return
    times_s = rounds[["opened_s", "closed_s"]].to_numpy()
    if not np.isfinite(times_s).all() or (np.diff(times_s.ravel()) < 0).any():
        problem = "the recorded times of the rounds are not finite or not ascending"
        yield Fault("run", problem, remedy="correct the recording")
    delivery_round = deliveries["round"].to_numpy()
    user = deliveries["user"].to_numpy()
    base = deliveries["base"].to_numpy()
    if len(user) and not 0 <= user.min() <= user.max() < users:
        unknown = user.max()
        if user.min() < 0:
            unknown = user.min()
        problem = f"it has user {unknown}, but there are {users} users"
        yield Fault("run", problem, remedy="set the recording's number of users")
    if not np.all((base >= 0) & (base < delivery_round)):
        yield Fault("run", "a delivery starts from a version later than its round", remedy="correct the recording")
    if not np.array_equal(index.repeat(rounds["delivered"]), delivery_round):
        yield Fault("run", "rounds and deliveries disagree on the delivered users", remedy="correct the recording")


def _record(context: AccessContext, recorded: Round) -> None:
    """Record the broadcast and the deliveries; a recording does not hold the outcomes of other updates."""
    if context.recorder.wants("broadcast"):
        bits = recorded.downlink_bits
        context.recorder.record(Event("broadcast", recorded.opened_s, round=recorded.index, node="server", value=bits))
    users = [delivery.user for delivery in recorded.deliveries]
    times_s = [delivery.arrived_s for delivery in recorded.deliveries]
    context.recorder.record(Event("delivered", times_s, round=recorded.index, user=users, node="server"))
