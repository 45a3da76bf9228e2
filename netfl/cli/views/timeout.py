"""Terminal view of an advice on the deadline of rounds."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from rich.table import Table

from netfl.cli.app import echo
from netfl.cli.views import new_table
from netfl.core.screen import open_console
from netfl.diagnosis.timeout import Advice, Expectation, ScenarioAdvice, TimeoutRule, Trial
from netfl.results.formatting import clock, counted, percent

_MAX_ROWS = 12
"""Deadlines of the curve that are printed."""
_MAX_NAMES = 10
"""Users that are named."""


def print_advice(advice: Advice) -> None:
    """Print the advice from a log."""
    for line in _sentences(advice):
        echo(line)
    _print_curve(advice)
    for line in _round_lines(_round_of(advice.best.rule)):
        echo(line)


def print_scenario_advice(found: ScenarioAdvice) -> None:
    """Print the advice for a scenario."""
    for line in _sentences(found.advice):
        echo(line)
    checked = found.checked_s / found.advice.best.time_s - 1.0
    echo(f"check:       {clock(found.checked_s)} by rounds that are simulated with it ({100.0 * checked:+.1f} %)")
    _print_curve(found.advice)
    if found.chosen is not None:
        open_console().print(_trials_table(found.trials))
        echo("Recommended is the best rule by the measured progress, unless another one is faster beyond chance.")
    for line in _round_lines(found.round, found.max_attempts):
        echo(line)


def _sentences(advice: Advice) -> Iterator[str]:
    """Yield the lines before the table."""
    best = advice.best
    options = advice.options
    low_s, high_s = advice.deadlines_s
    yield f"rounds:      {advice.rounds}, with {advice.users} users in all"
    yield f"advice:      {_rule(best.rule)}; 95 % interval of the deadline: {_seconds(low_s)} to {_seconds(high_s)}"
    yield f"a round:     {clock(best.round_s)}, {best.updates:.3g} updates on average"
    yield (
        f"target:      progress of {options.full_rounds:g} full rounds in {clock(best.time_s)} "
        f"({clock(best.low_s)} to {clock(best.high_s)}), after {best.rounds:.0f} rounds"
    )
    if advice.alone is not None and advice.alone.rule != best.rule:
        yield f"alone:       {_compared(advice.alone, best)}"
    if best.never:
        share = percent(len(best.never) / advice.users)
        names = ", ".join(best.never[:_MAX_NAMES])
        more = ", …" if len(best.never) > _MAX_NAMES else ""
        yield f"never:       {counted(len(best.never), 'user')} ({share}) in time in no round: {names}{more}"
    if advice.everyone is not None:
        yield f"all users:   {_compared(advice.everyone, best)}"
    others = "; ".join(f"{critical:g}: {_rule(rule)}" for critical, rule in advice.others.items())
    exponent = "" if options.exponent == 1.0 else f", exponent {options.exponent:g}"
    yield f"critical:    {options.critical:.3g} updates{exponent}; with {others}"
    if advice.max_attempts is not None:
        yield f"attempts:    99 % of the updates in time need at most {advice.max_attempts}"
    for note in advice.notes:
        yield f"note:        {note}"


def _rule(rule: TimeoutRule) -> str:
    return f"deadline {_seconds(rule.deadline_s)}, quorum {rule.quorum:g}"


def _compared(other: Expectation, best: Expectation) -> str:
    return f"{_rule(other.rule)}: the target takes {other.time_s / best.time_s:.2f} times as long"


def _seconds(time_s: float) -> str:
    return f"{time_s:.4g} s"


def _print_curve(advice: Advice) -> None:
    """Print the time to the target for some of the deadlines, the recommended one among them."""
    curve = advice.curve
    step = math.ceil(len(curve) / _MAX_ROWS)
    is_best = np.isclose(curve["deadline_s"], advice.best.rule.deadline_s)
    is_shown = (np.arange(len(curve)) % step == 0) | is_best
    heads = ("deadline", "target in", "95 % interval", "updates", "never")
    table = new_table(*heads, keys=0, title=f"quorum {advice.best.rule.quorum:g}", title_justify="left")
    for row, best in zip(curve[is_shown].itertuples(), is_best[is_shown], strict=True):
        table.add_row(
            f"{row.deadline_s:.3g} s",
            _time(row.time_s),
            f"{_time(row.low_s)} to {_time(row.high_s)}",
            f"{row.updates:.3g}",
            percent(row.never),
            style="bold" if best else "",
        )
    open_console().print(table)


def _time(time_s: float) -> str:
    return clock(time_s) if math.isfinite(time_s) else "never"


def _trials_table(trials: Sequence[Trial]) -> Table:
    table = new_table("deadline", "quorum", "measured time", "rounds", "updates", keys=0)
    for trial in trials:
        time = "not reached in time"
        if trial.is_reached:
            time = f"{clock(trial.estimate.mean)} ± {clock(trial.estimate.half)}"
        rounds = np.mean([*map(len, trial.updates)])
        updates = np.mean(np.concatenate(trial.updates))
        table.add_row(
            _seconds(trial.rule.deadline_s), f"{trial.rule.quorum:g}", time, f"{rounds:.3g}", f"{updates:.3g}"
        )
    return table


def _round_of(rule: TimeoutRule) -> Mapping[str, object]:
    return {"kind": "quorum", "quorum": rule.quorum, "deadline": rule.deadline_s}


def _round_lines(values: Mapping[str, object], max_attempts: int | None = None) -> Iterator[str]:
    """Yield the lines of YAML to paste into a scenario."""
    shown = {key: f"{value:g} s" if key == "deadline" else value for key, value in values.items()}
    yield "access:"
    yield f"  round: {{{', '.join(f'{key}: {value}' for key, value in shown.items())}}}"
    if max_attempts is not None:
        yield f"  # in mac: max_attempts: {max_attempts}"
