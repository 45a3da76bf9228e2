"""The report of several runs side by side: how they differ, the best learner of each, and what that cost."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from markupsafe import Markup

from netfl import diagnosis
from netfl.core.remedies import argument
from netfl.diagnosis.reading import participation_of_run
from netfl.errors import Fault, ScenarioError
from netfl.network.counters import jain
from netfl.plots import latency as latency_plots
from netfl.plots import learning as learning_plots
from netfl.plots import runs as run_plots
from netfl.plots import style
from netfl.report import page, summary_text
from netfl.report.page import Page, Section, caption
from netfl.report.run_set import (
    NamedRun,
    RunSet,
    final_difference,
    gather_runs,
    relate_traces,
)
from netfl.report.summary_text import verdict_metrics
from netfl.results import aggregates, formatting, statistics
from netfl.results.comparison import has_order, stated_states
from netfl.results.differing_keys import differing_keys
from netfl.results.formatting import clock, format_count, percent, shortened
from netfl.results.metrics import metrics_in, with_reported
from netfl.results.payload import billing_note
from netfl.types import OUTCOMES

MAX_CURVES = 6
"""Up to this number curves share one panel; of more, each run has its own."""

MAX_KEYS = 60
"""Maximum number of differing keys in the table."""

MAX_HEAT_USERS = 400
"""Of more users there is no heat map."""

_MAX_LABELS = 4
"""Legends of more runs have letters without names."""

_MAX_TITLE = 120

_NO_PAIRS = {"other": "none: the same seed, another trace", "other_seed": "none: another seed", "unknown": "–"}
"""Reason why the replicas of two runs are not paired, by `relate_traces`."""

_X_AXES: tuple[aggregates.Over, ...] = ("round", "time", "bits", "energy")


def write_several(folders: Sequence[Path], out: Path, at: str | None = None) -> Path:
    """Write the report of the runs in *folders*, finished or not; folders without a run are named in it.

    Args:
        folders: run directories.
        out: the file to write; without an ending, ``.html`` is added.
        at: simulated time of the final values, such as ``2 h``; by default the end, or the earliest end of all runs if
            they end at different times.

    Returns:
        The file written.

    Raises:
        ScenarioError: none of the folders holds a run, one ends before *at*, or *out* exists and is not a page of
            netfl.
    """
    out = page.page_path(out)
    for folder in folders:
        if os.path.realpath(folder / "report.html") == os.path.realpath(out):
            problem = f"{out} is the path of the report of that run"
            raise ScenarioError([Fault(argument("out"), problem, None, "use another file")])
    page.check_target(out)
    runs = gather_runs(folders, at)
    members = [run.data for run in runs.members]
    with style.theme(), with_reported(*(data.run.reported for data in members)):
        keys = differing_keys([run.data.run.scenario for run in runs.described])
        title = f"{len(members)} runs: {', '.join(dict.fromkeys(data.name for data in members))}"
        is_done = all(data.run.status == "done" for data in members) and not runs.refused
        return Page(
            title=shortened(title, _MAX_TITLE),
            status="all done" if is_done else "not all done",
            is_done=is_done,
            summary=summary_text.comparison_summary(runs, list(keys)),
            sections=comparison_sections(runs, keys, out.parent),
            scenarios={f"The scenario of {run.letter}, as resolved": run.data.scenario_text for run in runs.members},
        ).write(out)


def comparison_sections(runs: RunSet, keys: dict[str, list[str]], folder: Path) -> list[Section]:
    """Return all sections, with links from *folder*; *keys* are those in which the scenarios differ."""
    of_rounds = [run for run in runs.members if len(run.data.run.rounds) and run.data.duration_s is None]
    with_deliveries = [run for run in of_rounds if not run.data.lacks("deliveries")]
    return [
        Section("runs", "The runs", [*run_table(runs, folder)]),
        Section("differences", "How they differ", [*difference_of_keys(runs, keys)]),
        Section("winners", "Best learners", [*winners(runs)]),
        Section("curves", "Learning curves", [*learning_curves(runs)]),
        Section("participation", "Participation", [*participation(with_deliveries)]),
        Section("verdicts", "Selection process", [*diagnoses(with_deliveries)]),
        Section("outcome-shares", "Outcomes of updates", [*outcomes(of_rounds)]),
        Section("delays", "Delays", [*delays(of_rounds), *delay_table(runs)]),
    ]


def run_table(runs: RunSet, folder: Path) -> Iterator[Markup]:
    """Yield a table of the runs, and links from *folder* to their reports."""
    rows = []
    for run in runs.members:
        data = run.data
        if data.lacks("rounds"):
            length = "–"
        elif data.duration_s is None:
            length = data.round_count
        else:  # a run of traffic
            length = clock(data.duration_s)
        users = "–"
        if data.has_all_users:
            users = format_count(len(data.first_users))
        simulated = "–"
        if len(data.ends_s):
            simulated = clock(float(data.ends_s.mean()))
        replicas = str(len(data.replicas) or "–")
        seed = str(data.run.manifest.get("seed", "–"))
        name = f"{run.letter} · {run.name}"
        rows.append([name, data.run.status, users, length, replicas, seed, simulated, str(data.run.folder)])
    head = ["Run", "Status", "Users", "Rounds", "Replicas", "Seed", "Simulated", "Folder"]
    yield page.table(head, rows, caption("runs"))
    yield from page.report_links([(f"{run.letter} · {run.name}", run.data.run.folder) for run in runs.members], folder)


def difference_of_keys(runs: RunSet, keys: dict[str, list[str]]) -> Iterator[Markup]:
    """Yield the dotted keys in which the scenarios differ."""
    if not keys:
        return
    rows = [[key, *values] for key, values in keys.items()][:MAX_KEYS]
    head = ["Key", *(run.letter for run in runs.described)]
    yield page.table(head, rows, caption("differences", keys, len(rows)))


def winners(runs: RunSet) -> Iterator[Markup]:
    """Yield the best learners of each run, all final values, and their differences between runs."""
    members = [run for run in runs.members if run.data.learners]
    if not members:
        return
    yield page.bullets(f"{run.label}: {' '.join(summary_text.verdicts(run.data))}" for run in members)
    yield final_table(runs)
    yield from comparison_notes(members)
    yield from difference_table(runs)


def final_table(runs: RunSet) -> Markup:
    """Return run and learner × final values."""
    sets = dict.fromkeys(name for run in runs.members for name in run.data.run.test_sets)
    blocks = dict.fromkeys(name for run in runs.members for name in run.data.run.blocks)
    metrics = [metric for metric in formatting.learner_metrics(sets, blocks, in_report=True) if runs.having(metric)]
    rows: list[list[str]] = []
    means: dict[tuple[int, int], float] = {}
    for run in runs.members:
        data = run.data
        is_ordered = has_order(data.run.comparison)
        for name in data.learners:
            is_ranked = is_ordered and name not in data.run.choices
            for column, metric in enumerate(metrics, 1):  # column 0 has the names
                value = data.intervals(metric).get(name)
                if is_ranked and value is not None and value.is_shown:
                    means[len(rows), column] = value.mean
            rows.append([f"{run.letter} · {name}", *(data.cell(metric, name) for metric in metrics)])
    windows = sorted({str(run.data.window) for run in runs.members if run.data.learners})
    head = ["Run and learner", *(formatting.metric_title(metric) for metric in metrics)]
    return page.table(head, rows, caption("final_of_runs", runs, windows, bool(means)), page.best_cells(means, metrics))


def comparison_notes(members: Sequence[NamedRun]) -> Iterator[Markup]:
    """Yield the state of the comparison of the learners in each run, as notes below a table of their values."""
    states = stated_states({run.label: run.data.run.comparison for run in members})
    for label, state in states.items():
        if state:
            yield page.note(f"{label}: {state}.")


def difference_table(runs: RunSet) -> Iterator[Markup]:
    """Yield the differences of each learner's final values from those of the first run that has it."""
    contexts = {metric: context for metric, context in verdict_metrics().items() if runs.having(metric)}
    rows = []
    for name in runs.learners:
        base, *others = [run for run in runs.members if name in run.data.learners]
        for run in others:
            relation = relate_traces(run.data, base.data)
            if relation == "same":
                common_replicas = set(run.data.replicas) & set(base.data.replicas)
                pairs = f"by replica ({len(common_replicas)})"
            else:
                pairs = _NO_PAIRS[relation]
            cells = []
            for metric in contexts:
                gap = final_difference(run.data, base.data, metric, name, paired=relation == "same")
                cells.append(formatting.metric_cell(metric, gap.mean, gap.half, gap.replicas, is_difference=True))
            rows.append([f"{name}: {run.letter} − {base.letter}", *cells, pairs])
    if not rows:
        return
    titles = [context.partition(" ")[2].capitalize() for context in contexts.values()]  # without "On" or "Over"
    yield page.table(["Difference", *titles, "Pairs"], rows, caption("gaps"))


def learning_curves(runs: RunSet) -> Iterator[Markup]:
    """Yield the curves of all runs, over rounds and each cost."""
    x_axes = [over for over in _X_AXES if any(over in run.data.x_axes for run in runs.members)]
    for metric in verdict_metrics():
        members = runs.having(metric)
        if not members:
            continue
        if sum(len(run.data.learners) for run in members) <= MAX_CURVES:
            yield _shared_panels(members, metric, x_axes)
        else:
            yield from (_panel_per_run(members, metric, over) for over in x_axes)
        yield from billing_notes(members)


def _courses(members: list[NamedRun], metric: str, over: aggregates.Over) -> pd.DataFrame:
    return run_plots.run_courses(_costed(members, over), metric, over)


def _costed(members: list[NamedRun], over: aggregates.Over) -> dict[str, pd.DataFrame]:
    return {
        run.letter: aggregates.with_cost(run.data.metrics, run.data.run.rounds)
        for run in members
        if over in run.data.x_axes
    }


def _finals(members: list[NamedRun], metric: str, over: aggregates.Over) -> dict[str, aggregates.FinalPoints]:
    rounds = {run.letter: run.data.run.rounds for run in members}
    return run_plots.run_finals(_costed(members, over), metric, over, rounds)


def _curve_caption(members: list[NamedRun], metric: str, over: str) -> str:
    is_smoothed = any(aggregates.smoothing_window(run.data.metrics, metric) > 1 for run in members)
    states = stated_states({run.letter: run.data.run.comparison for run in members})
    return caption("curves_of_runs", members, metric, over, is_smoothed, states)


def _shared_panels(members: list[NamedRun], metric: str, x_axes: list[aggregates.Over]) -> Markup:
    with_curves = [(run.letter, name) for run in members for name in run.data.learners]
    learners = list(dict.fromkeys(name for _, name in with_curves))
    styles = run_plots.run_styles([run.letter for run in members], learners)
    styles = {key: line for key, line in styles.items() if key in with_curves}
    figure = page.new_figure(9.6, 3.3)
    row = style.grid_axes(figure, len(x_axes), len(x_axes), sharey=True)
    for over, ax in zip(x_axes, row, strict=True):
        finals = _finals(members, metric, over)
        run_plots.run_curves(_courses(members, metric, over), metric, styles, over=over, finals=finals, ax=ax)
        ax.label_outer(remove_inner_ticks=False)
    lines = {f"{run} · {learner}": line for (run, learner), line in styles.items()}
    style.line_legend(figure, lines, loc="outside upper left", ncols=4, handlelength=3.6)
    return page.plot(figure, f"curves-{metric}", _curve_caption(members, metric, ""))


def _panel_per_run(members: list[NamedRun], metric: str, over: aggregates.Over) -> Markup:
    table = _courses(members, metric, over)
    finals = _finals(members, metric, over)
    learners = list(dict.fromkeys(name for run in members for name in run.data.learners))
    lines = style.line_styles(learners)
    columns = 2 if len(members) == 4 else min(3, len(members))
    figure = page.new_figure(9.6, 0.6 + 2.3 * math.ceil(len(members) / columns))
    cells = style.grid_axes(figure, len(members), columns, sharex=True, sharey=True)
    for index, (run, ax) in enumerate(zip(members, cells, strict=True)):
        styles = {(run.letter, name): lines[name] for name in run.data.learners}
        run_plots.run_curves(table, metric, styles, over=over, finals=finals, ax=ax)
        ax.set_title(run.label)
        if index % columns:  # the leftmost panel of the row has the label
            ax.set_ylabel("")
        if index + columns < len(members):  # the lowest panel of the column has the label
            ax.set_xlabel("")
        else:
            ax.tick_params(labelbottom=True)
    learning_plots.learner_legend(figure, learners)
    return page.plot(figure, f"curves-{metric}-{over}", _curve_caption(members, metric, over))


def participation_rates(run: NamedRun) -> pd.Series[float]:
    """Return the share of rounds with a delivery of each user, mean over replicas."""
    rounds = run.data.run.rounds.groupby("replica").size()
    deliveries = run.data.run.deliveries.drop_duplicates(["replica", "round", "user"])
    keys = pd.MultiIndex.from_frame(run.data.users[["replica", "user"]])
    counts = deliveries.groupby(["replica", "user"]).size().reindex(keys, fill_value=0)
    rates: pd.Series[float] = counts.div(rounds, level="replica").groupby(level="user").mean()
    return rates


def participation(members: list[NamedRun]) -> Iterator[Markup]:
    """Yield the participation rates of users in each run."""
    if not members:
        return
    rates = {run.letter: participation_rates(run) for run in members}
    yield _rate_plot(members, rates)
    rows = [_rate_row(run, rates[run.letter]) for run in members]
    head = ["Run", "Highest rate", "Median", "Lowest rate", "No delivery", "Jain index", "From rare users"]
    yield page.table(head, rows, caption("rate_table"))


def _rate_plot(members: list[NamedRun], rates: Mapping[str, pd.Series[float]]) -> Markup:
    """Return the participation rates by rank and, unless there are too many users, as a heat map of all users."""
    table = pd.DataFrame(rates).T.sort_index(axis="columns")
    has_heat = 0 < len(table.columns) <= MAX_HEAT_USERS
    panels = 1 + has_heat
    figure = page.new_figure(9.6, 2.7 + 0.1 * len(members))
    row = style.grid_axes(figure, panels, panels)
    run_plots.rank_curves(rates, ax=row[0])
    labels = [run.label for run in members]
    if len(members) > _MAX_LABELS:
        labels = [run.letter for run in members]
    style.add_legend(row[0], row[0].get_lines(), labels, loc="upper right")
    if has_heat:
        run_plots.rate_heat(table, ax=row[1])
    return page.plot(figure, "delivered", caption("rates", has_heat))


def _rate_row(run: NamedRun, rates: pd.Series[float]) -> list[str]:
    """Return the participation in one run as a row: rates, users without deliveries, Jain index, rare users."""
    users = run.data.users
    silent_users = int((run.data.first_users["delivered"] == 0).sum())
    jain_index = users.groupby("replica")["delivered"].apply(jain).mean()
    rare_share = "–"
    if users["rare"].any():
        from_rare = users.loc[users["rare"], "delivered"].sum()
        rare_share = percent(float(from_rare / max(1, users["delivered"].sum())))
    return [
        run.label,
        percent(rates.max()),
        percent(rates.median()),
        percent(rates.min()),
        f"{silent_users} of {len(run.data.first_users)}",
        f"{jain_index:.3f}",
        rare_share,
    ]


def diagnoses(members: list[NamedRun]) -> Iterator[Markup]:
    """Yield the diagnosis of each selection process."""
    rows = []
    for run in members:
        try:
            result = diagnosis.diagnose(participation_of_run(run.data.run, run.data.first))
            rows.append([run.label, result.verdict, result.sentence])
        except ScenarioError as error:
            rows.append([run.label, "–", f"It cannot be diagnosed: {error.faults[0].problem}."])
    if rows:
        yield page.table(["Run", "Selection", "Description"], rows, caption("diagnoses"))


def outcomes(members: list[NamedRun]) -> Iterator[Markup]:
    """Yield the shares of outcomes in each run."""
    recorded = [run for run in members if len(run.data.outcomes)]
    if not recorded:
        return
    shares = pd.DataFrame({run.letter: run.data.outcomes["outcome"].value_counts(normalize=True) for run in recorded})
    shares = shares.T.fillna(0.0)  # runs × outcomes
    shares = shares[[name for name in OUTCOMES if name in shares]]
    figure = page.new_figure(9.6, 1.3 + 0.34 * len(shares))
    run_plots.outcome_bars(shares, ax=figure.add_subplot())
    missing = [run.letter for run in members if run not in recorded and not run.data.lacks("events")]
    yield page.plot(figure, "outcomes", caption("outcome_shares", missing))
    rows = [[run.label, *map(percent, shares.loc[run.letter])] for run in recorded]
    yield page.table(["Run", *(str(name).replace("_", " ") for name in shares)], rows)


def delays(members: list[NamedRun]) -> Iterator[Markup]:
    """Yield the distribution of delays in each run."""
    parts = {
        run.letter: aggregates.delays(run.data.run.deliveries, run.data.run.rounds)["delay_s"]
        for run in members
        if len(run.data.run.deliveries) and run.data.has_delays
    }
    if not parts:
        return
    figure = page.new_figure(7.2, 3.2)
    styles = style.line_styles([run.letter for run in members])
    latency_plots.distributions(parts, styles=styles, ax=figure.add_subplot())
    yield page.plot(figure, "delays", caption("delays_of_runs"))


def delay_table(runs: RunSet) -> Iterator[Markup]:
    """Yield delays and costs of rounds, with 95 % t-intervals over replicas."""
    heads = metrics_in("delays") | metrics_in("costs")
    columns = [name for name in heads if any(name in run.data.run.summary for run in runs.members)]
    if not columns:
        return
    summaries = [run.data.run.summary for run in runs.members]
    cells = [formatting.format_column(name, [_estimate(summary, name) for summary in summaries]) for name in columns]
    rows = [list(row) for row in zip((run.label for run in runs.members), *cells, strict=True)]
    yield page.table(["Run", *(heads[name] for name in columns)], rows, caption("delay_table", runs))
    yield from billing_notes(runs.members)


def _estimate(summary: Mapping[str, Any], name: str) -> statistics.ConfidenceInterval:
    """Return a metric of a summary with its interval; NaN where the run has no value."""
    value = summary.get(name)
    half = summary.get(name + statistics.HALF)
    return statistics.ConfidenceInterval(
        math.nan if value is None else float(value),
        math.nan if half is None else float(half),
        int(summary.get("replicas", 1)),
    )


def billing_notes(members: Sequence[NamedRun]) -> Iterator[Markup]:
    """Yield how each run bills learners with different payloads, as notes below a table or a plot of costs."""
    for run in members:
        if note := billing_note(run.data.run.manifest):
            yield page.note(f"{run.label}: {note}")
