"""The figures behind the pictures of learning: plain pandas in, plain pandas out."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Literal

import numpy as np
import pandas as pd

from netfl.results.statistics import final_values, is_final, t_factor

SWING = 0.08
"""A curve is smoothed when its mean turn at an evaluation is larger than this share of its whole range."""

FEW = 40
"""A curve of fewer evaluations is never smoothed."""

Over = Literal["round", "time", "bits", "energy"]
"""What a curve runs over: rounds, simulated seconds, bits sent up by all users, joules spent by them."""

SPENT = {"time": "time_s", "bits": "uplink_bits", "energy": "energy_J"}
"""The column that says how much of it was spent by an evaluation; see `spent`."""


def with_cost(metrics: pd.DataFrame, rounds: pd.DataFrame) -> pd.DataFrame:
    """*metrics* with ``uplink_bits`` and ``energy_J``: what all users had sent and spent by then.

    Args:
        metrics: the metrics table.
        rounds: the table of rounds; its energy is NaN where nobody counts.
    """
    table = rounds.sort_values(["replica", "round"])[["replica", "round", "uplink_bits", "energy_J"]]
    table = table.assign(uplink_bits=table.groupby("replica")["uplink_bits"].cumsum())
    found = metrics.merge(table, on=["replica", "round"], how="left")
    start = found["round"] == 0
    known = table.groupby("replica")["energy_J"].count()
    counted = found["replica"].map(known).fillna(0) > 0
    found.loc[start, "uplink_bits"] = 0.0
    found.loc[start & counted, "energy_J"] = 0.0
    return found


def metric_table(metrics: pd.DataFrame, metric: str, group: str = "", values: str = "value") -> pd.DataFrame:
    """One metric with a row for each evaluated round and a column for each (learner, replica)."""
    rows = metrics[(metrics["metric"] == metric) & (metrics["group"] == group)]
    rows = rows.astype({"learner": str}).drop_duplicates(["round", "learner", "replica"], keep="last")
    table = rows.pivot(index="round", columns=["learner", "replica"], values=values)
    return table.sort_index().sort_index(axis="columns")


def final(metrics: pd.DataFrame, metric: str, group: str = "", *, choices: Collection[str] = ()) -> pd.Series[float]:
    """A metric's final value for each (learner, replica), as `netfl.results.statistics.final_values` defines it."""
    table = metric_table(metrics, metric, group)
    if table.empty:
        return pd.Series(dtype=float, index=table.columns)
    is_choice = table.columns.get_level_values("learner").isin(list(choices))
    return pd.Series(final_values(table.index, table, is_choice), table.columns)


def smoothing_window(metrics: pd.DataFrame, metric: str, group: str = "") -> int:
    """Over how many evaluations a curve is averaged: 1 for one that does not swing."""
    table = metric_table(metrics, metric, group)
    turns = table.diff().diff().abs().to_numpy()
    spread = (table.max() - table.min()).max()
    if len(table) < FEW or not np.isfinite(turns).any() or np.nanmean(turns) <= SWING * spread:
        return 1
    return max(5, len(table) // 20)


def curve(
    metrics: pd.DataFrame, metric: str, group: str = "", *, over: Over = "round", smooth: int = 1
) -> pd.DataFrame:
    """A metric's mean over replicas and its 95 % t-interval: columns learner, at, mean, low, high.

    Args:
        metrics: the metrics table.
        metric: which metric.
        group: which group of it.
        over: rounds, or what else is spent, over which figures between two evaluations are interpolated; of bits and
            joules *metrics* has columns, from `spent`.
        smooth: each figure is first replaced by the mean of the last so many of its replica; as that looks back only,
            nothing shows before it happens.
    """
    table = metric_table(metrics, metric, group)
    if smooth > 1:
        table = table.rolling(smooth, min_periods=1).mean()
    if over != "round":
        table = _on_one_clock(table, metric_table(metrics, metric, group, SPENT[over]))
    parts = [_with_interval(table[[name]]).assign(learner=name) for name in table.columns.unique("learner")]
    return pd.concat(parts) if parts else pd.DataFrame(columns=["at", "mean", "low", "high", "learner"])


def _with_interval(table: pd.DataFrame) -> pd.DataFrame:
    """Mean and interval across the columns of *table*; none where only one has a value."""
    count = table.count(axis="columns")
    factors = {size: t_factor(size) if size > 1 else math.nan for size in count.unique()}
    mean, half = table.mean(axis="columns"), table.std(axis="columns") * count.map(factors)
    found = pd.DataFrame({"at": table.index, "mean": mean, "low": mean - half, "high": mean + half})
    return found.dropna(subset="mean")


def _on_one_clock(table: pd.DataFrame, times: pd.DataFrame, steps: int = 200) -> pd.DataFrame:
    """*table* read at instants, or amounts spent, that all replicas have reached; *times* says when each was found.

    A column whose figures end before its replica does has none from there on.
    """
    table = table.dropna(axis="columns", how="all")
    replica = times.columns.get_level_values("replica")
    start, end = float(times.min().groupby(replica).min().max()), float(times.max().groupby(replica).max().min())
    clock = np.linspace(start, end, steps) if end > start else np.array([start])
    columns = {}
    for column in table.columns:
        known = table[column].dropna()
        at = times[column].loc[known.index].to_numpy()
        columns[column] = np.interp(clock, at, known.to_numpy(), left=math.nan, right=math.nan)
    return pd.DataFrame(columns, index=clock).rename_axis(columns=["learner", "replica"])


def grouped_final_metrics(
    metrics: pd.DataFrame, metric: str, kind: str, *, choices: Collection[str] = ()
) -> pd.DataFrame:
    """Final values of each ``kind:number`` group of a metric: columns learner, replica, number, value.

    Args:
        metrics: the metrics table.
        metric: which metric.
        kind: ``class`` or ``user``.
        choices: which of the learners are choices among others; see `netfl.results.statistics.final_values`.
    """
    columns = ["learner", "replica", "number"]
    groups = metrics["group"].astype("category")
    numbers = groups.cat.categories.astype(str).str.extract(rf"^{kind}:(\d+)$", expand=False).astype(float)
    number = numbers.to_numpy()[groups.cat.codes.to_numpy()] if len(numbers) else np.full(len(metrics), np.nan)
    wanted = (metrics["metric"] == metric).to_numpy() & ~np.isnan(number)
    rows: pd.DataFrame = metrics[wanted].assign(number=number[wanted].astype(int)).astype({"learner": str})
    rows = rows[is_final(rows["round"])]
    if rows.empty:
        return rows.loc[:, [*columns, "value"]]
    table = rows.drop_duplicates(["round", *columns], keep="last").pivot(index="round", columns=columns, values="value")
    is_choice = table.columns.get_level_values("learner").isin(list(choices))
    values = pd.Series(final_values(table.index, table, is_choice), table.columns, name="value")
    found: pd.DataFrame = values.dropna().reset_index()
    return found
