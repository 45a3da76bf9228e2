"""The analysis of reversed orders: planted reversals are confirmed, and chance is not."""

import numpy as np
import pytest
import table_reversals
from table_reversals import TableHypothesis, find_reversals, holm, t_statistic

REPLICAS = 10


def planted(effects, rng, noise=0.01):
    """Return values by cell and rule: 0.8, the effect of the rule in the cell, and a shared draw of each replica."""
    values = {}
    for cell, of_rules in effects.items():
        shared = rng.normal(0.8, 0.1, REPLICAS)
        values[cell] = {rule: shared + effect + rng.normal(0, noise, REPLICAS) for rule, effect in of_rules.items()}
    return values


def test_planted_reversal_is_confirmed_with_its_cells_and_rules():
    effects = {
        "bernoulli": {"FedAU": 0.1, "MIFA": 0.0, "FedAvg": -0.2},
        "cyclic": {"FedAU": 0.0, "MIFA": 0.1, "FedAvg": -0.2},
        "markov": {"FedAU": 0.02, "MIFA": 0.02, "FedAvg": -0.2},
    }
    (found,) = find_reversals(planted(effects, np.random.default_rng(1)))
    assert (found.better, found.other, found.first, found.second) == ("FedAU", "MIFA", "bernoulli", "cyclic")
    assert found.is_confirmed
    assert found.differences == pytest.approx((0.1, -0.1), abs=0.02)


def test_order_without_reversal_is_not_proposed():
    effects = {cell: {"FedAU": 0.1, "MIFA": 0.0} for cell in ("bernoulli", "cyclic")}
    assert find_reversals(planted(effects, np.random.default_rng(1))) == []


def test_finding_half_does_not_decide():
    values = planted({"a": {"x": 0.1, "y": 0.0}, "b": {"x": 0.0, "y": 0.1}}, np.random.default_rng(2))
    values["b"]["x"][1::2] = values["b"]["y"][1::2] + np.array([0.01, -0.01, 0.02, -0.02, 0.0])  # no order here
    (found,) = find_reversals(values)
    assert not found.is_confirmed
    assert found.p == pytest.approx(0.5)


def test_false_alarms_are_rare():
    rng = np.random.default_rng(3)
    rules = {f"rule {number}": 0.0 for number in range(6)}
    alarms = 0
    for _ in range(100):
        found = find_reversals(planted({"a": rules, "b": rules, "c": rules}, rng))
        alarms += any(each.is_confirmed for each in found)
    assert alarms <= 5


def test_rules_that_a_cell_refuses_are_compared_in_the_others():
    effects = {"a": {"x": 0.1, "y": 0.0}, "b": {"x": 0.0, "y": 0.1}, "c": {"x": 0.0}}
    (found,) = find_reversals(planted(effects, np.random.default_rng(4)))
    assert {found.first, found.second} == {"a", "b"}


def test_holm_stops_at_the_first_that_is_not_rejected():
    assert holm([0.01, 0.02, 0.04, 0.06], 0.05) == [True, False, False, False]
    assert holm([0.01, 0.015, 0.02, 0.05], 0.05) == [True, True, True, True]


def test_t_of_equal_differences():
    assert t_statistic(np.zeros(5)) == 0
    assert t_statistic(np.full(5, 0.25)) == np.inf
    assert t_statistic(np.array([1.0, 2.0, 3.0])) == pytest.approx(2 / (1 / np.sqrt(3)))


@pytest.mark.parametrize(("difference", "verdict"), [(0.05, "yes"), (0.0, "no"), (-0.05, "no"), (0.01, "open")])
def test_verdicts_of_hypotheses(difference, verdict):
    hypothesis = TableHypothesis("", "cell", "x", "y")
    base = np.linspace(0.7, 0.8, REPLICAS)
    noise = np.tile([0.004, -0.004], REPLICAS // 2)
    assert hypothesis.verdict({"cell": {"x": base + difference + noise, "y": base}}) == verdict
    assert hypothesis.verdict({"cell": {"x": base}}) == "not run"


def test_hypotheses_name_rules_and_cells_of_the_table():
    from netfl.rule_table.suite import cells_of, rules_of

    cells = {cell.name for cell in cells_of("digits")}
    rules = {rule.name for rule in rules_of("digits")}
    for hypothesis in table_reversals.HYPOTHESES:
        assert hypothesis.cell in cells
        assert {hypothesis.better, hypothesis.other} <= rules
