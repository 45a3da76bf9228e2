"""What the terminal shows of a run that has ended: what happened, its figures, and what the learners came to."""

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
"""Of a family of more figures, such as the utilisation of each link, only the largest so many are shown."""

_FAMILIES = ("utilisation", "lost", "share")
"""The words that such families begin with."""

_PADDING = 3
"""Letters between two columns of a table."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table on the terminal.

    Args:
        head: its heading, which may have several lines.
        cells: its cells, one for each row.
        is_key: whether it names the rows, and stands at the left.
    """

    head: str
    cells: tuple[str, ...]
    is_key: bool = False

    @property
    def width(self) -> int:
        """The width of its longest line, with its padding."""
        lines = [line for text in (self.head, *self.cells) for line in text.split("\n")]
        return _PADDING + max(map(cell_len, lines))


def fold(columns: Sequence[Column], width: int) -> Iterator[Table]:
    """Yield tables, one below the other, that show all of *columns* on a terminal of *width* letters.

    Each table begins with the columns that name the rows, and has at least one of the others.
    """
    keys, others = ([one for one in columns if one.is_key == wanted] for wanted in (True, False))
    room = width - 1 - sum(one.width for one in keys)
    shown: list[Column] = []
    for one in others:
        if shown and one.width + sum(each.width for each in shown) > room:
            yield _table([*keys, *shown])
            shown = []
        shown.append(one)
    yield _table([*keys, *shown])


def _table(columns: Sequence[Column]) -> Table:
    """Return the table of *columns*."""
    table = Table(box=box.SIMPLE_HEAD)
    for one in columns:
        table.add_column(one.head, justify="left" if one.is_key else "right", no_wrap=True)
    for row in zip(*(one.cells for one in columns), strict=True):
        table.add_row(*row)
    return table


def show_run(run: Run, console: Console | None = None) -> None:
    """The figures that a run ended with.

    Args:
        run: finished or not.
        console: where to; by default the terminal.
    """
    console = console or Console(markup=False)
    if run.summary:
        _tell(console, run.summary)
        _show_figures(console, run)
        _show_learners(console, run)
    status, timings = run.manifest["status"], run.manifest["timings"]
    console.print(f"{status} in {timings['total_s']:.1f} s: {run.folder}", soft_wrap=True)


def _tell(console: Console, summary: dict[str, Any]) -> None:
    """Say how long it was, what became of the updates, and what the figures are means of."""
    if "duration_s" in summary:
        said = [f"{clock(summary['duration_s'])} simulated"]
        if "warmup_s" in summary:
            said.append(f"the first {clock(summary['warmup_s'])} are warm-up, and do not count for the figures")
    else:
        fates = ", ".join(
            f"{count} {key.removeprefix('fate.').replace('_', ' ')}"
            for key, count in summary.items()
            if key.startswith("fate.") and count
        )
        said = [f"{summary['rounds']} rounds in {clock(summary['simulated_s'])} simulated", f"updates: {fates}"]
    whole = " · ".join(said)
    console.print(whole if len(whole) <= console.width else "\n".join(said))
    if summary.get("replicas", 1) > 1:
        several = "" if "duration_s" in summary else " Updates are summed."
        console.print(mean_sentence(summary["replicas"]) + several, highlight=False)


def _show_figures(console: Console, run: Run) -> None:
    """The access's own figures, in as many columns as there is room for."""
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
    """*names* without the smaller figures of a family of many, and how many were left out."""
    families: dict[str, list[str]] = {}
    for name in names:
        like = any(part in name.split(".") for part in _FAMILIES)
        families.setdefault(name.rpartition(".")[0] if like else name, []).append(name)
    kept: list[str] = []
    for family in families.values():
        ranked = sorted(family, key=lambda name: -(summary[name] or 0.0))[:_MANY]
        kept += [name for name in family if name in ranked]
    return kept, len(names) - len(kept)


def _show_learners(console: Console, run: Run) -> None:
    """Print the final values of all learners."""
    values = {name: interval(own) for name, own in run.figures.groupby("figure", observed=True)["value"]}
    names = {learner: partial(_final_name, run, learner) for learner in run.learners}
    metrics = [one for one in METRICS if any(name(one) in values for name in names.values())]
    if not metrics:
        return
    replicas, nothing = run.summary.get("replicas", 1), interval([])
    columns = [Column("learner", tuple(names), is_key=True)]
    for metric in metrics:
        found = [values.get(name(metric), nothing) for name in names.values()]
        if metric == "t":  # that of learners without a threshold is 0 throughout
            found = [one if one.mean or one.half > 0 else nothing for one in found]
        cells = [metric_cell(metric, one.mean, one.half, one.replicas, replicas) for one in found]
        columns.append(Column(METRICS[metric].lower(), tuple(cells)))
    choices = f"; choices: {FINAL[LAST_ROUND]}" if run.choices else ""
    units = "accuracies in %" + ", variance in %²" * bool(VARIANCES.intersection(metrics))
    console.print(f"learners: {FINAL[LAST_TENTH]}{choices}; {units}", highlight=False)
    for table in fold(columns, console.width):
        console.print(table)
    _show_targets(console, run)


def _final_name(run: Run, learner: str, metric: str) -> str:
    """Return the name of a learner's final value among the figures of *run*."""
    return f"{learner}.{final_name(metric, is_choice=learner in run.choices)}"


def _show_targets(console: Console, run: Run) -> None:
    """Print the rounds and times at which learners first reached the accuracies asked for; nothing without any."""
    when = re.compile(r"(?P<learner>.*)\.target:(?P<target>[^:]+)\.rounds")
    found = [match for name in run.summary if (match := when.fullmatch(name))]
    targets = dict.fromkeys(match["target"] for match in found)
    if not targets:
        return
    columns = [Column("learner", run.learners, is_key=True)]
    for target in targets:
        cells = [_when(run.summary, f"{learner}.target:{target}") for learner in run.learners]
        columns.append(Column(f"{100 * float(target):g} %", tuple(cells)))
    console.print("first at a test accuracy of", highlight=False)
    for table in fold(columns, console.width):
        console.print(table)


def _when(summary: dict[str, Any], start: str) -> str:
    """The round and the simulated time of a target that every replica reached; a dash for others."""
    at, time_s = (summary.get(f"{start}.{cost}") for cost in ("rounds", "time_s"))
    return "–" if at is None or time_s is None else f"round {at:.4g}, {clock(time_s)}"
