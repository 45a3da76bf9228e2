"""Warnings about a scenario: in the manifest, as `Run.warnings`, and once each as `netfl.NetflWarning`."""

import json
import warnings

import pytest
from support.small_network import SECTION
from support.stop_run import StopAfter
from typer.testing import CliRunner

import netfl
from netfl.access.network import NetworkAccess
from netfl.cli import app
from netfl.sweeps import LocalEngine


def scenario(power="70 dBm", **parts):
    """Return a scenario of a small network; its default *power* is valid, and probably not intended."""
    radio = {"power": power, "bandwidth": "1 MHz"}
    access = SECTION | {"radio": radio}
    if not parts:
        access |= {"compute": {"speed": 100, "samples": 1}, "update_size": "50 B"}
    return {"name": "unusual", "users": 4, "rounds": 3, "access": access, **parts}


LEARNING = {
    "data": {"kind": "blobs", "centers": [[0, 0], [1, 1]], "samples": 60, "std": 0.5},
    "partition": "iid",
    "model": "logistic",
    "learners": {"A": {"objective": "erm", "aggregation": "average", "lr": 0.1, "batch_size": 8, "local_steps": 1}},
    "tuning": {"by": "accuracy"},
    "evaluate": {"validation": 0.2},
}


@pytest.mark.parametrize("progress", [True, False])
def test_each_warning_is_given_once(tmp_path, progress):
    with pytest.warns(netfl.NetflWarning) as given:
        run = netfl.trace(scenario(), tmp_path / "run", progress=progress)
    texts = [str(warning.message) for warning in given]
    assert texts == run.warnings == json.loads((tmp_path / "run/manifest.json").read_text())["warnings"]
    (text,) = texts
    assert text.startswith("access.radio.power: ")
    assert given[0].filename == __file__


def test_a_tuned_run_gives_its_warnings_once(tmp_path):
    with pytest.warns(netfl.NetflWarning) as given:
        run = netfl.run(scenario(**LEARNING), tmp_path / "run", device="cpu", progress=False)
    assert [str(warning.message) for warning in given] == run.warnings
    assert len(run.warnings) == 1


def test_the_command_prints_each_warning_once(tmp_path):
    path = tmp_path / "unusual.yaml"
    path.write_text(json.dumps(scenario()), "utf-8")
    with warnings.catch_warnings():
        warnings.simplefilter("error", netfl.NetflWarning)
        result = CliRunner().invoke(app, ["trace", str(path), "--out", str(tmp_path / "run")])
        assert result.exit_code == 0, result.output
        quiet = CliRunner().invoke(app, ["trace", str(path), "--out", str(tmp_path / "again"), "--quiet"])
    assert result.output.count("access.radio.power: ") == 1
    assert "access.radio.power" not in quiet.output


@pytest.mark.parametrize("command", ["trace", "run"])
def test_a_run_determines_its_warnings_once(tmp_path, monkeypatch, command):
    """In a network of a million users it takes half a minute."""
    path = tmp_path / "unusual.yaml"
    path.write_text(json.dumps(scenario(**LEARNING) if command == "run" else scenario()), "utf-8")
    calls = []
    monkeypatch.setattr(NetworkAccess, "warnings", lambda *_: calls.append(1) or iter(()))
    result = CliRunner().invoke(app, [command, str(path), "--out", str(tmp_path / "run")])
    assert result.exit_code == 0, result.output
    assert len(calls) == 1


def test_a_continued_run_keeps_its_warnings(tmp_path):
    with pytest.warns(netfl.NetflWarning):
        stopped = netfl.trace(scenario(), tmp_path / "run", observer=StopAfter(1))
    assert stopped.status == "interrupted"
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # they have been given
        done = netfl.resume(tmp_path / "run")
        extended = netfl.extend(tmp_path / "run", 2)
    assert done.warnings == extended.warnings == stopped.warnings
    assert len(done.warnings) == 1


def test_a_sweep_gives_the_warnings_of_its_points_once(tmp_path):
    swept = scenario() | {"sweep": {"access.radio.power": ["14 dBm", "69 dBm", "70 dBm"], "seed": [1, 2]}}
    with pytest.warns(netfl.NetflWarning) as given:
        netfl.sweep(swept, tmp_path / "sweep", engine=LocalEngine(workers=1), learning=False, progress=False)
    texts = sorted(str(warning.message) for warning in given)
    assert len(texts) == 2
    assert "69 dBm" in texts[0]
    assert "70 dBm" in texts[1]


def test_a_run_without_doubt_gives_none(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert netfl.trace(scenario("14 dBm"), tmp_path / "run").warnings == []
