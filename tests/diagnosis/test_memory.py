"""Memory of deliveries: likelihood ratios, Markov chains and mixing times, against independent calculations."""

import tracemalloc
from itertools import combinations

import numpy as np
import pytest
from scipy import stats

from netfl.diagnosis.memory import (
    count_transitions,
    find_memory,
    mixing_time,
    second_order,
    single_user_sequence,
    transitions_ratio,
)


def likelihood_ratio(table):
    """Return G² of a contingency table, computed by scipy without empty rows and columns."""
    table = table[table.sum(axis=1) > 0][:, table.sum(axis=0) > 0]
    if min(table.shape) < 2:
        return 0.0
    return stats.chi2_contingency(table, correction=False, lambda_="log-likelihood").statistic


def transition_counts(x):
    """Return the transition counts of a two-state sequence."""
    table = np.zeros((2, 2))
    np.add.at(table, (x[:-1].astype(int), x[1:].astype(int)), 1)
    return table


def test_ratio_of_a_chain_over_users_equals_the_contingency_table():
    sequence = np.random.default_rng(1).integers(0, 4, 300)
    table = np.zeros((4, 4))
    np.add.at(table, (sequence[:-1], sequence[1:]), 1)
    assert transitions_ratio(sequence, 4) == pytest.approx(likelihood_ratio(table))


@pytest.mark.parametrize("single_user", [False, True])
def test_ratio_of_two_state_chains_sums_over_users(single_user):
    rng = np.random.default_rng(2)
    delivered = np.eye(9, dtype=bool)[rng.integers(0, 9, 200)] if single_user else rng.random((200, 6)) < 0.3
    result = find_memory(delivered, rng)
    assert result.chain == "presence"
    assert result.statistic == pytest.approx(sum(likelihood_ratio(transition_counts(x)) for x in delivered.T))


def test_number_of_runs_has_the_exact_distribution():
    rounds, count = 9, 4
    run_counts = []
    for at in combinations(range(rounds), count):
        x = np.zeros(rounds, bool)
        x[list(at)] = True
        run_counts.append(x[0] + (x[1:] & ~x[:-1]).sum())
    run_counts = np.array(run_counts)
    for at, observed in zip(combinations(range(rounds), count), run_counts, strict=True):
        x = np.zeros((rounds, 1), bool)
        x[list(at)] = True
        exact = min(1, 2 * min((run_counts <= observed).mean(), (run_counts >= observed).mean()))
        assert count_transitions(x).p[0] == pytest.approx(exact)


@pytest.mark.slow
def test_p_value_is_uniform_for_independent_rounds():
    p = []
    for seed in range(300):
        rng = np.random.default_rng(seed)
        delivered = rng.random((40, 3)) < 0.3
        p.append(find_memory(delivered, rng).p)
    p = np.array(p)
    for bound in (0.05, 0.1, 0.25, 0.5):
        assert (p <= bound).mean() <= bound + 3 * (bound * (1 - bound) / 300) ** 0.5
    assert 0.4 < p.mean() < 0.62


def test_chain_parameters_are_estimated():
    rng = np.random.default_rng(3)
    x = np.zeros((200_000, 1), bool)
    for at, draw in enumerate(rng.random(len(x) - 1), start=1):
        x[at] = draw < (0.9 if x[at - 1] else 0.05)
    result = count_transitions(x)
    assert result.on[0] == pytest.approx(0.05, abs=0.003)
    assert result.off[0] == pytest.approx(0.1, abs=0.005)
    assert result.eigenvalue[0] == pytest.approx(0.85, abs=0.005)
    assert result.p[0] < 1e-9


def test_constant_users_have_no_chain():
    result = count_transitions(np.array([[1, 0, 1], [1, 0, 0], [1, 0, 1]], bool))
    assert np.isnan(result.eigenvalue[:2]).all()
    assert np.isnan(result.p[:2]).all()


def test_second_order_tests_independence_given_the_last_round():
    x = np.random.default_rng(4).random(500) < 0.4
    total = 0.0
    for last in (False, True):
        at = np.flatnonzero(x[1:-1] == last) + 1
        table = np.zeros((2, 2))
        np.add.at(table, (x[at - 1].astype(int), x[at + 1].astype(int)), 1)
        total += likelihood_ratio(table)
    assert second_order(x[:, None]) == pytest.approx(stats.chi2.sf(total, 2))


def test_second_order_memory_is_detected():
    rng = np.random.default_rng(5)
    x = rng.random(4000) < 0.5
    for at in range(2, len(x)):
        x[at] = x[at - 2] if rng.random() < 0.6 else x[at]
    assert second_order(x[:, None]) < 1e-6
    assert second_order(np.zeros((50, 1), bool)) is None


@pytest.mark.parametrize("stay", [0.5, 0.8, 0.97])
def test_mixing_time_matches_matrix_powers(stay):
    matrix = np.array([[stay, 1 - stay], [0.3 * (1 - stay), 1 - 0.3 * (1 - stay)]])
    limit = np.array([0.3, 1.0]) / 1.3
    steps, power = 1, matrix
    while 0.5 * np.abs(power - limit).sum(axis=1).max() > 0.25:
        steps, power = steps + 1, power @ matrix
    assert mixing_time(matrix) == steps


def test_alternating_chain_never_mixes():
    assert mixing_time(np.array([[0.0, 1.0], [1.0, 0.0]])) is None


def test_sequence_has_one_user_per_round():
    assert single_user_sequence(np.eye(3, dtype=bool)).tolist() == [0, 1, 2]
    assert single_user_sequence(np.zeros((2, 3), bool)) is None


def test_memory_use_is_limited_with_many_users():
    rng = np.random.default_rng(6)
    delivered = rng.random((400, 1500)) < 0.4
    tracemalloc.start()
    count_transitions(delivered)
    second_order(delivered)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 6 * delivered.size  # bytes; an array of integers would take eight per entry
