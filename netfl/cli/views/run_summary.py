"""Terminal view of a finished run: its length, outcomes, metrics and learners' results."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table

from netfl.results.formatting import METRICS, VARIANCES, access_metrics, aligned, clock, metric_cell, metric_label
from netfl.results.run_reader import Run
from netfl.results.statistics import FINAL, LAST_ROUND, LAST_TENTH, final_name, interval, mean_sentence

_MANY = 6
"""The largest number of metrics shown of one family, such as the utilisation of each link."""

_FAMILIES = ("utilisation", "lost", "share")
"""The words that name such families."""

_PADDING = 3
"""Characters between two columns of a table."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table on the terminal.

    Args:
        head: its heading, which may have several lines.
        cells: its cells, one for each row.
        is_key: true if it names the rows; it is then left-aligned.
    """

    head: str
    cells: tuple[str, ...]
    is_key: bool = False

    @property
    def width(self) -> int:
        """Return the width of the longest line, with padding."""
        lines = [line for text in (self.head, *self.cells) for line in text.split("\n")]
        return _PADDING + max(map(cell_len, lines))


def fold(columns: Sequence[Column], width: int) -> Iterator[Table]:
    """Yield tables that show all *columns* on a terminal of *width* characters.

    Each table begins with the columns that name the rows, and has at least one other column.
    """
    keys = [column for column in columns if column.is_key]
    others = [column for column in columns if not column.is_key]
    room = width - 1 - sum(column.width for column in keys)
    shown: list[Column] = []
    for column in others:
        if shown and column.width + sum(each.width for each in shown) > room:
            yield _table([*keys, *shown])
            shown = []
        shown.append(column)
    yield _table([*keys, *shown])


def _table(columns: Sequence[Column]) -> Table:
    table = Table(box=box.SIMPLE_HEAD)
    for column in columns:
        table.add_column(column.head, justify="left" if column.is_key else "right", no_wrap=True)
    for row in zip(*(column.cells for column in columns), strict=True):
        table.add_row(*row)
    return table


def show_run(run: Run, console: Console | None = None) -> None:
    """Print the summary of a run, finished or not, on *console* or the terminal."""
    console = console or Console(markup=False)
    if run.summary:
        _print_outcomes(console, run.summary)
        _show_metrics(console, run)
        _show_learners(console, run)
    status, timings = run.manifest["status"], run.manifest["timings"]
    console.print(f"{status} in {timings['total_s']:.1f} s: {run.folder}", soft_wrap=True)


def _print_outcomes(console: Console, summary: dict[str, Any]) -> None:
    """Print the length of a run, the outcomes of its updates, and the number of its replicas."""
    if "duration_s" in summary:
        lines = [f"{clock(summary['duration_s'])} simulated"]
        if "warmup_s" in summary:
            lines.append(f"the first {clock(summary['warmup_s'])} are warm-up, and do not count for the figures")
    else:
        outcomes = ", ".join(
            f"{count} {key.removeprefix('fate.').replace('_', ' ')}"
            for key, count in summary.items()
            if key.startswith("fate.") and count
        )
        lines = [f"{summary['rounds']} rounds in {clock(summary['simulated_s'])} simulated", f"updates: {outcomes}"]
    line = " · ".join(lines)
    console.print(line if len(line) <= console.width else "\n".join(lines))
    if summary.get("replicas", 1) > 1:
        several = "" if "duration_s" in summary else " Updates are summed."
        console.print(mean_sentence(summary["replicas"]) + several, highlight=False)


def _show_metrics(console: Console, run: Run) -> None:
    """Print the metrics of the access, in up to three columns."""
    names, left_out = _shortened(access_metrics(run.summary, run.learners), run.summary)
    if not names:
        return
    lines = aligned(names, run.summary).items()
    cells = [(metric_label(name), number, spread and f"± {spread}", unit) for name, (number, spread, unit) in lines]
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
    console.print(grid, highlight=False)
    if left_out:
        console.print(f"and {left_out} more in summary.json", highlight=False, style="dim")
    console.print()


def _shortened(names: Sequence[str], summary: dict[str, Any]) -> tuple[list[str], int]:
    """Keep the largest metrics of each family; return their names and the number of names left out."""
    families: dict[str, list[str]] = {}
    for name in names:
        is_member = any(part in name.split(".") for part in _FAMILIES)
        families.setdefault(name.rpartition(".")[0] if is_member else name, []).append(name)
    kept: list[str] = []
    for family in families.values():
        ranked = sorted(family, key=lambda name: -(summary[name] or 0.0))[:_MANY]
        kept += [name for name in family if name in ranked]
    return kept, len(names) - len(kept)


def _show_learners(console: Console, run: Run) -> None:
    """Print the final values of all learners."""
    values = {name: interval(series) for name, series in run.figures.groupby("figure", observed=True)["value"]}
    names = {learner: partial(_final_name, run, learner) for learner in run.learners}
    metrics = [metric for metric in METRICS if any(name(metric) in values for name in names.values())]
    if not metrics:
        return
    replicas, nothing = run.summary.get("replicas", 1), interval([])
    columns = [Column("learner", tuple(names), is_key=True)]
    for metric in metrics:
        finals = [values.get(name(metric), nothing) for name in names.values()]
        if metric == "t":  # always 0 for learners without a threshold
            finals = [final if final.mean or final.half > 0 else nothing for final in finals]
        cells = [metric_cell(metric, final.mean, final.half, final.replicas, replicas) for final in finals]
        columns.append(Column(METRICS[metric].lower(), tuple(cells)))
    choices = f"; choices: {FINAL[LAST_ROUND]}" if run.choices else ""
    units = "accuracies in %" + ", variance in %²" * bool(VARIANCES.intersection(metrics))
    console.print(f"learners: {FINAL[LAST_TENTH]}{choices}; {units}", highlight=False)
    for table in fold(columns, console.width):
        console.print(table)
    _show_targets(console, run)


def _final_name(run: Run, learner: str, metric: str) -> str:
    """Return the name of a learner's final value in the table of metrics."""
    return f"{learner}.{final_name(metric, is_choice=learner in run.choices)}"


def _show_targets(console: Console, run: Run) -> None:
    """Print the rounds and times at which learners first reach their target accuracies."""
    pattern = re.compile(r"(?P<learner>.*)\.target:(?P<target>[^:]+)\.rounds")
    matches = [match for name in run.summary if (match := pattern.fullmatch(name))]
    targets = dict.fromkeys(match["target"] for match in matches)
    if not targets:
        return
    columns = [Column("learner", run.learners, is_key=True)]
    for target in targets:
        cells = [_target_cell(run.summary, f"{learner}.target:{target}") for learner in run.learners]
        columns.append(Column(f"{100 * float(target):g} %", tuple(cells)))
    console.print("first at a test accuracy of", highlight=False)
    for table in fold(columns, console.width):
        console.print(table)


def _target_cell(summary: dict[str, Any], start: str) -> str:
    """Return the round and simulated time at which every replica has reached a target; else a dash."""
    at, time_s = (summary.get(f"{start}.{cost}") for cost in ("rounds", "time_s"))
    return "–" if at is None or time_s is None else f"round {at:.4g}, {clock(time_s)}"
