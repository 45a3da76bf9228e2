"""A recorded run's rounds, heard again."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import AfterValidator

from netfl.access import Access
from netfl.errors import Fault, MachineError, ScenarioError
from netfl.network.files import open_parquet
from netfl.types import AccessContext, Delivery, Law, LearnerReport, Round, ScenarioFacts

if TYPE_CHECKING:
    import pandas as pd

_ROUNDS = ("round", "opened_s", "closed_s", "delivered", "oldest", "uplink_bits", "downlink_bits")
_ENERGY = "energy_J"
"""A column that ``rounds`` may have."""
_DELIVERIES = ("user", "base", "sent_s", "arrived_s", "attempts")
_INTEGERS = {"replica", "round", "delivered", "oldest", "user", "base", "attempts"}
"""The columns of ``rounds`` and ``deliveries`` that hold integers; all others hold floats."""


class Replay(Access):
    """The rounds and deliveries of a recorded run, figure for figure; replica r replays the recorded replica r.

    Reads ``rounds.parquet`` and ``deliveries.parquet``, so that a recording of real devices, or of another simulator,
    can be put in their place: ``rounds`` holds replica, round, opened_s, closed_s, delivered, oldest, uplink_bits and
    downlink_bits, and perhaps energy_J; ``deliveries`` holds replica, round, user, base, sent_s, arrived_s and
    attempts, in the order of arrival.

    Example::

        kind: replay
        run: runs/bernoulli-001
    """

    run: Annotated[Path, AfterValidator(Path.absolute)]
    """The run directory, or any folder that holds the two tables; a relative path starts at the current directory."""

    def rounds(self, setting: AccessContext) -> Generator[Round, LearnerReport | None, None]:
        """Give each round as it was recorded.

        Raises:
            ScenarioError: the recording is missing or too short, or has no such replica or user.
            MachineError: a table cannot be read.
        """
        rounds, deliveries = self._replica(setting.replica)
        found = [*_misfits(rounds, deliveries, setting.users, setting.rounds)]
        if found:
            raise ScenarioError(found)
        heard = zip(*(deliveries[name].tolist() for name in _DELIVERIES), strict=True)
        energy = rounds[_ENERGY].tolist() if _ENERGY in rounds else [np.nan] * len(rounds)
        told = zip(*(rounds[name].tolist() for name in _ROUNDS), energy, strict=True)
        needed = _Needed(deliveries["base"].tolist(), deliveries["round"].tolist())
        for index, opened_s, closed_s, delivered, oldest, uplink, downlink, joules in islice(told, setting.rounds):
            each = tuple(Delivery(*one) for one in islice(heard, delivered))
            later = None if oldest == index else needed.after(index, each)
            spent = None if np.isnan(joules) else joules
            one = Round(index, opened_s, closed_s, each, oldest, uplink, downlink, needed=later, energy_j=spent)
            _record(setting, one)
            yield one

    def most(self, users: int, rounds: int) -> int:
        """The largest number recorded; 1 where nothing can be read, which is a fault of its own."""
        try:
            table = self._table("rounds", ("round", "delivered"))
            return int(table["delivered"][table["round"] <= rounds].max())
        except (ScenarioError, MachineError, ValueError):
            return 1

    @property
    def ranked(self) -> bool:
        """Whether the recording is of a run whose partition went by who is heard."""
        path = self.run / "users.parquet"
        if not path.is_file():
            return False
        with open_parquet(path) as file:
            return "rank" in file.schema_arrow.names

    def ranking(self, setting: AccessContext) -> NDArray[np.int64] | None:
        """The order that the recorded run went by, so that the same users hold the same data."""
        if not self.ranked:
            return None
        table = self._table("users", ("replica", "user", "rank"))
        own = table[table["replica"] == setting.replica].sort_values("rank")
        return np.asarray(own["user"], np.int64)

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        """No recording, or one that does not fit; of its first replica, the others are checked when they are opened."""
        try:
            recorded = int(self._table("rounds", ("replica",))["replica"].nunique())
            if 0 < recorded < facts.replicas:
                problem = f"replicas: {recorded} are recorded, {facts.replicas} are wanted"
                yield Fault("run", problem, remedy="ask for fewer replicas")
            yield from _misfits(*self._replica(0), facts.users, facts.rounds)
        except ScenarioError as error:
            yield from error.faults
        except MachineError as error:
            yield Fault("run", str(error), remedy="name another recording")

    def laws(self) -> tuple[Law, ...]:
        """Nothing is drawn."""
        return (Law.none("a recording: nothing is drawn"),)

    def _replica(self, replica: int) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Rounds and deliveries of one replica, in order."""
        tables = (
            self._table("rounds", ("replica", *_ROUNDS), (_ENERGY,)),
            self._table("deliveries", ("replica", "round", *_DELIVERIES)),
        )
        rounds, deliveries = (
            table[table["replica"] == replica].sort_values("round", kind="stable") for table in tables
        )
        return rounds, deliveries

    def _table(self, name: str, columns: tuple[str, ...], optional: tuple[str, ...] = ()) -> pd.DataFrame:
        """Columns of a table of the recording, and those that are *optional* where they are there."""
        path = self.run / f"{name}.parquet"
        if not path.is_file():
            problem = f"there is no file {path}" if self.run.is_dir() else f"there is no folder {self.run}"
            raise ScenarioError([Fault("run", problem, remedy="name the folder of a finished run")])
        try:
            with open_parquet(path) as file:
                missing = [column for column in columns if column not in file.schema_arrow.names]
                if missing:
                    raise MachineError(f"{path} has no column {', '.join(missing)}")
                there = (*columns, *(column for column in optional if column in file.schema_arrow.names))
                read = file.read(columns=list(there))
            if name != "users":
                types = {column: pa.int64() if column in _INTEGERS else pa.float64() for column in there}
                read = read.cast(pa.schema(types))
        except (OSError, pa.ArrowException) as error:
            raise MachineError(f"{path} cannot be read: {error}") from error
        if any(read[column].null_count for column in columns):
            raise MachineError(f"{path} has empty cells")
        table: pd.DataFrame = read.to_pandas()
        return table


class _Needed:
    """The versions from which the deliveries yet to come start.

    Args:
        bases: the versions that all deliveries start from.
        rounds: the rounds that brought them.
    """

    def __init__(self, bases: Sequence[int], rounds: Sequence[int]) -> None:
        self._last: dict[int, int] = {}
        for base, index in zip(bases, rounds, strict=True):
            self._last[base] = max(index, self._last.get(base, 0))

    def after(self, index: int, deliveries: Sequence[Delivery]) -> tuple[int, ...]:
        """Those before *index* that are needed after that round, which brought *deliveries*."""
        for base in {delivery.base for delivery in deliveries}:
            if self._last[base] <= index:
                del self._last[base]
        return tuple(sorted(base for base in self._last if base < index))


def _misfits(rounds: pd.DataFrame, deliveries: pd.DataFrame, users: int, wanted: int) -> Iterator[Fault]:
    """What keeps a replica's recording from serving *users* users for *wanted* rounds."""
    index = rounds["round"].to_numpy()
    if not len(index):
        yield Fault("run", "no such replica is recorded", remedy="ask for fewer replicas")
        return
    if len(index) < wanted:
        yield Fault("run", f"{len(index)} rounds are recorded, {wanted} are wanted", remedy="ask for fewer rounds")
    if not np.array_equal(index, np.arange(1, len(index) + 1)):
        yield Fault("run", "the recorded rounds are not numbered 1, 2, 3, …", remedy="mend the recording")
        return
    times_s = rounds[["opened_s", "closed_s"]].to_numpy()
    if not np.isfinite(times_s).all() or (np.diff(times_s.ravel()) < 0).any():
        yield Fault("run", "the recorded times of the rounds are not finite, or go back", remedy="mend the recording")
    at, who, base = (deliveries[name].to_numpy() for name in ("round", "user", "base"))
    if len(who) and not 0 <= who.min() <= who.max() < users:
        strangers = f"it holds user {who.min() if who.min() < 0 else who.max()}, and there are {users} users"
        yield Fault("run", strangers, remedy="give the recording's number of users")
    if not np.all((base >= 0) & (base < at)):
        yield Fault("run", "a delivery starts from a version that its round cannot know", remedy="mend the recording")
    if not np.array_equal(index.repeat(rounds["delivered"]), at):
        yield Fault("run", "rounds and deliveries disagree on who was heard", remedy="mend the recording")


def _record(setting: AccessContext, one: Round) -> None:
    """Record the broadcast and what was delivered; the fate of the other updates is not in a recording."""
    if setting.recorder.wants("broadcast"):
        setting.recorder.event("broadcast", one.opened_s, round=one.index, node="server", value=one.downlink_bits)
    users = [delivery.user for delivery in one.deliveries]
    times_s = [delivery.arrived_s for delivery in one.deliveries]
    setting.recorder.event("delivered", times_s, round=one.index, user=users, node="server")
