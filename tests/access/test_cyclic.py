"""Cycles: one stretch each, of the stated length, at even offsets."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from netfl.access.cyclic import Cyclic


def test_each_user_is_there_for_its_stretch_of_every_cycle(make_setting, presence):
    p = [0.001, 0.1, 0.254, 0.256, 1.0]
    there = presence(Cyclic(probability=p), make_setting(5, 300))
    for shift in (0, 37, 200):
        assert there[shift : shift + 100].sum(axis=0).tolist() == [1, 10, 25, 26, 100]
    assert (there[:100] == there[100:200]).all()


def test_a_stretch_is_in_one_piece(make_setting, presence):
    there = presence(Cyclic(probability=0.3, cycle=20), make_setting(200, 40))
    comings = (there[1:21] & ~there[:20]).sum(axis=0)
    assert comings.tolist() == [1] * 200


def test_offsets_are_even(make_setting, presence):
    there = presence(Cyclic(probability=0.01), make_setting(20_000, 100))
    assert stats.chisquare(there.sum(axis=1)).pvalue > 1e-4


def test_rates_are_the_shares_of_a_cycle(make_setting):
    streams = make_setting().streams
    assert Cyclic(probability=[0.001, 0.254]).rates(2, streams).tolist() == [0.01, 0.25]
    assert Cyclic(probability={"label_correlated": {}}).rates(2, streams) is None


def test_a_replica_has_its_own_offsets(make_setting, presence):
    one, other = (presence(Cyclic(probability=0.1), make_setting(50, 100, replica=at)) for at in (0, 1))
    assert np.any(one != other)


@pytest.mark.parametrize(
    ("probability", "process"),
    [
        (1.0, "stationary"),
        (0.996, "stationary"),  # 99.6 rounds of 100 are 100
        ([1.0, 0.999], "stationary"),
        (0.994, "cyclic"),
        ([1.0, 0.5], "cyclic"),
        ({"label_correlated": {"minimum": 1.0}}, "cyclic"),
    ],
)
def test_nobody_comes_and_goes_whose_stretch_is_the_whole_cycle(probability, process):
    """Where probabilities follow labels it is not known."""
    assert Cyclic(probability=probability).info.process == process
