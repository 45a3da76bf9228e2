"""The report of several runs side by side: how they differ, the best learner of each, and what that cost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from markupsafe import Markup
from matplotlib.figure import Figure

from netfl import diagnosis
from netfl.diagnosis.reading import participation_of_run
from netfl.errors import Fault, ScenarioError
from netfl.network.counters import jain
from netfl.plots import comparison as comparison_plots
from netfl.plots import latency as latency_plots
from netfl.plots import learning as learning_plots
from netfl.plots import style
from netfl.report import page, summary_text
from netfl.report.comparison_data import (
    NamedRun,
    RunSet,
    differing_keys,
    final_difference,
    gather_runs,
    shared_rounds,
)
from netfl.report.page import Page, Section
from netfl.report.sections import LEARNER_LEGEND, best_cells
from netfl.report.summary_text import CONTEXTS, spread_sentence
from netfl.results import aggregates, formatting, statistics
from netfl.results.formatting import clock, format_count, join_words, percent, shortened
from netfl.types import FATES

MAX_CURVES = 6
"""Up to this number curves share one panel; of more, each run has its own."""

MAX_KEYS = 60
"""Maximum number of differing keys in the table."""

MAX_HEAT_USERS = 400
"""Of more users there is no heat map."""

_MAX_TITLE = 120

_DELAYS = {
    "delay_mean_s": "Mean delay",
    "delay_p50_s": "Median",
    "delay_p95_s": "95 % within",
    "delay_p99_s": "99 % within",
    "rounds_per_hour": "Rounds per hour",
    "attempts_mean": "Attempts each",
    "uplink_bits": "Sent up",
}
"""Columns of the table of delays and costs, by metric."""

_X_AXES: dict[aggregates.Over, str] = {
    "round": "rounds", "time": "simulated time", "bits": "bits sent up", "energy": "joules spent by users",
}  # fmt: skip


def write_several(folders: Sequence[Path], out: Path) -> Path:
    """Write the report of the runs in *folders*, finished or not; folders without a run are named in it.

    Args:
        folders: run directories.
        out: the file to write.

    Returns:
        The file written.

    Raises:
        ScenarioError: none of the folders holds a run, or *out* exists and is not a page of netfl.
    """
    for folder in folders:
        if (folder / "report.html").resolve() == out.resolve():
            problem = f"{out} is the place of the report of that run alone"
            raise ScenarioError([Fault("--out", problem, None, "name another file")])
    page.check_target(out)
    return comparison_page(gather_runs(folders), out.parent).write(out)


def comparison_page(runs: RunSet, folder: Path) -> Page:
    """Return the report of *runs*, with links from *folder*."""
    members = [run.data for run in runs.members]
    keys = differing_keys([data.run.scenario for data in members])
    title = f"{len(members)} runs: {', '.join(dict.fromkeys(data.name for data in members))}"
    is_done = all(data.run.status == "done" for data in members) and not runs.refused
    return Page(
        title=shortened(title, _MAX_TITLE),
        status="all done" if is_done else "not all done",
        is_done=is_done,
        summary=summary_text.comparison_summary(runs, list(keys)),
        sections=[
            runs_section(runs, folder),
            *differences_section(runs, keys),
            *learning_sections(runs),
            *access_sections(runs),
        ],
        scenarios={f"The scenario of {run.letter}, as resolved": run.data.scenario_text for run in runs.members},
    )


def runs_section(runs: RunSet, folder: Path) -> Section:
    """Return a table of the runs, with links from *folder* to their reports."""
    rows = []
    for run in runs.members:
        data = run.data
        length = format_count(data.rounds) if data.duration_s is None else clock(data.duration_s)
        rows.append(
            [
                f"{run.letter} · {run.name}",
                data.run.status,
                format_count(len(data.first_users)),
                length,
                str(len(data.replicas)),
                str(data.run.manifest.get("seed", "–")),
                clock(float(data.ends_s.mean())) if len(data.ends_s) else "–",
                str(data.run.folder),
            ]
        )
    head = ["Run", "Status", "Users", "Rounds", "Replicas", "Seed", "Simulated", "Folder"]
    parts = [page.table(head, rows, "Pictures and tables call runs by their letters.")]
    files = [(f"{run.letter} · {run.name}", run.data.run.folder / "report.html") for run in runs.members]
    files = [(name, file) for name, file in files if file.is_file()]
    parts += [page.links("Reports of their own:", files, folder)] if files else []
    return Section("runs", "The runs", tuple(parts))


def differences_section(runs: RunSet, keys: dict[str, list[str]]) -> Iterator[Section]:
    """Yield the dotted keys in which the scenarios differ."""
    if not keys:
        return
    rows = [[key, *values] for key, values in list(keys.items())[:MAX_KEYS]]
    few = (
        f" Of {len(keys)} keys the first {MAX_KEYS} are shown; the scenarios stand at the end."
        if len(keys) > MAX_KEYS
        else ""
    )
    caption = (
        "Keys of the scenarios, as resolved, whose values are not the same in all. –: a scenario has no such key, or "
        f"nothing there.{few}"
    )
    yield Section("differences", "How they differ", (page.table(["Key", *runs.letters], rows, caption),))


def learning_sections(runs: RunSet) -> Iterator[Section]:
    """Yield the best learner of each run, final values, and curves."""
    members = [run for run in runs.members if run.data.learners]
    if not members:
        return
    sentences = page.bullets(map(summary_text.run_state_sentence, members))
    parts = (sentences, final_table(runs), *difference_table(runs))
    yield Section("winners", "Best learners", parts)
    curves = tuple(learning_curves(runs))
    if curves:
        yield Section("curves", "Learning curves", curves)


def final_table(runs: RunSet) -> Markup:
    """Return run and learner × final values."""
    metrics = [metric for metric in formatting.METRICS if runs.having(metric)]
    rows: list[list[str]] = []
    means = {}
    for run in runs.members:
        for name in run.data.learners:
            for x, metric in enumerate(metrics, 1):
                value = run.data.intervals(metric).get(name)
                if value and value.replicas and name not in run.data.choices:
                    means[len(rows), x] = value.mean
            rows.append([f"{run.letter} · {name}", *(run.data.cell(metric, name) for metric in metrics)])
    ends = sorted({run.data.tail[2] for run in runs.members if run.data.learners})
    when = f"round {ends[0]}" if len(ends) == 1 else "the last round of each run, which is not the same in all"
    caption = (
        f"Each value is the {statistics.FINAL[statistics.LAST_TENTH]} (up to {when}). Accuracies in percent. "
        f"{spread_sentence(runs)}Bold: the best mean of its column."
    )
    head = ["Run and learner", *(formatting.METRICS[metric] for metric in metrics)]
    return page.table(head, rows, caption, best_cells(means, metrics))


def difference_table(runs: RunSet) -> Iterator[Markup]:
    """Yield the differences of each learner's final values from those of the first run that has it."""
    metrics = [metric for metric in CONTEXTS if runs.having(metric)]
    rows = []
    for name in runs.learners:
        base, *others = [run for run in runs.members if name in run.data.learners]
        for run in others:
            paired = shared_rounds(run.data, base.data) > 0
            gaps = [final_difference(run.data, base.data, metric, name, paired=paired) for metric in metrics]
            number = len(set(run.data.replicas) & set(base.data.replicas))
            same_seed = run.data.run.manifest.get("seed") == base.data.run.manifest.get("seed")
            unpaired = "none: the same seed, another trace" if same_seed else "none: another seed"
            pairs = f"by replica ({number})" if paired else unpaired
            rows.append([f"{name}: {run.letter} − {base.letter}", *map(format_difference, gaps), pairs])
    if rows:
        caption = (
            "Final values of the same learner in two runs, their difference in percentage points, the later run less "
            "the first that has the learner; ± is the half width of the 95 % t interval, which takes two replicas: "
            "Student's t of the differences where runs share a trace, and replicas are pairs (their number in "
            "parentheses); else Welch's t, of independent means."
        )
        head = ["Difference", *(CONTEXTS[metric].partition(" ")[2].capitalize() for metric in metrics), "Pairs"]
        yield page.table(head, rows, caption)


def format_difference(gap: statistics.ConfidenceInterval) -> str:
    """Format a difference of shares in percentage points, with its interval."""
    if not gap.replicas:
        return "–"
    number = formatting.format_signed(100.0 * gap.mean)
    return number if gap.clear is None else f"{number} ± {100.0 * gap.half:.1f}"


def learning_curves(runs: RunSet) -> Iterator[Markup]:
    """Yield the curves of all runs, over rounds and each cost."""
    x_axes = [over for over in _X_AXES if any(over in run.data.x_axes for run in runs.members)]
    for metric in CONTEXTS:
        members = runs.having(metric)
        if not members:
            continue
        if sum(len(run.data.learners) for run in members) <= MAX_CURVES:
            yield _shared_panels(members, metric, x_axes)
        else:
            yield from (_panel_per_run(members, metric, over) for over in x_axes)


def _courses(members: list[NamedRun], metric: str, over: aggregates.Over) -> pd.DataFrame:
    tables = {
        run.letter: aggregates.with_cost(run.data.metrics, run.data.run.rounds)
        for run in members
        if over in run.data.x_axes
    }
    return comparison_plots.run_courses(tables, metric, over)


def _shared_panels(members: list[NamedRun], metric: str, x_axes: list[aggregates.Over]) -> Markup:
    """Return all curves in the same panels, one for each x axis."""
    learners = list(dict.fromkeys(name for run in members for name in run.data.learners))
    known = {(run.letter, name) for run in members for name in run.data.learners}
    styles = comparison_plots.run_styles([run.letter for run in members], learners)
    styles = {key: line for key, line in styles.items() if key in known}

    def paint(figure: Figure) -> None:
        row = figure.subplots(1, len(x_axes), squeeze=False, sharey=True)[0]
        for over, ax in zip(x_axes, row, strict=True):
            comparison_plots.run_curves(_courses(members, metric, over), metric, styles, over=over, ax=ax)
            ax.label_outer(remove_inner_ticks=False)
        lines = {f"{run} · {learner}": line for (run, learner), line in styles.items()}
        style.line_legend(figure, lines, loc="outside upper left", ncols=4, handlelength=3.6)

    caption = f"{_metric_sentence(metric)} Colours are learners, dashes are runs. {_band_sentence(members)}"
    return page.plot(paint, name=f"curves-{metric}", caption=caption, size=(9.6, 3.3))


def _panel_per_run(members: list[NamedRun], metric: str, over: aggregates.Over) -> Markup:
    table = _courses(members, metric, over)
    learners = list(dict.fromkeys(name for run in members for name in run.data.learners))
    lines = style.line_styles(learners)
    columns = 2 if len(members) == 4 else min(3, len(members))
    end = float(table["at"].max()) if len(table) else 0.0

    def paint(figure: Figure) -> None:
        cells = style.grid_axes(figure, len(members), columns, sharex=True, sharey=True)
        for index, (run, ax) in enumerate(zip(members, cells, strict=True)):
            styles = {(run.letter, name): lines[name] for name in run.data.learners}
            rows = table[table["run"] == run.letter]
            comparison_plots.run_curves(rows, metric, styles, over=over, end=end, ax=ax)
            ax.set_title(run.label)
            if index % columns:
                ax.set_ylabel("")
            if index + columns < len(members):
                ax.set_xlabel("")
            else:
                ax.tick_params(labelbottom=True)
        learning_plots.learner_legend(figure, learners, **LEARNER_LEGEND)

    caption = (
        f"{_metric_sentence(metric)} Over {_X_AXES[over]}; all panels have the same axes. {_band_sentence(members)}"
    )
    size = (9.6, 0.6 + 2.3 * -(-len(members) // columns))
    return page.plot(paint, name=f"curves-{metric}-{over}", caption=caption, size=size)


def _metric_sentence(metric: str) -> str:
    return "Accuracy on the test set, all classes." if metric == "accuracy" else "Accuracy on the rare classes."


def _band_sentence(members: list[NamedRun]) -> str:
    has_bands = any(len(run.data.replicas) > 1 for run in members)
    bands = "Lines: means over replicas; bands: their 95 % t-intervals."
    bands = bands if has_bands else "One replica each: there is no band."
    return f"{bands} A curve that swings is drawn as the mean of its last few evaluations."


def access_sections(runs: RunSet) -> Iterator[Section]:
    """Yield participation, diagnoses, outcomes and delays of the runs that have tables of them."""
    members = [run for run in runs.members if len(run.data.run.rounds) and run.data.duration_s is None]
    if members:
        yield Section("heard", "Participation", tuple(participation(members)))
        yield Section("verdicts", "Selection process", (diagnoses(members),))
    shares = tuple(outcomes(members))
    if shares:
        yield Section("fate-shares", "Outcomes of updates", shares)
    times = (*delays(members), *delay_table(runs))
    if times:
        yield Section("delays", "Delays", times)


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
    rates = {run.letter: participation_rates(run) for run in members}
    table = pd.DataFrame(rates).T.sort_index(axis="columns")
    has_heat = 0 < len(table.columns) <= MAX_HEAT_USERS

    def paint(figure: Figure) -> None:
        row = figure.subplots(1, 2 if has_heat else 1, squeeze=False)[0]
        comparison_plots.rank_curves(rates, ax=row[0])
        labels = [run.label for run in members] if len(members) < 5 else list(rates)
        style.add_legend(row[0], row[0].get_lines(), labels, loc="upper right")
        if has_heat:
            comparison_plots.rate_heat(table, ax=row[1])

    right = " Right: user by user; users of the same number are the same only where seed and users are."
    caption = (
        "The share of rounds in which each user's update counted, mean over replicas. Left: by rank."
        f"{right if has_heat else ''}"
    )
    yield page.plot(paint, name="heard", caption=caption, size=(9.6, 2.7 + 0.1 * len(members)))
    rows = []
    for run in members:
        data, shares = run.data, rates[run.letter]
        never = int((data.first_users["delivered"] == 0).sum())
        rare = data.users.loc[data.users["rare"], "delivered"].sum() / max(1, data.users["delivered"].sum())
        rows.append(
            [
                run.label,
                *(percent(share) for share in (shares.max(), shares.median(), shares.min())),
                f"{never} of {len(data.first_users)}",
                f"{data.users.groupby('replica')['delivered'].apply(jain).mean():.3f}",
                percent(float(rare)) if data.users["rare"].any() else "–",
            ]
        )
    head = ["Run", "Highest rate", "Median", "Lowest rate", "No delivery", "Jain index", "From rare users"]
    caption = (
        "Participation rates of users: the share of rounds with a delivery. No delivery: in the first replica. From "
        "rare users: the share of delivered updates that came from users with rare classes."
    )
    yield page.table(head, rows, caption)


def diagnoses(members: list[NamedRun]) -> Markup:
    """Return the diagnosis of each selection process."""
    rows = []
    for run in members:
        try:
            result = diagnosis.diagnose(participation_of_run(run.data.run, run.data.first))
            rows.append([run.label, result.verdict, result.sentence])
        except ScenarioError as error:
            rows.append([run.label, "–", f"It cannot be asked: {error.faults[0].problem}."])
    caption = "As netfl ram has it, of the first replica of each run."
    return page.table(["Run", "Selection", "In words"], rows, caption)


def outcomes(members: list[NamedRun]) -> Iterator[Markup]:
    """Yield the shares of outcomes in each run."""
    known = [run for run in members if len(run.data.fates)]
    if not known:
        return
    shares = pd.DataFrame({run.letter: run.data.fates["fate"].value_counts(normalize=True) for run in known})
    shares = shares.T.fillna(0.0)
    shares = shares[[name for name in FATES if name in shares]]

    def paint(figure: Figure) -> None:
        comparison_plots.outcome_bars(shares, ax=figure.add_subplot())

    missing = [run.letter for run in members if run not in known]
    few = f" Not recorded in {join_words(missing)}." if missing else ""
    caption = f"Outcomes of the updates of all replicas, in shares.{few}"
    yield page.plot(paint, name="fates", caption=caption, size=(9.6, 1.3 + 0.34 * len(shares)))
    rows = [[run.label, *map(percent, shares.loc[run.letter])] for run in known]
    yield page.table(["Run", *(str(name).replace("_", " ") for name in shares)], rows)


def delays(members: list[NamedRun]) -> Iterator[Markup]:
    """Yield the distribution of delays in each run."""
    parts = {
        run.letter: aggregates.delays(run.data.run.deliveries, run.data.run.rounds)["delay_s"]
        for run in members
        if len(run.data.run.deliveries)
    }
    if not parts:
        return
    styles = style.line_styles([run.letter for run in members])

    def paint(figure: Figure) -> None:
        latency_plots.distributions(parts, styles=styles, ax=figure.add_subplot())

    caption = (
        "The share of the updates that counted which took at most so long, from the opening of their round, when its "
        "broadcast begins, to their arrival; all replicas."
    )
    yield page.plot(paint, name="delays", caption=caption, size=(7.2, 3.2))


def delay_table(runs: RunSet) -> Iterator[Markup]:
    """Yield delays and costs of rounds, with 95 % t-intervals over replicas."""
    columns = [name for name in _DELAYS if any(name in run.data.run.summary for run in runs.members)]
    if not columns:
        return
    rows = []
    for run in runs.members:
        summary, cells = run.data.run.summary, []
        for name in columns:
            half = summary.get(name + statistics.HALF)
            number, spread, unit = formatting.format_parts(name, summary.get(name), half, _middle(runs, name))
            cells.append(f"{number} {unit}".strip() + (f" ± {spread} {unit}".rstrip() if spread else ""))
        rows.append([run.label, *cells])
    caption = f"Means over replicas. {spread_sentence(runs)}–: the run has no such figure."
    yield page.table(["Run", *(_DELAYS[name] for name in columns)], rows, caption)


def _middle(runs: RunSet, name: str) -> float | None:
    """Return the median of a metric over the runs, which determines the unit of all."""
    values = [run.data.run.summary.get(name) for run in runs.members]
    known = [value for value in values if isinstance(value, int | float)]
    return float(np.median(known)) if known else None
