"""Terminal view of a loss attribution: the deliveries that each cause cost each user."""

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
"""The table shows shares on terminals of at least this width."""


def explain_with_progress(
    run: Run | None, users: Sequence[int] | None, rare: int, replica: int | None
) -> LossAttribution:
    """Explain one replica of a run, by default all together, and print the progress.

    Args:
        run: the run; ``None`` for a table, which cannot be explained.
        users: the users to explain; by default the *rare* users with the fewest deliveries.
        rare: their number.
        replica: the replica to explain.

    Raises:
        ScenarioError: there is no run, or the run has nothing to explain.
    """
    if run is None:
        problem, remedy = "a table of deliveries has no network that could be played again", "name a run directory"
        raise ScenarioError([Fault("--explain", problem, None, remedy)])
    console, start_s = Console(stderr=True, markup=False, highlight=False), time.monotonic()
    with console.status("") as status:

        def show_progress(done: int, plays: int, description: str) -> None:
            if not done:
                each = "; then for each user without each cause, and without all" if plays > 1 else ""
                console.print(f"playing the network {plays} times: once as it was{each}")
                left = ""
            else:
                left = f", about {clock((time.monotonic() - start_s) / done * (plays - done))} left"
            status.update(f"play {done + 1} of {plays}: {description}{left}")

        return explain(run, users, rare=rare, replica=replica, on_progress=show_progress)


def print_attribution(result: LossAttribution, console: Console | None = None) -> None:
    """Print a loss attribution on *console* or the terminal."""
    console = console or Console(markup=False, highlight=False)
    for note in result.notes:
        console.print(note, style="dim")
    console.print(_table(result, console.width))
    for user in result.users:
        console.print(Text(f"{user.sentence[:1].upper()}{user.sentence[1:]}."))
        console.print(Text(f"  {_outcomes(user)}", style="dim"))
    if result.inactive:
        console.print("Not at work: " + "; ".join(f"{cause} ({why})" for cause, why in result.inactive.items()) + ".")


def _table(result: LossAttribution, width: int) -> Table:
    rounds = result.users[0].rounds if result.users else 0
    title = f"deliveries in {rounds} rounds, had it alone been spared"
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title=title, title_justify="left")
    for name in ("user", "delivered", "fair", *result.causes, "all"):
        table.add_column(name, justify="left" if name == "user" else "right", no_wrap=True)
    for user in result.users:
        cells = [_cell(user, cause, width) for cause in result.causes]
        table.add_row(str(user.user), str(user.deliveries), f"{user.fair:.3g}", *cells, str(user.without_all))
    if width >= _WIDE:
        table.caption = "In brackets: the cause's share of the gains of all causes that cost more than chance explains."
        table.caption_justify = "left"
    return table


def _cell(user: UserAttribution, cause: str, width: int) -> Text:
    share = f" ({100 * user.shares[cause]:.0f} %)" if width >= _WIDE and cause in user.named else ""
    return Text(f"{user.without[cause]}{share}", style="bold" if cause == user.main else "")


def _outcomes(user: UserAttribution) -> str:
    text = f"its updates: {_counts(user.outcomes)}"
    if user.failed:
        text += f"; failed attempts, without those of updates superseded on the air: {_counts(user.failed)}"
    if (training := user.training) is not None:
        text += f"; trainings finished: {training.finished} of {training.begun}, {clock(training.train_s)} each"
        text += f"; rounds are open for {clock(training.round_s)} (median)"
    return text


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in counts.items()) or "none"
