"""User-defined models are checked before a run."""

import subprocess
import sys

import pytest
import torch
from typer.testing import CliRunner

import netfl
from netfl.cli import app
from netfl.core.family_members import find_model
from netfl.errors import ScenarioError
from netfl.learning.model import Model
from netfl.learning.model._trial import find_problem
from netfl.scenario.scenario import validate
from netfl.scenario.yaml_document import ScenarioDocument, dump
from netfl.simulation.setup import prepare_run

LINEAR, EMBEDDED = "support.plugin_models:Linear", "support.plugin_models:Embedded"


def scenario(**model):
    return {
        "name": "tried", "users": 5, "rounds": 2, "access": {"kind": "bernoulli", "probability": 0.9},
        "data": {"kind": "digits"}, "partition": "iid", "model": {"kind": LINEAR} | model,
        "learners": {"a": {"objective": "erm", "aggregation": "average", "lr": 0.1, "batch_size": 8, "local_steps": 2}},
    }  # fmt: skip


def test_a_correct_model_runs(tmp_path):
    assert netfl.run(validate(ScenarioDocument(scenario(), "x")), tmp_path / "run", device="cpu").status == "done"


@pytest.mark.parametrize(
    ("fault", "problem", "remedy"),
    [
        ("few", "its method 'parameters' gives 100, but what it opens has 650", "count all parameters"),
        ("text", "its method 'parameters' gives '650' for examples of shape [1, 8, 8]", "a whole number"),
        ("none", "its method 'parameters' gives 0 for examples", "a whole number"),
        ("count", "fails on examples of shape [1, 8, 8], 10 classes and no tokens: TypeError: unsupp", "let 'misfits'"),
        ("norm", "its method 'parameters' gives 650, but what it opens has 670", "and the buffers of its state_dict"),
        ("module", "its method 'open' gives a Sequential, not an Architecture", "return ModuleArchitecture("),
        ("bare", "its method 'open' fails: TypeError: ModuleArchitecture", "return ModuleArchitecture(module, start)"),
        ("draw", "fails to draw its start: LookupError: no such stream", "its start takes the streams"),
        ("list", "starts with a list, not an array [650]", "return one flat NumPy array"),
        ("short", "starts with [649], not an array [650]", "return one flat NumPy array"),
        ("nan", "starts with numbers that are not finite", "draw finite numbers"),
        ("classes", "gives [3, 5, 2] for 3 examples of 10 classes", "[3, 10] is wanted"),
    ],
)
def test_errors_of_a_wrong_model_are_one_line(tmp_path, monkeypatch, fault, problem, remedy):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.yaml").write_text(dump(scenario(fault=fault)))
    for command in ("check", "run"):
        result = CliRunner().invoke(app, [command, "x.yaml"])
        assert result.exit_code == 2
        (error,) = result.output.splitlines()
        assert error.startswith(f"x.yaml:7: model: {problem}")
        assert f"('{LINEAR}'); " in error
        assert remedy in error.partition("'); ")[2]


def test_a_default_of_the_wrong_type_is_an_error():
    with pytest.raises(ScenarioError, match=r"x: model\.kernel: not a whole number \('five'\)"):
        validate(ScenarioDocument(scenario(kind="support.plugin_models:Defaulted"), "x"))


def test_a_model_states_that_it_accepts_tokens():
    model = find_model(Model, EMBEDDED)
    assert not [*model().misfits((6,), 3, 5)]
    (error,) = model(takes=False).misfits((6,), 3, 5)
    assert error.remedy == f"use 'lstm', or data of measurements, or override misfits in {EMBEDDED}"


@pytest.mark.parametrize("whole", [True, False])
def test_tokens_are_integers_on_request(whole):
    problem = find_problem(find_model(Model, EMBEDDED)(whole=whole).open((6,), 3, 5), (6,), 3, 5)
    assert (problem is None) is whole
    if problem is not None:
        assert problem[0].startswith("fails on examples of shape [3, 6]: RuntimeError: Expected tensor for argument #1")
        assert "with has_tokens=True, ModuleArchitecture gives it whole numbers" in problem[1]


def test_a_model_of_tokens_on_other_data_is_an_error():
    with pytest.raises(ScenarioError, match=r"model: fails on examples of shape .* and no tokens: TypeError"):
        validate(ScenarioDocument(scenario(kind=EMBEDDED), "x"))


def test_the_check_does_not_change_generators():
    before = torch.get_rng_state()
    prepare_run(validate(ScenarioDocument(scenario(), "x")))
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.slow
def test_packaged_models_do_not_import_torch(tmp_path):
    (tmp_path / "x.yaml").write_text(dump(scenario() | {"model": "logistic"}))
    code = f"import netfl, sys; netfl.load({str(tmp_path / 'x.yaml')!r}); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
