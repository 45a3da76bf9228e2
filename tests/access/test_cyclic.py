"""Cyclic access: one interval of the configured length per cycle, with uniform offsets."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from netfl.access.cyclic import Cyclic


def test_each_user_is_available_for_its_share_of_every_cycle(make_context, delivery_matrix):
    p = [0.001, 0.1, 0.254, 0.256, 1.0]
    available = delivery_matrix(Cyclic(probability=p), make_context(5, 300))
    for shift in (0, 37, 200):
        assert available[shift : shift + 100].sum(axis=0).tolist() == [1, 10, 25, 26, 100]
    assert (available[:100] == available[100:200]).all()


def test_available_rounds_are_contiguous(make_context, delivery_matrix):
    available = delivery_matrix(Cyclic(probability=0.3, cycle=20), make_context(200, 40))
    arrivals = (available[1:21] & ~available[:20]).sum(axis=0)
    assert arrivals.tolist() == [1] * 200


def test_offsets_are_uniform(make_context, delivery_matrix):
    available = delivery_matrix(Cyclic(probability=0.01), make_context(20_000, 100))
    assert stats.chisquare(available.sum(axis=1)).pvalue > 1e-4


def test_rates_equal_the_shares_of_a_cycle(make_context):
    streams = make_context().streams
    assert Cyclic(probability=[0.001, 0.254]).rates(2, streams).tolist() == [0.01, 0.25]
    assert Cyclic(probability={"label_correlated": {}}).rates(2, streams) is None


def test_replicas_have_different_offsets(make_context, delivery_matrix):
    first, second = (delivery_matrix(Cyclic(probability=0.1), make_context(50, 100, replica=at)) for at in (0, 1))
    assert np.any(first != second)


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
def test_process_is_stationary_if_each_user_covers_the_whole_cycle(probability, process):
    """With label-correlated probabilities the process counts as cyclic."""
    assert Cyclic(probability=probability).info.process == process
