"""Cells and rules of a suite, and the scenario of a rule in a cell."""

import numpy as np
import pytest
from support.small_table import rule_named
from table_choice import chosen_rules

from netfl.errors import ScenarioError
from netfl.rule_table import suite
from netfl.rule_table.rows import read_cell
from netfl.rule_table.suite import Cell, Rule, all_cells, cells_of, find_cells, read_rule, rules_of


def test_cells_are_overrides_and_rules_are_learners(tiny):
    assert suite.datasets() == ("tiny",)
    assert [cell.name for cell in cells_of("tiny")] == ["tiny.bernoulli", "tiny.tdma"]
    assert [rule.name for rule in rules_of("tiny")] == ["FedAvg", "known p", "FedAU", "CVaR", "CVaR over FedAU"]
    assert rule_named("FedAU").ranges == {"aggregation.cutoff": {"from": 5, "to": 500}}


@pytest.mark.parametrize(
    ("name", "lr"), [("FedAvg", 0.1), ("known p", 0.1 / 2), ("FedAU", 0.1), ("CVaR", 0.05), ("CVaR over FedAU", 0.05)]
)
def test_centres_have_one_effective_step(tiny, name, lr):
    """Six users of p = 0.5 weigh 1 / (6 · 0.5) each, up to 2 together; a tail of α = 0.5 weighs 1/α."""
    scenario = Cell("tiny", "bernoulli").scenario(rule_named(name))
    assert [*scenario.learners] == [name]
    assert scenario.learners[name].lr == pytest.approx(lr)
    assert [*scenario.tuning.learners] == ([name] if name == "FedAU" else [])


def test_access_that_does_not_fit_refuses_the_rule(tiny):
    with pytest.raises(ScenarioError, match="does not state the participation rate"):
        Cell("tiny", "tdma").scenario(rule_named("known p"))


def test_rule_by_class_name_and_options(tiny):
    rule = read_rule("fedasync", "tiny", {"alpha": 0.5})
    assert rule.name == "fedasync"
    learner = Cell("tiny", "bernoulli").scenario(rule).learners["fedasync"]
    assert (learner.aggregation.alpha, learner.local_steps, learner.batch_size) == (0.5, 2, 4)
    assert read_rule("FedAU", "tiny", {}) == rule_named("FedAU")


def test_rule_of_a_file_has_a_composition_and_ranges(tiny, tmp_path):
    (tmp_path / "mine.yaml").write_text(
        "objective: {kind: proximal, mu: 0.1}\naggregation: {kind: fedau, cutoff: 9}\n"
        "tuning: {aggregation.cutoff: {from: 3, to: 30}}\n"
    )
    rule = read_rule("mine.yaml", "tiny", {"cutoff": 12}, "ours")
    assert rule.name == "ours"
    scenario = Cell("tiny", "bernoulli").scenario(rule)
    assert scenario.learners["ours"].aggregation.cutoff == 12
    assert scenario.learners["ours"].objective.mu == 0.1
    assert scenario.tuning.learners["ours"]["aggregation.cutoff"].ends == (3, 30)


@pytest.mark.parametrize("key", ["lr: 0.2", "local_steps: 3", "batch_size: full"])
def test_keys_that_are_the_same_for_all_rules_are_refused(tiny, tmp_path, key):
    (tmp_path / "mine.yaml").write_text(f"aggregation: mifa\n{key}\n")
    with pytest.raises(ScenarioError, match="is not free in the table"):
        read_rule("mine.yaml", "tiny", {})


def test_cells_by_name_access_or_suite(tiny):
    both = [Cell("tiny", "bernoulli"), Cell("tiny", "tdma")]
    assert find_cells("tiny") == both
    assert find_cells("tdma, tiny.bernoulli") == both[::-1]
    with pytest.raises(ScenarioError, match="no such cell"):
        find_cells("tdmaa")


def test_paths_of_shipped_files_are_the_same_everywhere(tiny, tmp_path):
    path = str(tmp_path / "netfl/scenarios/table/real")
    assert suite.portable({"run": path, "n": [1, "x"]}) == {"run": "scenarios/table/real", "n": [1, "x"]}


ACCESSES = {
    "bernoulli", "markov_fast", "markov_sticky", "cyclic", "correlated", "label_correlated", "drifting",
    "slotted_aloha", "tdma_outages", "fdma_fading", "rural_outage", "lorawan", "saint_eynard", "tour_perret",
}  # fmt: skip


def test_names_of_the_cells_of_the_digits_are_stable():
    """A row that was handed in names its cells."""
    assert {cell.access for cell in cells_of("digits")} == ACCESSES


STATED = ("bernoulli", "markov_fast", "markov_sticky", "cyclic", "correlated", "label_correlated", "drifting")


@pytest.mark.quick_first
@pytest.mark.parametrize("access", STATED)
def test_stated_accesses_have_equal_rates(access):
    scenario = Cell("digits", access).scenario(rule_named("FedAvg", "digits"))
    rates = scenario.access.rates(scenario.users, scenario.streams_of(0))
    np.testing.assert_allclose(rates, [0.5] * 18 + [0.05] * 2, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("cell", [*all_cells()], ids=lambda cell: cell.name)
def test_each_cell_has_ten_replicas_two_rare_users_and_a_target(cell):
    scenario = cell.scenario(Rule("FedAvg", rule_named("FedAvg", cell.dataset).learner))
    assert scenario.replicas == 10
    assert scenario.tuning.per == "replica"
    assert len(scenario.evaluation.targets) == 1
    if cell.dataset == "synthetic":  # whose users have no classes of their own
        assert scenario.rare_classes == ()
    else:
        assert scenario.partition.rare_labels[-2:] == {"digits": (8, 9), "fashion_mnist": (2, 6)}[cell.dataset]


def test_other_suites_have_the_rules_that_the_digits_name():
    chosen = chosen_rules([read_cell(cell) for cell in cells_of("digits")])
    assert len(chosen) == 8
    for dataset in ("fashion_mnist", "synthetic"):
        assert [rule.name for rule in rules_of(dataset)] == chosen
        of_digits = {rule.name: rule for rule in rules_of("digits")}
        assert all(rule == of_digits[rule.name] for rule in rules_of(dataset))
