"""A strategy of Flower as an aggregation: equal to netfl's rules, with memory, and in the table."""

import json

import numpy as np
import pytest

pytest.importorskip("flwr", reason="netfl-sim[flower] is not installed")
import torch
from support.small_table import SUITE, small_suite
from typer.testing import CliRunner

import netfl
from netfl.cli import app
from netfl.errors import ScenarioError
from netfl.flower.strategy_rule import StrategyRule
from netfl.learning.aggregation import Updates
from netfl.scenario.yaml_document import read_text

pytestmark = pytest.mark.extra
RULE = "netfl.flower.strategy_rule:StrategyRule"


def updates(models, samples=(1, 3)):
    models = torch.tensor(models)
    count = len(models)
    zeros = torch.zeros(count, dtype=torch.int64)
    return Updates(
        round=1, users=torch.arange(count), base_rounds=zeros, bases=torch.zeros_like(models), models=models,
        samples=torch.tensor(samples, dtype=models.dtype), steps=zeros + 1, rates=torch.ones(count, 2),
        newest_rates=torch.ones(2),
    )  # fmt: skip


def test_fedavg_is_the_mean_by_examples():
    rule = StrategyRule(strategy="flwr.serverapp.strategy:FedAvg")
    current = torch.zeros(3)
    following, _ = rule.step(rule.open(2, current), current, updates([[1.0, 2.0, 0.0], [5.0, 2.0, 4.0]]))
    assert following.tolist() == pytest.approx([4.0, 2.0, 3.0])


def test_strategy_remembers_between_rounds():
    """Momentum of FedAvgM: v ← β v + Δ, x ← x + v."""
    rule = StrategyRule(strategy="flwr.serverapp.strategy:FedAvgM", options={"server_momentum": 0.5})
    current = torch.zeros(2)
    state = rule.open(2, current)
    velocity, expected = np.zeros(2), np.zeros(2)
    for models in ([[1.0, 0.0], [1.0, 4.0]], [[2.0, 1.0], [2.0, 1.0]]):
        mean = 0.25 * np.array(models[0]) + 0.75 * np.array(models[1])
        velocity = 0.5 * velocity + mean - expected
        expected = expected + velocity
        current, state = rule.step(state, current, updates(models))
        np.testing.assert_allclose(current.numpy(), expected, rtol=1e-6)


def test_state_of_a_lane_is_its_own():
    rule = StrategyRule(strategy="flwr.serverapp.strategy:FedAvgM", options={"server_momentum": 0.5})
    first, second = rule.open(2, torch.zeros(2)), rule.open(2, torch.zeros(2))
    rule.step(first, torch.zeros(2), updates([[1.0, 0.0], [1.0, 4.0]]))
    assert torch.equal(first["strategy"], second["strategy"])


@pytest.mark.parametrize(
    ("strategy", "message"),
    [("no_such:Strategy", "no module 'no_such'"), ("collections:OrderedDict", "has no method aggregate_train")],
)
def test_what_is_no_strategy_is_refused(strategy, message):
    data = dict(read_text(SUITE, "tiny").data)
    data.pop("overrides")
    data["tuning"] = None
    data["learners"] = {"mine": {**data["learners"]["FedAvg"], "aggregation": {"kind": RULE, "strategy": strategy}}}
    with pytest.raises(ScenarioError, match=message):
        netfl.load(data)


@pytest.mark.parametrize(
    ("strategy", "options", "message"),
    [
        ("FedAvgM", {"momentum": 0.5}, "unexpected keyword argument 'momentum'.*server_momentum"),
        ("DifferentialPrivacyServerSideFixedClipping", {}, "missing a required argument: 'strategy'"),
    ],
)
def test_options_that_the_strategy_does_not_take_are_refused(strategy, options, message):
    data = dict(read_text(SUITE, "tiny").data)
    data.pop("overrides")
    data["tuning"] = None
    rule = {"kind": RULE, "strategy": f"flwr.serverapp.strategy:{strategy}", "options": options}
    data["learners"] = {"mine": {**data["learners"]["FedAvg"], "aggregation": rule}}
    with pytest.raises(ScenarioError, match=message):
        netfl.load(data)


def test_run_of_fedavg_is_that_of_the_average_by_size(tmp_path):
    data = dict(read_text(SUITE, "tiny").data)
    data.pop("overrides")
    data["tuning"] = None
    local = data["learners"]["FedAvg"]
    data["learners"] = {
        "Flower": {**local, "aggregation": {"kind": RULE, "strategy": "flwr.serverapp.strategy:FedAvg"}},
        "netfl": {**local, "aggregation": {"kind": "average", "weights": "size"}},
    }
    metrics = netfl.run(data, tmp_path / "run", progress=False).metrics
    losses = metrics[(metrics["metric"] == "loss") & (metrics["group"] == "")].pivot_table(
        index=["replica", "round"], columns="learner", values="value", observed=True
    )
    np.testing.assert_allclose(losses["Flower"], losses["netfl"], rtol=1e-4)


def test_command_gives_a_strategy_its_row(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with small_suite(tmp_path, monkeypatch):
        words = ["flwr.serverapp.strategy:FedAvgM", "--flower", "--set", "server_momentum=0.5", "--cells", "tiny"]
        result = CliRunner().invoke(app, ["table", *words])
    assert result.exit_code == 0, result.output
    row = json.loads((tmp_path / "runs/table-FedAvgM/row.json").read_text())
    aggregation = row["cells"]["tiny.bernoulli"]["learner"]["aggregation"]
    assert aggregation["strategy"] == "flwr.serverapp.strategy:FedAvgM"
    assert aggregation["options"] == {"server_momentum": 0.5}
