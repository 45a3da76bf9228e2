"""Dependence of users beyond rates that drift or repeat, with its false alarms."""

import numpy as np
import pytest

from netfl.diagnosis.local_dependence import find_local_dependence
from netfl.diagnosis.similar_rounds import find_similar_rounds


def changing_rates(rng, rounds, users, shape, period=0):
    """Return the rates of users with a change that all have in common, and a cycle, ``[rounds, users]``."""
    at = np.arange(rounds) / rounds
    change = {
        "none": 0 * at,
        "line": at - 0.5,
        "jump": (at > rng.uniform(0.2, 0.8)) - 0.5,
        "there and back": np.abs(2 * at - 1) - 0.5,
    }[shape]
    odds = rng.uniform(-1.5, 1.5, users) + 2.0 * change[:, None]
    if period:
        odds = odds + rng.normal(size=(period, users))[np.arange(rounds) % period]
    return 1 / (1 + np.exp(-odds))


def dependence_of(delivered, period=0):
    similar = find_similar_rounds(np.arange(float(len(delivered))), period or None, float(len(delivered)))
    return find_local_dependence(delivered, similar, ("cycle", "drift") if period else ("drift",))


@pytest.mark.parametrize("users", [3, 40])
@pytest.mark.parametrize(("shape", "period"), [("none", 0), ("line", 0), ("jump", 0), ("there and back", 9)])
@pytest.mark.slow
def test_common_changes_of_rates_are_no_dependence(shape, period, users):
    """At a level of 1.25 %, at most 4 of 60 (a binomial number exceeds that in 0.1 % of cases)."""
    alarms = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        delivered = rng.random((1500, users)) < changing_rates(rng, 1500, users, shape, period)
        alarms += dependence_of(delivered, period).p <= 0.0125
    assert alarms <= 4


@pytest.mark.slow
def test_memory_of_independent_users_is_no_dependence():
    """Users stay for ten rounds in the mean, and their rates change."""
    alarms = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        rates = changing_rates(rng, 1500, 12, "line")
        delivered = np.zeros((1500, 12), bool)
        delivered[0] = rng.random(12) < rates[0]
        for at in range(1, 1500):
            delivered[at] = np.where(rng.random(12) < 0.8, delivered[at - 1], rng.random(12) < rates[at])
        alarms += dependence_of(delivered).p <= 0.0125
    assert alarms <= 4


@pytest.mark.parametrize("size", [2, 5])
@pytest.mark.slow
def test_rounds_of_limited_size_are_no_dependence(size):
    """A race of exponential clocks whose rates change from one end of the users to the other."""
    alarms = 0
    for seed in range(30):
        rng = np.random.default_rng(seed)
        share = np.linspace(0, 1, 2000)[:, None]
        rates = (1 - share) * np.linspace(0.2, 1.0, 20) + share * np.linspace(1.0, 0.2, 20)
        clocks = rng.exponential(size=rates.shape) / rates
        delivered = clocks <= np.sort(clocks, axis=1)[:, size - 1 : size]
        alarms += dependence_of(delivered).p <= 0.0125
    assert alarms <= 3


@pytest.mark.parametrize("period", [0, 8])
def test_common_loss_is_found_beyond_the_changes(period):
    """Users with rates p (1 - c) under a loss c of all have the covariance p_i p_j c (1 - c)."""
    rng = np.random.default_rng(1)
    rates = changing_rates(rng, 4000, 6, "line", period)
    loss = 0.1
    delivered = (rng.random(rates.shape) < rates) & (rng.random((4000, 1)) >= loss)
    result = dependence_of(delivered, period)
    assert result.p < 1e-6
    assert result.groups == ((0, 1, 2, 3, 4, 5),)
    thinned = rates * (1 - loss)
    covariance = np.einsum("ti,tj->ij", rates, rates) * loss * (1 - loss)
    deviation = np.sqrt((thinned * (1 - thinned)).sum(axis=0))
    expected = (covariance / np.outer(deviation, deviation))[np.triu_indices(6, 1)]
    assert result.correlation == pytest.approx(np.sqrt((expected**2).mean()), abs=0.03)
    assert result.beyond == (("cycle", "drift") if period else ("drift",))


def test_schedule_leaves_no_users_to_test():
    at = np.arange(1000)[:, None]
    delivered = (at + np.arange(4)) % 10 < 4
    result = dependence_of(delivered, 10)
    assert result.p is None
    assert "fewer than two users" in result.why_not


def test_one_user_in_each_round_is_not_tested():
    delivered = np.eye(4, dtype=bool)[np.random.default_rng(2).integers(0, 4, 500)]
    assert dependence_of(delivered).why_not == "one user per round"
