"""Terminal view of a diagnosis: verdict, tests, rarest users and consequences for a learner."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from netfl.diagnosis import Diagnosis, ExpectedProcess
from netfl.diagnosis.multiple_testing import DECIDES
from netfl.diagnosis.text import format_p_value
from netfl.errors import NetflError
from netfl.registry import kind_of
from netfl.results.formatting import clock
from netfl.results.run_reader import Run

_SHOWN = 8
"""The largest number of users, or groups of users, in one list."""
_LONGEST = 15
"""The largest number of characters of a user's name in a table."""


def expected_process(run: Run, replica: int | None) -> ExpectedProcess:
    """Return the process and rates that a run's access states, and the α of its learners."""
    from netfl.scenario.scenario import load
    from netfl.simulation.setup import streams_of

    objectives = {name: learner.get("objective") for name, learner in (run.scenario.get("learners") or {}).items()}
    alphas = {
        name: float(objective["alpha"])
        for name, objective in objectives.items()
        if isinstance(objective, dict) and "alpha" in objective
    }
    try:
        scenario = load(run.folder / "scenario.yaml")
    except NetflError:
        return ExpectedProcess("the scenario, whose access cannot be loaded here", alphas=alphas)
    access = scenario.access
    stated = access.participation_rates(scenario.users, streams_of(scenario, replica or 0).at("access"))
    return ExpectedProcess(f"access {kind_of(type(access))}", access.info.process, stated, alphas)


def print_diagnosis(result: Diagnosis, rare: int = 5, console: Console | None = None) -> None:
    """Print a diagnosis.

    Args:
        result: the diagnosis.
        rare: number of the rarest users to show.
        console: by default the terminal.
    """
    console = console or Console(markup=False, highlight=False)
    console.print(Text(result.verdict, style="bold"))
    console.print(result.sentence)
    _print_expected(result, console)
    for note in result.notes:
        console.print(note, style="dim")
    console.print(_tests(result))
    console.print(_overall(result))
    _print_groups(result, console)
    console.print()
    console.print(_rarest(result, rare, console.width))
    for line in explain_meaning(result, rare):
        console.print(line)


def show_json(result: Diagnosis, more: Mapping[str, Any] | None = None, console: Console | None = None) -> None:
    """Print all of a diagnosis, and *more*, as one flat JSON object."""
    console = console or Console(markup=False, highlight=False)
    entries = [
        f"{json.dumps(name)}: {json.dumps(value, allow_nan=False, ensure_ascii=False)}"
        for name, value in {**result.to_json(), **(more or {})}.items()
    ]
    console.file.write("{\n" + ",\n".join(entries) + "\n}\n")


def _print_expected(result: Diagnosis, console: Console) -> None:
    """Print the stated process, and compare it with the result."""
    expected = result.expected
    if expected is None or expected.process is None:
        return
    other_processes = {
        kind for name, kind in DECIDES.items() for test in result.tests if test.name == name and test.yes
    }
    agreement = "other than found"
    if expected.process in {result.verdict, *other_processes}:
        agreement = "as found" if expected.process == result.verdict else "found too"
    rates = {None: "", True: "; its rates lie in all intervals", False: "; its rates do not lie in all intervals"}
    console.print(f"Stated ({expected.source}): {expected.process}, {agreement}{rates[result.agrees]}.")


def _print_groups(result: Diagnosis, console: Console) -> None:
    """Print groups of users that are delivered together if the tests find a dependence."""
    if not any(test.name == "dependence" and test.yes for test in result.tests):
        return
    groups = [
        ", ".join(result.participation.names[user] for user in group[:_SHOWN]) + (", …" if len(group) > _SHOWN else "")
        for group in result.dependence.groups[:_SHOWN]
    ]
    if groups:
        more = " …" if len(result.dependence.groups) > _SHOWN else ""
        console.print(f"heard together: {' | '.join(groups)}{more}")


def _tests(result: Diagnosis) -> Table:
    """Return the table of tests; the deciding ones come first."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name, justify in (("question", "left"), ("seen", "left"), ("p", "right"), ("answer", "left")):
        table.add_column(name, justify="right" if justify == "right" else "left", no_wrap=name == "p")
    for test in result.tests:
        is_last = test.decides and not result.tests[result.tests.index(test) + 1].decides
        style = "bold" if test.decides and test.yes else "" if test.decides else "dim"
        p = format_p_value(test.p, is_monte_carlo=test.name == "memory")
        table.add_row(test.question, test.statistic or "–", p, test.answer, style=style, end_section=is_last)
    share = f"{100 * result.level:g} %"
    table.caption = f"The first four decide; false alarms of all four together stay below {share}."
    table.caption_justify = "left"
    return table


def _overall(result: Diagnosis) -> Text:
    concentration, order = result.concentration, result.order
    deliveries = int(result.rates.heard.sum())
    entropy = f"entropy {'' if result.verdict == 'stationary' else 'at most '}{order.entropy_rate:.3g} bits a round"
    mixing = "" if order.mixing is None else f", mixing time {order.mixing}"
    chain = (
        f"; as first-order chains: second eigenvalue {order.eigenvalue:.3f}{mixing}"
        if result.verdict == "Markovian"
        else ""
    )
    lines = [
        f"{deliveries} deliveries; {result.participation.users} users count as {concentration.effective:.1f} (1/Σρ²); "
        f"Gini {concentration.gini:.2f}, Jain {concentration.jain:.2f}",
        f"{entropy}{chain}",
    ]
    return Text("\n".join(lines))


def _rarest(result: Diagnosis, rare: int, width: int) -> Table:
    """Return the table of the *rare* rarest users, rarest first."""
    rates, waits, times = result.rates, result.waits, result.waits.silence_s
    stated = None if result.expected is None else result.expected.rates
    order = np.argsort(rates.heard, kind="stable")[:rare]
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title=f"the {len(order)} rarest users", title_justify="left")
    table.caption = "age: mean rounds since heard; silence: the longest without; least α: see below"
    table.caption_justify = "left"
    names = ["user", "heard", "rho", f"{100 * (1 - result.level):g} % interval"]
    names += ["stated"] * (stated is not None) + ["least α", "age", "silence"]
    for name in names:
        table.add_column(name, justify="left" if name == "user" else "right", no_wrap=True)
    min_alpha = dict(zip(result.reach.users.tolist(), result.reach.alpha.tolist(), strict=True))
    for user in order.tolist():
        silence = f"{waits.silence[user]}"
        if times is not None and width >= 100:
            silence += f" ({clock(float(times[user]))})"
        row = [_cut(result.participation.names[user]), str(rates.heard[user]), f"{rates.rho[user]:.4f}"]
        row.append(f"{rates.low[user]:.4f} – {rates.high[user]:.4f}")
        row += [] if stated is None else [f"{stated[user]:.4f}"]
        row += [f"{min_alpha[user]:.4f}" if user in min_alpha else "never", _rounds(waits.age[user]), silence]
        table.add_row(*row)
    return table


def explain_meaning(result: Diagnosis, rare: int) -> list[str]:
    """Return sentences about the consequences for a learner."""
    reach, waits = result.reach, result.waits
    few = min(rare, len(reach.users))
    lines = [
        f"For a learner: a CVaR tail holds the rarest user that is heard whole from α = {reach.min_alpha:.4f} on, "
        f"the {few} rarest from α = {reach.alpha[few - 1]:.4f} on."
    ]
    if reach.beyond:
        names = ", ".join(result.participation.names[user] for user in reach.beyond[:_SHOWN]) + (
            ", …" if len(reach.beyond) > _SHOWN else ""
        )
        missing = "user that was" if len(reach.beyond) == 1 else f"{len(reach.beyond)} users that were"
        lines.append(f"No α reaches the {missing} never heard: {names}.")
    named = {} if result.expected is None or result.expected.alphas is None else result.expected.alphas
    labels = [""] * (len(reach.tails) - len(named)) + [f" of {name}" for name in named]
    for tail, label in zip(reach.tails, labels, strict=True):
        lines.append(_tail(tail.alpha, label, tail.whole, tail.part))
    slowest = int(reach.users[0])
    until = [f"{_rounds(waits.until(times)[slowest])} to be heard {label}" for times, label in _OFTEN]
    lines.append(f"Rounds that the rarest user that is heard needs, in the mean: {', '.join(until)}.")
    return lines


_OFTEN = ((1, "once"), (10, "10 times"), (100, "100 times"))


def _tail(alpha: float, label: str, whole: int, part: float) -> str:
    if not whole:
        return f"α = {alpha:g}{label} is below the reach of any user: the rarest would fill it {1 / part:.1f} times."
    users = "the rarest user" if whole == 1 else f"the {whole} rarest users"
    more = f", and {100 * part:.0f} % of the next" if part > 0.005 else ""
    return f"α = {alpha:g}{label} can hold {users} whole{more}."


def _rounds(value: float) -> str:
    return "∞" if math.isinf(value) else f"{value:.3g}" if value < 100 else f"{value:.0f}"


def _cut(name: str) -> str:
    """Shorten a user's name for a table.

    >>> _cut("kitchen"), _cut("the sensor in the kitchen")
    ('kitchen', 'the sensor in …')
    """
    return name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}…"
