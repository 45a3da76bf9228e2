"""The report of a run: its sections, and the page."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from markupsafe import Markup
from numpy.typing import NDArray

from netfl.diagnosis.cvar_lift import cvar_lifts, has_cvar_learner
from netfl.diagnosis.reading import participation_of_run
from netfl.diagnosis.text import format_p_value
from netfl.errors import ScenarioError
from netfl.learning.performance import metric_on_set, split_group
from netfl.plots import deliveries as delivery_plots
from netfl.plots import latency as latency_plots
from netfl.plots import learning as learning_plots
from netfl.plots import network as network_plots
from netfl.plots import style
from netfl.plots.deliveries import MAX_USERS
from netfl.report import animation, page, summary_text
from netfl.report.page import Page, Section, caption
from netfl.report.run_data import RunData, read_run_data
from netfl.results import aggregates, formatting
from netfl.results.comparison import has_order
from netfl.results.formatting import (
    accuracy_of_block,
    clock,
    format_by_replica,
    format_count,
    learning_label,
    left_out_sentence,
    metric_title,
    percent,
)
from netfl.results.metrics import metrics_in, with_reported
from netfl.results.payload import billing_note
from netfl.results.run_reader import Run
from netfl.types import OUTCOMES

MAX_TIMELINE_USERS = 60
"""Maximum number of users in the timeline of outages."""

MAX_QUEUES = 6
"""Maximum number of queues in a plot; a table has more."""

MAX_TABLE_ROWS = 24

_MAX_THRESHOLD_PANELS = 3
"""Maximum number of panels with t, the objective, and the CVaR at some levels."""

_RAREST = 5
"""Number of users with the smallest shares in a table."""

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
    path = run.folder / "report.html" if out is None else page.page_path(out)
    page.check_target(path)
    data = read_run_data(run)
    with style.theme(), with_reported(data.run.reported):
        report = Page(
            title=data.name,
            status=data.run.status,
            is_done=data.run.status == "done",
            summary=summary_text.run_summary(data),
            sections=[*learning_sections(data), *access_sections(data)],
            scenarios={"The scenario, as resolved": data.scenario_text},
            description=str(data.run.scenario.get("description") or ""),
            facts=summary_text.run_facts(data),
        )
        animated = animation.animation_section(data)
        if animated:  # the only section that needs a script
            report = replace(
                report,
                sections=[*report.sections, animated],
                style=animation.animation_style(),
                script_policy=animation.script_policy(),
            )
        return report.write(path)


def learning_sections(data: RunData) -> list[Section]:
    """Return the sections on learning."""
    if not data.learners:
        return []
    tables = [final_table(data), *learner_table(data), *target_table(data), *choice_table(data)]
    shares = [*block_accuracy(data), *class_accuracy(data), *user_accuracy(data), *user_heat(data)]
    quality = "Accuracy" if data.has("accuracy") else "R²"
    return [
        Section("final_metrics", "Final values", tables),
        Section("accuracy", f"{quality} over rounds and costs", [*accuracy_curves(data)]),
        Section("tuning", "Tuning by validation", [*candidate_curves(data)]),
        Section("shares", "Accuracy by class and user", shares),
        Section("threshold", "CVaR: t and the objective", [*cvar_plots(data), *cvar_weights(data)]),
        Section("besides", "Other metrics", [*other_metrics(data), *user_weights(data)]),
        Section("regions", "Decision regions", [*regions(data)]),
    ]


def access_sections(data: RunData) -> list[Section]:
    """Return the sections on the access."""
    if data.run.rounds.empty:
        return []
    sections = []
    if data.duration_s is None:  # a run of traffic has no rounds to take part in
        parts: list[Markup] = []
        if not data.lacks("deliveries"):
            parts += [participation_bars(data), participation(data)]
        parts += selection_table(data)
        sections = [
            Section("participation", "Participation", parts),
            Section("outcomes", "Outcomes of updates", [*outcomes(data)]),
        ]
    times = [
        *metric_table(data),
        *reported_curves(data),
        *delays(data),
        *packet_delays(data),
        *queues(data),
        *utilisation(data),
    ]
    timeline = [*outages(data)]
    title = "Outages and positions" if timeline else "Positions"
    drawings = [*timeline, *user_maps(data)]
    if len(data.nodes):
        drawings.append(page.note(caption("limits")))
    return [
        *sections,
        Section("network-metrics", "Delays, queues and utilisation", times),
        Section("network", title, drawings),
    ]


def final_table(data: RunData) -> Markup:
    """Return learners × final values, with 95 % t-intervals over replicas."""
    metrics = [metric for metric in data.learner_metrics if data.has(metric)]
    head = ["Learner", *(formatting.metric_title(metric) for metric in metrics)]
    rows = [[name, *(data.cell(metric, name) for metric in metrics)] for name in data.learners]
    means = _ranked_means(data, metrics)
    return page.table(head, rows, caption("final", data, bool(means)), page.best_cells(means, metrics))


def _ranked_means(data: RunData, metrics: Sequence[str]) -> dict[tuple[int, int], float]:
    """Return the means that are compared within a column, by (row, column) of the table of final values."""
    means: dict[tuple[int, int], float] = {}
    if not has_order(data.run.comparison):
        return means
    for column, metric in enumerate(metrics, 1):  # column 0 has the names of the learners
        intervals = data.intervals(metric)
        for row, name in enumerate(data.learners):
            value = intervals.get(name)
            if value is not None and value.is_shown and name not in data.run.choices:
                means[row, column] = value.mean
    return means


def learner_table(data: RunData) -> Iterator[Markup]:
    """Yield learners × rule, step size and effective step; nothing of runs that do not state them."""
    steps = data.run.effective_steps
    chosen = (data.run.manifest.get("tuning") or {}).get("chosen") or {}
    rows = []
    for name, learner in (data.run.scenario.get("learners") or {}).items():
        if name not in steps:
            continue
        values = {"lr": learner.get("lr"), **chosen.get(name, {})}
        size = values.pop("lr")
        if learner.get("step_of"):
            size = f"by {learner['step_of']}"
        rows.append(
            [
                name,
                str((learner.get("objective") or {}).get("kind", "–")),
                str((learner.get("aggregation") or {}).get("kind", "–")),
                format_by_replica(size),
                format_by_replica(steps[name]),
                ", ".join(f"{key} = {format_by_replica(value)}" for key, value in values.items()) or "–",
            ]
        )
    if not rows:
        return
    head = ["Learner", "Objective", "Aggregation", "lr", "Effective step", "Chosen besides"]
    if all(len(values) < 2 for values in chosen.values()):  # tuning has chosen nothing but lr
        head = head[:-1]
        rows = [row[:-1] for row in rows]
    yield page.table(head, rows, caption("learners", data))


def candidate_curves(data: RunData) -> Iterator[Markup]:
    """Yield the criterion of all candidates against their step sizes and effective steps."""
    table = data.run.candidates
    if table.empty:
        return
    by = str((data.run.manifest.get("tuning") or {}).get("by", ""))
    axes: list[Literal["lr", "step"]] = ["lr"]
    if table["step"].notna().any():  # some candidates have bounded weights, and so an effective step
        axes.append("step")
    learners = [name for name in data.learners if (table["learner"] == name).any()]
    figure = page.new_figure(9.6, 3.4)
    row = figure.subplots(1, len(axes), squeeze=False, sharey=True)[0]
    for over, ax in zip(axes, row, strict=True):
        learning_plots.candidates(table, over=over, by=by, learners=learners, ax=ax)
        style.without_legend(ax).label_outer(remove_inner_ticks=False)
    learning_plots.learner_legend(figure, learners)
    yield page.plot(figure, "candidates", caption("candidates", data, by))


def target_table(data: RunData) -> Iterator[Markup]:
    """Yield learners × target accuracies, with the costs of each."""
    if data.costs.empty:
        return
    costs = data.costs.dropna(subset="value")  # a replica that does not reach the target has no costs of it
    texts = _cost_texts(costs)
    reached = costs[costs["cost"] == "rounds"].groupby(["learner", "target"]).size()
    targets = data.costs["target"].unique().tolist()
    rows = []
    for learner in data.costs["learner"].unique().tolist():
        cells = []
        for target in targets:
            lines = [
                form.format(texts[learner, target, cost])
                for cost, form in metrics_in("target").items()
                if (learner, target, cost) in texts
            ]
            replicas = reached.get((learner, target), 0)
            if 0 < replicas < len(data.replicas):
                lines.append(f"{replicas} of {len(data.replicas)} replicas")
            cells.append("\n".join(lines) or "–")
        rows.append([learner, *cells])
    head = ["Learner", *(f"{100 * float(target):g} %" for target in targets)]
    yield page.table(head, rows, caption("targets", data))
    yield from billing_notes(data)


def _cost_texts(costs: pd.DataFrame) -> dict[tuple[str, str, str], str]:
    """Return the mean over replicas by (learner, target, cost), each cost in one unit."""
    means = costs.groupby(["learner", "target", "cost"])["value"].mean()
    texts: dict[tuple[str, str, str], str] = {}
    for cost, values in means.groupby("cost"):
        texts.update(zip(values.index, formatting.format_column(str(cost), values), strict=True))
    return texts


def billing_notes(data: RunData) -> Iterator[Markup]:
    """Yield how learners with different payloads are billed, as a note below a table or a plot of costs."""
    if note := billing_note(data.run.manifest):
        yield page.note(note)


def choice_table(data: RunData) -> Iterator[Markup]:
    """Yield choices × the learners that they keep at the end."""
    chosen = data.metrics[data.metrics["metric"] == "chosen"]
    rows = []
    for name, choice in data.run.choices.items():
        names = choice["learners"]
        unit = "replicas"
        scope = "one for all"
        if choice["per"] == "user":
            unit = "users"
            scope = "each user its own"
        values = chosen[chosen["learner"] == name]
        last = values.loc[values["round"] == values["round"].max(), "value"].astype(int)  # numbers of learners
        counts = last.value_counts(sort=False).sort_index()
        if len(counts) == 1:  # all keep the same learner
            kept = names[counts.index[0]]
        else:
            kept = ", ".join(f"{names[index]} ({number} of {counts.sum()} {unit})" for index, number in counts.items())
        by = str(choice["by"]).replace("_", " ")
        rows.append([name, by, scope, kept or "–"])
    if rows:
        yield page.table(["Choice", "By", "For", "Keeps"], rows, caption("choices", data))


def accuracy_curves(data: RunData) -> Iterator[Markup]:
    """Yield accuracy and rare-class accuracy, or R² of a regression, against rounds and against costs."""
    names = [*metrics_in("curves")]
    names += [metric_on_set(metric, test_set) for test_set in data.run.test_sets for metric in metrics_in("curves")]
    metrics = [metric for metric in names if data.has(metric)]
    if not metrics:
        return
    table = aggregates.with_cost(data.metrics, data.run.rounds)
    figure = page.new_figure(9.6, 0.5 + 2.7 * len(metrics))
    grid = figure.subplots(len(metrics), len(data.x_axes), squeeze=False, sharey="row")
    for metric, row in zip(metrics, grid, strict=True):
        for over, ax in zip(data.x_axes, row, strict=True):
            learning_plots.curves(table, metric, over=over, rounds=data.ends, learners=data.learners, ax=ax)
            style.without_legend(ax).label_outer(remove_inner_ticks=False)
    learning_plots.learner_legend(figure, data.learners, diverged=data.diverged)
    smoothed = _smoothed(data, [(metric, "") for metric in metrics])
    yield page.plot(figure, "accuracy", caption("accuracy", data, metrics, smoothed))
    yield from billing_notes(data)


def _smoothed(data: RunData, metrics: Sequence[tuple[str, str]]) -> list[str]:
    """Return the metrics, with their groups, whose curves are smoothed, and over how many evaluations."""
    windows = {metric: aggregates.smoothing_window(data.metrics, metric, group) for metric, group in metrics}
    return [f"{learning_label(metric)} of {window} evaluations" for metric, window in windows.items() if window > 1]


def block_accuracy(data: RunData) -> Iterator[Markup]:
    """Yield the accuracy of each block of users over the rounds."""
    metrics = [metric for metric in map(accuracy_of_block, data.run.blocks) if data.has(metric)]
    if not metrics:
        return
    columns = min(3, len(metrics))
    figure = page.new_figure(9.6, 0.5 + 2.7 * math.ceil(len(metrics) / columns))
    cells = style.grid_axes(figure, len(metrics), columns, sharey=True)
    for metric, ax in zip(metrics, cells, strict=True):
        learning_plots.curves(data.metrics, metric, rounds=data.ends, learners=data.learners, ax=ax)
        style.without_legend(ax).set_title(metric_title(metric))
        ax.set_ylabel("accuracy (%)")
        ax.label_outer(remove_inner_ticks=False)
    learning_plots.learner_legend(figure, data.learners, diverged=data.diverged)
    smoothed = _smoothed(data, [split_group(metric) for metric in metrics])
    yield page.plot(figure, "blocks", caption("blocks", data, smoothed[:1]))


def class_accuracy(data: RunData) -> Iterator[Markup]:
    """Yield learners × classes."""
    for test_set in ("", *data.run.test_sets):
        metric = "accuracy"
        key = "classes"
        if test_set:
            metric = metric_on_set(metric, test_set)
            key = f"{key}-{test_set}"
        if aggregates.grouped_final_metrics(data.metrics, metric, "class", rounds=data.ends).empty:
            continue
        figure = page.new_figure(9.6, 1.1 + 0.42 * len(data.learners))
        learning_plots.class_accuracy(
            data.metrics,
            metric,
            rounds=data.ends,
            rare=data.rare_classes,
            learners=data.learners,
            choices=data.run.choices,
            ax=figure.add_subplot(),
        )
        yield page.plot(figure, key, caption("classes", data, test_set))


def user_accuracy(data: RunData) -> Iterator[Markup]:
    """Yield the distribution of accuracy over users, and accuracy against deliveries."""
    if data.accuracy.empty or data.lacks("deliveries"):
        return
    figure = page.new_figure(9.6, 3.4)
    left, right = figure.subplots(1, 2)
    style.without_legend(learning_plots.user_accuracy(data.accuracy, learners=data.learners, ax=left))
    style.without_legend(learning_plots.user_scatter(data.accuracy, learners=data.learners, ax=right))
    learning_plots.learner_legend(figure, data.learners, diverged=data.diverged)
    yield page.plot(figure, "users", caption("users", data))


def user_heat(data: RunData) -> Iterator[Markup]:
    """Yield learners × users."""
    rows = data.accuracy[data.accuracy["replica"] == data.first]
    if rows.empty or data.lacks("deliveries"):
        return
    figure = page.new_figure(9.6, 1.1 + 0.36 * rows["learner"].nunique())
    learning_plots.user_heat(rows, learners=data.learners, ax=figure.add_subplot())
    yield page.plot(figure, "user-heat", caption("user_heat", data, rows["rare"].any()))


def cvar_plots(data: RunData) -> Iterator[Markup]:
    """Yield t, the objective, and the CVaR of the loss over the rounds."""
    metrics = data.metrics
    levels = sorted(metrics.loc[metrics["metric"] == "cvar", "group"].astype(str).unique())
    shown = [(metric, "") for metric in ("t", "objective") if data.has(metric)]
    shown += [("cvar", level) for level in levels]
    shown = shown[:_MAX_THRESHOLD_PANELS]
    if not any(metric in {"t", "cvar"} for metric, _ in shown):
        return
    figure = page.new_figure(9.6, 3.0)
    for (metric, level), ax in zip(shown, style.grid_axes(figure, len(shown), len(shown)), strict=True):
        options: dict[str, Any] = {"group": level, "rounds": data.ends, "learners": data.learners, "ax": ax}
        style.without_legend(learning_plots.curves(metrics, metric, **options))
        of_level = ""
        if level:
            of_level = f"(α = {level.removeprefix('alpha:')})"
        ax.set_ylabel(f"{learning_label(metric)} {of_level}")
    learning_plots.learner_legend(figure, data.learners, diverged=data.diverged)
    with_t = metrics.loc[metrics["metric"] == "t", "learner"].unique()
    without = [name for name in data.learners if name not in with_t]
    yield page.plot(figure, "threshold", caption("threshold", data, _smoothed(data, shown), without))


def cvar_weights(data: RunData) -> Iterator[Markup]:
    """Yield which users each CVaR can weigh more than importance weighting, by the deliveries of a replica."""
    if data.lacks("deliveries", "rounds", "scenario") or not has_cvar_learner(data.run):
        return
    try:
        participation = participation_of_run(data.run, data.first)
    except ScenarioError:  # no delivery, or a single user or round: there is no selection
        return
    for lift in cvar_lifts(data.run, participation, data.first):
        head = ["User", "Share ρ", "N ρ", "Largest weight", "Critical α", "Above 1/N"]
        yield page.table(head, lift.rows(_RAREST), caption("cvar_weights", data, lift.sentence))


def other_metrics(data: RunData) -> Iterator[Markup]:
    """Yield the optional metrics over the rounds."""
    metrics = [metric for metric in metrics_in("others") if data.has(metric)]
    metrics += [metric for metric in data.app_metrics if metric not in {*metrics_in("curves"), *metrics}]
    if not metrics:
        return
    columns = min(3, max(2, len(metrics)))
    figure = page.new_figure(3.2 * columns, 0.5 + 2.5 * math.ceil(len(metrics) / columns))
    for metric, ax in zip(metrics, style.grid_axes(figure, len(metrics), columns), strict=True):
        options: dict[str, Any] = {"rounds": data.ends, "learners": data.learners, "ax": ax}
        style.without_legend(learning_plots.curves(data.metrics, metric, **options))
    learning_plots.learner_legend(figure, data.learners, diverged=data.diverged)
    yield page.plot(figure, "besides", caption("other_metrics", data, metrics))


def user_weights(data: RunData) -> Iterator[Markup]:
    """Yield the weights of users, if an aggregation weighs them."""
    weights = data.user_values("weight")
    if weights.empty or data.lacks("deliveries"):
        return
    figure = page.new_figure(6.4, 3.0)
    learning_plots.user_weights(weights, learners=data.learners, ax=figure.add_subplot())
    names = [name for name in data.learners if (weights["learner"] == name).any()]
    yield page.plot(figure, "weights", caption("weights", names))
    values = weights.groupby("learner")["value"].agg(["min", "median", "max"])
    rows = [[name, *(f"{value:.3g}" for value in values.loc[name])] for name in names]
    yield page.table(["Learner", "Smallest weight", "Median", "Largest"], rows)


def regions(data: RunData) -> Iterator[Markup]:
    """Yield the decision regions of each learner, for data in the plane."""
    grid = data.run.regions
    if grid.empty:
        return
    replica = grid["replica"].min()
    grid = grid[grid["replica"] == replica]
    names = [name for name in data.learners if (grid["learner"] == name).any()]
    columns = min(3, len(names))
    figure = page.new_figure(3.3 * columns + 0.3, 3.0 * math.ceil(len(names) / max(columns, 1)) + 0.3)
    cells = style.grid_axes(figure, len(names), columns, sharex=True, sharey=True)
    for name, ax in zip(names, cells, strict=True):
        learning_plots.regions(grid, data.run.points, name, rare=data.rare_classes, ax=ax)
        ax.set_title(name)
        ax.label_outer()
    yield page.plot(figure, "regions", caption("regions", data, replica))


def participation_bars(data: RunData) -> Markup:
    """Return the deliveries of each user by rank and, if known, by distance."""
    orders = ["delivered"]
    if data.has_distances:
        orders.append("distance_m")
    figure = page.new_figure(9.6, 2.9)
    row = style.grid_axes(figure, len(orders), len(orders), sharey=True)
    for by, ax in zip(orders, row, strict=True):
        delivery_plots.participation_bars(data.first_users, by=by, replica=data.first, ax=ax)
        ax.label_outer(remove_inner_ticks=False)
    for ax in row[1:]:
        style.without_legend(ax)
    return page.plot(figure, "delivered", caption("participation_bars", data, _sample_remark(data)))


def participation(data: RunData) -> Markup:
    """Return user × round."""
    shown_users = min(len(data.first_users), MAX_USERS)
    figure = page.new_figure(9.6, min(6.0, 1.2 + 0.13 * shown_users))
    ax = figure.add_subplot()
    delivery_plots.participation(data.first_users, data.deliveries, data.run.rounds, replica=data.first, ax=ax)
    return page.plot(figure, "rounds", caption("participation", data, _sample_remark(data)))


def _sample_remark(data: RunData) -> str:
    _, remark = aggregates.sample_users(data.first_users, MAX_USERS)
    return remark


def selection_table(data: RunData) -> Iterator[Markup]:
    """Yield the tests behind the diagnosis of the selection process."""
    diagnosis = data.selection
    if diagnosis is None:
        return
    rows = [[test.question, format_p_value(test.p), test.answer] for test in diagnosis.tests if test.decides]
    text = " ".join([diagnosis.sentence, *diagnosis.notes, data.replica_sentence]).strip()
    yield page.table(["Question", "p", "Answer"], rows, text)


def outcomes(data: RunData) -> Iterator[Markup]:
    """Yield the outcomes of updates and the causes of failed attempts, over the rounds and in total."""
    if data.lacks("events"):
        return
    if sentence := left_out_sentence(data.users):
        yield page.note(sentence)
    if data.outcomes.empty:
        yield page.note("No outcomes of updates were recorded in this run.")
        return
    yield _outcome_plot(data)
    yield _outcome_table(data)


def _outcome_plot(data: RunData) -> Markup:
    """Return the outcomes over the rounds and, below them, the failed attempts, if there are any."""
    thinned = data.run.manifest.get("events_thinned") or {}
    every = thinned.get("every", 1)
    rounds = data.run.rounds
    has_failures = len(data.failures) > 0
    panels = 1 + has_failures
    figure = page.new_figure(9.6, 0.5 + 2.2 * panels)
    column = style.grid_axes(figure, panels, 1, sharex=True)
    delivery_plots.outcomes(data.outcomes, rounds, attempts=False, every=every, ax=column[0])
    if has_failures:
        delivery_plots.outcomes(data.failures, rounds, attempts=True, every=every, ax=column[1])
    for ax in column:
        ax.label_outer(remove_inner_ticks=False)
    return page.plot(figure, "outcomes", caption("outcomes", thinned, has_failures))


def _outcome_table(data: RunData) -> Markup:
    """Return outcomes × number and share of updates, with the causes of failed attempts below."""
    counts = data.outcomes["outcome"].value_counts()
    total = int(counts.sum())
    meanings = summary_text.outcome_meanings(data)
    rows = [
        [name.replace("_", " "), format_count(int(counts[name])), percent(counts[name] / total), meanings[name]]
        for name in OUTCOMES
        if name in counts
    ]
    failures = data.failures["outcome"].value_counts()
    causes = [f"{format_count(int(number))} {cause}" for cause, number in failures.items()]
    thinned = data.run.manifest.get("events_thinned") or {}
    text = caption("outcome_table", data, total, causes, thinned)
    return page.table(["Outcome", "Updates", "Share", "Meaning"], rows, text)


def metric_table(data: RunData) -> Iterator[Markup]:
    """Yield the metrics of the access, with 95 % t-intervals over replicas."""
    if not data.access_metrics:
        return
    values = formatting.aligned(data.access_metrics, data.run.summary)
    rows = [[formatting.metric_label(name), str(value)] for name, value in values.items()]
    replicas = int(data.run.summary.get("replicas", 1))
    yield page.table(["Metric", "Value"], rows, caption("metric_table", data, replicas))
    yield from billing_notes(data)


def reported_curves(data: RunData) -> Iterator[Markup]:
    """Yield the metrics that the selection and the allocation report over the rounds."""
    metrics = data.access_curves["metric"].astype(str).unique().tolist()
    if not metrics:
        return
    columns = min(3, max(2, len(metrics)))
    figure = page.new_figure(3.2 * columns, 0.5 + 2.5 * math.ceil(len(metrics) / columns))
    for metric, ax in zip(metrics, style.grid_axes(figure, len(metrics), columns), strict=True):
        style.without_legend(learning_plots.curves(data.access_curves, metric, rounds=data.ends, ax=ax))
    yield page.plot(figure, "reported", caption("reported", data))


def delays(data: RunData) -> Iterator[Markup]:
    """Yield the delays of all updates and of each user, and the staleness of updates."""
    deliveries = data.run.deliveries
    rounds = data.run.rounds
    if data.duration_s is not None or deliveries.empty or not data.has_delays:
        return
    table = aggregates.delays(deliveries, rounds)
    if table["delay_s"].nunique() < 2:
        return
    figure = page.new_figure(9.6, 5.6)
    is_stale = bool((table["age"] != 0).any())
    if is_stale:
        cells = figure.subplot_mosaic([["all", "ages"], ["users", "users"]])
    else:
        cells = figure.subplot_mosaic([["all", "all"], ["users", "users"]])
    parts = {name: table[column].dropna() for column, name in _DELAY_PARTS.items()}
    latency_plots.distributions(parts, ax=cells["all"])
    by = "distance_m" if data.has_distances else "delivered"
    latency_plots.user_delays(data.first_users, deliveries, rounds, by=by, replica=data.first, ax=cells["users"])
    if is_stale:
        latency_plots.staleness(deliveries, rounds, ax=cells["ages"])
    yield page.plot(figure, "delays", caption("delays", data, is_stale))


def packet_delays(data: RunData) -> Iterator[Markup]:
    """Yield the delays of packets, if the run has traffic and their arrivals were recorded."""
    events = data.run.events
    rows = events[events["kind"] == "delivered"]
    if data.duration_s is None or rows.empty or data.lacks("scenario"):
        return
    figure = page.new_figure(6.4, 3.0)
    values = rows.loc[rows["time_s"] >= data.warmup_s, "value"]
    latency_plots.distributions({"": values}, ax=figure.add_subplot())
    yield page.plot(figure, "delays", caption("packet_delays"))


def queues(data: RunData) -> Iterator[Markup]:
    """Yield the time of messages in towers and routers, and the backlog over time."""
    events = data.run.events
    rows = aggregates.node_delays(events)
    if rows.empty:
        if (data.nodes["role"] == "router").any() and not data.lacks("events"):
            yield page.note(caption("unrecorded_queues"))
        return
    table = aggregates.queues(rows, float(data.ends_s.sum()))
    nodes = table["node"].tolist()[:MAX_QUEUES]
    figure = page.new_figure(9.6, 3.2)
    left, right = figure.subplots(1, 2)
    latency_plots.node_delays(rows, nodes=nodes, ax=left)
    latency_plots.backlog(rows, nodes=nodes, end_s=data.end_s, replica=data.first, ax=right)
    style.without_legend(right)
    yield page.plot(figure, "queues", caption("queues", data, len(nodes), len(table)))
    dropped = events.loc[events["kind"] == "dropped", "node"].astype(str).value_counts()
    yield _queue_table(table, dropped)


def _queue_table(table: pd.DataFrame, dropped: pd.Series[int]) -> Markup:
    """Return nodes × traffic and stays, from `aggregates.queues` and the number of messages that each node dropped."""
    shown = table.head(MAX_TABLE_ROWS)
    stays = [formatting.format_column(name, shown[name]) for name in ("mean_s", "p95_s", "longest_s")]
    rows = []
    for index, node in enumerate(shown["node"].astype(str)):
        passed = format_count(int(shown["passed"].iloc[index]))
        lost = format_count(int(dropped.get(node, 0)))
        held = f"{shown['held'].iloc[index]:.3g}"
        rows.append([node, passed, lost, *(texts[index] for texts in stays), held])
    head = ["Where", "Forwarded", "Dropped", "Mean stay", "95 % within", "Longest", "Messages on average"]
    return page.table(head, rows, caption("queue_table", len(rows), len(table)))


def utilisation(data: RunData) -> Iterator[Markup]:
    """Yield the share of time in which each cell and link was in use."""
    table = aggregates.utilisation(data.run.final_metrics)
    if table.empty or not table["share"].notna().any():
        return
    number = table["part"].nunique()
    shown = min(latency_plots.MAX_BARS, number)
    figure = page.new_figure(7.2, 0.9 + 0.24 * shown)
    latency_plots.utilisation(data.run.final_metrics, ax=figure.add_subplot())
    yield page.plot(figure, "utilisation", caption("utilisation", data, shown, number))


def outages(data: RunData) -> Iterator[Markup]:
    """Yield a timeline of outages and deliveries, and the total time of each outage."""
    if data.outages.empty or data.lacks("deliveries"):
        return
    users = _timeline_users(data)
    nodes = pd.DataFrame({"user": -1, "node": sorted(set(data.outages["node"]) - {""}), "rare": False})
    rows = pd.concat([nodes, users[["user", "rare"]].assign(node="")], ignore_index=True)
    rows = rows.assign(row=rows.index, label=_names(rows))
    user_rows = rows.loc[rows["user"] >= 0, ["user", "row"]]
    by_tower = data.tower_outages.merge(user_rows, on="user").assign(by_tower=True)
    of_row = data.outages.merge(rows, on=["user", "node"]).assign(by_tower=False)
    spans = pd.concat([by_tower, of_row])
    deliveries = data.deliveries.merge(user_rows, on="user")
    figure = page.new_figure(9.6, 1.2 + 0.145 * len(rows))
    network_plots.outage_timeline(spans, deliveries, rows, data.end_s, ax=figure.add_subplot())
    yield page.plot(figure, "outages", caption("outages", data, users))
    head = ["Node", "Outages", "Time down", "Share of the run"]
    yield page.table(head, _downtime(data.outages, data.end_s), "Outages, longest total time first.")


def _timeline_users(data: RunData) -> pd.DataFrame:
    """Return the users of the timeline, tower by tower; of too many, those with rare classes and few deliveries."""
    users = data.first_users.assign(tower=data.towers)
    if len(users) > MAX_TIMELINE_USERS:
        users = users.sort_values(["rare", "delivered"], ascending=[False, True]).head(MAX_TIMELINE_USERS)
    return users.sort_values(["tower", "delivered"], ascending=[True, False])


def _names(rows: pd.DataFrame) -> NDArray[np.object_]:
    """Return the name of the node or, where there is a user, the number of the user in each row."""
    return np.where(rows["user"] < 0, rows["node"].str.replace(":", " "), "user " + rows["user"].astype(str))


def _downtime(down: pd.DataFrame, end_s: float, max_rows: int = 8) -> list[list[str]]:
    """Return the number of outages and the time down of each user and node; of many, the last row sums the others."""
    durations_s = down["to_s"] - down["from_s"]
    totals = durations_s.groupby(_names(down)).agg(["size", "sum"]).sort_values("sum", ascending=False)
    rows = []
    for name, total in totals.head(max_rows).iterrows():
        share = total["sum"] / max(end_s, 1e-9)
        rows.append([str(name), format_count(int(total["size"])), clock(total["sum"]), percent(share)])
    others = totals[max_rows:]
    if len(others):
        outage_count = format_count(int(others["size"].sum()))
        rows.append([f"and {len(others)} more", outage_count, clock(others["sum"].sum()), "–"])
    return rows


def user_maps(data: RunData) -> Iterator[Markup]:
    """Yield maps of the users, by deliveries and by the accuracy of the first two learners."""
    if not data.has_positions or data.lacks("deliveries"):
        return
    users = data.first_users
    value = "delivered"
    label = "deliveries"
    if data.duration_s is not None:
        label = "packets delivered"
        if not users["delivered"].any():  # the arrivals of packets were not recorded
            value = "distance_m"
            label = "distance to the tower (m)"
    accuracy = data.accuracy[data.accuracy["replica"] == data.first]
    accuracy = accuracy.assign(percent=100 * accuracy["value"])
    names = [name for name in data.learners if (accuracy["learner"] == name).any()][:2]
    percent_scale = style.percent_norm(accuracy.loc[accuracy["learner"].isin(names), "percent"])
    nodes = data.nodes if len(data.nodes) else None
    panels = 1 + len(names)
    width = min(9.6, 3.6 * panels)
    figure = page.new_figure(width, 0.9 * width / panels + 1.5)
    first, *others = style.grid_axes(figure, panels, panels)
    shown, remark = aggregates.sample_users(users, MAX_USERS)
    network_plots.user_map(shown, value, label, nodes=nodes, ax=first)
    for name, ax in zip(names, others, strict=True):
        of_learner = accuracy.loc[accuracy["learner"] == name, ["user", "percent"]]
        shown, _ = aggregates.sample_users(users.merge(of_learner, on="user"), MAX_USERS)
        network_plots.user_map(shown, "percent", f"accuracy of {name}", nodes=nodes, percent=percent_scale, ax=ax)
        style.without_legend(ax).set_ylabel("")
    yield page.plot(figure, "map", caption("map", data, value, bool(names), remark))
