"""Tables behind plots and reports, computed from the tables of a run: pandas tables in, pandas tables out."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from netfl.results.formatting import format_count
from netfl.results.statistics import MIN_REPLICAS, FinalWindow, final_values, final_window, is_final, t_factor
from netfl.scenario.recording import evenly_spaced
from netfl.types import OUTCOMES, SERVER

SWING = 0.08
"""A curve is smoothed when its mean turn at an evaluation is larger than this share of its whole range."""

MIN_EVALUATIONS = 40
"""Curves of fewer evaluations are never smoothed."""

UTILISATION = "utilisation."
"""Prefix of the names of utilisation metrics."""

Over = Literal["round", "time", "bits", "energy"]
"""Unit of the x axis of a curve: rounds, simulated seconds, bits sent by all users, joules spent by all users."""

COST_COLUMNS = {"time": "time_s", "bits": "uplink_bits", "energy": "energy_J"}
"""Column with the cumulated cost at each evaluation; see `with_cost`."""


def with_cost(metrics: pd.DataFrame, rounds: pd.DataFrame) -> pd.DataFrame:
    """Return *metrics* with ``uplink_bits`` and ``energy_J``, the cumulated costs of all users at each evaluation.

    The energy is NaN where the access does not measure it.
    """
    costs = rounds.sort_values(["replica", "round"])[["replica", "round", "uplink_bits", "energy_J"]]
    costs = costs.assign(uplink_bits=costs.groupby("replica")["uplink_bits"].cumsum())
    table = metrics.merge(costs, on=["replica", "round"], how="left")
    start = table["round"] == 0
    measured = table["replica"].map(costs.groupby("replica")["energy_J"].count()).fillna(0) > 0
    table.loc[start, "uplink_bits"] = 0.0
    table.loc[start & measured, "energy_J"] = 0.0
    return table


def metric_table(metrics: pd.DataFrame, metric: str, group: str = "", values: str = "value") -> pd.DataFrame:
    """Return one metric with a row for each evaluated round and a column for each (learner, replica)."""
    rows = metrics[(metrics["metric"] == metric) & (metrics["group"] == group)]
    rows = rows.astype({"learner": str}).drop_duplicates(["round", "learner", "replica"], keep="last")
    table = rows.pivot(index="round", columns=["learner", "replica"], values=values)
    return table.sort_index().sort_index(axis="columns")


def final(
    metrics: pd.DataFrame,
    metric: str,
    group: str = "",
    *,
    choices: Collection[str] = (),
    rounds: pd.DataFrame | None = None,
) -> pd.Series[float]:
    """Return the final value of a metric by (learner, replica); see `netfl.results.statistics.final_values`.

    Args:
        metrics: the metrics table.
        metric: name of the metric.
        group: group of the metric.
        choices: names of choices among learners.
        rounds: `Run.rounds`, for the last round of each replica; by default all end alike.
    """
    table = metric_table(metrics, metric, group)
    if table.empty:
        return pd.Series(dtype=float, index=table.columns)
    is_choice = table.columns.get_level_values("learner").isin(list(choices))
    last = _last_rounds(table.columns.get_level_values("replica"), rounds)
    return pd.Series(final_values(table.index, table, is_choice, last), table.columns)


def _last_rounds(replicas: pd.Index[int], rounds: pd.DataFrame | None) -> NDArray[np.float64]:
    """Return the last round of each of *replicas*; infinite without *rounds*, as all end alike then."""
    if rounds is None:
        return np.full(len(replicas), math.inf)
    last = rounds.groupby("replica")["round"].max()
    return last.reindex(replicas, fill_value=0).to_numpy(float)


def grouped_final_metrics(
    metrics: pd.DataFrame,
    metric: str,
    kind: str,
    *,
    choices: Collection[str] = (),
    rounds: pd.DataFrame | None = None,
) -> pd.DataFrame:
    """Return final values for each ``kind:number`` group of a metric: columns learner, replica, number, value.

    Args:
        metrics: the metrics table.
        metric: name of the metric.
        kind: ``class`` or ``user``.
        choices: names of choices among learners; see `netfl.results.statistics.final_values`.
        rounds: `Run.rounds`, for the last round of each replica; by default all end alike.
    """
    columns = ["learner", "replica", "number"]
    prefix = f"{kind}:"
    rows = metrics[metrics["metric"] == metric].astype({"learner": str, "group": str})
    rows = rows[rows["group"].str.startswith(prefix)]
    rows = rows.assign(number=rows["group"].str.removeprefix(prefix).astype(int))
    if rounds is None:
        rows = rows[is_final(rows["round"])]
    if rows.empty:
        return rows.loc[:, [*columns, "value"]]
    rows = rows.drop_duplicates(["round", *columns], keep="last")
    table = rows.pivot(index="round", columns=columns, values="value")
    is_choice = table.columns.get_level_values("learner").isin(list(choices))
    last = _last_rounds(table.columns.get_level_values("replica"), rounds)
    values = pd.Series(final_values(table.index, table, is_choice, last), table.columns, name="value")
    return values.dropna().reset_index()


def window_of(metrics: pd.DataFrame, metric: str, group: str = "", rounds: pd.DataFrame | None = None) -> FinalWindow:
    """Return the rounds that a final value of *metric* is the mean of.

    Args:
        metrics: the metrics table.
        metric: name of the metric.
        group: group of the metric.
        rounds: `Run.rounds`, for the last round of each replica; by default all end alike.
    """
    evaluated = metric_table(metrics, metric, group).index
    is_common = rounds is None or rounds.groupby("replica")["round"].max().nunique() < 2
    return final_window(evaluated, is_common=is_common)


def smoothing_window(metrics: pd.DataFrame, metric: str, group: str = "") -> int:
    """Return the number of evaluations to average over in a curve; 1 if the curve does not swing.

    It is the number in the window of the final values, so that a smoothed curve ends at the final value.
    """
    table = metric_table(metrics, metric, group)
    turns = table.diff().diff().abs().to_numpy()
    spread = (table.max() - table.min()).max()
    if len(table) < MIN_EVALUATIONS or not np.isfinite(turns).any() or np.nanmean(turns) <= SWING * spread:
        return 1
    return final_window(table.index).evaluations


def choices_in(metrics: pd.DataFrame) -> list[str]:
    """Return the names of the choices among learners in *metrics*, whose final values are those of the last round."""
    return metrics.loc[metrics["metric"] == "chosen", "learner"].astype(str).unique().tolist()


@dataclass(frozen=True, slots=True)
class FinalPoints:
    """The final values of a metric as a plot of its curves shows them.

    Args:
        start: begin of their window, as a mean over replicas, on the axis of the curves.
        end: end of the window.
        window: the rounds of the window.
        values: mean over replicas by learner; without learners that diverged.
    """

    start: float
    end: float
    window: FinalWindow
    values: dict[str, float]


def final_points(
    metrics: pd.DataFrame,
    metric: str,
    group: str = "",
    *,
    over: Over = "round",
    rounds: pd.DataFrame | None = None,
) -> FinalPoints:
    """Return the final values of each learner, and their window on the axis *over*.

    Args:
        metrics: the metrics table; for bits and energy with the columns of `with_cost`.
        metric: name of the metric.
        group: group of the metric.
        over: unit of the axis.
        rounds: `Run.rounds`, for the last round of each replica; by default all end alike.
    """
    window = window_of(metrics, metric, group, rounds)
    finals = final(metrics, metric, group, choices=choices_in(metrics), rounds=rounds)
    means = finals.dropna().groupby("learner", sort=False).mean()
    values = {str(name): float(value) for name, value in means.items()}
    start = float(window.first)
    end = float(window.last)
    if over != "round" and window.evaluations:
        costs = metric_table(metrics, metric, group, COST_COLUMNS[over])
        in_window = costs[is_final(costs.index)].dropna(axis="columns", how="all")
        start = float(in_window.min().mean())
        end = float(in_window.max().mean())
    return FinalPoints(start, end, window, values)


def curve(
    metrics: pd.DataFrame, metric: str, group: str = "", *, over: Over = "round", smooth: int = 1
) -> pd.DataFrame:
    """Return the mean of a metric over replicas with its 95 % t-interval: columns learner, at, mean, low, high.

    The ends of the interval are NaN for fewer than three replicas.

    Args:
        metrics: the metrics table; for bits and energy with the columns of `with_cost`.
        metric: name of the metric.
        group: group of the metric.
        over: unit of ``at``.  Values between two evaluations are interpolated, except over rounds.
        smooth: each value is first replaced by the mean of this many last values of its replica.
    """
    table = metric_table(metrics, metric, group)
    if smooth > 1:
        table = table.rolling(smooth, min_periods=1).mean()
    if over != "round":
        table = _interpolated(table, metric_table(metrics, metric, group, COST_COLUMNS[over]))
    parts = [_with_interval(table[[name]]).assign(learner=name) for name in table.columns.unique("learner")]
    if not parts:
        return pd.DataFrame(columns=["at", "mean", "low", "high", "learner"])
    return pd.concat(parts)


def _with_interval(table: pd.DataFrame) -> pd.DataFrame:
    """Return the mean of each row of *table* over its columns, one for each replica, with its interval."""
    replicas = table.count(axis="columns")
    factors = {}
    for number in replicas.unique():
        factors[number] = t_factor(number) if number >= MIN_REPLICAS else math.nan
    mean = table.mean(axis="columns")
    half = table.std(axis="columns") * replicas.map(factors)
    result = pd.DataFrame({"at": table.index, "mean": mean, "low": mean - half, "high": mean + half})
    return result.dropna(subset="mean")


def _interpolated(table: pd.DataFrame, costs: pd.DataFrame, steps: int = 200) -> pd.DataFrame:
    """Interpolate *table* at costs that all replicas reach; a column that ends early is NaN from there on."""
    table = table.dropna(axis="columns", how="all")
    replica = costs.columns.get_level_values("replica")
    start = float(costs.min().groupby(replica).min().max())  # of the replica that begins last
    end = float(costs.max().groupby(replica).max().min())  # of the replica that ends first
    grid = np.array([start])
    if end > start:
        grid = np.linspace(start, end, steps)
    columns = {}
    for column in table.columns:
        values = table[column].dropna()
        at = costs[column].loc[values.index].to_numpy()
        columns[column] = np.interp(grid, at, values.to_numpy(), left=math.nan, right=math.nan)
    return pd.DataFrame(columns, index=grid).rename_axis(columns=["learner", "replica"])


def with_delivery_counts(users: pd.DataFrame, deliveries: pd.DataFrame, rare: Collection[int]) -> pd.DataFrame:
    """Return *users* with ``delivered``, the number of deliveries, and ``rare``: the user holds a rare class.

    If every user holds a rare class, none is marked.

    Args:
        users: columns replica, user, and ``class:0`` and so on where there are data.
        deliveries: columns replica and user, a row for each delivery.
        rare: labels of the rare classes.
    """
    counts = deliveries.groupby(["replica", "user"]).size().rename("delivered")
    table = users.merge(counts.reset_index(), on=["replica", "user"], how="left")
    columns = [f"class:{label}" for label in rare if f"class:{label}" in table]
    is_rare = np.zeros(len(table), bool)
    if columns:
        is_rare = (table[columns] > 0).any(axis="columns").to_numpy(bool)
    if is_rare.all():  # this would distinguish nobody
        is_rare = np.zeros_like(is_rare)
    return table.assign(delivered=table["delivered"].fillna(0).astype(int), rare=is_rare)


def sample_users(users: pd.DataFrame, max_users: int, by: str = "delivered") -> tuple[pd.DataFrame, str]:
    """Return at most *max_users* users, evenly spaced by rank, and a remark, empty if none is left out.

    Args:
        users: columns user and *by*.
        max_users: upper limit of rows.
        by: column that ranks the users: ``delivered`` (descending) or another (ascending).
    """
    rows = users.sort_values([by, "user"], ascending=[by != "delivered", True])
    if len(rows) <= max_users:
        return rows, ""
    remark = f"{format_count(max_users)} of {format_count(len(rows))} users, evenly spaced by rank"
    return rows.iloc[evenly_spaced(len(rows), max_users)], remark


def delivery_shares(deliveries: pd.DataFrame, users: ArrayLike, rounds: int, bins: int = 500) -> NDArray[np.float64]:
    """Return the share of rounds with a delivery of each of *users* in equal bins of rounds, ``[users, bins]``."""
    user_ids = np.asarray(users, int)
    width = max(1, math.ceil(rounds / bins))  # of a bin, in rounds
    counts = np.zeros((user_ids.size, math.ceil(rounds / width)))
    of_users = deliveries[deliveries["user"].isin(user_ids)].drop_duplicates(["round", "user"])
    row = pd.Index(user_ids).get_indexer(of_users["user"])
    column = (of_users["round"].to_numpy() - 1) // width
    np.add.at(counts, (row, column), 1.0)
    return counts / width


def longest_silences(deliveries: pd.DataFrame, users: ArrayLike, end_s: float) -> pd.DataFrame:
    """Return the longest time without delivery for each of *users* in one replica: columns user, from_s, to_s."""
    user_ids = np.asarray(users, int)
    rows = deliveries[deliveries["user"].isin(user_ids)]
    starts_s = np.zeros(user_ids.size)  # a silence begins at the start of the run, or ends at its end
    ends_s = np.full(user_ids.size, end_s)
    arrivals_s = rows["arrived_s"].to_numpy(float)
    times = pd.DataFrame(
        {
            "user": np.concatenate([user_ids, user_ids, rows["user"].to_numpy()]),
            "to_s": np.concatenate([starts_s, ends_s, arrivals_s]),
        }
    ).sort_values(["user", "to_s"], kind="stable")
    times["from_s"] = times.groupby("user")["to_s"].shift().fillna(0.0)
    longest = (times["to_s"] - times["from_s"]).groupby(times["user"]).idxmax()
    return times.loc[longest, ["user", "from_s", "to_s"]].reset_index(drop=True)


def outcomes(events: pd.DataFrame) -> pd.DataFrame:
    """Return the events that end an update, with the outcome in ``outcome``."""
    rows = events[events["kind"].isin(OUTCOMES)]
    return rows.assign(outcome=rows["kind"].astype(str))


def failures(events: pd.DataFrame) -> pd.DataFrame:
    """Return the failed attempts, with the cause in ``outcome``."""
    rows = events[events["kind"] == "failed"]
    return rows.assign(outcome=rows["detail"].astype(str).replace("", "unknown"))


def outcome_bins(rows: pd.DataFrame, last_rounds: Collection[int], *, every: int = 1, bins: int = 80) -> pd.DataFrame:
    """Return the mean number of rows per round and replica: the first round of each bin × ``outcome``.

    A bin is averaged over the rounds that lie in it and were recorded, of the replicas that reached them.

    Args:
        rows: columns round and outcome.
        last_rounds: last round of each replica.
        every: one round in this number is recorded, from the first on.
        bins: maximum number of bins.
    """
    last = max(last_rounds)
    width = every * math.ceil(math.ceil(last / every) / bins)  # of a bin, in rounds
    bin_of_row = (rows["round"].to_numpy() - 1).clip(0) // width
    table = pd.crosstab(bin_of_row, rows["outcome"].to_numpy())
    table = table.reindex(range(math.ceil(last / width)), fill_value=0)
    starts = table.index.to_numpy() * width
    recorded = np.zeros(len(starts), np.int64)  # rounds of each bin, of all replicas
    for last_round in last_rounds:
        reached = np.clip(last_round - starts, 0, width)
        recorded += (reached + every - 1) // every
    return table.div(recorded, axis="index").set_axis(starts + 1)


def outages(events: pd.DataFrame, end_s: float) -> pd.DataFrame:
    """Return the outages of each user and node of one replica: columns user, node, from_s, to_s.

    A node whose first event is ``up`` was down from the start; an outage without end lasts until *end_s*.
    """
    rows = events[events["kind"].isin(("down", "up"))][["user", "node", "time_s", "kind"]]
    rows = rows.astype({"node": str}).sort_values(["user", "node", "time_s"], kind="stable")
    down = rows["kind"].astype(str) == "down"
    was_down = down.groupby([rows["user"], rows["node"]]).shift(fill_value=False)
    switches = rows[down != was_down]  # without events that repeat the state
    until = switches.groupby(["user", "node"])["time_s"].shift(-1).fillna(end_s)
    spans = switches.assign(from_s=switches["time_s"], to_s=until)[down[switches.index]]
    is_first = ~rows.duplicated(["user", "node"])
    from_start = rows[is_first & ~down]
    from_start = from_start.assign(from_s=0.0, to_s=from_start["time_s"])
    return pd.concat([from_start, spans])[["user", "node", "from_s", "to_s"]].reset_index(drop=True)


def tower_outages(down: pd.DataFrame, users: pd.DataFrame) -> pd.DataFrame:
    """Return the outages of the tower of each user: columns user, from_s, to_s.

    The outages *down* are those of `outages`; *users* has the columns user and tower, the name of the node.
    """
    towers = down[(down["user"] < 0) & (down["node"] != "")].drop(columns="user")
    return users[["user", "tower"]].merge(towers, left_on="tower", right_on="node")[["user", "from_s", "to_s"]]


def covered_time(spans: pd.DataFrame) -> pd.Series[float]:
    """Return the total length of the spans of each user, overlaps counted once."""
    rows = spans.sort_values(["user", "from_s"], kind="stable")
    reached = rows.groupby("user")["to_s"].cummax().groupby(rows["user"]).shift().fillna(-math.inf)
    added = (rows["to_s"] - rows["from_s"].clip(lower=reached)).clip(lower=0.0)
    return added.groupby(rows["user"]).sum()


def delays(deliveries: pd.DataFrame, rounds: pd.DataFrame) -> pd.DataFrame:
    """Return *deliveries* with ``delay_s``, ``before_s``, ``way_s`` and ``age``.

    ``delay_s`` is the time from the opening of the round, when its broadcast begins, to the arrival.  It is 0 for
    updates that arrived while users answered the call before the round.  Its parts are ``before_s`` before the first
    attempt (broadcast, training, waiting) and ``way_s`` from then on; both are NaN for updates that began in an earlier
    round.  ``age`` is the number of versions between the base of the update and the newest version when the round
    opened; of a base that another node than the server has made, rounds count.
    """
    table = deliveries.merge(rounds[["replica", "round", "opened_s"]], on=["replica", "round"])
    same_round = table["sent_s"] >= table["opened_s"]
    return table.assign(
        delay_s=(table["arrived_s"] - table["opened_s"]).clip(lower=0.0),
        before_s=(table["sent_s"] - table["opened_s"]).where(same_round),
        way_s=(table["arrived_s"] - table["sent_s"]).where(same_round),
        age=table["round"] - 1 - table.get("base_round", table["base"]),
    ).drop(columns="opened_s")


def with_nodes(deliveries: pd.DataFrame, merged: pd.DataFrame, merges: pd.DataFrame) -> pd.DataFrame:
    """Return *deliveries* with ``node``, which each reached, and ``base_round``, the time of its base there.

    Args:
        deliveries: the table of this name.
        merged: the table ``merged_updates``.
        merges: the table of this name.
    """
    key = ["replica", "round", "user", "base", "arrived_s"]
    # a user may deliver to two nodes at once, from versions of the same number: such rows are paired in their order
    deliveries = deliveries.assign(repeat=deliveries.groupby(key).cumcount())
    merged = merged.assign(repeat=merged.groupby(key).cumcount())
    table = deliveries.merge(merged[[*key, "repeat", "node"]], on=[*key, "repeat"], how="left").drop(columns="repeat")
    node = table["node"].fillna(SERVER).astype(np.int64)
    times = merges[["replica", "node", "number", "version_round"]].rename(columns={"number": "base"})
    of_merges = table.assign(node=node).merge(times, on=["replica", "node", "base"], how="left")["version_round"]
    of_others = table["base"].where(node == SERVER, 0)  # a version of the server is its round; version 0 has time 0
    base_round = of_merges.fillna(of_others).astype(np.int64)
    return table.assign(node=node, base_round=base_round.to_numpy())


def ages(age: pd.Series[int], max_age: int = 12) -> pd.Series[float]:
    """Return the share of updates of each age in versions; ages from *max_age* on are one entry, ``12+``."""
    youngest = int(age.min())
    oldest = int(age.max())
    last = min(oldest, max_age)
    shares = age.clip(upper=max_age).value_counts(normalize=True).sort_index()
    shares = shares.reindex(range(min(0, youngest), last + 1), fill_value=0.0)
    labels = [str(label) for label in shares.index]
    if oldest > max_age:
        labels[-1] = f"{max_age}+"
    return shares.set_axis(labels)


def node_delays(events: pd.DataFrame) -> pd.DataFrame:
    """Return the messages that towers and routers forwarded: columns replica, node, from_s, to_s, stay_s."""
    rows = events[events["kind"] == "forwarded"].astype({"node": str})
    rows = rows.assign(from_s=rows["time_s"] - rows["value"], to_s=rows["time_s"], stay_s=rows["value"])
    return rows[["replica", "node", "from_s", "to_s", "stay_s"]].reset_index(drop=True)


def queues(rows: pd.DataFrame, length_s: float) -> pd.DataFrame:
    """Return a row for each node, the longest queue first: passed, mean_s, p95_s, longest_s, held.

    ``held`` is the mean number of messages in the node, the one in service included: by Little's law the sum of their
    stays over *length_s*, the observed time of all replicas.

    The *rows* are those of `node_delays`.
    """
    by = rows.groupby("node")["stay_s"]
    table = pd.DataFrame({"passed": by.size(), "mean_s": by.mean(), "p95_s": by.quantile(0.95), "longest_s": by.max()})
    table = table.assign(held=by.sum() / max(length_s, 1e-12))
    return table.sort_values("held", ascending=False).reset_index()


def backlog_over_time(rows: pd.DataFrame, end_s: float, bins: int = 80) -> NDArray[np.float64]:
    """Return the mean number of messages in one node over each of equal bins of time, ``[bins]``.

    Args:
        rows: from `node_delays`, of one replica and node.
        end_s: end of the last bin in seconds.
        bins: number of bins.
    """
    edges = np.linspace(0.0, end_s, bins + 1)
    entered = _integrated_count(rows["from_s"].to_numpy(float), edges)
    left = _integrated_count(rows["to_s"].to_numpy(float), edges)
    return np.asarray(np.diff(entered - left) / (end_s / bins))


def _integrated_count(times: NDArray[np.float64], edges: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return for each edge the sum, over all *times* before it, of the time since."""
    ordered = np.sort(times)
    number = np.searchsorted(ordered, edges)  # of times before each edge
    sums = np.append(0.0, ordered.cumsum())  # of the first 0, 1, 2, … times
    return np.asarray(number * edges - sums[number])  # Σ (edge - time) over them


def utilisation(final_metrics: pd.DataFrame) -> pd.DataFrame:
    """Return the share of time in which each cell and link was in use: columns replica, part, share."""
    rows = final_metrics[final_metrics["metric"].astype(str).str.startswith(UTILISATION)]
    rows = rows.assign(part=rows["metric"].astype(str).str.removeprefix(UTILISATION), share=rows["value"])
    return rows[["replica", "part", "share"]].reset_index(drop=True)
