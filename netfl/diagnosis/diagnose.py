"""Classification of the process of a selection."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

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
        notes=(*participation.notes, *_notes(participation, len(analysis.tested), evidence)),
    )


class _Analysis:
    """Tests and estimates of one recording.

    Attributes:
        tested: the tested users.
        innovations: innovations of their participation, without cycles.
        rates: participation rates of all users.
        evidence: results of all tests.
    """

    def __init__(self, participation: Participation, level: float, streams: Streams) -> None:
        everyone, tested = participation.delivered, _choose_tested(participation)
        delivered = everyone[:, tested]
        values = delivered.astype(float)
        white = whiten(values)
        lines = find_lines(white, level / len(DECIDES))
        cycle = find_cycle(values, participation, lines, level / len(DECIDES))
        self.tested, self.innovations = tested, remove_cycle(white.series, lines)
        memory = find_memory(delivered, streams.rng("memory"))
        drift = find_drift(self.innovations, has_memory=memory.p <= level)
        chains = count_transitions(everyone)
        dependence = find_dependence(delivered, chains.eigenvalue[tested])
        p = dict(zip(DECIDES, (drift.p, cycle.p, memory.p, dependence.p), strict=True))
        rejected = dict(zip(p, holm_rejections([*p.values()], level), strict=True))
        is_slow = rejected["drift"] and cycle.period is not None and cycle.period > participation.rounds / 10
        rejected["cycle"] = bool(rejected["cycle"]) and cycle.period is not None and not is_slow  # slow ones are drift
        inflation = np.ones(participation.users) if rejected["cycle"] else _inflation(chains, drift)
        self.rates = rates(everyone, inflation, level)
        chain = _estimate_chain(everyone, chains, self.rates, has_memory=bool(rejected["memory"]))
        self.evidence = text.Evidence(
            rejected=rejected,
            drift=drift,
            cycle=cycle,
            memory=memory,
            dependence=dependence,
            order=MarkovOrder(memory, second_order(delivered), *chain),
            stays=run_lengths(everyone, streams.rng("stays"), tested),
            windows=assess_windows(values, inflation[tested]),
            chains=chains,
        )


def _choose_tested(participation: Participation) -> NDArray[np.int64]:
    """Return the users to test: all, or those with the most deliveries."""
    limit = min(MAX_TESTED, max(2, 40_000_000 // participation.rounds))
    if participation.users <= limit:
        return np.arange(participation.users)
    return np.sort(np.argsort(-participation.delivered.sum(axis=0), kind="stable")[:limit])


def _inflation(chains: TransitionCounts, drift: Drift) -> NDArray[np.float64]:
    """Return the long-run variance of each user's participation in units of independent rounds, at least 1."""
    eigenvalue = np.clip(np.nan_to_num(chains.eigenvalue), 0.0, 1 - 1e-6)
    return np.asarray(max(1.0, drift.level) * (1 + eigenvalue) / (1 - eigenvalue))


class _Chain(NamedTuple):
    """The last fields of `MarkovOrder`."""

    eigenvalue: float
    mixing: int | None
    matrix: NDArray[np.float64] | None
    entropy_rate: float


def _estimate_chain(
    delivered: NDArray[np.bool_], chains: TransitionCounts, estimated: Rates, *, has_memory: bool
) -> _Chain:
    """Estimate the chain over users, or those of the users; memoryless ones without memory."""
    sequence, users = single_user_sequence(delivered), delivered.shape[1]
    if sequence is not None and users <= _MAX_MATRIX:
        counts = transitions(sequence, users)
        rows = counts.sum(axis=1, keepdims=True)
        matrix = np.where(rows > 0, counts / np.maximum(rows, 1), estimated.share)
        eigenvalue = min(1.0, float(np.sort(np.abs(np.linalg.eigvals(matrix)))[-2]))
        chain = matrix if has_memory else np.tile(estimated.share, (users, 1))
        return _Chain(eigenvalue, mixing_time(chain), matrix, entropy_rate(chain, estimated.share))
    largest = float(np.nanmax(np.abs(chains.eigenvalue), initial=0.0))
    if has_memory:
        entropy = chains_entropy(estimated.rho, chains.on, chains.off)
        return _Chain(largest, _slowest_mixing_time(chains, estimated), None, entropy)
    if sequence is not None:
        return _Chain(largest, 1, None, concentration(estimated.heard).entropy)
    return _Chain(largest, 1, None, chains_entropy(estimated.rho, estimated.rho, 1 - estimated.rho))


def _slowest_mixing_time(chains: TransitionCounts, estimated: Rates) -> int | None:
    """Return the rounds until the slowest user's chain has ``max(p, 1-p) |λ|^t <= 1/4``; ``None`` for never."""
    varies = np.isfinite(chains.eigenvalue) & (np.abs(chains.eigenvalue) > 0)
    size = np.minimum(np.abs(chains.eigenvalue[varies]), 1.0)
    if (size == 1).any():
        return None
    start = np.maximum(estimated.rho, 1 - estimated.rho)[varies]
    return int(np.ceil(np.log(0.25 / start) / np.log(size)).max(initial=1))


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


def _notes(participation: Participation, tested: int, evidence: text.Evidence) -> list[str]:
    """Return the limits of the result, in sentences."""
    notes, rounds, rejected = [], participation.rounds, evidence.rejected
    if tested < participation.users:
        notes.append(f"Tests look at the {tested} users most often heard, of {participation.users}.")
    if rounds < 200:
        notes.append(f"{rounds} rounds are few: that a test finds nothing says little.")
    is_slow = rounds * (1 - evidence.chains.eigenvalue) < _MIN_MIXING_TIMES
    if is_slow.any() and not rejected["cycle"] and (rejected["memory"] or rejected["drift"]):
        users = "a user" if is_slow.sum() == 1 else f"{int(is_slow.sum())} users"
        longest = float(evidence.chains.eigenvalue[is_slow].max())
        notes.append(
            f"Memory of {users} fades slowly (a round keeps up to {longest:.3f} of it): {rounds} rounds are too few "
            "for intervals to hold as stated, and to tell drift from memory."
        )
    return notes
