"""Terminal view of an explanation of missing deliveries."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from netfl.cli.views import new_table
from netfl.diagnosis.explanation import Explanation, UserExplanation, explain
from netfl.errors import Fault, ScenarioError
from netfl.results.formatting import clock
from netfl.results.run_reader import Run
from netfl.screen import open_console

_LINE_S = 10.0
"""Least seconds between two lines of progress where no line can be updated, as in a pipe."""
_WIDE = 100
"""The table shows intervals on terminals of at least this width."""


def explain_with_progress(run: Run | None, users: Sequence[int] | None, rare: int, replica: int | None) -> Explanation:
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
        problem = "a table of deliveries has no network to replay"
        raise ScenarioError([Fault("--explain", problem, None, "name a run directory")])
    console = open_console(stderr=True)
    start_s = time.monotonic()
    shown_s = start_s
    with console.status("") as status:

        def show_progress(done: int, expected: int, name: str) -> None:
            nonlocal shown_s
            now_s = time.monotonic()
            left = ""
            if done:
                left = f", about {clock((now_s - start_s) / done * (expected - done))} left"
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
    if any(user.gains for user in result.users):
        console.print(_gains_table(result, console.width))
    for user in result.users:
        console.print(Text(f"{user.sentence[:1].upper()}{user.sentence[1:]}."))
        console.print(Text(f"  {_facts(user)}", style="dim"))
    if result.inactive:
        reasons = "; ".join(f"{cause} ({reason})" for cause, reason in result.inactive.items())
        console.print(f"Inactive: {reasons}.")


def _gains_table(result: Explanation, width: int) -> Table:
    """Return the deliveries without each cause, of the users whose causes were replayed."""
    explained = [user for user in result.users if user.gains]
    causes = [cause for cause in result.causes if any(cause in user.gains for user in explained)]
    table = new_table(
        *("user", "delivered", *causes, "all"),
        pad_edge=False,
        title="delivered without one cause for this user",
        title_justify="left",
        caption_justify="left",
    )
    for user in explained:
        cells = []
        for cause in causes:
            gain = user.gains.get(cause)
            if gain is None:
                cells.append(Text("–"))
                continue
            margin = f" ± {(gain.high - gain.low) / 2:.0f}" if width >= _WIDE else ""
            cells.append(Text(f"{gain.after}{margin}", style="bold" if cause in user.named else ""))
        together = "–" if user.together is None else str(user.together.after)
        table.add_row(str(user.user), str(user.deliveries), *cells, together)
    table.caption = "bold: a cause that is named; –: it cannot concern this user"
    if width >= _WIDE:
        table.caption = f"{table.caption}; ±: the 95 % interval of the gain"
    return table


def _facts(user: UserExplanation) -> str:
    """Return what happened to the updates of *user*, in words."""
    facts = [f"its updates: {_counts(user.outcomes)}"]
    if user.failed:
        facts.append(f"failed attempts, without those of updates superseded on the air: {_counts(user.failed)}")
    least = user.least_time
    if least is not None:
        facts.append(f"trainings finished: {least.finished} of {least.trainings}, {clock(least.train_s)} each")
        facts.append(f"the longest round lasts {clock(least.round_s)}")
    return "; ".join(facts)


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in counts.items()) or "none"
