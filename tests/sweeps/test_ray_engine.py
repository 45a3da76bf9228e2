"""Sweeps and runs on a Ray cluster of three nodes equal those of one process, also if nodes or tasks fail."""

import sys
import sysconfig
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest
from support import slow_access
from support.inline_sweep_engine import Here
from typer.testing import CliRunner

import netfl
from netfl.cli import app
from netfl.errors import MachineError
from netfl.scenario.scenario import validate
from netfl.scenario.yaml_document import ScenarioDocument
from netfl.simulation.learners import build_learner
from netfl.simulation.setup import prepare_run
from netfl.simulation.workers import ray_cluster as cluster_module
from netfl.simulation.workers.ray_cluster import Cluster
from netfl.sweeps import SweepObserver
from netfl.sweeps.ray_engine import RayEngine
from netfl.types import RunObserver

ray = pytest.importorskip("ray", reason="netfl-sim[ray] is not installed")
pytestmark = [
    pytest.mark.extra,
    pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning"),  # of Ray's own processes
    pytest.mark.filterwarnings("ignore:Exception ignored in. <_io:pytest.PytestUnraisableExceptionWarning"),
]
TABLES = ("metrics", "final_metrics", "rounds", "deliveries", "events", "users")
NODE = {"num_cpus": 1, "object_store_memory": 100 * 2**20}
LEARNER = {"objective": "erm", "aggregation": "average", "lr": 0.1, "batch_size": 4, "local_steps": 2}
LEARNING = {
    "data": {"kind": "blobs", "centers": [[0, 0], [3, 3]], "samples": 40},
    "partition": "iid",
    "model": "logistic",
    "learners": {"A": LEARNER, "B": LEARNER | {"lr": 0.3}, "C": LEARNER | {"lr": 0.5}},
    "evaluate": {"every": 4},
}


def make_scenario(pause=0.0, rounds=12, **changes):
    slow = {"kind": "support.slow_access:Slow", "pause": pause}
    return validate(
        ScenarioDocument({"name": "small", "users": 4, "rounds": rounds, "access": slow, **changes}, "small")
    )


class RecordingObserver(SweepObserver):
    """Record updates of tasks, and call *action* once when *running* tasks are in progress."""

    def __init__(self, action=None, running=1):
        self.stop, self.updates, self._action, self._running = False, [], action, running
        self._rounds = {}

    def on_update(self, update):
        self.updates.append(update)
        self._rounds |= {update.task: None if update.ended else update.round}
        if self._action and sum(bool(progress) for progress in self._rounds.values()) >= self._running:
            action, self._action = self._action, None
            action(self)

    @property
    def progress(self):
        """Return the rounds reported for each task."""
        found = {}
        for update in self.updates:
            if not update.ended:
                found.setdefault(update.task, []).append(update.round)
        return found

    @property
    def ended(self):
        return sorted(update.task for update in self.updates if update.ended and not update.stopped)


class ActingObserver(RunObserver):
    """Call *action* once, after *rounds* rounds."""

    def __init__(self, action, rounds):
        self._action, self._rounds = action, rounds

    def on_round(self, progress):
        if progress.round == self._rounds:
            self._action()


class LocalCluster:
    """A Ray cluster on this machine, and the connection to it."""

    def __init__(self):
        self.nodes = import_module("ray.cluster_utils").Cluster(
            initialize_head=True, head_node_args=NODE | {"include_dashboard": False}
        )
        self.added_nodes = []
        self.cluster = Cluster(self.nodes.address)

    def kill_node(self):
        """Kill a node without notice."""
        self.nodes.remove_node(self.added_nodes.pop(), allow_graceful=False)

    def with_nodes(self, nodes):
        """Add nodes until the cluster has *nodes* of them."""
        while 1 + len(self.added_nodes) < nodes:
            self.added_nodes.append(self.nodes.add_node(wait=False, **NODE))
        self.nodes.wait_for_nodes()
        return self


@pytest.fixture(scope="module")
def local_cluster():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        for name, value in {"period": 500, "timeout": 3000, "initial_delay": 500}.items():
            patch.setenv(f"RAY_health_check_{name}_ms", str(value))
        patch.setenv("RAY_health_check_failure_threshold", "3")
        started = LocalCluster().with_nodes(3)
        with started.cluster.connected():
            yield started
        started.nodes.shutdown()


@pytest.fixture
def inline_engine(monkeypatch):
    monkeypatch.setattr(slow_access, "sleep", lambda _: None)
    return Here()


def assert_equal(first, second):
    for name in TABLES:
        assert first.table(name).equals(second.table(name)), name


def assert_same(first, second):
    """Compare tables of two runs with different batches of lanes."""
    for name in ("rounds", "deliveries", "events", "users"):
        pd.testing.assert_frame_equal(first.table(name), second.table(name), check_exact=True)
    pd.testing.assert_frame_equal(first.metrics, second.metrics, rtol=1e-5, atol=1e-6)


def test_a_sweep_of_traces_equals_one_process(local_cluster, inline_engine, tmp_path):
    scenario = make_scenario(replicas=2, sweep={"users": [3, 4], "access.offset": [0, 1, 2]})
    expected = netfl.sweep(scenario, tmp_path / "here", engine=inline_engine, learning=False)
    observer = RecordingObserver()
    distributed = netfl.sweep(
        scenario, tmp_path / "there", engine=RayEngine(local_cluster.cluster), learning=False, observer=observer
    )
    assert distributed.status == "done"
    assert len(distributed.rounds) == 6 * 2 * 12
    assert observer.ended == sorted(distributed.tasks["task"])
    assert_equal(expected, distributed)


def test_a_search_runs_on_the_cluster(local_cluster, tmp_path):
    pytest.importorskip("optuna", reason="netfl-sim[optuna] is not installed")
    space = {"learners.A.lr": {"log_uniform": [1e-3, 1]}}
    options = {"learner": "A", "sampler": "random", "pruner": "median"}
    metric = {"metric": "loss", "direction": "minimize"}
    search = {"engine": "optuna", "trials": 6, "parameters": space, **metric, **options}
    scenario = make_scenario(replicas=2, sweep=search, **LEARNING)
    observer = RecordingObserver()
    found = netfl.sweep(scenario, tmp_path / "there", engine=RayEngine(local_cluster.cluster), observer=observer)
    assert (found.status, len(found.trials)) == ("done", 6)
    rows = found.summary.query("learner == 'A' and metric == 'loss.last_tenth'").set_index("point")["mean"]
    done = found.trials[found.trials["status"] == "done"].set_index("trial")["value"]
    assert len(done) >= 5
    assert done.tolist() == pytest.approx(rows[done.index].tolist())
    assert {update.round for update in observer.updates if update.values} == {4, 8, 12}


def test_failed_tasks_are_listed_and_repeated(local_cluster, inline_engine, tmp_path):
    scenario = make_scenario(replicas=2, sweep={"users": [3, 4], "access.until": [None, 5]})
    sweep = netfl.sweep(scenario, tmp_path / "s", engine=RayEngine(local_cluster.cluster), learning=False)
    tasks = sweep.tasks
    failed = tasks["status"] == "failed"
    assert (sweep.status, [*failed]) == ("partial", [False, True] * 2)
    assert all("the toy is broken" in error for error in tasks["error"][failed])
    assert not any(tasks["error"][~failed])
    observer = RecordingObserver()
    netfl.sweep(scenario, tmp_path / "s", engine=RayEngine(local_cluster.cluster), learning=False, observer=observer)
    assert observer.ended == sorted(tasks["task"][failed])


def test_an_object_larger_than_the_store_is_returned(local_cluster):
    """Ray spills objects to disk if its store is full."""
    large = ray.remote(lambda: bytes(150 * 2**20)).remote()
    assert len(ray.get(large, timeout=30)) == 150 * 2**20


def test_missing_data_fail_only_their_tasks(local_cluster, inline_engine, tmp_path):
    files = [str(tmp_path / name) for name in ("there.csv", "nowhere.csv")]
    (tmp_path / "there.csv").write_text("label,a\n" + "".join(f"{row % 2},{row}\n" for row in range(40)))
    settings = LEARNING | {"data": {"kind": "table", "features": 1, "labels": 2, "file": files[0]}}
    Path(files[1]).write_text("label,a\n0,1\n")
    observer = RecordingObserver()
    observer.on_plan = lambda *_: Path(files[1]).unlink()
    scenario = make_scenario(**settings, sweep={"data.file": files})
    sweep = netfl.sweep(scenario, tmp_path / "s", engine=RayEngine(local_cluster.cluster), observer=observer)
    assert [*sweep.tasks["status"]] == ["done", "failed"]
    assert "data.file: the file does not exist" in sweep.tasks["error"][1]


def test_a_stopped_sweep_ends_its_tasks_after_a_round_and_continues(local_cluster, inline_engine, tmp_path):
    def ask_to_stop(observer):
        observer.stop = True

    scenario = make_scenario(0.15, 20, **LEARNING, sweep={"access.offset": [*range(5)]})
    observer = RecordingObserver(ask_to_stop, running=2)
    stopped = netfl.sweep(
        scenario, tmp_path / "s", engine=RayEngine(local_cluster.with_nodes(3).cluster), observer=observer
    )
    status = stopped.tasks.set_index("task")["status"]
    interrupted = {*status[status == "interrupted"].index}
    assert len(interrupted) in {2, 3}  # one for each core
    assert "missing" in {*status} <= {"missing", "interrupted", "done"}  # waiting tasks have not started
    resumed = netfl.sweep(scenario, tmp_path / "s", engine=RayEngine(local_cluster.cluster))
    kept = {task for task in status.index if resumed.run(task).manifest["timings"]["rounds_kept"]}
    with_rounds = {task for task, rounds in observer.progress.items() if any(rounds)}
    assert with_rounds & interrupted <= kept <= interrupted  # the third may have been stopped before its first round
    assert kept
    assert_equal(netfl.sweep(scenario, tmp_path / "here", engine=inline_engine), resumed)


def test_a_distributed_run_equals_one_process(local_cluster, inline_engine, tmp_path):
    scenario = make_scenario(replicas=2, **LEARNING)
    expected = netfl.run(scenario, tmp_path / "here", device="cpu")
    distributed = netfl.run(
        scenario, tmp_path / "there", workers=replace(local_cluster.with_nodes(3).cluster, workers=3)
    )
    assert_same(expected, distributed)


def test_a_sweep_survives_the_loss_of_a_node(local_cluster, inline_engine, tmp_path):
    scenario = make_scenario(0.2, replicas=2, sweep={"access.offset": [*range(5)]})
    expected = netfl.sweep(scenario, tmp_path / "here", engine=inline_engine, learning=False)
    observer = RecordingObserver(lambda _: local_cluster.kill_node(), running=3)
    distributed = netfl.sweep(
        scenario,
        tmp_path / "there",
        engine=RayEngine(local_cluster.with_nodes(3).cluster),
        learning=False,
        observer=observer,
    )
    assert observer.ended == sorted(distributed.tasks["task"])  # each ends once
    assert any(rounds != sorted(rounds) for rounds in observer.progress.values())  # and one task ran twice
    assert_equal(expected, distributed)


def test_a_run_continues_after_the_loss_of_a_node(local_cluster, inline_engine, tmp_path):
    scenario = make_scenario(0.1, rounds=40, **LEARNING)
    nodes = len(local_cluster.with_nodes(2).added_nodes) + 1
    with pytest.raises(MachineError, match=r"worker \d of \d has ended .*; continue from the last checkpoint"):
        netfl.run(
            scenario,
            tmp_path / "s",
            workers=replace(local_cluster.cluster, workers=nodes),
            observer=ActingObserver(local_cluster.kill_node, 12),
        )
    assert netfl.open_run(tmp_path / "s").status == "failed"
    resumed = netfl.resume(tmp_path / "s", device="cpu")
    assert_same(netfl.run(make_scenario(rounds=40, **LEARNING), tmp_path / "whole", device="cpu"), resumed)


def test_too_many_workers_are_an_error(local_cluster, inline_engine, tmp_path):
    with pytest.raises(MachineError, match=r"9 workers .* Ray cluster has room for \d; write workers=\d"):
        netfl.run(
            make_scenario(replicas=9, **LEARNING), tmp_path / "s", workers=replace(local_cluster.cluster, workers=9)
        )
    with pytest.raises(MachineError, match=r"no node of the Ray cluster has a core and 0\.5 of a GPU"):
        RayEngine(replace(local_cluster.cluster, gpus=0.5)).run([], tmp_path, None, None)


SWEEP = """\
name: small
users: 4
rounds: 3
access: {kind: bernoulli, probability: 0.5}
sweep: {users: [3, 4]}
"""


def run_command(tmp_path, *options):
    """Run a sweep with Ray on the command line; return the exit code and the output."""
    (tmp_path / "small.yaml").write_text(SWEEP)
    arguments = [
        "sweep",
        str(tmp_path / "small.yaml"),
        "--trace",
        "--out",
        str(tmp_path / "s"),
        "--engine",
        "ray",
        *options,
    ]
    result = CliRunner().invoke(app, arguments)
    assert result.exception is None or isinstance(result.exception, SystemExit)  # no traceback
    return result.exit_code, result.output


@pytest.mark.parametrize("address", ["127.0.0.1:9", "ray://127.0.0.1:9", "nowhere"])
def test_a_missing_cluster_is_an_error(monkeypatch, tmp_path, address):
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    code, output = run_command(tmp_path, "--address", address)
    assert code == 1
    assert f"--address: no Ray cluster at '{address}' (" in output
    assert "start one with ray start --head" in output


def test_a_missing_ray_package_is_an_error(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "ray", None)
    code, output = run_command(tmp_path)
    assert (code, output) == (2, "--engine: needs ray, which is not installed ('ray'); pip install 'netfl-sim[ray]'\n")


def test_an_invalid_share_of_a_gpu_is_an_error(tmp_path):
    code, output = run_command(tmp_path, "--gpus", "1.5")
    assert (code, output) == (
        2,
        "--gpus: no such share of a GPU (1.5); write a number from 0 to 1, or a whole number\n",
    )


@pytest.mark.parametrize(
    ("gpus", "resources", "max_workers"),
    [
        (0.0, {"CPU": 3.0}, 3),
        (0.0, {"GPU": 2.0}, 0),
        (0.5, {"CPU": 8.0, "GPU": 2.0}, 4),
        (0.6, {"CPU": 8.0, "GPU": 3.0}, 3),
        (0.5, {"CPU": 1.0, "GPU": 2.0}, 1),
        (2, {"CPU": 8.0, "GPU": 5.0}, 2),
    ],
)
def test_the_number_of_workers_follows_from_the_resources(gpus, resources, max_workers):
    nodes = [{"Alive": True, "Resources": resources | {"CPU": 0.0}}, {"Alive": False, "Resources": {"CPU": 9.0}}]
    client = SimpleNamespace(nodes=lambda: [*nodes, {"Alive": True, "Resources": resources}])
    if max_workers:
        assert Cluster(gpus=gpus).max_workers(client) == max_workers
    else:
        with pytest.raises(MachineError, match="no node of the Ray cluster has a core for a worker"):
            Cluster(gpus=gpus).max_workers(client)


def test_nodes_get_the_python_path_of_the_user(monkeypatch):
    python = [sysconfig.get_path("stdlib"), sysconfig.get_path("purelib"), "/usr/lib/python311.zip"]
    monkeypatch.setattr(sys, "path", ["", *python, "/mine", "/mine"])
    monkeypatch.setenv("NETFL_DATA", "/sets")
    environment = cluster_module._environment()
    assert environment["PYTHONPATH"] == f"{Path.cwd()}:/mine:${{PYTHONPATH}}"
    assert (environment["OMP_NUM_THREADS"], environment["NETFL_DATA"]) == ("1", "/sets")


def test_local_devices_do_not_matter_for_a_cluster(monkeypatch):
    def fail(device):
        raise AssertionError(device)

    monkeypatch.setattr("netfl.learning.tensors.device_of", fail)
    assert build_learner(prepare_run(make_scenario(**LEARNING)), "cuda", Cluster("there:1", workers=2)).lanes[0] == (
        "A",
        0,
    )
