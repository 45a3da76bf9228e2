"""The chapters on what the runs are, how they differ, and what was learnt in them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from netfl.report import canvas, chapters_learning, markup, measures, phrases, plots_learning, words
from netfl.report.markup import Chapter
from netfl.report.several import plots
from netfl.report.several.cast import NamedRun, RunSet
from netfl.report.several.pairs import difference, shared_rounds
from netfl.report.several.words import METRICS, format_difference, spread_sentence
from netfl.results import formatting, statistics

LINES = 6
"""Up to so many curves share one panel; of more, each run has one."""

KEYS = 60
"""More keys that differ than this are only counted."""


def runs(cast: RunSet, at: Path) -> Chapter:
    """What each run is, with links to the reports that they have of their own.

    Args:
        cast: the runs.
        at: the folder in which the page will be.
    """
    rows = []
    for one in cast.members:
        view = one.view
        seed = view.run.manifest.get("seed", "–")
        length = (
            phrases.format_count(view.rounds) if view.duration_s is None else phrases.format_duration(view.duration_s)
        )
        took = phrases.format_duration(float(view.ends_s.mean())) if len(view.ends_s) else "–"
        cells = [view.run.status, phrases.format_count(len(view.one)), length, str(len(view.replicas)), str(seed), took]
        rows.append([f"{one.letter} · {one.name}", *cells, str(view.run.folder)])
    head = ["Run", "Status", "Users", "Rounds", "Replicas", "Seed", "Simulated", "Folder"]
    own = [one for one in cast.members if (one.view.run.folder / "report.html").is_file()]
    links = [(f"{one.letter} · {one.name}", _path(one.view.run.folder / "report.html", at)) for one in own]
    parts = [markup.table(head, rows, "Pictures and tables call runs by their letters.")]
    parts += [markup.links("Reports of their own:", links)] if links else []
    return Chapter("runs", "The runs", tuple(parts))


def _path(file: Path, at: Path) -> str:
    """*file* as seen from the folder *at*."""
    try:
        return Path(os.path.relpath(file.resolve(), at.resolve())).as_posix()
    except ValueError:  # on another drive
        return file.resolve().as_posix()


def differences(cast: RunSet, keys: dict[str, list[str]]) -> Iterator[Chapter]:
    """The dotted keys in which scenarios differ."""
    if not keys:
        return
    shown = [[key, *values] for key, values in list(keys.items())[:KEYS]]
    few = (
        f" Of {len(keys)} keys the first {KEYS} are shown; the scenarios stand at the end." if len(keys) > KEYS else ""
    )
    caption = (
        "Keys of the scenarios, as resolved, whose values are not the same in all. –: a scenario has no such key, or "
        f"nothing there.{few}"
    )
    yield Chapter("differences", "How they differ", (markup.table(["Key", *cast.letters], shown, caption),))


def learning(cast: RunSet) -> Iterator[Chapter]:
    """Who won in each run, final figures, and curves."""
    learnt = [one for one in cast.members if one.view.learners]
    if not learnt:
        return
    told = [f"{one.label}: {' '.join(words.verdicts(one.view))}" for one in learnt]
    parts = (markup.bullets(told, "summary"), final_table(cast), *learner_gaps(cast))
    yield Chapter("winners", "Who won in each, and by how much", parts)
    curves = tuple(learning_curves(cast))
    if curves:
        yield Chapter("curves", "Learning curves", curves)


def final_table(cast: RunSet) -> str:
    """Run and learner × final figures."""
    columns = [metric for metric in formatting.METRICS if cast.having(metric)]
    rows, found = [], {}
    for one in cast.members:
        finals = {metric: one.view.final(metric) for metric in columns}
        for name in one.view.learners:
            rows.append([f"{one.letter} · {name}"])
            for x, metric in enumerate(columns, 1):
                figure = statistics.interval(finals[metric][name]) if name in finals[metric] else None
                rows[-1].append(
                    "–" if figure is None else chapters_learning.cell(figure, metric, len(one.view.replicas))
                )
                if figure is not None and figure.replicas and name not in one.view.choices:
                    found[len(rows) - 1, x] = figure.mean
    best = set()
    for x, metric in enumerate(columns, 1):
        sign = -1.0 if metric in chapters_learning.LOW_IS_GOOD else 1.0
        own = {place: sign * mean for place, mean in found.items() if place[1] == x}
        if metric not in chapters_learning.NEITHER and len(own) > 1:
            best |= {place for place, mean in own.items() if mean >= max(own.values()) - 1e-9}
    ends = sorted({one.view.tail[2] for one in cast.members if one.view.learners})
    when = f"round {ends[0]}" if len(ends) == 1 else "the last round of each run, which is not the same in all"
    caption = (
        f"Each value is the {statistics.FINAL[statistics.LAST_TENTH]} (up to {when}). Accuracies in percent. "
        f"{spread_sentence(cast)}Bold: the best mean of its column."
    )
    head = ["Run and learner", *(formatting.METRICS[metric] for metric in columns)]
    return markup.table(head, rows, caption, frozenset(best))


def learner_gaps(cast: RunSet) -> Iterator[str]:
    """How far each learner ends from where it ends in the first run that has it."""
    metrics = [metric for metric in METRICS if cast.having(metric)]
    rows = []
    for name in cast.learners:
        base, *others = [one for one in cast.members if name in one.view.learners]
        for one in others:
            rounds = shared_rounds(one.view, base.view)
            cells = [format_difference(_gap(one, base, metric, name, paired=rounds > 0)) for metric in metrics]
            both = len(set(one.view.replicas) & set(base.view.replicas))
            seeds = len({who.view.run.manifest.get("seed") for who in (one, base)})
            unpaired = "none: another seed" if seeds > 1 else "none: the same seed, another trace"
            pairing = f"by replica ({both})" if rounds else unpaired
            rows.append([f"{name}: {one.letter} − {base.letter}", *cells, pairing])
    if rows:
        caption = (
            "Final values of the same learner in two runs, their difference in percentage points, the later run less "
            "the first that has the learner; ± is the half width of the 95 % t interval, which takes two replicas: "
            "Student's t of the differences where runs share a trace, and replicas are pairs (their number in "
            "parentheses); else Welch's t, of independent means."
        )
        head = ["Difference", *(METRICS[metric].partition(" ")[2].capitalize() for metric in metrics), "Pairs"]
        yield markup.table(head, rows, caption)


def _gap(one: NamedRun, base: NamedRun, metric: str, name: str, *, paired: bool) -> statistics.ConfidenceInterval:
    """A difference, or nothing known where one of the runs has no such figure."""
    if not all(who.view.has(metric) and name in who.view.final(metric) for who in (one, base)):
        return statistics.interval([])
    return difference(one.view, base.view, metric, name, paired=paired)


def learning_curves(cast: RunSet) -> Iterator[str]:
    """Curves of all runs, over all that they can run over."""
    every: tuple[measures.Over, ...] = ("round", "time", "bits", "energy")
    ways = [way for way in every if any(way in one.view.ways for one in cast.members)]
    for metric in METRICS:
        members = cast.having(metric)
        if not members:
            continue
        number = sum(len(one.view.learners) for one in members)
        if number <= LINES:
            yield _together(members, metric, ways)
        else:
            yield from (_apart(members, metric, way) for way in ways)


def _tables(members: list[NamedRun], way: str) -> dict[str, pd.DataFrame]:
    """The metrics of each run that can run over *way*."""
    fit = [one for one in members if way in one.view.ways]
    return {one.letter: measures.with_cost(one.view.metrics, one.view.run.rounds) for one in fit}


def _together(members: list[NamedRun], metric: str, ways: list[measures.Over]) -> str:
    """All curves in the same panels, one for each of *ways*."""
    letters = [one.letter for one in members]
    learners = list(dict.fromkeys(name for one in members for name in one.view.learners))
    there = {(one.letter, name) for one in members for name in one.view.learners}
    how = {key: stroke for key, stroke in plots.strokes(letters, learners).items() if key in there}

    def paint(figure: Figure) -> None:
        row = figure.subplots(1, len(ways), squeeze=False, sharey=True)[0]
        for way, ax in zip(ways, row, strict=True):
            plots.curves(plots.courses(_tables(members, way), metric, way), metric, over=way, how=how, ax=ax)
            ax.label_outer(remove_inner_ticks=False)
        plots.legend(figure, how)

    caption = f"{_what(metric)} Colours are learners, dashes are runs. {_band(members)}"
    return markup.figure(paint, name=f"curves-{metric}", caption=caption, size=(9.6, 3.3))


def _apart(members: list[NamedRun], metric: str, way: measures.Over) -> str:
    """A panel for each run, with the same axes."""
    table = plots.courses(_tables(members, way), metric, way)
    learners = list(dict.fromkeys(name for one in members for name in one.view.learners))
    strokes = canvas.line_styles(learners)
    across = 2 if len(members) == 4 else min(3, len(members))
    deep = -(-len(members) // across)
    reach = float(table["at"].max()) if len(table) else 0.0

    def paint(figure: Figure) -> None:
        cells = list(figure.subplots(deep, across, squeeze=False, sharex=True, sharey=True).flat)
        for ax in cells[len(members) :]:
            ax.set_axis_off()
        for index, (one, ax) in enumerate(zip(members, cells, strict=False)):
            own = table[table["run"] == one.letter]
            how = {(one.letter, name): strokes[name] for name in one.view.learners}
            plots.curves(own, metric, over=way, how=how, reach=reach, ax=ax)
            ax.set_title(one.label)
            if index % across:
                ax.set_ylabel("")
            if index + across < len(members):
                ax.set_xlabel("")
            else:
                ax.tick_params(labelbottom=True)
        plots_learning.learner_legend(figure, learners, loc="outside upper left", ncols=5)

    over = {"round": "rounds", "time": "simulated time", "bits": "bits sent up", "energy": "joules spent by users"}[way]
    caption = f"{_what(metric)} Over {over}; all panels have the same axes. {_band(members)}"
    return markup.figure(paint, name=f"curves-{metric}-{way}", caption=caption, size=(9.6, 0.6 + 2.3 * deep))


def _what(metric: str) -> str:
    """What is drawn."""
    return "Accuracy on the test set, all classes." if metric == "accuracy" else "Accuracy on the rare classes."


def _band(members: list[NamedRun]) -> str:
    """What lines and bands are."""
    several = any(len(one.view.replicas) > 1 for one in members)
    band = (
        "Lines: means over replicas; bands: their 95 % t-intervals."
        if several
        else "One replica each: there is no band."
    )
    return f"{band} A curve that swings is drawn as the mean of its last few evaluations."
