"""Chains: their switches by hand, stationarity, and the lengths of stays."""

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
        (0.02, 0.05 / 2.45, 1.0),  # 0.05 (1 / 0.02 - 1) = 2.45: both are scaled down by it
        (0.8, 0.05, 0.0125),
    ],
)
def test_switches(p, on, off):
    found = Markov(probability=p).switches(np.array([p]))
    assert np.ravel(found) == pytest.approx([on, off])


def test_a_user_who_is_always_there_stays(make_setting, presence):
    assert presence(Markov(probability=[1.0, 0.5]), make_setting(2, 500))[:, 0].all()


@pytest.mark.slow
def test_the_share_is_stationary_from_the_first_round_on(make_setting, presence):
    p = np.repeat([0.02, 0.1, 0.6], 4_000)
    there = presence(Markov(probability=tuple(p)), make_setting(12_000, 40)).reshape(40, 3, 4_000)
    for at in (0, 1, 39):
        for group, chance in enumerate((0.02, 0.1, 0.6)):
            count = int(there[at, group].sum())
            assert stats.binomtest(count, 4_000, chance).pvalue > 1e-5


def test_steps_are_those_of_the_chain(make_setting, presence):
    there = presence(Markov(probability=0.1), make_setting(300, 400))
    now, after = there[:-1].ravel(), there[1:].ravel()
    assert stats.binomtest(int((now & ~after).sum()), int(now.sum()), 0.45).pvalue > 1e-5
    assert stats.binomtest(int((~now & after).sum()), int((~now).sum()), 0.05).pvalue > 1e-5


def test_the_future_depends_on_the_present_alone(make_setting, presence):
    there = presence(Markov(probability=0.4, switch_on=0.3), make_setting(300, 400))
    before, now, after = there[:-2].ravel(), there[1:-1].ravel(), there[2:].ravel()
    table = [[(now & (before == past) & (after == next_)).sum() for next_ in (False, True)] for past in (False, True)]
    assert stats.chi2_contingency(table).pvalue > 1e-5


def test_stays_are_geometric(make_setting, presence):
    there = presence(Markov(probability=0.3, switch_on=0.2), make_setting(3_000, 120))
    leave = 0.2 * (1 / 0.3 - 1)
    begun = ~there[9] & there[10]
    stay = np.argmin(there[10:, begun], axis=0)  # rounds until the first absence
    counts = np.bincount(np.minimum(stay, 6), minlength=7)[1:]
    law = np.array([leave * (1 - leave) ** (k - 1) for k in range(1, 6)])
    expected = np.append(law, 1 - law.sum()) * len(stay)
    assert stats.chisquare(counts, expected).pvalue > 1e-5


def test_stickiness_alone_leaves_the_shares(make_setting):
    access = [Markov(probability=0.2, switch_on=switch) for switch in (0.01, 0.2)]
    assert access[0].rates(3, make_setting().streams).tolist() == access[1].rates(3, make_setting().streams).tolist()


@pytest.mark.parametrize(
    ("p", "switch_on", "process"),
    [
        (0.3, 0.3, "stationary"),  # comes with 0.3, stays with 1 - 0.3 (1 / 0.3 - 1) = 0.3
        ([1.0, 0.3], 0.3, "stationary"),
        (1.0, 0.05, "stationary"),
        ([0.3, 0.4], 0.3, "Markovian"),
        (0.5, 1.0, "Markovian"),  # there in every second round
        (0.8, 1.0, "Markovian"),  # never away for two rounds
        ({"label_correlated": {}}, 0.3, "Markovian"),
    ],
)
def test_a_chain_has_no_memory_where_one_comes_as_surely_as_one_stays(p, switch_on, process):
    assert Markov(probability=p, switch_on=switch_on).info.process == process


def test_a_chain_that_always_switches_is_there_in_every_second_round(make_setting, presence):
    there = presence(Markov(probability=0.5, switch_on=1.0), make_setting(50, 20))
    assert (there[1:] != there[:-1]).all()
    assert 10 < there[0].sum() < 40


def test_who_leaves_for_sure_leaves_whatever_is_drawn(drawing):
    """With the least number that can be drawn one comes whenever that is possible, and leaves all the same."""
    there = [*Markov(probability=0.02).availability(np.array([0.02, 1.0]), 4, drawing(0.0))]
    assert np.array(there).T.tolist() == [[True, False, True, False], [True] * 4]
