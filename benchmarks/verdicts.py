"""Diagnose processes of known kind, and print how often the verdict is correct.

    python benchmarks/verdicts.py [--each 200] [--seed 2026] [--workers 1] [--slow | --causes]

The processes have 3 to 250 users and 4,000 or 10,000 rounds:

- Stationary: one user per round from rho (random simplex, Zipf, the 30 rates of FED-CVaR-AVG's experiments), or
  independent users with FedAU's probabilities, of which all or only the first deliver.
- Markovian: FedAU's chains of stickiness 0.05, all or the first.  Such a chain has the eigenvalue 1 - 0.05 / p: a user
  with p = 0.05 is memoryless, and one with p = 1 never leaves, so probabilities are redrawn until that of some user
  lies between 0.1 and 0.95.
- Cyclic: FedAU's cycle of 100 rounds, all or the first.
- Non-stationary: rho or probabilities that drift linearly, or jump once, to another draw at a relative variation of at
  least 0.3.
- Emergent-correlated: users that are down in groups.

Drift and groups are generated in this file, the other processes by accesses of netfl.

With --slow, the processes have slow cycles, or changes that are easily taken for slow cycles:

- Slow cycle: 3 to 10 periods.
- Orbit and day: satellites that are seen once an orbit, in 40 % of each of 3 to 10 days of 15.16 orbits.
- Too short: 1.6 to 2.6 periods.
- Cycle and trend: a cycle of 50 rounds whose rates drift as above.
- Pieces: two to eight pieces of constant rates.

With --causes, the processes are links of the access `time_varying` with any of a drift, a cycle and a correlation, and
each cause is counted on its own.  They have 4, 8 or 30 users and 2,000 or 6,000 rounds, and probabilities from 0.2 to
0.95.  The parameters of a cause are drawn:

- Drift: a walk with a time scale of half of the run and a spread of 0.8, or lines that change the margins by 0.5 to 1.5
  up or down, over the run.
- Cycle: 5, 8 or 24 rounds, with a spread of 0.5.
- Correlation: a common loss of 4 to 12 % of the rounds.
"""

from __future__ import annotations

import time
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from scipy import stats

from netfl.access._direct import DirectAccess
from netfl.access._rates import LabelCorrelation, Zipf, correlated_rates, normalized_rates
from netfl.access.bernoulli import Bernoulli
from netfl.access.cyclic import Cyclic
from netfl.access.markov import Markov
from netfl.access.stationary import Stationary
from netfl.access.time_varying import TimeVarying
from netfl.diagnosis import ExpectedProcess, diagnose
from netfl.diagnosis.multiple_testing import DECIDES
from netfl.streams import Streams
from netfl.types import AccessContext, NullRecorder

Process = tuple[NDArray[np.bool_], NDArray[np.float64] | None]
"""Delivered users, ``[rounds, users]``, and the true participation rate of each user, if known."""

USERS = (3, 10, 30, 100, 250)
ROUNDS = (4000, 10000)
RHO30 = (0.0735, 0.0692, 0.0645, 0.0584, 0.0557, 0.0547, 0.0537, 0.0462, 0.0445, 0.0422, 0.0417, 0.0333, 0.0327,
         0.0275, 0.0267, 0.0261, 0.0258, 0.0244, 0.0241, 0.0240, 0.0215, 0.0185, 0.0181, 0.0180, 0.0176, 0.0170,
         0.0169, 0.0107, 0.0078, 0.0053)  # fmt: skip


def play(access: DirectAccess, users: int, rounds: int, streams: Streams) -> NDArray[np.bool_]:
    """Return the delivered users, ``[rounds, users]``."""
    delivered = np.zeros((rounds, users), bool)
    samples, mix = np.ones(users), np.full((users, 10), 0.1)
    context = AccessContext(users, rounds, 0, streams, samples, 1.0, 1.0, NullRecorder(), label_mix=mix)
    candidates = access.candidates(context, access.deliveries)
    for row, able in zip(delivered, candidates, strict=True):
        row[able[: access.deliveries]] = True
    return delivered


def fedau(
    users: int, streams: Streams, able: Callable[[NDArray[np.float64]], bool] = lambda p: True
) -> NDArray[np.float64]:
    """Return FedAU's probabilities, ``max(0.02, 0.1 C <κ_n, q>)``, redrawn until *able* accepts them."""
    for draw in range(1000):
        rng = streams.rng("mix", draw)
        mix = rng.dirichlet(np.full(10, 0.1), users)
        probabilities = correlated_rates(LabelCorrelation(), mix, streams.at("liking", draw))
        if able(probabilities):
            return probabilities
    raise ValueError("no suitable probabilities")


def stationary(index: int, users: int, rounds: int, streams: Streams) -> Process:
    """Return independent rounds: one user from rho, independent users, or the first of those."""
    form = index % 5
    if form < 3:
        listed = tuple(np.array(RHO30) / sum(RHO30)) if users == 30 else Zipf(zipf=0.5)
        rho = ("random_simplex", Zipf(zipf=1.0), listed)[form]
        access = Stationary(rho=rho)
        return play(access, users, rounds, streams), normalized_rates(access.rho, users, streams)
    probabilities = fedau(users, streams, lambda p: p.max() < 0.999)
    access = Bernoulli(probability=tuple(probabilities), deliveries=None if form == 3 else 1)
    return play(access, users, rounds, streams), probabilities if form == 3 else None


def remembers(probabilities: NDArray[np.float64]) -> bool:
    """Return whether a chain that switches on with 0.05 has memory for some user: ``1 - 0.05 / p`` is 0 at 0.05."""
    return bool(((probabilities > 0.1) & (probabilities < 0.95)).any())


def markov(index: int, users: int, rounds: int, streams: Streams) -> Process:
    """Return Markov chains of stickiness 0.05."""
    probabilities = fedau(users, streams, remembers)
    access = Markov(probability=tuple(probabilities), switch_on=0.05, deliveries=None if index % 2 else 1)
    return play(access, users, rounds, streams), probabilities if index % 2 else None


def cyclic(index: int, users: int, rounds: int, streams: Streams) -> Process:
    """Return a cycle of 100 rounds."""
    probabilities = fedau(users, streams, lambda p: p.min() < 0.99)
    access = Cyclic(probability=tuple(probabilities), cycle=100, deliveries=None if index % 2 else 1)
    return play(access, users, rounds, streams), access.rates(users, streams) if index % 2 else None


def drifting(index: int, users: int, rounds: int, streams: Streams) -> Process:
    """Return rates that drift linearly, or jump, to another draw at a (relative) variation of at least 0.3."""
    rng = streams.rng("drift")
    at = np.arange(rounds) / rounds
    share = at if index % 2 else (at >= rng.uniform(0.2, 0.8)).astype(float)
    if index // 2 % 2:
        before = normalized_rates("random_simplex", users, streams)
        after = before
        while 0.5 * np.abs(after - before).sum() < min(0.3, 0.9 * 0.5 * np.abs(before[::-1] - before).sum()):
            after = rng.permutation(before)
        rho = before + share[:, None] * (after - before)
        user_ids = (rho.cumsum(axis=1) < rng.random(rounds)[:, None]).sum(axis=1)
        return np.eye(users, dtype=bool)[user_ids], None
    before = fedau(users, streams.at("before"))
    for draw in range(1000):
        after = fedau(users, streams.at("after", draw))
        if np.abs(after - before).sum() >= 0.3 * (before + after).sum():
            break
    return rng.random((rounds, users)) < before + share[:, None] * (after - before), None


def grouped(index: int, users: int, rounds: int, streams: Streams) -> Process:
    """Return independent rounds in which users of a group are down together."""
    rng = streams.rng("groups")
    group = np.arange(users) % max(1, users // (3 if users < 10 else 5))
    up = rng.random((rounds, group.max() + 1)) < rng.uniform(0.5, 0.8)
    return up[:, group] & (rng.random((rounds, users)) < rng.uniform(0.2, 0.8, users)), None


def slow_cycle(index: int, users: int, rounds: int, streams: Streams) -> Process:
    """Return users that are available for 40 % of each of 3 to 10 cycles."""
    return pulses(rounds / streams.rng("period").uniform(3.0, 10.0), 0.4, users, rounds, streams), None


def constellation(index: int, users: int, rounds: int, streams: Streams) -> Process:
    """Return satellites with a short pass in each orbit, during a part of the day; half of them deliver every time."""
    day = rounds / streams.rng("period").uniform(3.0, 10.0)
    orbits = pulses(day / 15.16, 0.3, users, rounds, streams.at("orbit"), chance=1.0)
    return orbits & pulses(day, 0.4, users, rounds, streams.at("day"), chance=1.0 if index % 2 else 0.7), None


def too_short(index: int, users: int, rounds: int, streams: Streams) -> Process:
    """Return users that are available for 40 % of each of 1.6 to 2.6 cycles."""
    return pulses(rounds / streams.rng("period").uniform(1.6, 2.6), 0.4, users, rounds, streams), None


def cycle_and_trend(index: int, users: int, rounds: int, streams: Streams) -> Process:
    """Return a cycle of users whose rates drift."""
    form = index % 2  # independent users whose probabilities jump, or drift linearly
    delivered, _ = drifting(form, users, rounds, streams.at("trend"))
    return delivered & pulses(50.0, 0.6, users, rounds, streams.at("cycle"), chance=1.0), None


def pieces(index: int, users: int, rounds: int, streams: Streams) -> Process:
    """Return two to eight pieces of constant rates."""
    rng = streams.rng("pieces")
    number = int(rng.integers(2, 9))
    piece = np.searchsorted(np.sort(rng.uniform(0, rounds, number - 1)), np.arange(rounds))
    return rng.random((rounds, users)) < rng.uniform(0.1, 0.7, (number, users))[piece], None


def pulses(
    period: float, duty: float, users: int, rounds: int, streams: Streams, chance: float = 0.7
) -> NDArray[np.bool_]:
    """Return users that deliver by *chance* in a share *duty* of each period, from their own offsets on."""
    rng = streams.rng("pulses")
    phase = (np.arange(rounds)[:, None] / period + rng.random(users)) % 1.0
    return (phase < duty) & (rng.random((rounds, users)) < chance)


CAUSES = {
    "none": (),
    "drift": ("drift",),
    "cycle": ("cycle",),
    "correlation": ("correlation",),
    "cycle and drift": ("cycle", "drift"),
    "drift and correlation": ("drift", "correlation"),
    "cycle, drift and correlation": ("cycle", "drift", "correlation"),
}
"""Processes of `links`, and the causes that each has."""
CAUSE_TESTS = {"drift": "drift", "cycle": "cycle", "correlation": "dependence"}
"""The deciding test of each cause."""


def links(kind: str, index: int, users: int, rounds: int, streams: Streams) -> NDArray[np.bool_]:
    """Return deliveries over links with the causes of a *kind* of `CAUSES`, ``[rounds, users]``."""
    rng = streams.rng("links")
    probability = tuple(rng.uniform(0.2, 0.95, users).tolist())
    change = rng.uniform(0.5, 1.5, users) * rng.choice([-1.0, 1.0], users)
    period = int(rng.choice([5, 8, 24]))
    loss = float(rng.uniform(0.04, 0.12))
    parts: dict[str, object] = {}
    if "drift" in CAUSES[kind] and index % 2:
        parts["drift"] = {"time_scale": rounds / 2, "spread": 0.8}
    elif "drift" in CAUSES[kind]:
        parts["drift"] = {"slope": (1000 / rounds * change).tolist()}
    if "cycle" in CAUSES[kind]:
        parts["cycle"] = {"period": period, "spread": 0.5}
    if "correlation" in CAUSES[kind]:
        parts["common_loss"] = loss
    return play(TimeVarying(probability=probability, **parts), users, rounds, streams)


SLOW = {
    "slow cycle": slow_cycle,
    "orbit and day": constellation,
    "too short": too_short,
    "cycle and trend": cycle_and_trend,
    "pieces": pieces,
}
KINDS = {
    "stationary": stationary,
    "Markovian": markov,
    "cyclic": cyclic,
    "non-stationary": drifting,
    "emergent-correlated": grouped,
}


def process(kind: str, index: int, seed: int) -> Process:
    """Return the process of an index, which enumerates numbers of users, then lengths, then forms of the kind."""
    users, rounds = USERS[index % 5], ROUNDS[index // 5 % 2]
    return (KINDS | SLOW)[kind](index // 10, users, rounds, Streams(seed).at(kind, index))


def cause_outcome(kind: str, index: int, seed: int) -> tuple[str, str, dict[str, bool | None]]:
    """Diagnose the process of `links` of an index; return its kind, the verdict, and whether each cause is found."""
    users, rounds = (4, 8, 30)[index % 3], (2000, 6000)[index // 3 % 2]
    found = diagnose(links(kind, index // 6, users, rounds, Streams(seed).at(kind, index)), seed=index)
    return kind, found.verdict, {cause: found.rejected[test] for cause, test in CAUSE_TESTS.items()}


@dataclass(frozen=True)
class Outcome:
    """The diagnosis of one process.

    Args:
        kind: the true kind.
        verdict: the diagnosed kind.
        p: the p-values of the deciding tests.
        covered: whether all true rates lie in their intervals; ``None`` if they are not known in closed form.
    """

    kind: str
    verdict: str
    p: dict[str, float | None]
    covered: bool | None


def outcome(kind: str, index: int, seed: int) -> Outcome:
    """Diagnose one process."""
    delivered, rates = process(kind, index, seed)
    found = diagnose(delivered, expected=ExpectedProcess("the process", kind, rates), seed=index)
    return Outcome(kind, found.verdict, found.p, found.agrees)


def show(outcomes: Sequence[Outcome], console: Console) -> None:
    """Print the verdicts, false alarms, and how often the intervals contain all true rates."""
    columns = list(dict.fromkeys([*KINDS, *(result.verdict for result in outcomes)]))
    table = Table("process", *columns, "intervals correct", title="verdicts")
    for kind in KINDS | SLOW:
        results = [result for result in outcomes if result.kind == kind]
        if results:
            verdicts = Counter(result.verdict for result in results)
            known = [result.covered for result in results if result.covered is not None]
            correct = f"{sum(known)} of {len(known)}" if known else "not known"
            table.add_row(f"{kind} ({len(results)})", *(str(verdicts[name]) for name in columns), correct)
    console.print(table)
    if not any(result.kind == "stationary" for result in outcomes):
        return
    alarms = Table("test", "tested", "p ≤ 0.05", "p ≤ 0.0125", title="single tests on stationary processes")
    for name in DECIDES:
        p = [result.p[name] for result in outcomes if result.kind == "stationary" and result.p[name] is not None]
        if p:
            alarms.add_row(name, str(len(p)), *(f"{np.mean(np.array(p) <= bound):.3f}" for bound in (0.05, 0.0125)))
    console.print(alarms)


def counted(number: int, total: int) -> str:
    """Return a share with its 95 % interval of Clopper and Pearson."""
    if not total:
        return "-"
    interval = stats.binomtest(number, total).proportion_ci()
    return f"{number} of {total} ({interval.low:.3f} to {interval.high:.3f})"


def show_causes(outcomes: Sequence[tuple[str, str, dict[str, bool | None]]], console: Console) -> None:
    """Print the verdicts of links, and how often each cause is found where it is, and where it is not."""
    verdicts = list(dict.fromkeys(verdict for _, verdict, _ in outcomes))
    table = Table("links", *verdicts, title="verdicts")
    for kind in CAUSES:
        number = Counter(verdict for known, verdict, _ in outcomes if known == kind)
        table.add_row(f"{kind} ({sum(number.values())})", *(str(number[verdict]) for verdict in verdicts))
    console.print(table)
    shares = Table("cause", "found where it is", "found where it is not", "not tested", title="causes")
    for cause in CAUSE_TESTS:
        there = [found[cause] for kind, _, found in outcomes if cause in CAUSES[kind]]
        absent = [found[cause] for kind, _, found in outcomes if cause not in CAUSES[kind]]
        shares.add_row(
            cause,
            counted(sum(map(bool, there)), len(there)),
            counted(sum(map(bool, absent)), len(absent)),
            str([*there, *absent].count(None)),
        )
    console.print(shares)


def main() -> None:
    """Diagnose the processes and print the results."""
    parser = ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--each", type=int, default=200, help="processes of each kind")
    parser.add_argument("--seed", type=int, default=2026)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--slow", action="store_true", help="processes with slow cycles")
    parser.add_argument("--causes", action="store_true", help="links with several causes")
    options = parser.parse_args()
    kinds = CAUSES if options.causes else SLOW if options.slow else KINDS
    tasks = [(kind, index, options.seed) for kind in kinds for index in range(options.each)]
    start_s = time.perf_counter()
    console = Console(width=160)
    with ProcessPoolExecutor(options.workers, mp_context=get_context("spawn")) as pool:
        if options.causes:
            show_causes(list(pool.map(cause_outcome, *zip(*tasks, strict=True), chunksize=5)), console)
        else:
            show(list(pool.map(outcome, *zip(*tasks, strict=True), chunksize=5)), console)
    console.print(f"{len(tasks)} processes in {time.perf_counter() - start_s:.0f} s, seed {options.seed}")


if __name__ == "__main__":
    main()
