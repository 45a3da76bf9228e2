"""Text of a diagnosis: the tests as questions with answers, and the verdict as a sentence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from netfl.diagnosis.dependence import Dependence
from netfl.diagnosis.drift import Drift, WindowedRates
from netfl.diagnosis.memory import MAX_SHUFFLES, MarkovOrder, Memory, TransitionCounts
from netfl.diagnosis.multiple_testing import HypothesisTest, Kind
from netfl.diagnosis.participation import Participation
from netfl.diagnosis.periodicity import Periodicity
from netfl.diagnosis.run_lengths import RunLengths
from netfl.results.formatting import clock

LEVEL = 0.01
"""Significance level of each test that does not decide the verdict."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """Results of all tests; *rejected* holds those of the deciding tests, at their corrected levels."""

    rejected: dict[str, bool | None]
    drift: Drift
    cycle: Periodicity
    memory: Memory
    dependence: Dependence
    order: MarkovOrder
    stays: RunLengths
    windows: WindowedRates
    chains: TransitionCounts

    @property
    def has_long_memory(self) -> bool:
        """Memory of more than one round was found."""
        return self.order.second is not None and self.order.second <= LEVEL

    @property
    def confounder(self) -> str:
        """A reason for which users depend on the past and on each other anyway; empty for none."""
        return "rates drift" if self.rejected["drift"] else "it repeats" if self.rejected["cycle"] else ""


def describe_tests(evidence: Evidence) -> tuple[HypothesisTest, ...]:
    """Describe all tests, the deciding ones first."""
    parts = (_drift, _cycle, _memory, _dependence, _second_order, _run_lengths, _windows)
    return tuple(part(evidence) for part in parts)


def verdict_sentence(kind: Kind, participation: Participation, evidence: Evidence, changes: Sequence[int]) -> str:
    """Write the verdict as a sentence, and further findings as a second one."""
    size = f"in {participation.rounds} rounds of {participation.users} users"
    cycle, dependence = evidence.cycle, evidence.dependence
    sentence = {
        "stationary": f"Nothing speaks against a stationary selection {size}: "
        "who is heard in a round does not depend on when it is, or on who was heard before.",
        "Markovian": f"The selection is Markovian {size}: who was heard in one round says something of the next; "
        f"{_mixing(evidence)}.",
        "cyclic": f"The selection is cyclic {size}: it repeats every {_period(cycle)}{_duty(cycle)}.",
        "non-stationary": f"The selection is not stationary {size}: how often users are heard changes over the "
        f"recording{_change_rounds(changes)}.",
        "emergent-correlated": f"Rounds are independent {size}, but users are not: {_correlation(dependence)}.",
    }[kind]
    if kind == "non-stationary" and evidence.rejected["cycle"]:
        sentence += f" It also repeats every {_period(cycle)}."
    if kind == "Markovian" and evidence.rejected["dependence"]:
        sentence += f" Besides, users depend on each other: {_correlation(dependence)}."
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


def _mixing(evidence: Evidence) -> str:
    if evidence.has_long_memory:
        return "memory reaches back further than that"
    mixing = evidence.order.mixing
    if mixing is None:
        return "it never forgets"
    return f"it forgets within {'one round' if mixing == 1 else f'{mixing} rounds'}"


def _period(cycle: Periodicity) -> str:
    if cycle.period is None:
        return "so often"
    rounds = f"{cycle.period:.1f}".removesuffix(".0") + " rounds"
    return rounds if cycle.period_s is None else f"{clock(cycle.period_s)} ({rounds})"


def _duty(cycle: Periodicity) -> str:
    return "" if cycle.duty is None else f", and users are there for {100 * cycle.duty:.0f} % of that"


def _change_rounds(changes: Sequence[int]) -> str:
    if not changes:
        return ""
    rounds = ", ".join(map(str, changes[:-1])) + (" and " if len(changes) > 1 else "") + str(changes[-1])
    return f", most clearly after round{'s' if len(changes) > 1 else ''} {rounds}"


def _correlation(dependence: Dependence) -> str:
    if dependence.groups:
        number, largest = len(dependence.groups), len(dependence.groups[0])
        groups = f"one group of {largest}" if number == 1 else f"{number} groups of up to {largest}"
        return f"{groups} are heard together more often than their rates explain"
    if dependence.spread > 1:
        return f"the number heard in a round varies {dependence.spread:.2g} times as much as that of independent users"
    return f"they are heard together, or apart, with a correlation of {dependence.correlation:.2g}"


def _drift(evidence: Evidence) -> HypothesisTest:
    is_found = evidence.rejected["drift"]
    statistic = f"{_ratio(evidence.drift.ratio)} expected"
    return HypothesisTest(
        "drift", "Do rates drift?", statistic, evidence.drift.p, is_found, "yes" if is_found else "no"
    )


def _cycle(evidence: Evidence) -> HypothesisTest:
    cycle, is_found = evidence.cycle, evidence.rejected["cycle"]
    answer = f"yes: {_period(cycle)}" if is_found else "no"
    return HypothesisTest("cycle", "Does it repeat?", f"{_ratio(cycle.ratio)} around it", cycle.p, is_found, answer)


def _memory(evidence: Evidence) -> HypothesisTest:
    memory, is_found = evidence.memory, evidence.rejected["memory"]
    if not is_found:
        answer = "no, memoryless"
    elif evidence.confounder:
        answer = f"yes, as {evidence.confounder}"
    else:
        answer = "yes" if evidence.has_long_memory else f"yes, {_mixing(evidence)}"
    statistic = f"G² = {memory.statistic:.1f}"
    return HypothesisTest("memory", "Memory of one round?", statistic, memory.p, is_found, answer)


def _dependence(evidence: Evidence) -> HypothesisTest:
    dependence, question = evidence.dependence, "Users heard together?"
    reason = dependence.why_not if dependence.p is None else evidence.confounder
    if reason:
        return HypothesisTest("dependence", question, "", None, None, f"not asked: {reason}")
    is_found, groups = evidence.rejected["dependence"], len(dependence.groups)
    answer = "no" if not is_found else f"yes, {groups} group{'s' * (groups != 1)}" if groups else "yes"
    statistic = f"correlation {dependence.correlation:.2g}"
    return HypothesisTest("dependence", question, statistic, dependence.p, is_found, answer)


def _second_order(evidence: Evidence) -> HypothesisTest:
    p, question = evidence.order.second, "Memory of more rounds?"
    if p is None:
        return HypothesisTest("second", question, "", None, None, "too few counts")
    return HypothesisTest("second", question, "G² of all users", p, p <= LEVEL, "yes" if p <= LEVEL else "no")


def _run_lengths(evidence: Evidence) -> HypothesisTest:
    stays, question = evidence.stays, "Geometric stays?"
    p = stays.p
    if p is None:
        return HypothesisTest("stays", question, "", None, None, "too few stays")
    tested = int(np.isfinite(np.concatenate([stays.on_p, stays.off_p])).sum())
    answer = "no" if p <= LEVEL else "yes"
    return HypothesisTest("stays", question, f"χ² of {tested} run lengths", p, p > LEVEL, answer)


def _windows(evidence: Evidence) -> HypothesisTest:
    windows = evidence.windows
    question, is_even = f"Alike in {windows.windows} windows?", windows.p > LEVEL
    statistic = f"χ² = {windows.statistic:.0f} of {windows.freedom:.0f}"
    return HypothesisTest("windows", question, statistic, windows.p, is_even, "yes" if is_even else "no")


def _ratio(ratio: float) -> str:
    return f"{ratio:.2f} ×" if ratio < 100 else f"{ratio:.3g} ×" if ratio < 1e4 else "> 10⁴ ×"
