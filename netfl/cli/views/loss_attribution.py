"""The terminal's view of an explanation: the deliveries that each cause cost each user."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from netfl.diagnosis.loss_attribution import LossAttribution, UserAttribution, explain
from netfl.errors import Fault, ScenarioError
from netfl.results.formatting import clock
from netfl.results.run_reader import Run

_WIDE = 100
"""Columns from which on there is room for the shares."""


def explain_with_progress(
    run: Run | None, users: Sequence[int] | None, rare: int, replica: int | None
) -> LossAttribution:
    """Explain one replica of a run, by default all together; print what is played, and how much of it is left.

    Args:
        run: the run; ``None`` of a table.
        users: the users to explain; by default the *rare* users with the fewest deliveries.
        rare: how many these are.
        replica: which replica.

    Raises:
        ScenarioError: there is no run, or nothing to explain in it.
    """
    if run is None:
        problem, remedy = "a table of deliveries has no network that could be played again", "name a run directory"
        raise ScenarioError([Fault("--explain", problem, None, remedy)])
    console, began_s = Console(stderr=True, markup=False, highlight=False), time.monotonic()
    with console.status("") as status:

        def tell(done: int, plays: int, what: str) -> None:
            """Say at first how much there is to play; then what is played, and how long the rest takes."""
            if not done:
                each = "; then for each user without each cause, and without all" if plays > 1 else ""
                console.print(f"playing the network {plays} times: once as it was{each}")
                left = ""
            else:
                left = f", about {clock((time.monotonic() - began_s) / done * (plays - done))} left"
            status.update(f"play {done + 1} of {plays}: {what}{left}")

        return explain(run, users, rare=rare, replica=replica, on_progress=tell)


def print_attribution(found: LossAttribution, console: Console | None = None) -> None:
    """Print an explanation.

    Args:
        found: the explanation.
        console: where to; by default the terminal.
    """
    console = console or Console(markup=False, highlight=False)
    for note in found.notes:
        console.print(note, style="dim")
    console.print(_table(found, console.width))
    for one in found.users:
        console.print(Text(f"{_capital(one.sentence)}."))
        console.print(Text(f"  {_became(one)}", style="dim"))
    if found.inactive:
        console.print("Not at work: " + "; ".join(f"{cause} ({why})" for cause, why in found.inactive.items()) + ".")


def _table(found: LossAttribution, width: int) -> Table:
    """Deliveries without each cause, beside those that there were."""
    rounds = found.users[0].rounds if found.users else 0
    title = f"deliveries in {rounds} rounds, had it alone been spared"
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title=title, title_justify="left")
    for name in ("user", "delivered", "fair", *found.causes, "all"):
        table.add_column(name, justify="left" if name == "user" else "right", no_wrap=True)
    for one in found.users:
        cells = [_cell(one, cause, width) for cause in found.causes]
        table.add_row(str(one.user), str(one.deliveries), f"{one.fair:.3g}", *cells, str(one.without_all))
    if width >= _WIDE:
        table.caption = "In brackets: the cause's share of the gains of all causes that cost more than chance explains."
        table.caption_justify = "left"
    return table


def _cell(one: UserAttribution, cause: str, width: int) -> Text:
    """Deliveries without a cause, and its share where there is room."""
    share = f" ({100 * one.shares[cause]:.0f} %)" if width >= _WIDE and cause in one.named else ""
    return Text(f"{one.without[cause]}{share}", style="bold" if cause == one.main else "")


def _became(one: UserAttribution) -> str:
    """The outcomes of its updates, attempts and trainings."""
    told = f"its updates: {_counts(one.outcomes)}"
    if one.failed:
        told += f"; failed attempts, without those of updates superseded on the air: {_counts(one.failed)}"
    if (its := one.training) is not None:
        told += f"; trainings finished: {its.finished} of {its.begun}, {clock(its.train_s)} each"
        told += f"; rounds are open for {clock(its.round_s)} (median)"
    return told


def _counts(told: Mapping[str, int]) -> str:
    """Counts in words."""
    return ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in told.items()) or "none"


def _capital(text: str) -> str:
    """With a capital letter at the start."""
    return text[:1].upper() + text[1:]
