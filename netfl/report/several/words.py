"""What several runs show, in sentences: how they differ, who won where, who was never heard."""

from __future__ import annotations

from collections.abc import Iterator

from netfl.report import words
from netfl.report.phrases import format_count, join_words, labels, percent
from netfl.report.several.cast import NamedRun, RunSet
from netfl.report.several.pairs import shared_rounds
from netfl.results import statistics

METRICS = {"rare_accuracy": "On the rare classes", "accuracy": "Over all classes"}
"""By which figures runs are told apart, and how that is said."""


def summary(cast: RunSet, keys: list[str]) -> list[str]:
    """The sentences at the top of the page.

    Args:
        cast: the runs.
        keys: the dotted keys in which their scenarios differ.
    """
    return [*_differ(cast, keys), *_states(cast), *_winners(cast), *_traces(cast), *_never(cast)]


def _differ(cast: RunSet, keys: list[str]) -> Iterator[str]:
    """In how much the scenarios differ."""
    if len(cast.members) == 1:
        yield "Of the folders that were named only one holds a run that can be shown."
    elif not keys:
        yield "The scenarios are the same in every key."
    elif len(keys) <= 4:
        number = "one key" if len(keys) == 1 else f"{len(keys)} keys"
        yield f"The runs differ in {number} of their scenarios: {join_words(keys)}."
    else:
        parts = list(dict.fromkeys(key.partition(".")[0] for key in keys))
        yield f"The runs differ in {len(keys)} keys of their scenarios, in {join_words(parts)}."


def _states(cast: RunSet) -> Iterator[str]:
    """What cannot be shown, and what is not whole."""
    yield from (f"Not shown: {problem}." for problem in cast.refused)
    for one in cast.members:
        yield from (f"{one.letter}: {sentence}" for sentence in words.status(one.view))


def _winners(cast: RunSet) -> Iterator[str]:
    """Who is ahead in which runs, and the best figure of all."""
    for metric, where in METRICS.items():
        ahead: dict[tuple[str, bool | None], list[str]] = {}
        alike, tops = [], []
        for one in cast.having(metric):
            names, means, gap = words.ranking(one.view, metric)
            if names:
                tops.append((means[names[0]].mean, names[0], one))
            if len(names) < 2:
                continue
            if gap.mean == 0.0 or gap.clear is False or not gap.replicas:
                alike.append(one.letter)
            else:
                ahead.setdefault((names[0], gap.clear), []).append(one.letter)
        chance = {True: "", None: " (a single replica cannot tell how much of that is chance)"}
        told = [f"{name} is ahead in {join_words(own)}{chance[clear]}" for (name, clear), own in ahead.items()]
        told += [f"the best two cannot be told apart in {join_words(alike)}"] if alike else []
        if told:
            yield f"{where}{_rare(cast, metric)}, {'; '.join(told)}."
        if len(tops) > 1:
            value, name, one = max(tops, key=lambda top: top[0])
            yield f"{where}, the highest of all is {name} in {one.letter}, with {percent(value)}."


def _rare(cast: RunSet, metric: str) -> str:
    """Which classes are rare, where that is the same in all runs."""
    rare = {one.view.rare_classes for one in cast.having(metric)}
    same = metric == "rare_accuracy" and len(rare) == 1 and any(rare)
    return f" ({labels(next(iter(rare)))})" if same else ""


def _traces(cast: RunSet) -> Iterator[str]:
    """Which runs share a trace with the first, so that differences are paired, and which do not."""
    heard = [one for one in cast.members if len(one.view.run.deliveries)]
    if len(heard) < 2:
        return
    first, *others = heard
    length = {one.letter: shared_rounds(one.view, first.view) for one in others}
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


def _never(cast: RunSet) -> Iterator[str]:
    """In which runs users were never heard."""
    told = [f"{number} in {one.letter}" for one in cast.members if (number := never_delivered(one))]
    if told:
        yield f"Users who were never heard, of the first replica: {join_words(told)}."


def never_delivered(one: NamedRun) -> str:
    """How many users of a run's first replica were never heard; empty where that is none, or nothing is known."""
    users = one.view.one
    if users.empty or one.view.run.rounds.empty or one.view.duration_s is not None:
        return ""
    number = int((users["heard"] == 0).sum())
    return f"{format_count(number)} of {format_count(len(users))}" if number else ""


def spread_sentence(cast: RunSet) -> str:
    """What ± means in a table of all runs, with a space behind it; nothing where every run has one replica."""
    counts = {one.letter: len(one.view.replicas) for one in cast.members}
    if max(counts.values()) < 2:
        return ""
    if len({*counts.values()}) == 1:
        return f"{statistics.name_spread(max(counts.values()))}. "
    own = ", ".join(f"{letter}: {number}" for letter, number in counts.items())
    return f"± is the half width of the 95 % t interval over the replicas of a run ({own}). "


def format_difference(found: statistics.ConfidenceInterval, scale: float = 100.0) -> str:
    """A difference with its interval."""
    if not found.replicas:
        return "–"
    told = f"{scale * found.mean:+.1f}".replace("-", "−")
    return told if found.clear is None else f"{told} ± {scale * found.half:.1f}"
