"""Classification of the process of a selection."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from netfl.diagnosis.dependence import Dependence, find_dependence
from netfl.diagnosis.drift import Drift, assess_windows, find_changes, find_drift
from netfl.diagnosis.memory import (
    MarkovOrder,
    Memory,
    TransitionCounts,
    count_transitions,
    find_memory,
    mixing_time,
    run_lengths,
    second_order,
    single_user_sequence,
    transitions,
)
from netfl.diagnosis.multiple_testing import DECIDES, holm_rejections
from netfl.diagnosis.participation import Participation, from_matrix, from_table, participation_from_sequence
from netfl.diagnosis.periodicity import Periodicity, find_cycle, find_lines, remove_cycle, whiten
from netfl.diagnosis.rates import (
    Rates,
    age_statistics,
    chains_entropy,
    concentration,
    cvar_reach,
    entropy_rate,
    rates,
)
from netfl.diagnosis.result import Diagnosis, ExpectedProcess
from netfl.diagnosis.slow_cycle import add_slow_cycle, explain_drift
from netfl.errors import Fault, ScenarioError
from netfl.remedies import argument
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
        problem = "not a probability in (0, 1)"
        raise ScenarioError([Fault(argument("level"), problem, level, "write a number such as 0.05")])
    if isinstance(source, Participation):
        participation = source
    elif isinstance(source, pd.DataFrame):
        participation = from_table(source)
    else:
        participation = participation_from_sequence(source) if np.ndim(source) == 1 else from_matrix(source)
    everyone, streams = participation.delivered, Streams(seed).at("diagnosis")
    for alpha in alphas:
        if not 0 < alpha <= 1:
            raise ScenarioError(
                [Fault(argument("alphas", "--alpha"), "not a share in (0, 1]", alpha, "write a number such as 0.1")]
            )
    if expected is not None and expected.rates is not None and len(expected.rates) != participation.users:
        expected = replace(expected, rates=None)  # rates of all users cannot be compared with those of a part
    limit = min(MAX_TESTED, max(2, 40_000_000 // participation.rounds))
    tested = np.sort(np.argsort(-everyone.sum(axis=0), kind="stable")[:limit])
    delivered = everyone[:, tested]
    values = delivered.astype(float)
    white = whiten(values)
    lines = find_lines(white, level / len(DECIDES))
    cycle = find_cycle(values, participation, lines, level / len(DECIDES))
    innovations = remove_cycle(white.series, lines)
    memory = find_memory(delivered, streams.rng("memory"))
    has_memory = memory.p <= level
    drift = find_drift(innovations, has_memory=has_memory)
    chains = count_transitions(everyone)
    dependence = find_dependence(delivered, chains.eigenvalue[tested])
    rejected = _decide(drift, cycle, memory, dependence, level)
    slow_cycle = None
    if rejected["drift"]:
        slow_cycle = explain_drift(values, white, lines, participation, level, has_memory=has_memory)
        if slow_cycle is not None and slow_cycle.is_certain:
            cycle = add_slow_cycle(cycle, slow_cycle, drift, values, participation)
            drift = slow_cycle.drift
            rejected = _decide(drift, cycle, memory, dependence, level)
        else:
            cycle = _fast_cycle(cycle, participation.rounds)
            rejected["cycle"] = rejected["cycle"] and bool(cycle.periods)
    inflation = np.ones(participation.users)  # long-run variance in units of independent rounds, at least 1
    if not rejected["cycle"]:
        eigenvalue = np.clip(np.nan_to_num(chains.eigenvalue), 0.0, 1 - 1e-6)
        inflation = max(1.0, drift.level) * (1 + eigenvalue) / (1 - eigenvalue)
    estimated = rates(everyone, inflation, level)
    chain = _estimate_order(everyone, chains, estimated, has_memory=bool(rejected["memory"]))
    expected_alphas = {} if expected is None or expected.alphas is None else expected.alphas
    agrees = None
    if expected is not None and expected.rates is not None:
        agrees = bool(((expected.rates >= estimated.low) & (expected.rates <= estimated.high)).all())
    groups = tuple(tuple(tested[list(group)].tolist()) for group in dependence.groups)
    return Diagnosis(
        level=level,
        rejected=rejected,
        participation=participation,
        rates=estimated,
        concentration=concentration(estimated.deliveries),
        chains=chains,
        stays=run_lengths(everyone, streams.rng("stays"), tested),
        order=MarkovOrder(memory, second_order(delivered), *chain),
        cycle=cycle,
        drift=drift,
        slow_cycle=slow_cycle,
        windows=assess_windows(values, inflation[tested]),
        changes=tuple(find_changes(innovations)) if rejected["drift"] else (),
        dependence=replace(dependence, groups=groups),
        waits=age_statistics(everyone, participation.span_s),
        reach=cvar_reach(estimated.share, [*alphas, *expected_alphas.values()]),
        expected=expected,
        agrees=agrees,
        notes=(*participation.notes, *_notes(participation, len(tested), chains, rejected)),
    )


def _decide(
    drift: Drift, cycle: Periodicity, memory: Memory, dependence: Dependence, level: float
) -> dict[str, bool | None]:
    """Return whether each deciding test rejects its null hypothesis."""
    p = dict(zip(DECIDES, (drift.p, cycle.p, memory.p, dependence.p), strict=True))
    rejected = dict(zip(p, holm_rejections([*p.values()], level), strict=True))
    rejected["cycle"] = bool(rejected["cycle"]) and cycle.period is not None
    return rejected


def _fast_cycle(cycle: Periodicity, rounds: int) -> Periodicity:
    """Return a cycle without the periods longer than a tenth of the recording: beside drift, these may be drift."""
    number = sum(period <= rounds / 10 for period in cycle.periods)
    return replace(cycle, periods=cycle.periods[:number], periods_s=cycle.periods_s[:number])


def _estimate_order(
    delivered: NDArray[np.bool_], chains: TransitionCounts, estimated: Rates, *, has_memory: bool
) -> tuple[float, int | None, NDArray[np.float64] | None, float]:
    """Estimate the chain over users, or those of the users; memoryless ones without memory.

    The result has the last four fields of `MarkovOrder`.
    """
    sequence, users = single_user_sequence(delivered), delivered.shape[1]
    if sequence is not None and users <= _MAX_MATRIX:
        counts = transitions(sequence, users)
        rows = counts.sum(axis=1, keepdims=True)
        matrix = np.where(rows > 0, counts / np.maximum(rows, 1), estimated.share)
        eigenvalue = min(1.0, float(np.sort(np.abs(np.linalg.eigvals(matrix)))[-2]))
        chain = matrix if has_memory else np.tile(estimated.share, (users, 1))
        return eigenvalue, mixing_time(chain), matrix, entropy_rate(chain, estimated.share)
    largest = float(np.nanmax(np.abs(chains.eigenvalue), initial=0.0))
    if has_memory:
        # each user's chain is close to its limit when max(p, 1-p) |λ|^t <= 1/4
        varies = np.isfinite(chains.eigenvalue) & (np.abs(chains.eigenvalue) > 0)
        size = np.minimum(np.abs(chains.eigenvalue[varies]), 1.0)
        start = np.maximum(estimated.rho, 1 - estimated.rho)[varies]
        forgets = (size < 1).all()
        mixing = int(np.ceil(np.log(0.25 / start) / np.log(size)).max(initial=1)) if forgets else None
        return largest, mixing, None, chains_entropy(estimated.rho, chains.on, chains.off)
    if sequence is not None:
        return largest, 1, None, concentration(estimated.deliveries).entropy
    return largest, 1, None, chains_entropy(estimated.rho, estimated.rho, 1 - estimated.rho)


def _notes(
    participation: Participation, tested: int, chains: TransitionCounts, rejected: Mapping[str, bool | None]
) -> list[str]:
    notes, rounds = [], participation.rounds
    if tested < participation.users:
        notes.append(f"Tests use the {tested} users with the most deliveries, of {participation.users}.")
    if rounds < 200:
        notes.append(f"With {rounds} rounds, the tests have little power: a negative result is weak evidence.")
    is_slow = rounds * (1 - chains.eigenvalue) < _MIN_MIXING_TIMES
    if is_slow.any() and not rejected["cycle"] and (rejected["memory"] or rejected["drift"]):
        users = "a user" if is_slow.sum() == 1 else f"{int(is_slow.sum())} users"
        longest = float(chains.eigenvalue[is_slow].max())
        notes.append(
            f"Memory of {users} fades slowly (a round keeps up to {longest:.3f} of it): {rounds} rounds are too few "
            "for the stated intervals, and to separate drift from memory."
        )
    return notes
