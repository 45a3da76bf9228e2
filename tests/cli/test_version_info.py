"""The version of netfl and of its file format: older files are read, newer ones are rejected."""

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
from netfl.core.formats import FORMAT, STAMP
from netfl.errors import ScenarioError
from netfl.files.parquet import open_parquet
from netfl.sweeps.index import SweepIndex

ROOT = Path(__file__).parents[2]
GOOD = "name: good\nusers: 3\nrounds: 6\naccess: {kind: stationary, rho: [0.5, 0.3, 0.2]}\n"
NEWER = FORMAT + 1


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "good.yaml").write_text(GOOD)
    return tmp_path


def call(*words):
    result = CliRunner().invoke(app, words)
    return result.exit_code, result.output


def replace_metadata(path, metadata):
    """Replace the metadata of a table."""
    table = pq.read_table(path)
    pq.write_table(table.replace_schema_metadata(metadata), path)


def test_citation_has_this_version():
    citation = YAML(typ="safe").load(ROOT / "CITATION.cff")
    assert citation["version"] == netfl.__version__
    assert {"cff-version", "message", "title", "authors"} <= citation.keys()


def test_bibtex_of_the_readme_is_that_of_the_citation():
    citation = YAML(typ="safe").load(ROOT / "CITATION.cff")
    (entry,) = re.findall(r"```bibtex\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    fields = dict(re.findall(r"(\w+) *= \{(.*)\},$", entry, re.MULTILINE))
    assert fields == {
        "author": " and ".join(f"{{{author['name']}}}" for author in citation["authors"]),
        "title": citation["title"],
        "version": citation["version"],
        "year": str(citation.get("date-released", copyright_year()))[:4],
    }


def copyright_year():
    """Return the last year of the licence, which is that of a version that is not released."""
    return re.search(r"Copyright \(c\) (?:\d{4}-)?(\d{4})", (ROOT / "LICENSE").read_text())[1]


def test_version_is_semantic_and_in_changelog():
    assert re.fullmatch(r"\d+\.\d+\.\d+(-[\w.]+)?", netfl.__version__)
    first, *_ = changelog_versions()
    assert first[0] == netfl.__version__


@pytest.mark.parametrize("page", ["README.md", "docs/install.md", "docs/background/versions.md"])
def test_pages_name_this_version(page):
    named = re.findall(r"netfl(?:_sim-| )(\d+\.\d+\.\d+)(?=-py3| reads)", (ROOT / page).read_text())
    assert {*named} == {netfl.__version__}


def changelog_versions():
    """Return the version and the state of each heading of the changelog, the newest first."""
    heads = re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    return [tuple(head.removesuffix(")").split(" (")) for head in heads]


def test_changelog_has_documented_format():
    text = (ROOT / "CHANGELOG.md").read_text()
    (_, newest), *older = changelog_versions()
    assert re.fullmatch(r"unreleased|\d{4}-\d\d-\d\d", newest)
    assert [state for _, state in older if not re.fullmatch(r"never released|\d{4}-\d\d-\d\d", state)] == []
    entries = re.findall(r"^- (.*)$", text, re.MULTILINE)
    assert [entry for entry in entries if not re.match(r"\[(NEW|FIX|BREAKING|DOCS)\] ", entry)] == []


def test_version_option_imports_nothing_heavy():
    call_ = "from netfl.cli import app; app(['--version'], standalone_mode=False)"
    code = f"import sys; {call_}; print({{'torch', 'numpy', 'pydantic'}} & {{*sys.modules}})"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout == f"netfl {netfl.__version__}\nset()\n"


def test_version_command_prints_environment(monkeypatch):
    monkeypatch.setenv("NETFL_DATA", "/somewhere")
    code, output = call("version")
    lines = output.splitlines()
    assert code == 0
    assert lines[0] == f"netfl {netfl.__version__}"
    keys = [line.partition(":")[0] for line in lines[1:]]
    for name in ("python", "system", "cores", "numpy", "torch", "devices", "data", "netfl-sim[ray]"):
        assert name in keys
    assert "data: /somewhere (NETFL_DATA)" in lines
    assert any(line.startswith("devices: cpu (") for line in lines)


def test_missing_extra_is_reported(monkeypatch):
    monkeypatch.setattr("netfl.cli.inspect._EXTRAS", {"ray": "no-such-package"})
    assert dict(environment_info())["netfl-sim[ray]"] == "not installed"


def test_broken_torch_is_reported(monkeypatch):
    monkeypatch.setitem(sys.modules, "netfl.learning.tensors", None)
    assert dict(environment_info())["devices"].startswith("torch cannot be imported: ")


class TestScenarios:
    def test_format_may_be_given(self, folder):
        (folder / "good.yaml").write_text(f"format: {FORMAT}\n{GOOD}")
        assert netfl.load("good.yaml").format == FORMAT

    @pytest.mark.parametrize("line", ["", "format: 1\n"])
    def test_file_of_an_older_format_becomes_one_of_this(self, folder, line):
        (folder / "good.yaml").write_text(GOOD + line)
        assert netfl.load("good.yaml").format == FORMAT

    def test_newer_format_is_the_only_error(self, folder):
        (folder / "good.yaml").write_text(f"{GOOD}format: {NEWER}\nnew_key: 1\n")
        code, output = call("check", "good.yaml")
        message = f"newer than {FORMAT}, the newest format that netfl {netfl.__version__} reads"
        assert (code, output) == (2, f"good.yaml:5: format: {message} ({NEWER}); install a newer version of netfl\n")

    def test_invalid_format_is_an_error(self, folder):
        (folder / "good.yaml").write_text(f"{GOOD}format: new\n")
        with pytest.raises(ScenarioError, match=r"good.yaml:5: format: "):
            netfl.load("good.yaml")

    def test_format_is_written_but_not_a_setting(self, folder):
        scenario = netfl.load("good.yaml")
        assert "format" not in scenario.plain()
        assert scenario.to_yaml().startswith(f"format: {FORMAT}\n")


class TestRuns:
    def test_tables_and_manifest_have_their_format(self, folder):
        run = netfl.trace(netfl.load("good.yaml"), "run")
        assert run.manifest["format"] == FORMAT
        assert {path.name for path in run.folder.glob("*.parquet")} >= {"rounds.parquet", "users.parquet"}
        for path in run.folder.glob("*.parquet"):
            assert STAMP.items() <= pq.read_schema(path).metadata.items(), path.name

    @pytest.mark.parametrize("older", [{"format": FORMAT - 1}, {}])
    def test_older_run_is_refused_by_name(self, folder, older):
        run = netfl.trace(netfl.load("good.yaml"), "run")
        manifest = {key: value for key, value in run.manifest.items() if key != "format"}
        Path("run/manifest.json").write_text(json.dumps(manifest | older))
        for words in (("report", "run"), ("resume", "run"), ("verify", "run"), ("export", "run", "--csv")):
            code, output = call(*words)
            assert code == 2
            assert output.startswith(
                f"run/manifest.json: format: older than {FORMAT}, the format of folders that netfl "
            )
            stated = older.get("format", 1)
            assert output.endswith(f"({stated}); convert the folder: python benchmarks/migrate.py run\n")

    def test_older_tables_are_read_as_recordings(self, folder):
        fresh = netfl.trace(netfl.load("good.yaml"), "run")
        for path in Path("run").glob("*.parquet"):
            replace_metadata(path, None)
        replay = netfl.load("good.yaml", {"access": {"kind": "replay", "run": "run"}})
        assert netfl.trace(replay, "again").deliveries.equals(fresh.deliveries)

    def test_newer_format_is_rejected(self, folder):
        netfl.trace(netfl.load("good.yaml"), "run")
        manifest = json.loads(Path("run/manifest.json").read_text())
        Path("run/manifest.json").write_text(json.dumps(manifest | {"format": NEWER}))
        for words in (("report", "run"), ("resume", "run")):
            code, output = call(*words)
            assert code == 2
            assert re.match(
                rf"\S*run/manifest.json: format: newer than {FORMAT}, .* install a newer version of netfl\n", output
            )

    def test_newer_table_is_rejected(self, folder):
        netfl.trace(netfl.load("good.yaml"), "run")
        path = Path("run/rounds.parquet")
        replace_metadata(path, dict.fromkeys(STAMP, str(NEWER).encode()))
        with pytest.raises(ScenarioError, match=r"run/rounds.parquet: format: newer than"), open_parquet(path):
            pass

    def test_invalid_format_of_a_table_is_ignored(self, folder):
        netfl.trace(netfl.load("good.yaml"), "run")
        path = Path("run/rounds.parquet")
        replace_metadata(path, dict.fromkeys(STAMP, b"?"))
        with open_parquet(path) as file:
            assert file.metadata.num_rows == 6


class TestSweeps:
    def test_index_has_its_format_and_older_index_is_refused(self, tmp_path):
        SweepIndex(folder=tmp_path, replicas=3, points=[], tasks={}, errors={}).write()
        path = tmp_path / "sweep.json"
        index = json.loads(path.read_text())
        assert index.pop("format") == FORMAT
        path.write_text(json.dumps(index))
        with pytest.raises(ScenarioError, match=r"sweep.json: format: older than \d, .* convert the folder"):
            SweepIndex.read(tmp_path)

    def test_newer_format_is_rejected(self, tmp_path):
        (tmp_path / "sweep.json").write_text(json.dumps({"format": NEWER}))
        with pytest.raises(ScenarioError, match=r"sweep.json: format: newer than"):
            SweepIndex.read(tmp_path)
