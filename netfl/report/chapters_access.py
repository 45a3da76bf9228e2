"""The chapters on who was heard, what became of updates, and who was cut off."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from numpy.typing import NDArray

from netfl.diagnosis.text import format_p_value
from netfl.report import canvas, chapters_waits, markup, phrases, plots_access, plots_network, tallies, words
from netfl.report.markup import Chapter
from netfl.report.view import RunData
from netfl.types import FATES

MANY = 60
"""More users than this are not all shown in the timeline of outages."""


def chapters(view: RunData) -> Iterator[Chapter]:
    """All chapters on the access that the run has tables for."""
    if view.run.rounds.empty:
        return
    if view.duration_s is None:
        yield Chapter("heard", "Who was heard", (participation_section(view), participation(view), *selection(view)))
        yield Chapter("fates", "What became of updates", tuple(fates(view)))
    yield from chapters_waits.chapters(view)
    cut_off = tuple(outages(view))
    parts = (*cut_off, *user_maps(view), *left_out(view))
    if parts:
        yield Chapter("network", "Who was cut off, when and where" if cut_off else "Where everybody stands", parts)


def participation_section(view: RunData) -> str:
    """How often each user was heard, by rank and, where there are places, by distance."""
    far = "distance_m" in view.one and view.one["distance_m"].notna().all()

    def paint(figure: Figure) -> None:
        row = figure.subplots(1, 2 if far else 1, squeeze=False, sharey=True)[0]
        for by, ax in zip(("heard", "distance_m"), row, strict=False):
            plots_access.heard(view.one, by=by, ax=ax)
            ax.label_outer(remove_inner_ticks=False)
        if far:
            canvas.without_legend(row[1])

    side = " Left sorted by that figure, right by the distance to the user's tower." if far else ""
    rounds = phrases.format_count(view.rounds)
    few = _few(tallies.sample_users(view.one, plots_access.MOST)[1])
    caption = f"How often each user's update counted, in {rounds} rounds.{side} A cross: never.{few}{view.which}"
    return markup.figure(paint, name="heard", caption=caption, size=(9.6, 2.9))


def participation(view: RunData) -> str:
    """User × round."""
    users, few = tallies.sample_users(view.one, plots_access.MOST)
    deliveries = view.run.deliveries
    share = tallies.delivery_shares(deliveries[deliveries["replica"] == view.first], users["user"], view.rounds)

    def paint(figure: Figure) -> None:
        plots_access.participation(
            share,
            users["user"].astype(str).tolist(),
            view.rounds,
            rare=users["rare"].tolist(),
            few=few and f"{len(users):,} of {len(view.one):,}",
            ax=figure.add_subplot(),
        )

    rare = " In orange: users that hold a rare class." if users["rare"].any() else ""
    caption = f"When each user was heard, from the most often heard (top) to the least.{_few(few)}{rare}{view.which}"
    return markup.figure(paint, name="rounds", caption=caption, size=(9.6, min(6.0, 1.2 + 0.13 * len(users))))


def _few(remark: str) -> str:
    """A sentence, after a space, on users who are not all drawn; nothing where they are."""
    return f" Drawn are {remark}." if remark else ""


def selection(view: RunData) -> Iterator[str]:
    """What kind of process being heard is, and the tests behind that; nothing where that cannot be asked."""
    found = view.selection
    if found is None:
        return
    rows = [[test.question, format_p_value(test.p), test.answer] for test in found.tests if test.decides]
    yield markup.table(["Question", "p", "Answer"], rows, " ".join([found.sentence, *found.notes]) + view.which)


def fates(view: RunData) -> Iterator[str]:
    """How updates ended and why attempts failed, over the rounds and in total."""
    if view.fates.empty:
        yield markup.paragraph(["No fates of updates were recorded in this run."], "note")
        return
    tables = {"updates": view.fates, "failed attempts": view.failures}
    shown = {name: table for name, table in tables.items() if len(table)}

    def paint(figure: Figure) -> None:
        column = figure.subplots(len(shown), 1, squeeze=False, sharex=True)[:, 0]
        for (name, rows), ax in zip(shown.items(), column, strict=True):
            binned = tallies.outcome_bins(rows, view.rounds, len(view.replicas))
            plots_access.fate_areas(binned, ax=ax)
            ax.set_ylabel(f"{name} per round")
            ax.label_outer(remove_inner_ticks=False)

    second = (
        " Below: failed attempts by cause, without those of updates superseded on the air; one update may fail often."
        if len(shown) > 1
        else ""
    )
    caption = f"How updates ended, per round, mean over replicas.{second}{phrases.thinning_sentence(view.run.manifest)}"
    yield markup.figure(paint, name="fates", caption=caption, size=(9.6, 0.5 + 2.2 * len(shown)))
    yield outcome_totals(view)


def outcome_totals(view: RunData) -> str:
    """Each fate's total, and the causes of failed attempts."""
    counts = view.fates["fate"].value_counts()
    causes = view.failures["fate"].value_counts()
    rows = [
        [
            fate.replace("_", " "),
            phrases.format_count(int(counts[fate])),
            phrases.percent(counts[fate] / counts.sum()),
            words.MEANINGS[fate],
        ]
        for fate in FATES
        if fate in counts
    ]
    told = [f"{phrases.format_count(int(number))} {cause}" for cause, number in causes.items()]
    failed = f" Failed attempts, without those of updates superseded on the air: {', '.join(told)}." if told else ""
    left = phrases.thinning_sentence(view.run.manifest)
    which = "Recorded were" if left else "All"
    caption = (
        f"{which} {phrases.format_count(int(counts.sum()))} updates of {phrases.replicas(len(view.replicas))}.{failed}"
    )
    caption += left
    return markup.table(["Fate", "Updates", "Share", "What it means"], rows, caption)


def outages(view: RunData) -> Iterator[str]:
    """A timeline of who was down, and of who was heard."""
    if view.outages.empty:
        return
    rows, users = _rows(view)
    own = view.outages.merge(rows, on=["user", "node"])
    people = rows.loc[rows["user"] >= 0, ["user", "row"]]
    cut = view.tower_outages.merge(people, on="user")
    deliveries = view.run.deliveries
    heard = deliveries[deliveries["replica"] == view.first].merge(people, on="user")
    labels, rare = rows["label"].tolist(), rows["rare"].tolist()

    def paint(figure: Figure) -> None:
        ax = figure.add_subplot()
        plots_network.outage_lines(own, cut, heard, labels=labels, rare=rare, end_s=view.end_s, ax=ax)

    order = ", by their tower" if users["tower"].any() else ""
    few = f" Of {len(view.one)} users the {len(users)} least heard are shown." if len(users) < len(view.one) else ""
    bold = " Users that hold a rare class are in bold orange." if users["rare"].any() else ""
    caption = f"Who was cut off, when. Towers and routers first, then users{order}.{bold}{few}{view.which}"
    yield markup.figure(paint, name="outages", caption=caption, size=(9.6, 1.2 + 0.145 * len(rows)))
    head = ["Who", "Outages", "Time down", "Share of the run"]
    yield markup.table(head, _downtime(view.outages, view.end_s), "What was down, longest first.")


def _rows(view: RunData) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The rows of the timeline (user, node, label, rare, row), and the users among them with their tower."""
    users = view.one.assign(tower=view.towers)
    if len(users) > MANY:
        users = users.sort_values(["rare", "heard"], ascending=[False, True]).head(MANY)
    users = users.sort_values(["tower", "heard"], ascending=[True, False])
    nodes = sorted(set(view.outages["node"]) - {""})
    rows = pd.DataFrame(
        {
            "user": [-1] * len(nodes) + users["user"].tolist(),
            "node": nodes + [""] * len(users),
            "rare": [False] * len(nodes) + users["rare"].tolist(),
        }
    )
    return rows.assign(row=np.arange(len(rows)), label=_names(rows)), users


def _names(rows: pd.DataFrame) -> NDArray[np.object_]:
    """What each user or node is called."""
    return np.where(rows["user"] < 0, rows["node"].str.replace(":", " "), "user " + rows["user"].astype(str))


def _downtime(down: pd.DataFrame, end_s: float, most: int = 8) -> list[list[str]]:
    """Who was down how often and for how long."""
    length = (
        (down["to_s"] - down["from_s"]).groupby(_names(down)).agg(["size", "sum"]).sort_values("sum", ascending=False)
    )
    return [
        [
            str(name),
            phrases.format_count(int(row["size"])),
            phrases.format_duration(row["sum"]),
            phrases.percent(row["sum"] / max(end_s, 1e-9)),
        ]
        for name, row in length.head(most).iterrows()
    ]


def left_out(view: RunData) -> Iterator[str]:
    """Where to read what a simulated network does not model."""
    if len(view.nodes):
        sentences = [
            "What the network leaves out, such as signal delays, handover and, by default, losses on the way down:"
        ]
        yield markup.paragraph([*sentences, 'see "What is not modelled", docs/not_modelled.md of netfl.'], "note")


def user_maps(view: RunData) -> Iterator[str]:
    """Where users stand: how often each was heard, and how well each learner serves it."""
    if not view.placed:
        return
    accuracy = view.accuracy[view.accuracy["replica"] == view.first]
    named = [name for name in view.learners if (accuracy["learner"] == name).any()][:2]
    if view.one["heard"].any() or view.duration_s is None:
        panels = [("heard", "times heard" if view.duration_s is None else "packets delivered", view.one)]
    else:
        panels = [("distance_m", "distance to the tower (m)", view.one)]
    for name in named:
        rows = accuracy[accuracy["learner"] == name].assign(percent=lambda table: 100 * table["value"])
        panels.append(("percent", f"accuracy of {name} (%)", view.one.merge(rows[["user", "percent"]], on="user")))

    nodes = view.nodes if len(view.nodes) else None
    few = _few(tallies.sample_users(view.one, plots_access.MOST)[1])
    panels = [(value, what, tallies.sample_users(users, plots_access.MOST)[0]) for value, what, users in panels]

    def paint(figure: Figure) -> None:
        row = figure.subplots(1, len(panels), squeeze=False)[0]
        for index, ((value, caption, users), ax) in enumerate(zip(panels, row, strict=True)):
            plots_network.user_map(users, value, caption, nodes=nodes, ax=ax)
            if index:
                canvas.without_legend(ax).set_ylabel("")

    rare = " Orange rings: users that hold a rare class." if view.one["rare"].any() else ""
    served = " and by the accuracy that it ends with" if named else ""
    hue = "how often each was heard" if panels[0][0] == "heard" else "how far each is from its tower"
    caption = f"Where the users stand, coloured by {hue}{served}.{few}{rare}{view.which}"
    width = min(9.6, 3.6 * len(panels))
    yield markup.figure(paint, name="map", caption=caption, size=(width, 0.9 * width / len(panels) + 1.5))
