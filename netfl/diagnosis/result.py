"""The result of a diagnosis: typed, and as one flat JSON object."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netfl.diagnosis.age_of_information import TIMES, Waits
from netfl.diagnosis.cvar_reach import CvarReach
from netfl.diagnosis.dependence import Dependence
from netfl.diagnosis.drift import Drift, WindowedRates
from netfl.diagnosis.memory import Memory, TransitionCounts
from netfl.diagnosis.multiple_testing import HypothesisTest, Kind
from netfl.diagnosis.participation import Participation
from netfl.diagnosis.periodicity import Periodicity
from netfl.diagnosis.rates import Concentration, Rates
from netfl.diagnosis.run_lengths import RunLengths


@dataclass(frozen=True, slots=True)
class ExpectedProcess:
    """What is known of a selection beforehand, as from its scenario.

    Args:
        source: where it is known from, in words.
        process: the kind of process; ``None`` where it is not known.
        rates: the share of rounds in which each user is heard; ``None`` where that is not known.
        alphas: the α of each learner that has one, by name.
    """

    source: str
    process: str | None = None
    rates: NDArray[np.float64] | None = None
    alphas: Mapping[str, float] | None = None


@dataclass(frozen=True, slots=True)
class MarkovOrder:
    """What memory there is.

    Args:
        memory: first-order Markov against memoryless.
        second: p-value of second order against first; ``None`` where counts are too small.
        eigenvalue: the second largest in size, of the chain over users or of the users' own chains.
        mixing: rounds until the chain, or each user's own, is within 1/4 of its long-run law; ``None`` if never.
        matrix: the transition matrix, where one user is heard in each round and there are few; ``None`` elsewhere.
        entropy_rate: in bits per round; with chains for each user at most so much.
    """

    memory: Memory
    second: float | None
    eigenvalue: float
    mixing: int | None
    matrix: NDArray[np.float64] | None
    entropy_rate: float


@dataclass(frozen=True)
class Diagnosis:
    """What kind of process a selection is, why, and what that means.

    Args:
        verdict: stationary, Markovian, cyclic, non-stationary or emergent-correlated.
        sentence: the same in words.
        level: the probability that any of the deciding tests finds something where there is nothing, at most; and that
            any of the intervals misses.
        tests: what was asked.
        seen: who was heard.
        rates: how often.
        concentration: how unevenly.
        chains: each user's two-state chain.
        stays: each user's run lengths.
        order: what memory there is.
        cycle: what repeats.
        drift: what drifts.
        windows: counts in even windows.
        changes: rounds after which rates change, where they drift.
        dependence: who is heard together.
        waits: silences and ages.
        reach: what an α reaches.
        expected: what is known beforehand; ``None`` for nothing.
        agrees: whether all users' stated rates lie within their intervals; ``None`` where none are stated.
        notes: what was assumed, in sentences.
    """

    verdict: Kind
    sentence: str
    level: float
    tests: tuple[HypothesisTest, ...]
    seen: Participation
    rates: Rates
    concentration: Concentration
    chains: TransitionCounts
    stays: RunLengths
    order: MarkovOrder
    cycle: Periodicity
    drift: Drift
    windows: WindowedRates
    changes: tuple[int, ...]
    dependence: Dependence
    waits: Waits
    reach: CvarReach
    expected: ExpectedProcess | None
    agrees: bool | None
    notes: tuple[str, ...]

    @property
    def p(self) -> dict[str, float | None]:
        """The p-values that the verdict rests on."""
        return {test.name: test.p for test in self.tests if test.decides}

    def to_json(self) -> dict[str, Any]:
        """One flat object: dotted names; lists over users stand in the order of ``users``; unknown is ``null``."""
        flat: dict[str, Any] = {
            "verdict": self.verdict,
            "sentence": self.sentence,
            "level": self.level,
            "rounds": self.seen.rounds,
            "deliveries": int(self.rates.heard.sum()),
            "users": list(self.seen.names),
            "notes": list(self.notes),
        }
        for test in self.tests:
            for name in ("question", "statistic", "p", "yes", "answer", "decides"):
                flat[f"tests.{test.name}.{name}"] = _plain(getattr(test, name))
        parts = ("rates", "concentration", "chains", "stays", "order", "cycle", "drift", "windows", "dependence")
        for name in (*parts, "waits", "reach", "expected"):
            flat.update(_flat(name, getattr(self, name)))
        for times in TIMES:
            flat[f"waits.until_{times}"] = _plain(self.waits.until(times))
        return flat | {"changes": list(self.changes), "agrees": self.agrees}


def _flat(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """The fields of *value* under dotted names."""
    if is_dataclass(value):
        for field in fields(value):
            yield from _flat(f"{name}.{field.name}", getattr(value, field.name))
    elif isinstance(value, tuple) and value and all(map(is_dataclass, value)):
        for field in fields(value[0]):
            yield f"{name}.{field.name}", [_plain(getattr(one, field.name)) for one in value]
    else:
        yield name, _plain(value)


def _plain(value: Any) -> Any:
    """*value* as JSON knows it, ``None`` for what is not finite."""
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, Mapping):
        return {str(name): _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value
