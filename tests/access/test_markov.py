"""Markov access: transition probabilities, stationarity, and lengths of stays."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from netfl.access.markov import Markov


@pytest.mark.parametrize(
    ("p", "on", "off"),
    [
        (0.5, 0.05, 0.05),
        (0.1, 0.05, 0.45),
        (0.02, 0.05 / 2.45, 1.0),  # 0.05 (1 / 0.02 - 1) = 2.45: both are divided by it
        (0.8, 0.05, 0.0125),
    ],
)
def test_switching_probabilities_match_hand_calculation(p, on, off):
    switches = Markov(probability=p).switches(np.array([p]))
    assert np.ravel(switches) == pytest.approx([on, off])


def test_user_with_probability_one_is_always_available(make_context, delivery_matrix):
    assert delivery_matrix(Markov(probability=[1.0, 0.5]), make_context(2, 500))[:, 0].all()


@pytest.mark.slow
def test_share_is_stationary_from_the_first_round(make_context, delivery_matrix):
    p = np.repeat([0.02, 0.1, 0.6], 4_000)
    available = delivery_matrix(Markov(probability=tuple(p)), make_context(12_000, 40)).reshape(40, 3, 4_000)
    for at in (0, 1, 39):
        for group, chance in enumerate((0.02, 0.1, 0.6)):
            count = int(available[at, group].sum())
            assert stats.binomtest(count, 4_000, chance).pvalue > 1e-5


def test_transitions_follow_the_chain(make_context, delivery_matrix):
    available = delivery_matrix(Markov(probability=0.1), make_context(300, 400))
    now, after = available[:-1].ravel(), available[1:].ravel()
    assert stats.binomtest(int((now & ~after).sum()), int(now.sum()), 0.45).pvalue > 1e-5
    assert stats.binomtest(int((~now & after).sum()), int((~now).sum()), 0.05).pvalue > 1e-5


def test_next_state_depends_on_the_current_state_only(make_context, delivery_matrix):
    available = delivery_matrix(Markov(probability=0.4, switch_on=0.3), make_context(300, 400))
    before, now, after = available[:-2].ravel(), available[1:-1].ravel(), available[2:].ravel()
    table = [[(now & (before == past) & (after == next_)).sum() for next_ in (False, True)] for past in (False, True)]
    assert stats.chi2_contingency(table).pvalue > 1e-5


def test_stay_lengths_are_geometric(make_context, delivery_matrix):
    available = delivery_matrix(Markov(probability=0.3, switch_on=0.2), make_context(3_000, 120))
    leave = 0.2 * (1 / 0.3 - 1)
    arrived = ~available[9] & available[10]
    stay = np.argmin(available[10:, arrived], axis=0)  # rounds until the first absence
    counts = np.bincount(np.minimum(stay, 6), minlength=7)[1:]
    law = np.array([leave * (1 - leave) ** (k - 1) for k in range(1, 6)])
    expected = np.append(law, 1 - law.sum()) * len(stay)
    assert stats.chisquare(counts, expected).pvalue > 1e-5


def test_switching_probability_does_not_change_the_rates(make_context):
    access = [Markov(probability=0.2, switch_on=switch) for switch in (0.01, 0.2)]
    assert access[0].rates(3, make_context().streams).tolist() == access[1].rates(3, make_context().streams).tolist()


@pytest.mark.parametrize(
    ("p", "switch_on", "process"),
    [
        (0.3, 0.3, "stationary"),  # arrives with 0.3, stays with 1 - 0.3 (1 / 0.3 - 1) = 0.3
        ([1.0, 0.3], 0.3, "stationary"),
        (1.0, 0.05, "stationary"),
        ([0.3, 0.4], 0.3, "Markovian"),
        (0.5, 1.0, "Markovian"),  # available in every second round
        (0.8, 1.0, "Markovian"),  # never absent for two rounds
        ({"label_correlated": {}}, 0.3, "Markovian"),
    ],
)
def test_chain_is_stationary_if_arriving_and_staying_are_equally_likely(p, switch_on, process):
    assert Markov(probability=p, switch_on=switch_on).info.process == process


def test_chain_that_always_switches_alternates(make_context, delivery_matrix):
    available = delivery_matrix(Markov(probability=0.5, switch_on=1.0), make_context(50, 20))
    assert (available[1:] != available[:-1]).all()
    assert 10 < available[0].sum() < 40


def test_certain_departure_happens_for_every_draw(constant_streams):
    """With the smallest draw the user arrives whenever possible, and still leaves."""
    available = [*Markov(probability=0.02).availability(np.array([0.02, 1.0]), 4, constant_streams(0.0))]
    assert np.array(available).T.tolist() == [[True, False, True, False], [True] * 4]
