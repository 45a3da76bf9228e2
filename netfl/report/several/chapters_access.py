"""The chapters on who was heard in each run, what became of updates, how long they took, and what the RAMs are."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from netfl import diagnosis
from netfl.diagnosis.reading import participation_of_run
from netfl.errors import ScenarioError
from netfl.network.counters import jain
from netfl.report import canvas, markup, phrases, plots_waits, waits
from netfl.report.markup import Chapter
from netfl.report.several import plots
from netfl.report.several.cast import NamedRun, RunSet
from netfl.report.several.words import spread_sentence
from netfl.results import formatting, statistics
from netfl.types import FATES

MOST = 400
"""Of more users there is no heat map."""

DELAYS = {
    "delay_mean_s": "Mean delay",
    "delay_p50_s": "Median",
    "delay_p95_s": "95 % within",
    "delay_p99_s": "99 % within",
}
COSTS = {"rounds_per_hour": "Rounds per hour", "attempts_mean": "Attempts each", "uplink_bits": "Sent up"}
"""Figures that stand in the table of delays, and what they are called."""


def chapters(cast: RunSet) -> Iterator[Chapter]:
    """All chapters on the access that any run has tables for."""
    members = [one for one in cast.members if len(one.view.run.rounds) and one.view.duration_s is None]
    if members:
        yield Chapter("heard", "Who was heard", tuple(heard(members)))
        yield Chapter("verdicts", "What kind of selection it is", (verdicts(members),))
    fates = tuple(ends(members))
    if fates:
        yield Chapter("fate-shares", "What became of updates", fates)
    times = (*delays(members), *delay_table(cast))
    if times:
        yield Chapter("delays", "Delays", times)


def rates(one: NamedRun) -> pd.Series[float]:
    """The share of rounds in which each user was heard, mean over replicas, by user."""
    length = one.view.run.rounds.groupby("replica").size()
    heard = one.view.run.deliveries.drop_duplicates(["replica", "round", "user"])
    own = pd.MultiIndex.from_frame(one.view.users[["replica", "user"]])
    counts = heard.groupby(["replica", "user"]).size().reindex(own, fill_value=0)
    found: pd.Series[float] = counts.div(length, level="replica").groupby(level="user").mean()
    return found


def heard(members: list[NamedRun]) -> Iterator[str]:
    """How often each user was heard in each run."""
    by = {one.letter: rates(one) for one in members}
    table = pd.DataFrame(by).T.sort_index(axis="columns")
    heat = 0 < len(table.columns) <= MOST

    def paint(figure: Figure) -> None:
        row = figure.subplots(1, 2 if heat else 1, squeeze=False)[0]
        plots.rates(by, ax=row[0])
        lines = row[0].get_lines()
        canvas.legend(
            row[0], lines, [one.label for one in members] if len(members) < 5 else list(by), loc="upper right"
        )
        if heat:
            plots.rate_heat(table.to_numpy(float), list(by), ax=row[1])

    right = " Right: user by user; users of the same number are the same only where seed and users are." if heat else ""
    caption = f"The share of rounds in which each user's update counted, mean over replicas. Left: by rank.{right}"
    yield markup.figure(paint, name="heard", caption=caption, size=(9.6, 2.7 + 0.1 * len(members)))
    rows = []
    for one in members:
        view, own = one.view, by[one.letter]
        never = int((view.one["heard"] == 0).sum())
        rare = view.users.loc[view.users["rare"], "heard"].sum() / max(1, view.users["heard"].sum())
        evenness = view.users.groupby("replica")["heard"].apply(jain)
        rows.append(
            [
                one.label,
                *(phrases.percent(share) for share in (own.max(), own.median(), own.min())),
                f"{never} of {len(view.one)}",
                f"{evenness.mean():.3f}",
                phrases.percent(float(rare)) if view.users["rare"].any() else "–",
            ]
        )
    head = ["Run", "Most heard", "Median", "Least heard", "Never heard", "Jain index", "From rare users"]
    caption = (
        "Of users, the share of rounds in which they were heard; never heard: of the first replica; from rare users: "
        "the share of the updates that counted which came from users with rare classes."
    )
    yield markup.table(head, rows, caption)


def verdicts(members: list[NamedRun]) -> str:
    """The verdict on each selection."""
    rows = []
    for one in members:
        try:
            found = diagnosis.diagnose(participation_of_run(one.view.run, one.view.first))
            rows.append([one.label, found.verdict, found.sentence])
        except ScenarioError as error:
            rows.append([one.label, "–", f"It cannot be asked: {error.faults[0].problem}."])
    caption = "As netfl ram has it, of the first replica of each run."
    return markup.table(["Run", "Selection", "In words"], rows, caption)


def ends(members: list[NamedRun]) -> Iterator[str]:
    """The shares of fates in each run."""
    known = {one.letter: one.view.fates["fate"].value_counts(normalize=True) for one in members if len(one.view.fates)}
    if not known:
        return
    shares = pd.DataFrame(known).T.fillna(0.0)
    shares = shares[[fate for fate in FATES if fate in shares]]

    def paint(figure: Figure) -> None:
        plots.fate_bars(shares, ax=figure.add_subplot())

    lacking = [one.letter for one in members if one.letter not in known]
    few = f" Not recorded in {phrases.join_words(lacking)}." if lacking else ""
    caption = f"What became of the updates of all replicas, in shares.{few}"
    yield markup.figure(paint, name="fates", caption=caption, size=(9.6, 1.3 + 0.34 * len(shares)))
    labels = {one.letter: one.label for one in members}
    rows = [
        [labels[str(run)], *(phrases.percent(share) for share in row)]
        for run, row in zip(shares.index, shares.to_numpy(), strict=True)
    ]
    yield markup.table(["Run", *(str(fate).replace("_", " ") for fate in shares)], rows)


def delays(members: list[NamedRun]) -> Iterator[str]:
    """How delays are distributed in each run."""
    parts = {}
    for one in members:
        if len(one.view.run.deliveries):
            parts[one.letter] = waits.delays(one.view.run.deliveries, one.view.run.rounds)["delay_s"]
    if not parts:
        return

    def paint(figure: Figure) -> None:
        plots_waits.distributions(
            parts, strokes=canvas.line_styles([one.letter for one in members]), ax=figure.add_subplot()
        )

    caption = (
        "The share of the updates that counted which took at most so long, from the opening of their round, when its "
        "broadcast begins, to their arrival; all replicas."
    )
    yield markup.figure(paint, name="delays", caption=caption, size=(7.2, 3.2))


def delay_table(cast: RunSet) -> Iterator[str]:
    """Delays, and what rounds cost, with 95 % t-intervals where there are replicas."""
    wanted = DELAYS | COSTS
    columns = [name for name in wanted if any(name in one.view.run.summary for one in cast.members)]
    if not columns:
        return
    like = {name: _scale(cast, name) for name in columns}
    rows = []
    for one in cast.members:
        summary, cells = one.view.run.summary, []
        for name in columns:
            number, half, unit = formatting.format_parts(
                name, summary.get(name), summary.get(name + statistics.HALF), like[name]
            )
            cells.append(f"{number} {unit}".strip() + (f" ± {half} {unit}".rstrip() if half else ""))
        rows.append([one.label, *cells])
    caption = f"Means over replicas. {spread_sentence(cast)}–: the run has no such figure."
    yield markup.table(["Run", *(wanted[name] for name in columns)], rows, caption)


def _scale(cast: RunSet, name: str) -> float | None:
    """The middle of a figure over the runs, whose unit all get."""
    known = [value for one in cast.members if isinstance(value := one.view.run.summary.get(name), int | float)]
    return float(np.median(known)) if known else None
