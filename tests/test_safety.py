"""Untrusted files: limited memory, no execution of code, no writes elsewhere."""

import json
import os
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from netfl import files
from netfl.cli import app
from netfl.core.plugins import CLOSED
from netfl.errors import MachineError, ScenarioError
from netfl.files.parquet import open_parquet
from netfl.learning.data import arrays
from netfl.learning.data._download import SOURCES
from netfl.network.topology.file import read_graph
from netfl.results.atomic_write import atomic_write
from netfl.results.locking import locked
from netfl.results.model_snapshots import ModelSnapshots
from netfl.results.run_reader import Run
from netfl.scenario.scenario import load
from netfl.scenario.sweep_condition import Condition


@pytest.mark.parametrize("word", [".nan", ".inf", "-.inf", "1e999"])
def test_infinite_number_is_a_located_error(tmp_path, word):
    path = tmp_path / "s.yaml"
    path.write_text(f"name: x\nusers: 5\nrounds: 3\naccess:\n  kind: stationary\n  interval: {word}\n")
    with pytest.raises(ScenarioError) as raised:
        load(path)
    assert f"{path}:6: access.interval" in str(raised.value)


def test_files_that_are_too_large_or_endless_are_not_read(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "MAX_BYTES", 1000)
    large = tmp_path / "large.yaml"
    large.write_bytes(bytes(1001))
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path, problem in [
        (large, r"larger than 0\.001 MB"),
        (pipe, "not a regular file"),
        ("/dev/zero", "not a regular"),
    ]:
        with pytest.raises(OSError, match=problem):
            files.read_text(files.Path(path))
        with pytest.raises(ScenarioError, match=f"cannot be read: {problem}"):
            load(path)


@pytest.mark.parametrize("name", ["a\\0b", "a\\eb", "../x", "a\\nb"])
def test_name_with_invalid_characters_is_rejected(tmp_path, name):
    path = tmp_path / "s.yaml"
    path.write_text(f'name: "{name}"\nusers: 5\nrounds: 3\naccess: {{kind: stationary, deliveries: 1}}\n')
    with pytest.raises(ScenarioError, match=r"s\.yaml:1: name"):
        load(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a > 9 ** 9", "pow is not allowed"),
        ("__import__('os').system('x')", "is not allowed|is not an axis"),
        ("a.__class__ == 1", "attribute is not allowed"),
        ("[b for b in a] == 1", "listcomp is not allowed|is not an axis"),
        ("f'{a}' == 'x'", "joinedstr is not allowed"),
        ("(lambda: 1) == 1", "is not allowed"),
    ],
)
def test_condition_cannot_contain_code(text, message):
    with pytest.raises(ValueError, match=message):
        Condition.read(text, ["a"])


MALICIOUS = "open('ran', 'w').close()\n"
SCENARIO = "name: x\nusers: 5\nrounds: 3\naccess:\n  kind: evil:Evil\n"


@pytest.fixture
def marker(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "evil.py").write_text(MALICIOUS)
    (tmp_path / "s.yaml").write_text(SCENARIO)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield tmp_path / "ran"
    sys.modules.pop("evil", None)


@pytest.mark.parametrize("command", ["run", "trace", "check", "sweep"])
def test_no_plugins_option_prevents_imports(marker, command):
    result = CliRunner().invoke(app, [command, "s.yaml", "--no-plugins"])
    assert result.exit_code == 2
    assert "s.yaml:5: access.kind: 'evil:Evil' is not imported: only netfl's own code is allowed" in result.stderr
    assert not marker.exists()
    assert CLOSED not in os.environ


def test_environment_variable_prevents_imports(marker, monkeypatch):
    monkeypatch.setenv(CLOSED, "1")
    with pytest.raises(ScenarioError, match="is not imported"):
        load("s.yaml")
    assert not marker.exists()


def test_user_defined_model_is_imported_from_current_folder(marker):
    with pytest.raises(ScenarioError, match="has no 'Evil'"):
        load("s.yaml")
    assert marker.exists()


def test_commands_have_no_plugins_option():
    for command in ("run", "trace", "check", "sweep", "resume", "extend", "ram", "report", "export"):
        assert "--no-plugins" in CliRunner().invoke(app, [command, "--help"], env={"COLUMNS": "200"}).stdout, command


@pytest.mark.slow
def test_current_folder_is_not_on_the_path_of_netfl(tmp_path):
    """A file named like an optional module of a library is not imported."""
    (tmp_path / "bottleneck.py").write_text(MALICIOUS)
    (tmp_path / "s.yaml").write_text("name: x\nusers: 5\nrounds: 3\naccess: {kind: stationary, rho: {zipf: 1.0}}\n")
    code = "import sys; sys.argv = ['netfl', 'trace', 's.yaml', '-q']; from netfl.cli import main; main()"
    result = subprocess.run(
        [sys.executable, "-P", "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    assert [*tmp_path.glob("runs/*/rounds.parquet")]
    assert not (tmp_path / "ran").exists()


GRAPHS = {
    "entities.graphml": '<?xml version="1.0"?><!DOCTYPE g [<!ENTITY a "lol">]><graphml>&a;</graphml>',
    "outside.graphml": '<!DOCTYPE g [<!ENTITY a SYSTEM "file:///etc/passwd">]><graphml>&a;</graphml>',
    "disguised.graphml": "+ADwAIQ-DOCTYPE g",
    "deep.json": "[" * 100_000,
    "deep.gml": "graph [ " * 5_000,
    "minus.edges": "a b {'x': " + "-" * 100_000 + "1}",
    "digits.json": '{"nodes": [{"id": 1' + "0" * 5000 + '}], "links": []}',
}


@pytest.mark.parametrize("name", GRAPHS)
def test_malicious_graph_is_an_error(tmp_path, name):
    path = tmp_path / name
    path.write_text(GRAPHS[name])
    with pytest.raises(ScenarioError, match=r"file: is not a |cannot be read"):
        read_graph(path, None)


def test_table_with_too_many_rows_is_rejected(tmp_path):
    path = tmp_path / "rounds.parquet"
    pq.write_table(pa.table({"replica": pa.array(np.zeros(2_000_000, np.int32))}), path)
    with pytest.raises(MachineError, match="states 2000000 rows"), open_parquet(path):
        pass


def test_versions_with_wrong_sizes_are_rejected(tmp_path):
    path = tmp_path / "A-0.safetensors"
    path.write_bytes((2**62).to_bytes(8, "little") + b"{}")
    with pytest.raises(MachineError, match="cannot be read"):
        ModelSnapshots(path)
    one = {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}
    for entries, problem in (
        ({"0/w": one | {"shape": [10**12]}}, "0/w of the shape .* is not at the bytes 0 to"),
        ({"0/w": one | {"data_offsets": [400, 404]}}, "is not at the bytes 0 to 4"),
        ({"0/w": one | {"shape": [-1]}}, "greater than or equal to 0"),
        ({"0/w": one | {"shape": [True]}}, "0/w.shape.0"),
        ({"0/w": one | {"dtype": "F64"}}, "0/w.dtype"),
        ({"w": one}, "w"),
        ({}, "it has 4 bytes of numbers in place of 0"),
        ({"0/w": one, "1/w": one}, "1/w of the shape .* is not at the bytes 4 to 8"),
        ({"0/w": one, "1/b": one | {"shape": [0], "data_offsets": [4, 4]}}, "its versions have different arrays"),
    ):
        head = json.dumps(entries).encode()
        path.write_bytes(len(head).to_bytes(8, "little") + head + bytes(4))
        with pytest.raises(MachineError, match=problem):
            ModelSnapshots(path)


@pytest.mark.parametrize("name", ["manifest.json", "summary.json", "scenario.yaml"])
def test_deeply_nested_file_is_reported(tmp_path, name):
    (tmp_path / name).write_text("a: " * name.endswith("yaml") + "[" * 100_000)
    with pytest.raises(MachineError, match=rf"{name} cannot be read"):
        getattr(Run(tmp_path), name.partition(".")[0])


def test_links_in_run_directory_are_not_followed(tmp_path):
    target, run = tmp_path / "mine", tmp_path / "run"
    target.write_text("mine")
    run.mkdir()
    (run / "report.html.part").symlink_to(target)
    with atomic_write(run / "report.html") as part:
        part.write_text("page")
    assert (target.read_text(), (run / "report.html").read_text()) == ("mine", "page")
    (run / "events.parquet.part").symlink_to(target)
    with pytest.raises(ScenarioError, match=r"events\.parquet\.part is a link"), locked(run):
        pass


def test_links_in_a_folder_of_weights_and_biases_are_left_to_it(tmp_path):
    logs = tmp_path / "wandb" / "offline-run-1" / "logs"
    logs.mkdir(parents=True)
    (logs / "debug-core.log").symlink_to(tmp_path / "core.log")
    (tmp_path / "wandb" / "latest-run").symlink_to("offline-run-1")
    with locked(tmp_path):
        (tmp_path / "models").symlink_to(logs)
    with pytest.raises(ScenarioError, match="models is a link"), locked(tmp_path):
        pass


def test_arrays_of_objects_are_rejected(tmp_path):
    path = tmp_path / "x.npz"
    np.savez(path, x=np.array([{}], object), label=[0])
    with pytest.raises(ScenarioError, match="array x holds Python objects, a pickle, which netfl never reads"):
        arrays.Arrays(file=path, labels=2, features=(1,)).read(path)


def test_downloads_use_https_and_checksums():
    weak_checksums = {"vehicle": "", "cinic10": "md5:6ee4d0c996905fe93221de577967a372"}
    for name, source in SOURCES.items():
        assert source.url.startswith("https://") or source.by_hand, name
        for file, expected in (source.files | source.alternative_files).items():
            assert len(expected) == 64 or (source.by_hand and weak_checksums.get(name) == expected), (name, file)
            assert not file.startswith("/")
            assert ".." not in file
