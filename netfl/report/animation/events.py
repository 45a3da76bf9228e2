"""Events of a replay: those of one replica, completed from other tables and limited to the size of a page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from netfl.report.animation.layout import AnimationLayout, entity_numbers
from netfl.report.run_data import RunData
from netfl.results.row_order import sort_by_cause

MAX_EVENTS = 600_000
"""Maximum number of events in a page."""

_OMITTED_FIRST = (
    "sampled",
    "trained",
    "missed",
    "held",
    "received",
    "queued",
    "superseded",
    "not_trained",
    "unfinished",
    "dropped",
    "failed",
    "sent",
)
"""Kinds of events that are left out if there are too many, in this order, before the end of the run is cut."""


@dataclass(frozen=True)
class KeptEvents:
    """Events for which a page has room.

    Args:
        events: the table of events.
        omitted_kinds: kinds of events that are left out.
        end_s: time of the first omitted event in seconds; ``None`` if the end of the run is kept.
    """

    events: pd.DataFrame
    omitted_kinds: tuple[str, ...] = ()
    end_s: float | None = None


def deliveries(data: RunData) -> pd.DataFrame:
    """Return the deliveries of the animated replica in the order of arrival."""
    return data.deliveries.sort_values("arrived_s", kind="stable", ignore_index=True)


def rounds(data: RunData) -> pd.DataFrame:
    """Return the rounds of the animated replica in order."""
    table = data.run.rounds
    return table[table["replica"] == data.first].sort_values("round", ignore_index=True)


def recorded_events(data: RunData) -> pd.DataFrame:
    """Return the events of the animated replica in the order of time and cause, words as plain strings.

    Broadcasts and deliveries that were not recorded are taken from the tables of rounds and of deliveries.
    """
    events = data.run.events
    words = {"kind": str, "node": str, "detail": str, "traffic": str}
    events = events[events["replica"] == data.first].astype(words)
    kinds = set(events["kind"])
    parts = [events]
    if "broadcast" not in kinds and data.duration_s is None:
        parts.append(_new_events("broadcast", rounds(data)["opened_s"]))
    if "delivered" not in kinds:
        rows = deliveries(data)
        columns = {"user": rows["user"], "value": rows["base"].astype(float)}
        parts.append(_new_events("delivered", rows["arrived_s"], **columns))
    table = pd.concat([part for part in parts if len(part)] or [events], ignore_index=True)
    return sort_by_cause(table)


def limit_events(events: pd.DataFrame, max_events: int) -> KeptEvents:
    """Return at most *max_events*: fewer kinds of events or, if that is not enough, the first ones."""
    omitted: tuple[str, ...] = ()
    for kind in _OMITTED_FIRST:
        if len(events) <= max_events:
            break
        if (events["kind"] == kind).any():
            omitted = (*omitted, kind)
            events = events[events["kind"] != kind]
    if len(events) <= max_events:
        return KeptEvents(events.reset_index(drop=True), omitted)
    end_s = float(events["time_s"].iloc[max_events])
    return KeptEvents(events[events["time_s"] < end_s].reset_index(drop=True), omitted, end_s)


def outage_switches(events: pd.DataFrame, layout: AnimationLayout, users: int) -> pd.DataFrame:
    """Return the beginnings (1) and ends (0) of outages: columns time_s, entity (see `entity_numbers`), down.

    An entity whose first event is ``up`` was down from the start.
    """
    rows = events[events["kind"].isin(("down", "up"))]
    switches = pd.DataFrame(
        {
            "time_s": rows["time_s"].to_numpy(float),
            "entity": entity_numbers(rows, layout, users),
            "down": (rows["kind"] == "down").to_numpy(np.int64),
        }
    ).query("entity >= 0")
    first = switches.drop_duplicates("entity")
    down_at_start = first[first["down"] == 0].assign(time_s=0.0, down=1)
    table = pd.concat([down_at_start, switches], ignore_index=True)
    return table.sort_values("time_s", kind="stable", ignore_index=True)


def _new_events(kind: str, times_s: pd.Series[float], **columns: pd.Series[Any]) -> pd.DataFrame:
    values = {name: column.to_numpy() for name, column in columns.items()}
    default = {"user": -1, "node": "server", "value": np.nan, "detail": "", "traffic": ""}
    return pd.DataFrame({"time_s": times_s.to_numpy(), "kind": kind, **default, **values})
