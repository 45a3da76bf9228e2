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
        parts = ("rates", "concentration", "chains", "stays", "order", "local_memory", "cycle", "drift", "slow_cycle")
        for name in (*parts, "windows", "dependence", "waits", "reach", "expected"):
            flat.update(_flatten(name, getattr(self, name)))
        for count in DELIVERY_COUNTS:
            flat[f"waits.until_{count}"] = _plain(self.waits.until(count))
        return flat | {"changes": list(self.changes), "agrees": self.agrees}


def _describe_tests(result: Diagnosis) -> Iterator[HypothesisTest]:
    """Describe all tests, the deciding ones first."""
    drift, cycle, memory, dependence = result.drift, result.cycle, result.order.memory, result.dependence
    is_found = result.rejected
    answer = "yes" if is_found["drift"] else "no"
    if result.slow_cycle is not None:
        answer = "yes, or a slow cycle" if is_found["drift"] else "not beyond the cycle"
    yield HypothesisTest(
        "drift", "Do rates drift?", f"{format_ratio(drift.ratio)} expected", drift.p, is_found["drift"], answer
    )
    answer = f"yes: {describe_periods(cycle)}" if is_found["cycle"] else "no"
    yield HypothesisTest(
        "cycle", "Does it repeat?", f"{format_ratio(cycle.ratio)} around it", cycle.p, is_found["cycle"], answer
    )
    # users depend on the past and on each other anyway where rates drift or repeat
    confounder = "rates drift" if is_found["drift"] else "it repeats" if is_found["cycle"] else ""
    if not is_found["memory"]:
        answer = "no, memoryless"
    elif confounder:
        answer = f"yes, beyond the {result.beyond}" if result.has_local_memory else f"yes, as {confounder}"
    else:
        answer = "yes" if has_long_memory(result.order) else f"yes, {describe_mixing(result.order)}"
    statistic = f"G² = {memory.statistic:.1f}"
    yield HypothesisTest("memory", "Memory of one round?", statistic, memory.p, is_found["memory"], answer)
    question = "Deliveries correlated?"
    if dependence.p is None:
        yield HypothesisTest("dependence", question, "", None, None, f"not tested: {dependence.why_not}")
    else:
        groups = len(dependence.groups)
        answer = "yes" if is_found["dependence"] else "no"
        if is_found["dependence"] and groups:
            answer += f", {groups} group{'s' * (groups != 1)}"
        if result.beyond:
            answer += f", beyond the {result.beyond}"
        statistic = f"correlation {dependence.correlation:.2g}"
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


def _verdict_sentence(result: Diagnosis) -> str:
    """Write the verdict as a sentence, and further findings as a second one."""
    size = f"in {format_count(result.participation.rounds)} rounds of {format_count(result.participation.users)} users"
    cycle = result.cycle
    duty = "" if cycle.duty is None else f", and users are available for {100 * cycle.duty:.0f} % of that"
    changes = ""
    if result.changes:
        plural = "s" * (len(result.changes) > 1)
        changes = f", most clearly after round{plural} {join_words([*map(str, result.changes)])}"
    dependence = describe_correlation(result.dependence)
    # the first cause in the words of its own verdict, further ones as sentences of their own
    first = result.verdict
    if first in COMBINED.values():
        first = "non-stationary" if result.rejected["drift"] else "cyclic"
    sentence = {
        "stationary": f"The selection is consistent with a stationary one {size}: "
        "the deliveries of a round do not depend on its time, or on earlier deliveries.",
        "Markovian": f"The selection is Markovian {size}: the deliveries of one round predict those of the next; "
        f"{describe_mixing(result.order)}.",
        "cyclic": f"The selection is cyclic {size}: it repeats every {describe_periods(cycle)}{duty}.",
        "non-stationary": f"The selection is not stationary {size}: participation changes over the recording{changes}.",
        "emergent-correlated": f"Rounds are independent {size}, but users are not: {dependence}.",
    }[first]
    if first == "cyclic" and len(cycle.periods) == 2:
        sentence = f"The selection is cyclic with periods of {describe_periods(cycle)}, {size}."
    if first == "non-stationary" and result.rejected["cycle"]:
        sentence += f" It also repeats every {describe_periods(cycle)}."
    if first == "non-stationary" and (slow := result.slow_cycle) is not None:
        sentence += (
            f" A cycle of {describe_period(slow.period, slow.period_s)} would explain this, but the recording is too "
            f"short to tell: it covers {slow.cycles:.1f} periods. Record at least three."
        )
    if result.beyond and result.rejected["dependence"]:
        sentence += f" Beyond the {result.beyond}, users depend on each other: {dependence}."
    if result.has_local_memory:
        also = "also " if result.rejected["dependence"] else ""
        sentence += f" Beyond the {result.beyond}, deliveries {also}depend on those of the round before."
    if result.verdict == "Markovian" and result.rejected["dependence"]:
        sentence += f" Users also depend on each other: {dependence}."
    return sentence


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
    return None if isinstance(value, float) and not math.isfinite(value) else value
