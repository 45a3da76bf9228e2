"""A diagnosis in words: the tests as questions with answers, and the verdict as a sentence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from netfl.diagnosis.dependence import Dependence
from netfl.diagnosis.drift import Drift, WindowedRates
from netfl.diagnosis.memory import SHUFFLES, Memory, TransitionCounts
from netfl.diagnosis.multiple_testing import HypothesisTest, Kind
from netfl.diagnosis.participation import Participation
from netfl.diagnosis.periodicity import Periodicity
from netfl.diagnosis.run_lengths import RunLengths
from netfl.results.formatting import clock

if TYPE_CHECKING:
    from netfl.diagnosis.result import MarkovOrder

SURE = 0.01
"""The level of each test that decides nothing."""


@dataclass(frozen=True, slots=True)
class DiagnosisText:
    """All that the words are about; *found* says what each deciding test found, at the level left to it."""

    found: dict[str, bool | None]
    drift: Drift
    cycle: Periodicity
    memory: Memory
    dependence: Dependence
    order: MarkovOrder
    stays: RunLengths
    windows: WindowedRates
    chains: TransitionCounts


def all_tests(told: DiagnosisText) -> tuple[HypothesisTest, ...]:
    """Every question that was asked, those that decide first."""
    return (_drift(told), _cycle(told), _memory(told), _dependence(told), _second(told), _lengths(told), _windows(told))


def verdict_sentence(kind: Kind, seen: Participation, told: DiagnosisText, changes: Sequence[int]) -> str:
    """The verdict in one sentence, and in a second one what was found besides."""
    many = f"in {seen.rounds} rounds of {seen.users} users"
    said = {
        "stationary": f"Nothing speaks against a stationary selection {many}: "
        "who is heard in a round does not depend on when it is, or on who was heard before.",
        "Markovian": f"The selection is Markovian {many}: who was heard in one round says something of the next; "
        f"{_forgets(told.order)}.",
        "cyclic": f"The selection is cyclic {many}: it repeats every {_period(told.cycle)}{_duty(told.cycle)}.",
        "non-stationary": f"The selection is not stationary {many}: how often users are heard changes over the "
        f"recording{_when(changes)}.",
        "emergent-correlated": f"Rounds are independent {many}, but users are not: {_together(told.dependence)}.",
    }[kind]
    return " ".join([said, *_besides(kind, told)])


def _besides(kind: Kind, told: DiagnosisText) -> list[str]:
    """What was found that the verdict does not name."""
    more = []
    if kind == "non-stationary" and told.found["cycle"]:
        more.append(f"It also repeats every {_period(told.cycle)}.")
    if kind == "Markovian" and told.found["dependence"]:
        more.append(f"Besides, users depend on each other: {_together(told.dependence)}.")
    return more


def _forgets(order: MarkovOrder) -> str:
    """How fast memory fades."""
    if order.second is not None and order.second <= SURE:
        return "memory reaches back further than that"
    if order.mixing is None:
        return "it never forgets"
    rounds = "one round" if order.mixing == 1 else f"{order.mixing} rounds"
    return f"it forgets within {rounds}"


def _period(cycle: Periodicity) -> str:
    """The length of the cycle."""
    if cycle.period is None:
        return "so often"
    rounds = f"{cycle.period:.1f}".removesuffix(".0") + " rounds"
    return rounds if cycle.period_s is None else f"{clock(cycle.period_s)} ({rounds})"


def _duty(cycle: Periodicity) -> str:
    """The part of the cycle for which users are there."""
    return "" if cycle.duty is None else f", and users are there for {100 * cycle.duty:.0f} % of that"


def _when(changes: Sequence[int]) -> str:
    """Where rates change."""
    if not changes:
        return ""
    rounds = ", ".join(map(str, changes[:-1])) + (" and " if len(changes) > 1 else "") + str(changes[-1])
    return f", most clearly after round{'s' if len(changes) > 1 else ''} {rounds}"


def _together(dependence: Dependence) -> str:
    """How users depend on each other."""
    if dependence.groups:
        number, most = len(dependence.groups), len(dependence.groups[0])
        groups = f"one group of {most}" if number == 1 else f"{number} groups of up to {most}"
        return f"{groups} are heard together more often than their rates explain"
    if dependence.spread > 1:
        return f"the number heard in a round varies {dependence.spread:.2g} times as much as that of independent users"
    return f"they are heard together, or apart, with a correlation of {dependence.correlation:.2g}"


def _drift(told: DiagnosisText) -> HypothesisTest:
    drift = told.drift
    looked = f"{_times(drift.ratio)} expected"
    answer = "yes" if told.found["drift"] else "no"
    return HypothesisTest("drift", "Do rates drift?", looked, drift.p, told.found["drift"], answer)


def _cycle(told: DiagnosisText) -> HypothesisTest:
    cycle = told.cycle
    looked = f"{_times(cycle.ratio)} around it"
    answer = f"yes: {_period(cycle)}" if told.found["cycle"] else "no"
    return HypothesisTest("cycle", "Does it repeat?", looked, cycle.p, told.found["cycle"], answer)


def _memory(told: DiagnosisText) -> HypothesisTest:
    memory = told.memory
    looked = f"G² = {memory.statistic:.1f}"
    answer = "no, memoryless"
    if told.found["memory"]:
        longer = told.order.second is not None and told.order.second <= SURE
        answer = f"yes, as {_why(told)}" if _why(told) else "yes" if longer else f"yes, {_forgets(told.order)}"
    return HypothesisTest("memory", "Memory of one round?", looked, memory.p, told.found["memory"], answer)


def _dependence(told: DiagnosisText) -> HypothesisTest:
    own = told.dependence
    question = "Users heard together?"
    if own.p is None:
        return HypothesisTest("dependence", question, "", None, None, f"not asked: {own.why_not}")
    if _why(told):
        return HypothesisTest("dependence", question, "", None, None, f"not asked: {_why(told)}")
    looked = f"correlation {own.correlation:.2g}"
    yes = told.found["dependence"]
    answer = (
        f"yes, {len(own.groups)} group{'s' * (len(own.groups) != 1)}" if yes and own.groups else "yes" if yes else "no"
    )
    return HypothesisTest("dependence", question, looked, own.p, yes, answer)


def _why(told: DiagnosisText) -> str:
    """What makes users depend on the past and on each other anyway; empty for nothing."""
    return "rates drift" if told.found["drift"] else "it repeats" if told.found["cycle"] else ""


def _second(told: DiagnosisText) -> HypothesisTest:
    p = told.order.second
    question = "Memory of more rounds?"
    if p is None:
        return HypothesisTest("second", question, "", None, None, "too few counts")
    yes = p <= SURE
    return HypothesisTest("second", question, "G² of all users", p, yes, "yes" if yes else "no")


def _lengths(told: DiagnosisText) -> HypothesisTest:
    p = told.stays.p
    question = "Geometric stays?"
    if p is None:
        return HypothesisTest("stays", question, "", None, None, "too few stays")
    able = int(np.isfinite(np.concatenate([told.stays.on_p, told.stays.off_p])).sum())
    return HypothesisTest("stays", question, f"χ² of {able} run lengths", p, p > SURE, "no" if p <= SURE else "yes")


def _windows(told: DiagnosisText) -> HypothesisTest:
    own = told.windows
    looked = f"χ² = {own.statistic:.0f} of {own.freedom:.0f}"
    yes = own.p > SURE
    return HypothesisTest("windows", f"Alike in {own.windows} windows?", looked, own.p, yes, "yes" if yes else "no")


def _times(ratio: float) -> str:
    """A ratio in words."""
    return f"{ratio:.2f} ×" if ratio < 100 else f"{ratio:.3g} ×" if ratio < 1e4 else "> 10⁴ ×"


def format_p_value(p: float | None, shuffles: bool = False) -> str:
    """A p-value for people.

    >>> format_p_value(0.0123), format_p_value(1e-9), format_p_value(None), format_p_value(1.0)
    ('0.012', '< 0.0001', '–', '1')
    """
    if p is None:
        return "–"
    if shuffles and p <= 1.01 / (SHUFFLES + 1):
        return f"≤ {1 / (SHUFFLES + 1):.3f}"
    return "< 0.0001" if p < 1e-4 else f"{p:.2g}"
