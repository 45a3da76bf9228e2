"""Which netfl this is, said in one place; files of before are read, files of a newer netfl are refused."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from ruamel.yaml import YAML
from typer.testing import CliRunner

import netfl
from netfl.cli import app
from netfl.cli.inspect import environment_info
from netfl.errors import ScenarioError
from netfl.network.files import open_parquet
from netfl.sweeps.index import SweepIndex
from netfl.types import FORMAT, STAMP

ROOT = Path(__file__).parents[2]
GOOD = "name: good\nusers: 3\nrounds: 6\naccess: {kind: stationary, rho: [0.5, 0.3, 0.2]}\n"
NEWER = FORMAT + 1


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "good.yaml").write_text(GOOD)
    return tmp_path


def call(*words):
    done = CliRunner().invoke(app, words)
    return done.exit_code, done.output


def restamped(path, metadata):
    """The table with other metadata, or without."""
    table = pq.read_table(path)
    pq.write_table(table.replace_schema_metadata(metadata), path)


def aged(run):
    """A run as it was written before there were formats."""
    for path in run.glob("*.parquet"):
        restamped(path, None)
    manifest = json.loads((run / "manifest.json").read_text())
    assert manifest.pop("format") == FORMAT
    (run / "manifest.json").write_text(json.dumps(manifest | {"status": "running"}))
    text = (run / "scenario.yaml").read_text()
    assert text.startswith(f"format: {FORMAT}\n")
    (run / "scenario.yaml").write_text(text.partition("\n")[2])


def test_the_citation_is_of_this_version():
    told = YAML(typ="safe").load(ROOT / "CITATION.cff")
    assert told["version"] == netfl.__version__
    assert {"cff-version", "message", "title", "authors"} <= told.keys()


def test_the_version_is_a_semantic_one_and_in_the_changelog():
    assert re.fullmatch(r"\d+\.\d+\.\d+(-[\w.]+)?", netfl.__version__)
    assert f"\n## {netfl.__version__}" in (ROOT / "CHANGELOG.md").read_text()


def test_the_changelog_has_the_form_that_it_says():
    text = (ROOT / "CHANGELOG.md").read_text()
    heads = re.findall(r"^## (.*)$", text, re.MULTILINE)
    assert [
        head for head in heads if not re.fullmatch(r"Unreleased|\d+\.\d+\.\d+ \((unreleased|\d{4}-\d\d-\d\d)\)", head)
    ] == []
    entries = re.findall(r"^- (.*)$", text, re.MULTILINE)
    assert [entry for entry in entries if not re.match(r"\[(NEW|FIX|BREAKING|DOCS)\] ", entry)] == []


def test_the_plain_version_imports_nothing_heavy():
    asked = "from netfl.cli import app; app(['--version'], standalone_mode=False)"
    code = f"import sys; {asked}; print({{'torch', 'numpy', 'pydantic'}} & {{*sys.modules}})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == f"netfl {netfl.__version__}\nset()\n"


def test_version_tells_what_a_bug_report_needs(monkeypatch):
    monkeypatch.setenv("NETFL_DATA", "/somewhere")
    code, output = call("version")
    lines = output.splitlines()
    assert code == 0
    assert lines[0] == f"netfl {netfl.__version__}"
    named = [line.partition(":")[0] for line in lines[1:]]
    for name in ("python", "system", "cores", "numpy", "torch", "devices", "data", "netfl-sim[ray]"):
        assert name in named
    assert "data: /somewhere (NETFL_DATA)" in lines
    assert any(line.startswith("devices: cpu (") for line in lines)


def test_an_extra_that_is_not_there_is_told(monkeypatch):
    monkeypatch.setattr("netfl.cli.inspect._EXTRAS", {"ray": "no-such-package"})
    assert dict(environment_info())["netfl-sim[ray]"] == "not installed"


def test_a_torch_that_is_broken_is_told(monkeypatch):
    monkeypatch.setitem(sys.modules, "netfl.learning.tensors", None)
    assert dict(environment_info())["devices"].startswith("torch cannot be imported: ")


class TestScenarios:
    def test_the_format_may_be_said(self, folder):
        (folder / "good.yaml").write_text(f"format: {FORMAT}\n{GOOD}")
        assert netfl.load("good.yaml").format == FORMAT

    def test_a_file_without_one_is_of_the_first(self, folder):
        assert netfl.load("good.yaml").format == 1

    def test_a_newer_one_is_refused_alone_whatever_else_is_in_it(self, folder):
        (folder / "good.yaml").write_text(f"{GOOD}format: {NEWER}\nnew_key: 1\n")
        code, output = call("check", "good.yaml")
        told = f"newer than {FORMAT}, the newest format that netfl {netfl.__version__} reads"
        assert (code, output) == (2, f"good.yaml:5: format: {told} ({NEWER}); install a newer version of netfl\n")

    def test_what_is_no_version_is_a_fault(self, folder):
        (folder / "good.yaml").write_text(f"{GOOD}format: new\n")
        with pytest.raises(ScenarioError, match=r"good.yaml:5: format: "):
            netfl.load("good.yaml")

    def test_it_decides_nothing(self, folder):
        scenario = netfl.load("good.yaml")
        assert "format" not in scenario.plain()
        assert scenario.to_yaml().startswith(f"format: {FORMAT}\n")


class TestRuns:
    def test_tables_and_manifest_say_their_format(self, folder):
        run = netfl.trace(netfl.load("good.yaml"), "run")
        assert run.manifest["format"] == FORMAT
        assert {path.name for path in run.folder.glob("*.parquet")} >= {"rounds.parquet", "users.parquet"}
        for path in run.folder.glob("*.parquet"):
            assert STAMP.items() <= pq.read_schema(path).metadata.items(), path.name

    def test_one_of_before_is_read_resumed_and_extended(self, folder):
        fresh, old = netfl.trace(netfl.load("good.yaml"), "fresh"), netfl.trace(netfl.load("good.yaml"), "old")
        aged(old.folder)
        assert netfl.open_run("old").deliveries.equals(fresh.deliveries)
        assert netfl.resume("old").deliveries.equals(fresh.deliveries)
        aged(old.folder)
        manifest = json.loads(Path("old/manifest.json").read_text())
        Path("old/manifest.json").write_text(json.dumps(manifest | {"status": "done"}))
        assert set(netfl.extend("old", 2).rounds["replica"]) == {0, 1}

    def test_a_newer_one_is_refused(self, folder):
        netfl.trace(netfl.load("good.yaml"), "run")
        manifest = json.loads(Path("run/manifest.json").read_text())
        Path("run/manifest.json").write_text(json.dumps(manifest | {"format": NEWER}))
        for words in (("report", "run"), ("resume", "run")):
            code, output = call(*words)
            assert code == 2
            assert re.match(
                rf"\S*run/manifest.json: format: newer than {FORMAT}, .* install a newer version of netfl\n", output
            )

    def test_a_newer_table_is_refused(self, folder):
        netfl.trace(netfl.load("good.yaml"), "run")
        path = Path("run/rounds.parquet")
        restamped(path, dict.fromkeys(STAMP, str(NEWER).encode()))
        with pytest.raises(ScenarioError, match=r"run/rounds.parquet: format: newer than"), open_parquet(path):
            pass

    def test_a_stamp_that_is_no_number_is_let_be(self, folder):
        netfl.trace(netfl.load("good.yaml"), "run")
        path = Path("run/rounds.parquet")
        restamped(path, dict.fromkeys(STAMP, b"?"))
        with open_parquet(path) as file:
            assert file.metadata.num_rows == 6


class TestSweeps:
    def test_its_folder_says_its_format_and_that_of_before_is_read(self, tmp_path):
        SweepIndex(folder=tmp_path, replicas=3, points=[], tasks={}, errors={}).write()
        path = tmp_path / "sweep.json"
        told = json.loads(path.read_text())
        assert told.pop("format") == FORMAT
        path.write_text(json.dumps(told | {"form": 1}))
        assert SweepIndex.read(tmp_path).replicas == 3

    def test_a_newer_one_is_refused(self, tmp_path):
        (tmp_path / "sweep.json").write_text(json.dumps({"format": NEWER}))
        with pytest.raises(ScenarioError, match=r"sweep.json: format: newer than"):
            SweepIndex.read(tmp_path)
