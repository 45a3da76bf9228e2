"""History of one simulated replica, in memory: its rounds, events and metrics as tables, and the last outcomes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from netfl.results.metrics import check_declared
from netfl.results.reported_means import ReportedMeans
from netfl.results.tables import EventRecorder, MemoryTable, dictionary_column, link_columns, metric_columns
from netfl.types import OUTCOMES, Event, LearnerReport, NullRecorder, Recorder, Round, RoundBatch

if TYPE_CHECKING:
    import pandas as pd

    from netfl.scenario.recording import EventFilter

_OUTCOMES = frozenset(OUTCOMES)
_UNKNOWN_BASE = -1


class History:
    """Recorder of one replica that keeps its tables, and the outcomes of updates since `clear_outcomes`.

    Args:
        replica: number of the replica.
        keeping: filter of the events that are kept; ``None`` keeps neither events nor rounds.
        own_metrics: names of metrics that the access declares, as `AccessInfo.metrics`.

    Attributes:
        values: metrics of the whole replica, after its end.
    """

    def __init__(self, replica: int, keeping: EventFilter | None, own_metrics: Collection[str] = ()) -> None:
        self._replica = replica
        self._own_metrics = own_metrics
        self._events = MemoryTable("events")
        self._attempts: MemoryTable | None = None
        self._metrics = MemoryTable("metrics")
        self._recorder: EventRecorder | None = None
        self._keeps_links = keeping is not None and keeping.links
        if keeping is not None:
            if keeping.attempts:
                self._attempts = MemoryTable("attempts")
            self._recorder = EventRecorder(self._events, replica, keeping, self._attempts)
        self._receiver: Recorder = self._recorder or NullRecorder()
        self._rounds: list[Round] = []
        self._outcomes: list[Event] = []
        self.values: dict[str, float] = {}
        self._reported = ReportedMeans()

    def wants(self, kind: str) -> bool:
        """Return whether events of *kind*, or rows of the table ``attempts``, are recorded."""
        return self._receiver.wants(kind) or kind in _OUTCOMES

    def record(self, event: Event) -> None:
        """Keep one event or many."""
        self._receiver.record(event)
        if event.kind in _OUTCOMES:
            self._outcomes.append(event)

    def final_metrics(self, values: Mapping[str, float]) -> None:
        """Keep metrics of the whole replica."""
        check_declared(values, self._own_metrics)
        self.values.update(values)

    def round_metrics(self, round: int, values: Mapping[str, float]) -> None:
        """Add what a selection or an allocation reports, whose means are metrics of the replica at any time."""
        self._reported.add(values)
        self.values.update(self._reported.all_means())

    def add_rows(self, table: str, columns: Mapping[str, NDArray[Any]]) -> None:
        """Keep rows of ``attempts`` and columns of ``users``; `netfl.Simulation.state` has the energy at any time."""
        self._receiver.add_rows(table, columns)

    def add_round(self, result: Round) -> None:
        """Add a round to the tables."""
        if self._recorder is not None:
            self._rounds.append(result)

    def add_metrics(self, report: LearnerReport, lanes: Sequence[tuple[str, int]], closed_s: float) -> None:
        """Add an evaluation to the tables."""
        if report.metrics and self._recorder is not None:
            self._metrics.append(*metric_columns(report, lanes, np.full(len(lanes), closed_s)))

    @property
    def keeps_tables(self) -> bool:
        """True if rounds and events are kept."""
        return self._recorder is not None

    @property
    def by_user(self) -> Mapping[str, NDArray[Any]]:
        """Columns of the table ``users`` that are known at the end of the replica; none before."""
        return {} if self._recorder is None else self._recorder.by_user.get("users", {})

    def clear_outcomes(self) -> None:
        """Forget the outcomes so far, as a round opens."""
        self._outcomes = []

    def outcomes(self, last: Round | None) -> pd.DataFrame:
        """Return the outcomes of the updates that ended in the round *last*, as `netfl.Simulation.outcomes` states."""
        import pandas as pd

        bases: dict[tuple[int, float], int] = {}  # of the deliveries, by user and time
        if last is not None:
            bases = {(delivery.user, delivery.arrived_s): delivery.base for delivery in last.all_deliveries()}
        rows: list[tuple[Any, ...]] = []
        for event in self._outcomes:
            users, times_s, values = np.broadcast_arrays(event.user, event.time_s, event.value)
            updates = zip(users.ravel().tolist(), times_s.ravel().tolist(), values.ravel().tolist(), strict=True)
            for user, time_s, value in updates:
                if np.isnan(value):  # the event does not state the base
                    base = bases.get((user, time_s), _UNKNOWN_BASE)
                else:
                    base = int(value)
                rows.append((user, base, event.kind, event.detail, event.node, time_s))
        table = pd.DataFrame(rows, columns=["user", "base", "outcome", "detail", "node", "time_s"])
        table = table.astype({"user": np.int64, "base": np.int64, "time_s": float})
        return table.sort_values("time_s", kind="stable", ignore_index=True)

    def tables(self) -> dict[str, pd.DataFrame]:
        """Return ``rounds``, ``deliveries``, ``events`` and, where recorded, ``links``, ``attempts`` and metrics."""
        tables = {"rounds": MemoryTable("rounds"), "deliveries": MemoryTable("deliveries"), "events": self._events}
        if self._rounds:
            for name, columns in RoundBatch.of(self._rounds).tables.items():
                replica = np.full(len(columns["round"]), self._replica)
                tables[name].append([replica, *columns.values()])
        if self._recorder is not None:
            self._recorder.flush()
        if self._keeps_links:
            tables["links"] = MemoryTable("links")
            tables["links"].append(link_columns(self._replica, self._rounds))
        if self._attempts is not None:
            tables["attempts"] = self._attempts
        if len(self._metrics):
            tables["metrics"] = self._metrics
        if self.values:
            tables["final_metrics"] = MemoryTable("final_metrics")
            replicas = np.full(len(self.values), self._replica)
            values = np.array([*self.values.values()], float)
            tables["final_metrics"].append([replicas, dictionary_column([*self.values]), values])
        return {name: table.read().to_pandas() for name, table in tables.items()}
