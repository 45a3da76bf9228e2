"""The chapter on delays, queues and utilisation."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd
from matplotlib.figure import Figure

from netfl.report import markup, phrases, plots_waits, waits, words
from netfl.report.markup import Chapter
from netfl.report.view import RunData
from netfl.results import formatting, statistics

PARTS = {
    "delay_s": "from opening to arrival",
    "before_s": "until its first attempt",
    "way_s": "from its first attempt on",
}
"""A delay and its parts, by the columns of `waits.delays`."""

MANY = 6
"""More queues than this are not all drawn, but stand in the table."""


def chapters(view: RunData) -> Iterator[Chapter]:
    """The chapter, where the run has tables for it."""
    parts = (*access_metrics(view), *delays(view), *traffic_delays(view), *queues(view), *utilization_table(view))
    if parts:
        yield Chapter("network-figures", "Delays, queues and utilisation", parts)


def access_metrics(view: RunData) -> Iterator[str]:
    """The figures of the access, with 95 % t-intervals where there are replicas."""
    summary, rows = view.run.summary, []
    if not view.own_figures:
        return
    for name, (number, spread, unit) in formatting.aligned(view.own_figures, summary).items():
        rows.append([formatting.metric_label(name), f"{number} {unit}" + (f" ± {spread} {unit}" if spread else "")])
    taken = statistics.mean_sentence(int(summary.get("replicas", 1)))
    if view.duration_s is None:
        taken += " A delay runs from the opening of a round, when its broadcast begins, to the arrival of an update."
    else:
        taken += f" Traffic was watched for {phrases.format_duration(view.duration_s)}{words.warmup(view)}."
    yield markup.table(["Figure", "Value"], rows, taken)


def delays(view: RunData) -> Iterator[str]:
    """How long updates took, of all, of each user, and how old what they started from was."""
    deliveries = view.run.deliveries
    if view.duration_s is not None or deliveries.empty:
        return
    table = waits.delays(deliveries, view.run.rounds)
    if table["delay_s"].nunique() < 2:
        return
    own, aged = table[table["replica"] == view.first], bool((table["age"] != 0).any())
    by = "distance_m" if "distance_m" in view.one and view.one["distance_m"].notna().all() else "heard"
    parts = {name: table[column].dropna() for column, name in PARTS.items()}

    def paint(figure: Figure) -> None:
        cells = figure.subplot_mosaic([["all", "ages" if aged else "all"], ["users", "users"]])
        plots_waits.distributions(parts, ax=cells["all"])
        plots_waits.user_delays(own, view.one, by=by, ax=cells["users"])
        if aged:
            plots_waits.ages(table["age"], ax=cells["ages"])

    ages = (
        " Right: how many versions behind the newest one, as their round opened, they had started from."
        if aged
        else " All of them started from the version that opened their round."
    )
    rare = " Orange: users that hold a rare class." if view.one["rare"].any() else ""
    caption = (
        f"How long the updates took that counted.{' Left:' if aged else ' Top:'} the share that took at most so long, "
        "from the opening of their round, when its broadcast begins, to their arrival; the parts of that before and "
        f"from the first attempt on are of updates that were begun in the same round.{ages} Below: each user's, boxes "
        f"over the middle half, whiskers over the middle 90 %, a bar at the median.{rare}{view.which}"
    )
    yield markup.figure(paint, name="delays", caption=caption, size=(9.6, 5.6))


def traffic_delays(view: RunData) -> Iterator[str]:
    """How long packets took, where traffic is watched and their arrivals were recorded."""
    events = view.run.events
    rows = events[events["kind"] == "delivered"]
    if view.duration_s is None or rows.empty:
        return
    late = rows["time_s"] >= float(view.run.scenario.get("warmup") or 0.0)

    def paint(figure: Figure) -> None:
        plots_waits.distributions({"": rows.loc[late, "value"]}, ax=figure.add_subplot())

    caption = "The share of packets that took at most so long, from their making to their arrival, after the warm-up."
    yield markup.figure(paint, name="delays", caption=caption, size=(6.4, 3.0))


def queues(view: RunData) -> Iterator[str]:
    """How long messages stayed in towers and routers, and how many these held over time."""
    rows = waits.node_delays(view.run.events)
    if rows.empty:
        if (view.nodes["role"] == "router").any():
            told = "How long messages stayed in towers and routers was not recorded; a scenario asks for it with"
            yield markup.paragraph([told, "'record: all', or with 'forwarded' among the kinds of events."], "note")
        return
    table = waits.queues(rows, float(view.ends_s.sum()))
    named = table["node"].tolist()[:MANY]
    own = rows[rows["replica"] == view.first]

    def paint(figure: Figure) -> None:
        left, right = figure.subplots(1, 2)
        stays = {node: rows.loc[rows["node"] == node, "stay_s"] for node in named}
        plots_waits.distributions(stays, xlabel="stay in the port", ax=left)
        plots_waits.plot_backlog(own, view.end_s, named, ax=right)

    few = f" The {MANY} that hold most are drawn." if len(named) < len(table) else ""
    caption = (
        "Towers and routers. Left: the share of the messages passed on that stayed at most so long, waiting and being "
        f"put on the link. Right: how many they held, on average over each 80th of the time.{few}{view.which}"
    )
    yield markup.figure(paint, name="queues", caption=caption, size=(9.6, 3.2))
    yield _queue_table(table, view.run.events)


def _queue_table(table: pd.DataFrame, events: pd.DataFrame) -> str:
    """Nodes × what they passed on, how long that took, and what they turned away."""
    away = events.loc[events["kind"] == "dropped", "node"].astype(str).value_counts()
    lines = [
        [
            str(row["node"]),
            phrases.format_count(int(row["passed"])),
            phrases.format_count(int(away.get(row["node"], 0))),
            *(formatting.format_metric(name, float(row[name])) for name in ("mean_s", "p95_s", "longest_s")),
            f"{row['held']:.3g}",
        ]
        for _, row in table.head(24).iterrows()
    ]
    head = ["Where", "Passed on", "Turned away", "Mean stay", "95 % within", "Longest", "Held on average"]
    caption = "Of all replicas; held on average: by Little's law, the sum of the stays over the time."
    return markup.table(head, lines, caption)


def utilization_table(view: RunData) -> Iterator[str]:
    """The share of the time that the air of each cell and each link was in use."""
    table = waits.utilisation(view.run.figures)
    if table.empty or not table["share"].notna().any():
        return
    number = min(24, table["part"].nunique())

    def paint(figure: Figure) -> None:
        plots_waits.utilisation(table, ax=figure.add_subplot())

    band = f" Lines: 95 % t-intervals over {len(view.replicas)} replicas." if len(view.replicas) > 1 else ""
    few = f" Of {table['part'].nunique()} the {number} busiest are shown." if table["part"].nunique() > number else ""
    caption = f"The share of the time that the air of each cell, and each link, was in use.{band}{few}"
    yield markup.figure(paint, name="utilisation", caption=caption, size=(7.2, 0.9 + 0.24 * number))
