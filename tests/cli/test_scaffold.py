"""``netfl new``: the written files work with the documented commands."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from netfl.cli import app
from netfl.core.kinds import FAMILIES


def class_name(family):
    return "My" + "".join(word.capitalize() for word in family.split("_"))


SHORT = [family.rpartition("/")[2] for family in FAMILIES]
NETFL = "from netfl.cli import main; main()"
"""Code of the console script, which does not have the working folder on its path."""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def new(*words):
    result = CliRunner().invoke(app, ["new", *words])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.output


def shell(*words, safe_path=True):
    """Run Python in the current folder and return its output; *safe_path* keeps the folder off its path."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"} | {"COLUMNS": "100"}
    options = ["-P"] if safe_path else []
    process_ = subprocess.run(
        [sys.executable, *options, *words], capture_output=True, text=True, timeout=300, check=False, env=environment
    )
    assert process_.returncode == 0, process_.stdout + process_.stderr
    return process_.stdout


@pytest.fixture(scope="module")
def everything(tmp_path_factory):
    """Write a starter of each family; return the folder, the outputs and the output of pytest."""
    starters = tmp_path_factory.mktemp("starters")
    previous = Path.cwd()
    os.chdir(starters)
    try:
        outputs = {family: new(family, f"my_{family}")[1] for family in SHORT}
        words = [
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "-W",
            "error",
            "-W",
            "ignore:access.allocation:netfl.errors.NetflWarning",  # its towers do see the SNR without cost
            "-rA",
            "--continue-on-collection-errors",
            ".",
        ]
        process_ = subprocess.run([sys.executable, *words], capture_output=True, text=True, timeout=300, check=False)
    finally:
        os.chdir(previous)
    return starters, outputs, process_.stdout


@pytest.mark.parametrize("family", SHORT)
@pytest.mark.slow
def test_starter_of_each_family_passes_its_test(everything, family):
    starters, outputs, pytest_output = everything
    model = f"my_{family}:{class_name(family)}"
    assert model in outputs[family]
    assert f"PASSED test_my_{family}.py::test_it_holds_its_laws" in pytest_output
    assert f"PASSED test_my_{family}.py::test_it_runs_by_its_name" in pytest_output
    assert len((starters / f"my_{family}.py").read_text().splitlines()) <= 70


@pytest.mark.parametrize("family", SHORT)
@pytest.mark.slow
def test_starter_of_each_family_is_listed(everything, monkeypatch, family):
    monkeypatch.chdir(everything[0])
    output = shell("-c", NETFL, "list", family, f"my_{family}:{class_name(family)}")
    assert f"kind: my_{family}:{class_name(family)}" in output
    assert "Stated properties" in output


@pytest.mark.slow
def test_channel_from_new_to_trace(folder):
    code, output = new("channel", "my_fading")
    assert code == 0
    assert output.splitlines() == [
        "my_fading.py: a small working model to change; its kind in a scenario is my_fading:MyFading",
        "test_my_fading.py: tests the distributions that it states, and runs it",
        "next: netfl list channel my_fading:MyFading, or pytest test_my_fading.py",
    ]
    assert len((folder / "my_fading.py").read_text().splitlines()) <= 30
    shell("-m", "pytest", "-q", "-p", "no:cacheprovider", "test_my_fading.py")
    assert "mean      -2" in shell("-c", NETFL, "list", "channel", "my_fading:MyFading")
    scenario = (folder / "test_my_fading.py").read_text().split('"""')[3]
    (folder / "small.yaml").write_text(scenario)
    assert shell("-c", NETFL, "check", "small.yaml").startswith("small.yaml: valid keys\n")
    shell("-c", NETFL, "trace", "small.yaml", "--out", "run", "--set", "access.channel.1.p=0.5")
    assert "my_fading:MyFading" in (folder / "run/scenario.yaml").read_text()


@pytest.mark.slow
def test_module_in_folder_does_not_hide_installed_module(folder):
    (folder / "simpy.py").write_text("raise RuntimeError('not this one')\n")
    new("channel", "mine")
    assert "Stated properties" in shell("-c", NETFL, "list", "channel", "mine:Mine")


def test_starter_in_another_folder(folder):
    code, output = new("queue", "lifo", "--out", "there/deep")
    assert code == 0
    assert (folder / "there/deep/lifo.py").exists()
    assert output.splitlines()[-1] == (
        "next: PYTHONPATH=there/deep netfl list queue lifo:Lifo, or pytest there/deep/test_lifo.py"
    )


@pytest.mark.parametrize("name", ["my-fading", "class", "_2", "a/b", "../up", "é b", ""])
def test_invalid_names_are_rejected(folder, name):
    remedy = "write letters, digits and underscores, such as my_fading"
    assert new("channel", name) == (2, f"not a valid name of a Python module ({name!r}); {remedy}\n")
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("name", ["queue", "numpy", "netfl"])
def test_existing_names_are_rejected(folder, name):
    assert new("channel", name) == (2, f"a Python module of this name already exists ('{name}'); use another name\n")
    assert list(folder.iterdir()) == []


def test_unknown_family_is_rejected(folder):
    assert new("chanel", "mine") == (2, "no such family ('chanel'); did you mean 'channel'?\n")
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("existing", ["mine.py", "test_mine.py"])
def test_nothing_is_overwritten(folder, existing):
    (folder / existing).write_text("precious")
    assert new("channel", "mine") == (2, f"{existing} already exists; use another name, or move the file away\n")
    assert [(path.name, path.read_text()) for path in folder.iterdir()] == [(existing, "precious")]


def test_unwritable_folder_exits_with_1(folder):
    (folder / "file").write_text("")
    assert new("channel", "mine", "--out", "file") == (
        1,
        "cannot write file: File exists; check the path, or choose another one\n",
    )
