"""`netfl timeout`: output, files, exit codes and errors."""

import numpy as np
import pandas as pd
import pytest
from diagnosis.timeout.test_logs import SCENARIO
from typer.testing import CliRunner

import netfl
from netfl.cli import app


def call(*words):
    result = CliRunner().invoke(app, ["timeout", *map(str, words)], env={"COLUMNS": "100"})
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.output


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """A log of 60 rounds, in which one of ten users takes 20 times as long."""
    path = tmp_path_factory.mktemp("timeout") / "log.csv"
    rows = pd.DataFrame({"round": np.repeat(np.arange(60), 10), "user": np.tile(np.arange(10), 60)})
    rows["total_s"] = np.random.default_rng(1).uniform(1.0, 2.0, len(rows)) * np.where(rows["user"] == 9, 20.0, 1.0)
    rows["attempts"] = 1 + rows["user"] % 2
    rows.to_csv(path, index=False)
    return path


@pytest.mark.slow
def test_log_gets_a_rule_a_curve_and_lines_to_paste(log, tmp_path):
    code, output = call(log, "--csv", tmp_path / "curve.csv", "--plot", tmp_path / "curve.png")
    assert code == 0
    assert "60, with 10 users in all" in output
    assert "1 user (10 %) in time in no round: 9" in output
    assert "all users:" in output
    assert "99 % of the updates in time need at most 2" in output
    *_, access, round_ = output.splitlines()
    assert access == "access:"
    scenario = netfl.load(SCENARIO, {"access.round": netfl.scenario.yaml_document.parse(round_, "")["round"]})
    assert 1.0 < scenario.access.round.deadline_s < 2.1
    curve = pd.read_csv(tmp_path / "curve.csv")
    assert [*curve] == ["deadline_s", "time_s", "low_s", "high_s", "round_s", "updates", "never"]
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")


def test_options_change_the_advice(log):
    code, output = call(
        log, "--include", 1, "--critical", 5, "--full-rounds", 10, "--overhead", "3 s", "--quorum", 1, "--seed", 2
    )
    assert code == 0
    assert "quorum 1;" in output
    assert "progress of 10 full rounds" in output
    assert "critical:    5 updates" in output
    assert "in time in no round" not in output


@pytest.mark.slow
def test_scenario_is_simulated_and_checked(tmp_path):
    (tmp_path / "s.yaml").write_text(netfl.load(SCENARIO).to_yaml())
    code, output = call(tmp_path / "s.yaml", "--rounds", 40, "--set", "users=5")
    assert code == 0
    assert "40, with 20 users in all" in output
    assert "by rounds that are simulated with it" in output
    assert "# in mac: max_attempts:" in output


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["nothing.csv"], "not a scenario, a run directory or a table of times: it does not exist"),
        (["access/bernoulli"], "access.kind: no network"),
        (["LOG", "--rounds", "3", "--accuracy", "0.5"], "--accuracy: has no effect: only a scenario is simulated"),
        (["LOG", "--plot", "x.bmp"], "--plot: a plot has no such form"),
        (["LOG", "--csv", "/nowhere/x.csv"], "cannot write /nowhere/x.csv"),
        (["LOG", "--overhead", "3"], "--overhead: not a number with a unit"),
        (["LOG", "--critical", "-1"], "--critical: not a number of updates"),
    ],
)
def test_wrong_arguments_are_errors(log, words, expected):
    code, output = call(*(log if word == "LOG" else word for word in words))
    assert code != 0
    assert expected in output


def test_plug_ins_can_be_refused(tmp_path):
    scenario = netfl.load(SCENARIO).plain()
    scenario["access"]["mac"] = {"kind": "mine:Mac"}
    (tmp_path / "s.yaml").write_text(netfl.scenario.yaml_document.dump(scenario))
    code, output = call(tmp_path / "s.yaml", "--no-plugins")
    assert code == 2
    assert "access.mac.kind: " in output
    assert "--no-plugins" in output


def test_error_of_a_log_names_it(tmp_path):
    (tmp_path / "log.csv").write_text("round,user,total_s\n1,a,3\n2,b,4\n")
    code, output = call(tmp_path / "log.csv")
    assert code == 2
    assert "log.csv: no round has two users" in output
