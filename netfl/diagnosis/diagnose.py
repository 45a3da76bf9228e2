"""Classification of the process of a selection."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from netfl.diagnosis import text
from netfl.diagnosis.age_of_information import age_statistics
from netfl.diagnosis.cvar_reach import check_alpha, cvar_reach
from netfl.diagnosis.dependence import Dependence, find_dependence
from netfl.diagnosis.drift import Drift, assess_windows, find_changes, find_drift
from netfl.diagnosis.memory import (
    MarkovOrder,
    Memory,
    TransitionCounts,
    count_transitions,
    find_memory,
    mixing_time,
    second_order,
    single_user_sequence,
    transitions,
)
from netfl.diagnosis.multiple_testing import DECIDES, holm_rejections, kind_of
from netfl.diagnosis.participation import Participation, from_matrix, from_table, participation_from_sequence
from netfl.diagnosis.periodicity import (
    Periodicity,
    SpectralPeaks,
    WhitenedSeries,
    find_cycle,
    find_lines,
    remove_cycle,
    whiten,
)
from netfl.diagnosis.rates import Rates, chains_entropy, concentration, entropy_rate, rates
from netfl.diagnosis.result import Diagnosis, ExpectedProcess
from netfl.diagnosis.run_lengths import run_lengths
from netfl.errors import Fault, ScenarioError
from netfl.streams import Streams

MAX_TESTED = 1000
"""Limit of the number of tested users; rates, silences and ages are computed for all."""
_MIN_MIXING_TIMES = 50
"""Length of a recording in relaxation times below which intervals miss more often than stated."""
_MAX_MATRIX = 64
"""Largest number of users for which the transition matrix is estimated."""


def diagnose(
    source: Participation | pd.DataFrame | ArrayLike,
    *,
    level: float = 0.05,
    alphas: Sequence[float] = (),
    expected: ExpectedProcess | None = None,
    seed: int = 0,
) -> Diagnosis:
    """Classify the selection process: stationary, Markovian, cyclic, non-stationary or emergent-correlated.

    Args:
        source: participation: as `Participation`; as a table of deliveries with the columns ``round`` and ``user``
            (`from_table` takes the number of users and rounds, too); as true and false ``[rounds, users]``; or as user
            numbers ``[rounds]`` if there is one user in each round.
        level: the probability of any false alarm, and that any interval misses.
        alphas: tail shares (CVaR) to examine.
        expected: prior knowledge of the process.
        seed: seed of the Monte-Carlo tests.

    Raises:
        ScenarioError: with all problems of the input.
    """
    if not 0 < level < 1:
        raise ScenarioError([Fault("--level", "not a probability in (0, 1)", level, "write a number such as 0.05")])
    participation = _read(source)
    analysis = _Analysis(participation, level, Streams(seed).at("diagnosis"))
    for alpha in alphas:
        check_alpha(alpha, analysis.rates.share)
    if expected is not None and expected.rates is not None and len(expected.rates) != participation.users:
        expected = replace(expected, rates=None)  # rates of all users cannot be compared with those of a part
    evidence = analysis.evidence
    kind = kind_of(evidence.rejected)
    changes = find_changes(analysis.innovations) if evidence.rejected["drift"] else []
    expected_alphas = {} if expected is None or expected.alphas is None else expected.alphas
    return Diagnosis(
        verdict=kind,
        sentence=text.verdict_sentence(kind, participation, evidence, changes),
        level=level,
        tests=text.describe_tests(evidence),
        participation=participation,
        rates=analysis.rates,
        concentration=concentration(analysis.rates.heard),
        chains=evidence.chains,
        stays=evidence.stays,
        order=evidence.order,
        cycle=evidence.cycle,
        drift=evidence.drift,
        windows=evidence.windows,
        changes=tuple(changes),
        dependence=_renumber_groups(evidence.dependence, analysis.tested),
        waits=age_statistics(participation.delivered, participation.span_s),
        reach=cvar_reach(analysis.rates.share, [*alphas, *expected_alphas.values()]),
        expected=expected,
        agrees=_compare_rates(expected, analysis.rates),
        notes=(*participation.notes, *_size_notes(participation, len(analysis.tested)), *analysis.memory_notes),
    )


class _Analysis:
    """Tests and estimates of one recording, each computed once."""

    def __init__(self, participation: Participation, level: float, streams: Streams) -> None:
        self.participation, self.level, self.streams = participation, level, streams

    @cached_property
    def tested(self) -> NDArray[np.int64]:
        """The users to test: all, or those with the most deliveries."""
        seen = self.participation
        limit = min(MAX_TESTED, max(2, 40_000_000 // seen.rounds))
        if seen.users <= limit:
            return np.arange(seen.users)
        return np.sort(np.argsort(-seen.delivered.sum(axis=0), kind="stable")[:limit])

    @cached_property
    def delivered(self) -> NDArray[np.bool_]:
        """Participation of the tested users."""
        return self.participation.delivered[:, self.tested]

    @cached_property
    def white(self) -> WhitenedSeries:
        return whiten(self.delivered.astype(float))

    @cached_property
    def lines(self) -> SpectralPeaks:
        return find_lines(self.white, self.level / len(DECIDES))

    @cached_property
    def innovations(self) -> NDArray[np.float64]:
        """Innovations without cycles."""
        return remove_cycle(self.white.series, self.lines)

    @cached_property
    def cycle(self) -> Periodicity:
        level = self.level / len(DECIDES)
        return find_cycle(self.delivered.astype(float), self.participation, self.lines, level)

    @cached_property
    def memory(self) -> Memory:
        return find_memory(self.delivered, self.streams.rng("memory"))

    @cached_property
    def drift(self) -> Drift:
        return find_drift(self.innovations, has_memory=self.memory.p <= self.level)

    @cached_property
    def chains(self) -> TransitionCounts:
        return count_transitions(self.participation.delivered)

    @cached_property
    def dependence(self) -> Dependence:
        return find_dependence(self.delivered, self.chains.eigenvalue[self.tested])

    @cached_property
    def rejected(self) -> dict[str, bool | None]:
        """The results of the deciding tests, at Holm's levels."""
        p = [self.drift.p, self.cycle.p, self.memory.p, self.dependence.p]
        rejected = dict(zip(DECIDES, holm_rejections(p, self.level), strict=True))
        period = self.cycle.period
        is_slow = rejected["drift"] and period is not None and period > self.participation.rounds / 10
        rejected["cycle"] = bool(rejected["cycle"]) and period is not None and not is_slow  # slow ones are drift
        return rejected

    @cached_property
    def inflation(self) -> NDArray[np.float64]:
        """Long-run variance of each user's participation in units of independent rounds, at least 1; 1 for cycles."""
        eigenvalue = np.clip(np.nan_to_num(self.chains.eigenvalue), 0.0, 1 - 1e-6)
        if self.rejected["cycle"]:
            return np.ones(len(eigenvalue))
        return np.asarray(max(1.0, self.drift.level) * (1 + eigenvalue) / (1 - eigenvalue))

    @cached_property
    def rates(self) -> Rates:
        return rates(self.participation.delivered, self.inflation, self.level)

    @cached_property
    def order(self) -> MarkovOrder:
        """Transitions, eigenvalue, mixing and entropy; those of a memoryless process unless memory was found."""
        users, estimated, chains = self.participation.users, self.rates, self.chains
        second, has_memory = second_order(self.delivered), bool(self.rejected["memory"])
        sequence = single_user_sequence(self.participation.delivered)
        if sequence is not None and users <= _MAX_MATRIX:
            counts = transitions(sequence, users)
            rows = counts.sum(axis=1, keepdims=True)
            matrix = np.where(rows > 0, counts / np.maximum(rows, 1), estimated.share)
            size = min(1.0, float(np.sort(np.abs(np.linalg.eigvals(matrix)))[-2]))
            chain = matrix if has_memory else np.tile(estimated.share, (users, 1))
            entropy = entropy_rate(chain, estimated.share)
            return MarkovOrder(self.memory, second, size, mixing_time(chain), matrix, entropy)
        largest = float(np.nanmax(np.abs(chains.eigenvalue), initial=0.0))
        if has_memory:
            entropy = chains_entropy(estimated.rho, chains.on, chains.off)
            return MarkovOrder(self.memory, second, largest, self._mixing_time(), None, entropy)
        if sequence is not None:
            entropy = concentration(estimated.heard).entropy
        else:
            entropy = chains_entropy(estimated.rho, estimated.rho, 1 - estimated.rho)
        return MarkovOrder(self.memory, second, largest, 1, None, entropy)

    def _mixing_time(self) -> int | None:
        """Return the rounds until the slowest user's chain has ``max(p, 1-p) |λ|^t <= 1/4``; ``None`` for never."""
        eigenvalue = np.abs(self.chains.eigenvalue)
        varies = np.isfinite(eigenvalue) & (eigenvalue > 0)
        size = np.minimum(eigenvalue[varies], 1.0)
        if (size == 1).any():
            return None
        start = np.maximum(self.rates.rho, 1 - self.rates.rho)[varies]
        return int(np.ceil(np.log(0.25 / start) / np.log(size)).max(initial=1))

    @cached_property
    def evidence(self) -> text.Evidence:
        return text.Evidence(
            rejected=self.rejected,
            drift=self.drift,
            cycle=self.cycle,
            memory=self.memory,
            dependence=self.dependence,
            order=self.order,
            stays=run_lengths(self.participation.delivered, self.streams.rng("stays"), self.tested),
            windows=assess_windows(self.delivered.astype(float), self.inflation[self.tested]),
            chains=self.chains,
        )

    @property
    def memory_notes(self) -> list[str]:
        """A note if memory is long compared with the recording."""
        rounds, eigenvalue, rejected = self.participation.rounds, self.chains.eigenvalue, self.rejected
        is_slow = rounds * (1 - eigenvalue) < _MIN_MIXING_TIMES
        if not is_slow.any() or rejected["cycle"] or not (rejected["memory"] or rejected["drift"]):
            return []
        users = "a user" if is_slow.sum() == 1 else f"{int(is_slow.sum())} users"
        longest = float(eigenvalue[is_slow].max())
        return [
            f"Memory of {users} fades slowly (a round keeps up to {longest:.3f} of it): {rounds} rounds are too few "
            "for intervals to hold as stated, and to tell drift from memory."
        ]


def _read(source: Participation | pd.DataFrame | ArrayLike) -> Participation:
    if isinstance(source, Participation):
        return source
    if isinstance(source, pd.DataFrame):
        return from_table(source)
    return participation_from_sequence(source) if np.ndim(source) == 1 else from_matrix(source)


def _renumber_groups(dependence: Dependence, tested: NDArray[np.int64]) -> Dependence:
    """Replace places among the *tested* users by user numbers."""
    return replace(dependence, groups=tuple(tuple(tested[list(group)].tolist()) for group in dependence.groups))


def _compare_rates(expected: ExpectedProcess | None, estimated: Rates) -> bool | None:
    """Return whether all stated rates lie within their simultaneous intervals."""
    if expected is None or expected.rates is None:
        return None
    stated = np.asarray(expected.rates, float)
    return bool(((stated >= estimated.low) & (stated <= estimated.high)).all())


def _size_notes(participation: Participation, tested: int) -> list[str]:
    notes = []
    if tested < participation.users:
        notes.append(f"Tests look at the {tested} users most often heard, of {participation.users}.")
    if participation.rounds < 200:
        notes.append(f"{participation.rounds} rounds are few: that a test finds nothing says little.")
    return notes
