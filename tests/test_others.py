"""Numbers of other tools: the page states the stored runs; data, model and choice are those of the tools' code."""

import json
from types import SimpleNamespace

import numpy as np
import others
import pandas as pd
import pytest
import torch

from netfl.scenario.scenario import validate
from netfl.scenario.yaml_document import ScenarioDocument


def test_page_states_the_stored_runs():
    text = others.PAGE.read_text(encoding="utf-8")
    assert others.page_text(text) == text


def test_cells_have_all_runs_or_none():
    assert {len(others.stored_runs(name)) for name in others.CELLS} <= {0, others.RUNS}


def test_power_law_users_hold_two_labels_and_distinct_rows():
    labels = np.repeat(np.arange(10), 600)
    users = others.power_law_users(labels, np.random.default_rng(3), users=100)
    sizes = np.array([len(rows) for rows in users])
    assert len(np.unique(np.concatenate(users))) == sizes.sum()
    for user, rows in enumerate(users):
        assert set(labels[rows]) == {user % 10, (user + 1) % 10}
        assert np.bincount(labels[rows], minlength=10)[[user % 10, (user + 1) % 10]].min() >= 5
    assert 0.9 * len(labels) < sizes.sum() < len(labels)  # shares are rounded down
    assert sizes.std() > sizes.mean()


def test_sigmoid_bounds_the_probability_of_a_label():
    model = others.SigmoidLogistic()
    with torch.no_grad():
        model.linear.bias[3] = 1e6
        model.linear.bias[[0, 1, 2, 4, 5, 6, 7, 8, 9]] = -1e6
        probability = model(torch.zeros(1, 784)).softmax(1)[0, 3]
    assert float(probability) == pytest.approx(np.e / (np.e + 9))


def run_with(**curves):
    frames = [
        pd.DataFrame({"round": [3, 1, 2], "metric": metric, "group": "", "value": values})
        for metric, values in curves.items()
    ]
    return SimpleNamespace(metrics=pd.concat(frames))


def test_model_is_the_first_of_the_best_validation_accuracy():
    run = run_with(accuracy=[0.9, 0.7, 0.8], validation_accuracy=[0.5, 0.4, 0.5])  # of rounds 3, 1 and 2
    assert others.accuracy_of_best_validation(run) == 0.8
    assert others.last_accuracy(run) == 0.9


@pytest.fixture
def few_images(monkeypatch):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(60, 1, 28, 28)).astype(np.float32), np.arange(60) % 10
    images = SimpleNamespace(train_x=x, train_y=y, test_x=x[:10], test_y=y[:10])
    monkeypatch.setattr(others, "Mnist", lambda **_: SimpleNamespace(load=lambda _: images))


def test_local_test_examples_of_flgo_are_left_out(few_images, tmp_path):
    task = tmp_path / "task" / "mnist_dir0.1_c100"
    task.mkdir(parents=True)
    held = {"a": [*range(23)], "b": [*range(23, 60)]}
    content = {"client_names": [*held], **{name: {"data": rows} for name, rows in held.items()}}
    (task / "data.json").write_text(json.dumps(content))
    data = others.store_flgo_data(tmp_path, tmp_path, 1)
    stored = np.load(data["file"])
    assert np.bincount(stored["user"]).tolist() == [23 - 2, 37 - 3]  # ⌊23/5⌋ = 4 and ⌊37/5⌋ = 7 are held out
    assert len(np.unique(stored["x"], axis=0)) == 55
    assert len(np.load(data["test"])["label"]) == 10


def test_scenarios_of_the_cells_are_valid(monkeypatch, tmp_path):
    file = tmp_path / "made_later.npz"
    file.touch()
    data = {"kind": "arrays", "file": str(file), "labels": 10}
    monkeypatch.setattr(others, "store_fedml_data", lambda *_: {**data, "features": [784]})
    monkeypatch.setattr(others, "store_flgo_data", lambda *_: {**data, "features": [1, 28, 28]})
    last_rates = {}
    for name, cell in others.CELLS.items():
        scenario = validate(ScenarioDocument(cell.make(1, tmp_path, tmp_path)))
        (learner,) = scenario.learners.values()
        last_rates[name] = learner.rates(np.array([scenario.rounds - 1]))[0, 0]
    falling = 0.9998**999
    expected = {
        "fedml_sigmoid": 0.03,
        "fedml_linear": 0.03,
        "flgo_fedavg": 0.05 * falling,
        "flgo_scaffold": 0.01 * falling,
    }
    assert last_rates == pytest.approx(expected)
