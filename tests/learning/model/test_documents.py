"""What the pages say of versions and of a step that is recomputed by hand works as it stands there."""

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
    """A run whose users take one step on all that they hold."""
    learner = {"objective": "erm", "aggregation": "relay", "lr": LR, "batch_size": "full", "local_steps": 1}
    said = {
        "name": "mine", "users": 4, "rounds": 40, "access": {"kind": "stationary", "rho": {"zipf": 0}},
        "data": {"kind": "blobs", "centers": [[0, 0], [3, 3], [0, 3]], "samples": 60}, "partition": "iid",
        "model": "logistic", "learners": {"FedAvg": learner}, "record": {"versions": True},
    }  # fmt: skip
    return netfl.run(
        validate(ScenarioDocument(said, "x")), tmp_path_factory.mktemp("mine") / "run", device="cpu"
    ).folder


def told(page, word, folder):
    """What is there after the Python of a page that has *word*, run on the run in *folder*."""
    found = re.findall(r"^```python\n(.*?)^```", (DOCS / page).read_text(), re.DOTALL | re.MULTILINE)
    (code,) = [block for block in found if word in block]
    assert '"runs/mine-001"' in code
    known = {"netfl": netfl}
    exec(code.replace('"runs/mine-001"', repr(str(folder))), known)
    return known


def test_a_step_is_recomputed_by_hand(folder):
    known = told("learning.md", "prepare_run(", folder)
    x, y, run = known["x"].astype(float), known["y"], known["run"]
    heard = run.deliveries
    rounds = heard["round"][(heard["user"] == 3) & (heard["base"] == heard["round"] - 1)].tolist()
    assert rounds
    versions = run.versions("FedAvg")
    for index in rounds:
        weight, bias = (versions[index - 1][f"layers.0.{name}"].astype(float) for name in ("weight", "bias"))
        scores = np.exp(x @ weight.T + bias)
        slopes = (scores / scores.sum(1, keepdims=True) - np.eye(3)[y]) / len(y)
        assert np.allclose(versions[index]["layers.0.weight"], weight - LR * slopes.T @ x, atol=1e-5)
        assert np.allclose(versions[index]["layers.0.bias"], bias - LR * slopes.sum(0), atol=1e-5)
        assert not np.allclose(versions[index]["layers.0.weight"], weight, atol=1e-5)


def test_the_versions_have_the_names_of_the_page(folder):
    known = told("running.md", "list(versions[0])", folder)
    assert list(known["versions"][0]) == ["layers.0.weight", "layers.0.bias"]
    assert known["step"].shape == (3, 2)
