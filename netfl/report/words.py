"""What a run shows, in sentences: plain text, and no more certain than the replicas allow."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from netfl.report import tallies
from netfl.report.phrases import (
    format_count,
    format_duration,
    format_points,
    format_signed,
    format_times,
    join_words,
    labels,
    percent,
    replicas,
    thinning_sentence,
    user_names,
)
from netfl.report.view import RunData
from netfl.results import statistics
from netfl.simulation.checkpoints import CHECKPOINT
from netfl.types import FATES

RARE_ACCURACY = "rare_accuracy"


def summary(view: RunData) -> list[str]:
    """The sentences at the top of a report."""
    return [
        *status(view),
        *verdicts(view),
        *rarely_delivered(view),
        *selection(view),
        *duration(view),
        *outcome_sentences(view),
    ]


def run_facts(view: RunData) -> str:
    """The run in one line."""
    manifest, users = view.run.manifest, view.run.scenario.get("users") or len(view.one)
    length = f"{format_count(view.rounds)} rounds" if view.duration_s is None else format_duration(view.duration_s)
    parts = [f"{format_count(int(users))} users", length, replicas(len(view.replicas))]
    seed = manifest.get("seed", view.run.scenario.get("seed"))
    return " · ".join([*parts, *([] if seed is None else [f"seed {seed}"])])


def status(view: RunData) -> Iterator[str]:
    """What is not whole."""
    state = view.run.status
    asked = view.run.scenario.get("rounds") or view.run.manifest.get("rounds")
    if state == "failed":
        why = view.run.manifest.get("error")
        yield f"This run failed{f': {why}' if why else ''}. What follows is what it wrote before."
    elif state == "unknown":
        yield f"Whether this run is finished cannot be told: it holds {view.rounds} {view.steps}."
    elif state != "done":
        yield f"This run is not finished ({state}): it holds {view.rounds} of {asked} {view.steps}."
    if state in {"crashed", "interrupted", "failed"}:
        yield f"It can go on: netfl resume {view.run.folder}"
        if view.run.learners and view.run.manifest.get("learning", True):
            kept = (view.run.folder / CHECKPOINT).exists()
            yield "Its checkpoint keeps what was learnt." if kept else "It has no checkpoint, so it begins again."
    yield from view.damage
    if left := thinning_sentence(view.run.manifest):
        yield left.strip()
    yield from (f"Warning: {warning}." for warning in view.run.manifest.get("warnings", ()))
    yield from (f"Training diverged, and its figures end there: {one}." for one in view.run.diverged)
    if view.run.rounds.empty:
        yield "There are no rounds yet."
    elif view.metrics.empty:
        what = "it traces who is heard" if view.duration_s is None else "it watches traffic alone"
        yield f"Nothing was learnt in this run: {what}."


def verdicts(view: RunData) -> Iterator[str]:
    """Who won on rare classes and over all, by how much, and whether replicas bear it out."""
    if view.has(RARE_ACCURACY):
        which = f" ({labels(view.rare_classes)})" if view.rare_classes else ""
        yield from verdict(view, RARE_ACCURACY, f"On the rare classes{which}")
    if view.has("accuracy"):
        yield from verdict(view, "accuracy", "Over all classes")


def ranking(
    view: RunData, metric: str
) -> tuple[list[str], dict[str, statistics.ConfidenceInterval], statistics.ConfidenceInterval]:
    """The learners from the best on one metric, their means, and the difference of the best two, by replica.

    Where some diverged the means are over the replicas that all of them have, if there are any; of learners that have
    none in common there is no difference.  Choices are of these learners, and do not count.
    """
    ends = {name: values.dropna() for name, values in view.final(metric).items() if name not in view.choices}
    ends = {name: values for name, values in ends.items() if len(values)}
    common = pd.DataFrame(ends).dropna()
    means = {name: statistics.interval(common[name] if len(common) else values) for name, values in ends.items()}
    ranked = sorted(means, key=lambda name: -means[name].mean)
    gap = statistics.interval((common[ranked[0]] - common[ranked[1]]).to_numpy() if len(ranked) > 1 else [])
    return ranked, means, gap


def verdict(view: RunData, metric: str, where: str) -> Iterator[str]:
    """Who won on one metric, the best against the next."""
    ranked, means, gap = ranking(view, metric)
    if not ranked:
        return
    best = ranked[0]
    if len(ranked) == 1:
        yield f"{where}, {best} ends at {percent(means[best].mean)}."
        return
    yield f"{where}, {_comparison(best, ranked[1], means[best].mean, means[ranked[1]].mean, gap)}"
    if len(ranked) > 2:
        yield f"Last there is {ranked[-1]} with {percent(means[ranked[-1]].mean)}."


def _comparison(best: str, second: str, high: float, low: float, gap: statistics.ConfidenceInterval) -> str:
    """One sentence on the best and the next."""
    figures = f"{percent(high)} against {percent(low)}"
    if not gap.replicas:
        return f"{best} and {second} cannot be compared: {figures}, but in no replica did all learners come to the end."
    if gap.mean == 0.0:
        return f"{best} and {second} end alike, at {percent(high)}."
    if gap.clear is None:
        return (
            f"{best} ends {format_points(gap.mean)} above {second}: {figures}; "
            "a single replica cannot tell how much of that is chance."
        )
    low_end, high_end = max(-100.0, 100 * (gap.mean - gap.half)), min(100.0, 100 * (gap.mean + gap.half))
    bounds = f"95 % interval {format_signed(low_end)} to {format_signed(high_end)} over {gap.replicas} paired replicas"
    if gap.clear:
        return f"{best} ends {format_points(gap.mean)} above {second}: {figures} ({bounds})."
    return (
        f"{best} and {second} cannot be told apart: {figures}, a difference of {format_points(gap.mean)} "
        f"that is within the noise ({bounds})."
    )


def rarely_delivered(view: RunData) -> Iterator[str]:
    """Who was never heard, or least, and for how long those with rare classes were silent."""
    users = view.one
    if users.empty or view.run.rounds.empty or view.duration_s is not None:
        return
    where = f" (replica {view.first})" if len(view.replicas) > 1 else ""
    never = users[users["heard"] == 0]
    if len(never):
        rare, other = (never.loc[never["rare"] == marked, "user"].tolist() for marked in (True, False))
        told = [f"{user_names(rare)}, with rare classes"] if rare else []
        yield f"Never heard{where}: {'; '.join([*told, *([user_names(other)] if other else [])])}."
    else:
        least = users.sort_values(["heard", "user"]).iloc[0]
        holds = ", which holds a rare class" if least["rare"] else ""
        yield (
            f"Everybody was heard{where}; least of all user {least['user']}{holds}: "
            f"{format_times(int(least['heard']))} in {format_count(view.rounds)} rounds."
        )
    yield from _rare_share(view)
    yield from _silence(view, where)
    yield from _cut_off(view, where)


def _rare_share(view: RunData) -> Iterator[str]:
    """How much of what was heard came from the users with rare classes."""
    users, heard = view.users, int(view.users["heard"].sum())
    if not users["rare"].any() or not heard:
        return
    share = users.loc[users["rare"], "heard"].sum() / heard
    yield (
        f"The users that hold rare classes are {percent(float(users['rare'].mean()))} of all users "
        f"and sent {percent(float(share))} of the updates that counted."
    )
    most = users[users["rare"]].groupby("replica")["heard"].max()
    rarer = int((~users["rare"] & (users["heard"] < users["replica"].map(most))).sum())
    if rarer:
        yield (
            f"They are not all the least heard: {format_count(rarer)} other user{'s were' * (rarer > 1) or ' was'} "
            f"heard less often than the most heard of them{'' if len(most) == 1 else ', counted over all replicas'}."
        )


def _silence(view: RunData, where: str) -> Iterator[str]:
    """The longest time that a user with rare classes was unheard."""
    rare = view.one.loc[view.one["rare"], "user"].to_numpy()
    if not len(rare):
        return
    deliveries = view.run.deliveries
    gaps = tallies.longest_silences(deliveries[deliveries["replica"] == view.first], rare, view.end_s)
    longest = gaps.assign(length=gaps["to_s"] - gaps["from_s"]).sort_values("length").iloc[-1]
    yield (
        f"The longest silence of a user with a rare class was {format_duration(longest['length'])}{where}: "
        f"user {int(longest['user'])}, from {format_duration(longest['from_s'])} to {format_duration(longest['to_s'])} "
        "of simulated time."
    )


def _cut_off(view: RunData, where: str) -> Iterator[str]:
    """How long users with rare classes were cut off, against the others."""
    users = view.one
    if view.outages.empty or not users["rare"].any():
        return
    spans = pd.concat([view.outages[view.outages["user"] >= 0], view.tower_outages])
    share = users["user"].map(tallies.covered_time(spans)).fillna(0.0) / view.end_s
    rare, other = (percent(float(share[users["rare"] == marked].mean())) for marked in (True, False))
    yield (
        f"Users with rare classes were cut off, themselves or their tower, {rare} of the time, "
        f"the others {other}{where}."
    )


def selection(view: RunData) -> Iterator[str]:
    """What kind of process being heard is."""
    if view.selection is not None and view.duration_s is None:
        yield view.selection.sentence + (" (Of the first replica.)" if len(view.replicas) > 1 else "")


def duration(view: RunData) -> Iterator[str]:
    """How long it took in simulated time."""
    if view.ends_s.empty:
        return
    if view.duration_s is not None:
        yield f"Traffic was watched for {format_duration(view.end_s)} of simulated time{warmup(view)}."
        return
    low, high = format_duration(float(view.ends_s.min())), format_duration(float(view.ends_s.max()))
    took = f"{low} of simulated time" if low == high else f"{low} to {high} of simulated time, depending on the replica"
    yield f"{format_count(view.rounds)} rounds took {took}."


def warmup(view: RunData) -> str:
    """How much of the time does not count, as the end of a sentence; nothing where all of it does."""
    length_s = float(view.run.scenario.get("warmup") or 0.0)
    return f"; the first {format_duration(length_s)} are warm-up, and do not count for the figures" if length_s else ""


def outcome_sentences(view: RunData) -> Iterator[str]:
    """What became of the updates or, where traffic alone is watched, of the packets."""
    totals = view.fates["fate"].value_counts()
    if not len(totals):
        return
    what, meanings = "updates", MEANINGS
    if view.duration_s is not None:
        what, meanings = "packets", MEANINGS | {"delivered": "arrived"}
    told = [f"{percent(totals[fate] / totals.sum())} {meanings[fate]}" for fate in FATES if fate in totals]
    yield f"Of {format_count(int(totals.sum()))} {what}, {join_words(told)}."


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
"""Each fate as the end of a sentence about updates."""
