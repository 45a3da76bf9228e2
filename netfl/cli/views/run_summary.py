"""Terminal view of a finished run: its length, outcomes, metrics and learners' results."""

from __future__ import annotations

import math
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
_GAP = 3
"""Further characters between two metrics that are side by side."""


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
        outcomes = []
        for key, count in summary.items():
            if key.startswith("outcome.") and count:
                outcome = key.removeprefix("outcome.").replace("_", " ")
                outcomes.append(f"{format_count(count)} {outcome}")
        mean_rounds = float(summary["rounds"])
        rounds = f"{mean_rounds:.6g}"
        if mean_rounds.is_integer():
            rounds = format_count(int(mean_rounds))
        lines = [f"{rounds} rounds in {clock(summary['simulated_s'])} simulated", f"updates: {', '.join(outcomes)}"]
    line = " · ".join(lines)
    if len(line) > console.width:
        line = "\n".join(lines)
    console.print(line)
    if summary.get("replicas", 1) > 1:
        sentence = mean_sentence(summary["replicas"])
        if "duration_s" not in summary:
            sentence += " Updates are summed."
        console.print(sentence)


def _print_left_out(console: Console, run: Run) -> None:
    """Name the users without a share of the band, whose updates are in no outcome."""
    if run.summary.get("left_out"):
        sentence = left_out_sentence(run.users)
        if sentence:
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
    entries = []  # label, number, spread and unit of each metric
    for name, value in aligned(names, run.summary).items():
        unit = " ".join(word for word in (value.unit, value.count) if word)
        entries.append((metric_label(name), value.number, value.spread, unit))
    console.print()
    console.print(_grid(entries, console.width))
    _print_billing(console, run)
    if left_out:
        console.print(f"and {left_out} more in summary.json", style="dim")
    console.print()


def _grid(entries: Sequence[tuple[str, str, str, str]], width: int) -> Table:
    """Return a table of metrics, one below the other, in as many blocks side by side as fit in *width*: up to three."""
    widths = [max(map(len, cells)) for cells in zip(*entries, strict=True)]
    block_width = sum(width_of_cells + 1 for width_of_cells in widths) + _GAP
    blocks = max(1, min(3, (width - 2) // block_width))
    grid = Table.grid(padding=(0, 1, 0, 0))
    for block in range(blocks):
        grid.add_column(no_wrap=True)
        grid.add_column(justify="right", style="bold", no_wrap=True)
        grid.add_column(style="dim", no_wrap=True)
        is_last = block == blocks - 1
        grid.add_column(no_wrap=True, min_width=0 if is_last else widths[3] + _GAP)
    rows = math.ceil(len(entries) / blocks)
    for row in range(rows):
        cells = [cell for entry in entries[row::rows] for cell in entry]
        grid.add_row(*cells)
    return grid


def _shortened(names: Sequence[str], summary: dict[str, Any]) -> tuple[list[str], int]:
    """Keep the largest metrics of each family, but leave out no single one; return them and the number left out."""
    families: dict[str, list[str]] = {}
    for name in names:
        family = name
        if find_metric(name).is_family:
            family = name.rpartition(".")[0]
        families.setdefault(family, []).append(name)
    kept: list[str] = []
    for members in families.values():
        largest = sorted(members, key=lambda name: -(summary[name] or 0.0))[:_MANY]
        kept += [name for name in members if name in largest]
    left_out = len(names) - len(kept)
    if left_out == 1:  # the line that says so would take its place
        return list(names), 0
    return kept, left_out


def _show_learners(console: Console, run: Run) -> None:
    cells = run.learner_cells
    if not cells:
        return
    choices = f"; choices: {FINAL[LAST_ROUND]}" if run.choices else ""
    units = "accuracies in %"
    if any(is_variance(metric) for metric in cells):
        units += ", variance in %²"
    console.print(f"learners: {FINAL[LAST_TENTH]}{choices}; {units}")
    if run.comparison:
        console.print(f"comparison: {run.comparison}")
    columns = {metric_head(metric): column for metric, column in cells.items()}
    print_columns(console, {"learner": run.learners}, columns)
    _show_targets(console, run)


def _show_targets(console: Console, run: Run) -> None:
    pattern = re.compile(r"(?P<learner>.*)\.target:(?P<target>[^:]+)\.rounds")
    matches = [pattern.fullmatch(name) for name in run.summary]
    targets = dict.fromkeys(match["target"] for match in matches if match)
    if not targets:
        return
    columns = {}
    for target in targets:
        cells = [_target_cell(run.summary, f"{learner}.target:{target}") for learner in run.learners]
        columns[f"{100 * float(target):g} %"] = cells
    console.print("first evaluation with a test accuracy of")
    print_columns(console, {"learner": run.learners}, columns)
    _print_billing(console, run)


def _target_cell(summary: dict[str, Any], prefix: str) -> str:
    """Return when a learner reached a target; a dash unless it did in every replica."""
    rounds = summary.get(f"{prefix}.rounds")
    time_s = summary.get(f"{prefix}.time_s")
    if rounds is None or time_s is None:
        return "–"
    return f"round {rounds:.4g}, {clock(time_s)}"


def _print_billing(console: Console, run: Run) -> None:
    """Print, below a table of costs, how learners with different payloads are billed."""
    if note := billing_note(run.manifest):
        console.print(note, style="dim")
