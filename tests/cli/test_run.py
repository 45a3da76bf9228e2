"""Whole runs with workers, with versions, with learners that diverge: their tables, and how they end and go on."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import load_file
from support.stop_run import StopAfter
from typer.testing import CliRunner

import netfl
from netfl.cli import app
from netfl.errors import MachineError, ModelError, ScenarioError
from netfl.report import summary_text
from netfl.report.run_data import RunData
from netfl.scenario.scenario import validate
from netfl.scenario.yaml_document import ScenarioDocument
from netfl.simulation import memory
from netfl.types import RunObserver

NETWORK = ("rounds", "deliveries", "events", "users")
LEARNER = {"objective": "erm", "aggregation": "average", "lr": 0.1, "batch_size": 4, "local_steps": 2}


def a_scenario(**more):
    said = {
        "name": "small",
        "users": 4,
        "rounds": 12,
        "replicas": 3,
        "access": {"kind": "bernoulli", "probability": 0.5},
        "data": {"kind": "blobs", "centers": [[0, 0], [3, 3]], "samples": 40},
        "partition": "iid",
        "model": {"kind": "mlp", "hidden": [3]},
        "learners": {
            "A": LEARNER,
            "B": LEARNER | {"objective": {"kind": "cvar", "alpha": 0.4, "gamma": 0.5, "lr_t": 0.1}},
        },
        "evaluate": {"every": 4},
        **more,
    }
    return validate(ScenarioDocument(said, "small"))


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    return netfl.run(a_scenario(record={"versions": True}), tmp_path_factory.mktemp("alone") / "run", device="cpu")


def assert_same(one, other):
    for name in NETWORK:
        pd.testing.assert_frame_equal(one.table(name), other.table(name), check_exact=True)
    pd.testing.assert_frame_equal(one.metrics, other.metrics, rtol=1e-5, atol=1e-6)
    assert one.summary.keys() == other.summary.keys()


def assert_same_versions(one, other):
    for learner in ("A", "B"):
        for replica in range(3):
            ours, theirs = one.versions(learner, replica), other.versions(learner, replica)
            assert [*ours] == [*theirs] == list(range(13))
            for index in ours:
                for name, values in ours[index].items():
                    np.testing.assert_allclose(values, theirs[index][name], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("workers", [2, 3])
@pytest.mark.slow
def test_tables_do_not_depend_on_the_number_of_workers(alone, tmp_path, workers):
    run = netfl.run(a_scenario(record={"versions": True}), tmp_path / "run", device="cpu", workers=workers)
    assert_same(run, alone)
    assert_same_versions(run, alone)


@pytest.mark.slow
def test_a_run_goes_on_with_another_number_of_workers(alone, tmp_path):
    scenario, folder = a_scenario(record={"versions": True}), tmp_path / "run"
    assert netfl.run(scenario, folder, device="cpu", workers=2, observer=StopAfter(3)).status == "interrupted"
    with pytest.raises(ScenarioError, match=r"A-0\.safetensors does not exist"):
        netfl.open_run(folder).versions("A")
    assert netfl.resume(folder, device="cpu", observer=StopAfter(7)).status == "interrupted"
    assert_same(run := netfl.resume(folder, device="cpu", workers=3), alone)
    assert_same_versions(run, alone)


@pytest.mark.slow
def test_versions_are_the_same_file_whether_a_run_was_stopped_or_not(alone, tmp_path):
    scenario, folder = a_scenario(record={"versions": True}), tmp_path / "run"
    netfl.run(scenario, folder, device="cpu", observer=StopAfter(5))
    netfl.resume(folder, device="cpu", observer=StopAfter(2))
    run = netfl.resume(folder, device="cpu")
    files = sorted(path.name for path in (folder / "versions").iterdir())
    assert files == [f"{learner}-{replica}.safetensors" for learner in "AB" for replica in range(3)]
    for name in files:
        assert (folder / "versions" / name).read_bytes() == (alone.folder / "versions" / name).read_bytes()
    last = load_file(folder / "versions/B-2.safetensors")
    t = run.metrics.query("learner == 'B' and replica == 2 and metric == 't' and round == 12")["value"].item()
    assert last["12/t"] == np.float32(t) != 0
    assert {key.partition("/")[2] for key in last} == {*run.versions("B", 2)[0]} > {"t"}
    assert "t" not in run.versions("A", 2)[0]


@pytest.mark.slow
def test_versions_of_some_rounds_are_those_of_all(alone, tmp_path):
    scenario, folder = a_scenario(record={"versions": 5}), tmp_path / "run"
    run = netfl.run(scenario, folder, device="cpu", workers=2)
    some, every = run.versions("B", 1), alone.versions("B", 1)
    assert [*some] == [0, 5, 10, 12]
    assert all(np.array_equal(some[index][name], every[index][name]) for index in some for name in every[index])


@pytest.mark.slow
def test_replicas_that_are_added_bring_their_versions(alone, tmp_path):
    netfl.run(a_scenario(record={"versions": True}, replicas=2), tmp_path / "run", device="cpu")
    assert_same_versions(netfl.extend(tmp_path / "run", 3, device="cpu"), alone)


@pytest.mark.parametrize(
    ("record", "fault"),
    [
        ({"version": True}, "record.version: unknown key; did you mean 'versions'?"),
        ({"events": ["delivred"]}, "record.events.0: unknown value ('delivred'); did you mean 'delivered'?"),
        ({"events": "al"}, "record.events: unknown value ('al'); did you mean 'all'?"),
        (["delivred"], "record.0: unknown value ('delivred'); did you mean 'delivered'?"),
    ],
)
def test_what_cannot_be_recorded_is_a_fault(record, fault):
    with pytest.raises(ScenarioError) as wrong:
        a_scenario(record=record)
    assert str(wrong.value).endswith(fault)


def test_versions_of_nothing_are_a_fault():
    with pytest.raises(ScenarioError, match=r"record\.versions: there are no learners"):
        a_scenario(record={"versions": True}, data=None, partition=None, model=None, learners={}, evaluate=None)


def test_a_scenario_that_records_versions_is_written_as_it_was():
    scenario = a_scenario(record={"events": ["delivered"], "versions": True})
    assert "versions: true" in scenario.to_yaml()
    assert scenario.keeping.kinds == {"delivered"}
    assert a_scenario(record={}).keeping.kinds == a_scenario().keeping.kinds
    kept = [
        [*a_scenario(record=said, rounds=4).versions_kept] for said in ({}, {"versions": True}, {"versions": 3}, "all")
    ]
    assert kept == [[], [0, 1, 2, 3, 4], [0, 3, 4], []]


@pytest.fixture
def wild():
    learners = {"calm": LEARNER, "wild": LEARNER | {"lr": 1e30, "local_steps": 6}}
    return a_scenario(learners=learners, evaluate={"every": 1})


def test_a_learner_that_diverges_is_named_wherever_a_run_is_looked_at(wild, tmp_path):
    run = netfl.run(wild, tmp_path / "run", device="cpu")
    lost = run.manifest["diverged"]
    assert {(one["learner"], one["replica"]) for one in lost} == {("wild", 0), ("wild", 1), ("wild", 2)}
    assert [one["round"] for one in lost] == sorted(one["round"] for one in lost)
    assert run.summary["wild.loss.last_tenth"] is None
    assert run.summary["wild.accuracy.last_tenth"] is None
    assert run.summary["calm.loss.last_tenth"] > 0
    for one, told in zip(lost, run.diverged, strict=True):
        rounds = run.metrics[(run.metrics["learner"] == "wild") & (run.metrics["replica"] == one["replica"])]["round"]
        assert rounds.max() == one["round"] - 1
        assert told.startswith(f"wild, replica {one['replica']}")
        assert any(told in sentence for sentence in summary_text.run_status(RunData(run)))


def test_the_command_names_who_diverged_and_ends_well_however_quiet_it_is(wild, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("wild.yaml").write_text(wild.to_yaml())
    told = CliRunner().invoke(app, ["run", "wild.yaml", "--out", "run", "--device", "cpu", "--quiet"])
    assert told.exit_code == 0
    assert told.output.splitlines() == [f"diverged: {one}" for one in netfl.open_run("run").diverged]
    assert "diverged: wild, replica 2" in told.output


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.slow
def test_who_diverged_is_known_after_a_stop_too(wild, tmp_path, workers):
    whole = netfl.run(wild, tmp_path / "whole", device="cpu").manifest["diverged"]
    stopped = netfl.run(wild, tmp_path / "run", device="cpu", observer=StopAfter(8), workers=workers)
    assert stopped.manifest["diverged"] == [one for one in whole if one["round"] <= 8]
    assert netfl.resume(tmp_path / "run", device="cpu", workers=3 - workers).manifest["diverged"] == whole


@pytest.mark.slow
def test_added_replicas_that_diverge_stand_behind_the_others(wild, tmp_path):
    netfl.run(wild.model_copy(update={"replicas": 2}), tmp_path / "run", device="cpu")
    lost = netfl.extend(tmp_path / "run", 3, device="cpu").manifest["diverged"]
    assert sorted(one["replica"] for one in lost[:2]) == [0, 1]
    assert [one["replica"] for one in lost[2:]] == [2]


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.slow
def test_where_all_diverge_the_run_fails(tmp_path, workers):
    scenario = a_scenario(learners={"wild": LEARNER | {"lr": 1e30, "local_steps": 6}})
    with pytest.raises(ModelError, match="training diverged"):
        netfl.run(scenario, tmp_path / "run", device="cpu", workers=workers)
    assert netfl.open_run(tmp_path / "run").status == "failed"


def test_what_does_not_fit_into_memory_is_refused_before_anything_is_written(tmp_path, monkeypatch):
    monkeypatch.setattr(
        "netfl.simulation.memory.check_before_loading", lambda *told, **more: None
    )  # refuses users that do not fit
    monkeypatch.setattr(memory, "available", lambda: 100)
    with pytest.raises(ScenarioError, match=r"learners: they need .* GB of memory"):
        netfl.run(a_scenario(), tmp_path / "run", device="cpu")
    assert not (tmp_path / "run").exists()


SCRIPT = """\
import signal
import netfl
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have begun all this in the background
scenario = netfl.load("long.yaml")
netfl.run(scenario, "run", device="cpu", workers=2)
"""
LOUD = '''\
"""An aggregation of the user's own, which prints, beside a script without a guard."""
from netfl.learning.aggregation.average import Average


class Loud(Average):
    def step(self, state, current, updates):
        print("averaging")
        return super().step(state, current, updates)
'''


@pytest.fixture
def begun(tmp_path):
    """Begins a script in a folder of its own, which has begun to learn then, and is ended with the test."""
    with ExitStack() as stack:
        yield lambda rounds: stack.enter_context(_begun(tmp_path, rounds))


@contextmanager
def _begun(folder, rounds):
    loud = LEARNER | {"aggregation": "loud:Loud"}
    folder.joinpath("loud.py").write_text(LOUD)
    folder.joinpath("script.py").write_text(SCRIPT)
    sys.path.insert(0, str(folder))
    try:
        scenario = a_scenario(rounds=rounds, learners={"A": loud}, evaluate={"every": 1000})
    finally:
        sys.path.remove(str(folder))
    folder.joinpath("long.yaml").write_text(scenario.to_yaml())
    with folder.joinpath("out").open("wb") as out:
        process = subprocess.Popen([sys.executable, "script.py"], cwd=folder, stdout=out, stderr=out)
    until = time.monotonic() + 60
    while not folder.joinpath("run/manifest.json").exists() and time.monotonic() < until and process.poll() is None:
        time.sleep(0.05)
    time.sleep(0.3)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def children(process):
    """The workers that the process of this number has started, on Linux; a test may have had other children before."""
    started = map(int, Path(f"/proc/{process}/task/{process}/children").read_text().split())
    return [one for one in started if b"netfl.learning" in Path(f"/proc/{one}/cmdline").read_bytes()]


def gone(processes):
    until = time.monotonic() + 10
    while (left := any(Path(f"/proc/{one}").exists() for one in processes)) and time.monotonic() < until:
        time.sleep(0.05)
    return not left


linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks at processes in /proc")


@pytest.mark.slow
def test_a_script_without_a_guard_runs_workers_with_a_model_that_is_beside_it_and_prints(begun, tmp_path):
    process = begun(rounds=20)
    assert process.wait(60) == 0, tmp_path.joinpath("out").read_text()
    assert netfl.open_run(tmp_path / "run").status == "done"
    assert "averaging" in tmp_path.joinpath("out").read_text()


@linux
@pytest.mark.slow
def test_a_killed_worker_stops_the_run_and_what_it_kept_goes_on_elsewhere(begun, tmp_path):
    process = begun(rounds=200_000)
    workers = children(process.pid)
    assert len(workers) == 2
    os.kill(workers[0], signal.SIGKILL)
    assert process.wait(30) == 1
    assert "MachineError: worker 1 of 2 was killed by signal 9" in tmp_path.joinpath("out").read_text()
    assert json.loads(tmp_path.joinpath("run/manifest.json").read_text())["status"] == "failed"
    assert gone(workers)


@linux
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
@pytest.mark.slow
def test_workers_do_not_outlive_their_run(begun, number):
    process = begun(rounds=200_000)
    workers = children(process.pid)
    assert len(workers) == 2
    process.send_signal(number)
    process.wait(30)
    assert gone(workers)


@linux
@pytest.mark.slow
def test_a_worker_that_dies_leaves_a_checkpoint_to_go_on_from(alone, tmp_path):
    scenario, folder = a_scenario(record={"versions": True}), tmp_path / "run"
    netfl.run(scenario, folder, device="cpu", workers=2, observer=StopAfter(4))

    class Killing(RunObserver):
        def on_round(self, progress):
            if progress.round == 8:
                os.kill(children(os.getpid())[0], signal.SIGKILL)

    with pytest.raises(MachineError, match="worker 1 of 2"):
        netfl.resume(folder, device="cpu", workers=2, observer=Killing())
    assert (folder / "checkpoint.pt").exists()
    run = netfl.resume(folder, device="cpu")
    assert_same(run, alone)
    assert_same_versions(run, alone)


@pytest.mark.slow
def test_a_scenario_of_300_000_values_is_read_back(tmp_path):
    """More than a scenario of YAML may hold, which a run may have that is made in Python."""
    users = 300_000
    document = ScenarioDocument({"name": "large", "users": users, "rounds": 2, "record": "none"})
    document.data["access"] = {
        "kind": "bernoulli",
        "probability": [0.5 - user * 1e-6 for user in range(users)],
        "deliveries": 3,
    }
    scenario = validate(document)
    done = netfl.trace(scenario, tmp_path / "run")
    assert done.scenario["access"]["probability"] == document.data["access"]["probability"]
    assert netfl.load(tmp_path / "run" / "scenario.yaml") == scenario
