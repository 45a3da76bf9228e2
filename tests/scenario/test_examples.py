"""Shipped scenarios: listed, and copied with their files without overwriting others."""

from pathlib import Path

import pytest
from ruamel.yaml import YAML
from typer.testing import CliRunner

import netfl
from netfl.cli import app
from netfl.cli.inspect import complete_scenario
from netfl.errors import MachineError, ScenarioError
from netfl.scenario import examples


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    return tmp_path


def call(*arguments):
    result = CliRunner().invoke(app, arguments)
    return result.exit_code, result.output


def test_command_lists_all_scenarios_with_descriptions():
    code, output = call("scenarios")
    assert code == 0
    assert [line.partition(":")[0] for line in output.splitlines()] == examples.example_names()
    assert output.startswith("closed_loop: Twenty-four users share three channels")
    assert max(map(len, output.splitlines())) <= 100


@pytest.mark.parametrize("name", examples.example_names())
def test_descriptions_match_the_files(name):
    lines = (examples.examples_folder() / f"{name}.yaml").read_text().split("\naccess:")[0]
    head = lines.partition("\nusers:")[0]
    assert examples.description(name) == " ".join(YAML(typ="safe", pure=True).load(head)["description"].split())


def test_copied_scenario_runs():
    assert call("scenarios", "replay") == (0, "scenarios/access/replay.yaml\n")
    assert Path("scenarios/access/recorded/rounds.parquet").is_file()
    run = netfl.trace(netfl.load("scenarios/access/replay.yaml", {"rounds": 3}), "run")
    assert len(run.rounds) == 3


def test_folder_and_all_scenarios_can_be_copied():
    assert call("scenarios", "validation")[1].split() == [
        f"scenarios/{name}.yaml" for name in examples.example_names() if name.startswith("validation/")
    ]
    assert len(examples.copy("all")) == len(examples.example_names())


@pytest.mark.parametrize("argument", ["paper/fig2a", "fig2a", "scenarios/paper/fig2a.yaml"])
def test_name_may_be_short_or_a_path(argument):
    assert examples.copy(argument) == [Path("scenarios/paper/fig2a.yaml")]


def test_existing_files_are_not_replaced():
    (path,) = examples.copy("rural_outage")
    assert examples.copy("rural_outage") == [path]
    path.write_text("mine")
    code, output = call("scenarios", "rural_outage")
    assert (code, output) == (
        2, "scenarios/rural_outage.yaml already exists with other content; move it away, or go to another folder\n",
    )  # fmt: skip
    assert path.read_text() == "mine"


def test_misspelled_name_gets_a_suggestion():
    assert call("scenarios", "rural_outtage") == (
        2, "no such scenario ('rural_outtage'); did you mean 'rural_outage'?\n",
    )  # fmt: skip
    with pytest.raises(ScenarioError, match="list them with: in a shell, netfl scenarios"):
        examples.copy("xyzzy")


def test_ambiguous_name_is_an_error():
    with pytest.raises(ScenarioError, match="write access/availability or validation/availability"):
        examples.copy("availability")


def test_folder_that_is_not_writable_is_an_error():
    Path("scenarios").write_text("a file")
    with pytest.raises(MachineError, match="cannot write scenarios"):
        examples.copy("rural_outage")


@pytest.mark.parametrize("argument", ["scenarios/rural_outage.yaml", "rural_outage.yaml"])
def test_run_without_a_copy_suggests_the_command(argument):
    code, output = call("run", argument)
    assert code == 2
    remedy = "write 'rural_outage', a scenario that netfl contains, or copy it: netfl scenarios rural_outage"
    assert output == f"{argument}: the file does not exist; {remedy}\n"


def test_other_missing_path_is_an_error():
    assert call("run", "nothing.yaml") == (
        2,
        "nothing.yaml: the file does not exist; check the path; netfl scenarios lists the scenarios of netfl\n",
    )


def test_installed_package_contains_the_scenarios(tmp_path, monkeypatch):
    (tmp_path / "netfl/scenarios").mkdir(parents=True)
    monkeypatch.setattr(examples, "__file__", str(tmp_path / "netfl/scenario/examples.py"))
    assert examples.examples_folder() == tmp_path / "netfl/scenarios"


@pytest.mark.parametrize("arguments", [[], ["rural_outage"], ["all"]])
def test_an_installation_without_scenarios_is_an_error(arguments, tmp_path, monkeypatch):
    monkeypatch.setattr(examples, "__file__", str(tmp_path / "netfl/scenario/examples.py"))
    code, output = call("scenarios", *arguments)
    assert code == 1
    assert f"missing: no folder 'scenarios' in {tmp_path}/netfl or beside it has any; install netfl again" in output
    assert complete_scenario("rural") == []


def test_completion_of_names():
    assert complete_scenario("rural") == ["rural_outage"]


@pytest.mark.parametrize("name", ["access/availability", "access/replay", "access/real"])
def test_an_example_with_files_runs_by_its_name_alone(name):
    code, output = call("trace", name, "--set", "rounds=3", "--out", "run", "--quiet")
    assert (code, output) == (0, "")
    assert len(netfl.open_run("run").rounds) == 3


def test_a_copy_of_the_files_of_an_example_comes_first():
    examples.copy("access/availability")
    assert netfl.load("access/availability").access.file == Path("scenarios/files/shifts.csv").absolute()
