"""Sentences at the top of reports, no more certain than the replicas allow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from netfl.plots.sweeps import is_numeric, sorted_values
from netfl.report.comparison_data import NamedRun, RunSet, shared_rounds
from netfl.report.run_data import RunData
from netfl.report.sweep_data import METRICS, MIN_DEVIATION, PointRanking, SweepData, rank_points
from netfl.results import aggregates, formatting, statistics
from netfl.results.formatting import (
    capitalized,
    class_names,
    clock,
    counted,
    format_count,
    format_points,
    format_signed,
    join_words,
    percent,
    user_names,
)
from netfl.simulation.checkpoints import CHECKPOINT
from netfl.types import FATES

CONTEXTS = {"rare_accuracy": "On the rare classes", "accuracy": "Over all classes"}
"""Metrics by which learners are compared, as the beginning of a sentence."""

MEANINGS = {
    "delivered": "reached the server in time and counted",
    "late": "came after their round had closed, or from too old a version",
    "collided": "met another sender",
    "faded": "met a fade",
    "lost": "met an outage",
    "dropped": "were turned away by a full queue",
    "discarded": "came in rounds that were abandoned",
    "given_up": "were given up after their last attempt",
    "superseded": "were overtaken by a newer version",
    "unfinished": "were still on their way at the end",
}
"""Outcomes as the end of a sentence about updates."""

_MAX_VALUES = 6
"""Of an axis with more values only the first and the last are named."""


def run_summary(data: RunData) -> list[str]:
    """Return the sentences at the top of the report of a run."""
    return [
        *run_status(data),
        *verdicts(data),
        *participation_sentences(data),
        *selection(data),
        *duration(data),
        *outcome_sentences(data),
    ]


def run_facts(data: RunData) -> str:
    """Return the size of a run in one line."""
    users = data.run.scenario.get("users") or len(data.first_users)
    length = f"{format_count(data.rounds)} rounds" if data.duration_s is None else clock(data.duration_s)
    seed = data.run.manifest.get("seed", data.run.scenario.get("seed"))
    parts = [f"{format_count(int(users))} users", length, counted(len(data.replicas), "replica")]
    return " · ".join([*parts, *([] if seed is None else [f"seed {seed}"])])


def run_status(data: RunData) -> Iterator[str]:
    """Yield what is missing in a run, and its warnings."""
    run, state = data.run, data.run.status
    planned = run.scenario.get("rounds") or run.manifest.get("rounds")
    unit = "rounds" if data.duration_s is None else "even windows of time"
    if state == "failed":
        error = run.manifest.get("error")
        yield f"This run failed{f': {error}' if error else ''}. What follows is what it wrote before."
    elif state == "unknown":
        yield f"Whether this run is finished cannot be told: it holds {data.rounds} {unit}."
    elif state != "done":
        yield f"This run is not finished ({state}): it holds {data.rounds} of {planned} {unit}."
    if state in {"crashed", "interrupted", "failed"}:
        yield f"It can go on: netfl resume {run.folder}"
        if run.learners and run.manifest.get("learning", True):
            has_checkpoint = (run.folder / CHECKPOINT).exists()
            yield (
                "Its checkpoint keeps what was learnt."
                if has_checkpoint
                else "It has no checkpoint, so it begins again."
            )
    yield from data.damage
    if note := thinning_sentence(run.manifest):
        yield note.strip()
    yield from (f"Warning: {warning}." for warning in run.manifest.get("warnings", ()))
    yield from (f"Training diverged, and its figures end there: {entry}." for entry in run.diverged)
    if run.rounds.empty:
        yield "There are no rounds yet."
    elif data.metrics.empty:
        purpose = "it traces the network alone" if data.duration_s is None else "it watches traffic alone"
        yield f"Nothing was learnt in this run: {purpose}."


def thinning_sentence(manifest: Mapping[str, Any]) -> str:
    """Return a sentence, after a space, on events that a run did not store by choice; empty if it stored all.

    >>> thinning_sentence({"events_thinned": {"users": 1000, "of": 1000000, "every": 10}})
    ' Events were stored of 1,000 of 1,000,000 users and of one round in 10 alone; other tables and figures are of all.'
    """
    thinned = manifest.get("events_thinned") or {}
    parts = [f"of {thinned['users']:,} of {thinned['of']:,} users"] if "users" in thinned else []
    parts += [f"of one round in {thinned['every']:,}"] if "every" in thinned else []
    return f" Events were stored {' and '.join(parts)} alone; other tables and figures are of all." if parts else ""


@dataclass(frozen=True)
class LearnerRanking:
    """Ranking of learners by one metric, the best first.

    Args:
        names: the learners.
        means: mean final value of each.
        lead: difference of the best two by replica; without replicas if they have none in common.
    """

    names: tuple[str, ...]
    means: dict[str, statistics.ConfidenceInterval]
    lead: statistics.ConfidenceInterval

    def value(self, rank: int) -> float:
        """Return the mean at a rank."""
        return self.means[self.names[rank]].mean


def rank_learners(data: RunData, metric: str) -> LearnerRanking:
    """Rank the learners of a run, without choices among them.

    If some diverged, means are over the replicas that all learners have, if there are any.
    """
    ends = {name: values.dropna() for name, values in data.final(metric).items() if name not in data.choices}
    ends = {name: values for name, values in ends.items() if len(values)}
    common = pd.DataFrame(ends).dropna()
    means = {name: statistics.interval(common[name] if len(common) else values) for name, values in ends.items()}
    names = sorted(means, key=lambda name: -means[name].mean)
    lead = statistics.interval((common[names[0]] - common[names[1]]).to_numpy() if len(names) > 1 else [])
    return LearnerRanking(tuple(names), means, lead)


def verdicts(data: RunData) -> Iterator[str]:
    """Yield the best learner on rare classes and over all, its lead, and whether replicas support it."""
    for metric, context in CONTEXTS.items():
        if data.has(metric):
            classes = data.rare_classes if metric == "rare_accuracy" else ()
            yield from verdict(data, metric, f"{context}{f' ({class_names(classes)})' if classes else ''}")


def verdict(data: RunData, metric: str, context: str) -> Iterator[str]:
    """Yield the best learner by one metric, compared with the second; *context* begins the sentence."""
    ranking = rank_learners(data, metric)
    if len(ranking.names) == 1:
        yield f"{context}, {ranking.names[0]} ends at {percent(ranking.value(0))}."
    elif ranking.names:
        yield f"{context}, {_comparison(ranking)}"
    if len(ranking.names) > 2:
        yield f"Last there is {ranking.names[-1]} with {percent(ranking.value(-1))}."


def _comparison(ranking: LearnerRanking) -> str:
    best, second, *_ = ranking.names
    lead, values = ranking.lead, f"{percent(ranking.value(0))} against {percent(ranking.value(1))}"
    ahead = f"{best} ends {format_points(lead.mean)} above {second}: {values}"
    if not lead.replicas:
        return f"{best} and {second} cannot be compared: {values}, but in no replica did all learners come to the end."
    if lead.mean == 0.0:
        return f"{best} and {second} end alike, at {percent(ranking.value(0))}."
    if lead.clear is None:
        return f"{ahead}; a single replica cannot tell how much of that is chance."
    if lead.clear:
        return f"{ahead} ({_bounds(lead)})."
    return (
        f"{best} and {second} cannot be told apart: {values}, a difference of {format_points(lead.mean)} "
        f"that is within the noise ({_bounds(lead)})."
    )


def _bounds(lead: statistics.ConfidenceInterval) -> str:
    low, high = max(-100.0, 100 * (lead.mean - lead.half)), min(100.0, 100 * (lead.mean + lead.half))
    return f"95 % interval {format_signed(low)} to {format_signed(high)} over {lead.replicas} paired replicas"


def participation_sentences(data: RunData) -> Iterator[str]:
    """Yield the users without deliveries, or with the fewest, and the silences of users with rare classes."""
    users = data.first_users
    if users.empty or data.run.rounds.empty or data.duration_s is not None:
        return
    where = f" (replica {data.first})" if len(data.replicas) > 1 else ""
    never = users[users["delivered"] == 0]
    if len(never):
        rare, other = (never.loc[never["rare"] == is_rare, "user"].tolist() for is_rare in (True, False))
        groups = [f"{user_names(rare)}, with rare classes"] if rare else []
        yield f"Users without deliveries{where}: {'; '.join([*groups, *([user_names(other)] if other else [])])}."
    else:
        last = users.sort_values(["delivered", "user"]).iloc[0]
        holds = ", which holds a rare class," if last["rare"] else ""
        yield (
            f"Every user had deliveries{where}; user {last['user']}{holds} had the fewest: "
            f"{format_count(int(last['delivered']))} in {format_count(data.rounds)} rounds."
        )
    yield from _rare_share(data)
    yield from _longest_silence(data, where)
    yield from _downtime(data, where)


def _rare_share(data: RunData) -> Iterator[str]:
    users, deliveries = data.users, int(data.users["delivered"].sum())
    if not users["rare"].any() or not deliveries:
        return
    share = users.loc[users["rare"], "delivered"].sum() / deliveries
    yield (
        f"The users that hold rare classes are {percent(float(users['rare'].mean()))} of all users "
        f"and sent {percent(float(share))} of the delivered updates."
    )
    maximum = users[users["rare"]].groupby("replica")["delivered"].max()
    fewer = int((~users["rare"] & (users["delivered"] < users["replica"].map(maximum))).sum())
    if fewer:
        yield (
            f"They are not those with the fewest deliveries: {counted(fewer, 'other user')} had fewer than the "
            f"most frequent of them{'' if len(maximum) == 1 else ', counted over all replicas'}."
        )


def _longest_silence(data: RunData, where: str) -> Iterator[str]:
    rare = data.first_users.loc[data.first_users["rare"], "user"].to_numpy()
    if not len(rare):
        return
    gaps = aggregates.longest_silences(data.deliveries, rare, data.end_s)
    gap = gaps.assign(length=gaps["to_s"] - gaps["from_s"]).sort_values("length").iloc[-1]
    yield (
        f"The longest silence of a user with a rare class was {clock(gap['length'])}{where}: "
        f"user {int(gap['user'])}, from {clock(gap['from_s'])} to {clock(gap['to_s'])} of simulated time."
    )


def _downtime(data: RunData, where: str) -> Iterator[str]:
    users = data.first_users
    if data.outages.empty or not users["rare"].any():
        return
    spans = pd.concat([data.outages[data.outages["user"] >= 0], data.tower_outages])
    share = users["user"].map(aggregates.covered_time(spans)).fillna(0.0) / data.end_s
    rare, other = (percent(float(share[users["rare"] == is_rare].mean())) for is_rare in (True, False))
    yield (
        f"Users with rare classes were cut off, themselves or their tower, {rare} of the time, "
        f"the others {other}{where}."
    )


def selection(data: RunData) -> Iterator[str]:
    """Yield the diagnosis of the selection process."""
    if data.selection is not None and data.duration_s is None:
        yield data.selection.sentence + (" (Of the first replica.)" if len(data.replicas) > 1 else "")


def duration(data: RunData) -> Iterator[str]:
    """Yield the simulated time of a run."""
    if data.ends_s.empty:
        return
    if data.duration_s is not None:
        yield f"Traffic was watched for {clock(data.end_s)} of simulated time{warmup(data)}."
        return
    low, high = clock(float(data.ends_s.min())), clock(float(data.ends_s.max()))
    time = f"{low} of simulated time" if low == high else f"{low} to {high} of simulated time, depending on the replica"
    yield f"{format_count(data.rounds)} rounds took {time}."


def warmup(data: RunData) -> str:
    """Return the warm-up as the end of a sentence; empty without one."""
    if not data.warmup_s:
        return ""
    return f"; the first {clock(data.warmup_s)} are warm-up, and do not count for the figures"


def outcome_sentences(data: RunData) -> Iterator[str]:
    """Yield the outcomes of updates or, in a run of traffic, of packets."""
    totals = data.fates["fate"].value_counts()
    if not len(totals):
        return
    things, meanings = (
        ("updates", MEANINGS) if data.duration_s is None else ("packets", MEANINGS | {"delivered": "arrived"})
    )
    parts = [f"{percent(totals[name] / totals.sum())} {meanings[name]}" for name in FATES if name in totals]
    yield f"Of {format_count(int(totals.sum()))} {things}, {join_words(parts)}."


def comparison_summary(runs: RunSet, keys: list[str]) -> list[str]:
    """Return the sentences at the top of the report of several runs.

    Args:
        runs: the runs.
        keys: dotted keys in which their scenarios differ.
    """
    return [*_differences(runs, keys), *_states(runs), *_winners(runs), *_traces(runs), *_never_delivered(runs)]


def _differences(runs: RunSet, keys: list[str]) -> Iterator[str]:
    if len(runs.members) == 1:
        yield "Of the folders that were named only one holds a run that can be shown."
    elif not keys:
        yield "The scenarios are the same in every key."
    elif len(keys) <= 4:
        number = "one key" if len(keys) == 1 else f"{len(keys)} keys"
        yield f"The runs differ in {number} of their scenarios: {join_words(keys)}."
    else:
        parts = list(dict.fromkeys(key.partition(".")[0] for key in keys))
        yield f"The runs differ in {len(keys)} keys of their scenarios, in {join_words(parts)}."


def _states(runs: RunSet) -> Iterator[str]:
    yield from (f"Not shown: {problem}." for problem in runs.refused)
    for run in runs.members:
        yield from (f"{run.letter}: {sentence}" for sentence in run_status(run.data))


def _winners(runs: RunSet) -> Iterator[str]:
    """Yield the best learner of each run, and the best value of all."""
    for metric, context in CONTEXTS.items():
        ahead: dict[tuple[str, bool | None], list[str]] = {}
        undecided, tops = [], []
        for run in runs.having(metric):
            ranking = rank_learners(run.data, metric)
            lead = ranking.lead
            if ranking.names:
                tops.append((ranking.value(0), ranking.names[0], run))
            if len(ranking.names) < 2:
                continue
            if lead.mean == 0.0 or lead.clear is False or not lead.replicas:
                undecided.append(run.letter)
            else:
                ahead.setdefault((ranking.names[0], lead.clear), []).append(run.letter)
        chance = {True: "", None: " (a single replica cannot tell how much of that is chance)"}
        parts = [f"{name} is ahead in {join_words(letters)}{chance[clear]}" for (name, clear), letters in ahead.items()]
        parts += [f"the best two cannot be told apart in {join_words(undecided)}"] if undecided else []
        rare = {run.data.rare_classes for run in runs.having(metric)}
        same_rare = metric == "rare_accuracy" and len(rare) == 1 and any(rare)
        if parts:
            yield f"{context}{f' ({class_names(next(iter(rare)))})' if same_rare else ''}, {'; '.join(parts)}."
        if len(tops) > 1:
            value, name, run = max(tops, key=lambda top: top[0])
            yield f"{context}, the highest of all is {name} in {run.letter}, with {percent(value)}."


def _traces(runs: RunSet) -> Iterator[str]:
    """Yield the runs with the same trace as the first, whose differences are paired, and the others."""
    members = [run for run in runs.members if len(run.data.run.deliveries)]
    if len(members) < 2:
        return
    first, *others = members
    length = {run.letter: shared_rounds(run.data, first.data) for run in others}
    same = [letter for letter, rounds in length.items() if rounds]
    other = [letter for letter, rounds in length.items() if not rounds]
    if same:
        yield (
            f"{join_words(same)} {'shares' if len(same) == 1 else 'share'} the trace of {first.letter}: "
            "the same seed, and the same updates arrive at the same times. Differences to it are paired by replica."
        )
    if other:
        yield (
            f"{join_words(other)} {'does' if len(other) == 1 else 'do'} not share the trace of {first.letter}: seed or "
            "network differ, so differences to it are not paired."
        )


def _never_delivered(runs: RunSet) -> Iterator[str]:
    parts = []
    for run in runs.members:
        users = run.data.first_users
        number = int((users["delivered"] == 0).sum())
        if number and len(run.data.run.rounds) and run.data.duration_s is None:
            parts.append(f"{format_count(number)} of {format_count(len(users))} in {run.letter}")
    if parts:
        yield f"Users without deliveries in the first replica: {join_words(parts)}."


def spread_sentence(runs: RunSet) -> str:
    """Return the meaning of ± in a table of all runs, with a space behind it; empty if all have one replica."""
    counts = {run.letter: len(run.data.replicas) for run in runs.members}
    if max(counts.values()) < 2:
        return ""
    if len({*counts.values()}) == 1:
        return f"{statistics.name_spread(max(counts.values()))}. "
    numbers = ", ".join(f"{letter}: {number}" for letter, number in counts.items())
    return f"± is the half width of the 95 % t interval over the replicas of a run ({numbers}). "


def run_state_sentence(run: NamedRun) -> str:
    """Return the verdicts on one of several runs."""
    return f"{run.label}: {' '.join(verdicts(run.data))}"


def sweep_summary(data: SweepData) -> list[str]:
    """Return the sentences at the top of the report of a sweep."""
    sentences = [*varied_axes(data), *missing(data), *_diverged(data)]
    for metric in data.metrics[1::-1]:  # the rare classes first, as selection harms them most
        sentences += point_verdict(rank_points(data, metric), metric)
    return sentences if data.metrics else [*sentences, *network_ranges(data)]


def sweep_facts(data: SweepData) -> str:
    """Return the size of a sweep in one line."""
    parts = [counted(len(data.sweep.points), "point"), f"{counted(data.replicas, 'replica')} each"]
    seed = data.scenario.get("seed")
    seeds = [] if seed is None or "seed" in data.varied else [f"seed {seed}"]
    return " · ".join([*parts, counted(len(data.sweep.tasks), "run"), *seeds])


def varied_axes(data: SweepData) -> Iterator[str]:
    """Yield the varied axes with their values."""
    if not data.varied:
        yield "Nothing varies: there is one value of each axis."
        return
    names = data.random_axes
    parts = [f"What varies: {', '.join(_axis(data, axis) for axis in (*data.free, *names))}"]
    if len(data.free) > 1 and not names:
        parts.append("every combination that is not left out")
    if names:
        parts.append(f"{join_words(names)} {'is' if len(names) == 1 else 'are'} drawn at random")
    yield "; ".join(parts) + "."


def _axis(data: SweepData, axis: str) -> str:
    column = data.sweep.points[axis]
    values = [formatting.format_setting(value) for value in sorted_values(column)]
    text = join_words(values)
    if len(values) > _MAX_VALUES:
        ends = f"from {values[0]} to {values[-1]}" if is_numeric(column) else f"{values[0]} and others"
        text = f"{len(values)} values {ends}"
    zipped = f", and with it {join_words(data.zipped[axis])}" if axis in data.zipped else ""
    return f"{axis} ({text}{zipped})"


def missing(data: SweepData) -> Iterator[str]:
    """Yield the number of missing points, and the errors of failed runs."""
    states = data.sweep.points["status"].value_counts()
    done, number = int(states.get("done", 0)), len(data.sweep.points)
    if done == number:
        yield "All points are done." if number > 1 else "The point is done."
    else:
        parts = [f"{format_count(int(states[name]))} {name}" for name in ("partial", "missing") if name in states]
        yield (
            f"Not all points are done: {format_count(done)} of {format_count(number)}, {join_words(parts)}. "
            "The netfl sweep command that began it goes on with what is missing."
        )
    failed = data.sweep.tasks[data.sweep.tasks["status"] == "failed"]
    if len(failed):
        errors = failed["error"].drop_duplicates()
        more = f" (and {len(errors) - 1} other errors, below)" if len(errors) > 1 else ""
        yield f"{counted(len(failed), 'run')} failed and will be tried again: {errors.iloc[0].splitlines()[0]}{more}"


def _diverged(data: SweepData) -> Iterator[str]:
    values = data.sweep.figures
    rows = values[values["figure"].map(statistics.metric_of).isin(data.metrics) & ~np.isfinite(values["value"])]
    points = rows.groupby("learner", sort=False)["point"].nunique()
    parts = [f"{learner} at {counted(number, 'point')}" for learner, number in points.items()]
    if parts:
        yield (
            f"Training diverged in some replicas of {join_words(parts)}: their means are over the other replicas, and "
            "they are not ranked."
        )


def point_verdict(ranking: PointRanking, metric: str) -> Iterator[str]:
    """Yield the best learner and setting by one metric, and whether its lead is beyond chance."""
    if not ranking.complete:
        return
    best, *rest = ranking.complete
    mean, what = best.mean, METRICS[metric]
    value = formatting.metric_cell("accuracy", mean.mean, mean.half)
    spread = "" if mean.clear is None else f"; {statistics.name_spread(mean.replicas)}"
    yield (
        f"{capitalized(what)}: {best.name} ends highest, at {value} % "
        f"({statistics.FINAL[statistics.LAST_TENTH]}{spread}).{_point_lead(ranking) if rest else ''}"
    )
    if len(rest) > 1 and best.mean.replicas > 1:
        bias = " As the highest of many means, it is likely to flatter a little." if ranking.lead.mean else ""
        worse = ranking.significantly_worse
        yield (
            f"Of the other {len(rest)} results on {what}, {worse or 'none'} {'is' if worse == 1 else 'are'} below that "
            f"beyond chance (paired replicas, 95 % for all comparisons together).{bias}"
        )
    if ranking.incomplete:
        number = len(ranking.incomplete)
        results = "1 result is" if number == 1 else f"{number} results are"
        yield f"{results} not ranked on {what}: replicas are missing or diverged."


def _point_lead(ranking: PointRanking) -> str:
    best, second, *_ = ranking.complete
    lead = ranking.lead
    if lead.mean == 0.0:
        ties = sum(entry.mean.mean == best.mean.mean for entry in ranking.complete) - 1
        return f" So does {second.name}{f' and {ties - 1} more' if ties > 1 else ''}."
    ahead = f" Next is {second.name} with {percent(second.mean.mean)}, {format_points(lead.mean)} below"
    if lead.clear is None:
        return f"{ahead}; a single replica cannot tell how much of that is chance."
    if lead.half < MIN_DEVIATION:
        return f"{ahead} in each of {lead.replicas} replicas, which are too few and too alike to tell of chance."
    return f"{ahead}, {'beyond chance' if lead.clear else 'which is within the noise'} ({_bounds(lead)})."


def network_ranges(data: SweepData) -> Iterator[str]:
    """Yield the ranges of the metrics of the network, in a sweep without learners."""
    if data.sweep.summary.empty:
        yield "There are no figures yet."
        return
    yield "Nothing was learned in this sweep: it traces the network alone."
    axes = [*data.free, *data.random_axes]
    for figure in data.network_metrics:
        rows = data.summary_of(figure)
        ends = [rows.iloc[int(rows["mean"].argmin())], rows.iloc[int(rows["mean"].argmax())]]
        title = capitalized(formatting.metric_label(figure))
        if ends[0]["mean"] == ends[1]["mean"] or len(rows) < 2:
            yield f"{title}: {formatting.format_metric(figure, ends[1]['mean'])} at every point."
            continue
        low, high = (
            f"{formatting.format_metric(figure, row['mean'], row['half'])} at {data.describe_point(axes, row['point'])}"
            for row in ends
        )
        yield f"{title}: from {low} to {high}."
