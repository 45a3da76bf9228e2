"""The YAML example of every model loads, round-trips and runs in a tiny scenario."""

from importlib.util import find_spec

import pytest
from support.tiny_scenarios import MODELS, example_settings, world

import netfl
from netfl.core.descriptions import key_descriptions
from netfl.core.family_members import base_of, find_model
from netfl.learning.data._download import SOURCES
from netfl.scenario.scenario import validate
from netfl.scenario.yaml_document import ScenarioDocument, parse


@pytest.mark.parametrize(("family", "kind"), MODELS)
def test_example_names_its_kind_and_round_trips(family, kind):
    spec = example_settings(family, kind)
    assert spec["kind"] == kind
    model = find_model(base_of(family), kind)
    instance = model.model_validate({key: value for key, value in spec.items() if key != "kind"})
    assert model.model_validate(instance.model_dump(mode="json")) == instance


@pytest.mark.parametrize(("family", "kind"), MODELS)
def test_every_key_is_documented(family, kind):
    model = find_model(base_of(family), kind)
    assert model.model_fields.keys() - key_descriptions(model).keys() == set()


def run_case(family, kind):
    """Return a model as a parameter of a test that runs it; one that needs an optional package is marked."""
    needs = getattr(find_model(base_of(family), kind), "packages", ())
    return pytest.param(family, kind, marks=[pytest.mark.extra] if needs else [])


@pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy")  # of MLflow
@pytest.mark.parametrize(("family", "kind"), [run_case(*model) for model in MODELS])
def test_example_runs_in_a_tiny_scenario(family, kind, tmp_path, monkeypatch):
    if family == "tracker":
        monkeypatch.chdir(tmp_path)  # some write there
    for package in getattr(find_model(base_of(family), kind), "packages", ()):
        if find_spec(package) is None:
            pytest.skip(f"{package} is not installed; the extra netfl-sim[{kind}] has it")
    if family == "learning/data" and kind in SOURCES:
        pytest.skip("needs data files; tests/learning/test_data*.py read them where they are")
    scenario = validate(ScenarioDocument(world(family, example_settings(family, kind), tmp_path), "tiny"))
    assert validate(ScenarioDocument(parse(scenario.to_yaml(), "resolved"), "resolved")) == scenario
    run = netfl.run(scenario, tmp_path / "run", device="cpu")
    assert run.manifest["status"] == "done"
    assert list(run.rounds["round"]) == ([*range(1, 101)] if family == "network/theory" else [1, 2, 3, 4])
    assert run.metrics["value"].notna().all()
