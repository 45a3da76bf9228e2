"""Sweeps and runs on a Ray cluster of three nodes: the same tables as here, whatever happens to nodes and tasks."""

import sys
import sysconfig
import time
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest
from support import slow_access as slow_toys
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
from netfl.sweeps.task import TaskReporter, run_task, task_folder
from netfl.types import RunObserver as Watcher

ray = pytest.importorskip("ray", reason="netfl-sim[ray] is not installed")
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


def a_scenario(pause=0.0, rounds=12, **more):
    slow = {"kind": "support.slow_access:Slow", "pause": pause}
    return validate(ScenarioDocument({"name": "small", "users": 4, "rounds": rounds, "access": slow, **more}, "small"))


class Seeing(SweepObserver):
    """Notes what it is told of tasks, and does *act* once, when so *many* are in their middle."""

    def __init__(self, act=None, many=1):
        self.stop, self.words, self._act, self._many = False, [], act, many
        self._far = {}

    def on_update(self, word):
        self.words.append(word)
        self._far |= {word.task: None if word.ended else word.round}
        if self._act and sum(bool(far) for far in self._far.values()) >= self._many:
            act, self._act = self._act, None
            act(self)

    @property
    def far(self):
        """The rounds that each task was said to have done."""
        found = {}
        for word in self.words:
            if not word.ended:
                found.setdefault(word.task, []).append(word.round)
        return found

    @property
    def ended(self):
        return sorted(word.task for word in self.words if word.ended and not word.stopped)


class Halfway(Watcher):
    """Looks on at a run, and does *act* once, after so many rounds."""

    def __init__(self, act, rounds):
        self._act, self._rounds = act, rounds

    def on_round(self, progress):
        if progress.round == self._rounds:
            self._act()


class Here:
    """Tasks in this process, one after the other, without a pause."""

    def run(self, tasks, folder, heard, stop):
        for task in tasks:
            heard(run_task(task, task_folder(folder, task.key), "cpu", TaskReporter(task.key, heard)))


class World:
    """The cluster, and this process connected to it."""

    def __init__(self):
        self.nodes = import_module("ray.cluster_utils").Cluster(
            initialize_head=True, head_node_args=NODE | {"include_dashboard": False}
        )
        self.others = []
        self.cluster = Cluster(self.nodes.address)

    def kill(self):
        """Kill a node, as if its plug were pulled."""
        self.nodes.remove_node(self.others.pop(), allow_graceful=False)

    def of(self, nodes):
        """Have so many nodes, at least."""
        while 1 + len(self.others) < nodes:
            self.others.append(self.nodes.add_node(wait=False, **NODE))
        self.nodes.wait_for_nodes()
        return self


@pytest.fixture(scope="module")
def world():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        for name, value in {"period": 500, "timeout": 3000, "initial_delay": 500}.items():
            patch.setenv(f"RAY_health_check_{name}_ms", str(value))
        patch.setenv("RAY_health_check_failure_threshold", "3")
        made = World().of(3)
        with made.cluster.connected():
            yield made
        made.nodes.shutdown()


@pytest.fixture
def here(monkeypatch):
    monkeypatch.setattr(slow_toys, "sleep", lambda _: None)
    return Here()


def assert_equal(one, other):
    for name in TABLES:
        assert one.table(name).equals(other.table(name)), name


def assert_same(one, other):
    """Tables of two runs whose lanes were cut into different batches."""
    for name in ("rounds", "deliveries", "events", "users"):
        pd.testing.assert_frame_equal(one.table(name), other.table(name), check_exact=True)
    pd.testing.assert_frame_equal(one.metrics, other.metrics, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_a_sweep_of_networks_is_the_same_as_here(world, here, tmp_path):
    scenario = a_scenario(replicas=2, sweep={"users": [3, 4], "access.offset": [0, 1, 2]})
    wanted = netfl.sweep(scenario, tmp_path / "here", engine=here, learning=False)
    watch = Seeing()
    there = netfl.sweep(scenario, tmp_path / "there", engine=RayEngine(world.cluster), learning=False, observer=watch)
    assert there.status == "done"
    assert len(there.rounds) == 6 * 2 * 12
    assert watch.ended == sorted(there.tasks["task"])
    assert_equal(wanted, there)


@pytest.mark.slow
def test_tasks_that_fail_are_listed_and_begun_again(world, here, tmp_path):
    scenario = a_scenario(replicas=2, sweep={"users": [3, 4], "access.until": [None, 5]})
    sweep = netfl.sweep(scenario, tmp_path / "s", engine=RayEngine(world.cluster), learning=False)
    tasks = sweep.tasks
    failed = tasks["status"] == "failed"
    assert (sweep.status, [*failed]) == ("partial", [False, True] * 2)
    assert all("the toy is broken" in error for error in tasks["error"][failed])
    assert not any(tasks["error"][~failed])
    again = Seeing()
    netfl.sweep(scenario, tmp_path / "s", engine=RayEngine(world.cluster), learning=False, observer=again)
    assert again.ended == sorted(tasks["task"][failed])


def test_an_object_larger_than_a_nodes_store_comes_back(world):
    """What a task sends back may be large: Ray puts on disk what its store has no room for."""
    large = ray.remote(lambda: bytes(150 * 2**20)).remote()
    assert len(ray.get(large, timeout=30)) == 150 * 2**20


@pytest.mark.slow
def test_missing_data_fail_the_tasks_that_need_them(world, here, tmp_path):
    files = [str(tmp_path / name) for name in ("there.csv", "nowhere.csv")]
    (tmp_path / "there.csv").write_text("label,a\n" + "".join(f"{row % 2},{row}\n" for row in range(40)))
    more = LEARNING | {"data": {"kind": "table", "features": 1, "labels": 2, "file": files[0]}}
    Path(files[1]).write_text("label,a\n0,1\n")
    watch = Seeing()
    watch.on_plan = lambda *_: Path(files[1]).unlink()
    scenario = a_scenario(**more, sweep={"data.file": files})
    sweep = netfl.sweep(scenario, tmp_path / "s", engine=RayEngine(world.cluster), observer=watch)
    assert [*sweep.tasks["status"]] == ["done", "failed"]
    assert "data.file: the file does not exist" in sweep.tasks["error"][1]


@pytest.mark.slow
def test_a_sweep_that_is_stopped_ends_soon_and_goes_on_where_it_was(world, here, tmp_path):
    def ask_to_stop(watch):
        watch.stop, watch.at_s = True, time.monotonic()

    scenario = a_scenario(0.15, 20, **LEARNING, sweep={"access.offset": [*range(5)]})
    watch = Seeing(ask_to_stop, many=2)
    stopped = netfl.sweep(scenario, tmp_path / "s", engine=RayEngine(world.of(3).cluster), observer=watch)
    assert time.monotonic() - watch.at_s < 2.5  # where a task takes three
    status = stopped.tasks.set_index("task")["status"]
    begun = {*status[status == "interrupted"].index}
    assert len(begun) in {2, 3}  # as many as there are cores
    assert "missing" in {*status} <= {"missing", "interrupted", "done"}  # what waited has not begun
    done = netfl.sweep(scenario, tmp_path / "s", engine=RayEngine(world.cluster))
    assert {task for task in status.index if done.run(task).manifest["timings"]["rounds_kept"]} == begun
    assert_equal(netfl.sweep(scenario, tmp_path / "here", engine=here), done)


@pytest.mark.slow
def test_the_lanes_of_a_run_are_the_same_as_here(world, here, tmp_path):
    scenario = a_scenario(replicas=2, **LEARNING)
    wanted = netfl.run(scenario, tmp_path / "here", device="cpu")
    there = netfl.run(scenario, tmp_path / "there", workers=replace(world.of(3).cluster, workers=3))
    assert_same(wanted, there)


@pytest.mark.slow
def test_a_node_that_dies_costs_a_sweep_nothing_but_time(world, here, tmp_path):
    scenario = a_scenario(0.2, replicas=2, sweep={"access.offset": [*range(5)]})
    wanted = netfl.sweep(scenario, tmp_path / "here", engine=here, learning=False)
    watch = Seeing(lambda _: world.kill(), many=3)
    there = netfl.sweep(
        scenario, tmp_path / "there", engine=RayEngine(world.of(3).cluster), learning=False, observer=watch
    )
    assert watch.ended == sorted(there.tasks["task"])  # each once
    assert any(rounds != sorted(rounds) for rounds in watch.far.values())  # and one was begun again
    assert_equal(wanted, there)


@pytest.mark.slow
def test_a_node_that_dies_stops_a_run_which_goes_on(world, here, tmp_path):
    scenario = a_scenario(0.1, rounds=40, **LEARNING)
    nodes = len(world.of(2).others) + 1
    with pytest.raises(MachineError, match=r"worker \d of \d has ended .*; continue from the last checkpoint"):
        netfl.run(
            scenario, tmp_path / "s", workers=replace(world.cluster, workers=nodes), observer=Halfway(world.kill, 12)
        )
    assert netfl.open_run(tmp_path / "s").status == "failed"
    done = netfl.resume(tmp_path / "s", device="cpu")
    assert_same(netfl.run(a_scenario(rounds=40, **LEARNING), tmp_path / "whole", device="cpu"), done)


def test_more_workers_than_there_is_room_for_are_refused(world, here, tmp_path):
    with pytest.raises(MachineError, match=r"9 workers are requested, but the Ray cluster has room for \d; write --w"):
        netfl.run(a_scenario(replicas=9, **LEARNING), tmp_path / "s", workers=replace(world.cluster, workers=9))
    with pytest.raises(MachineError, match=r"no node of the Ray cluster has a core and 0\.5 of a GPU"):
        RayEngine(replace(world.cluster, gpus=0.5)).run([], tmp_path, None, None)


SWEEP = """\
name: small
users: 4
rounds: 3
access: {kind: bernoulli, probability: 0.5}
sweep: {users: [3, 4]}
"""


def told(tmp_path, *more):
    """What the command line says of a sweep with Ray: its exit code and its words."""
    (tmp_path / "small.yaml").write_text(SWEEP)
    said = ["sweep", str(tmp_path / "small.yaml"), "--trace", "--out", str(tmp_path / "s"), "--engine", "ray", *more]
    found = CliRunner().invoke(app, said)
    assert found.exception is None or isinstance(found.exception, SystemExit)  # no traceback
    return found.exit_code, found.output


@pytest.mark.parametrize("address", ["127.0.0.1:9", "ray://127.0.0.1:9", "nowhere"])
def test_no_cluster_there_is_told(monkeypatch, tmp_path, address):
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    code, words = told(tmp_path, "--address", address)
    assert code == 1
    assert f"--address: no Ray cluster at '{address}' (" in words
    assert "start one with ray start --head" in words


def test_ray_that_is_not_installed_is_told(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "ray", None)
    code, words = told(tmp_path)
    assert (code, words) == (2, "--engine: needs ray, which is not installed ('ray'); pip install 'netfl-sim[ray]'\n")


def test_a_share_of_a_gpu_that_there_is_not_is_told(tmp_path):
    code, words = told(tmp_path, "--gpus", "1.5")
    assert (code, words) == (
        2,
        "--gpus: no such share of a GPU (1.5); write a number from 0 to 1, or a whole number\n",
    )


@pytest.mark.parametrize(
    ("gpus", "resources", "room"),
    [
        (0.0, {"CPU": 3.0}, 3),
        (0.0, {"GPU": 2.0}, 0),
        (0.5, {"CPU": 8.0, "GPU": 2.0}, 4),
        (0.6, {"CPU": 8.0, "GPU": 3.0}, 3),
        (0.5, {"CPU": 1.0, "GPU": 2.0}, 1),
        (2, {"CPU": 8.0, "GPU": 5.0}, 2),
    ],
)
def test_a_node_holds_so_many_workers(gpus, resources, room):
    nodes = [{"Alive": True, "Resources": resources | {"CPU": 0.0}}, {"Alive": False, "Resources": {"CPU": 9.0}}]
    here = SimpleNamespace(nodes=lambda: [*nodes, {"Alive": True, "Resources": resources}])
    if room:
        assert Cluster(gpus=gpus).max_workers(here) == room
    else:
        with pytest.raises(MachineError, match="no node of the Ray cluster has a core for a worker"):
            Cluster(gpus=gpus).max_workers(here)


def test_nodes_are_told_of_paths_of_the_users_own(monkeypatch):
    python = [sysconfig.get_path("stdlib"), sysconfig.get_path("purelib"), "/usr/lib/python311.zip"]
    monkeypatch.setattr(sys, "path", ["", *python, "/mine", "/mine"])
    monkeypatch.setenv("NETFL_DATA", "/sets")
    said = cluster_module._environment()
    assert said["PYTHONPATH"] == f"{Path.cwd()}:/mine:${{PYTHONPATH}}"
    assert (said["OMP_NUM_THREADS"], said["NETFL_DATA"]) == ("1", "/sets")


def test_devices_of_this_machine_say_nothing_of_a_cluster(monkeypatch):
    def of_this_machine(device):
        raise AssertionError(device)

    monkeypatch.setattr("netfl.learning.tensors.device_of", of_this_machine)
    assert build_learner(prepare_run(a_scenario(**LEARNING)), "cuda", Cluster("there:1", workers=2)).lanes[0] == (
        "A",
        0,
    )
