"""Sentences at the top of reports, no more certain than the replicas allow; their wording is ``summary.txt``."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain

import numpy as np
import pandas as pd

from netfl.learning.blocks import OTHERS
from netfl.plots.sweeps import is_numeric, sorted_values
from netfl.report.page import caption, sentences
from netfl.report.run_data import RunData
from netfl.report.run_set import RunSet, relate_traces
from netfl.report.sweep_data import MIN_DEVIATION, PointRanking, SweepData, rank_points
from netfl.results import aggregates, formatting, statistics
from netfl.results.comparison import brief_state, has_order, joint_state
from netfl.results.formatting import capitalized, class_names, clock, counted, format_count, join_words, percent
from netfl.results.metrics import metrics_in
from netfl.simulation.checkpoints import CHECKPOINT
from netfl.sweeps.index import SearchEntry
from netfl.types import OUTCOMES

MEANINGS = {
    "delivered": "reached the server in time and were aggregated",
    "late": "arrived after their round closed, or from too old a version",
    "collided": "collided with another sender",
    "faded": "were lost to fading",
    "lost": "were lost to an outage or an empty battery",
    "dropped": "were dropped by a full queue",
    "discarded": "arrived in rounds that were abandoned",
    "given_up": "were given up after their last attempt",
    "superseded": "were replaced by a newer version",
    "not_trained": "were not trained, as their users decided",
    "unfinished": "were not finished at the end of the run",
    "left": "waited when their users went to another tower",
    "not_summed": "were left out of the sum in the air",
}
"""Outcomes as the end of a sentence about updates."""

_MAX_VALUES = 6
"""Of an axis with more values only the first and the last are named."""


def run_summary(data: RunData) -> list[str]:
    """Return the sentences at the top of the report of a run; that nothing was delivered comes before all others."""
    first = [run_status(data), verdicts(data)]
    if delivers_nothing(data):
        first.reverse()
    return [
        *chain.from_iterable(first),
        *participation_sentences(data),
        *sentences("selection", data),
        *sentences("duration", data, caption("warmup", data)),
        *sentences("merges", data),
        *outcome_sentences(data),
        *sentences("contents", data),
    ]


def run_facts(data: RunData) -> str:
    """Return the size of a run in one line."""
    parts = []
    if data.has_all_users:
        users = data.run.scenario.get("users") or len(data.first_users)
        parts.append(f"{format_count(int(users))} users")
    if data.merging_nodes:
        parts.append(f"{counted(data.merging_nodes, 'node')} below the server")
    if data.duration_s is not None:
        parts.append(clock(data.duration_s))
    elif not data.lacks("rounds"):
        parts.append(f"{data.round_count} rounds")
    if data.replicas or not data.lacks("rounds"):
        parts.append(counted(len(data.replicas), "replica"))
    seed = data.run.manifest.get("seed", data.run.scenario.get("seed"))
    return " · ".join([*parts, *([] if seed is None else [f"seed {seed}"])])


def run_status(data: RunData) -> list[str]:
    """Return what is missing in a run, and its warnings."""
    can_resume = data.run.status in {"crashed", "interrupted", "failed"}
    has_checkpoint = (data.run.folder / CHECKPOINT).exists()
    thinning = caption("thinning", data.run.manifest.get("events_thinned"))
    return sentences("status", data, thinning, can_resume, has_checkpoint)


@dataclass(frozen=True)
class LearnerRanking:
    """Learners by one metric, the highest final value first.

    Args:
        names: the learners.
        texts: final value of each, as in all tables.
        means: mean final value of each, over the replicas that all have, if there are any.
        lead: difference of the best two by replica; without replicas if they have none in common.
        window: the rounds that the values are the means of.
        is_ordered: whether they may be ranked; if their tuning has failed, they stand in the order of the scenario.
    """

    names: tuple[str, ...]
    texts: dict[str, str]
    means: dict[str, float]
    lead: statistics.ConfidenceInterval
    window: str
    is_ordered: bool = True

    @property
    def is_tied(self) -> bool:
        """The best two end alike."""
        return len(self.names) > 1 and formatting.end_alike(self.value(0), self.value(1), self.lead)

    @property
    def remark(self) -> str:
        """Remark on values that are not ranked, as there are too few replicas."""
        return statistics.CHANCE.get(self.lead.replicas, "")

    def value(self, rank: int) -> float:
        """Return the mean at a rank."""
        return self.means[self.names[rank]]


def rank_learners(data: RunData, metric: str) -> LearnerRanking:
    """Rank the learners of a run, without choices among them.

    If some diverged, they are ranked by the replicas that all learners have, if there are any.
    """
    ends = {name: values.dropna() for name, values in data.final(metric).items() if name not in data.run.choices}
    ends = {name: values for name, values in ends.items() if len(values)}
    common = pd.DataFrame(ends).dropna()
    means = {name: float((common[name] if len(common) else values).mean()) for name, values in ends.items()}
    is_ordered = has_order(data.run.comparison)
    names = [*means]
    if is_ordered:
        names.sort(key=lambda name: -means[name])
    lead = statistics.interval((common[names[0]] - common[names[1]]).to_numpy() if len(names) > 1 else [])
    texts = {name: data.text(metric, name) for name in names}
    return LearnerRanking(tuple(names), texts, means, lead, str(data.window), is_ordered)


def verdict_metrics() -> dict[str, str]:
    """Return the metrics by which learners are compared, as beginnings of sentences, the rare classes first.

    Selection harms the rare classes most.
    """
    return dict(reversed(metrics_in("verdict").items()))


def verdicts(data: RunData) -> list[str]:
    """Return the best learner in each block, on rare classes and over all, its lead, and whether replicas support it.

    Without a delivery there is nothing to compare: that is said instead.
    """
    if delivers_nothing(data):
        return sentences("nothing_delivered", data)
    lines = []
    blocks = {formatting.accuracy_of_block(block): f"In block {block}" for block in data.run.blocks[:-1]}
    if blocks:  # the last are the users in none
        blocks[formatting.accuracy_of_block(OTHERS)] = "For users in no block"
    for metric, context in (blocks | verdict_metrics()).items():
        if data.has(metric):
            classes = data.rare_classes if metric == "rare_accuracy" else ()
            state = brief_state(data.run.comparison)
            start = qualified(context, class_names(classes) if classes else "", state)
            lines += sentences("verdict", start, rank_learners(data, metric))
    return lines


def qualified(text: str, *remarks: str) -> str:
    """Return *text* with its remarks in parentheses; without any it is returned as it is.

    >>> qualified("Over all classes", "", "equal settings")
    'Over all classes (equal settings)'
    """
    stated = "; ".join(remark for remark in remarks if remark)
    return f"{text} ({stated})" if stated else text


def delivers_nothing(data: RunData) -> bool:
    """Return whether rounds have ended, and none of them delivered an update."""
    if data.duration_s is not None or data.lacks("rounds") or data.lacks("deliveries"):
        return False
    return not data.run.rounds.empty and data.deliveries.empty


def participation_sentences(data: RunData) -> list[str]:
    """Return the users without deliveries, or with the fewest, and the silences of users with rare classes."""
    users = data.first_users
    if users.empty or data.run.rounds.empty or data.duration_s is not None or delivers_nothing(data):
        return []
    if data.lacks("deliveries") or not data.has_all_users or (data.deliveries.empty and data.lacks("scenario")):
        return []
    where = f" in replica {data.first}" if len(data.replicas) > 1 else ""
    never = users[users["delivered"] == 0]
    silent, others = (never.loc[never["rare"] == holds_rare, "user"].tolist() for holds_rare in (True, False))
    fewest = users[users["delivered"] == users["delivered"].min()]
    lines = sentences("participation", data, silent, others, fewest, where)
    rare_users, other_users = users[users["rare"]], users[~users["rare"]]
    rare = rare_users["user"].to_numpy()
    delivered = data.users["delivered"]
    if len(rare) and delivered.sum():
        rare_share = delivered[data.users["rare"]].sum() / delivered.sum()
        most_frequent = rare[rare_users["delivered"].to_numpy().argmax()]
        fewer = int((other_users["delivered"] < rare_users["delivered"].max()).sum())
        lines += sentences("rare_share", data, rare_share, most_frequent, fewer, len(other_users), where)
    if len(rare):
        gaps = aggregates.longest_silences(data.deliveries, rare, data.end_s)
        longest = (gaps["to_s"] - gaps["from_s"]).sort_values().index[-1]
        lines += sentences("silence", gaps.loc[longest], where)
    if len(rare) and len(data.outages):
        spans = pd.concat([data.outages[data.outages["user"] >= 0], data.tower_outages])
        share = users["user"].map(aggregates.covered_time(spans)).fillna(0.0) / data.end_s
        lines += sentences("downtime", share[users["rare"]].mean(), share[~users["rare"]].mean(), where)
    return lines


def outcome_meanings(data: RunData) -> dict[str, str]:
    """Return the outcomes of the updates of a run, or of its packets, as the end of a sentence about them."""
    if data.duration_s is not None:
        return MEANINGS | {"delivered": "arrived"}
    if data.merging_nodes:
        return MEANINGS | {"delivered": "reached the server or another node in time and were aggregated"}
    return MEANINGS


def outcome_sentences(data: RunData) -> list[str]:
    """Return the outcomes of updates or, in a run of traffic, of packets."""
    things = "updates" if data.duration_s is None else "packets"
    meanings = outcome_meanings(data)
    totals = data.outcomes["outcome"].value_counts()
    parts = [f"{percent(totals[name] / totals.sum())} {meanings[name]}" for name in OUTCOMES if name in totals]
    return sentences("outcomes", int(totals.sum()), things, parts)


def comparison_summary(runs: RunSet, keys: list[str]) -> list[str]:
    """Return the sentences at the top of the report of several runs.

    Args:
        runs: the runs.
        keys: dotted keys in which their scenarios differ.
    """
    lines = sentences("differences", runs, keys, list(dict.fromkeys(key.partition(".")[0] for key in keys)))
    lines += [f"{run.letter}: {line}" for run in runs.members for line in run_status(run.data)]
    if runs.time.sentence:
        lines.append(runs.time.sentence)
    for metric in verdict_metrics():
        lines += _winners(runs, metric)
    members = [run for run in runs.members if len(run.data.run.deliveries)]
    if len(members) > 1:
        first, *others = members
        groups: dict[str, list[str]] = {"same": [], "other": [], "other_seed": [], "unknown": []}
        for run in others:
            groups[relate_traces(run.data, first.data)].append(run.letter)
        lines += sentences("traces", first.letter, groups)
    parts = []
    for run in runs.members:
        number = int((run.data.first_users["delivered"] == 0).sum())
        is_known = len(run.data.run.rounds) > 0 and run.data.duration_s is None and not run.data.lacks("deliveries")
        if number and is_known and run.data.has_all_users:
            parts.append(f"{format_count(number)} of {format_count(len(run.data.first_users))} in {run.letter}")
    return lines + sentences("never_delivered", parts)


def _winners(runs: RunSet, metric: str) -> list[str]:
    groups: dict[tuple[str, str], list[str]] = {}
    tops = []
    members = runs.having(metric)
    for run in members:
        ranking = rank_learners(run.data, metric)
        lead = ranking.lead
        if ranking.names and ranking.is_ordered and run.data.intervals(metric)[ranking.names[0]].is_shown:
            tops.append((ranking.value(0), ranking.names[0], run.letter, ranking.texts[ranking.names[0]]))
        if len(ranking.names) < 2:
            continue
        state = {True: "ahead", None: "few", False: "undecided"}[lead.clear]
        if not ranking.is_ordered:
            state = "open"
        elif not lead.replicas:
            state = "apart"
        elif lead.clear is not None and ranking.is_tied:
            state = "tied"
        ahead = ranking.names[0] if state == "ahead" else ""
        groups.setdefault((ahead, state), []).append(run.letter)
    rare = {run.data.rare_classes for run in members} if metric == "rare_accuracy" else set()
    common = next(iter(rare)) if len(rare) == 1 else ()
    top = max(tops, key=lambda top: top[0]) if 1 < len(tops) == len(members) else None
    ordered = dict(sorted(groups.items(), key=lambda group: not group[0][0]))
    state = joint_state({run.letter: run.data.run.comparison for run in members})
    start = qualified(verdict_metrics()[metric], class_names(common) if common else "", state)
    top_start = qualified(verdict_metrics()[metric], state)
    return sentences("winners", start, top_start, ordered, top, runs.time.scope)


def sweep_summary(data: SweepData) -> list[str]:
    """Return the sentences at the top of the report of a sweep."""
    states = data.sweep.points["status"].value_counts()
    others = [f"{format_count(int(states[name]))} {name}" for name in ("partial", "missing") if name in states]
    failed = data.sweep.tasks[data.sweep.tasks["status"] == "failed"]
    errors = failed["error"].drop_duplicates().tolist()
    values = data.sweep.final_metrics
    rows = values[values["metric"].map(statistics.metric_of).isin(data.metrics) & ~np.isfinite(values["value"])]
    diverged = rows.groupby("learner", sort=False)["point"].nunique()
    lines = [
        *varied_axes(data),
        *(
            sentences("missing", len(data.sweep.points), int(states.get("done", 0)), others, len(failed), errors)
            if data.sweep.search is None
            else _trials(data, data.sweep.search)
        ),
        *sentences("diverged", [f"{learner} at {counted(number, 'point')}" for learner, number in diverged.items()]),
    ]
    for metric in data.metrics[1::-1]:  # the rare classes first, as in `verdict_metrics`
        lines += point_verdict(rank_points(data, metric), metric, data.sweep.comparison)
    return lines if data.metrics else lines + _network_ranges(data)


def _trials(data: SweepData, search: SearchEntry) -> list[str]:
    """Return the state of a search, and its best trial."""
    states = data.sweep.trials["status"].value_counts()
    errors = [entry.error for entry in search.entries if entry.error]
    best = [search.describe(number, data.sweep.point_values(number)) for number in search.ranked()[:1]]
    counts = [f"{format_count(int(count))} {state}" for state, count in states.items()]
    return sentences("trials", search, best[0] if best else "", counts, search.is_over, [*dict.fromkeys(errors)])


def sweep_facts(data: SweepData) -> str:
    """Return the size of a sweep in one line."""
    unit = "point" if data.sweep.search is None else "trial"
    parts = [counted(len(data.sweep.points), unit), f"{counted(data.replicas, 'replica')} each"]
    seed = data.scenario.get("seed")
    seeds = [] if seed is None or "seed" in data.varied else [f"seed {seed}"]
    return " · ".join([*parts, counted(len(data.sweep.tasks), "run"), *seeds])


def varied_axes(data: SweepData) -> list[str]:
    """Return the varied axes with their values."""
    axes = [_axis(data, axis) for axis in (*data.free, *data.random_axes)] if data.varied else []
    return sentences("varied", data, axes)


def _axis(data: SweepData, axis: str) -> str:
    column = data.sweep.points[axis]
    values = [formatting.format_setting(value) for value in sorted_values(column)]
    text = join_words(values)
    if len(values) > _MAX_VALUES:
        ends = f"from {values[0]} to {values[-1]}" if is_numeric(column) else f"{values[0]} and others"
        text = f"{len(values)} values {ends}"
    zipped = f", and with it {join_words(data.zipped[1:])}" if data.zipped[1:] and axis == data.zipped[0] else ""
    return f"{axis} ({text}{zipped})"


def point_verdict(ranking: PointRanking, metric: str, state: str = "") -> list[str]:
    """Return the best learner and setting by one metric, and whether its lead is beyond chance.

    *state* is that of the comparison of the learners; without an order there is no sentence.
    """
    if not ranking.complete or not has_order(state):
        return []
    texts = [
        formatting.format_final(metric, entry.mean.mean, entry.mean.half, entry.mean.replicas)
        for entry in ranking.complete
    ]
    return sentences("best_point", metrics_in("sweep")[metric], ranking, texts, MIN_DEVIATION, state)


def _network_ranges(data: SweepData) -> list[str]:
    axes = [*data.free, *data.random_axes]
    ranges = []
    for metric in data.network_metrics:
        rows = data.summary_of(metric)
        ends = [rows.iloc[int(rows["mean"].argmin())], rows.iloc[int(rows["mean"].argmax())]]
        title = capitalized(formatting.metric_label(metric))
        if ends[0]["mean"] == ends[1]["mean"] or len(rows) < 2:
            ranges.append((title, "", formatting.format_metric(metric, ends[1]["mean"])))
            continue
        cells = formatting.format_column(
            metric, [statistics.ConfidenceInterval(row["mean"], row["half"], int(row["replicas"])) for row in ends]
        )
        low, high = (
            f"{cell} at {data.describe_point(axes, row['point'])}" for cell, row in zip(cells, ends, strict=True)
        )
        ranges.append((title, low, high))
    return sentences("ranges", not data.sweep.summary.empty, ranges)
