"""The examples about model versions in the documentation run as printed."""

import re
from pathlib import Path

import numpy as np
import pytest

import netfl
from netfl.scenario.scenario import validate
from netfl.scenario.yaml_document import ScenarioDocument

DOCS = Path(__file__).parents[3] / "docs"
LR = 0.3


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A run whose users take one step on all their examples."""
    learner = {"objective": "erm", "aggregation": "relay", "lr": LR, "batch_size": "full", "local_steps": 1}
    settings = {
        "name": "mine", "users": 4, "rounds": 40, "access": {"kind": "stationary", "rho": {"zipf": 0}},
        "data": {"kind": "blobs", "centers": [[0, 0], [3, 3], [0, 3]], "samples": 60}, "partition": "iid",
        "model": "logistic", "learners": {"FedAvg": learner}, "record": {"versions": True},
    }  # fmt: skip
    return netfl.run(
        validate(ScenarioDocument(settings, "x")), tmp_path_factory.mktemp("mine") / "run", device="cpu"
    ).folder


def run_block(page, text, folder):
    """Run the Python block of *page* that contains *text*, with the run in *folder*; return its namespace."""
    blocks_of_page = re.findall(r"^```python\n(.*?)^```", (DOCS / page).read_text(), re.DOTALL | re.MULTILINE)
    (code,) = [block for block in blocks_of_page if text in block]
    assert '"runs/mine-001"' in code
    namespace = {"netfl": netfl}
    exec(code.replace('"runs/mine-001"', repr(str(folder))), namespace)
    return namespace


def test_a_step_is_recomputed_by_hand(folder):
    namespace = run_block("learning.md", "prepare_run(", folder)
    x, y, run = namespace["x"].astype(float), namespace["y"], namespace["run"]
    deliveries = run.deliveries
    rounds = deliveries["round"][(deliveries["user"] == 3) & (deliveries["base"] == deliveries["round"] - 1)].tolist()
    assert rounds
    versions = run.versions("FedAvg")
    for index in rounds:
        weight, bias = (versions[index - 1][f"layers.0.{name}"].astype(float) for name in ("weight", "bias"))
        scores = np.exp(x @ weight.T + bias)
        gradient = (scores / scores.sum(1, keepdims=True) - np.eye(3)[y]) / len(y)
        assert np.allclose(versions[index]["layers.0.weight"], weight - LR * gradient.T @ x, atol=1e-5)
        assert np.allclose(versions[index]["layers.0.bias"], bias - LR * gradient.sum(0), atol=1e-5)
        assert not np.allclose(versions[index]["layers.0.weight"], weight, atol=1e-5)


def test_versions_have_the_documented_names(folder):
    namespace = run_block("running.md", "list(versions[0])", folder)
    assert list(namespace["versions"][0]) == ["layers.0.weight", "layers.0.bias"]
    assert namespace["step"].shape == (3, 2)
