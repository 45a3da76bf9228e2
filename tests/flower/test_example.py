"""The example project: a ClientApp with batch normalisation, under four strategies, from the command line."""

import sys
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.extra
pytest.importorskip("flwr", reason="netfl-sim[flower] is not installed")

from typer.testing import CliRunner

import netfl
from netfl.cli import app

PROJECT = Path(__file__).parents[2] / "examples/flower"
STRATEGIES = ["FedAvg", "FedProx", "FedAdam", "QFedAvg"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield tmp_path
    for name in [name for name in sys.modules if name.partition(".")[0] == "digits_app"]:
        del sys.modules[name]


def run_project(strategy, rounds, *options):
    config = f"strategy={strategy} num-server-rounds={rounds} evaluate-every=10"
    words = ["flower", "run", "rural_outage", "--app", str(PROJECT), "--override", "quick", "--run-config", config]
    return CliRunner().invoke(app, [*words, "--out", strategy, *options])


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("rounds", [40, pytest.param(300, marks=pytest.mark.slow)])
def test_strategies_of_flower_learn_over_the_network(strategy, rounds, folder):
    result = run_project(strategy, rounds)
    assert result.exit_code == 0, result.output
    run = netfl.open_run(strategy)
    accuracy = run.metrics[run.metrics["metric"] == "accuracy"].set_index("round")["value"]
    assert accuracy.index.tolist() == list(range(0, rounds + 1, 10))
    assert np.isfinite(run.metrics["value"]).all()
    assert accuracy.iloc[-1] > (0.2 if rounds == 40 else 0.7)  # netfl's own FedAvg: 0.79
    assert "app_errors" not in run.manifest
    assert f"{rounds} rounds in" in result.output
    assert strategy in result.output


def test_report_is_written_and_calls_have_a_limit(folder):
    result = run_project("FedAvg", 40, "--report", "--call-limit", "600")
    assert result.exit_code == 0, result.output
    assert (folder / "FedAvg/report.html").exists()
    result = run_project("FedAvg", 40, "--call-limit", "0")
    assert result.exit_code == 2
    assert "--call-limit" in result.output


def test_errors_are_located_and_short(folder):
    cases = [
        (["--app", "nothing"], "--app: cannot be imported: there is no module 'nothing'"),
        (["--app", str(PROJECT), "--run-config", "strategy=x,y"], "ServerApp"),
        (["--app", str(PROJECT), "--run-config", "roundz=1"], "--run-config: no such key ('roundz')"),
        (["--app", str(PROJECT), "--sizes", "x"], "sizes: no such value ('x')"),
        (["--app", str(PROJECT), "--set", "rounds=3"], "rounds: FedAvg needs 300 rounds, and the scenario has 3 left"),
    ]
    for options, message in cases:
        words = ["flower", "run", "rural_outage", "--override", "quick", "--out", "run", *options]
        result = CliRunner().invoke(app, words)
        assert result.exit_code == (1 if message == "ServerApp" else 2), result.output
        assert message in result.output
        assert ("Traceback" in result.output) == (message == "ServerApp")


def test_failures_of_the_client_are_reported_at_the_end(folder):
    (folder / "myfailing.py").write_text(
        "from flwr.clientapp import ClientApp\n"
        "from digits_app.server_app import app as server_app\n"
        "client_app = ClientApp()\n"
        "@client_app.train()\n"
        "def train(message, context):\n    raise ZeroDivisionError('mine')\n"
    )
    sys.path.insert(0, str(PROJECT))
    config = "strategy=FedAvg num-server-rounds=3 evaluate-every=1 learning-rate=0.1"
    words = ["flower", "run", "rural_outage", "--app", "myfailing", "--override", "quick", "--run-config", config]
    try:
        result = CliRunner().invoke(app, [*words, "--out", "run"])
    finally:
        sys.modules.pop("myfailing", None)
    assert result.exit_code == 1  # every call failed
    assert "the ClientApp failed 3 times of 3, first with user" in result.output
    assert "ZeroDivisionError: mine; see run/flower.log" in result.output
    assert "Traceback" in Path("run/flower.log").read_text()
