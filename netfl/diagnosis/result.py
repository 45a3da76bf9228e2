"""The result of a diagnosis: typed, in words, and as a flat JSON object."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netfl.diagnosis.dependence import Dependence
from netfl.diagnosis.drift import Drift, WindowedRates
from netfl.diagnosis.memory import MarkovOrder, Memory, RunLengths, TransitionCounts
from netfl.diagnosis.multiple_testing import COMBINED, HypothesisTest, Kind, kind_of
from netfl.diagnosis.participation import Participation
from netfl.diagnosis.periodicity import Periodicity
from netfl.diagnosis.rates import DELIVERY_COUNTS, AgeStatistics, Concentration, CvarReach, Rates
from netfl.diagnosis.slow_cycle import SlowCycle
from netfl.diagnosis.text import (
    LEVEL,
    describe_correlation,
    describe_mixing,
    describe_period,
    describe_periods,
    format_ratio,
    has_long_memory,
)
from netfl.results.formatting import format_count, join_words

_FLATTENED = (
    "rates", "concentration", "chains", "stays", "order", "local_memory", "cycle", "drift", "slow_cycle", "windows",
    "dependence", "waits", "reach", "expected",
)  # fmt: skip
"""Fields of a diagnosis whose own fields are written to JSON, in this order."""


@dataclass(frozen=True, slots=True)
class ExpectedProcess:
    """Prior knowledge of a selection, such as its scenario.

    Args:
        source: the source of the knowledge, in words.
        process: the kind of process; ``None`` if unknown.
        rates: the participation rate of each user; ``None`` if unknown.
        alphas: the α of each learner that has one, by name.
    """

    source: str
    process: str | None = None
    rates: NDArray[np.float64] | None = None
    alphas: Mapping[str, float] | None = None


@dataclass(frozen=True)
class Diagnosis:
    """Classification of a selection process, with the evidence and the consequences.

    Args:
        level: upper limit of the probability that any deciding test raises a false alarm, and that any interval
            misses.
        rejected: null hypotheses of the deciding tests that are rejected at their corrected levels, by name of the
            test; ``None`` for a test that does not apply.
        participation: the deliveries.
        rates: participation rates.
        concentration: concentration of the deliveries on users.
        chains: two-state chain of each user.
        stays: run lengths of each user.
        order: order and strength of memory.
        local_memory: the test for memory beyond a drift or a cycle of the rates; ``None`` without these.
        cycle: cycle of participation.
        drift: test for drift, without the slow cycle if the recording is long enough for it.
        slow_cycle: the slow cycle that explains changes of the rates; ``None`` if there are none, or not by a cycle.
        windows: rates in equal windows.
        changes: rounds after which rates change, if they drift.
        dependence: joint deliveries of users, beyond a drift or a cycle if there is one.
        waits: silences and ages.
        reach: the users that a CVaR tail can hold.
        expected: prior knowledge; ``None`` for none.
        agrees: all stated rates lie within their intervals; ``None`` without stated rates.
        notes: assumptions and limits, in sentences.
    """

    level: float
    rejected: Mapping[str, bool | None]
    participation: Participation
    rates: Rates
    concentration: Concentration
    chains: TransitionCounts
    stays: RunLengths
    order: MarkovOrder
    local_memory: Memory | None
    cycle: Periodicity
    drift: Drift
    slow_cycle: SlowCycle | None
    windows: WindowedRates
    changes: tuple[int, ...]
    dependence: Dependence
    waits: AgeStatistics
    reach: CvarReach
    expected: ExpectedProcess | None
    agrees: bool | None
    notes: tuple[str, ...]

    @property
    def verdict(self) -> Kind:
        """The verdict: stationary, Markovian, cyclic, non-stationary, emergent-correlated, or several of them."""
        return kind_of(self.rejected)

    @cached_property
    def tests(self) -> tuple[HypothesisTest, ...]:
        """Questions and answers of all tests, the deciding ones first."""
        return tuple(_describe_tests(self))

    @cached_property
    def sentence(self) -> str:
        """The verdict in words."""
        return _verdict_sentence(self)

    @property
    def beyond(self) -> str:
        """The causes in words without which memory and dependence are tested; empty if there are none."""
        return " and the ".join(self.dependence.beyond)

    @property
    def has_local_memory(self) -> bool:
        """The deliveries of a round depend on those of the round before beyond a drift or a cycle of the rates."""
        return self.local_memory is not None and self.local_memory.p <= LEVEL

    @property
    def p(self) -> dict[str, float | None]:
        """The p-values of the deciding tests."""
        return {test.name: test.p for test in self.tests if test.decides}

    def to_json(self) -> dict[str, Any]:
        """Return a flat object with dotted names; lists over users follow ``users``; unknown values are null."""
        flat: dict[str, Any] = {
            "verdict": self.verdict,
            "sentence": self.sentence,
            "level": self.level,
            "rounds": self.participation.rounds,
            "deliveries": int(self.rates.deliveries.sum()),
            "users": list(self.participation.names),
            "notes": list(self.notes),
        }
        for test in self.tests:
            for name in ("question", "statistic", "p", "yes", "answer", "decides"):
                flat[f"tests.{test.name}.{name}"] = _plain(getattr(test, name))
        for name in _FLATTENED:
            flat.update(_flatten(name, getattr(self, name)))
        for count in DELIVERY_COUNTS:
            flat[f"waits.until_{count}"] = _plain(self.waits.until(count))
        flat["changes"] = list(self.changes)
        flat["agrees"] = self.agrees
        return flat


def _describe_tests(result: Diagnosis) -> Iterator[HypothesisTest]:
    """Describe all tests, the deciding ones first."""
    yield _describe_drift(result)
    yield _describe_cycle(result)
    yield _describe_memory(result)
    yield _describe_dependence(result)
    yield _describe_second_order(result)
    yield _describe_stays(result)
    yield _describe_windows(result)


def _describe_drift(result: Diagnosis) -> HypothesisTest:
    drifts = result.rejected["drift"]
    answer = _yes_or_no(drifts)
    if result.slow_cycle is not None:
        answer = "yes, or a slow cycle" if drifts else "not beyond the cycle"
    statistic = f"{format_ratio(result.drift.ratio)} expected"
    return HypothesisTest("drift", "Do rates drift?", statistic, result.drift.p, drifts, answer)


def _describe_cycle(result: Diagnosis) -> HypothesisTest:
    cycle = result.cycle
    repeats = result.rejected["cycle"]
    answer = "no"
    if repeats:
        answer = f"yes: {describe_periods(cycle)}"
    statistic = f"{format_ratio(cycle.ratio)} around it"
    return HypothesisTest("cycle", "Does it repeat?", statistic, cycle.p, repeats, answer)


def _describe_memory(result: Diagnosis) -> HypothesisTest:
    memory = result.order.memory
    has_memory = result.rejected["memory"]
    if not has_memory:
        answer = "no, memoryless"
    elif result.has_local_memory:
        answer = f"yes, beyond the {result.beyond}"
    elif result.rejected["drift"]:  # which alone makes users depend on the past
        answer = "yes, as rates drift"
    elif result.rejected["cycle"]:
        answer = "yes, as it repeats"
    elif has_long_memory(result.order):
        answer = "yes"
    else:
        answer = f"yes, {describe_mixing(result.order)}"
    statistic = f"G² = {memory.statistic:.1f}"
    return HypothesisTest("memory", "Memory of one round?", statistic, memory.p, has_memory, answer)


def _describe_dependence(result: Diagnosis) -> HypothesisTest:
    dependence = result.dependence
    question = "Deliveries correlated?"
    if dependence.p is None:
        return HypothesisTest("dependence", question, "", None, None, f"not tested: {dependence.why_not}")
    is_dependent = result.rejected["dependence"]
    answer = _yes_or_no(is_dependent)
    groups = len(dependence.groups)
    if is_dependent and groups:
        answer += f", {groups} group{'s' * (groups != 1)}"
    if result.beyond:
        answer += f", beyond the {result.beyond}"
    statistic = f"correlation {dependence.correlation:.2g}"
    return HypothesisTest("dependence", question, statistic, dependence.p, is_dependent, answer)


def _describe_second_order(result: Diagnosis) -> HypothesisTest:
    question = "Memory of more rounds?"
    p = result.order.second
    if p is None:
        return HypothesisTest("second", question, "", None, None, "too few counts")
    return HypothesisTest("second", question, "G² of all users", p, p <= LEVEL, _yes_or_no(p <= LEVEL))


def _describe_stays(result: Diagnosis) -> HypothesisTest:
    question = "Unusual stay lengths?"
    p = result.stays.p
    if p is None:
        return HypothesisTest("stays", question, "", None, None, "too few stays")
    run_length_p = np.concatenate([result.stays.on_p, result.stays.off_p])
    tested = int(np.isfinite(run_length_p).sum())
    return HypothesisTest("stays", question, f"χ² of {tested} run lengths", p, p <= LEVEL, _yes_or_no(p <= LEVEL))


def _describe_windows(result: Diagnosis) -> HypothesisTest:
    windows = result.windows
    question = f"Do {windows.windows} windows differ?"
    statistic = f"χ² = {windows.statistic:.0f} of {windows.freedom:.0f}"
    differs = windows.p <= LEVEL
    return HypothesisTest("windows", question, statistic, windows.p, differs, _yes_or_no(differs))


def _yes_or_no(answer: bool | None) -> str:
    return "yes" if answer else "no"


def _verdict_sentence(result: Diagnosis) -> str:
    """Write the verdict as a sentence, and further findings as further ones."""
    # the first cause in the words of its own verdict
    first = result.verdict
    if first in COMBINED.values():
        first = "non-stationary" if result.rejected["drift"] else "cyclic"
    sentence = _first_sentence(result, first)

    # further causes as sentences of their own
    if first == "non-stationary" and result.rejected["cycle"]:
        sentence += f" It also repeats every {describe_periods(result.cycle)}."
    slow = result.slow_cycle
    if first == "non-stationary" and slow is not None:
        sentence += (
            f" A cycle of {describe_period(slow.period, slow.period_s)} would explain this, but the recording is too "
            f"short to tell: it covers {slow.cycles:.1f} periods. Record at least three."
        )
    dependence = describe_correlation(result.dependence)
    if result.beyond and result.rejected["dependence"]:
        sentence += f" Beyond the {result.beyond}, users depend on each other: {dependence}."
    if result.has_local_memory:
        also = "also " if result.rejected["dependence"] else ""
        sentence += f" Beyond the {result.beyond}, deliveries {also}depend on those of the round before."
    if result.verdict == "Markovian" and result.rejected["dependence"]:
        sentence += f" Users also depend on each other: {dependence}."
    return sentence


def _first_sentence(result: Diagnosis, kind: Kind) -> str:
    """Write the verdict as if it had the single cause of this *kind*."""
    size = f"in {format_count(result.participation.rounds)} rounds of {format_count(result.participation.users)} users"
    if kind == "cyclic":
        periods = describe_periods(result.cycle)
        if len(result.cycle.periods) == 2:
            return f"The selection is cyclic with periods of {periods}, {size}."
        duty = ""
        if result.cycle.duty is not None:
            duty = f", and users are available for {100 * result.cycle.duty:.0f} % of that"
        return f"The selection is cyclic {size}: it repeats every {periods}{duty}."
    if kind == "non-stationary":
        changes = ""
        if result.changes:
            plural = "s" * (len(result.changes) > 1)
            changes = f", most clearly after round{plural} {join_words([*map(str, result.changes)])}"
        return f"The selection is not stationary {size}: participation changes over the recording{changes}."
    if kind == "Markovian":
        mixing = describe_mixing(result.order)
        return f"The selection is Markovian {size}: the deliveries of one round predict those of the next; {mixing}."
    if kind == "emergent-correlated":
        return f"Rounds are independent {size}, but users are not: {describe_correlation(result.dependence)}."
    return (
        f"The selection is consistent with a stationary one {size}: the deliveries of a round do not depend on its "
        "time, or on earlier deliveries."
    )


def _flatten(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the fields of *value* under dotted names."""
    if is_dataclass(value):
        for field in fields(value):
            yield from _flatten(f"{name}.{field.name}", getattr(value, field.name))
    elif isinstance(value, tuple) and value and all(map(is_dataclass, value)):
        for field in fields(value[0]):
            yield f"{name}.{field.name}", [_plain(getattr(item, field.name)) for item in value]
    else:
        yield name, _plain(value)


def _plain(value: Any) -> Any:
    """Convert *value* to JSON types; numbers that are not finite become ``None``."""
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
