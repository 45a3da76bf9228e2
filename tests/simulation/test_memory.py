"""Estimates of memory: runs that do not fit are refused before they start."""

import subprocess
import sys
import tracemalloc
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

import netfl
from netfl.errors import ScenarioError
from netfl.learning import tensors
from netfl.learning.aggregation.average import Average
from netfl.learning.aggregation.fedavgm import Fedavgm
from netfl.learning.aggregation.mifa import Mifa
from netfl.learning.codec import Codecs
from netfl.learning.codec.top_k import TopK
from netfl.learning.objective.erm import Erm
from netfl.learning.parallel_learner import ParallelLearner
from netfl.learning.spec import LearnerSpec
from netfl.scenario.scenario import validate
from netfl.scenario.yaml_document import ScenarioDocument
from netfl.simulation import dry_run, memory
from netfl.simulation import learners as learner_module
from netfl.simulation.dry_run import DryRun
from netfl.simulation.setup import prepare_run
from netfl.simulation.workers.ray_cluster import Cluster
from netfl.streams import Streams

GB = 10**9


def learners(aggregation):
    return {"mine": LearnerSpec(objective=Erm(), aggregation=aggregation, lr=0.1, batch_size=10, local_steps=1)}


def estimate(aggregation, **sizes):
    """The estimate for 8 replicas of 552,874 parameters."""
    common = {"users": 250, "max_deliveries": 10, "parameters": 552_874, "replicas": 8}
    return memory.MemoryEstimate(learners=learners(aggregation), **common | sizes)


@pytest.mark.parametrize(
    ("options", "models"),
    [
        ({}, 252 * 8 + 6 * 8 + 5 * 10 + 6 * 15),
        ({"max_deliveries": 250}, 252 * 8 + 6 * 8 + 5 * 250 + 6 * 15),
        ({"max_deliveries": 1}, 252 * 8 + 6 * 8 + 5 * 1 + 6 * 8),
        ({"has_baseline": True}, 252 * 8 + 8 * 8 + 5 * 10 + 6 * 15),
        ({"workers": 2}, 252 * 8 + 6 * 8 + 2 * (5 * 10 + 6 * 15)),
    ],
)
def test_estimate_counts_all_arrays(options, models):
    """The arrays are user states, lanes, updates and models trained at once, at 4 bytes per parameter."""
    processes = 2 * 300 * 2**20 if "workers" in options else 0
    assert estimate(Mifa(), **options).total_bytes == pytest.approx(4 * 552_875 * models + processes, rel=1e-3)


def test_copied_examples_are_counted():
    copied = estimate(Average(), example_bytes=3 * GB)
    assert copied.total_bytes == 3 * GB + estimate(Average()).total_bytes


class Counted(Average):
    """Keeps a number for each user."""

    def memory(self, users, parameters):
        return users


def test_users_that_cannot_deliver_are_not_counted():
    """One delivery in each of 100 rounds fills 100 rows, and a table has half as many more.

    A rule with a tensor of all users counts all of them.
    """
    model_bytes = 4 * 8 * 552_875
    few = {"max_deliveries": 1, "rounds": 100, "codecs": Codecs(TopK(share=0.1))}
    assert estimate(Mifa(), **few).state_bytes == model_bytes * 152
    assert estimate(Fedavgm(inner=Mifa()), **few).state_bytes == model_bytes * (152 + 1)
    assert estimate(Average(), **few).device_bytes == 4 * 8 * 552_874 * 150
    assert estimate(Counted(), **few).state_bytes == 4 * 8 * 250
    assert estimate(Mifa(), rounds=100).state_bytes == estimate(Mifa()).state_bytes == model_bytes * 252


@pytest.mark.parametrize(
    ("options", "rounds", "versions"),
    [
        ({}, 100, 0),
        ({"base": "last_participation"}, 100, 100),
        ({"base": "last_participation"}, 10_000, 8 * 250),
        ({"base": "last_participation"}, None, 8 * 250),
        ({"base": "own", "on_loss": "keep"}, 100, 100),
        ({"base": "own", "on_loss": "keep"}, 10_000, 10_000),
        ({"base": "own", "on_loss": "keep"}, None, 8 * 250),
        ({"base": "own"}, 10_000, 0),
    ],
)
def test_versions_that_users_may_need_are_counted(options, rounds, versions):
    """A user that keeps what it trains in vain may need all versions, if it is never delivered."""
    specs = {"A": learners(Average())["mine"], "B": learners(Average())["mine"].model_copy(update=options)}
    sizes = {"users": 250, "max_deliveries": 10, "parameters": 552_874, "replicas": 8, "rounds": rounds}
    counted = memory.MemoryEstimate(learners=specs, **sizes)
    assert counted.version_bytes == 4 * 552_875 * 2 * 8 * (6 + versions)
    assert counted.old_version_bytes == 4 * 552_875 * 2 * 8 * versions


def test_aggregation_without_state_needs_less_memory_per_update():
    average = estimate(Average(), max_deliveries=250)
    assert average.state_bytes == 0
    assert average.update_bytes == 4 * 552_875 * 3 * 250
    assert average.total_bytes == 4 * 552_875 * (6 * 8 + 3 * 250 + 6 * 15)


def test_the_estimate_is_the_sum_of_its_holders():
    """8 lanes, 2 workers and 10 deliveries; a lane trains 10 models in 6 copies, at most 15 at once."""
    counted = estimate(Mifa(), workers=2, has_baseline=True, example_bytes=GB)
    model_bytes = 4 * 552_875
    assert counted.version_bytes == model_bytes * 8 * 8
    assert counted.update_bytes == model_bytes * 2 * 5 * 10
    assert counted.training_bytes == model_bytes * 2 * 6 * 15
    assert counted.process_bytes == 2 * 300 * 2**20
    holders = ("version", "state", "update", "training", "example", "process")
    assert counted.total_bytes == sum(getattr(counted, f"{holder}_bytes") for holder in holders)


@pytest.mark.parametrize(("free", "jobs"), [(80 * GB, 2000), (8 * GB, 226), (0, 15)])
def test_a_gpu_trains_as_many_models_at_once_as_fit(free, jobs):
    """One copy of them takes a sixteenth of its free memory, or what a CPU trains at once; processes are elsewhere."""
    on_gpu = estimate(Average(), max_deliveries=250, workers=2, gpu_bytes=free)
    assert on_gpu.total_bytes == 4 * 552_875 * (6 * 8 + 2 * (3 * 250 + 6 * jobs))


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the system does not tell a process's own peak")
@pytest.mark.slow
def test_peak_memory_of_a_round_is_at_most_the_estimate():
    """Train 200 users with 2 learners of 50,890 parameters in one round.

    Training all users at once would need 400 models in six copies each.
    """
    result = subprocess.run([sys.executable, "-c", ROUND], check=True, capture_output=True, text=True)
    taken, counted = map(int, result.stdout.split())
    assert 0 < taken < counted < 400 * 50_890 * 4 * 3


ROUND = """
import numpy as np
from netfl.learning import batch_limits
from netfl.learning.aggregation.average import Average
from netfl.learning.data import Dataset
from netfl.learning.learner import BatchedLearner, LearningTask
from netfl.learning.model.mlp import Mlp
from netfl.learning.objective.erm import Erm
from netfl.learning.spec import EvaluateSpec, LearnerSpec
from netfl.learning.user_data import ReplicaData
from netfl.streams import Streams
from netfl.types import Delivery, Round

batch_limits._TRAINED = 1 << 20
spec = LearnerSpec(objective=Erm(), aggregation=Average(), lr=0.1, batch_size=2, local_steps=2, momentum=0.5)
x = np.zeros((400, 784), np.float32)
data = Dataset(x, np.arange(400) % 10, x[:10], np.arange(10), 10)
replica = ReplicaData(0, data, np.array_split(np.arange(400), 200), Streams(0))
one = BatchedLearner(LearningTask(learners={"a": spec, "b": spec}, model=Mlp(hidden=(64,)), replicas=[replica],
    evaluate=EvaluateSpec(every=10), rounds=10, device="cpu"))
peak = lambda: int(open("/proc/self/status").read().split("VmHWM:")[1].split()[0]) * 1024
def hear(index, users):
    updates = tuple(Delivery(user=user, base=index - 1, sent_s=0.0, arrived_s=1.0) for user in range(users))
    one.step([Round(index=index, opened_s=0.0, closed_s=1.0, deliveries=updates, oldest=index - 1)])
hear(1, 1)
before = peak()
hear(2, 200)
model = 50_890 + 1
print(peak() - before, 4 * model * (3 * 200 + 6 * (2**20 // model)))
"""


GROUPS = {
    "cgroup v2": ("sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"),
    "cgroup v1": (
        "sys/fs/cgroup/memory",
        "memory.limit_in_bytes",
        "memory.usage_in_bytes",
        "total_inactive_file",
    ),
}


@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize(("limit", "expected"), [("5000", 3300), ("max", 8 << 10), (str(1 << 62), 8 << 10)])
def test_available_memory_is_the_minimum_of_machine_and_control_group(tmp_path, group, limit, expected):
    folder, limit_file, usage_file, reclaimable = GROUPS[group]
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text("MemTotal:  99 kB\nMemAvailable:    8 kB\n")
    assert memory.available(tmp_path) == 8 << 10
    (tmp_path / folder).mkdir(parents=True)
    (tmp_path / folder / limit_file).write_text(limit)
    (tmp_path / folder / usage_file).write_text("2000")
    (tmp_path / folder / "memory.stat").write_text(f"anon 1700\n{reclaimable} 300\n")
    assert memory.available(tmp_path) == expected


def test_a_limit_of_the_address_space_counts():
    """``ulimit -v`` leaves less than the machine has."""
    code = """
import resource
from netfl.simulation import memory
before = memory.available()
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 10_000_000, resource.RLIM_INFINITY))
assert before > 10_000_000 >= memory.available() > 0, (before, memory.available())
"""
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.fixture
def estimates(monkeypatch):
    """The estimates that check a run, in order."""
    estimates, total = [], memory.MemoryEstimate.total_bytes.fget
    monkeypatch.setattr(
        memory.MemoryEstimate, "total_bytes", property(lambda self: (estimates.append(self), total(self))[1])
    )
    return estimates


def test_run_that_exceeds_the_available_memory_is_refused(monkeypatch, estimates):
    """3 replicas of 2 learners of 387 parameters, with one delivery per round and baselines."""
    fig2a = Path(__file__).parents[2] / "scenarios/paper/fig2a.yaml"
    setup = prepare_run(netfl.load(fig2a, {"evaluate.metrics": ["weight_divergence"]}, ["full"]))
    monkeypatch.setattr(memory, "available", lambda: 0)
    with pytest.raises(ScenarioError, match=r"learners: they need 0\.000\d+ GB of memory, but 0 GB .* 387 parameters"):
        learner_module.build_learner(setup, "cpu")
    assert estimates[-1] == memory.MemoryEstimate(
        learners=setup.scenario.learners,
        users=3,
        max_deliveries=1,
        parameters=387,
        replicas=3,
        has_baseline=True,
        rounds=setup.scenario.planned_rounds,
    )
    with pytest.raises(ScenarioError, match="387 parameters"):
        learner_module.build_learner(setup, "cpu", workers=99)
    assert estimates[-1].workers == 6, "there are no more workers than lanes"


def test_unknown_available_memory_refuses_nothing(monkeypatch):
    monkeypatch.setattr(memory, "available", lambda: None)
    setup = prepare_run(netfl.load(Path(__file__).parents[2] / "scenarios/paper/fig2a.yaml"))
    memory.check_learners(setup.scenario, setup.dataset, len(setup.replicas), "cpu", 10**6, None)


def test_learners_on_a_gpu_need_its_memory_only(monkeypatch, estimates):
    setup = prepare_run(netfl.load("scenarios/rural_outage.yaml", {"rounds": 2, "replicas": 2, "tuning": None}))
    monkeypatch.setattr(memory, "available", lambda: 0)
    monkeypatch.setattr(tensors, "device_of", lambda _: torch.device("cuda"))
    monkeypatch.setattr(tensors, "free_gpu_memory", lambda _: 8 * GB)
    memory.check_learners(setup.scenario, setup.dataset, len(setup.replicas), "auto", 2, None)
    assert estimates[-1].gpu_bytes == 8 * GB
    assert estimates[-1].example_bytes == 2 * 4 * (setup.dataset.train_x.size + setup.dataset.test_x.size)
    assert memory.estimate_memory(setup.scenario) == memory.estimate_memory(setup.scenario, 1)
    monkeypatch.setattr(tensors, "free_gpu_memory", lambda _: 1000)
    with pytest.raises(ScenarioError, match=r"they need 0\.\d+ GB of GPU memory, but 1e-06 GB are available"):
        memory.check_learners(setup.scenario, setup.dataset, len(setup.replicas), "auto", 2, None)


def test_local_ray_run_that_exceeds_the_memory_is_refused_before_ray_starts(monkeypatch, estimates):
    """Each worker has its own copy of the examples; the memory of a remote cluster is unknown."""
    monkeypatch.setitem(sys.modules, "ray", None)  # an import would fail
    changes = {"rounds": 2, "replicas": 2, "partition.by": "distance", "tuning": None}
    setup = prepare_run(netfl.load("scenarios/rural_outage.yaml", changes))
    monkeypatch.setattr(memory, "available", lambda: 0)
    with pytest.raises(ScenarioError, match=r"they need .* GB of memory, but 0 GB are available"):
        learner_module.build_learner(setup, workers=Cluster(workers=4))
    assert estimates[-1].workers == 4
    assert estimates[-1].example_bytes == 4 * 4 * (setup.dataset.train_x.size + setup.dataset.test_x.size)
    assert isinstance(learner_module.build_learner(setup, workers=Cluster("auto", workers=4)), ParallelLearner)


DIRECT = {"access": {"kind": "bernoulli", "probability": 0.5}, "users": 20, "rounds": 30}
BLOBS = {"kind": "blobs", "centers": [[0, 0], [3, 3]]}
LEARNING = {
    "data": BLOBS, "partition": "iid", "model": "logistic",
    "learners": {"a": {"objective": "erm", "aggregation": "average", "lr": 0.1, "batch_size": 4, "local_steps": 5}},
}  # fmt: skip


def make_scenario(**settings):
    return validate(ScenarioDocument({"name": "x"} | settings, "x"))


def test_too_many_users_are_refused_before_the_run():
    scenario = make_scenario(**DIRECT | {"users": 10**7, "rounds": 1, "replicas": 10**6, "record": "none"})
    with pytest.raises(ScenarioError, match=r"users: they need 4e\+06 GB of memory, .*use fewer users or replicas"):
        prepare_run(scenario, learning=False)


@pytest.mark.parametrize(
    "data",
    [BLOBS | {"samples": 10**12}, {"kind": "synthetic", "users": 10**11}, {"kind": "synthetic", "users": 10**10}],
)
def test_too_many_synthetic_examples_are_refused_before_the_run(data):
    scenario = make_scenario(**DIRECT, **LEARNING | {"data": data})
    with pytest.raises(ScenarioError, match=r"data: they need [\d.,e+]+ GB of memory, but .* are available.*use fewer"):
        prepare_run(scenario)
    prepare_run(scenario, learning=False)


def test_memory_of_synthetic_examples_matches_the_estimate():
    for data in (BLOBS | {"samples": 1000}, {"kind": "synthetic", "users": 60, "sigma": 1}):
        family = make_scenario(**DIRECT, **LEARNING | {"data": data}).data
        family.load(Streams(0))  # imports modules first
        tracemalloc.start()
        family.load(Streams(0))
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert 0.5 * peak < family.memory < 2 * peak


def test_fewer_deliveries_need_less_memory():
    """Each delivery needs three models of six float32 values, and copies while it trains."""
    scenario = make_scenario(**DIRECT, **LEARNING)
    fewer, default = memory.estimate_memory(scenario, 6), memory.estimate_memory(scenario)
    assert 450e6 < fewer < default == memory.estimate_memory(scenario, 20) < 451e6


def test_run_that_exceeds_the_available_memory_gets_a_warning(monkeypatch):
    monkeypatch.setattr(memory, "available", lambda: 10**9)
    assert [*DryRun(1.0, 9e8).warnings()] == []
    (warning,) = DryRun(1.0, 2e9).warnings()
    assert warning == "large: the run needs about 2 GB of memory, but 1 GB are available"


@pytest.mark.parametrize(
    ("need", "problem"),
    [
        (DryRun(1.0, 2.1e9), "the run would need about 2.1 GB of memory, but 1 GB are available"),
        (
            DryRun(1.0, 9e8, disk=2.2e9),
            "the run would need about 2.2 GB of disk, but 1 GB are available in this folder",
        ),
    ],
)
def test_run_of_which_half_does_not_fit_is_refused(monkeypatch, need, problem):
    """The estimates may be wrong by a factor of 2."""
    monkeypatch.setattr(memory, "available", lambda: 10**9)
    monkeypatch.setattr(dry_run.shutil, "disk_usage", lambda _: SimpleNamespace(free=10**9))
    monkeypatch.setattr(dry_run, "_measure", lambda *_: need)
    with pytest.raises(ScenarioError, match=f"rounds: {problem}"):
        dry_run.run_dry(make_scenario(**DIRECT))


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ({"rounds": 10**10, "access": DIRECT["access"] | {"round_length": "1 ms"}}, "rounds"),
        ({"users": 1, "rounds": 1, "replicas": 10**6, "access": {"kind": "bernoulli", "probability": 0.5}}, "replicas"),
    ],
)
def test_too_many_rounds_and_replicas_are_refused_before_the_run(monkeypatch, settings, key):
    monkeypatch.setattr(memory, "available", lambda: 10**9)
    with pytest.raises(ScenarioError, match=f"{key}: they need .* of memory, but 1 GB are available; use fewer"):
        prepare_run(make_scenario(**DIRECT | {"record": "none"} | settings), learning=False)


@pytest.mark.parametrize(
    ("settings", "key"), [({"rounds": 10**6}, "rounds"), ({"rounds": 1, "replicas": 1000}, "replicas")]
)
@pytest.mark.parametrize("act", [netfl.run, netfl.trace])
def test_runs_without_disk_space_are_refused_before_they_begin(monkeypatch, tmp_path, act, settings, key):
    monkeypatch.setattr(memory.shutil, "disk_usage", lambda _: SimpleNamespace(free=10**6))
    with pytest.raises(ScenarioError, match=f"{key}: they need at least .* of disk, but 1 MB are available; use fewer"):
        act(make_scenario(**DIRECT | settings), tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("key", ["users", "rounds", "replicas"])
def test_very_large_numbers_are_errors(key):
    with pytest.raises(ScenarioError, match=f"{key}: should be less than"):
        make_scenario(**DIRECT | {key: 10**30})
