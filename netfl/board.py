"""What the terminal shows of a run that has ended: what happened, its figures, and what the learners came to."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from netfl.figures import clock, label, own, parts
from netfl.reading import Run
from netfl.statistics import HALF

_MANY = 6
"""Of a family of more figures, such as the utilisation of each link, only the largest so many are shown."""

_FAMILIES = ("utilisation", "lost", "share")
"""The words that such families begin with."""
_LEARNERS = {
    "accuracy": "accuracy",
    "rare_accuracy": "rare classes",
    "accuracy_users_worst10": "worst 10 %",
    "accuracy_users_best10": "best 10 %",
    "accuracy_users_variance": "variance, %²",
    "accuracy_users_jain": "Jain",
    "loss": "loss",
    "t": "t",
}
"""The columns of the table of learners."""
_WHERE_ROOM = frozenset({"accuracy_users_best10", "accuracy_users_variance"})
_HUGE = 1e6
"""A loss of this size is told by its power of ten."""
_WIDE = 110
"""The width of a terminal in which these columns have room, and an interval stands beside its figure."""


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
        several = "" if "duration_s" in summary else "; updates are summed"
        console.print(f"mean of {summary['replicas']} replicas ± half width of the 95 % interval{several}")


def _show_figures(console: Console, run: Run) -> None:
    """The access's own figures, in as many columns as there is room for."""
    names, left_out = _shortened(own(run.summary, run.learners), run.summary)
    if not names:
        return
    like = {name.partition("_")[0]: run.summary[name] for name in reversed(names) if "_" in name}
    lines = [
        (label(name), *parts(name, run.summary[name], run.summary.get(name + HALF), like.get(name.partition("_")[0])))
        for name in names
    ]
    cells = [(name, number, spread and f"± {spread}", unit) for name, number, spread, unit in lines]
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
    """A table of learners and what they came to."""
    learners, summary = run.learners, run.summary
    first = {metric: f"{learners[0]}.{metric}.smoothed" for metric in _LEARNERS} if learners else {}
    room = console.width >= _WIDE
    shown = [metric for metric, name in first.items() if name in summary and (room or metric not in _WHERE_ROOM)]
    if not shown:
        return
    table = Table(
        title="learners: mean over the last tenth of the rounds" + ("; choices: as last made" * bool(run.choices)),
        title_justify="left",
        box=box.SIMPLE_HEAD,
    )
    table.add_column("learner", no_wrap=True)
    for metric in shown:
        table.add_column(_LEARNERS[metric], justify="right")
    between = " " if room else "\n"
    for learner in learners:
        ending = "" if learner in run.choices else ".smoothed"
        names = [f"{learner}.{metric}{ending}" for metric in shown]
        table.add_row(
            learner,
            *(
                _figure(metric, summary.get(name), summary.get(name + HALF), between)
                for metric, name in zip(shown, names, strict=True)
            ),
        )
    console.print(table)
    _show_targets(console, run)


def _show_targets(console: Console, run: Run) -> None:
    """A table of learners and when they came to the accuracies asked for; nothing without any."""
    when = re.compile(r"(?P<learner>.*)\.target:(?P<target>[^:]+)\.rounds")
    found = [match for name in run.summary if (match := when.fullmatch(name))]
    targets = dict.fromkeys(match["target"] for match in found)
    if not targets:
        return
    table = Table(title="first at a test accuracy of", title_justify="left", box=box.SIMPLE_HEAD)
    table.add_column("learner", no_wrap=True)
    for target in targets:
        table.add_column(f"{100 * float(target):g} %", justify="right")
    for learner in run.learners:
        starts = [f"{learner}.target:{target}" for target in targets]
        table.add_row(learner, *(_when(run.summary, start) for start in starts))
    console.print(table)


def _when(summary: dict[str, Any], start: str) -> str:
    """The round and the simulated time of a target that every replica reached; a dash for others."""
    at, time_s = (summary.get(f"{start}.{cost}") for cost in ("rounds", "time_s"))
    return "–" if at is None or time_s is None else f"round {at:.4g}, {clock(time_s)}"


def _figure(metric: str, value: float | None, half: float | None, between: str) -> str:
    """A figure of a learner with its interval; a dash where it is not finite."""
    if value is None:
        return "–"
    if metric == "accuracy_users_variance":
        number, spread = f"{1e4 * value:.0f}", f"{1e4 * half:.0f}" if half else ""
    elif metric.startswith(("accuracy", "rare_")):
        number, spread = f"{value:.3f}", f"{half:.3f}" if half else ""
    elif abs(value) >= _HUGE:
        number, spread = f"{value:.1e}", f"{half:.1e}" if half else ""
    else:
        number, spread, _ = parts("", value, half)
    return f"{number}{between}± {spread}" if spread else number
