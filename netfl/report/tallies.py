"""The figures behind the pictures of the access: plain pandas in, plain pandas out."""

from __future__ import annotations

import math
from collections.abc import Collection

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from netfl.scenario.event_filter import evenly_spaced
from netfl.types import FATES


def with_delivery_counts(users: pd.DataFrame, heard: pd.DataFrame, rare: Collection[int]) -> pd.DataFrame:
    """*users* with ``heard``, how often each was, and ``rare``, whether it holds a rare class.

    Nobody is called rare where everybody holds the rare classes.

    Args:
        users: columns replica, user, and ``class:0`` and so on where there are data.
        heard: a row for each time that one was, with replica and user.
        rare: the labels that are called so.
    """
    counts = heard.groupby(["replica", "user"]).size().rename("heard")
    table = users.merge(counts.reset_index(), on=["replica", "user"], how="left")
    held = [f"class:{label}" for label in rare if f"class:{label}" in table]
    holds = (table[held] > 0).any(axis="columns").to_numpy(bool) if held else np.zeros(len(table), bool)
    return table.assign(heard=table["heard"].fillna(0).astype(int), rare=holds & ~holds.all())


def fates(events: pd.DataFrame) -> pd.DataFrame:
    """The events that end an update, one for each; ``fate`` says how."""
    rows = events[events["kind"].isin(FATES)]
    return rows.assign(fate=rows["kind"].astype(str))


def failures(events: pd.DataFrame) -> pd.DataFrame:
    """The attempts that failed; ``fate`` says of what."""
    rows = events[events["kind"] == "failed"]
    return rows.assign(fate=rows["detail"].astype(str).replace("", "unknown"))


def outcome_bins(rows: pd.DataFrame, rounds: int, replicas: int, bins: int = 80) -> pd.DataFrame:
    """Rows per round and replica by ``fate``: an index of first rounds of equal bins, a column for each fate."""
    width = max(1, math.ceil(rounds / bins))
    first = (rows["round"].to_numpy() - 1).clip(0) // width
    table = pd.crosstab(first, rows["fate"].to_numpy()).reindex(range(math.ceil(rounds / width)), fill_value=0)
    lengths = np.minimum(width, rounds - table.index.to_numpy() * width)
    table = table.div(lengths * replicas, axis="index")
    return table.set_axis(table.index * width + 1)


def outages(events: pd.DataFrame, end_s: float) -> pd.DataFrame:
    """When each user and node of one replica was down: columns user, node, from_s, to_s.

    What was down before its first event was so from the start, what never came up again until *end_s*.
    """
    rows = events[events["kind"].isin(("down", "up"))][["user", "node", "time_s", "kind"]]
    rows = rows.astype({"node": str}).sort_values(["user", "node", "time_s"], kind="stable")
    who = [rows["user"], rows["node"]]
    down = rows["kind"].astype(str) == "down"
    before = down.groupby(who).shift(fill_value=False)
    first = ~rows.duplicated(["user", "node"])
    begins, late = down & ~before, first & ~down
    turns = rows[begins | (~down & before)]
    until = turns.groupby(["user", "node"])["time_s"].shift(-1).fillna(end_s)
    found = turns.assign(from_s=turns["time_s"], to_s=until)[down[turns.index]]
    early = rows[late].assign(from_s=0.0, to_s=lambda table: table["time_s"])
    return pd.concat([early, found])[["user", "node", "from_s", "to_s"]].reset_index(drop=True)


def tower_outages(down: pd.DataFrame, users: pd.DataFrame) -> pd.DataFrame:
    """When the tower of each user was down: columns user, from_s, to_s.

    Args:
        down: from `outages`.
        users: columns user and tower, the node's name.
    """
    towers = down[(down["user"] < 0) & (down["node"] != "")].drop(columns="user")
    return users[["user", "tower"]].merge(towers, left_on="tower", right_on="node")[["user", "from_s", "to_s"]]


def covered_time(spans: pd.DataFrame) -> pd.Series[float]:
    """How long each user's spans last together, overlaps counted once, by user."""
    rows = spans.sort_values(["user", "from_s"], kind="stable")
    reached = rows.groupby("user")["to_s"].cummax().groupby(rows["user"]).shift().fillna(-math.inf)
    fresh = (rows["to_s"] - rows["from_s"].clip(lower=reached)).clip(lower=0.0)
    return fresh.groupby(rows["user"]).sum()


def longest_silences(deliveries: pd.DataFrame, users: ArrayLike, end_s: float) -> pd.DataFrame:
    """The longest time that each of *users* was unheard in one replica: columns user, from_s, to_s."""
    every = np.asarray(users, int)
    heard = deliveries[deliveries["user"].isin(every)]
    edges = [np.zeros(every.size), np.full(every.size, end_s)]
    times = pd.DataFrame(
        {
            "user": np.concatenate([every, every, heard["user"].to_numpy()]),
            "to_s": np.concatenate([*edges, heard["arrived_s"].to_numpy(float)]),
        }
    ).sort_values(["user", "to_s"], kind="stable")
    times["from_s"] = times.groupby("user")["to_s"].shift().fillna(0.0)
    longest = (times["to_s"] - times["from_s"]).groupby(times["user"]).idxmax()
    return times.loc[longest, ["user", "from_s", "to_s"]].reset_index(drop=True)


def delivery_shares(deliveries: pd.DataFrame, users: ArrayLike, rounds: int, bins: int = 500) -> NDArray[np.float64]:
    """How often each of *users* was heard in each of equal bins of rounds, ``[users, bins]``, as a share of rounds."""
    order = np.asarray(users, int)
    width = max(1, math.ceil(rounds / bins))
    counts = np.zeros((order.size, math.ceil(rounds / width)))
    known = deliveries[deliveries["user"].isin(order)].drop_duplicates(["round", "user"])
    place = pd.Index(order).get_indexer(known["user"])
    np.add.at(counts, (place, (known["round"].to_numpy() - 1) // width), 1.0)
    return counts / width


def sample_users(users: pd.DataFrame, most: int, by: str = "heard") -> tuple[pd.DataFrame, str]:
    """At most so many of *users*, evenly spaced by rank, in that order; and a remark on that, empty if all are there.

    Args:
        users: columns user and *by*.
        most: how many.
        by: what they are ranked by: ``heard``, most first, or another column, least first.
    """
    rows = users.sort_values([by, "user"], ascending=[by != "heard", True])
    if len(rows) <= most:
        return rows, ""
    return rows.iloc[evenly_spaced(len(rows), most)], f"{most:,} of {len(rows):,} users, evenly spaced by rank"
