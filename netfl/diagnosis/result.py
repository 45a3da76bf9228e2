"""The result of a diagnosis, typed and as a flat JSON object."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netfl.diagnosis import text
from netfl.diagnosis.dependence import Dependence
from netfl.diagnosis.drift import Drift, WindowedRates
from netfl.diagnosis.memory import MarkovOrder, RunLengths, TransitionCounts
from netfl.diagnosis.multiple_testing import HypothesisTest, Kind, kind_of
from netfl.diagnosis.participation import Participation
from netfl.diagnosis.periodicity import Periodicity
from netfl.diagnosis.rates import DELIVERY_COUNTS, AgeStatistics, Concentration, CvarReach, Rates
from netfl.diagnosis.slow_cycle import SlowCycle


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
        cycle: cycle of participation.
        drift: test for drift, without the slow cycle if the recording is long enough for it.
        slow_cycle: the slow cycle that explains changes of the rates; ``None`` if there are none, or not by a cycle.
        windows: rates in equal windows.
        changes: rounds after which rates change, if they drift.
        dependence: joint deliveries of users.
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
        """The verdict: stationary, Markovian, cyclic, non-stationary or emergent-correlated."""
        return kind_of(self.rejected)

    @cached_property
    def tests(self) -> tuple[HypothesisTest, ...]:
        """Questions and answers of all tests, the deciding ones first."""
        return tuple(text.describe_tests(self))

    @cached_property
    def sentence(self) -> str:
        """The verdict in words."""
        return text.verdict_sentence(self)

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
        parts = ("rates", "concentration", "chains", "stays", "order", "cycle", "drift", "slow_cycle", "windows")
        for name in (*parts, "dependence", "waits", "reach", "expected"):
            flat.update(_flatten(name, getattr(self, name)))
        for count in DELIVERY_COUNTS:
            flat[f"waits.until_{count}"] = _plain(self.waits.until(count))
        return flat | {"changes": list(self.changes), "agrees": self.agrees}


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
