"""Memory: likelihood ratios, chains and mixing, against independent calculations."""

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


def g2(table):
    """G² of a contingency table, by scipy; rows and columns of zeros say nothing."""
    table = table[table.sum(axis=1) > 0][:, table.sum(axis=0) > 0]
    if min(table.shape) < 2:
        return 0.0
    return stats.chi2_contingency(table, correction=False, lambda_="log-likelihood").statistic


def pairs(x):
    """How often each state follows each."""
    table = np.zeros((2, 2))
    np.add.at(table, (x[:-1].astype(int), x[1:].astype(int)), 1)
    return table


def test_the_ratio_of_a_chain_over_users_is_that_of_a_contingency_table():
    who = np.random.default_rng(1).integers(0, 4, 300)
    table = np.zeros((4, 4))
    np.add.at(table, (who[:-1], who[1:]), 1)
    assert transitions_ratio(who, 4) == pytest.approx(g2(table))


@pytest.mark.parametrize("one", [False, True])
def test_the_ratio_of_two_state_chains_is_the_sum_over_users(one):
    rng = np.random.default_rng(2)
    heard = np.eye(9, dtype=bool)[rng.integers(0, 9, 200)] if one else rng.random((200, 6)) < 0.3
    found = find_memory(heard, rng)
    assert found.chain == "presence"
    assert found.statistic == pytest.approx(sum(g2(pairs(x)) for x in heard.T))


def test_the_number_of_stretches_has_the_exact_law():
    rounds, count = 9, 4
    stretches = []
    for at in combinations(range(rounds), count):
        x = np.zeros(rounds, bool)
        x[list(at)] = True
        stretches.append(x[0] + (x[1:] & ~x[:-1]).sum())
    stretches = np.array(stretches)
    for at, seen in zip(combinations(range(rounds), count), stretches, strict=True):
        x = np.zeros((rounds, 1), bool)
        x[list(at)] = True
        exact = min(1, 2 * min((stretches <= seen).mean(), (stretches >= seen).mean()))
        assert count_transitions(x).p[0] == pytest.approx(exact)


@pytest.mark.slow
def test_shuffles_give_a_p_value_that_is_even_under_independent_rounds():
    p = []
    for seed in range(300):
        rng = np.random.default_rng(seed)
        heard = rng.random((40, 3)) < 0.3
        p.append(find_memory(heard, rng).p)
    p = np.array(p)
    for bound in (0.05, 0.1, 0.25, 0.5):
        assert (p <= bound).mean() <= bound + 3 * (bound * (1 - bound) / 300) ** 0.5
    assert 0.4 < p.mean() < 0.62


def test_a_chain_is_estimated():
    rng = np.random.default_rng(3)
    x = np.zeros((200_000, 1), bool)
    for at, draw in enumerate(rng.random(len(x) - 1), start=1):
        x[at] = draw < (0.9 if x[at - 1] else 0.05)
    found = count_transitions(x)
    assert found.on[0] == pytest.approx(0.05, abs=0.003)
    assert found.off[0] == pytest.approx(0.1, abs=0.005)
    assert found.eigenvalue[0] == pytest.approx(0.85, abs=0.005)
    assert found.p[0] < 1e-9


def test_users_that_never_change_have_no_chain():
    found = count_transitions(np.array([[1, 0, 1], [1, 0, 0], [1, 0, 1]], bool))
    assert np.isnan(found.eigenvalue[:2]).all()
    assert np.isnan(found.p[:2]).all()


def test_second_order_is_conditional_independence_given_the_last_round():
    x = np.random.default_rng(4).random(500) < 0.4
    total = 0.0
    for last in (False, True):
        at = np.flatnonzero(x[1:-1] == last) + 1
        table = np.zeros((2, 2))
        np.add.at(table, (x[at - 1].astype(int), x[at + 1].astype(int)), 1)
        total += g2(table)
    assert second_order(x[:, None]) == pytest.approx(stats.chi2.sf(total, 2))


def test_second_order_is_found_where_it_is():
    rng = np.random.default_rng(5)
    x = rng.random(4000) < 0.5
    for at in range(2, len(x)):
        x[at] = x[at - 2] if rng.random() < 0.6 else x[at]
    assert second_order(x[:, None]) < 1e-6
    assert second_order(np.zeros((50, 1), bool)) is None


@pytest.mark.parametrize("stay", [0.5, 0.8, 0.97])
def test_mixing_time_by_going_step_by_step(stay):
    matrix = np.array([[stay, 1 - stay], [0.3 * (1 - stay), 1 - 0.3 * (1 - stay)]])
    limit = np.array([0.3, 1.0]) / 1.3
    steps, power = 1, matrix
    while 0.5 * np.abs(power - limit).sum(axis=1).max() > 0.25:
        steps, power = steps + 1, power @ matrix
    assert mixing_time(matrix) == steps


def test_what_alternates_never_mixes():
    assert mixing_time(np.array([[0.0, 1.0], [1.0, 0.0]])) is None


def test_a_sequence_is_one_user_in_each_round():
    assert single_user_sequence(np.eye(3, dtype=bool)).tolist() == [0, 1, 2]
    assert single_user_sequence(np.zeros((2, 3), bool)) is None


def test_many_users_are_counted_in_blocks():
    rng = np.random.default_rng(6)
    heard = rng.random((400, 1500)) < 0.4
    tracemalloc.start()
    count_transitions(heard)
    second_order(heard)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 6 * heard.size  # bytes; numbers of rounds would take eight times as many
