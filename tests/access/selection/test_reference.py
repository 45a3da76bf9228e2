"""Who is heard where the server selects and the RAM decides: against sums over all that can happen."""

from itertools import combinations, permutations

import numpy as np
import pytest
from support.recorders import Memory

from netfl.access.bernoulli import Bernoulli
from netfl.access.drifting import Drifting
from netfl.access.stationary import Stationary
from netfl.streams import Streams
from netfl.types import AccessContext

RHO, HELD, ROUNDS = (0.5, 0.25, 0.15, 0.1), np.array([1.0, 2.0, 3.0, 6.0]), 6_000


def sets_of(selection):
    """Each set of users that may try, and its probability."""
    m = selection["m"]
    if selection["kind"] == "uniform":
        chosen = [*combinations(range(4), m)]
        return {frozenset(each): 1 / len(chosen) for each in chosen}
    found = {}
    for order in permutations(range(4), m):
        chance, left = 1.0, HELD.sum()
        for user in order:
            chance, left = chance * HELD[user] / left, left - HELD[user]
        found[frozenset(order)] = found.get(frozenset(order), 0.0) + chance
    return found


def first_by_rates(may):
    """Rates over those who may try."""
    total = sum(RHO[user] for user in may)
    return {user: RHO[user] / total for user in may}


def first_of_those_there(may):
    """Everybody is there with its own p; the first of a random order is heard."""
    shares = dict.fromkeys(may, 0.0)
    for size in range(1, len(may) + 1):
        for there in combinations(sorted(may), size):
            chance = np.prod([RHO[user] if user in there else 1 - RHO[user] for user in may])
            for user in there:
                shares[user] += chance / size
    return shares


ACCESSES = {
    "stationary": (lambda told: Stationary(rho=RHO, deliveries=1, **told), first_by_rates),
    "drifting": (
        lambda told: Drifting(knots=[{"round": 1, "rho": RHO}, {"round": 9, "rho": RHO}], deliveries=1, **told),
        first_by_rates,
    ),
    "bernoulli": (lambda told: Bernoulli(probability=RHO, deliveries=1, **told), first_of_those_there),
}


@pytest.mark.parametrize("kind", ["uniform", "by_size"])
@pytest.mark.parametrize("name", ACCESSES)
@pytest.mark.slow
def test_shares_are_those_of_all_that_can_happen(name, kind):
    make, shares = ACCESSES[name]
    selection, expected = {"kind": kind, "m": 2}, np.zeros(4)
    for may, chance in sets_of(selection).items():
        for user, share in shares(may).items():
            expected[user] += chance * share
    setting = AccessContext(4, ROUNDS, 0, Streams(3), np.ones(4), 1.0, 1.0, Memory("none"), held=HELD)
    heard = [one.user for each in make({"selection": selection}).rounds(setting) for one in each.deliveries]
    found = np.bincount(heard, minlength=4) / ROUNDS
    assert np.abs(found - expected).max() < 4.5 * np.sqrt(expected * (1 - expected) / ROUNDS).max()
