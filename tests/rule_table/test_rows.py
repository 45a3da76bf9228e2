"""Rows and their files: what is extracted from a run, and rows of other settings."""

import json

import numpy as np
import pytest
from support.small_table import make_row, rule_named

from netfl.rule_table import suite
from netfl.rule_table.rows import METRICS, TableRow, add_row, describe_access, extract_row, read_cell
from netfl.rule_table.running import check_rule, run_or_continue, run_row, run_rows
from netfl.rule_table.suite import Cell, Rule, cells_of
from netfl.scenario.scenario import load

BERNOULLI = Cell("tiny", "bernoulli")
TDMA = Cell("tiny", "tdma")
BERNOULLI_OF_DIGITS = Cell("digits", "bernoulli")


def test_stored_rows_are_read_again_in_the_order_of_the_suite(tiny):
    for name in ("FedAU", "FedAvg"):
        rule = rule_named(name)
        add_row(BERNOULLI, rule, make_row(BERNOULLI, rule, [0.5, 0.25]), None)
    stored = read_cell(BERNOULLI)
    assert [*stored.rows] == ["FedAvg", "FedAU"]
    assert stored.rows["FedAU"] == make_row(BERNOULLI, rule_named("FedAU"), [0.5, 0.25])
    assert stored.values("accuracy")["FedAU"].tolist() == [0.5, 0.25]
    assert stored.values("energy_J") == {}
    lines = (tiny / "tiny.bernoulli.json").read_text().splitlines()
    assert len(lines) == 8  # a line for each row


def test_rows_of_another_cell_or_rule_do_not_count(tiny):
    rule = rule_named("FedAvg")
    add_row(BERNOULLI, rule, make_row(BERNOULLI, rule, [0.5, 0.25]), None)
    path = tiny / "tiny.bernoulli.json"
    content = json.loads(path.read_text())
    content["rows"]["FedAvg"]["learner"]["local_steps"] = 3
    path.write_text(json.dumps(content))
    assert read_cell(BERNOULLI).rows == {}
    content["rows"]["FedAvg"]["learner"]["local_steps"] = 2
    content["settings"]["rounds"] = 9
    path.write_text(json.dumps(content))
    assert read_cell(BERNOULLI).rows == {}
    content["settings"]["rounds"] = 8
    path.write_text(json.dumps(content))
    assert [*read_cell(BERNOULLI).rows] == ["FedAvg"]


def test_ranges_that_change_make_a_row_old(tiny):
    rule = rule_named("FedAU")
    row = make_row(BERNOULLI, rule, [0.5, 0.25])
    add_row(BERNOULLI, rule, row, None)
    file = suite.examples_folder() / "table/tiny.yaml"
    file.write_text(file.read_text().replace("to: 500", "to: 50"))
    suite._suite.cache_clear()
    assert read_cell(BERNOULLI).rows == {}


def test_target_that_is_not_reached_is_infinite():
    row = TableRow(values={"time_s": [3.0, None]})
    assert row.array("time_s").tolist() == [3.0, np.inf]
    assert row.array("accuracy") is None


@pytest.mark.parametrize(
    ("metric", "value", "text"),
    [
        ("accuracy", 0.8567, "85.7"),
        ("time_s", 130.0, "0.0361"),  # hours
        ("energy_J", 3146.7, "3150"),
        ("energy_J", 1.0, "1"),
        ("time_s", np.inf, "∞"),
    ],
)
def test_values_have_the_digits_that_matter(metric, value, text):
    (found,) = [each for each in METRICS if each.name == metric]
    assert found.text(value) == text


def test_rule_that_does_not_fit_has_a_row_with_the_reason(tiny, tmp_path):
    row, run = run_row(TDMA, rule_named("known p"), tmp_path)
    assert run is None
    assert "does not state the participation rate" in row.refused
    add_row(TDMA, rule_named("known p"), row, None)
    assert read_cell(TDMA).rows["known p"].refused == row.refused


def test_first_cell_checks_a_rule(tiny):
    check_rule(rule_named("known p"), [TDMA])  # which the first cell accepts


@pytest.mark.slow
def test_row_of_a_run_has_the_means_of_its_last_quarter_and_costs(tiny, tmp_path):
    rule = rule_named("FedAU")
    row, run = run_row(TDMA, rule, tmp_path / "runs")
    metrics = run.metrics
    last = metrics[(metrics["group"] == "") & (metrics["round"] >= 6) & (metrics["metric"] == "rare_accuracy")]
    expected = last.groupby("replica")["value"].mean().to_numpy()
    np.testing.assert_allclose(row.values["rare_accuracy"], expected, atol=1e-5)
    assert len(row.values["time_s"]) == len(row.values["energy_J"]) == 2
    assert len(row.chosen["lr"]) == len(row.chosen["aggregation.cutoff"]) == 2
    add_row(TDMA, rule, row, run)
    stored = read_cell(TDMA)
    assert stored.rows == {"FedAU": row}
    assert stored.access["rate"] == pytest.approx(1.0)
    assert extract_row(TDMA.scenario(rule), run, row.core_s) == row
    assert run_row(TDMA, rule, tmp_path / "runs")[0].values == row.values  # which reads the finished run


@pytest.mark.slow
def test_row_without_rare_classes_has_the_other_accuracies(tiny, tmp_path):
    learner = rule_named("FedAvg").learner
    scenario = load("table/tiny", {"partition": "iid", "learners": {"FedAvg": learner}, "tuning.learners": {}})
    row = extract_row(scenario, run_or_continue(scenario, tmp_path / "run"), 1.0)
    assert [*row.values] == ["accuracy", "worst"]


@pytest.mark.slow
def test_rows_do_not_depend_on_other_rules_or_workers(tiny, tmp_path):
    rule = rule_named("FedAvg")
    alone = dict(run_rows(cells_of("tiny"), rule, tmp_path / "alone", workers=1))
    again = dict(run_rows(cells_of("tiny")[:1], rule, tmp_path / "again", workers=1))
    assert alone[BERNOULLI].values == again[BERNOULLI].values
    assert [*alone] == [BERNOULLI, TDMA]


@pytest.mark.slow
def test_workers_run_cells_in_processes(tmp_path):
    """Two cells that refuse the rule, so that nothing is trained."""
    cells = [Cell("digits", "drifting"), Cell("digits", "fdma_fading")]
    rows = dict(run_rows(cells, rule_named("known p", "digits"), tmp_path, workers=2))
    assert {*rows} == {*cells}
    assert all("does not state" in row.refused for row in rows.values())


def test_run_of_a_changed_rule_is_another_one():
    from netfl.rule_table.running import _run_name

    names = {
        _run_name(BERNOULLI_OF_DIGITS, Rule("mine", {**rule_named("FedAvg", "digits").learner, "momentum": momentum}))
        for momentum in (0.0, 0.5)
    }
    assert len(names) == 2


@pytest.mark.slow
def test_statistics_of_the_access_are_those_of_the_deliveries(tiny, tmp_path):
    _, run = run_row(BERNOULLI, rule_named("FedAvg"), tmp_path)
    found = describe_access(run)
    first = run.deliveries[run.deliveries["replica"] == 0]
    shares = first.groupby("user")["round"].nunique().reindex(range(6), fill_value=0) / 8
    assert found["rare_rate"] == pytest.approx(shares.min(), rel=1e-3)
    assert found["rate"] == pytest.approx(shares.sort_values()[1:].mean(), rel=1e-3)
    assert found["deliveries_per_round"] == pytest.approx(shares.sum(), rel=1e-3)
