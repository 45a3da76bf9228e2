"""The chapters on what was learnt."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from matplotlib.figure import Figure

from netfl.report import chapters_merit, markup, measures, phrases, plots_learning
from netfl.report.markup import Chapter
from netfl.report.view import RunData
from netfl.results import formatting, statistics

LOW_IS_GOOD = frozenset({"accuracy_users_variance", "loss"})
NEITHER = frozenset({"t", "objective"})
"""Figures that have no best: each learner has its own."""

ABOVE = {"loc": "outside upper left", "ncols": 5}
"""Where the learners' legend stands: above all axes."""


def chapters(view: RunData) -> Iterator[Chapter]:
    """All chapters on learning that the run has figures for."""
    if not view.learners:
        return
    finals = (
        final_table(view),
        *chapters_merit.fairness(view),
        *chapters_merit.target_table(view),
        *chapters_merit.choice_table(view),
    )
    yield Chapter("figures", "Final figures", finals)
    yield Chapter("accuracy", "Accuracy over rounds, and over what they cost", (accuracy_curves(view),))
    shares = (*class_heat(view), *user_accuracy(view), *chapters_merit.user_heat(view))
    if shares:
        yield Chapter("shares", "Who is served: classes and users", shares)
    inside = tuple(cvar_plots(view))
    if inside:
        yield Chapter("threshold", "Inside CVaR: t and the objective", inside)
    besides = *chapters_merit.extra_metric_plots(view), *chapters_merit.weight_plot(view)
    if besides:
        yield Chapter("besides", "What else was asked for", besides)
    planes = tuple(regions(view))
    if planes:
        yield Chapter("regions", "Decision regions", planes)


def final_table(view: RunData) -> str:
    """Learners × final figures, with 95 % t-intervals where there are replicas."""
    columns = [metric for metric in formatting.METRICS if view.has(metric)]
    rows = [[name, *("" for _ in columns)] for name in view.learners]
    best = set()
    for x, metric in enumerate(columns, 1):
        found = {name: statistics.interval(values) for name, values in view.final(metric).items()}
        for y, name in enumerate(view.learners):
            rows[y][x] = cell(found[name], metric, len(view.replicas)) if name in found else "–"
        if metric not in NEITHER and len(found) > 1:
            sign = -1.0 if metric in LOW_IS_GOOD else 1.0
            means = {name: sign * one.mean for name, one in found.items() if one.replicas and name not in view.choices}
            top = max(means.values(), default=math.inf)
            best |= {(y, x) for y, name in enumerate(view.learners) if means.get(name, -math.inf) >= top - 1e-9}
    return markup.table(
        ["Learner", *(formatting.METRICS[metric] for metric in columns)], rows, _final_caption(view), frozenset(best)
    )


def cell(found: statistics.ConfidenceInterval, metric: str, replicas: int) -> str:
    """A final value with its interval, as all tables have it; *replicas* is how many there are."""
    return formatting.metric_cell(metric, found.mean, found.half, found.replicas, replicas)


def _final_caption(view: RunData) -> str:
    """What the table's figures are."""
    number, first, last = view.tail
    taken = f"{number} evaluations, rounds {first} to {last}" if number > 1 else f"one evaluation, round {last}"
    spread = statistics.mean_sentence(len(view.replicas))
    if view.choices:
        final = statistics.FINAL[statistics.LAST_ROUND]
        spread += (
            f" {phrases.join_words([*view.choices])}: {final} ({last}), when the choice was made last; never bold."
        )
    return (
        f"Each value is the {statistics.FINAL[statistics.LAST_TENTH]} ({taken}). Accuracies in percent; worst and best "
        f"10 %, variance (in squared percentage points) and Jain index are taken over users. {spread} "
        "Bold: the best mean of its column."
    )


def accuracy_curves(view: RunData) -> str:
    """Accuracy and rare-class accuracy against rounds and against what else was spent."""
    metrics = [metric for metric in ("accuracy", "rare_accuracy") if view.has(metric)]
    table, ways = measures.with_cost(view.metrics, view.run.rounds), view.ways

    def paint(figure: Figure) -> None:
        grid = figure.subplots(len(metrics), len(ways), squeeze=False, sharey="row")
        for metric, line in zip(metrics, grid, strict=True):
            for over, ax in zip(ways, line, strict=True):
                plots_learning.curves(table, metric, over=over, learners=view.learners, ax=ax)
                ax.label_outer(remove_inner_ticks=False)
        plots_learning.learner_legend(figure, view.learners, lost=view.lost, **ABOVE)

    return markup.figure(
        paint, name="accuracy", caption=_curve_caption(view, metrics), size=(9.6, 0.5 + 2.7 * len(metrics))
    )


def _curve_caption(view: RunData, metrics: Sequence[str]) -> str:
    """What lines and bands are, and what was smoothed."""
    rare = (
        f" Rare: {', '.join(map(str, view.rare_classes))}." if view.rare_classes and "rare_accuracy" in metrics else ""
    )
    head = (
        "Accuracy on the test set, over all classes and over the rare ones." if len(metrics) > 1 else "Test accuracy."
    )
    smoothed = _smoothing(view, [(metric, "") for metric in metrics])
    return f"{head}{rare} {_band(view)} {smoothed}".strip()


def _band(view: RunData) -> str:
    """What a line and its band are."""
    number = len(view.replicas)
    if number < 2:
        return "One replica, so there is no band."
    return f"Lines: mean over {number} replicas; bands: its 95 % t-interval."


def _smoothing(view: RunData, metrics: Sequence[tuple[str, str]]) -> str:
    """Which curves are smoothed, and how."""
    widths = {metric: measures.smoothing_window(view.metrics, metric, group) for metric, group in metrics}
    told = [f"{plots_learning.label(metric)} of {width} evaluations" for metric, width in widths.items() if width > 1]
    if not told:
        return ""
    return f"Thin lines are the figures as evaluated; bold lines are means of the last few: {phrases.join_words(told)}."


def class_heat(view: RunData) -> Iterator[str]:
    """Learners × classes."""
    rows = measures.grouped_final_metrics(view.metrics, "accuracy", "class")
    if rows.empty:
        return

    def paint(figure: Figure) -> None:
        plots_learning.class_heat(
            view.metrics,
            learners=view.learners,
            rare=view.rare_classes,
            choices=view.choices,
            ax=figure.add_subplot(),
        )

    rare = " Rare classes are in bold orange." if view.rare_classes else ""
    caption = f"Final accuracy on each class, in percent; mean over replicas.{rare}"
    yield markup.figure(paint, name="classes", caption=caption, size=(9.6, 1.1 + 0.42 * len(view.learners)))


def user_accuracy(view: RunData) -> Iterator[str]:
    """How accuracy is spread over users, and how it goes with being heard."""
    if view.accuracy.empty:
        return

    def paint(figure: Figure) -> None:
        left, right = figure.subplots(1, 2)
        plots_learning.user_spread(view.accuracy, learners=view.learners, ax=left)
        plots_learning.user_scatter(view.accuracy, learners=view.learners, ax=right)
        plots_learning.learner_legend(figure, view.learners, lost=view.lost, **ABOVE)

    rings = " Rings: users that hold a rare class." if view.users["rare"].any() else ""
    caption = (
        "Left: the share of users that end with at most so much accuracy on their own data; a curve further right is "
        f"better. Right: each user's accuracy against how often it was heard.{rings} Users of all replicas are shown."
    )
    yield markup.figure(paint, name="users", caption=caption, size=(9.6, 3.4))


def cvar_plots(view: RunData) -> Iterator[str]:
    """t, the objective, and the loss's CVaR over the rounds."""
    wanted = [(metric, "") for metric in ("t", "objective") if view.has(metric)]
    metrics = view.metrics
    levels = metrics.loc[metrics["metric"] == "cvar", "group"].astype(str).unique()
    wanted += [("cvar", level) for level in sorted(levels)]
    wanted = wanted[:3]
    if not any(metric in {"t", "cvar"} for metric, _ in wanted):
        return

    def paint(figure: Figure) -> None:
        row = figure.subplots(1, len(wanted), squeeze=False)[0]
        for (metric, group), ax in zip(wanted, row, strict=True):
            plots_learning.curves(metrics, metric, group=group, learners=view.learners, ax=ax)
            ax.set_ylabel(f"{plots_learning.label(metric)} {group.replace('alpha:', '(α = ')}{')' if group else ''}")
        plots_learning.learner_legend(figure, view.learners, lost=view.lost, **ABOVE)

    known = metrics.loc[metrics["metric"] == "t", "learner"].unique()
    lacking = [name for name in view.learners if name not in known]
    caption = (
        "t is the loss above which a mini-batch counts as bad; it should settle near the loss's upper quantile. "
        f"The objective is each learner's own, so its level compares with itself only. {_band(view)} "
        f"{_smoothing(view, wanted)}" + (f" Without a t: {', '.join(lacking)}." if lacking else "")
    )
    yield markup.figure(paint, name="threshold", caption=caption, size=(9.6, 3.0))


def regions(view: RunData) -> Iterator[str]:
    """For data in the plane, the class that each learner predicts everywhere."""
    grid, points = view.run.regions, view.run.points
    if grid.empty:
        return
    rows = grid[grid["replica"] == grid["replica"].min()]
    names = [name for name in view.learners if (rows["learner"] == name).any()]
    columns = min(3, len(names))
    lines = math.ceil(len(names) / max(columns, 1))

    def paint(figure: Figure) -> None:
        cells = figure.subplots(lines, columns, squeeze=False, sharex=True, sharey=True).flat
        for name, ax in zip(names, cells, strict=False):
            plots_learning.regions(rows[rows["learner"] == name], points, rare=view.rare_classes, ax=ax)
            ax.set_title(name)
            ax.label_outer()
        for ax in list(cells):
            ax.set_axis_off()

    rare = f" Crosses: the rare classes ({phrases.labels(view.rare_classes)})." if view.rare_classes else ""
    caption = (
        f"Colour: the class that each learner predicts, at the end of replica {rows['replica'].min()}. "
        f"Marks: test points in the colour of their class.{rare}"
    )
    yield markup.figure(paint, name="regions", caption=caption, size=(3.3 * columns + 0.3, 3.0 * lines + 0.3))
