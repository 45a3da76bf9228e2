"""Terminal view of a diagnosis."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from netfl.cli.views import new_table
from netfl.core.kinds import kind_of
from netfl.core.screen import open_console
from netfl.diagnosis import CvarLift, Diagnosis, ExpectedProcess
from netfl.diagnosis.multiple_testing import DECIDES, parts_of
from netfl.diagnosis.rates import DELIVERY_COUNTS
from netfl.diagnosis.text import format_p_value
from netfl.errors import NetflError
from netfl.results.chosen_settings import learner_settings
from netfl.results.formatting import clock, counted, shortened
from netfl.results.run_reader import Run
from netfl.types import Ints

_SHOWN = 8
"""The largest number of users, or groups of users, in one list."""
_LONGEST = 15
"""The largest number of characters of a user's name in a table."""
_WIDE = 100
"""Tables show more on terminals of at least this width."""


def expected_process(run: Run, replica: int | None) -> ExpectedProcess:
    """Return the process and rates that a run's access states, and the α of its learners."""
    from netfl.scenario.scenario import load

    learners = learner_settings(run.scenario.get("learners") or {}, run.manifest.get("tuning") or {}, replica or 0)
    alphas = {}
    for name, learner in learners.items():
        objective = learner.get("objective")
        if name in run.learners and isinstance(objective, dict) and "alpha" in objective:
            alphas[name] = float(objective["alpha"])
    try:
        scenario = load(run.folder / "scenario.yaml")
    except NetflError:
        return ExpectedProcess("the scenario; its access cannot be loaded here", alphas=alphas)
    access = scenario.access
    stated = access.participation_rates(scenario.users, scenario.streams_of(replica or 0).at("access"))
    return ExpectedProcess(f"access {kind_of(type(access))}", access.info.process, stated, alphas)


def print_diagnosis(
    result: Diagnosis, rare: int = 5, console: Console | None = None, *, pooled: Ints | None = None
) -> None:
    """Print a diagnosis.

    Args:
        result: the diagnosis.
        rare: number of the rarest users to show.
        console: by default the terminal.
        pooled: deliveries of each user in all replicas together, ``[users]``, by which the rarest users are then
            found, as in an explanation; other figures are those of the replica that was classified.
    """
    console = console or open_console()
    console.print(Text(result.verdict, style="bold"))
    console.print(result.sentence)
    _print_expected(result, console)
    for note in result.notes:
        console.print(note, style="dim")
    console.print(_tests(result))
    console.print(_overall(result))
    _print_groups(result, console)
    console.print()
    console.print(_rarest(result, rare, console.width, pooled))
    for line in explain_meaning(result, rare):
        console.print(line)


def print_cvar_lifts(lifts: Sequence[CvarLift], rare: int) -> None:
    """Print one table of weights for each of *lifts*."""
    for lift in lifts:
        print_cvar_lift(lift, rare)


def print_cvar_lift(lift: CvarLift, rare: int, console: Console | None = None) -> None:
    """Print the weights that CVaR can give the groups and the *rare* users with the smallest shares."""
    console = console or open_console()
    head = ["users", "share ρ", "N ρ", "at most", "α below", "above 1/N"]
    title = f"weights under CVaR with α = {lift.level.alpha:g}, γ = {lift.level.gamma:g}"
    if lift.learner:
        title += f": {lift.learner}"
    table = new_table(*head, pad_edge=False, title=title, title_justify="left", caption_justify="left")
    table.caption = (
        "ρ: mean weight in a merge; at most: the largest weight at the optimum; α below: the level from which on it "
        "exceeds 1/N (m/N for m users)"
    )
    for row in lift.rows(rare):
        table.add_row(*row)
    console.print()
    console.print(table)
    console.print(lift.sentence)


def show_json(entries: Mapping[str, Any], console: Console | None = None) -> None:
    """Print *entries* as one flat JSON object, one in each line."""
    console = console or open_console()
    lines = [
        f"{json.dumps(name)}: {json.dumps(value, allow_nan=False, ensure_ascii=False)}"
        for name, value in entries.items()
    ]
    console.file.write("{\n" + ",\n".join(lines) + "\n}\n")


def _print_expected(result: Diagnosis, console: Console) -> None:
    expected = result.expected
    if expected is None or expected.process is None:
        return
    positive = {DECIDES[test.name] for test in result.tests if test.decides and test.yes}
    if expected.process == result.verdict:
        agreement = "as in the result"
    elif parts_of(expected.process) <= parts_of(result.verdict) | positive:
        agreement = "also in the result"
    else:
        agreement = "different from the result"
    rates = {None: "", True: "; its rates are in all intervals", False: "; its rates are not in all intervals"}
    console.print(f"Stated ({expected.source}): {expected.process}, {agreement}{rates[result.agrees]}.")


def _print_groups(result: Diagnosis, console: Console) -> None:
    groups = result.dependence.groups
    is_dependent = any(test.name == "dependence" and test.yes for test in result.tests)
    if is_dependent and groups:
        names = " | ".join(_names(result, group) for group in groups[:_SHOWN])
        more = " …" if len(groups) > _SHOWN else ""
        console.print(f"delivered together: {names}{more}")


def _names(result: Diagnosis, users: Sequence[int]) -> str:
    names = [result.participation.names[user] for user in users[:_SHOWN]]
    if len(users) > _SHOWN:
        names.append("…")
    return ", ".join(names)


def _tests(result: Diagnosis) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, caption_justify="left")
    table.add_column("question")
    table.add_column("seen")
    table.add_column("p", justify="right", no_wrap=True)
    table.add_column("answer")
    for place, test in enumerate(result.tests):
        if not test.decides:
            style = "dim"
        elif test.yes:
            style = "bold"
        else:
            style = ""
        is_last = test.decides and not result.tests[place + 1].decides  # tests that do not decide follow
        p = format_p_value(test.p, is_monte_carlo=test.name == "memory")
        table.add_row(test.question, test.statistic or "–", p, test.answer, style=style, end_section=is_last)
    limit = f"{100 * result.level:g} %"
    table.caption = f"The first four tests decide; the probability of any false alarm in them is below {limit}."
    return table


def _overall(result: Diagnosis) -> Text:
    concentration = result.concentration
    deliveries = _deliveries(result)
    entropy = _entropy(result)
    return Text(
        f"{deliveries}; {result.participation.users} users count as {concentration.effective:.1f} (1/Σρ²); "
        f"Gini {concentration.gini:.2f}, Jain {concentration.jain:.2f}\n{entropy}"
    )


def _deliveries(result: Diagnosis) -> str:
    counting = int(result.rates.deliveries.sum())
    repeated = result.participation.repeated
    if not repeated:
        return f"{counting} deliveries"
    return f"{counting + repeated} deliveries, of which {counting} count"


def _entropy(result: Diagnosis) -> str:
    order = result.order
    rate = f"{order.entropy_rate:.3g} bits a round"
    if result.verdict == "stationary":
        return f"entropy {rate}"
    if result.verdict != "Markovian":
        return f"entropy at most {rate}"
    chains = f"second eigenvalue {order.eigenvalue:.3f}"
    if order.mixing is not None:
        chains += f", mixing time {order.mixing}"
    return f"entropy at most {rate}; as first-order chains: {chains}"


def _rarest(result: Diagnosis, rare: int, width: int, pooled: Ints | None) -> Table:
    """Return the users with the fewest deliveries, in all replicas if *pooled* is given."""
    rates = result.rates
    waits = result.waits
    times_s = waits.silence_s
    stated = None if result.expected is None else result.expected.rates
    deliveries = rates.deliveries
    scope = ""
    if pooled is not None:
        deliveries = pooled
        scope = " in all replicas"
    if result.participation.repeated:
        scope += ", one for each round"
    rarest = np.argsort(deliveries, kind="stable")[:rare]

    heads = ["user", "updates", "rho", f"{100 * (1 - result.level):g} % interval"]
    if stated is not None:
        heads.append("stated")
    heads += ["min. α", "age", "silence"]
    title = f"the {len(rarest)} rarest users"
    table = new_table(*heads, pad_edge=False, title=title, title_justify="left", caption_justify="left")
    table.caption = (
        f"updates: delivered{scope}; min. α: the smallest CVaR tail that covers this user and all rarer ones; "
        "age: mean rounds since a delivery; silence: the longest"
    )

    min_alpha = dict(zip(result.reach.users.tolist(), result.reach.alpha.tolist(), strict=True))
    for user in rarest.tolist():
        silence = f"{waits.silence[user]}"
        if times_s is not None and width >= _WIDE:
            silence += f" ({clock(float(times_s[user]))})"
        row = [
            shortened(result.participation.names[user], _LONGEST),
            str(deliveries[user]),
            f"{rates.rho[user]:.4f}",
            f"{rates.low[user]:.4f} – {rates.high[user]:.4f}",
        ]
        if stated is not None:
            row.append(f"{stated[user]:.4f}")
        row += [
            f"{min_alpha[user]:.4f}" if user in min_alpha else "never",
            _rounds(waits.age[user]),
            silence,
        ]
        table.add_row(*row)
    return table


def explain_meaning(result: Diagnosis, rare: int) -> list[str]:
    """Return sentences about the consequences for a learner."""
    reach = result.reach
    rarest = "the rarest user"
    if reach.beyond:
        rarest += " with deliveries"
    line = f"A CVaR tail of α = {reach.min_alpha:.4f} covers all deliveries of {rarest}"
    few = min(rare, len(reach.users))
    if few > 1:
        line += f"; one of α = {reach.alpha[few - 1]:.4f} covers those of the {few} rarest"
    lines = [f"{line}."]
    if reach.beyond:
        missing = "user" if len(reach.beyond) == 1 else f"{len(reach.beyond)} users"
        lines.append(f"No tail covers the {missing} without deliveries: {_names(result, reach.beyond)}.")

    learners: Iterable[str] = ()
    if result.expected is not None and result.expected.alphas is not None:
        learners = result.expected.alphas
    labels = [f" of {learner}" for learner in learners]
    unnamed = len(reach.tails) - len(labels)  # those of levels in the command come first
    labels = [""] * unnamed + labels
    for tail, label in zip(reach.tails, labels, strict=True):
        lines.append(_tail(tail.alpha, label, tail.whole, tail.part))

    slowest = int(reach.users[0])
    needed = []
    for count in DELIVERY_COUNTS:
        rounds = result.waits.until(count)[slowest]
        needed.append(f"{_rounds(rounds)} for {counted(count, 'update')}")
    lines.append(f"Rounds that {rarest} needs on average: {', '.join(needed)}.")
    return lines


def _tail(alpha: float, label: str, whole: int, part: float) -> str:
    tail = f"The tail of α = {alpha:g}{label}"
    if not whole:
        return f"{tail} covers no user completely: the deliveries of the rarest would fill it {1 / part:.1f} times."
    users = "the rarest user" if whole == 1 else f"the {whole} rarest users"
    more = f", and {100 * part:.0f} % of those of the next" if part > 0.005 else ""
    return f"{tail} covers all deliveries of {users}{more}."


def _rounds(value: float) -> str:
    if math.isinf(value):
        return "∞"
    if value < 100:
        return f"{value:.3g}"
    return f"{value:.0f}"
