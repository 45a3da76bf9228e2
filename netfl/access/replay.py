"""The rounds of a recorded run."""

from __future__ import annotations

import json
import math
from collections.abc import Generator, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import pandas as pd

from netfl.access import Access, AccessInfo
from netfl.access._built_in import RecordingPath, is_built_in, recording_folder
from netfl.access._recorded_merges import RecordedMerges
from netfl.access._recorded_tables import (
    DELIVERY_KEY,
    ERASURE_COLUMNS,
    ERASURES,
    LINK_COLUMNS,
    LINKS,
    LOST_TRAINING_COLUMNS,
    LOST_TRAININGS,
    NOT_SUMMED,
    NOT_SUMMED_COLUMNS,
    RANK,
    Key,
    Rows,
    key_of,
    read_columns,
    row_values,
)
from netfl.core.columns import REPLICA, ROUND, USER, columns_of
from netfl.errors import Fault, ScenarioError, prefix_faults
from netfl.files import is_present
from netfl.files.parquet import open_parquet
from netfl.files.recordings import NAMES, recorded_names
from netfl.files.tables import UserTable
from netfl.network.periods import after_rounding
from netfl.types import (
    AccessContext,
    Bools,
    Delivery,
    Event,
    Ints,
    Law,
    LearnerReport,
    LinkReport,
    Round,
    ScenarioFacts,
)


class Replay(Access):
    """The exact rounds and deliveries of a recorded run; replica r replays the recorded replica r.

    Reads ``rounds.parquet`` and ``deliveries.parquet``, so that a recording of real devices, or of another simulator,
    can be put in their place: ``rounds`` holds replica, round, opened_s, closed_s, delivered and oldest, and perhaps
    uplink_bits, downlink_bits and energy_J; ``deliveries`` holds replica, round, user, base, sent_s and arrived_s, and
    perhaps attempts, in the order of arrival.  The defaults of columns that are missing are those of `Round` and
    `Delivery`.  If there is a table ``erasures``, it holds the parts of deliveries that were lost: replica, round,
    user, base and arrived_s of the delivery, the number of the part, and the number of the parts of the update.  A
    table ``links`` holds how each delivery came over the air: replica, round, user, base and arrived_s of the delivery,
    mode, and perhaps snr_db, gain_db, airtime_s and energy_J.  If there is a table ``merges``, other nodes than the
    server merge, and it is read with ``merged_models`` and ``merged_updates``.

    A table ``not_summed`` holds the updates that sums in the air left out: replica, round, user and base.

    Two recordings of real LoRaWAN devices come with netfl: ``real/saint_eynard`` (8 users, 13,854 rounds) and
    ``real/tour_perret`` (12 users, 20,321 rounds).  The receivers of one device are read as users, and its frame
    counters as rounds.

    A recording has to be possible: rounds are numbered 1, 2, 3, … in each replica; times are finite and ordered; an
    update is sent before it arrives, within its round, with at least one attempt; and its base is a version before the
    round that is not older than ``oldest`` of the round before.  A delivery has lost some of its parts, but not all.

    Example::

        kind: replay
        run: runs/bernoulli-001
    """

    run: RecordingPath
    """The run directory, or any folder with the two tables; a relative path starts at the current directory.

    ``real/saint_eynard`` and ``real/tour_perret`` are recordings that come with netfl; ``./real/…`` is a folder.
    """

    @property
    def folder(self) -> Path:
        """Folder of the recording on this machine."""
        return recording_folder(self.run)

    def rounds(self, context: AccessContext) -> Generator[Round, LearnerReport | None, None]:
        recording = _Recording(self.folder)
        faults = [*recording.faults([context.replica], context.users, context.rounds, context.stop_s)]
        if faults:
            raise ScenarioError(faults)
        rounds, deliveries = recording.replica(context.replica)
        received = recording.received(context.replica)
        links: Mapping[Key, LinkReport] = {}
        if context.reports_links:
            links = recording.links(context.replica)
        lost: Mapping[Key, tuple[int, ...]] = {}
        if context.reports_lost:
            lost = recording.lost_bases(context.replica)
        not_summed: Mapping[int, tuple[tuple[int, int], ...]] = {}
        if context.reports_not_summed:
            not_summed = recording.not_summed(context.replica)
        if context.stop_s is not None:
            rounds = rounds[rounds["closed_s"] <= after_rounding(context.stop_s)]
        updates = row_values(deliveries, Delivery)
        merges = recording.merges.of(context.replica)
        last_round = recording.last_uses(context.replica, deliveries, lost, not_summed)
        for values in islice(row_values(rounds, Round), context.rounds):
            index = values["index"]
            delivered = values["deliveries"]  # the column holds their number
            deliveries_of_round = [Delivery(**update) for update in islice(updates, delivered)]
            if received or links or lost:
                deliveries_of_round = [_completed(each, index, received, links, lost) for each in deliveries_of_round]
            values["deliveries"], values["merges"] = merges.split(index, deliveries_of_round)
            if math.isnan(values["energy_j"]):
                values["energy_j"] = None
            needed = None
            if values["oldest"] != index:  # older versions are needed, but perhaps not all from the oldest on
                needed = tuple(sorted(base for base, last in last_round.items() if base < index < last))
            recorded = Round(**values, needed=needed, not_summed=not_summed.get(index, ()))
            _record(context, recorded)
            yield recorded

    def merging_nodes(self, users: int) -> int:
        """Return the largest recorded number of a node; 0 if the tables cannot be read, which is an error elsewhere."""
        try:
            return RecordedMerges(self.folder).nodes
        except ScenarioError:
            return 0

    def max_deliveries(self, users: int, rounds: int) -> int:
        """Return the largest recorded number; 1 if the recording cannot be read, which is an error elsewhere."""
        try:
            table, _ = read_columns(self.folder, "rounds", (REPLICA, *columns_of(Round)))
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
            knows_lost=(self.folder / f"{LOST_TRAININGS}.parquet").is_file(),
            sums=(self.folder / f"{NOT_SUMMED}.parquet").is_file(),
            link_values=self._link_values,
        )

    @property
    def _link_values(self) -> frozenset[str]:
        """Fields of ``Delivery.link`` that all recorded deliveries have; none if the table cannot be read."""
        if not (self.folder / f"{LINKS}.parquet").is_file():
            return frozenset()
        try:
            table, _ = read_columns(self.folder, LINKS, LINK_COLUMNS)
        except ScenarioError:  # an error of `faults`
            return frozenset()
        return frozenset(column.field for column in columns_of(LinkReport) if not table[column.name].isna().any())

    @property
    def _has_delays(self) -> bool:
        """True unless the recorded run has a summary without delays, as that of a direct access."""
        try:
            summary = json.loads((self.folder / "summary.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):  # a table of another program, or an unfinished run
            return True
        return "delay_mean_s" in summary

    @property
    def _has_erasures(self) -> bool:
        return (self.folder / f"{ERASURES}.parquet").is_file()

    @property
    def _has_ranking(self) -> bool:
        path = self.folder / "users.parquet"
        if not path.is_file():
            return False
        with open_parquet(path) as file:
            return RANK.name in file.schema_arrow.names

    def ranking(self, context: AccessContext) -> Ints | None:
        """Return the ranking of the recorded run, so that the same users hold the same data."""
        if not self._has_ranking:
            return None
        table, read = read_columns(self.folder, "users", (REPLICA, USER, RANK))
        with prefix_faults("run"):
            read.check()
        ranked = table[table["replica"] == context.replica].sort_values("rank")
        return np.asarray(ranked["user"], np.int64)

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        try:
            recording = _Recording(self.folder)
        except ScenarioError as error:
            yield from error.faults
            return
        recorded = int(recording.rounds["replica"].nunique())
        if 0 < recorded < facts.replicas:
            problem = f"{recorded} replicas are recorded, the scenario needs {facts.replicas}"
            yield Fault("run", problem, remedy="set fewer replicas")
        names = recorded_names(self.folder)
        if len(names) > facts.users:
            problem = f"{len(names)} users are recorded, the scenario has {facts.users}"
            yield Fault("run", problem, remedy=f"set users: {len(names)}")
            return
        replicas = range(max(1, min(recorded, facts.replicas)))
        yield from recording.faults(replicas, facts.users, facts.rounds, facts.stop_s)

    def warnings(self, context: AccessContext) -> Iterator[str]:
        """Yield warnings about users that are not recorded, and about a recording that ends early.

        Early is more than its longest round before ``context.stop_s``.
        """
        names = recorded_names(self.folder)
        if names and len(names) < context.users:
            last = context.users - 1
            yield f"few recorded users: {self.run} has {len(names)}; users {len(names)} to {last} never deliver"
        if context.stop_s is None:
            return
        rounds, _ = _Recording(self.folder).replica(context.replica)
        end_s = float(rounds["closed_s"].iloc[-1])
        longest_s = float((rounds["closed_s"] - rounds["opened_s"]).max())
        if len(rounds) < context.rounds and end_s + longest_s < context.stop_s:
            yield f"short recording: {self.run} ends at {end_s:.6g} s, before the duration of {context.stop_s:.6g} s"

    def laws(self) -> tuple[Law, ...]:
        return (Law.none("a recording: nothing is drawn"),)


def find_recording(path: Path) -> Path | None:
    """Return the folder of the recording at *path*, or of the built-in one of this name; ``None`` for all else.

    A recording has the names of its users in `netfl.files.recordings.NAMES`; a run directory has not.
    """
    if is_built_in(path):  # also where the current folder has one of this name: a name means the same everywhere
        return recording_folder(path)
    if is_present(path / NAMES):
        return path
    return None


def read_recording(folder: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the rounds and the deliveries of a recording with the names of its users.

    Raises:
        ScenarioError: a table cannot be read, or its values are impossible.
    """
    recording = _Recording(folder)
    faults = [*recording.faults([0], len(recorded_names(folder)), 0, None)]
    if faults:
        raise ScenarioError(faults)
    return recording.replica(0)


def _completed(
    delivery: Delivery,
    index: int,
    received: Mapping[Key, tuple[bool, ...]],
    links: Mapping[Key, LinkReport],
    lost: Mapping[Key, tuple[int, ...]],
) -> Delivery:
    """Return a delivery of round *index* with what other tables have of it; a link if there are any *links*."""
    key = key_of(index, delivery)
    link = None
    if links:
        link = links[key]
    return replace(delivery, received=received.get(key), link=link, lost_bases=lost.get(key, ()))


_NOT_DELIVERED = "no such delivery of the user is recorded in this round"


def _are_delivered(rows: pd.DataFrame, deliveries: pd.DataFrame) -> Bools:
    """Return whether each of *rows* names one of *deliveries*."""
    keys = pd.MultiIndex.from_frame(rows[DELIVERY_KEY])
    return np.asarray(keys.isin(pd.MultiIndex.from_frame(deliveries[DELIVERY_KEY])))


class _Recording:
    """The rounds and deliveries of all replicas, by replica and round, with their rows in the files as index.

    Raises:
        ScenarioError: a table cannot be read; the key is ``run``.
    """

    def __init__(self, folder: Path) -> None:
        order = ["replica", "round"]
        rounds, self._round_rows = read_columns(folder, "rounds", (REPLICA, *columns_of(Round)))
        deliveries, self._delivery_rows = read_columns(folder, "deliveries", (REPLICA, ROUND, *columns_of(Delivery)))
        self.rounds = rounds.sort_values(order, kind="stable")
        self.deliveries = deliveries.sort_values(order, kind="stable")
        self._erasures = pd.DataFrame()
        self._erasure_rows: UserTable | None = None
        if (folder / f"{ERASURES}.parquet").is_file():
            self._erasures, self._erasure_rows = read_columns(folder, ERASURES, ERASURE_COLUMNS)

        self._lost = pd.DataFrame()
        self._lost_rows: UserTable | None = None
        if (folder / f"{LOST_TRAININGS}.parquet").is_file():
            self._lost, self._lost_rows = read_columns(folder, LOST_TRAININGS, LOST_TRAINING_COLUMNS)
        self._not_summed = pd.DataFrame()
        self._not_summed_rows: UserTable | None = None
        if (folder / f"{NOT_SUMMED}.parquet").is_file():
            self._not_summed, self._not_summed_rows = read_columns(folder, NOT_SUMMED, NOT_SUMMED_COLUMNS)

        self.merges = RecordedMerges(folder)
        self._links = pd.DataFrame()
        self._link_rows: UserTable | None = None
        if (folder / f"{LINKS}.parquet").is_file():
            self._links, self._link_rows = read_columns(folder, LINKS, LINK_COLUMNS)

    def links(self, replica: int) -> dict[Key, LinkReport]:
        """Return ``Delivery.link`` of the deliveries of a replica, by their `key_of`; empty without such a table."""
        if self._link_rows is None:
            return {}
        of_replica = self._links[self._links["replica"] == replica]
        keys = zip(*(of_replica[name].tolist() for name in DELIVERY_KEY), strict=True)
        reports = (LinkReport(**report) for report in row_values(of_replica, LinkReport))
        return dict(zip(keys, reports, strict=True))

    def received(self, replica: int) -> dict[Key, tuple[bool, ...]]:
        """Return ``Delivery.received`` of the deliveries of a replica that lack parts, by their `key_of`."""
        if self._erasure_rows is None:
            return {}
        of_replica = self._erasures[self._erasures["replica"] == replica]
        received: dict[Key, list[bool]] = {}
        columns = (of_replica[name].tolist() for name in (*DELIVERY_KEY, "part", "parts"))
        for index, user, base, arrived_s, part, parts in zip(*columns, strict=True):
            received.setdefault((index, user, base, arrived_s), [True] * parts)[part] = False
        return {key: tuple(parts) for key, parts in received.items()}

    def lost_bases(self, replica: int) -> dict[Key, tuple[int, ...]]:
        """Return ``Delivery.lost_bases`` of the deliveries of a replica that have some, by their `key_of`."""
        if self._lost_rows is None:
            return {}
        of_replica = self._lost[self._lost["replica"] == replica].sort_values("place", kind="stable")
        lost: dict[Key, tuple[int, ...]] = {}
        columns = (of_replica[name].tolist() for name in (*DELIVERY_KEY, "lost_base"))
        for index, user, base, arrived_s, lost_base in zip(*columns, strict=True):
            key = (index, user, base, arrived_s)
            lost[key] = (*lost.get(key, ()), lost_base)
        return lost

    def not_summed(self, replica: int) -> dict[int, tuple[tuple[int, int], ...]]:
        """Return ``Round.not_summed`` of the rounds of a replica that have some, by their numbers."""
        if self._not_summed_rows is None:
            return {}
        of_replica = self._not_summed[self._not_summed["replica"] == replica]
        by_round: dict[int, list[tuple[int, int]]] = {}
        columns = (of_replica[name].tolist() for name in ("round", "user", "base"))
        for index, user, base in zip(*columns, strict=True):
            by_round.setdefault(index, []).append((user, base))
        return {index: tuple(sorted(updates)) for index, updates in by_round.items()}

    def last_uses(
        self,
        replica: int,
        deliveries: pd.DataFrame,
        lost: Mapping[Key, tuple[int, ...]],
        not_summed: Mapping[int, tuple[tuple[int, int], ...]],
    ) -> dict[int, int]:
        """Return the last round of a replica that needs each version of the server."""
        of_server = deliveries[~self.merges.are_below(replica, deliveries)]
        last_round = dict(self.merges.last_uses(replica))
        uses = [*zip(of_server["base"].tolist(), of_server["round"].tolist(), strict=True)]
        uses += [(base, index) for (index, *_), bases in lost.items() for base in bases]
        uses += [(base, index) for index, updates in not_summed.items() for _, base in updates]
        for base, index in uses:
            last_round[base] = max(index, last_round.get(base, 0))
        return last_round

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
            self._check_deliveries(rounds, deliveries, users, ~self.merges.are_below(replica, deliveries))
            yield from self.merges.faults(replica, deliveries)
            self._check_erasures(replica, deliveries)
            self._check_links(replica, deliveries)
            self._check_lost(rounds, replica, deliveries)
            self._check_not_summed(rounds, replica, users)
        tables = (
            self._round_rows,
            self._delivery_rows,
            self._erasure_rows,
            self._link_rows,
            self._lost_rows,
            self._not_summed_rows,
        )
        for table in (table for table in tables if table is not None):
            yield from (fault.under("run") for fault in table.faults)

    def _check_rounds(self, rounds: pd.DataFrame, deliveries: pd.DataFrame) -> None:
        table = Rows(self._round_rows, rounds)
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

    def _check_deliveries(
        self, rounds: pd.DataFrame, deliveries: pd.DataFrame, users: int, is_of_server: Bools
    ) -> None:
        """Check *deliveries*; the bases of those that are not *is_of_server* are numbered by other nodes."""
        table = Rows(self._delivery_rows, deliveries)
        round_ = deliveries["round"].to_numpy()
        is_known = (round_ >= 1) & (round_ <= len(rounds))
        table.refuse(~is_known, "no such round is recorded", "round")
        place = np.where(is_known, round_ - 1, 0)
        table.refuse(deliveries["user"].to_numpy() >= users, f"no such user: there are {users} users", "user")
        base = deliveries["base"].to_numpy()
        table.refuse(is_of_server & (base >= round_), "it starts from a version later than its round", "base")
        oldest = np.maximum.accumulate(rounds["oldest"].to_numpy())
        kept = np.concatenate([[0], oldest[:-1]])  # the oldest version that the rounds before have left
        is_older = is_of_server & (base < kept[place])
        table.refuse(is_older, "it starts from a version older than oldest of the round before", "base")
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
        table = Rows(self._erasure_rows, erasures)
        part = erasures["part"].to_numpy()
        parts = erasures["parts"].to_numpy()
        table.refuse(part >= parts, "no such part", "part")
        table.refuse(~_are_delivered(erasures, deliveries), _NOT_DELIVERED, "user")
        of_delivery = erasures.groupby(DELIVERY_KEY)
        first = of_delivery["parts"].transform("first").to_numpy()
        table.refuse(parts != first, "a row above has another number of parts for this delivery", "parts")
        table.refuse(erasures.duplicated([*DELIVERY_KEY, "part"]).to_numpy(), "it occurs twice", "part")
        lost = of_delivery["part"].transform("size").to_numpy()
        table.refuse(lost >= parts, "all parts are lost, but such an update is not delivered", "parts")

    def _check_lost(self, rounds: pd.DataFrame, replica: int, deliveries: pd.DataFrame) -> None:
        if self._lost_rows is None:
            return
        lost = self._lost[self._lost["replica"] == replica]
        table = Rows(self._lost_rows, lost)
        table.refuse(~_are_delivered(lost, deliveries), _NOT_DELIVERED, "user")
        table.refuse(lost.duplicated([*DELIVERY_KEY, "place"]).to_numpy(), "it occurs twice", "place")
        oldest = np.concatenate([[0], rounds["oldest"].to_numpy()])  # of the round before each
        index = np.clip(lost["round"].to_numpy(), 1, len(rounds))
        is_older = lost["lost_base"].to_numpy() < oldest[index - 1]
        table.refuse(is_older, "it starts from a version older than oldest of the round before", "lost_base")
        table.refuse(lost["lost_base"].to_numpy() >= index, "this version is made in its round or later", "lost_base")

    def _check_not_summed(self, rounds: pd.DataFrame, replica: int, users: int) -> None:
        if self._not_summed_rows is None:
            return
        not_summed = self._not_summed[self._not_summed["replica"] == replica]
        table = Rows(self._not_summed_rows, not_summed)
        index = not_summed["round"].to_numpy()
        user = not_summed["user"].to_numpy()
        base = not_summed["base"].to_numpy()
        table.refuse(~np.isin(index, rounds["round"].to_numpy()), "no such round is recorded", "round")
        table.refuse((user < 0) | (user >= users), "the scenario has no such user", "user")
        table.refuse(not_summed.duplicated(["round", "user", "base"]).to_numpy(), "it occurs twice", "user")
        oldest = np.concatenate([[0], rounds["oldest"].to_numpy()])  # of the round before each
        is_older = base < oldest[np.clip(index, 1, len(rounds)) - 1]
        table.refuse(is_older, "it starts from a version older than oldest of the round before", "base")
        table.refuse(base >= index, "this version is made in its round or later", "base")

    def _check_links(self, replica: int, deliveries: pd.DataFrame) -> None:
        if self._link_rows is None:
            return
        links = self._links[self._links["replica"] == replica]
        table = Rows(self._link_rows, links)
        link_keys = pd.MultiIndex.from_frame(links[DELIVERY_KEY])
        delivery_keys = pd.MultiIndex.from_frame(deliveries[DELIVERY_KEY])
        table.refuse(~link_keys.isin(delivery_keys), "no such delivery of the user is recorded in this round", "user")
        table.refuse(link_keys.duplicated(), "it occurs twice", "user")
        of_deliveries = Rows(self._delivery_rows, deliveries)
        of_deliveries.refuse(~delivery_keys.isin(link_keys), f"{LINKS}.parquet has no row for this delivery", "user")


def _record(context: AccessContext, recorded: Round) -> None:
    """Record the broadcast and the deliveries; a recording does not hold the outcomes of other updates."""
    if context.recorder.wants("broadcast"):
        bits = recorded.downlink_bits
        context.recorder.record(Event("broadcast", recorded.opened_s, round=recorded.index, node="server", value=bits))
    deliveries = recorded.all_deliveries()
    users = [delivery.user for delivery in deliveries]
    times_s = [delivery.arrived_s for delivery in deliveries]
    context.recorder.record(Event("delivered", times_s, round=recorded.index, user=users, node="server"))
