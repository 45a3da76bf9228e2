"""Diagnose processes whose kind is known, and print how often the verdict is right.

    python benchmarks/verdicts.py [--each 200] [--seed 2026] [--workers 1]

Users from 3 to 250, 4,000 and 10,000 rounds.  Stationary: one user a round from rho (random simplex, Zipf, the 30 rates
of FED-CVaR-AVG's experiments), and users that come by themselves with FedAU's chances, all heard or the first.
Markovian: FedAU's chains of stickiness 0.05, all heard or the first.  Such a chain has the eigenvalue 1 - 0.05 / p: a
user with p = 0.05 is memoryless, and one with p = 1 never leaves, so that chances are drawn again until some user's
lies between 0.1 and 0.95.  Cyclic: FedAU's, 100 rounds, all heard or the first.  Non-stationary: rho or chances that
move evenly, or jump once, to another draw that is at least 0.3 away in relative variation.  Emergent-correlated: users
that are cut off in groups.  The processes are played by netfl's own accesses; drift and groups have generators here.
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

from netfl.access._direct import DirectAccess
from netfl.access._rates import LabelCorrelation, Zipf, correlated_rates, normalized_rates
from netfl.access.bernoulli import Bernoulli
from netfl.access.cyclic import Cyclic
from netfl.access.markov import Markov
from netfl.access.stationary import Stationary
from netfl.diagnosis import ExpectedProcess, diagnose
from netfl.diagnosis.multiple_testing import DECIDES
from netfl.streams import Streams
from netfl.types import AccessContext, NullRecorder

Process = tuple[NDArray[np.bool_], NDArray[np.float64] | None]
"""Who is heard, ``[rounds, users]``, and the true share of rounds of each user, where that is known."""

USERS = (3, 10, 30, 100, 250)
ROUNDS = (4000, 10000)
RHO30 = (0.0735, 0.0692, 0.0645, 0.0584, 0.0557, 0.0547, 0.0537, 0.0462, 0.0445, 0.0422, 0.0417, 0.0333, 0.0327,
         0.0275, 0.0267, 0.0261, 0.0258, 0.0244, 0.0241, 0.0240, 0.0215, 0.0185, 0.0181, 0.0180, 0.0176, 0.0170,
         0.0169, 0.0107, 0.0078, 0.0053)  # fmt: skip


def play(access: DirectAccess, users: int, rounds: int, streams: Streams) -> NDArray[np.bool_]:
    """Who is heard, ``[rounds, users]``."""
    heard = np.zeros((rounds, users), bool)
    samples, mix = np.ones(users), np.full((users, 10), 0.1)
    context = AccessContext(users, rounds, 0, streams, samples, 1.0, 1.0, NullRecorder(), label_mix=mix)
    candidates = access.candidates(context, access.deliveries)
    for row, able in zip(heard, candidates, strict=True):
        row[able[: access.deliveries]] = True
    return heard


def fedau(
    users: int, streams: Streams, able: Callable[[NDArray[np.float64]], bool] = lambda p: True
) -> NDArray[np.float64]:
    """The chances of FedAU: ``max(0.02, 0.1 C <κ_n, q>)``, drawn again until *able*."""
    for draw in range(1000):
        rng = streams.rng("mix", draw)
        mix = rng.dirichlet(np.full(10, 0.1), users)
        chances = correlated_rates(LabelCorrelation(), mix, streams.at("liking", draw))
        if able(chances):
            return chances
    raise ValueError("no such chances")


def stationary(index: int, users: int, rounds: int, streams: Streams) -> Process:
    """Independent rounds: one user from rho, or each user by itself, or the first of those."""
    form = index % 5
    if form < 3:
        listed = tuple(np.array(RHO30) / sum(RHO30)) if users == 30 else Zipf(zipf=0.5)
        rho = ("random_simplex", Zipf(zipf=1.0), listed)[form]
        access = Stationary(rho=rho)
        return play(access, users, rounds, streams), normalized_rates(access.rho, users, streams)
    chances = fedau(users, streams, lambda p: p.max() < 0.999)
    access = Bernoulli(probability=tuple(chances), deliveries=None if form == 3 else 1)
    return play(access, users, rounds, streams), chances if form == 3 else None


def remembers(chances: NDArray[np.float64]) -> bool:
    """Whether a chain that switches on with 0.05 has memory for some user: ``1 - 0.05 / p`` is 0 at 0.05."""
    return bool(((chances > 0.1) & (chances < 0.95)).any())


def markov(index: int, users: int, rounds: int, streams: Streams) -> Process:
    """Stickiness 0.05."""
    chances = fedau(users, streams, remembers)
    access = Markov(probability=tuple(chances), switch_on=0.05, deliveries=None if index % 2 else 1)
    return play(access, users, rounds, streams), chances if index % 2 else None


def cyclic(index: int, users: int, rounds: int, streams: Streams) -> Process:
    """A cycle of 100 rounds."""
    chances = fedau(users, streams, lambda p: p.min() < 0.99)
    access = Cyclic(probability=tuple(chances), cycle=100, deliveries=None if index % 2 else 1)
    return play(access, users, rounds, streams), access.rates(users, streams) if index % 2 else None


def drifting(index: int, users: int, rounds: int, streams: Streams) -> Process:
    """Rates that move evenly, or jump, from one draw to another that is at least 0.3 away in (relative) variation."""
    rng = streams.rng("drift")
    at = np.arange(rounds) / rounds
    share = at if index % 2 else (at >= rng.uniform(0.2, 0.8)).astype(float)
    if index // 2 % 2:
        before = normalized_rates("random_simplex", users, streams)
        after = before
        while 0.5 * np.abs(after - before).sum() < min(0.3, 0.9 * 0.5 * np.abs(before[::-1] - before).sum()):
            after = rng.permutation(before)
        rho = before + share[:, None] * (after - before)
        who = (rho.cumsum(axis=1) < rng.random(rounds)[:, None]).sum(axis=1)
        return np.eye(users, dtype=bool)[who], None
    before = fedau(users, streams.at("before"))
    for draw in range(1000):
        after = fedau(users, streams.at("after", draw))
        if np.abs(after - before).sum() >= 0.3 * (before + after).sum():
            break
    return rng.random((rounds, users)) < before + share[:, None] * (after - before), None


def grouped(index: int, users: int, rounds: int, streams: Streams) -> Process:
    """Independent rounds; users of a group are cut off together."""
    rng = streams.rng("groups")
    group = np.arange(users) % max(1, users // (3 if users < 10 else 5))
    up = rng.random((rounds, group.max() + 1)) < rng.uniform(0.5, 0.8)
    return up[:, group] & (rng.random((rounds, users)) < rng.uniform(0.2, 0.8, users)), None


KINDS = {
    "stationary": stationary,
    "Markovian": markov,
    "cyclic": cyclic,
    "non-stationary": drifting,
    "emergent-correlated": grouped,
}


def process(kind: str, index: int, seed: int) -> Process:
    """The process of a number: all numbers of users come in turn, then all lengths, then all forms of the kind."""
    users, rounds = USERS[index % 5], ROUNDS[index // 5 % 2]
    return KINDS[kind](index // 10, users, rounds, Streams(seed).at(kind, index))


@dataclass(frozen=True)
class Outcome:
    """What came of one process.

    Args:
        kind: what it is.
        verdict: what it was found to be.
        p: the p-values of the deciding tests.
        covered: whether all true rates lie in their intervals; ``None`` where they are not known in closed form.
    """

    kind: str
    verdict: str
    p: dict[str, float | None]
    covered: bool | None


def outcome(kind: str, index: int, seed: int) -> Outcome:
    """Diagnose one process."""
    heard, rates = process(kind, index, seed)
    found = diagnose(heard, expected=ExpectedProcess("the process", kind, rates), seed=index)
    return Outcome(kind, found.verdict, found.p, found.agrees)


def show(outcomes: Sequence[Outcome], console: Console) -> None:
    """Print how often the verdict is right, false alarms, and how often the intervals hold all true rates."""
    table = Table("process", *KINDS, "intervals hold", title="verdicts")
    for kind in KINDS:
        own = [one for one in outcomes if one.kind == kind]
        if own:
            verdicts = Counter(one.verdict for one in own)
            known = [one.covered for one in own if one.covered is not None]
            held = f"{sum(known)} of {len(known)}" if known else "not known"
            table.add_row(f"{kind} ({len(own)})", *(str(verdicts[name]) for name in KINDS), held)
    console.print(table)
    alarms = Table("test", "asked", "p ≤ 0.05", "p ≤ 0.0125", title="single tests on stationary processes")
    for name in DECIDES:
        p = [one.p[name] for one in outcomes if one.kind == "stationary" and one.p[name] is not None]
        if p:
            alarms.add_row(name, str(len(p)), *(f"{np.mean(np.array(p) <= bound):.3f}" for bound in (0.05, 0.0125)))
    console.print(alarms)


def main() -> None:
    """Diagnose and print."""
    parser = ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--each", type=int, default=200, help="processes of each kind")
    parser.add_argument("--seed", type=int, default=2026)
    parser.add_argument("--workers", type=int, default=1)
    options = parser.parse_args()
    tasks = [(kind, index, options.seed) for kind in KINDS for index in range(options.each)]
    began = time.perf_counter()
    with ProcessPoolExecutor(options.workers, mp_context=get_context("spawn")) as pool:
        outcomes = list(pool.map(outcome, *zip(*tasks, strict=True), chunksize=5))
    console = Console(width=120)
    show(outcomes, console)
    console.print(f"{len(tasks)} processes in {time.perf_counter() - began:.0f} s, seed {options.seed}")


if __name__ == "__main__":
    main()
