"""Terminal view of an explanation of missing deliveries."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from netfl.cli.views import new_table
from netfl.core.screen import open_console
from netfl.diagnosis.explanation import Explanation, UserExplanation, explain
from netfl.diagnosis.explanation.gains import Gain
from netfl.results.formatting import clock
from netfl.results.run_reader import Run

_LINE_S = 10.0
"""Least seconds between two lines of progress where no line can be updated, as in a pipe."""
_FIRST_WIDTH = 15
_COLUMN_WIDTH = 14
"""Characters of the first column of a table, and of each other, such as 1500 ± 1000 and a gap."""


def explain_with_progress(run: Run, users: Sequence[int] | None, rare: int, replica: int | None) -> Explanation:
    """Explain one replica of a run, by default all together, and print the progress.

    Args:
        run: the run.
        users: the users to explain; by default the *rare* users with the fewest deliveries.
        rare: their number.
        replica: the replica to explain.

    Raises:
        ScenarioError: the run has nothing to explain.
    """
    console = open_console(stderr=True)
    start_s = time.monotonic()
    shown_s = start_s
    with console.status("") as status:

        def show_progress(done: int, expected: int, name: str) -> None:
            nonlocal shown_s
            now_s = time.monotonic()
            left = ""
            if done:
                left_s = (now_s - start_s) / done * (expected - done)
                left = f", about {clock(left_s)} left"
            text = f"replay {done + 1} of about {expected}: {name}{left}"
            if console.is_terminal:
                status.update(text)
            elif not done or now_s - shown_s >= _LINE_S:
                console.print(text)
                shown_s = now_s

        return explain(run, users, rare=rare, replica=replica, on_progress=show_progress)


def print_explanation(result: Explanation, console: Console | None = None) -> None:
    """Print an explanation on *console* or the terminal."""
    console = console or open_console()
    for note in result.notes:
        console.print(note, style="dim")
    replayed = [user for user in result.users if user.gains]
    across = max(1, (console.width - _FIRST_WIDTH) // _COLUMN_WIDTH)
    for first in range(0, len(replayed), across):
        console.print(_gains_table(result, replayed[first : first + across]))
    for user in result.users:
        console.print(Text(f"{user.sentence[:1].upper()}{user.sentence[1:]}."))
        console.print(Text(f"  {_facts(user)}", style="dim"))
    if result.inactive:
        reasons = "; ".join(f"{cause} ({reason})" for cause, reason in result.inactive.items())
        console.print(f"Inactive: {reasons}.")


def _gains_table(result: Explanation, users: Sequence[UserExplanation]) -> Table:
    """Return the deliveries without each cause, a row for each cause and a column for each of *users*."""
    names = [f"user {user.user}" for user in users]
    table = new_table(
        "without",
        *names,
        pad_edge=False,
        title="updates delivered, without one cause for one user",
        title_justify="left",
        caption="±: 95 % interval of the gain; bold: a named cause; –: cannot concern this user",
        caption_justify="left",
    )
    table.add_row("(as it is)", *(str(user.deliveries) for user in users))
    for cause in result.causes:
        gains = [user.gains.get(cause) for user in users]
        if any(gain is not None for gain in gains):
            is_named = [cause in user.named for user in users]
            table.add_row(result.words.get(cause, cause), *map(_gain_cell, gains, is_named))
    if any(len(user.gains) > 1 for user in users):
        table.add_row("all of these", *(_gain_cell(user.together, False) for user in users))
    return table


def _gain_cell(gain: Gain | None, is_named: bool) -> Text:
    if gain is None:
        return Text("–")
    margin = ""
    if math.isfinite(gain.high):
        margin = f" ± {(gain.high - gain.low) / 2:.0f}"
    return Text(f"{gain.after}{margin}", style="bold" if is_named else "")


def _facts(user: UserExplanation) -> str:
    """Return what happened to the updates of *user*, in words."""
    facts = [f"its updates: {_counts(user.outcomes)}"]
    if user.failed:
        facts.append(f"failed attempts, except those that a newer version cut short: {_counts(user.failed)}")
    bound = user.least_time
    if bound is not None:
        facts.append(f"trainings finished: {bound.finished} of {bound.trainings}, {clock(bound.train_s)} each")
        facts.append(f"the longest round lasts {clock(bound.round_s)}")
    return "; ".join(facts)


def _counts(counts: Mapping[str, int]) -> str:
    if not counts:
        return "none"
    return ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in counts.items())
