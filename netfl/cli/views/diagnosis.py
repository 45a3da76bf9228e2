"""What the terminal shows of a diagnosis: the verdict, the tests, the rarest users, what it means for a learner."""

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
"""Of more users, or groups of users, only the first so many are named."""
_LONGEST = 15
"""Letters of a user's name that a table shows."""


def expected_process(run: Run, replica: int | None) -> ExpectedProcess:
    """What the scenario of a run says of its access: the process, the rates, and the α of its learners."""
    from netfl.scenario.scenario import load
    from netfl.simulation.setup import streams_of

    objectives = {name: one.get("objective") for name, one in (run.scenario.get("learners") or {}).items()}
    alphas = {name: float(one["alpha"]) for name, one in objectives.items() if isinstance(one, dict) and "alpha" in one}
    try:
        scenario = load(run.folder / "scenario.yaml")
    except NetflError:
        return ExpectedProcess("the scenario, whose access cannot be loaded here", alphas=alphas)
    access = scenario.access
    stated = access.participation_rates(scenario.users, streams_of(scenario, replica or 0).at("access"))
    return ExpectedProcess(f"access {kind_of(type(access))}", access.info.process, stated, alphas)


def print_diagnosis(found: Diagnosis, rare: int = 5, console: Console | None = None) -> None:
    """Print a diagnosis.

    Args:
        found: the diagnosis.
        rare: how many of the rarest users to show.
        console: where to; by default the terminal.
    """
    console = console or Console(markup=False, highlight=False)
    console.print(Text(found.verdict, style="bold"))
    console.print(found.sentence)
    _say_expected(found, console)
    for note in found.notes:
        console.print(note, style="dim")
    console.print(_tests(found))
    console.print(_overall(found))
    _say_groups(found, console)
    console.print()
    console.print(_rarest(found, rare, console.width))
    for line in explain_meaning(found, rare):
        console.print(line)


def show_json(found: Diagnosis, more: Mapping[str, Any] | None = None, console: Console | None = None) -> None:
    """Print all of a diagnosis, and *more*, as one flat JSON object."""
    console = console or Console(markup=False, highlight=False)
    told = [
        f"{json.dumps(name)}: {json.dumps(value, allow_nan=False, ensure_ascii=False)}"
        for name, value in {**found.to_json(), **(more or {})}.items()
    ]
    console.file.write("{\n" + ",\n".join(told) + "\n}\n")


def _say_expected(found: Diagnosis, console: Console) -> None:
    """What was known beforehand, and whether it agrees."""
    known = found.expected
    if known is None or known.process is None:
        return
    besides = {kind for name, kind in DECIDES.items() for test in found.tests if test.name == name and test.yes}
    same = "other than found"
    if known.process in {found.verdict, *besides}:
        same = "as found" if known.process == found.verdict else "found too"
    rates = {None: "", True: "; its rates lie in all intervals", False: "; its rates do not lie in all intervals"}
    console.print(f"Stated ({known.source}): {known.process}, {same}{rates[found.agrees]}.")


def _say_groups(found: Diagnosis, console: Console) -> None:
    """Who is heard together, where that was found."""
    if not any(test.name == "dependence" and test.yes for test in found.tests):
        return
    told = [
        ", ".join(found.participation.names[user] for user in group[:_SHOWN]) + (", …" if len(group) > _SHOWN else "")
        for group in found.dependence.groups[:_SHOWN]
    ]
    if told:
        more = " …" if len(found.dependence.groups) > _SHOWN else ""
        console.print(f"heard together: {' | '.join(told)}{more}")


def _tests(found: Diagnosis) -> Table:
    """The table of tests; those that decide come first."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name, justify in (("question", "left"), ("seen", "left"), ("p", "right"), ("answer", "left")):
        table.add_column(name, justify="right" if justify == "right" else "left", no_wrap=name == "p")
    for test in found.tests:
        last = test.decides and not found.tests[found.tests.index(test) + 1].decides
        style = "bold" if test.decides and test.yes else "" if test.decides else "dim"
        p = format_p_value(test.p, is_monte_carlo=test.name == "memory")
        table.add_row(test.question, test.statistic or "–", p, test.answer, style=style, end_section=last)
    share = f"{100 * found.level:g} %"
    table.caption = f"The first four decide; false alarms of all four together stay below {share}."
    table.caption_justify = "left"
    return table


def _overall(found: Diagnosis) -> Text:
    """Figures of the whole."""
    own, order = found.concentration, found.order
    heard = int(found.rates.heard.sum())
    entropy = f"entropy {'' if found.verdict == 'stationary' else 'at most '}{order.entropy_rate:.3g} bits a round"
    slow = "" if order.mixing is None else f", mixing time {order.mixing}"
    chain = (
        f"; as first-order chains: second eigenvalue {order.eigenvalue:.3f}{slow}"
        if found.verdict == "Markovian"
        else ""
    )
    lines = [
        f"{heard} deliveries; {found.participation.users} users count as {own.effective:.1f} (1/Σρ²); "
        f"Gini {own.gini:.2f}, Jain {own.jain:.2f}",
        f"{entropy}{chain}",
    ]
    return Text("\n".join(lines))


def _rarest(found: Diagnosis, rare: int, width: int) -> Table:
    """The table of the rarest users, the rarest first."""
    rates, waits, times = found.rates, found.waits, found.waits.silence_s
    stated = None if found.expected is None else found.expected.rates
    order = np.argsort(rates.heard, kind="stable")[:rare]
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title=f"the {len(order)} rarest users", title_justify="left")
    table.caption = "age: mean rounds since heard; silence: the longest without; least α: see below"
    table.caption_justify = "left"
    names = ["user", "heard", "rho", f"{100 * (1 - found.level):g} % interval"]
    names += ["stated"] * (stated is not None) + ["least α", "age", "silence"]
    for name in names:
        table.add_column(name, justify="left" if name == "user" else "right", no_wrap=True)
    least = dict(zip(found.reach.users.tolist(), found.reach.alpha.tolist(), strict=True))
    for user in order.tolist():
        silence = f"{waits.silence[user]}"
        if times is not None and width >= 100:
            silence += f" ({clock(float(times[user]))})"
        row = [_cut(found.participation.names[user]), str(rates.heard[user]), f"{rates.rho[user]:.4f}"]
        row.append(f"{rates.low[user]:.4f} – {rates.high[user]:.4f}")
        row += [] if stated is None else [f"{stated[user]:.4f}"]
        row += [f"{least[user]:.4f}" if user in least else "never", _rounds(waits.age[user]), silence]
        table.add_row(*row)
    return table


def explain_meaning(found: Diagnosis, rare: int) -> list[str]:
    """What it means for a learner, in sentences."""
    reach, waits = found.reach, found.waits
    few = min(rare, len(reach.users))
    said = [
        f"For a learner: a CVaR tail holds the rarest user that is heard whole from α = {reach.min_alpha:.4f} on, "
        f"the {few} rarest from α = {reach.alpha[few - 1]:.4f} on."
    ]
    if reach.beyond:
        names = ", ".join(found.participation.names[user] for user in reach.beyond[:_SHOWN]) + (
            ", …" if len(reach.beyond) > _SHOWN else ""
        )
        whom = "user that was" if len(reach.beyond) == 1 else f"{len(reach.beyond)} users that were"
        said.append(f"No α reaches the {whom} never heard: {names}.")
    named = {} if found.expected is None or found.expected.alphas is None else found.expected.alphas
    labels = [""] * (len(reach.tails) - len(named)) + [f" of {name}" for name in named]
    for tail, label in zip(reach.tails, labels, strict=True):
        said.append(_tail(tail.alpha, label, tail.whole, tail.part))
    slowest = int(reach.users[0])
    until = [f"{_rounds(waits.until(times)[slowest])} to be heard {how}" for times, how in _OFTEN]
    said.append(f"Rounds that the rarest user that is heard needs, in the mean: {', '.join(until)}.")
    return said


_OFTEN = ((1, "once"), (10, "10 times"), (100, "100 times"))


def _tail(alpha: float, label: str, whole: int, part: float) -> str:
    """What an α reaches."""
    if not whole:
        return f"α = {alpha:g}{label} is below the reach of any user: the rarest would fill it {1 / part:.1f} times."
    users = "the rarest user" if whole == 1 else f"the {whole} rarest users"
    more = f", and {100 * part:.0f} % of the next" if part > 0.005 else ""
    return f"α = {alpha:g}{label} can hold {users} whole{more}."


def _rounds(value: float) -> str:
    """A number of rounds."""
    return "∞" if math.isinf(value) else f"{value:.3g}" if value < 100 else f"{value:.0f}"


def _cut(name: str) -> str:
    """A user's name as far as there is room for it in a table.

    >>> _cut("kitchen"), _cut("the sensor in the kitchen")
    ('kitchen', 'the sensor in …')
    """
    return name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}…"
