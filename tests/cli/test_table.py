"""The command ``netfl table``: the stored table, the row of a rule, and errors."""

import json

import numpy as np
import pytest
from support.error_messages import assert_messages
from support.small_table import make_row, rule_named, small_suite
from typer.testing import CliRunner

from netfl.cli import app
from netfl.rule_table.rows import TableRow, add_row
from netfl.rule_table.suite import Cell

RULE = '''
from netfl.learning.aggregation import Aggregation

class Half(Aggregation):
    """x + part · mean of the changes."""

    part: float = 0.5

    def step(self, state, current, updates):
        return current + self.part * (updates.models - updates.bases).mean(0), state
'''
CELL = Cell("tiny", "bernoulli")


@pytest.fixture(autouse=True)
def tiny(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with small_suite(tmp_path, monkeypatch):
        yield


def call(*arguments):
    result = CliRunner().invoke(app, ["table", *arguments])
    return result.exit_code, result.output


def store(name, values, cell=CELL, **fields):
    add_row(cell, rule_named(name), make_row(cell, rule_named(name), np.array(values), **fields), None)


def test_stored_table_has_ranks_marks_and_reasons():
    store("FedAvg", [0.5, 0.6])
    store("FedAU", [0.7, 0.8], not_tuned=1)
    tdma = Cell("tiny", "tdma")
    add_row(tdma, rule_named("known p"), TableRow(refused="states no rates"), None)
    code, output = call("--cells", "tiny")
    assert code == 0
    assert output.splitlines() == [
        "tiny.bernoulli: accuracy of the rare classes (%)",
        "  FedAU                75.0 [70.0, 80.0]    rank 1 (1) *",
        "  FedAvg               55.0 [50.0, 60.0]    rank 2 (2)",
        "tiny.tdma: accuracy of the rare classes (%)",
        "  no stored rows",
        "  known p            -  states no rates",
    ]


def test_metric_of_the_table_and_costs():
    store("FedAvg", [0.5, 0.6], costs={"time_s": [7200.0, None]})
    code, output = call("--cells", "bernoulli", "--metric", "time_s")
    assert code == 0
    assert output.splitlines()[1] == "  FedAvg               not reached          rank 1 (1)"
    code, output = call("--cells", "tiny", "--metric", "time")
    assert code == 2
    assert_messages([output.rstrip()], ["--metric: no such metric … 'time' … rare_accuracy, accuracy"])


@pytest.mark.slow
def test_row_of_a_rule_of_ones_own(tmp_path):
    store("FedAvg", [0.0, 0.0])
    (tmp_path / "mine.py").write_text(RULE)
    code, output = call("mine:Half", "--set", "part=0.9", "--cells", "tiny", "--out", "row")
    assert code == 0, output
    assert "accuracy of all classes (%)" in output
    assert "of 2; best stored: FedAvg 0.0" in output
    (tmp_path / "row/row.json").unlink()
    assert call("mine:Half", "--set", "part=0.9", "--cells", "tiny", "--out", "row", "--quiet") == (0, "")  # continues
    content = json.loads((tmp_path / "row/row.json").read_text())
    assert content["rule"] == "Half"
    assert content["source"] == RULE
    assert {*content["cells"]} == {"tiny.bernoulli", "tiny.tdma"}
    cell = content["cells"]["tiny.bernoulli"]
    assert cell["learner"]["aggregation"] == {"kind": "mine:Half", "part": 0.9}
    assert cell["settings"]["seed"] == 1
    assert len(cell["values"]["accuracy"]) == 2


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--name", "x"], "--name: has no effect without a rule … leave it out"),
        (["--cells", "none"], "--cells: no such cell … 'none'"),
        (["mifa", "--set", "server_lr"], "--set: not of the form … server_lr=2"),
        (["mifa", "--set", "part=1"], "rule 'mifa': aggregation.part: unknown key … server_lr"),
        (["no_such:Rule"], "rule 'Rule': aggregation … no module … PYTHONPATH"),
    ],
)
def test_errors_name_the_option_or_the_key(arguments, expected):
    if "--cells" not in arguments:
        arguments = [*arguments, "--cells", "tiny"]
    code, output = call(*arguments)
    assert code == 2
    assert_messages([output.rstrip()], [expected])
