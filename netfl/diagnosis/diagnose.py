"""The diagnosis itself: every test once, the verdict from four of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from netfl.diagnosis import text
from netfl.diagnosis.age_of_information import age_statistics
from netfl.diagnosis.cvar_reach import check_alpha, cvar_reach
from netfl.diagnosis.dependence import Dependence, find_dependence
from netfl.diagnosis.drift import Drift, assess_windows, find_changes, find_drift
from netfl.diagnosis.memory import (
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
from netfl.diagnosis.periodicity import Periodicity, find_cycle, find_lines, remove_cycle, whiten
from netfl.diagnosis.rates import Rates, chains_entropy, concentration, entropy_rate, rates
from netfl.diagnosis.result import Diagnosis, ExpectedProcess, MarkovOrder
from netfl.diagnosis.run_lengths import run_lengths
from netfl.errors import Fault, ScenarioError
from netfl.streams import Streams

MOST = 1000
"""Of more users only those most often heard are tested; rates, silences and waits are told of all."""
_STAYS = 50
"""With fewer rounds, in units of those in which a chain forgets, its intervals miss more often than stated."""
_MATRIX = 64
"""Up to so many users the transition matrix is estimated."""


def diagnose(
    source: Participation | pd.DataFrame | ArrayLike,
    *,
    users: int | None = None,
    rounds: int | None = None,
    level: float = 0.05,
    alphas: Sequence[float] = (),
    expected: ExpectedProcess | None = None,
    seed: int = 0,
) -> Diagnosis:
    """Say what kind of process a selection is.

    Args:
        source: who was heard: as `Participation`, as a table of deliveries with the columns ``round`` and ``user``, as
            true and false ``[rounds, users]``, or as who it was ``[rounds]`` where that is one user in each round.
        users: how many users there are, where *source* is a table or a sequence.
        rounds: how many rounds there were, where it is a table.
        level: the probability of any false alarm, and that any interval misses.
        alphas: shares of the worst (CVaR) to look at.
        expected: what is known beforehand.
        seed: of the Monte-Carlo tests.

    Raises:
        ScenarioError: with all that is wrong with it.
    """
    if not 0 < level < 1:
        raise ScenarioError([Fault("--level", "not a probability in (0, 1)", level, "write a number such as 0.05")])
    seen = _read(source, users, rounds)
    tested = _tested(seen)
    told, often, still = _asked(seen, tested, level, Streams(seed).at("diagnosis"))
    for alpha in alphas:
        check_alpha(alpha, often.share)
    if expected is not None and expected.rates is not None and len(expected.rates) != seen.users:
        expected = replace(expected, rates=None)  # of all users, where some are looked at as they were heard often
    kind, at = kind_of(told.found), find_changes(still) if told.found["drift"] else []
    return Diagnosis(
        verdict=kind,
        sentence=text.verdict_sentence(kind, seen, told, at),
        level=level,
        tests=text.all_tests(told),
        seen=seen,
        rates=often,
        concentration=concentration(often.heard),
        chains=told.chains,
        stays=told.stays,
        order=told.order,
        cycle=told.cycle,
        drift=told.drift,
        windows=told.windows,
        changes=tuple(at),
        dependence=_renumbered(told.dependence, tested),
        waits=age_statistics(seen.heard, seen.span_s),
        reach=cvar_reach(often.share, [*alphas, *(_alphas(expected))]),
        expected=expected,
        agrees=_agrees(expected, often),
        notes=(*seen.notes, *_limits(seen, len(tested)), *_sticky(told, seen.rounds)),
    )


def _asked(
    seen: Participation, tested: NDArray[np.int64], level: float, streams: Streams
) -> tuple[text.DiagnosisText, Rates, NDArray[np.float64]]:
    """Every test once; the rates, and the innovations without cycles."""
    heard = seen.heard[:, tested].astype(float)
    white = whiten(heard)
    lines = find_lines(white, level / len(DECIDES))
    cycle = find_cycle(heard, seen, lines, level / len(DECIDES))
    still = remove_cycle(white.series, lines)
    memory = find_memory(seen.heard[:, tested], streams.rng("memory"))
    drift = find_drift(still, remembers=memory.p <= level)
    own = count_transitions(seen.heard)
    dependence = find_dependence(seen.heard[:, tested], own.eigenvalue[tested])
    found = _decided(drift, cycle, memory, dependence, level, seen.rounds)
    inflation = _inflation(own, drift, cycle if found["cycle"] else None)
    often = rates(seen.heard, inflation, level)
    second = second_order(seen.heard[:, tested])
    order = _order(seen, memory, second, own, often, remembers=bool(found["memory"]))
    stay, windows = run_lengths(seen.heard, streams.rng("stays"), tested), assess_windows(heard, inflation[tested])
    return text.DiagnosisText(found, drift, cycle, memory, dependence, order, stay, windows, own), often, still


def _read(source: Participation | pd.DataFrame | ArrayLike, users: int | None, rounds: int | None) -> Participation:
    """Participation, however it is given."""
    if isinstance(source, Participation):
        return source
    if isinstance(source, pd.DataFrame):
        return from_table(source, users=users, rounds=rounds)
    return participation_from_sequence(source, users) if np.ndim(source) == 1 else from_matrix(source)


def _tested(seen: Participation) -> NDArray[np.int64]:
    """The users that tests look at: all, or those most often heard."""
    most = min(MOST, max(2, 40_000_000 // seen.rounds))
    if seen.users <= most:
        return np.arange(seen.users)
    return np.sort(np.argsort(-seen.heard.sum(axis=0), kind="stable")[:most])


def _decided(
    drift: Drift, cycle: Periodicity, memory: Memory, dependence: Dependence, level: float, rounds: int
) -> dict[str, bool | None]:
    """What the deciding tests found."""
    told = holm_rejections([drift.p, cycle.p, memory.p, dependence.p], level)
    found = dict(zip(DECIDES, told, strict=True))
    slow = bool(found["drift"]) and cycle.period is not None and cycle.period > rounds / 10  # a part of the drift
    found["cycle"] = bool(found["cycle"]) and cycle.period is not None and not slow
    return found


def _inflation(own: TransitionCounts, drift: Drift, cycle: Periodicity | None) -> NDArray[np.float64]:
    """The long-run variance of each user's participation in that of independent rounds, at least 1; 1 for cycles."""
    eigenvalue = np.clip(np.nan_to_num(own.eigenvalue), 0.0, 1 - 1e-6)
    if cycle is not None:
        return np.ones(len(eigenvalue))
    return np.asarray(max(1.0, drift.level) * (1 + eigenvalue) / (1 - eigenvalue))


def _order(
    seen: Participation, memory: Memory, second: float | None, own: TransitionCounts, often: Rates, *, remembers: bool
) -> MarkovOrder:
    """Transitions, the second eigenvalue, mixing and entropy; those of a memoryless process if it does not remember."""
    who = single_user_sequence(seen.heard)
    if who is not None and seen.users <= _MATRIX:
        counts = transitions(who, seen.users)
        rows = counts.sum(axis=1, keepdims=True)
        matrix = np.where(rows > 0, counts / np.maximum(rows, 1), often.share)
        size = np.sort(np.abs(np.linalg.eigvals(matrix)))[-2]
        chain = matrix if remembers else np.tile(often.share, (seen.users, 1))
        return MarkovOrder(
            memory, second, min(1.0, float(size)), mixing_time(chain), matrix, entropy_rate(chain, often.share)
        )
    largest = float(np.nanmax(np.abs(own.eigenvalue), initial=0.0))
    if not remembers:
        entropy = chains_entropy(often.rho, often.rho, 1 - often.rho)
        entropy = concentration(often.heard).entropy if who is not None else entropy
        return MarkovOrder(memory, second, largest, 1, None, entropy)
    return MarkovOrder(memory, second, largest, _slowest(own, often), None, chains_entropy(often.rho, own.on, own.off))


def _slowest(own: TransitionCounts, often: Rates) -> int | None:
    """Rounds until the slowest user's chain is within 1/4 of its long-run law: ``max(p, 1-p) |λ|^t <= 1/4``."""
    able = np.isfinite(own.eigenvalue) & (np.abs(own.eigenvalue) > 0)
    size = np.minimum(np.abs(own.eigenvalue[able]), 1.0)
    if (size == 1).any():
        return None
    far = np.maximum(often.rho, 1 - often.rho)[able]
    return int(np.ceil(np.log(0.25 / far) / np.log(size)).max(initial=1))


def _renumbered(dependence: Dependence, tested: NDArray[np.int64]) -> Dependence:
    """*dependence* with groups of the users' own numbers."""
    groups = tuple(tuple(tested[list(group)].tolist()) for group in dependence.groups)
    return Dependence(dependence.p, dependence.spread, dependence.correlation, groups, dependence.why_not)


def _alphas(expected: ExpectedProcess | None) -> list[float]:
    """The α of learners."""
    return [] if expected is None or expected.alphas is None else list(expected.alphas.values())


def _agrees(expected: ExpectedProcess | None, often: Rates) -> bool | None:
    """Whether the stated rates lie within the intervals of all users at once."""
    if expected is None or expected.rates is None:
        return None
    stated = np.asarray(expected.rates, float)
    return bool(((stated >= often.low) & (stated <= often.high)).all())


def _limits(seen: Participation, tested: int) -> list[str]:
    """What the data cannot tell, in sentences."""
    found = []
    if tested < seen.users:
        found.append(f"Tests look at the {tested} users most often heard, of {seen.users}.")
    if seen.rounds < 200:
        found.append(f"{seen.rounds} rounds are few: that a test finds nothing says little.")
    return found


def _sticky(told: text.DiagnosisText, rounds: int) -> list[str]:
    """Where memory is long for so many *rounds*, in a sentence."""
    slow = rounds * (1 - told.chains.eigenvalue) < _STAYS
    if not slow.any() or told.found["cycle"] or not (told.found["memory"] or told.found["drift"]):
        return []
    longest = float(told.chains.eigenvalue[slow].max())
    who = "a user" if slow.sum() == 1 else f"{int(slow.sum())} users"
    return [
        f"Memory of {who} fades slowly (a round keeps up to {longest:.3f} of it): {rounds} rounds are too few for "
        "intervals to hold as stated, and to tell drift from memory."
    ]
