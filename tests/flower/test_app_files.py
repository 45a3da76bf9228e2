"""Flower apps by name: modules, packages and project folders."""

import sys

import pytest

pytestmark = pytest.mark.extra
pytest.importorskip("flwr", reason="netfl-sim[flower] is not installed")

from support.error_messages import assert_messages

from netfl.errors import ScenarioError
from netfl.flower.app_files import load_app

SERVER = "from flwr.serverapp import ServerApp\n{name} = ServerApp()\n"
CLIENT = "from flwr.clientapp import ClientApp\n{name} = ClientApp()\n"
PROJECT = """
[tool.flwr.app.components]
serverapp = "myproject.server:app"
clientapp = "myproject.client:app"
[tool.flwr.app.config]
num-server-rounds = 3
fast = true
[tool.flwr.app.config.net]
width = 8
name = "small"
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if name.startswith("my"):
            del sys.modules[name]


def write(folder, **files):
    for name, text in files.items():
        path = folder / f"{name.replace('__', '/')}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)


def test_a_module_with_both_apps(folder):
    write(folder, mymodule=SERVER.format(name="server_app") + CLIENT.format(name="client_app"))
    app = load_app("mymodule")
    assert (app.server, app.client) == (sys.modules["mymodule"].server_app, sys.modules["mymodule"].client_app)
    assert (app.name, app.config) == ("mymodule", {})


def test_attributes_of_a_module(folder):
    write(folder, mynames=SERVER.format(name="first") + CLIENT.format(name="second"))
    app = load_app("mynames:first,second")
    assert app.client is sys.modules["mynames"].second
    with pytest.raises(ScenarioError, match="the module has no ServerApp"):
        load_app("mynames")
    with pytest.raises(ScenarioError, match=r"not of the form module:server,client \('mynames:first'\)"):
        load_app("mynames:first")
    with pytest.raises(ScenarioError, match="ClientApp in place of a ServerApp"):
        load_app("mynames:second,first")


def test_a_package_with_two_modules(folder):
    (folder / "mypackage").mkdir()
    (folder / "mypackage/__init__.py").touch()
    (folder / "mypackage/server_app.py").write_text(SERVER.format(name="app"))
    (folder / "mypackage/client_app.py").write_text(CLIENT.format(name="app"))
    assert load_app("mypackage").server is sys.modules["mypackage.server_app"].app


def test_a_project_folder_with_its_config(folder):
    project = folder / "elsewhere"
    (project / "myproject").mkdir(parents=True)
    (project / "pyproject.toml").write_text(PROJECT)
    (project / "myproject/server.py").write_text(SERVER.format(name="app"))
    (project / "myproject/client.py").write_text(CLIENT.format(name="app"))
    config = {"num-server-rounds": 3, "fast": True, "net.width": 8, "net.name": "small"}
    assert load_app("elsewhere").config == config
    changed = load_app("elsewhere", ["num-server-rounds=7 net.name='a b'", "fast=false"])
    assert changed.config == config | {"num-server-rounds": 7, "net.name": "a b", "fast": False}
    with pytest.raises(ScenarioError, match=r"--run-config: no such key \('num-rounds'\)"):
        load_app("elsewhere", ["num-rounds=7"])
    with pytest.raises(ScenarioError, match=r"--run-config: not of the form KEY=VALUE \('seven'\)"):
        load_app("elsewhere", ["seven"])


def test_a_run_config_may_be_a_file(folder):
    write(folder, mymodule=SERVER.format(name="server_app") + CLIENT.format(name="client_app"))
    (folder / "mine.toml").write_text("rounds = 3\n[net]\nname = 'small'\n")
    assert load_app("mymodule", ["mine.toml"]).config == {"rounds": 3, "net.name": "small"}
    (folder / "list.toml").write_text("sizes = [1, 2]\n")
    (folder / "bad.toml").write_text("sizes =\n")
    cases = [
        (["mine.toml", "rounds=4"], "--run-config: a file stands alone … ('mine.toml')"),
        (["none.toml"], "--run-config: cannot be read: No such file … ('none.toml')"),
        (["bad.toml"], "--run-config: cannot be read: … line 1 … ('bad.toml')"),
        (["list.toml"], "--run-config: the value of sizes … ([1, 2])"),
    ]
    for texts, pattern in cases:
        with pytest.raises(ScenarioError) as caught:
            load_app("mymodule", texts)
        assert_messages([str(caught.value)], [pattern])


@pytest.mark.parametrize(
    ("text", "problem"),
    [("[tool", "cannot be read"), ("[tool.flwr.app]", "describes no Flower app: 'components' is missing")],
)
def test_a_project_that_is_none_is_explained(folder, text, problem):
    (folder / "pyproject.toml").write_text(text)
    with pytest.raises(ScenarioError, match=problem):
        load_app(".")


def test_what_cannot_be_imported_is_explained(folder):
    write(folder, mybroken="1 / 0\n")
    with pytest.raises(ScenarioError, match=r"--app: cannot be imported: 'mybroken' exists, but fails: ZeroDivision"):
        load_app("mybroken")
    with pytest.raises(ScenarioError, match=r"--app: cannot be imported: there is no module 'mynothing'"):
        load_app("mynothing")
    (folder / "data-files").mkdir()
    with pytest.raises(ScenarioError, match=r"this folder has no pyproject\.toml"):
        load_app("./data-files")


def test_values_of_a_config_without_defaults(folder):
    write(folder, mymodule=SERVER.format(name="server_app") + CLIENT.format(name="client_app"))
    app = load_app("mymodule", ["rate=0.5", "rounds=3", "name=FedAvg", "flag=true"])
    assert app.config == {"rate": 0.5, "rounds": 3, "name": "FedAvg", "flag": True}
