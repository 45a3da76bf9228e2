"""Commands on odd but valid inputs: Python's warnings, which are errors in these tests, never reach the user."""

import json

import numpy as np
import pytest
from support.restarted_runs import a_scenario
from typer.testing import CliRunner

import netfl
from netfl.cli import app

ODD_CHANGES = (
    "access.radio.power=-1e300", "access.radio.power=1e300", "access.radio.bandwidth=1e-300",
    "access.radio.bandwidth=1e300", "access.compute.speed=1e-300", "access.compute.speed=1e300",
    "access.topology.radius=1e-300", "access.topology.radius=1e300", "access.reception.rate=1e300",
    "access.reception.rate=1e-300", "access.reception.threshold=-1e300", "access.reception.threshold=1e300",
    "access.round.deadline=1e-300", "access.round.deadline=1e300", "access.mac.probability=1e-300",
    "access.mac.probability=5e-324", "access.update_size=1e300", "access.update_size=1e-300",
    "access.broadcast_rate=1e300", "access.broadcast_rate=1e-300", "seed=99999999999999999999999999",
    "access.topology.delay=1e300", "access.topology.rate=1e-300", "learners.A.lr=1e300", "learners.A.lr=1e-300",
)  # fmt: skip
"""Numbers at the ends of their types, for each kind of quantity."""


def call(*words):
    return CliRunner().invoke(app, [*map(str, words)])


def assert_no_warning(result, case):
    """Check that a command ended with a result or with located errors; a warning of Python would be an exception."""
    assert result.exception is None or isinstance(result.exception, SystemExit), (case, repr(result.exception))
    assert "Warning" not in result.output.replace("NetflWarning", ""), (case, result.output)


@pytest.fixture(scope="module")
def scenario(tmp_path_factory):
    path = tmp_path_factory.mktemp("odd") / "s.yaml"
    path.write_text(a_scenario(rounds=2).to_yaml())
    return path


@pytest.mark.parametrize("change", ODD_CHANGES)
@pytest.mark.quick_first
def test_check_of_odd_numbers_gives_no_warning_of_python(scenario, change):
    assert_no_warning(call("check", scenario, "--set", change), change)


@pytest.fixture(scope="module")
def constant_run(tmp_path_factory):
    """A run in which nothing varies: one user, one class of two, one evaluation."""
    only = a_scenario(users=1, rounds=2, evaluate={"every": 2}, replicas=2)
    return netfl.run(only, tmp_path_factory.mktemp("constant") / "run", device="cpu")


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    ["ram DIR", "ram DIR --explain", "ram DIR --json", "report DIR", "report DIR DIR --out DIR/x.html", "verify DIR",
     "export DIR --csv", "export DIR --perfetto", "export DIR --positions"],
)  # fmt: skip
def test_commands_on_a_run_without_variance_give_no_warning_of_python(constant_run, words):
    arguments = words.replace("DIR", str(constant_run.folder)).split()
    assert_no_warning(call(*arguments), words)


@pytest.mark.parametrize("values", [[1.0] * 5, [np.inf] * 5, [1e308, -1e308, 1e308], [np.nan, 1.0]])
def test_intervals_of_odd_values_give_no_warning_of_python(values):
    from netfl.results.statistics import interval

    interval(values)


BLOBS = "{kind: blobs, centers: [[0, 0], [3, VALUE]], std: STD}"


@pytest.mark.parametrize(
    ("data", "key"),
    [
        (BLOBS.replace("VALUE", "-1e300").replace("STD", "0.1"), "data.centers.1.1"),
        (BLOBS.replace("VALUE", "3").replace("STD", "1e300"), "data.std"),
        ("{kind: table, file: big.csv, features: [a], label: l, labels: 2}", "data.file"),
        ("{kind: arrays, file: big.npz, features: [1], labels: 2}", "data.file"),
        ("{kind: leaf, folder: big, features: [1], labels: 2}", "data"),
    ],
    ids=["center", "std", "table", "arrays", "leaf"],
)
def test_features_beyond_32_bits_are_located_errors(scenario, tmp_path, monkeypatch, data, key):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "big.csv").write_text("a,l\n1e300,0\n" + "1,1\n2,0\n" * 20)
    np.savez(tmp_path / "big.npz", x=np.array([[1e300], [1.0]] * 20), label=np.arange(40) % 2)
    for part in ("train", "test"):
        (tmp_path / "big" / part).mkdir(parents=True)
        user_data = {f"u{user}": {"x": [[1e300], [1.0]], "y": [0, 1]} for user in range(3)}
        (tmp_path / "big" / part / "all.json").write_text(json.dumps({"users": [*user_data], "user_data": user_data}))
    result = call("check", scenario, "--set", f"data={data}", "--set", "partition=iid")
    assert_no_warning(result, data)
    assert result.exit_code == 2
    assert key in result.output
