"""Keys that have another name now: in stored scenarios they are read, in written ones they are errors."""

import pytest
from support.inline_sweep_engine import Here

import netfl
from netfl.core.formats import FORMAT
from netfl.core.spec import Spec
from netfl.errors import ScenarioError
from netfl.learning.tuning import TuningSpec
from netfl.network.transport.spec import Transport
from netfl.scenario.renamed_keys import RENAMED_KEYS
from netfl.scenario.yaml_document import dump, read

SECTIONS: dict[str, type[Spec]] = {"tuning": TuningSpec, "transport": Transport}
TUNED = {
    "name": "tuned",
    "users": 3,
    "rounds": 4,
    "replicas": 1,
    "access": {"kind": "bernoulli", "probability": 0.6},
    "data": {"kind": "blobs", "centers": [[0, 0], [3, 3]], "samples": 40},
    "partition": "iid",
    "model": "logistic",
    "learners": {"A": {"objective": "erm", "aggregation": "average", "lr": 0.1, "batch_size": 8, "local_steps": 2}},
    "evaluate": {"every": 2, "validation": 0.3},
    "tuning": {"by": "accuracy", "trials": 3, "replicas": 1},
}


@pytest.mark.parametrize(("section", "former"), RENAMED_KEYS)
def test_the_present_name_is_a_key_and_the_former_one_is_not(section, former):
    fields = SECTIONS[section].model_fields
    assert former not in fields
    assert RENAMED_KEYS[section, former] in fields


def test_a_stored_scenario_is_read_with_the_present_name(tmp_path):
    file = tmp_path / "scenario.yaml"
    overrides = {"more": {"tuning.candidates": 9}}
    file.write_text(
        dump({"format": FORMAT, **TUNED, "tuning": {"by": "accuracy", "candidates": 5}, "overrides": overrides})
    )
    assert netfl.load(file).tuning.trials == 5
    assert netfl.load(file, named=["more"]).tuning.trials == 9
    line = file.read_text().splitlines().index("tuning: {by: accuracy, candidates: 5}") + 1
    assert read(file).where("tuning.trials") == f"{file}:{line}"


def test_a_scenario_of_a_user_names_the_present_key(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text(dump({**TUNED, "tuning": {"by": "accuracy", "candidates": 5}}))
    with pytest.raises(ScenarioError, match=r"tuning\.candidates: is called trials now \(5\); write trials"):
        netfl.load(file)


def write_former_key(folder):
    """Write the scenario of a folder as a version did that called the key ``candidates``."""
    file = folder / "scenario.yaml"
    text = file.read_text()
    assert "trials: 3" in text
    file.write_text(text.replace("trials: 3", "candidates: 3"))


def test_a_run_with_a_former_key_is_compared(tmp_path):
    run = netfl.run(TUNED, tmp_path / "run", device="cpu")
    write_former_key(run.folder)
    assert netfl.open_run(run.folder).scenario["tuning"]["trials"] == 3
    assert list(netfl.compare(run.folder, by="tuning.trials")["tuning.trials"]) == ["3"]


def test_a_sweep_with_a_former_key_is_compared(tmp_path):
    sweep = netfl.sweep(TUNED | {"sweep": {"access.probability": [0.6]}}, tmp_path / "sweep", engine=Here())
    write_former_key(sweep.folder)
    again = netfl.open_sweep(sweep.folder)
    assert again.comparison == sweep.comparison != ""
    assert list(netfl.compare(again, by="tuning.trials")["tuning.trials"]) == ["3"]
