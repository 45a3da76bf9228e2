"""Text of a diagnosis: the tests as questions with answers, and the verdict as a sentence."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from netfl.diagnosis.dependence import Dependence
from netfl.diagnosis.memory import MAX_SHUFFLES, MarkovOrder
from netfl.diagnosis.multiple_testing import HypothesisTest
from netfl.diagnosis.periodicity import Periodicity
from netfl.results.formatting import clock, format_count, join_words

if TYPE_CHECKING:
    from netfl.diagnosis.result import Diagnosis

LEVEL = 0.01
"""Significance level of each test that does not decide the verdict."""


def describe_tests(result: Diagnosis) -> Iterator[HypothesisTest]:
    """Describe all tests, the deciding ones first."""
    drift, cycle, memory, dependence = result.drift, result.cycle, result.order.memory, result.dependence
    is_found = result.rejected
    answer = "yes" if is_found["drift"] else "no"
    if result.slow_cycle is not None:
        answer = "yes, or a slow cycle" if is_found["drift"] else "not beyond the cycle"
    yield HypothesisTest(
        "drift", "Do rates drift?", f"{_ratio(drift.ratio)} expected", drift.p, is_found["drift"], answer
    )
    answer = f"yes: {_periods(cycle)}" if is_found["cycle"] else "no"
    yield HypothesisTest(
        "cycle", "Does it repeat?", f"{_ratio(cycle.ratio)} around it", cycle.p, is_found["cycle"], answer
    )
    # users depend on the past and on each other anyway where rates drift or repeat
    confounder = "rates drift" if is_found["drift"] else "it repeats" if is_found["cycle"] else ""
    if not is_found["memory"]:
        answer = "no, memoryless"
    elif confounder:
        answer = f"yes, as {confounder}"
    else:
        answer = "yes" if _has_long_memory(result.order) else f"yes, {_mixing(result.order)}"
    statistic = f"G² = {memory.statistic:.1f}"
    yield HypothesisTest("memory", "Memory of one round?", statistic, memory.p, is_found["memory"], answer)
    question, reason = "Deliveries correlated?", dependence.why_not if dependence.p is None else confounder
    if reason:
        yield HypothesisTest("dependence", question, "", None, None, f"not tested: {reason}")
    else:
        groups = len(dependence.groups)
        answer = f"yes, {groups} group{'s' * (groups != 1)}" if groups else "yes"
        answer, statistic = answer if is_found["dependence"] else "no", f"correlation {dependence.correlation:.2g}"
        yield HypothesisTest("dependence", question, statistic, dependence.p, is_found["dependence"], answer)
    question, p = "Memory of more rounds?", result.order.second
    if p is None:
        yield HypothesisTest("second", question, "", None, None, "too few counts")
    else:
        yield HypothesisTest("second", question, "G² of all users", p, p <= LEVEL, "yes" if p <= LEVEL else "no")
    question, p = "Unusual stay lengths?", result.stays.p
    if p is None:
        yield HypothesisTest("stays", question, "", None, None, "too few stays")
    else:
        tested = int(np.isfinite(np.concatenate([result.stays.on_p, result.stays.off_p])).sum())
        answer = "yes" if p <= LEVEL else "no"
        yield HypothesisTest("stays", question, f"χ² of {tested} run lengths", p, p <= LEVEL, answer)
    windows, is_uneven = result.windows, result.windows.p <= LEVEL
    question, answer = f"Do {windows.windows} windows differ?", "yes" if is_uneven else "no"
    statistic = f"χ² = {windows.statistic:.0f} of {windows.freedom:.0f}"
    yield HypothesisTest("windows", question, statistic, windows.p, is_uneven, answer)


def verdict_sentence(result: Diagnosis) -> str:
    """Write the verdict as a sentence, and further findings as a second one."""
    size = f"in {format_count(result.participation.rounds)} rounds of {format_count(result.participation.users)} users"
    cycle = result.cycle
    duty = "" if cycle.duty is None else f", and users are available for {100 * cycle.duty:.0f} % of that"
    changes = ""
    if result.changes:
        plural = "s" * (len(result.changes) > 1)
        changes = f", most clearly after round{plural} {join_words([*map(str, result.changes)])}"
    sentence = {
        "stationary": f"The selection is consistent with a stationary one {size}: "
        "the deliveries of a round do not depend on its time, or on earlier deliveries.",
        "Markovian": f"The selection is Markovian {size}: the deliveries of one round predict those of the next; "
        f"{_mixing(result.order)}.",
        "cyclic": f"The selection is cyclic {size}: it repeats every {_periods(cycle)}{duty}.",
        "non-stationary": f"The selection is not stationary {size}: participation changes over the recording{changes}.",
        "emergent-correlated": f"Rounds are independent {size}, but users are not: {_correlation(result.dependence)}.",
    }[result.verdict]
    if result.verdict == "cyclic" and len(cycle.periods) == 2:
        sentence = f"The selection is cyclic with periods of {_periods(cycle)}, {size}."
    if result.verdict == "non-stationary" and result.rejected["cycle"]:
        sentence += f" It also repeats every {_periods(cycle)}."
    if result.verdict == "non-stationary" and (slow := result.slow_cycle) is not None:
        sentence += (
            f" A cycle of {_period(slow.period, slow.period_s)} would explain this, but the recording is too short to "
            f"tell: it covers {slow.cycles:.1f} periods. Record at least three."
        )
    if result.verdict == "Markovian" and result.rejected["dependence"]:
        sentence += f" Users also depend on each other: {_correlation(result.dependence)}."
    return sentence


def format_p_value(p: float | None, is_monte_carlo: bool = False) -> str:
    """Format a p-value.

    >>> format_p_value(0.0123), format_p_value(1e-9), format_p_value(None), format_p_value(1.0)
    ('0.012', '< 0.0001', '–', '1')
    """
    if p is None:
        return "–"
    if is_monte_carlo and p <= 1.01 / (MAX_SHUFFLES + 1):
        return f"≤ {1 / (MAX_SHUFFLES + 1):.3f}"
    return "< 0.0001" if p < 1e-4 else f"{p:.2g}"


def _has_long_memory(order: MarkovOrder) -> bool:
    return order.second is not None and order.second <= LEVEL


def _mixing(order: MarkovOrder) -> str:
    if _has_long_memory(order):
        return "memory is longer than one round"
    if order.mixing is None:
        return "memory does not decay"
    return f"memory decays within {'one round' if order.mixing == 1 else f'{order.mixing} rounds'}"


def _periods(cycle: Periodicity) -> str:
    if not cycle.periods:
        return "so often"
    times_s = cycle.periods_s or [None] * len(cycle.periods)
    return join_words([*map(_period, cycle.periods, times_s)])


def _period(period: float, period_s: float | None) -> str:
    """Format a period in rounds and seconds, with three digits."""
    rounds = f"{period:.{0 if period >= 100 else 1}f}".removesuffix(".0") + " rounds"
    if period_s is None:
        return rounds
    return f"{rounds} ({clock(float(f'{period_s:.3g}')).removesuffix(' 00 min')})"


def _correlation(dependence: Dependence) -> str:
    if dependence.groups:
        number, largest = len(dependence.groups), len(dependence.groups[0])
        groups = f"one group of {largest}" if number == 1 else f"{number} groups of up to {largest}"
        return f"{groups} are delivered together more often than their rates explain"
    if dependence.spread > 1:
        return f"the deliveries in a round vary {dependence.spread:.2g} times as much as those of independent users"
    return f"their deliveries coincide with a correlation of {dependence.correlation:.2g}"


def _ratio(ratio: float) -> str:
    return f"{ratio:.2f} ×" if ratio < 100 else f"{ratio:.3g} ×" if ratio < 1e4 else "> 10⁴ ×"
