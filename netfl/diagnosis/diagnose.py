"""Classification of the process of a selection."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from netfl.core.remedies import argument
from netfl.diagnosis.dependence import Dependence, find_dependence
from netfl.diagnosis.drift import Drift, assess_windows, find_changes, find_drift, remove_drift
from netfl.diagnosis.harmonics import fit_cycles
from netfl.diagnosis.local_dependence import find_local_dependence
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
from netfl.diagnosis.periodicity import (
    MIN_FAST_CYCLES,
    Periodicity,
    find_cycle,
    find_lines,
    remove_cycle,
    whiten,
)
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
from netfl.diagnosis.similar_rounds import SimilarRounds, find_similar_rounds, is_multiple
from netfl.diagnosis.slow_cycle import SlowCycle, add_slow_cycle, explain_drift
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

    Where rates drift, a cycle is looked for without the drift, and where they drift or repeat, a correlation of users
    without both; the verdict then has all that is found, such as ``cycle + drift``.

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
    participation = _read_source(source)
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
            cycle = _cycle_beside_drift(values, participation, level / len(DECIDES))
            rejected = _decide(drift, cycle, memory, dependence, level) | {"drift": True}
    local_memory = None
    if beyond := tuple(name for name in ("cycle", "drift") if rejected[name]):  # which make users depend on each other
        similar = _similar_rounds(values, participation, cycle, slow_cycle, beyond)
        dependence, local_memory = _test_beyond(delivered, dependence, similar, beyond, streams)
        rejected["dependence"] = _decide(drift, cycle, memory, dependence, level)["dependence"]
    inflation = np.ones(participation.users)  # long-run variance in units of independent rounds, at least 1
    if not rejected["cycle"]:
        eigenvalue = np.clip(np.nan_to_num(chains.eigenvalue), 0.0, 1 - 1e-6)
        inflation = max(1.0, drift.level) * (1 + eigenvalue) / (1 - eigenvalue)
    estimated = rates(everyone, inflation, level)
    chain = _estimate_order(everyone, chains, estimated, has_memory=bool(rejected["memory"]))
    expected_alphas = {} if expected is None or expected.alphas is None else expected.alphas
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
        local_memory=local_memory,
        cycle=cycle,
        drift=drift,
        slow_cycle=slow_cycle,
        windows=assess_windows(values, inflation[tested]),
        changes=tuple(find_changes(innovations)) if rejected["drift"] else (),
        dependence=replace(dependence, groups=groups),
        waits=age_statistics(everyone, participation.span_s),
        reach=cvar_reach(estimated.share, [*alphas, *expected_alphas.values()]),
        expected=expected,
        agrees=_agrees(expected, estimated),
        notes=(*participation.notes, *_notes(participation, len(tested), chains, rejected)),
    )


def _read_source(source: Participation | pd.DataFrame | ArrayLike) -> Participation:
    """Return the participation of any source."""
    if isinstance(source, Participation):
        return source
    if isinstance(source, pd.DataFrame):
        return from_table(source)
    if np.ndim(source) == 1:
        return participation_from_sequence(source)
    return from_matrix(source)


def _agrees(expected: ExpectedProcess | None, estimated: Rates) -> bool | None:
    """Return whether all expected rates lie in their intervals; ``None`` without such rates."""
    if expected is None or expected.rates is None:
        return None
    return bool(((expected.rates >= estimated.low) & (expected.rates <= estimated.high)).all())


def _decide(
    drift: Drift, cycle: Periodicity, memory: Memory, dependence: Dependence, level: float
) -> dict[str, bool | None]:
    """Return whether each deciding test rejects its null hypothesis."""
    p = dict(zip(DECIDES, (drift.p, cycle.p, memory.p, dependence.p), strict=True))
    rejected = dict(zip(p, holm_rejections([*p.values()], level), strict=True))
    rejected["cycle"] = bool(rejected["cycle"]) and cycle.period is not None
    return rejected


def _cycle_beside_drift(values: NDArray[np.float64], participation: Participation, level: float) -> Periodicity:
    """Return the cycle of participation whose rates drift, without the drift and without the cycles that may be it."""
    steady = remove_drift(values)
    lines = find_lines(whiten(steady), level, MIN_FAST_CYCLES)
    cycle = find_cycle(values, participation, lines, level, steady=steady, min_cycles=MIN_FAST_CYCLES)
    number = sum(period <= participation.rounds / MIN_FAST_CYCLES for period in cycle.periods)
    if not number:
        return replace(cycle, period=None, period_s=None, periods=(), periods_s=(), duty=None)
    return replace(cycle, periods=cycle.periods[:number], periods_s=cycle.periods_s[:number])


def _similar_rounds(
    values: NDArray[np.float64],
    participation: Participation,
    cycle: Periodicity,
    slow_cycle: SlowCycle | None,
    beyond: Sequence[str],
) -> SimilarRounds | None:
    """Return rounds with nearly the same rates *beyond* the shorter period of a *cycle*, a slower one, and a drift."""
    rounds = participation.rounds
    time = np.arange(rounds, dtype=float)
    closed_s, round_s = participation.closed_s, participation.round_s
    if "cycle" in beyond and cycle.clock == "seconds" and closed_s is not None and round_s:
        time = (closed_s - closed_s[0]) / round_s
    periods = [*cycle.periods] if "cycle" in beyond else []
    if slow_cycle is not None:
        periods.append(slow_cycle.period)
    fast = [period for period in periods if period <= rounds / MIN_FAST_CYCLES]
    if len(fast) == 2 and is_multiple(*fast):  # the short one is a harmonic: all rates repeat with the long one
        fast.remove(min(fast))
        periods = [period for period in periods if period >= fast[0]]
    slower = [period for period in periods if period > min(fast, default=0.0)]
    changing = min(slower, default=float(rounds) if "drift" in beyond else None)
    if not fast:
        return find_similar_rounds(np.arange(rounds, dtype=float), None, changing)
    period = min(fast)
    if abs(period - round(period)) > 1e-6:  # that of the lines is a multiple of an eighth
        frequency = fit_cycles(values, time / rounds, rounds / period - 1, rounds / period + 1, rounds / 2)
        period = rounds / (frequency or rounds / period)
    return find_similar_rounds(time, period, changing)


def _test_beyond(
    delivered: NDArray[np.bool_],
    dependence: Dependence,
    similar: SimilarRounds | None,
    beyond: tuple[str, ...],
    streams: Streams,
) -> tuple[Dependence, Memory | None]:
    """Return dependence and memory *beyond* a cycle and a drift, by similar rounds; not tested without these."""
    if similar is None:
        return replace(dependence, p=None, groups=(), why_not="no similar rounds nearby", beyond=beyond), None
    memory = find_memory(delivered, streams.rng("local memory"), similar.block)
    return find_local_dependence(delivered, similar, beyond), memory


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
