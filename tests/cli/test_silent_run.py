"""A run that delivers nothing: the terminal and the report say so first, and it can be explained."""

import json

import pytest
from typer.testing import CliRunner

import netfl
from netfl.cli import app
from netfl.report.run_data import RunData
from netfl.report.summary_text import verdicts

SILENT = """
name: silent
users: 6
rounds: 5
access:
  kind: network
  round: {kind: first, m: 1, deadline: 5 s}
  topology: {kind: star, radius: 100 m}
  mac: tdma
  radio: {power: 0 dBm, bandwidth: 125 kHz}
  channel: [{kind: log_distance, exponent: 3, frequency: 868 MHz}]
  reception: {kind: snr_threshold, threshold: 0 dB, rate: 1 kbps}
  compute: {speed: 1, samples: 9}
  broadcast_rate: 1 Mbps
  update_size: 1 kbit
"""
LEARNING = """
data: digits
partition: {kind: iid}
model: logistic
learners:
  A: {objective: erm, aggregation: average, local_steps: 1, batch_size: 4, lr: 0.1}
  B: {objective: erm, aggregation: average, local_steps: 1, batch_size: 4, lr: 0.2}
"""


def call(*words):
    result = CliRunner().invoke(app, [*map(str, words)], env={"COLUMNS": "120"})
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, " ".join(result.output.split())


@pytest.fixture
def scenario(tmp_path):
    path = tmp_path / "silent.yaml"
    path.write_text(SILENT + LEARNING)
    return path


def test_check_names_the_deadline(scenario):
    code, output = call("check", scenario)
    assert code == 0
    assert "silent: 5 rounds of the dry run delivered no update" in output
    assert "no update can arrive in time: user 0, the fastest of them, needs 10 s or more (training 9 s" in output


def test_a_network_of_traffic_is_not_silent(tmp_path):
    path = tmp_path / "traffic.yaml"
    path.write_text("""\
name: traffic
users: 4
duration: 5 min
access:
  kind: network
  topology: {kind: star, distances: [100, 200, 300, 400]}
  radio: {power: 14 dBm, bandwidth: 125 kHz}
  channel: [{kind: log_distance, exponent: 3.5, frequency: 868 MHz}]
  reception: {kind: snr_threshold, threshold: 0 dB, rate: 50 kbps}
  mac: round_robin
  traffic: {kind: poisson, rate: 0.1, size: {distribution: fixed, mean: 100 B}}
""")
    code, output = call("check", path)
    assert code == 0
    assert "valid" in output
    assert "silent" not in output


def test_terminal_says_so_before_any_metric(scenario, tmp_path):
    code, output = call("run", scenario, "--out", tmp_path / "run")
    assert code == 0
    said = (
        f"No update was delivered, so no learner has learned anything. The causes: netfl ram {tmp_path}/run --explain"
    )
    assert said in output
    assert output.index(said) < output.index("delivered per round")


def test_report_ranks_no_learner(scenario, tmp_path):
    run = netfl.run(netfl.load(scenario), tmp_path / "run", progress=False)
    assert verdicts(RunData(run)) == [
        f"No update was delivered in 5 rounds, so no learner has learned anything. netfl ram {tmp_path}/run --explain "
        "names the causes."
    ]


def test_run_without_deliveries_is_explained(scenario, tmp_path):
    run = netfl.trace(netfl.load(scenario), tmp_path / "run", progress=False)
    code, output = call("ram", run.folder, "--explain", "--user", 3)
    assert code == 0
    assert "User 3 delivered no update in 5 rounds (5 rounds delivered nothing at all), like 5 other users" in output
    assert "compute against the deadline: it trains for 9 s, and rounds close after at most 5 s" in output

    code, output = call("ram", run.folder, "--explain", "--user", 3, "--json")
    assert code == 0
    assert json.loads(output[output.index("{") :])["explain.user"] == [3]


def test_access_without_a_network_has_no_causes_to_offer(tmp_path):
    path = tmp_path / "never.yaml"
    path.write_text("name: never\nusers: 3\nrounds: 4\naccess: {kind: bernoulli, probability: 1.0e-9}\n")
    code, output = call("trace", path, "--out", tmp_path / "run")
    assert code == 0
    assert "No update was delivered." in output
    assert "--explain" not in output
