"""Regressions as whole runs: data with targets, refused sections, metrics, reports, comparisons, choices."""

import numpy as np
import pandas as pd
import pytest
import torch
from support.training_modules import Branching, Dropped, Regressor, pinball
from typer.testing import CliRunner

import netfl
from netfl.cli import app
from netfl.errors import ScenarioError
from netfl.learning.data.arrays import Arrays
from netfl.learning.data.table import Table
from netfl.streams import Streams

RNG = np.random.default_rng(0)
X = RNG.normal(size=(200, 4)).astype(np.float32)
Y = np.stack([X[:, 0] - X[:, 1], X[:, 2]], axis=1)
USER = np.arange(200) % 4
with torch.random.fork_rng(devices=[]):
    torch.manual_seed(0)
    NET = Regressor()


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("NETFL_CACHE", str(tmp_path / "cache"))


def scenario(**sections):
    learner = {"objective": "erm", "aggregation": "average", "lr": 0.1, "batch_size": 8, "local_epochs": 1}
    return {
        "name": "regression", "users": 4, "rounds": 12, "access": {"kind": "bernoulli", "probability": 0.6},
        "data": {"examples": (X, Y, USER), "targets": 2}, "partition": "natural",
        "model": {"module": NET, "loss": "mse"},
        "learners": {"A": learner, "B": learner | {"objective": {"kind": "cvar", "alpha": 0.5, "lr_t": 0.01}}},
    } | sections  # fmt: skip


@pytest.mark.slow
def test_a_run_has_the_metrics_of_a_regression_in_its_tables_reports_and_comparisons(tmp_path):
    choice = {"best": {"learners": ["A", "B"], "by": "validation_loss", "per": "user"}}
    evaluate = {"validation": 0.2, "choose": choice, "metrics": ["validation", "gradient_norm"], "every": 3}
    run = netfl.run(scenario(evaluate=evaluate), tmp_path / "run", device="cpu")
    whole = run.metrics[run.metrics["group"] == ""]
    last = whole[(whole["round"] == 12) & (whole["learner"] == "A")].set_index("metric")["value"]
    assert {"r2", "mse", "mae", "loss", "validation_mse", "gradient_norm", "objective"} <= {*last.index}
    assert last["r2"] > 0.5
    assert last["mse"] == pytest.approx(last["loss"])
    assert not run.metrics["metric"].str.contains("accuracy").any()
    users = run.metrics[run.metrics["group"].str.startswith("user:") & (run.metrics["metric"] == "mse")]
    assert users["group"].nunique() == 4
    assert [*run.users.columns][-1] == "samples"
    table = netfl.compare(run, ["r2", "mse"])
    assert len(table) == 5  # a choice has no r2
    assert np.isfinite(table["mean"]).all()
    with pytest.raises(ScenarioError, match=r"no run has this metric \('accuracy'\); known: .* r2, "):
        netfl.compare(run)
    result = CliRunner().invoke(app, ["report", str(run.folder)])
    assert result.exit_code == 0, result.output
    assert "R² over rounds and costs" in (run.folder / "report.html").read_text()


@pytest.mark.slow
def test_workers_give_the_same_regression(tmp_path):
    loaded = netfl.load(scenario())
    whole = netfl.run(loaded, tmp_path / "whole", device="cpu")
    workers = netfl.run(loaded, tmp_path / "workers", device="cpu", workers=2)
    pd.testing.assert_frame_equal(whole.metrics, workers.metrics, rtol=1e-4)


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        ({"partition": {"kind": "dirichlet", "concentration": 1.0}}, "partition: needs labels, but the targets of"),
        ({"partition": {"kind": "ranked", "inner": "iid", "by": "rho", "classes": [0]}}, "partition: needs labels"),
        (
            {"access": {"kind": "bernoulli", "probability": 0.6, "selection": {"kind": "fedgs", "m": 2}}},
            "access.selection: needs labels, but the targets of these data are numbers",
        ),
        ({"evaluate": {"targets": [0.5]}}, "evaluate.targets: needs labels"),
        ({"evaluate": {"rare_classes": [1]}}, "evaluate.rare_classes: needs labels"),
        (
            {"evaluate": {"validation": 0.2, "choose": {"best": {"learners": ["A", "B"], "per": "user"}}}},
            "evaluate.choose.best.by: needs labels, but the targets of these data are numbers ('validation_accuracy')",
        ),
        (
            {"model": "logistic"},
            "model: needs labels, but the targets of these data are numbers ('logistic'); use 'mod",
        ),
        ({"model": Regressor()}, "model.loss: needs labels, but the targets of these data are numbers"),
        ({"model": Regressor(3)}, "model.module: gives [3, 3] for 3 examples of 2 classes"),
        ({"data": {"examples": (X, Y, USER)}}, "data: label is an array [200, 2]"),
        ({"data": {"examples": (X, Y[:, 0], USER)}}, "for a regression, give the number of values of an example under"),
    ],
)
def test_sections_that_need_labels_are_refused(sections, message):
    with pytest.raises(ScenarioError) as raised:
        netfl.load(scenario(**sections))
    assert message in str(raised.value)


def test_partitions_without_labels_and_own_losses_are_accepted():
    for partition in ("iid", {"kind": "ranked", "inner": "iid", "by": "prerun", "sizes": "rising"}):
        netfl.load(scenario(partition=partition, model={"module": Regressor(), "loss": pinball}))


@pytest.mark.parametrize(
    ("label", "message"),
    [
        (Y[:, :1], r"targets: .*has targets of shape \[1\] \(2\)"),
        (np.where(np.arange(400).reshape(200, 2) == 7, np.nan, Y), "file: targets: example 3 .* no finite number"),
        (Y.astype(str), "file: targets: values of type .* instead of numbers"),
    ],
)
def test_wrong_targets_in_files_are_refused(tmp_path, label, message):
    np.savez(tmp_path / "a.npz", x=X, label=label)
    with pytest.raises(ScenarioError, match=message):
        Arrays(file=tmp_path / "a.npz", features=(4,), targets=2).load(Streams(0))


def test_a_table_may_have_several_columns_of_targets(tmp_path):
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": Y[:, 0], "z": Y[:, 1], "who": USER})
    frame.to_csv(tmp_path / "a.csv", index=False)
    data = Table(file=tmp_path / "a.csv", features=2, label=("z", "y"), targets=2, user="who").load(Streams(0))
    assert data.is_regression
    rows = {tuple(row) for row in np.float32(np.stack([X[:, 0], Y[:, 1], Y[:, 0]], axis=1)).tolist()}
    assert {(x[0], *y) for x, y in zip(data.train_x.tolist(), data.train_y.tolist(), strict=True)} <= rows
    with pytest.raises(ScenarioError, match="as many as targets"):
        Table(file=tmp_path / "a.csv", features=2, label=("z", "y"), targets=1)


@pytest.mark.parametrize(
    ("module", "sentence"),
    [
        (Dropped(), "training: its models are trained in batches, in training mode, by torch.func"),
        (Branching(), "training: its models are trained one after the other: torch.func cannot batch it"),
        (Regressor(3), None),
    ],
)
def test_check_and_manifest_state_how_a_module_is_trained(tmp_path, module, sentence):
    labels = {"data": (X, np.arange(200) % 3), "partition": "iid", "model": module, "rounds": 1}
    loaded = netfl.load(scenario(**labels))
    (tmp_path / "s.yaml").write_text(loaded.to_yaml())
    output = CliRunner().invoke(app, ["check", str(tmp_path / "s.yaml")]).output
    training = netfl.run(loaded, tmp_path / "run", device="cpu").manifest.get("training")
    assert (training is None) is (sentence is None)
    assert ("  training: " in output) is (sentence is not None)
    if sentence is not None:
        assert sentence in output
        assert training in output
