"""The report of a run: its sections, and the page."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from markupsafe import Markup
from matplotlib.figure import Figure
from numpy.typing import NDArray

from netfl.diagnosis.text import format_p_value
from netfl.plots import deliveries as delivery_plots
from netfl.plots import latency as latency_plots
from netfl.plots import learning as learning_plots
from netfl.plots import network as network_plots
from netfl.plots import style
from netfl.plots.deliveries import MAX_USERS
from netfl.report import animation, page, summary_text
from netfl.report.page import Page, Section
from netfl.report.run_data import RunData, read_run_data
from netfl.results import aggregates, formatting, statistics
from netfl.results.formatting import clock, format_count, join_words, learning_label, percent
from netfl.results.run_reader import Run
from netfl.types import FATES

MAX_TIMELINE_USERS = 60
"""Maximum number of users in the timeline of outages."""

MAX_QUEUES = 6
"""Maximum number of queues in a plot; a table has more."""

MAX_TABLE_ROWS = 24

LOW_IS_GOOD = frozenset({"accuracy_users_variance", "loss"})
NOT_COMPARABLE = frozenset({"t", "objective"})
"""Metrics without a best value, as each learner has its own."""

LEARNER_LEGEND: dict[str, Any] = {"loc": "outside upper left", "ncols": 5}
"""Place of the learners' legend: above all axes."""

_FAIRNESS = {
    "accuracy": "Over data",
    "accuracy_users_mean": "Over users",
    "accuracy_users_worst10": "Worst 10 %",
    "accuracy_users_best10": "Best 10 %",
    "accuracy_users_variance": "Variance",
}
"""Columns of the table of fairness, by metric."""

_TARGET_COSTS = {
    "rounds": "round {}",
    "time_s": "{}",
    "uplink_bits": "{} up",
    "downlink_bits": "{} down",
    "energy_J": "{}",
}
"""Costs of a target accuracy, with their format."""

_EXTRA_METRICS = {
    "validation_accuracy": (
        "validation accuracy (%)", "Validation: on the validation examples, which are not trained on.",
    ),
    "validation_loss": ("validation loss", ""),
    "weight_divergence": (
        "weight divergence", "Weight divergence: how far a version is from its central twin, in norms of the twin.",
    ),
    "gradient_norm": ("gradient norm", "Gradient norm: of the mean loss over all training examples."),
    "staleness_mean": (
        "staleness", "Staleness: how many versions behind the newest a delivery started, on average.",
    ),
}  # fmt: skip
"""Optional metrics, with the label of their axis and a sentence for the caption."""

_DELAY_PARTS = {
    "delay_s": "from opening to arrival",
    "before_s": "until its first attempt",
    "way_s": "from its first attempt on",
}
"""Delays and their parts, by the columns of `aggregates.delays`."""


def write(run: Run, out: Path | None = None) -> Path:
    """Write the report of *run*, finished or not.

    Args:
        run: from `netfl.open_run`.
        out: the file to write; by default ``report.html`` in the run directory.

    Returns:
        The file written.

    Raises:
        ScenarioError: *out* exists and is not a page of netfl.
    """
    path = run.folder / "report.html" if out is None else out
    page.check_target(path)
    return run_page(read_run_data(run)).write(path)


def run_page(data: RunData) -> Page:
    """Return the report of a run."""
    replay = animation.animation_section(data)
    return Page(
        title=data.name,
        status=data.run.status,
        is_done=data.run.status == "done",
        summary=summary_text.run_summary(data),
        sections=[*learning_sections(data), *access_sections(data), *([replay] if replay else [])],
        scenarios={"The scenario, as resolved": data.scenario_text},
        description=str(data.run.scenario.get("description") or ""),
        facts=summary_text.run_facts(data),
        style=animation.animation_style() if replay else "",
        script_policy=animation.script_policy() if replay else "'none'",
    )


def learning_sections(data: RunData) -> Iterator[Section]:
    """Yield the sections on learning for which the run has metrics."""
    if not data.learners:
        return
    contents = {
        ("figures", "Final figures"): (
            final_table(data), *fairness_table(data), *target_table(data), *choice_table(data),
        ),
        ("accuracy", "Accuracy over rounds and costs"): (accuracy_curves(data),),
        ("shares", "Accuracy by class and user"): (
            *class_accuracy(data), *user_accuracy(data), *user_heat(data),
        ),
        ("threshold", "CVaR: t and the objective"): tuple(cvar_plots(data)),
        ("besides", "Other metrics"): (*extra_metric_plots(data), *weight_plot(data)),
        ("regions", "Decision regions"): tuple(regions(data)),
    }  # fmt: skip
    yield from (Section(key, title, parts) for (key, title), parts in contents.items() if parts)


def access_sections(data: RunData) -> Iterator[Section]:
    """Yield the sections on the access for which the run has tables."""
    if data.run.rounds.empty:
        return
    if data.duration_s is None:
        parts = (participation_bars(data), participation(data), *selection_table(data))
        yield Section("heard", "Participation", parts)
        yield Section("fates", "Outcomes of updates", tuple(outcomes(data)))
    yield from delay_sections(data)
    timeline = tuple(outages(data))
    parts = (*timeline, *user_maps(data), *limits_note(data))
    if parts:
        yield Section("network", "Outages and positions" if timeline else "Positions", parts)


def delay_sections(data: RunData) -> Iterator[Section]:
    """Yield the section on delays, queues and utilisation, if the run has tables for it."""
    parts = (*metric_table(data), *delays(data), *traffic_delays(data), *queues(data), *utilisation(data))
    if parts:
        yield Section("network-figures", "Delays, queues and utilisation", parts)


def final_table(data: RunData) -> Markup:
    """Return learners × final values, with 95 % t-intervals over replicas."""
    metrics = [metric for metric in formatting.METRICS if data.has(metric)]
    means = {
        (y, x): value.mean
        for x, metric in enumerate(metrics, 1)
        for y, value in enumerate(map(data.intervals(metric).get, data.learners))
        if value and value.replicas and data.learners[y] not in data.choices
    }
    return page.table(
        ["Learner", *(formatting.METRICS[metric] for metric in metrics)],
        [[name, *(data.cell(metric, name) for metric in metrics)] for name in data.learners],
        _final_caption(data),
        best_cells(means, metrics),
    )


def best_cells(means: dict[tuple[int, int], float], metrics: Sequence[str]) -> frozenset[tuple[int, int]]:
    """Return the cells (row, column) with the best mean of each column; columns count from 1."""
    best: set[tuple[int, int]] = set()
    for x, metric in enumerate(metrics, 1):
        sign = -1.0 if metric in LOW_IS_GOOD else 1.0
        values = {cell: sign * mean for cell, mean in means.items() if cell[1] == x}
        if metric not in NOT_COMPARABLE and len(values) > 1:
            best |= {cell for cell, value in values.items() if value >= max(values.values()) - 1e-9}
    return frozenset(best)


def _final_caption(data: RunData) -> str:
    number, first, last = data.tail
    rounds = f"{number} evaluations, rounds {first} to {last}" if number > 1 else f"one evaluation, round {last}"
    spread = statistics.mean_sentence(len(data.replicas))
    if data.choices:
        final = statistics.FINAL[statistics.LAST_ROUND]
        spread += f" {join_words([*data.choices])}: {final} ({last}), when the choice was made last; never bold."
    return (
        f"Each value is the {statistics.FINAL[statistics.LAST_TENTH]} ({rounds}). Accuracies in percent; worst and "
        f"best 10 %, variance (in squared percentage points) and Jain index are taken over users. {spread} "
        "Bold: the best mean of its column."
    )


def accuracy_curves(data: RunData) -> Markup:
    """Return accuracy and rare-class accuracy against rounds and against costs."""
    metrics = [metric for metric in ("accuracy", "rare_accuracy") if data.has(metric)]
    table = aggregates.with_cost(data.metrics, data.run.rounds)

    def paint(figure: Figure) -> None:
        grid = figure.subplots(len(metrics), len(data.x_axes), squeeze=False, sharey="row")
        for metric, row in zip(metrics, grid, strict=True):
            for over, ax in zip(data.x_axes, row, strict=True):
                learning_plots.curves(table, metric, over=over, learners=data.learners, ax=ax)
                style.without_legend(ax).label_outer(remove_inner_ticks=False)
        learning_plots.learner_legend(figure, data.learners, diverged=data.diverged, **LEARNER_LEGEND)

    both = len(metrics) > 1
    head = "Accuracy on the test set, over all classes and over the rare ones." if both else "Test accuracy."
    has_rare = data.rare_classes and "rare_accuracy" in metrics
    rare = f" Rare: {', '.join(map(str, data.rare_classes))}." if has_rare else ""
    smoothing = _smoothing_sentence(data, [(metric, "") for metric in metrics])
    caption = f"{head}{rare} {_band_sentence(data)} {smoothing}".strip()
    return page.plot(paint, name="accuracy", caption=caption, size=(9.6, 0.5 + 2.7 * len(metrics)))


def _band_sentence(data: RunData) -> str:
    number = len(data.replicas)
    if number < 2:
        return "One replica, so there is no band."
    return f"Lines: mean over {number} replicas; bands: its 95 % t-interval."


def _smoothing_sentence(data: RunData, metrics: Sequence[tuple[str, str]]) -> str:
    windows = {metric: aggregates.smoothing_window(data.metrics, metric, group) for metric, group in metrics}
    parts = [f"{learning_label(metric)} of {window} evaluations" for metric, window in windows.items() if window > 1]
    if not parts:
        return ""
    return f"Thin lines are the figures as evaluated; bold lines are means of the last few: {join_words(parts)}."


def class_accuracy(data: RunData) -> Iterator[Markup]:
    """Yield learners × classes."""
    if aggregates.grouped_final_metrics(data.metrics, "accuracy", "class").empty:
        return

    def paint(figure: Figure) -> None:
        rare, choices = data.rare_classes, data.choices
        ax = figure.add_subplot()
        learning_plots.class_accuracy(data.metrics, rare=rare, learners=data.learners, choices=choices, ax=ax)

    rare = " Rare classes are in bold orange." if data.rare_classes else ""
    caption = f"Final accuracy on each class, in percent; mean over replicas.{rare}"
    yield page.plot(paint, name="classes", caption=caption, size=(9.6, 1.1 + 0.42 * len(data.learners)))


def user_accuracy(data: RunData) -> Iterator[Markup]:
    """Yield the distribution of accuracy over users, and accuracy against deliveries."""
    if data.accuracy.empty:
        return

    def paint(figure: Figure) -> None:
        left, right = figure.subplots(1, 2)
        style.without_legend(learning_plots.user_accuracy(data.accuracy, learners=data.learners, ax=left))
        style.without_legend(learning_plots.user_scatter(data.accuracy, learners=data.learners, ax=right))
        learning_plots.learner_legend(figure, data.learners, diverged=data.diverged, **LEARNER_LEGEND)

    rings = " Rings: users that hold a rare class." if data.users["rare"].any() else ""
    caption = (
        "Left: the share of users that end with at most so much accuracy on their own data; a curve further right is "
        f"better. Right: each user's accuracy against its number of deliveries.{rings} Users of all replicas are shown."
    )
    yield page.plot(paint, name="users", caption=caption, size=(9.6, 3.4))


def user_heat(data: RunData) -> Iterator[Markup]:
    """Yield learners × users."""
    rows = data.accuracy[data.accuracy["replica"] == data.first]
    if rows.empty:
        return

    def paint(figure: Figure) -> None:
        learning_plots.user_heat(rows, learners=data.learners, ax=figure.add_subplot())

    rare = " Users that hold a rare class are in bold orange." if rows["rare"].any() else ""
    caption = f"Final accuracy on each user's own data.{rare}{data.replica_sentence}"
    yield page.plot(paint, name="user-heat", caption=caption, size=(9.6, 1.1 + 0.36 * rows["learner"].nunique()))


def cvar_plots(data: RunData) -> Iterator[Markup]:
    """Yield t, the objective, and the CVaR of the loss over the rounds."""
    metrics = data.metrics
    shown = [(metric, "") for metric in ("t", "objective") if data.has(metric)]
    shown += [
        ("cvar", group) for group in sorted(metrics.loc[metrics["metric"] == "cvar", "group"].astype(str).unique())
    ]
    shown = shown[:3]
    if not any(metric in {"t", "cvar"} for metric, _ in shown):
        return

    def paint(figure: Figure) -> None:
        row = figure.subplots(1, len(shown), squeeze=False)[0]
        for (metric, group), ax in zip(shown, row, strict=True):
            style.without_legend(learning_plots.curves(metrics, metric, group=group, learners=data.learners, ax=ax))
            level = f"{group.replace('alpha:', '(α = ')})" if group else ""
            ax.set_ylabel(f"{learning_label(metric)} {level}")
        learning_plots.learner_legend(figure, data.learners, diverged=data.diverged, **LEARNER_LEGEND)

    with_t = metrics.loc[metrics["metric"] == "t", "learner"].unique()
    without = [name for name in data.learners if name not in with_t]
    caption = (
        "t is the loss above which a mini-batch counts as bad; it should settle near the loss's upper quantile. "
        f"The objective is each learner's own, so its level compares with itself only. {_band_sentence(data)} "
        f"{_smoothing_sentence(data, shown)}" + (f" Without a t: {', '.join(without)}." if without else "")
    )
    yield page.plot(paint, name="threshold", caption=caption, size=(9.6, 3.0))


def regions(data: RunData) -> Iterator[Markup]:
    """Yield the decision regions of each learner, for data in the plane."""
    grid, points = data.run.regions, data.run.points
    if grid.empty:
        return
    rows = grid[grid["replica"] == grid["replica"].min()]
    names = [name for name in data.learners if (rows["learner"] == name).any()]
    columns = min(3, len(names))

    def paint(figure: Figure) -> None:
        cells = style.grid_axes(figure, len(names), columns, sharex=True, sharey=True)
        for name, ax in zip(names, cells, strict=True):
            learning_plots.regions(rows, points, name, rare=data.rare_classes, ax=ax)
            ax.set_title(name)
            ax.label_outer()

    rare = f" Crosses: the rare classes ({formatting.class_names(data.rare_classes)})." if data.rare_classes else ""
    caption = (
        f"Colour: the class that each learner predicts, at the end of replica {rows['replica'].min()}. "
        f"Marks: test points in the colour of their class.{rare}"
    )
    size = (3.3 * columns + 0.3, 3.0 * math.ceil(len(names) / max(columns, 1)) + 0.3)
    yield page.plot(paint, name="regions", caption=caption, size=size)


def fairness_table(data: RunData) -> Iterator[Markup]:
    """Yield learners × spread of accuracy over users, as in the table of Li et al. (q-FFL)."""
    if not all(data.has(metric) for metric in _FAIRNESS):
        return
    rows = [[name, *(data.cell(metric, name) for metric in _FAIRNESS)] for name in data.learners]
    spread = f" {statistics.name_spread(len(data.replicas))}." if len(data.replicas) > 1 else ""
    caption = (
        "Fairness: the average of test accuracy over data points and over users, the means of the worst and the best "
        f"10 % of the users, and the variance over users. In percent, the variance in its square; each value is the "
        f"{statistics.FINAL[statistics.LAST_TENTH]}.{spread}"
    )
    yield page.table(["Learner", *_FAIRNESS.values()], rows, caption)


def target_table(data: RunData) -> Iterator[Markup]:
    """Yield learners × target accuracies, with the costs of each."""
    if data.costs.empty:
        return
    costs = data.costs.dropna(subset="value")
    means = {key: rows.groupby("cost")["value"].mean() for key, rows in costs.groupby(["learner", "target"])}
    reached = costs[costs["cost"] == "rounds"].groupby(["learner", "target"]).size()
    learners, targets = (list(data.costs[name].unique()) for name in ("learner", "target"))
    nothing: pd.Series[float] = pd.Series(dtype=float)
    rows = []
    for learner in learners:
        cells = []
        for target in targets:
            values = means.get((learner, target), nothing)
            lines = [
                form.format(formatting.format_metric(name, values[name]))
                for name, form in _TARGET_COSTS.items()
                if name in values
            ]
            if 0 < reached.get((learner, target), 0) < len(data.replicas):
                lines.append(f"{reached[learner, target]} of {len(data.replicas)} replicas")
            cells.append("\n".join(lines) or "–")
        rows.append([learner, *cells])
    spread = ": means over the replicas that came to it" if len(data.replicas) > 1 else ""
    caption = (
        f"What it took to come to a test accuracy, at the first evaluation that finds no less{spread}. "
        "Sent is what all users send and are sent together. –: not reached."
    )
    yield page.table(["Learner", *(f"{100 * float(target):g} %" for target in targets)], rows, caption)


def choice_table(data: RunData) -> Iterator[Markup]:
    """Yield choices × the learners that they keep at the end."""
    chosen = data.metrics[data.metrics["metric"] == "chosen"]
    rows = []
    for name, choice in data.choices.items():
        values = chosen[chosen["learner"] == name]
        names, unit = choice["of"], "users" if choice["per"] == "user" else "replicas"
        last = values.loc[values["round"] == values["round"].max(), "value"].astype(int)
        counts = last.value_counts(sort=False).sort_index()
        shares = [f"{names[index]} ({number} of {counts.sum()} {unit})" for index, number in counts.items()]
        kept = names[counts.index[0]] if len(counts) == 1 else ", ".join(shares)
        by = str(choice["by"]).replace("_", " ")
        rows.append([name, by, "each user its own" if unit == "users" else "one for all", kept or "–"])
    if rows:
        caption = "Choices among learners by their figures on validation examples, and whom they keep at the end"
        caption += "; users of all replicas are counted." if len(data.replicas) > 1 else "."
        yield page.table(["Choice", "By", "For", "Keeps"], rows, caption)


def extra_metric_plots(data: RunData) -> Iterator[Markup]:
    """Yield the optional metrics over the rounds."""
    metrics = [metric for metric in _EXTRA_METRICS if data.has(metric)]
    if not metrics:
        return
    columns = min(3, max(2, len(metrics)))

    def paint(figure: Figure) -> None:
        for metric, ax in zip(metrics, style.grid_axes(figure, len(metrics), columns), strict=True):
            style.without_legend(learning_plots.curves(data.metrics, metric, learners=data.learners, ax=ax))
            ax.set_ylabel(_EXTRA_METRICS[metric][0])
        learning_plots.learner_legend(figure, data.learners, diverged=data.diverged, **LEARNER_LEGEND)

    caption = " ".join(filter(None, (_EXTRA_METRICS[metric][1] for metric in metrics)))
    size = (3.2 * columns, 0.5 + 2.5 * math.ceil(len(metrics) / columns))
    yield page.plot(paint, name="besides", caption=caption, size=size)


def weight_plot(data: RunData) -> Iterator[Markup]:
    """Yield the weights of users, if an aggregation weighs them."""
    weights = data.user_values("weight")
    if weights.empty:
        return
    names = [name for name in data.learners if (weights["learner"] == name).any()]
    rows = []
    for name in names:
        values = weights.loc[weights["learner"] == name, "value"]
        rows.append([name, *(f"{value:.3g}" for value in (values.min(), values.median(), values.max()))])

    def paint(figure: Figure) -> None:
        learning_plots.user_weights(weights, learners=data.learners, ax=figure.add_subplot())

    caption = (
        "How much a change of each user counts at the end, where the aggregation weighs users, against the "
        "number of deliveries of the user: 1 is neither more nor less than others. "
        f"Colours are those of {join_words(names)} above."
    )
    yield page.plot(paint, name="weights", caption=caption, size=(6.4, 3.0))
    yield page.table(["Learner", "Smallest weight", "Median", "Largest"], rows)


def participation_bars(data: RunData) -> Markup:
    """Return the deliveries of each user by rank and, if known, by distance."""
    orders = ("delivered", "distance_m") if data.has_distances else ("delivered",)

    def paint(figure: Figure) -> None:
        row = figure.subplots(1, len(orders), squeeze=False, sharey=True)[0]
        for by, ax in zip(orders, row, strict=True):
            delivery_plots.participation_bars(data.first_users, by=by, replica=data.first, ax=ax)
            ax.label_outer(remove_inner_ticks=False)
        for ax in row[1:]:
            style.without_legend(ax)

    side = " Left sorted by that figure, right by the distance to the user's tower." if data.has_distances else ""
    caption = (
        f"How often each user's update counted, in {format_count(data.rounds)} rounds.{side} A cross: never."
        f"{_sample_sentence(data)}{data.replica_sentence}"
    )
    return page.plot(paint, name="heard", caption=caption, size=(9.6, 2.9))


def participation(data: RunData) -> Markup:
    """Return user × round."""

    def paint(figure: Figure) -> None:
        tables = (data.first_users, data.deliveries, data.run.rounds)
        delivery_plots.participation(*tables, replica=data.first, ax=figure.add_subplot())

    rare = " In orange: users that hold a rare class." if data.first_users["rare"].any() else ""
    caption = (
        "Deliveries of each user by round, from the user with the most (top) to the one with the fewest."
        f"{_sample_sentence(data)}{rare}{data.replica_sentence}"
    )
    height = min(6.0, 1.2 + 0.13 * min(len(data.first_users), MAX_USERS))
    return page.plot(paint, name="rounds", caption=caption, size=(9.6, height))


def _sample_sentence(data: RunData) -> str:
    remark = aggregates.sample_users(data.first_users, MAX_USERS)[1]
    return f" Drawn are {remark}." if remark else ""


def selection_table(data: RunData) -> Iterator[Markup]:
    """Yield the tests behind the diagnosis of the selection process."""
    diagnosis = data.selection
    if diagnosis is not None:
        rows = [[test.question, format_p_value(test.p), test.answer] for test in diagnosis.tests if test.decides]
        caption = " ".join([diagnosis.sentence, *diagnosis.notes]) + data.replica_sentence
        yield page.table(["Question", "p", "Answer"], rows, caption)


def outcomes(data: RunData) -> Iterator[Markup]:
    """Yield the outcomes of updates and the causes of failed attempts, over the rounds and in total."""
    if data.fates.empty:
        yield page.paragraph(["No fates of updates were recorded in this run."], "note")
        return
    tables = [data.fates, data.failures] if len(data.failures) else [data.fates]

    def paint(figure: Figure) -> None:
        column = figure.subplots(len(tables), 1, squeeze=False, sharex=True)[:, 0]
        for index, (events, ax) in enumerate(zip(tables, column, strict=True)):
            delivery_plots.outcomes(events, data.run.rounds, attempts=index == 1, ax=ax)
            ax.label_outer(remove_inner_ticks=False)

    thinned = summary_text.thinning_sentence(data.run.manifest)
    failed = (
        " Below: failed attempts by cause, without those of updates superseded on the air; one update may fail often."
    )
    caption = f"How updates ended, per round, mean over replicas.{failed if len(tables) > 1 else ''}{thinned}"
    yield page.plot(paint, name="fates", caption=caption, size=(9.6, 0.5 + 2.2 * len(tables)))
    yield outcome_table(data)


def outcome_table(data: RunData) -> Markup:
    """Return the number of updates by outcome, and the causes of failed attempts."""
    counts = data.fates["fate"].value_counts()
    total, meanings = int(counts.sum()), summary_text.MEANINGS
    rows = [
        [name.replace("_", " "), format_count(int(counts[name])), percent(counts[name] / total), meanings[name]]
        for name in FATES
        if name in counts
    ]
    causes = [f"{format_count(int(number))} {cause}" for cause, number in data.failures["fate"].value_counts().items()]
    failed = f" Failed attempts, without those of updates superseded on the air: {', '.join(causes)}." if causes else ""
    thinned = summary_text.thinning_sentence(data.run.manifest)
    replicas = formatting.counted(len(data.replicas), "replica")
    caption = f"{'Recorded were' if thinned else 'All'} {format_count(total)} updates of {replicas}.{failed}{thinned}"
    return page.table(["Fate", "Updates", "Share", "What it means"], rows, caption)


def metric_table(data: RunData) -> Iterator[Markup]:
    """Yield the metrics of the access, with 95 % t-intervals over replicas."""
    summary = data.run.summary
    if not data.access_metrics:
        return
    rows = [
        [formatting.metric_label(name), f"{number} {unit}" + (f" ± {spread} {unit}" if spread else "")]
        for name, (number, spread, unit) in formatting.aligned(data.access_metrics, summary).items()
    ]
    caption = statistics.mean_sentence(int(summary.get("replicas", 1)))
    if data.duration_s is None:
        caption += " A delay runs from the opening of a round, when its broadcast begins, to the arrival of an update."
    else:
        caption += f" Traffic was watched for {clock(data.duration_s)}{summary_text.warmup(data)}."
    yield page.table(["Figure", "Value"], rows, caption)


def delays(data: RunData) -> Iterator[Markup]:
    """Yield the delays of all updates and of each user, and the staleness of updates."""
    deliveries, rounds = data.run.deliveries, data.run.rounds
    if data.duration_s is not None or deliveries.empty:
        return
    table = aggregates.delays(deliveries, rounds)
    if table["delay_s"].nunique() < 2:
        return
    is_stale = bool((table["age"] != 0).any())
    by = "distance_m" if data.has_distances else "delivered"
    parts = {name: table[column].dropna() for column, name in _DELAY_PARTS.items()}

    def paint(figure: Figure) -> None:
        cells = figure.subplot_mosaic([["all", "ages" if is_stale else "all"], ["users", "users"]])
        latency_plots.distributions(parts, ax=cells["all"])
        latency_plots.user_delays(data.first_users, deliveries, rounds, by=by, replica=data.first, ax=cells["users"])
        if is_stale:
            latency_plots.staleness(deliveries, rounds, ax=cells["ages"])

    ages = (
        " Right: how many versions behind the newest one, as their round opened, they had started from."
        if is_stale
        else " All of them started from the version that opened their round."
    )
    rare = " Orange: users that hold a rare class." if data.first_users["rare"].any() else ""
    caption = (
        f"How long the updates took that counted.{' Left:' if is_stale else ' Top:'} the share that took at most so "
        "long, from the opening of their round, when its broadcast begins, to their arrival; the parts of that before "
        "and from the first attempt on are of updates that were begun in the same round."
        f"{ages} Below: each user's, boxes over the middle half, whiskers over the middle 90 %, a bar at the median."
        f"{rare}{data.replica_sentence}"
    )
    yield page.plot(paint, name="delays", caption=caption, size=(9.6, 5.6))


def traffic_delays(data: RunData) -> Iterator[Markup]:
    """Yield the delays of packets, if the run has traffic and their arrivals were recorded."""
    events = data.run.events
    rows = events[events["kind"] == "delivered"]
    if data.duration_s is None or rows.empty:
        return
    values = rows.loc[rows["time_s"] >= data.warmup_s, "value"]

    def paint(figure: Figure) -> None:
        latency_plots.distributions({"": values}, ax=figure.add_subplot())

    caption = "The share of packets that took at most so long, from their making to their arrival, after the warm-up."
    yield page.plot(paint, name="delays", caption=caption, size=(6.4, 3.0))


def queues(data: RunData) -> Iterator[Markup]:
    """Yield the time of messages in towers and routers, and the backlog over time."""
    events = data.run.events
    rows = aggregates.node_delays(events)
    if rows.empty:
        if (data.nodes["role"] == "router").any():
            note = "How long messages stayed in towers and routers was not recorded; a scenario asks for it with"
            yield page.paragraph([note, "'record: all', or with 'forwarded' among the kinds of events."], "note")
        return
    table = aggregates.queues(rows, float(data.ends_s.sum()))
    nodes = table["node"].tolist()[:MAX_QUEUES]

    def paint(figure: Figure) -> None:
        left, right = figure.subplots(1, 2)
        latency_plots.node_delays(rows, nodes=nodes, ax=left)
        latency_plots.backlog(rows, nodes=nodes, end_s=data.end_s, replica=data.first, ax=right)
        style.without_legend(right)

    few = f" The {MAX_QUEUES} that hold most are drawn." if len(nodes) < len(table) else ""
    caption = (
        "Towers and routers. Left: the share of the messages passed on that stayed at most so long, waiting and being "
        f"put on the link. Right: how many they held, on average over each 80th of the time.{few}"
        f"{data.replica_sentence}"
    )
    yield page.plot(paint, name="queues", caption=caption, size=(9.6, 3.2))
    dropped = events.loc[events["kind"] == "dropped", "node"].astype(str).value_counts()
    lines = [
        [
            str(row["node"]),
            format_count(int(row["passed"])),
            format_count(int(dropped.get(row["node"], 0))),
            *(formatting.format_metric(name, float(row[name])) for name in ("mean_s", "p95_s", "longest_s")),
            f"{row['held']:.3g}",
        ]
        for _, row in table.head(MAX_TABLE_ROWS).iterrows()
    ]
    head = ["Where", "Passed on", "Turned away", "Mean stay", "95 % within", "Longest", "Held on average"]
    caption = "Of all replicas; held on average: by Little's law, the sum of the stays over the time."
    yield page.table(head, lines, caption)


def utilisation(data: RunData) -> Iterator[Markup]:
    """Yield the share of time in which each cell and link was in use."""
    table = aggregates.utilisation(data.run.figures)
    if table.empty or not table["share"].notna().any():
        return
    number = table["part"].nunique()
    shown = min(latency_plots.MAX_BARS, number)

    def paint(figure: Figure) -> None:
        latency_plots.utilisation(data.run.figures, ax=figure.add_subplot())

    band = f" Lines: 95 % t-intervals over {len(data.replicas)} replicas." if len(data.replicas) > 1 else ""
    few = f" Of {number} the {shown} busiest are shown." if number > shown else ""
    caption = f"The share of the time that the air of each cell, and each link, was in use.{band}{few}"
    yield page.plot(paint, name="utilisation", caption=caption, size=(7.2, 0.9 + 0.24 * shown))


def outages(data: RunData) -> Iterator[Markup]:
    """Yield a timeline of outages and deliveries, and the total time of each outage."""
    if data.outages.empty:
        return
    users = data.first_users.assign(tower=data.towers)
    if len(users) > MAX_TIMELINE_USERS:
        users = users.sort_values(["rare", "delivered"], ascending=[False, True]).head(MAX_TIMELINE_USERS)
    rows = _timeline_rows(data, users.sort_values(["tower", "delivered"], ascending=[True, False]))
    user_rows = rows.loc[rows["user"] >= 0, ["user", "row"]]
    spans = pd.concat(
        [
            data.tower_outages.merge(user_rows, on="user").assign(by_tower=True),
            data.outages.merge(rows, on=["user", "node"]).assign(by_tower=False),
        ]
    )
    deliveries = data.deliveries.merge(user_rows, on="user")

    def paint(figure: Figure) -> None:
        network_plots.outage_timeline(spans, deliveries, rows, data.end_s, ax=figure.add_subplot())

    number = len(data.first_users)
    order = ", by their tower" if users["tower"].any() else ""
    few = f" Of {number} users the {len(users)} with the fewest deliveries are shown." if len(users) < number else ""
    bold = " Users that hold a rare class are in bold orange." if users["rare"].any() else ""
    caption = f"Outages over time. Towers and routers first, then users{order}.{bold}{few}{data.replica_sentence}"
    yield page.plot(paint, name="outages", caption=caption, size=(9.6, 1.2 + 0.145 * len(rows)))
    head = ["Node", "Outages", "Time down", "Share of the run"]
    yield page.table(head, _downtime(data.outages, data.end_s), "What was down, longest first.")


def _timeline_rows(data: RunData, users: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the timeline: columns user, node, label, rare, row."""
    nodes = sorted(set(data.outages["node"]) - {""})
    rows = pd.DataFrame(
        {
            "user": [-1] * len(nodes) + users["user"].tolist(),
            "node": nodes + [""] * len(users),
            "rare": [False] * len(nodes) + users["rare"].tolist(),
        }
    )
    return rows.assign(row=np.arange(len(rows)), label=_names(rows))


def _names(rows: pd.DataFrame) -> NDArray[np.object_]:
    return np.where(rows["user"] < 0, rows["node"].str.replace(":", " "), "user " + rows["user"].astype(str))


def _downtime(down: pd.DataFrame, end_s: float, max_rows: int = 8) -> list[list[str]]:
    """Return name, number, total time and share of outages, the longest first."""
    totals = (down["to_s"] - down["from_s"]).groupby(_names(down)).agg(["size", "sum"])
    totals = totals.sort_values("sum", ascending=False).head(max_rows)
    return [
        [str(name), format_count(int(row["size"])), clock(row["sum"]), percent(row["sum"] / max(end_s, 1e-9))]
        for name, row in totals.iterrows()
    ]


def limits_note(data: RunData) -> Iterator[Markup]:
    """Yield a reference to what a simulated network does not model."""
    if len(data.nodes):
        sentence = (
            "What the network leaves out, such as signal delays, handover and, by default, losses on the way down:"
        )
        yield page.paragraph([sentence, 'see "What is not modelled", docs/not_modelled.md of netfl.'], "note")


def user_maps(data: RunData) -> Iterator[Markup]:
    """Yield maps of the users, by deliveries and by the accuracy of the first two learners."""
    if not data.has_positions:
        return
    users = data.first_users
    if users["delivered"].any() or data.duration_s is None:
        panels = [("delivered", "deliveries" if data.duration_s is None else "packets delivered", users)]
    else:
        panels = [("distance_m", "distance to the tower (m)", users)]
    accuracy = data.accuracy[data.accuracy["replica"] == data.first]
    accuracy = accuracy.assign(percent=100 * accuracy["value"])
    names = [name for name in data.learners if (accuracy["learner"] == name).any()][:2]
    for name in names:
        rows = accuracy.loc[accuracy["learner"] == name, ["user", "percent"]]
        panels.append(("percent", f"accuracy of {name} (%)", users.merge(rows, on="user")))
    nodes = data.nodes if len(data.nodes) else None

    def paint(figure: Figure) -> None:
        row = figure.subplots(1, len(panels), squeeze=False)[0]
        for (value, label, table), ax in zip(panels, row, strict=True):
            shown = aggregates.sample_users(table, MAX_USERS)[0]
            network_plots.user_map(shown, value, label, nodes=nodes, ax=ax)
        for ax in row[1:]:
            style.without_legend(ax).set_ylabel("")

    rare = " Orange rings: users that hold a rare class." if users["rare"].any() else ""
    served = " and by final accuracy" if names else ""
    hue = "the number of deliveries" if panels[0][0] == "delivered" else "the distance to the tower"
    caption = f"Positions of the users, coloured by {hue}{served}.{_sample_sentence(data)}{rare}{data.replica_sentence}"
    width = min(9.6, 3.6 * len(panels))
    yield page.plot(paint, name="map", caption=caption, size=(width, 0.9 * width / len(panels) + 1.5))
