"""Delivery rates of direct accesses with a selection, against sums over all outcomes."""

from itertools import combinations, permutations

import numpy as np
import pytest
from support.recorders import Memory

from netfl.access.bernoulli import Bernoulli
from netfl.access.drifting import Drifting
from netfl.access.stationary import Stationary
from netfl.streams import Streams
from netfl.types import AccessContext

RHO, SAMPLES, ROUNDS = (0.5, 0.25, 0.15, 0.1), np.array([1.0, 2.0, 3.0, 6.0]), 6_000


def selection_probabilities(selection):
    """Return the probability of each set of selected users."""
    m = selection["m"]
    if selection["kind"] == "uniform":
        sets = [*combinations(range(4), m)]
        return {frozenset(each): 1 / len(sets) for each in sets}
    probabilities = {}
    for order in permutations(range(4), m):
        chance, left = 1.0, SAMPLES.sum()
        for user in order:
            chance, left = chance * SAMPLES[user] / left, left - SAMPLES[user]
        probabilities[frozenset(order)] = probabilities.get(frozenset(order), 0.0) + chance
    return probabilities


def shares_by_rates(selected):
    """Return the shares in proportion to the rates of the *selected* users."""
    total = sum(RHO[user] for user in selected)
    return {user: RHO[user] / total for user in selected}


def shares_of_available(selected):
    """Return the shares if each user is available with its own p and one at random is delivered."""
    shares = dict.fromkeys(selected, 0.0)
    for size in range(1, len(selected) + 1):
        for available in combinations(sorted(selected), size):
            chance = np.prod([RHO[user] if user in available else 1 - RHO[user] for user in selected])
            for user in available:
                shares[user] += chance / size
    return shares


ACCESSES = {
    "stationary": (lambda overrides: Stationary(rho=RHO, deliveries=1, **overrides), shares_by_rates),
    "drifting": (
        lambda overrides: Drifting(
            knots=[{"round": 1, "rho": RHO}, {"round": 9, "rho": RHO}], deliveries=1, **overrides
        ),
        shares_by_rates,
    ),
    "bernoulli": (lambda overrides: Bernoulli(probability=RHO, deliveries=1, **overrides), shares_of_available),
}


@pytest.mark.parametrize("kind", ["uniform", "by_size"])
@pytest.mark.parametrize("name", ACCESSES)
@pytest.mark.slow
def test_shares_match_enumeration(name, kind):
    make, shares = ACCESSES[name]
    selection, expected = {"kind": kind, "m": 2}, np.zeros(4)
    for selected, chance in selection_probabilities(selection).items():
        for user, share in shares(selected).items():
            expected[user] += chance * share
    context = AccessContext(4, ROUNDS, 0, Streams(3), np.ones(4), 1.0, 1.0, Memory("none"), held=SAMPLES)
    delivered = [
        delivery.user for round_ in make({"selection": selection}).rounds(context) for delivery in round_.deliveries
    ]
    measured = np.bincount(delivered, minlength=4) / ROUNDS
    assert np.abs(measured - expected).max() < 4.5 * np.sqrt(expected * (1 - expected) / ROUNDS).max()
