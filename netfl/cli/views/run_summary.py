"""Terminal view of a finished run: its length, outcomes, metrics and learners' results."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from netfl.cli.views import print_columns
from netfl.core.screen import open_console
from netfl.results.formatting import (
    access_metrics,
    aligned,
    clock,
    format_count,
    is_variance,
    left_out_sentence,
    metric_head,
    metric_label,
)
from netfl.results.metrics import find_metric, with_reported
from netfl.results.payload import billing_note
from netfl.results.run_reader import Run
from netfl.results.statistics import FINAL, LAST_ROUND, LAST_TENTH, mean_sentence

_MANY = 6
"""The largest number of metrics shown of one family, such as the utilisation of each link."""


def show_run(run: Run, console: Console | None = None) -> None:
    """Print the summary of a run, finished or not, on *console* or the terminal.

    The last line, on its duration and its folder, is that of a finished run; the command states how another continues.
    """
    console = console or open_console()
    if run.summary:
        _print_outcomes(console, run.summary)
        _print_left_out(console, run)
        _print_codecs(console, run)
        _print_silence(console, run)
        with with_reported(run.reported):
            _show_metrics(console, run)
            _show_learners(console, run)
    if run.status == "done":
        console.print(f"done in {run.manifest['timings']['total_s']:.1f} s: {run.folder}", soft_wrap=True)


def _print_outcomes(console: Console, summary: dict[str, Any]) -> None:
    if "duration_s" in summary:
        lines = [f"{clock(summary['duration_s'])} simulated"]
        if "warmup_s" in summary:
            lines.append(f"the first {clock(summary['warmup_s'])} are warm-up and excluded from the metrics")
    else:
        outcomes = ", ".join(
            f"{format_count(count)} {key.removeprefix('outcome.').replace('_', ' ')}"
            for key, count in summary.items()
            if key.startswith("outcome.") and count
        )
        mean_rounds = float(summary["rounds"])
        rounds = format_count(int(mean_rounds)) if mean_rounds.is_integer() else f"{mean_rounds:.6g}"
        lines = [f"{rounds} rounds in {clock(summary['simulated_s'])} simulated", f"updates: {outcomes}"]
    line = " · ".join(lines)
    console.print(line if len(line) <= console.width else "\n".join(lines))
    if summary.get("replicas", 1) > 1:
        several = "" if "duration_s" in summary else " Updates are summed."
        console.print(mean_sentence(summary["replicas"]) + several)


def _print_left_out(console: Console, run: Run) -> None:
    """Name the users without a share of the band, whose updates are in no outcome."""
    if run.summary.get("left_out") and (sentence := left_out_sentence(run.users)):
        console.print(sentence, soft_wrap=True)


def _print_codecs(console: Console, run: Run) -> None:
    """Name the codecs, after which the outcomes count updates that hold less than was trained."""
    if note := run.manifest.get("codecs"):
        console.print(str(note), soft_wrap=True)


def _print_silence(console: Console, run: Run) -> None:
    """Say that a run delivered nothing, which its other figures hide."""
    if run.summary.get("outcome.delivered", 1):
        return
    learned = ", so no learner has learned anything" if run.learners else ""
    console.print(f"No update was delivered{learned}.", style="bold")
    if "attempts" in run.summary:
        console.print(f"The causes: netfl ram {run.folder} --explain", soft_wrap=True)


def _show_metrics(console: Console, run: Run) -> None:
    names, left_out = _shortened(access_metrics(run.summary, run.learners), run.summary)
    if not names:
        return
    cells = [
        (metric_label(name), value.number, value.spread, " ".join(filter(None, (value.unit, value.count))))
        for name, value in aligned(names, run.summary).items()
    ]
    room = sum(max(len(line[at]) for line in cells) + 1 for at in range(4)) + 3
    across = max(1, min(3, (console.width - 2) // room))
    deep = -(-len(cells) // across)
    grid = Table.grid(padding=(0, 1, 0, 0))
    for at in range(across):
        grid.add_column(no_wrap=True)
        grid.add_column(justify="right", style="bold", no_wrap=True)
        grid.add_column(style="dim", no_wrap=True)
        grid.add_column(no_wrap=True, min_width=0 if at == across - 1 else max(len(line[3]) for line in cells) + 3)
    for row in range(deep):
        grid.add_row(*(cell for line in cells[row::deep] for cell in line))
    console.print()
    console.print(grid)
    _print_billing(console, run)
    if left_out:
        console.print(f"and {left_out} more in summary.json", style="dim")
    console.print()


def _shortened(names: Sequence[str], summary: dict[str, Any]) -> tuple[list[str], int]:
    """Keep the largest metrics of each family, but leave out no single one; return them and the number left out."""
    families: dict[str, list[str]] = {}
    for name in names:
        is_member = find_metric(name).is_family
        families.setdefault(name.rpartition(".")[0] if is_member else name, []).append(name)
    kept: list[str] = []
    for family in families.values():
        ranked = sorted(family, key=lambda name: -(summary[name] or 0.0))[:_MANY]
        kept += [name for name in family if name in ranked]
    left_out = len(names) - len(kept)
    return (list(names), 0) if left_out == 1 else (kept, left_out)


def _show_learners(console: Console, run: Run) -> None:
    cells = run.learner_cells
    if not cells:
        return
    choices = f"; choices: {FINAL[LAST_ROUND]}" if run.choices else ""
    units = "accuracies in %" + ", variance in %²" * any(map(is_variance, cells))
    console.print(f"learners: {FINAL[LAST_TENTH]}{choices}; {units}")
    if run.comparison:
        console.print(f"comparison: {run.comparison}")
    print_columns(console, {"learner": run.learners}, {metric_head(metric): column for metric, column in cells.items()})
    _show_targets(console, run)


def _show_targets(console: Console, run: Run) -> None:
    pattern = re.compile(r"(?P<learner>.*)\.target:(?P<target>[^:]+)\.rounds")
    matches = [match for name in run.summary if (match := pattern.fullmatch(name))]
    targets = dict.fromkeys(match["target"] for match in matches)
    if not targets:
        return
    columns = {}
    for target in targets:
        starts = [f"{learner}.target:{target}" for learner in run.learners]
        costs = [(run.summary.get(f"{start}.rounds"), run.summary.get(f"{start}.time_s")) for start in starts]
        columns[f"{100 * float(target):g} %"] = [
            "–" if rounds is None or time_s is None else f"round {rounds:.4g}, {clock(time_s)}"
            for rounds, time_s in costs  # a target counts where every replica has reached it
        ]
    console.print("first evaluation with a test accuracy of")
    print_columns(console, {"learner": run.learners}, columns)
    _print_billing(console, run)


def _print_billing(console: Console, run: Run) -> None:
    """Print, below a table of costs, how learners with different payloads are billed."""
    if note := billing_note(run.manifest):
        console.print(note, style="dim")
