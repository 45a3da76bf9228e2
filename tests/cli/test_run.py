"""Whole runs with workers, recorded versions and diverging learners: tables, exit and resumption."""

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


def a_scenario(**overrides):
    settings = {
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
        **overrides,
    }
    return validate(ScenarioDocument(settings, "small"))


@pytest.fixture(scope="module")
def single(tmp_path_factory):
    return netfl.run(a_scenario(record={"versions": True}), tmp_path_factory.mktemp("alone") / "run", device="cpu")


def assert_same(first, second):
    for name in NETWORK:
        pd.testing.assert_frame_equal(first.table(name), second.table(name), check_exact=True)
    pd.testing.assert_frame_equal(first.metrics, second.metrics, rtol=1e-5, atol=1e-6)
    assert first.summary.keys() == second.summary.keys()


def assert_same_versions(first, second):
    for learner in ("A", "B"):
        for replica in range(3):
            versions, other_versions = first.versions(learner, replica), second.versions(learner, replica)
            assert [*versions] == [*other_versions] == list(range(13))
            for index in versions:
                for name, values in versions[index].items():
                    np.testing.assert_allclose(values, other_versions[index][name], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("workers", [2, 3])
@pytest.mark.slow
def test_tables_do_not_depend_on_the_number_of_workers(single, tmp_path, workers):
    run = netfl.run(a_scenario(record={"versions": True}), tmp_path / "run", device="cpu", workers=workers)
    assert_same(run, single)
    assert_same_versions(run, single)


@pytest.mark.slow
def test_run_resumes_with_another_number_of_workers(single, tmp_path):
    scenario, folder = a_scenario(record={"versions": True}), tmp_path / "run"
    assert netfl.run(scenario, folder, device="cpu", workers=2, observer=StopAfter(3)).status == "interrupted"
    with pytest.raises(ScenarioError, match=r"A-0\.safetensors does not exist"):
        netfl.open_run(folder).versions("A")
    assert netfl.resume(folder, device="cpu", observer=StopAfter(7)).status == "interrupted"
    assert_same(run := netfl.resume(folder, device="cpu", workers=3), single)
    assert_same_versions(run, single)


@pytest.mark.slow
def test_versions_of_stopped_run_are_the_same_file(single, tmp_path):
    scenario, folder = a_scenario(record={"versions": True}), tmp_path / "run"
    netfl.run(scenario, folder, device="cpu", observer=StopAfter(5))
    netfl.resume(folder, device="cpu", observer=StopAfter(2))
    run = netfl.resume(folder, device="cpu")
    files = sorted(path.name for path in (folder / "versions").iterdir())
    assert files == [f"{learner}-{replica}.safetensors" for learner in "AB" for replica in range(3)]
    for name in files:
        assert (folder / "versions" / name).read_bytes() == (single.folder / "versions" / name).read_bytes()
    last = load_file(folder / "versions/B-2.safetensors")
    t = run.metrics.query("learner == 'B' and replica == 2 and metric == 't' and round == 12")["value"].item()
    assert last["12/t"] == np.float32(t) != 0
    assert {key.partition("/")[2] for key in last} == {*run.versions("B", 2)[0]} > {"t"}
    assert "t" not in run.versions("A", 2)[0]


@pytest.mark.slow
def test_some_versions_equal_those_of_full_record(single, tmp_path):
    scenario, folder = a_scenario(record={"versions": 5}), tmp_path / "run"
    run = netfl.run(scenario, folder, device="cpu", workers=2)
    selected, whole = run.versions("B", 1), single.versions("B", 1)
    assert [*selected] == [0, 5, 10, 12]
    assert all(np.array_equal(selected[index][name], whole[index][name]) for index in selected for name in whole[index])


@pytest.mark.slow
def test_added_replicas_record_versions(single, tmp_path):
    netfl.run(a_scenario(record={"versions": True}, replicas=2), tmp_path / "run", device="cpu")
    assert_same_versions(netfl.extend(tmp_path / "run", 3, device="cpu"), single)


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"version": True}, "record.version: unknown key; did you mean 'versions'?"),
        ({"events": ["delivred"]}, "record.events.0: unknown value ('delivred'); did you mean 'delivered'? (known: "),
        ({"events": "al"}, "record.events: unknown value ('al'); did you mean 'all'? (known: "),
        (["delivred"], "record.0: unknown value ('delivred'); did you mean 'delivered'? (known: "),
    ],
)
def test_invalid_record_is_an_error(record, message):
    with pytest.raises(ScenarioError) as raised:
        a_scenario(record=record)
    assert message in str(raised.value)


def test_versions_without_learners_are_an_error():
    with pytest.raises(ScenarioError, match=r"record\.versions: there are no learners"):
        a_scenario(record={"versions": True}, data=None, partition=None, model=None, learners={}, evaluate=None)


def test_recorded_versions_survive_a_round_trip():
    scenario = a_scenario(record={"events": ["delivered"], "versions": True})
    assert "versions: true" in scenario.to_yaml()
    assert scenario.keeping.kinds == {"delivered"}
    assert a_scenario(record={}).keeping.kinds == a_scenario().keeping.kinds
    versions = [
        [*a_scenario(record=record, rounds=4).versions_kept]
        for record in ({}, {"versions": True}, {"versions": 3}, "all")
    ]
    assert versions == [[], [0, 1, 2, 3, 4], [0, 3], []]  # and the last round, whichever it is


@pytest.fixture
def wild():
    learners = {"calm": LEARNER, "wild": LEARNER | {"lr": 1e30, "local_steps": 6}}
    return a_scenario(learners=learners, evaluate={"every": 1})


def test_diverged_learner_is_named_in_all_outputs(wild, tmp_path):
    run = netfl.run(wild, tmp_path / "run", device="cpu")
    diverged = run.manifest["diverged"]
    assert {(entry["learner"], entry["replica"]) for entry in diverged} == {("wild", 0), ("wild", 1), ("wild", 2)}
    assert [entry["round"] for entry in diverged] == sorted(entry["round"] for entry in diverged)
    assert run.summary["wild.loss.last_tenth"] is None
    assert run.summary["wild.accuracy.last_tenth"] is None
    assert run.summary["calm.loss.last_tenth"] > 0
    for entry, message in zip(diverged, run.diverged, strict=True):
        rounds = run.metrics[(run.metrics["learner"] == "wild") & (run.metrics["replica"] == entry["replica"])]["round"]
        assert rounds.max() == entry["round"] - 1
        assert message.startswith(f"wild, replica {entry['replica']}")
        assert any(message in sentence for sentence in summary_text.run_status(RunData(run)))


def test_quiet_command_names_diverged_learners(wild, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("wild.yaml").write_text(wild.to_yaml())
    result = CliRunner().invoke(app, ["run", "wild.yaml", "--out", "run", "--device", "cpu", "--quiet"])
    assert result.exit_code == 0
    assert result.output.splitlines() == [f"diverged: {entry}" for entry in netfl.open_run("run").diverged]
    assert "diverged: wild, replica 2" in result.output


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.slow
def test_diverged_learners_are_known_after_a_stop(wild, tmp_path, workers):
    whole = netfl.run(wild, tmp_path / "whole", device="cpu").manifest["diverged"]
    stopped = netfl.run(wild, tmp_path / "run", device="cpu", observer=StopAfter(8), workers=workers)
    assert stopped.manifest["diverged"] == [entry for entry in whole if entry["round"] <= 8]
    assert netfl.resume(tmp_path / "run", device="cpu", workers=3 - workers).manifest["diverged"] == whole


@pytest.mark.slow
def test_diverged_added_replicas_come_last(wild, tmp_path):
    netfl.run(wild.model_copy(update={"replicas": 2}), tmp_path / "run", device="cpu")
    diverged = netfl.extend(tmp_path / "run", 3, device="cpu").manifest["diverged"]
    assert sorted(entry["replica"] for entry in diverged[:2]) == [0, 1]
    assert [entry["replica"] for entry in diverged[2:]] == [2]


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.slow
def test_run_fails_if_all_learners_diverge(tmp_path, workers):
    scenario = a_scenario(learners={"wild": LEARNER | {"lr": 1e30, "local_steps": 6}})
    with pytest.raises(ModelError, match="training diverged"):
        netfl.run(scenario, tmp_path / "run", device="cpu", workers=workers)
    assert netfl.open_run(tmp_path / "run").status == "failed"


def test_lack_of_memory_is_reported_before_the_run(tmp_path, monkeypatch):
    monkeypatch.setattr(
        "netfl.simulation.memory.check_before_loading", lambda *args, **kwargs: None
    )  # would reject the run first
    monkeypatch.setattr(memory, "available", lambda: 100)
    with pytest.raises(ScenarioError, match=r"learners: they need .* GB of memory"):
        netfl.run(a_scenario(), tmp_path / "run", device="cpu")
    assert not (tmp_path / "run").exists()


SCRIPT = """\
import signal
import netfl
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background process may ignore it
scenario = netfl.load("long.yaml")
netfl.run(scenario, "run", device="cpu", workers=2)
"""
LOUD = '''\
"""A user-defined aggregation that prints, beside a script without a guard."""
from netfl.learning.aggregation.average import Average


class Loud(Average):
    def step(self, state, current, updates):
        print("averaging")
        return super().step(state, current, updates)
'''


@pytest.fixture
def start_script(tmp_path):
    """Return a function that starts a script and waits until it trains; the script is killed after the test."""
    with ExitStack() as stack:
        yield lambda rounds: stack.enter_context(_started_script(tmp_path, rounds))


@contextmanager
def _started_script(folder, rounds):
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
    """Return the ids of the workers that a process has started, on Linux."""
    started = map(int, Path(f"/proc/{process}/task/{process}/children").read_text().split())
    return [pid for pid in started if b"netfl.learning" in Path(f"/proc/{pid}/cmdline").read_bytes()]


def have_ended(processes):
    until = time.monotonic() + 10
    while (is_alive := any(Path(f"/proc/{pid}").exists() for pid in processes)) and time.monotonic() < until:
        time.sleep(0.05)
    return not is_alive


linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks at processes in /proc")


@pytest.mark.slow
def test_script_without_guard_runs_workers_with_its_own_model(start_script, tmp_path):
    process = start_script(rounds=20)
    assert process.wait(60) == 0, tmp_path.joinpath("out").read_text()
    assert netfl.open_run(tmp_path / "run").status == "done"
    assert "averaging" in tmp_path.joinpath("out").read_text()


@linux
@pytest.mark.slow
def test_killed_worker_stops_the_run(start_script, tmp_path):
    process = start_script(rounds=200_000)
    workers = children(process.pid)
    assert len(workers) == 2
    os.kill(workers[0], signal.SIGKILL)
    assert process.wait(30) == 1
    assert "MachineError: worker 1 of 2 was killed by signal 9" in tmp_path.joinpath("out").read_text()
    assert json.loads(tmp_path.joinpath("run/manifest.json").read_text())["status"] == "failed"
    assert have_ended(workers)


@linux
@pytest.mark.parametrize("signal_number", [signal.SIGKILL, signal.SIGINT])
@pytest.mark.slow
def test_workers_end_with_their_run(start_script, signal_number):
    process = start_script(rounds=200_000)
    workers = children(process.pid)
    assert len(workers) == 2
    process.send_signal(signal_number)
    process.wait(30)
    assert have_ended(workers)


@linux
@pytest.mark.slow
def test_run_resumes_from_checkpoint_after_worker_died(single, tmp_path):
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
    assert_same(run, single)
    assert_same_versions(run, single)


@pytest.mark.slow
def test_scenario_of_300_000_values_is_read_back(tmp_path):
    """A scenario made in Python may be larger than the limit of YAML files."""
    users = 300_000
    document = ScenarioDocument({"name": "large", "users": users, "rounds": 2, "record": "none"})
    document.data["access"] = {
        "kind": "bernoulli",
        "probability": [0.5 - user * 1e-6 for user in range(users)],
        "deliveries": 3,
    }
    scenario = validate(document)
    run = netfl.trace(scenario, tmp_path / "run")
    assert run.scenario["access"]["probability"] == document.data["access"]["probability"]
    assert netfl.load(tmp_path / "run" / "scenario.yaml") == scenario
