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
_MAX_ENTRIES = 40_000_000
"""Limit of the entries of participation, rounds times users, that are tested."""
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
    _check_level(level)
    participation = _read_source(source)
    _check_alphas(alphas)
    if expected is not None and expected.rates is not None and len(expected.rates) != participation.users:
        expected = replace(expected, rates=None)  # rates of all users cannot be compared with those of a part
    streams = Streams(seed).at("diagnosis")
    everyone = participation.delivered
    tested = _tested_users(everyone)
    delivered = everyone[:, tested]
    values = delivered.astype(float)

    # the deciding tests; lines are removed before the test for drift, as a cycle also moves the rates
    line_level = level / len(DECIDES)
    white = whiten(values)
    lines = find_lines(white, line_level)
    cycle = find_cycle(values, participation, lines, line_level)
    innovations = remove_cycle(white.series, lines)
    memory = find_memory(delivered, streams.rng("memory"))
    has_memory = memory.p <= level
    drift = find_drift(innovations, has_memory=has_memory)
    chains = count_transitions(everyone)
    dependence = find_dependence(delivered, chains.eigenvalue[tested])
    rejected = _decide(drift, cycle, memory, dependence, level)

    # a drift may be a slow cycle, and may look like the lines of a faster one
    slow_cycle = None
    if rejected["drift"]:
        slow_cycle = explain_drift(values, white, lines, participation, level, has_memory=has_memory)
        if slow_cycle is not None and slow_cycle.is_certain:
            cycle = add_slow_cycle(cycle, slow_cycle, drift, values, participation)
            drift = slow_cycle.drift
            rejected = _decide(drift, cycle, memory, dependence, level)
        else:
            cycle = _cycle_beside_drift(values, participation, line_level)
            rejected = _decide(drift, cycle, memory, dependence, level)
            rejected["drift"] = True  # also if the cycle without it changes the order of p-values

    # rates that repeat or drift make users depend on earlier rounds and on each other: is there more?
    local_memory = None
    beyond = tuple(name for name in ("cycle", "drift") if rejected[name])
    if beyond:
        similar = _similar_rounds(values, participation, cycle, slow_cycle, beyond)
        dependence, local_memory = _test_beyond(delivered, dependence, similar, beyond, streams)
        rejected["dependence"] = _decide(drift, cycle, memory, dependence, level)["dependence"]

    # estimates of all users, with intervals as wide as their memory demands
    inflation = np.ones(participation.users)
    if not rejected["cycle"]:  # a cycle correlates successive rounds, but does not widen the intervals
        inflation = _long_run_variance(chains, drift)
    estimated = rates(everyone, inflation, level)
    eigenvalue, mixing, matrix, entropy = _estimate_order(
        everyone, chains, estimated, has_memory=bool(rejected["memory"])
    )
    examined_alphas = [*alphas]
    if expected is not None and expected.alphas is not None:
        examined_alphas += expected.alphas.values()
    groups = tuple(tuple(tested[list(group)].tolist()) for group in dependence.groups)
    return Diagnosis(
        level=level,
        rejected=rejected,
        participation=participation,
        rates=estimated,
        concentration=concentration(estimated.deliveries),
        chains=chains,
        stays=run_lengths(everyone, streams.rng("stays"), tested),
        order=MarkovOrder(memory, second_order(delivered), eigenvalue, mixing, matrix, entropy),
        local_memory=local_memory,
        cycle=cycle,
        drift=drift,
        slow_cycle=slow_cycle,
        windows=assess_windows(values, inflation[tested]),
        changes=tuple(find_changes(innovations)) if rejected["drift"] else (),
        dependence=replace(dependence, groups=groups),
        waits=age_statistics(everyone, participation.span_s),
        reach=cvar_reach(estimated.share, examined_alphas),
        expected=expected,
        agrees=_agrees(expected, estimated),
        notes=(*participation.notes, *_notes(participation, len(tested), chains, rejected)),
    )


def _check_level(level: float) -> None:
    if not 0 < level < 1:
        problem = "not a probability in (0, 1)"
        raise ScenarioError([Fault(argument("level"), problem, level, "write a number such as 0.05")])


def _check_alphas(alphas: Sequence[float]) -> None:
    for alpha in alphas:
        if not 0 < alpha <= 1:
            key = argument("alphas", "--alpha")
            raise ScenarioError([Fault(key, "not a share in (0, 1]", alpha, "write a number such as 0.1")])


def _read_source(source: Participation | pd.DataFrame | ArrayLike) -> Participation:
    """Return the participation of any source."""
    if isinstance(source, Participation):
        return source
    if isinstance(source, pd.DataFrame):
        return from_table(source)
    if np.ndim(source) == 1:
        return participation_from_sequence(source)
    return from_matrix(source)


def _tested_users(everyone: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return the users with the most deliveries, as many as can be tested at once, in the order of their numbers."""
    rounds = len(everyone)
    limit = min(MAX_TESTED, max(2, _MAX_ENTRIES // rounds))
    by_deliveries = np.argsort(-everyone.sum(axis=0), kind="stable")
    return np.sort(by_deliveries[:limit])


def _agrees(expected: ExpectedProcess | None, estimated: Rates) -> bool | None:
    """Return whether all expected rates lie in their intervals; ``None`` without such rates."""
    if expected is None or expected.rates is None:
        return None
    return bool(((expected.rates >= estimated.low) & (expected.rates <= estimated.high)).all())


def _decide(
    drift: Drift, cycle: Periodicity, memory: Memory, dependence: Dependence, level: float
) -> dict[str, bool | None]:
    """Return whether each deciding test rejects its null hypothesis."""
    p_values = {"drift": drift.p, "cycle": cycle.p, "memory": memory.p, "dependence": dependence.p}
    decisions = holm_rejections([*p_values.values()], level)
    rejected = dict(zip(p_values, decisions, strict=True))
    rejected["cycle"] = bool(rejected["cycle"]) and cycle.period is not None  # without a period it cannot be stated
    return rejected


def _long_run_variance(chains: TransitionCounts, drift: Drift) -> NDArray[np.float64]:
    """Return the variance of each user's rate in units of independent rounds, at least 1, ``[users]``.

    A two-state chain with the eigenvalue λ has ``(1 + λ) / (1 - λ)``.  The level at frequency 0, of innovations of
    variance 1, widens it where memory is longer than one round.
    """
    eigenvalue = np.clip(np.nan_to_num(chains.eigenvalue), 0.0, 1 - 1e-6)
    return np.asarray(max(1.0, drift.level) * (1 + eigenvalue) / (1 - eigenvalue))


def _cycle_beside_drift(values: NDArray[np.float64], participation: Participation, level: float) -> Periodicity:
    """Return the cycle of participation whose rates drift, without the drift and without the cycles that may be it."""
    steady = remove_drift(values)
    lines = find_lines(whiten(steady), level, MIN_FAST_CYCLES)
    cycle = find_cycle(values, participation, lines, level, steady=steady, min_cycles=MIN_FAST_CYCLES)
    longest = participation.rounds / MIN_FAST_CYCLES  # a slower cycle may be the drift
    fast = sum(period <= longest for period in cycle.periods)  # periods ascend
    if not fast:
        return replace(cycle, period=None, period_s=None, periods=(), periods_s=(), duty=None)
    return replace(cycle, periods=cycle.periods[:fast], periods_s=cycle.periods_s[:fast])


def _similar_rounds(
    values: NDArray[np.float64],
    participation: Participation,
    cycle: Periodicity,
    slow_cycle: SlowCycle | None,
    beyond: Sequence[str],
) -> SimilarRounds | None:
    """Return rounds with nearly the same rates *beyond* the shorter period of a *cycle*, a slower one, and a drift."""
    rounds = participation.rounds
    by_number = np.arange(rounds, dtype=float)
    periods: list[float] = []
    if "cycle" in beyond:
        periods += cycle.periods
    if slow_cycle is not None:
        periods.append(slow_cycle.period)

    # the cycle of which neighbours are at the same phase
    fast = [period for period in periods if period <= rounds / MIN_FAST_CYCLES]
    if len(fast) == 2 and is_multiple(*fast):  # the short one is a harmonic: all rates repeat with the long one
        fast.remove(min(fast))
        periods = [period for period in periods if period >= fast[0]]

    # the time in which rates change beside it
    slower = [period for period in periods if period > min(fast, default=0.0)]
    changing: float | None = None
    if slower:
        changing = min(slower)
    elif "drift" in beyond:
        changing = float(rounds)
    if not fast:
        return find_similar_rounds(by_number, None, changing)

    time = _cycle_time(participation, cycle) if "cycle" in beyond else by_number
    period = min(fast)
    if abs(period - round(period)) > 1e-6:  # that of the lines is only exact to an eighth of a round
        cycles = rounds / period
        exact_cycles = fit_cycles(values, time / rounds, cycles - 1, cycles + 1, rounds / 2)
        period = rounds / (exact_cycles or cycles)
    return find_similar_rounds(time, period, changing)


def _cycle_time(participation: Participation, cycle: Periodicity) -> NDArray[np.float64]:
    """Return the time of each round on the clock of a *cycle*, in rounds of mean length."""
    closed_s = participation.closed_s
    round_s = participation.round_s
    if cycle.clock == "seconds" and closed_s is not None and round_s:
        return np.asarray((closed_s - closed_s[0]) / round_s)
    return np.arange(participation.rounds, dtype=float)


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
    sequence = single_user_sequence(delivered)
    users = delivered.shape[1]
    if sequence is not None and users <= _MAX_MATRIX:
        counts = transitions(sequence, users)  # [users, users]
        rows = counts.sum(axis=1, keepdims=True)
        matrix = np.where(rows > 0, counts / np.maximum(rows, 1), estimated.share)  # a row without counts: the shares
        sizes = np.sort(np.abs(np.linalg.eigvals(matrix)))
        eigenvalue = min(1.0, float(sizes[-2]))  # the largest is 1
        chain = matrix
        if not has_memory:
            chain = np.tile(estimated.share, (users, 1))
        return eigenvalue, mixing_time(chain), matrix, entropy_rate(chain, estimated.share)
    largest = float(np.nanmax(np.abs(chains.eigenvalue), initial=0.0))
    if has_memory:
        entropy = chains_entropy(estimated.rho, chains.on, chains.off)
        return largest, _slowest_mixing(chains, estimated), None, entropy
    if sequence is not None:
        return largest, 1, None, concentration(estimated.deliveries).entropy
    return largest, 1, None, chains_entropy(estimated.rho, estimated.rho, 1 - estimated.rho)


def _slowest_mixing(chains: TransitionCounts, estimated: Rates) -> int | None:
    """Return the rounds until each user's chain is within 1/4 of its limit; ``None`` if one never is.

    A two-state chain with the rate p and the eigenvalue λ is so after t rounds if ``max(p, 1 - p) |λ|^t <= 1/4``.
    """
    varies = np.isfinite(chains.eigenvalue) & (np.abs(chains.eigenvalue) > 0)
    size = np.minimum(np.abs(chains.eigenvalue[varies]), 1.0)
    if not (size < 1).all():
        return None
    start = np.maximum(estimated.rho, 1 - estimated.rho)[varies]
    return int(np.ceil(np.log(0.25 / start) / np.log(size)).max(initial=1))


def _notes(
    participation: Participation, tested: int, chains: TransitionCounts, rejected: Mapping[str, bool | None]
) -> list[str]:
    notes = []
    rounds = participation.rounds
    if tested < participation.users:
        notes.append(f"Tests use the {tested} users with the most deliveries, of {participation.users}.")
    if rounds < 200:
        notes.append(f"With {rounds} rounds, the tests have little power: a negative result is weak evidence.")
    is_slow = rounds * (1 - chains.eigenvalue) < _MIN_MIXING_TIMES
    has_history = rejected["memory"] or rejected["drift"]
    if is_slow.any() and has_history and not rejected["cycle"]:
        slow_users = int(is_slow.sum())
        users = "a user" if slow_users == 1 else f"{slow_users} users"
        longest = float(chains.eigenvalue[is_slow].max())
        notes.append(
            f"Memory of {users} fades slowly (a round keeps up to {longest:.3f} of it): {rounds} rounds are too few "
            "for the stated intervals, and to separate drift from memory."
        )
    return notes
