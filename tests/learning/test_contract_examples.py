"""The examples in the contracts of data, partitions and models are complete: they train."""

import sys
import textwrap
from importlib import import_module

import numpy as np
import pytest

import netfl
from netfl.scenario.scenario import validate
from netfl.scenario.yaml_document import ScenarioDocument

NAMES = {
    "data": "from typing import ClassVar\nimport numpy as np\nfrom netfl.learning.data import Data, Dataset",
    "partition": "import numpy as np\nfrom netfl.learning.partition import Partition",
    "model": "import math\nfrom netfl.learning.model import Model",
}
SCENARIO = {
    "name": "examples",
    "users": 4,
    "rounds": 3,
    "access": {"kind": "bernoulli", "probability": 0.9},
    "data": {"kind": "my_data:Clouds", "distance": 3},
    "partition": {"kind": "my_partitions:FirstTakesHalf"},
    "model": {"kind": "my_models:Narrow"},
    "learners": {"a": {"objective": "erm", "aggregation": "average", "lr": 0.5, "batch_size": 10, "local_steps": 5}},
}
MODULES = {"data": "my_data", "partition": "my_partitions", "model": "my_models"}


@pytest.mark.slow
def test_the_examples_of_the_contracts_train(tmp_path, monkeypatch):
    for family, imports in NAMES.items():
        text = import_module(f"netfl.learning.{family}").__doc__
        block = text[text.index("    class ") :].partition("\n\nA model that")[0].partition("\n\nData with")[0]
        code = f"{imports}\nfrom netfl.types import Law\n\n\n{textwrap.dedent(block)}"
        (tmp_path / f"{MODULES[family]}.py").write_text(code)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    run = netfl.run(validate(ScenarioDocument(SCENARIO, "examples")), tmp_path / "run", device="cpu")
    assert run.manifest["status"] == "done"
    assert np.isfinite(run.metrics["loss"]).all() if "loss" in run.metrics else len(run.rounds) == 3
