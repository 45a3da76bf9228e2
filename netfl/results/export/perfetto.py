"""Export of a run as a trace for Perfetto: a timeline of each user's activity, with rounds, cells, links and outages.

Events are read from the table a piece at a time.  Within a round they are not in order of time, as some are recorded
afterwards, so a round is sorted when the next one has begun.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from netfl.errors import Fault, ScenarioError
from netfl.network.files import open_parquet
from netfl.results.atomic_write import atomic_write
from netfl.results.export.trace_events import LATEST_S, TraceEvents
from netfl.results.export.user_timeline import TimelineSlice, UserTimelines
from netfl.results.run_reader import Run

_PIECE = 1 << 16
_COLUMNS = [*TimelineSlice._fields]
_STEPS = ("received", "trained", "forwarded")
"""Kinds of events that trainings, waiting times and links depend on."""


def write_trace(run: Run, path: Path, replica: int = 0) -> str:
    """Write one replica of *run* as a JSON file in the Trace Event Format, and return a summary of it in words.

    Raises:
        ScenarioError: there is no such replica, or no events were recorded.
    """
    rounds = _rounds(run, replica)
    _check_events(run)
    end_s = float(rounds["closed_s"].max())
    if end_s >= LATEST_S:
        problem = "the run takes longer than the 292 years that a trace can tell in nanoseconds"
        raise ScenarioError([Fault("", problem, f"{end_s:g} s", "export its tables: --csv")])
    network = dict(run.said("access")).get("kind") == "network"
    facts = {"scenario": str(run.manifest.get("scenario", "")), "replica": replica, "status": run.status, "unit": "s"}
    with atomic_write(path) as part, part.open("w", encoding="utf-8") as file:
        tracks = TraceEvents(file, facts)
        _add_rounds(tracks, rounds)
        _add_accuracy(tracks, run, replica)
        timelines = UserTimelines(
            tracks,
            rounds["opened_s"].tolist(),
            is_network=network,
            restarts=dict(run.said("access")).get("busy", "restart") == "restart",
            packets=run.scenario.get("duration") is not None,
        )
        count = 0
        for piece in _in_order(run.folder / "events.parquet", replica):
            count += len(piece)
            columns = (piece[name].tolist() for name in _COLUMNS)
            for row in zip(*columns, strict=True):
                timelines.add(TimelineSlice._make(row))
        timelines.close(end_s)
        tracks.close()
    return f"{count} events, {tracks.slices} slices of replica {replica}{_notes(run, network, len(rounds))}"


def _rounds(run: Run, replica: int) -> pd.DataFrame:
    """Return the rounds of a replica, in order.

    Raises:
        ScenarioError: there are none.
    """
    rounds = run.rounds
    selected = rounds[rounds["replica"] == replica].sort_values("round")
    if selected.empty:
        there = sorted(rounds["replica"].unique().tolist())
        problem = "no such replica is recorded" if there else f"{run.folder} has no rounds yet: it is {run.status}"
        remedy = f"recorded are {there}" if there else f"finish it with: netfl resume {run.folder}"
        raise ScenarioError([Fault("--replica" if there else "", problem, replica if there else None, remedy)])
    return selected


def _recorded(run: Run) -> set[str] | None:
    """Return the kinds of events that the run has recorded; ``None`` for all."""
    record = run.scenario.get("record", "all")
    record = record.get("events", "all") if isinstance(record, dict) else record
    return None if record == "all" else set() if record == "none" else set(record)


def _check_events(run: Run) -> None:
    """Check that events were recorded.

    Raises:
        ScenarioError: none were.
    """
    if _recorded(run) == set() or not (run.folder / "events.parquet").exists():
        problem = "no events were recorded, of which a trace is made"
        raise ScenarioError([Fault("record", problem, None, "run it again with: --set record=all")])


def _notes(run: Run, network: bool, rounds: int) -> str:
    """Return what is missing in the trace, in words."""
    recorded, notes = _recorded(run), ""
    if network and recorded is not None and (missing := [kind for kind in _STEPS if kind not in recorded]):
        notes += f"\n{', '.join(missing)} were not recorded, so that some slices are missing: run with --set record=all"
    if run.status != "done":
        notes += f"\nthe run is {run.status}: it has {rounds} of {run.manifest.get('rounds', '?')} rounds"
    return notes


def _add_rounds(tracks: TraceEvents, rounds: pd.DataFrame) -> None:
    """A slice for each round, and how many were heard."""
    columns = (rounds[name].tolist() for name in ("round", "opened_s", "closed_s", "delivered"))
    for index, opened_s, closed_s, delivered in zip(*columns, strict=True):
        tracks.slice("server", "rounds", f"round {index}", opened_s, closed_s, f'"delivered":{delivered}')
        tracks.counter("delivered", closed_s, delivered)


def _add_accuracy(tracks: TraceEvents, run: Run, replica: int) -> None:
    """A counter for each learner."""
    metrics = run.metrics
    chosen = (metrics["replica"] == replica) & (metrics["metric"] == "accuracy") & (metrics["group"] == "")
    rows = metrics[chosen]
    for learner, time_s, value in zip(rows["learner"], rows["time_s"], rows["value"], strict=True):
        tracks.counter(f"accuracy of {learner}", float(time_s), float(value))


def _in_order(path: Path, replica: int) -> Iterator[pd.DataFrame]:
    """Yield the events of a replica in the order of time, some rounds at a time."""
    held: list[pd.DataFrame] = []
    with open_parquet(path) as file:
        for batch in file.iter_batches(_PIECE, columns=["replica", *_COLUMNS]):
            table = pa.Table.from_batches([batch])
            rows = table.filter(pc.equal(table["replica"], replica)).drop_columns(["replica"]).to_pandas()
            if rows.empty:
                continue
            held.append(rows)
            newest = rows["round"].iloc[-1]
            if held[0]["round"].iloc[0] < newest:
                gathered = pd.concat(held)
                over = (gathered["round"] < newest).to_numpy()
                held = [gathered[~over]]
                yield _sorted(gathered[over])
    if held:
        yield _sorted(pd.concat(held))


def _sorted(rows: pd.DataFrame) -> pd.DataFrame:
    """Sort rows by round, then by time; events of one time keep their order."""
    order = np.lexsort((rows["time_s"].to_numpy(), rows["round"].to_numpy()))
    ordered = rows.iloc[order]
    return ordered.astype({"kind": str, "node": str, "detail": str})
