"""Sentences at the top of reports, no more certain than the replicas allow; their wording is ``summary.txt``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import pandas as pd

from netfl.learning.blocks import OTHERS
from netfl.plots.sweeps import is_numeric, sorted_values
from netfl.report.page import caption, sentences
from netfl.report.run_data import RunData
from netfl.report.run_set import NamedRun, RunSet, relate_traces
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
    if seed is not None:
        parts.append(f"seed {seed}")
    return " · ".join(parts)


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
    finals = {name: values.dropna() for name, values in data.final(metric).items() if name not in data.run.choices}
    finals = {name: values for name, values in finals.items() if len(values)}
    common = pd.DataFrame(finals).dropna()  # the replicas that all learners have
    means = {}
    for name, values in finals.items():
        compared = common[name] if len(common) else values
        means[name] = float(compared.mean())
    names = [*means]
    is_ordered = has_order(data.run.comparison)
    if is_ordered:
        names.sort(key=lambda name: -means[name])
    lead = statistics.interval([])
    if len(names) > 1:
        best, second = names[:2]
        lead = statistics.interval((common[best] - common[second]).to_numpy())
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
    contexts = {formatting.accuracy_of_block(block): f"In block {block}" for block in data.run.blocks[:-1]}
    if contexts:  # the last are the users in none
        contexts[formatting.accuracy_of_block(OTHERS)] = "For users in no block"
    contexts |= verdict_metrics()
    state = brief_state(data.run.comparison)
    lines = []
    for metric, context in contexts.items():
        if not data.has(metric):
            continue
        classes = ""
        if metric == "rare_accuracy" and data.rare_classes:
            classes = class_names(data.rare_classes)
        lines += sentences("verdict", qualified(context, classes, state), rank_learners(data, metric))
    return lines


def qualified(text: str, *remarks: str) -> str:
    """Return *text* with its remarks in parentheses; without any it is returned as it is.

    >>> qualified("Over all classes", "", "equal settings")
    'Over all classes (equal settings)'
    """
    stated = "; ".join(remark for remark in remarks if remark)
    if not stated:
        return text
    return f"{text} ({stated})"


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
    where = ""
    if len(data.replicas) > 1:
        where = f" in replica {data.first}"
    never = users[users["delivered"] == 0]
    silent_rare = never.loc[never["rare"], "user"].tolist()
    silent_others = never.loc[~never["rare"], "user"].tolist()
    fewest = users[users["delivered"] == users["delivered"].min()]
    lines = sentences("participation", data, silent_rare, silent_others, fewest, where)
    if users["rare"].any():
        lines += _rare_user_sentences(data, where)
    return lines


def _rare_user_sentences(data: RunData, where: str) -> list[str]:
    """Return the share of deliveries, the longest silence and the downtime of users with rare classes."""
    users = data.first_users
    rare_users = users[users["rare"]]
    other_users = users[~users["rare"]]
    rare_ids = rare_users["user"].to_numpy()
    lines = []
    delivered = data.users["delivered"]  # in all replicas
    if delivered.sum():
        rare_share = delivered[data.users["rare"]].sum() / delivered.sum()
        most_frequent = rare_ids[rare_users["delivered"].to_numpy().argmax()]
        fewer = int((other_users["delivered"] < rare_users["delivered"].max()).sum())
        lines += sentences("rare_share", data, rare_share, most_frequent, fewer, len(other_users), where)
    silences = aggregates.longest_silences(data.deliveries, rare_ids, data.end_s)
    longest = (silences["to_s"] - silences["from_s"]).sort_values().index[-1]
    lines += sentences("silence", silences.loc[longest], where)
    if len(data.outages):
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
    lines += _trace_sentences(runs)
    silent_users = []
    for run in runs.members:
        number = int((run.data.first_users["delivered"] == 0).sum())
        is_known = len(run.data.run.rounds) > 0 and run.data.duration_s is None and not run.data.lacks("deliveries")
        if number and is_known and run.data.has_all_users:
            silent_users.append(f"{format_count(number)} of {format_count(len(run.data.first_users))} in {run.letter}")
    return lines + sentences("never_delivered", silent_users)


def _trace_sentences(runs: RunSet) -> list[str]:
    """Return which runs share the trace of the first run with deliveries."""
    members = [run for run in runs.members if len(run.data.run.deliveries)]
    if len(members) < 2:
        return []
    first, *others = members
    letters: dict[str, list[str]] = {"same": [], "other": [], "other_seed": [], "unknown": []}
    for run in others:
        letters[relate_traces(run.data, first.data)].append(run.letter)
    return sentences("traces", first.letter, letters)


def _winners(runs: RunSet, metric: str) -> list[str]:
    """Return the best learner in each run by *metric*, and the highest value of all runs."""
    groups: dict[tuple[str, str], list[str]] = {}
    tops = []
    members = runs.having(metric)
    for run in members:
        ranking = rank_learners(run.data, metric)
        if not ranking.names:
            continue
        best = ranking.names[0]
        if ranking.is_ordered and run.data.intervals(metric)[best].is_shown:
            tops.append((ranking.value(0), best, run.letter, ranking.texts[best]))
        if len(ranking.names) > 1:
            state = _state_of_lead(ranking)
            ahead = best if state == "ahead" else ""
            groups.setdefault((ahead, state), []).append(run.letter)
    ordered = dict(sorted(groups.items(), key=lambda group: not group[0][0]))  # runs with a best learner first
    top = None
    if 1 < len(tops) == len(members):
        top = max(tops, key=lambda top: top[0])
    classes = ""
    rare_classes = _common_rare_classes(members)
    if metric == "rare_accuracy" and rare_classes:
        classes = class_names(rare_classes)
    context = verdict_metrics()[metric]
    state = joint_state({run.letter: run.data.run.comparison for run in members})
    start = qualified(context, classes, state)
    top_start = qualified(context, state)
    return sentences("winners", start, top_start, ordered, top, runs.time.scope)


def _common_rare_classes(members: Sequence[NamedRun]) -> tuple[int, ...]:
    """Return the rare classes of all runs; none if they differ."""
    rare_classes = {run.data.rare_classes for run in members}
    if len(rare_classes) > 1:
        return ()
    return next(iter(rare_classes), ())


def _state_of_lead(ranking: LearnerRanking) -> str:
    """Return what the replicas support about the best two learners, as in ``summary.txt``."""
    is_clear = ranking.lead.clear
    if not ranking.is_ordered:  # their tuning has failed
        return "open"
    if not ranking.lead.replicas:  # no replica has both
        return "apart"
    if is_clear is None:
        return "few"
    if ranking.is_tied:
        return "tied"
    return "ahead" if is_clear else "undecided"


def sweep_summary(data: SweepData) -> list[str]:
    """Return the sentences at the top of the report of a sweep."""
    lines = varied_axes(data)
    if data.sweep.search is None:
        lines += _missing_points(data)
    else:
        lines += _trials(data, data.sweep.search)
    finals = data.sweep.final_metrics
    is_diverged = finals["metric"].map(statistics.metric_of).isin(data.metrics) & ~np.isfinite(finals["value"])
    diverged = finals[is_diverged].groupby("learner", sort=False)["point"].nunique()
    lines += sentences("diverged", [f"{learner} at {counted(number, 'point')}" for learner, number in diverged.items()])
    for metric in data.metrics[1::-1]:  # the rare classes first, as in `verdict_metrics`
        lines += point_verdict(rank_points(data, metric), metric, data.sweep.comparison)
    if not data.metrics:  # nothing was learned
        lines += _network_ranges(data)
    return lines


def _missing_points(data: SweepData) -> list[str]:
    """Return how many points are not done, and the errors of failed runs."""
    states = data.sweep.points["status"].value_counts()
    done = int(states.get("done", 0))
    others = [f"{format_count(int(states[name]))} {name}" for name in ("partial", "missing") if name in states]
    failed = data.sweep.tasks[data.sweep.tasks["status"] == "failed"]
    errors = failed["error"].drop_duplicates().tolist()
    return sentences("missing", len(data.sweep.points), done, others, len(failed), errors)


def _trials(data: SweepData, search: SearchEntry) -> list[str]:
    """Return the state of a search, and its best trial."""
    states = data.sweep.trials["status"].value_counts()
    counts = [f"{format_count(int(count))} {state}" for state, count in states.items()]
    errors = dict.fromkeys(entry.error for entry in search.entries if entry.error)
    best = ""
    if ranked := search.ranked():
        best = search.describe(ranked[0], data.sweep.point_values(ranked[0]))
    return sentences("trials", search, best, counts, search.is_over, [*errors])


def sweep_facts(data: SweepData) -> str:
    """Return the size of a sweep in one line."""
    unit = "point" if data.sweep.search is None else "trial"
    parts = [
        counted(len(data.sweep.points), unit),
        f"{counted(data.replicas, 'replica')} each",
        counted(len(data.sweep.tasks), "run"),
    ]
    seed = data.scenario.get("seed")
    if seed is not None and "seed" not in data.varied:
        parts.append(f"seed {seed}")
    return " · ".join(parts)


def varied_axes(data: SweepData) -> list[str]:
    """Return the varied axes with their values."""
    axes = []
    if data.varied:
        axes = [_axis(data, axis) for axis in (*data.free, *data.random_axes)]
    return sentences("varied", data, axes)


def _axis(data: SweepData, axis: str) -> str:
    """Return an axis with its values, and those that vary with it, in words."""
    column = data.sweep.points[axis]
    values = [formatting.format_setting(value) for value in sorted_values(column)]
    if len(values) <= _MAX_VALUES:
        text = join_words(values)
    elif is_numeric(column):
        text = f"{len(values)} values from {values[0]} to {values[-1]}"
    else:
        text = f"{len(values)} values {values[0]} and others"
    if data.zipped[1:] and axis == data.zipped[0]:
        text += f", and with it {join_words(data.zipped[1:])}"
    return f"{axis} ({text})"


def point_verdict(ranking: PointRanking, metric: str, state: str = "") -> list[str]:
    """Return the best learner and setting by one metric, and whether its lead is beyond chance.

    *state* is that of the comparison of the learners; without an order there is no sentence.
    """
    if not ranking.complete or not has_order(state):
        return []
    texts = [
        formatting.format_final(metric, point.mean.mean, point.mean.half, point.mean.replicas)
        for point in ranking.complete
    ]
    return sentences("best_point", metrics_in("sweep")[metric], ranking, texts, MIN_DEVIATION, state)


def _network_ranges(data: SweepData) -> list[str]:
    """Return the lowest and the highest value of each metric of the network, with their points."""
    axes = [*data.free, *data.random_axes]
    ranges = []
    for metric in data.network_metrics:
        rows = data.summary_of(metric)
        lowest = rows.iloc[int(rows["mean"].argmin())]
        highest = rows.iloc[int(rows["mean"].argmax())]
        title = capitalized(formatting.metric_label(metric))
        if lowest["mean"] == highest["mean"]:  # there is no range
            ranges.append((title, "", formatting.format_metric(metric, highest["mean"])))
            continue
        ends = [
            statistics.ConfidenceInterval(row["mean"], row["half"], int(row["replicas"])) for row in (lowest, highest)
        ]
        low, high = formatting.format_column(metric, ends)
        low_point = data.describe_point(axes, lowest["point"])
        high_point = data.describe_point(axes, highest["point"])
        ranges.append((title, f"{low} at {low_point}", f"{high} at {high_point}"))
    return sentences("ranges", not data.sweep.summary.empty, ranges)
