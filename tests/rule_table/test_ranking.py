"""Ranks of rules: order, ties, and intervals that follow from the replicas they share."""

import numpy as np
import pytest

from netfl.rule_table.ranking import rank_rules

SHARED = np.linspace(0.5, 0.9, 10)
"""What all rules share in a replica, which is much larger than their differences."""


def test_differences_of_pairs_decide_the_interval_of_a_rank():
    ranks = rank_rules({"a": SHARED, "b": SHARED + 0.01, "c": SHARED - 0.01})
    assert [(ranks[name].rank, ranks[name].first, ranks[name].last) for name in "bac"] == [
        (1, 1, 1), (2, 2, 2), (3, 3, 3),
    ]  # fmt: skip
    assert ranks["a"].value == pytest.approx(SHARED.mean())
    assert ranks["a"].low < SHARED.mean() < ranks["a"].high


def test_interval_of_the_mean_is_that_of_a_bootstrap():
    found = rank_rules({"a": SHARED})["a"]
    half = 1.96 * SHARED.std() / np.sqrt(len(SHARED))
    assert (found.low, found.high) == pytest.approx((SHARED.mean() - half, SHARED.mean() + half), abs=0.01)


def test_rules_that_cannot_be_told_apart_share_ranks():
    noise = np.tile([0.02, -0.02], 5)
    ranks = rank_rules({"a": SHARED, "b": SHARED + noise})
    assert (ranks["a"].first, ranks["a"].last) == (1, 2)
    assert (ranks["b"].first, ranks["b"].last) == (1, 2)
    equal = rank_rules({"a": SHARED, "b": SHARED})
    assert [equal[name].rank for name in "ab"] == [1, 1]


def test_smallest_cost_is_the_best_and_what_is_not_reached_is_the_worst():
    ranks = rank_rules({"slow": np.full(5, 9.0), "never": np.full(5, np.inf), "fast": np.full(5, 2.0)}, is_cost=True)
    assert [ranks[name].rank for name in ("fast", "slow", "never")] == [1, 2, 3]
    assert ranks["never"].value == np.inf
    partly = rank_rules({"a": np.array([1.0, 1.0, 1.0, np.inf, np.inf])}, is_cost=True)["a"]
    assert partly.value == 1.0
    assert partly.high == np.inf


def test_no_rules_have_no_ranks():
    assert rank_rules({}) == {}
