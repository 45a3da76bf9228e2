"""The events of a replay: those of one replica, completed from other tables, and thinned to what a page can hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from netfl.report.animation.layout import AnimationLayout, entity_numbers
from netfl.report.run_data import RunData

MOST_EVENTS = 600_000
"""Events that a page holds, at most."""

_LEFT_OUT = ("sampled", "trained", "received", "queued", "superseded", "unfinished", "dropped", "failed", "sent")
"""Kinds of events that are left out where there are too many, in this order, before the end of the run is."""


@dataclass(frozen=True)
class KeptEvents:
    """The events that a page has room for.

    Args:
        events: they themselves.
        gone: the kinds that are left out.
        to_s: from when on there are none; ``None`` if there are up to the end.
    """

    events: pd.DataFrame
    gone: tuple[str, ...] = ()
    to_s: float | None = None


def deliveries(data: RunData) -> pd.DataFrame:
    """What counted in the replica shown, in order of arrival."""
    table = data.run.deliveries
    return table[table["replica"] == data.first].sort_values("arrived_s", kind="stable", ignore_index=True)


def rounds(data: RunData) -> pd.DataFrame:
    """The rounds of the replica shown, in order."""
    table = data.run.rounds
    return table[table["replica"] == data.first].sort_values("round", ignore_index=True)


def recorded_events(data: RunData) -> pd.DataFrame:
    """The events of the replica shown, in order of time, words as plain strings.

    Where broadcasts and deliveries were not recorded, the tables of rounds and of deliveries tell of them.
    """
    own = data.run.events[data.run.events["replica"] == data.first].astype({"kind": str, "node": str, "detail": str})
    kinds, parts = set(own["kind"]), [own]
    if "broadcast" not in kinds and data.duration_s is None:
        opened = rounds(data)
        parts.append(_made("broadcast", opened["opened_s"]))
    if "delivered" not in kinds:
        told = deliveries(data)
        parts.append(_made("delivered", told["arrived_s"], user=told["user"], value=told["base"].astype(float)))
    table = pd.concat([part for part in parts if len(part)] or [own], ignore_index=True)
    return table.sort_values("time_s", kind="stable", ignore_index=True)


def limit_events(events: pd.DataFrame, most: int = MOST_EVENTS) -> KeptEvents:
    """At most so many of *events*: fewer kinds of them or, where that is not enough, the first ones."""
    gone: tuple[str, ...] = ()
    for kind in _LEFT_OUT:
        if len(events) <= most:
            break
        if (events["kind"] == kind).any():
            gone = (*gone, kind)
            events = events[events["kind"] != kind]
    if len(events) <= most:
        return KeptEvents(events.reset_index(drop=True), gone)
    to_s = float(events["time_s"].iloc[most])
    return KeptEvents(events[events["time_s"] < to_s].reset_index(drop=True), gone, to_s)


def outage_switches(events: pd.DataFrame, places: AnimationLayout, users: int) -> pd.DataFrame:
    """Who went down (1) or came up (0) when: columns time_s, who (a user or, after them, a node or link), down.

    Who comes up without having gone down was down from the start.
    """
    rows = events[events["kind"].isin(("down", "up"))]
    down = (rows["kind"] == "down").to_numpy(np.int64)
    told = {"time_s": rows["time_s"].to_numpy(float), "who": entity_numbers(rows, places, users), "down": down}
    found = pd.DataFrame(told).query("who >= 0")
    first = found.drop_duplicates("who")
    early = first[first["down"] == 0].assign(time_s=0.0, down=1)
    table = pd.concat([early, found], ignore_index=True)
    return table.sort_values("time_s", kind="stable", ignore_index=True)


def _made(kind: str, times_s: pd.Series[float], **columns: pd.Series[Any]) -> pd.DataFrame:
    """Events that were not recorded, from another table."""
    given = {name: column.to_numpy() for name, column in columns.items()}
    blank = {"user": -1, "node": "server", "value": np.nan, "detail": ""}
    return pd.DataFrame({"time_s": times_s.to_numpy(), "kind": kind, **blank, **given})
